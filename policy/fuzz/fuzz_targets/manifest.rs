//! See `act_policy_fuzz::manifest`.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| act_policy_fuzz::manifest(bytes));
