//! The first bytes that a confined command sends to the proxy: none of them make it panic.
#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| becket_network::read_request(bytes));
