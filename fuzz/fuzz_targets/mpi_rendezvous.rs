#![no_main]
libfuzzer_sys::fuzz_target!(|data: &[u8]| farpost_fuzz::mpi_rendezvous::run(data));
