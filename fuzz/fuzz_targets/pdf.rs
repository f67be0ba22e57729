//! The text of a PDF: whatever the bytes are, there is text or a reason, within the limits of a call. A panic of the library
//! on its thread counts as a crash here.
#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|input: Vec<u8>| {
    let mut bytes = b"%PDF-1.7\n".to_vec();
    bytes.extend(input);
    if let Ok(text) = becket_tool_read::fuzzing::pdf(bytes) {
        assert!(text.len() <= 48 * 1024);
    }
});
