//! Any bytes as text: a range of the text is a range of the bytes, and those bytes alone are the text again.
#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|input: (Vec<u8>, usize, usize)| {
    let (bytes, from, length) = input;
    let from = from % (bytes.len() * 2 + 1);
    let range = from..from + length % 64;
    let (name, place) = becket_tool_edit::fuzzing::decode(&bytes, range);
    assert!(!name.is_empty());
    if let Some((text, range)) = place {
        let part = bytes.get(range).expect("inside of the file");
        if name == "UTF-8" {
            assert_eq!(part, text.as_bytes());
        }
        assert_eq!(part.is_empty(), text.is_empty());
    }
});
