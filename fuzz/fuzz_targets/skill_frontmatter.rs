//! The head of a `SKILL.md`: read or left out with a reason, never a panic.
#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|text: &str| {
    if let Err(why) = becket_tool_skill::fuzzing::frontmatter(text) {
        assert!(!why.is_empty());
    }
});
