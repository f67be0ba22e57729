//! A notebook as text: every cell is named, and nothing that colours a terminal is left of its outputs.
#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|input: &[u8]| {
    if let Some(text) = becket_tool_read::fuzzing::notebook(input) {
        assert!(text.is_empty() || text.starts_with("## cell 1 ("));
    }
});
