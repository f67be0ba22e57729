//! Fuzzes the search for the place of an edit: every match lies inside the text, on character boundaries, in order and without
//! overlap.
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
