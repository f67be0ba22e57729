//! A line of `--input-format stream-json`: understood or refused with its number, never a panic.
#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|text: &str| {
    if let Err(error) = becket_print::parse_line(7, text) {
        assert!(error.to_string().contains('7'));
    }
});
