#![no_main]
libfuzzer_sys::fuzz_target!(|data: &[u8]| blockgate_fuzz::staging(data));
