//! The part of xtask that tests may use directly: writing the `act:component` section.

pub mod pack;
