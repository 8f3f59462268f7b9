//! See `act_policy_fuzz::path`.
#![no_main]

libfuzzer_sys::fuzz_target!(|text: &str| act_policy_fuzz::path(text));
