//! See `act_policy_fuzz::config`.
#![no_main]

libfuzzer_sys::fuzz_target!(|text: &str| act_policy_fuzz::config(text));
