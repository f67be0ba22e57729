//! Edits of any bytes: what lies outside of the replaced ranges is copied, and the ranges are apart.
#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|input: (Vec<u8>, Vec<(String, String)>)| {
    let (bytes, edits) = input;
    let edits: Vec<(&str, &str)> = edits.iter().map(|(old, new)| (old.as_str(), new.as_str())).collect();
    let Ok((after, cuts)) = becket_tool_edit::fuzzing::edit(&bytes, &edits) else { return };
    let (mut end, mut kept) = (0, 0);
    for cut in &cuts {
        assert!(cut.start >= end && cut.end >= cut.start, "{cuts:?}");
        kept += cut.start - end;
        end = cut.end;
    }
    kept += bytes.len() - end;
    assert!(after.len() >= kept);
    if let (Some(first), Some(last)) = (cuts.first(), cuts.last()) {
        assert_eq!(bytes[..first.start], after[..first.start]);
        assert!(after.ends_with(&bytes[last.end..]));
    }
});
