//! Tests of the built programs.
