//! Any text as a patch: parsed or refused, and what is parsed names at least one file.
#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|text: &str| {
    let whole = format!("*** Begin Patch\n{text}\n*** End Patch");
    for patch in [text, &whole] {
        assert_ne!(becket_tool_edit::fuzzing::patch(patch), Some(0));
    }
});
