#![no_main]
libfuzzer_sys::fuzz_target!(|data: &[u8]| farpost_fuzz::portals_host::run(data));
