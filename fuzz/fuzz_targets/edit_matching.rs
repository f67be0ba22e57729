//! Which place an edit means: whatever is found lies in the text, on character borders, in order and apart.
#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|input: (String, String, String, bool)| {
    let (text, old, new, all) = input;
    let mut end = 0;
    for range in becket_tool_edit::fuzzing::places(&text, &old, &new, all) {
        assert!(range.start >= end && text.get(range.clone()).is_some(), "{range:?}");
        end = range.end;
    }
});
