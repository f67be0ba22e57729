//! A command line before the guard: never a panic, the same verdict twice, and a denied command stays denied whatever stands
//! behind it in the script.
#![no_main]

use becket_guard::{Guard, GuardSettings, Verdict};
use becket_types::Access;
use libfuzzer_sys::fuzz_target;
use serde_json::Value;

fuzz_target!(|command: &str| {
    let guard = Guard::new(GuardSettings { roots: vec!["/project".into()], ..GuardSettings::default() });
    let check = |command: &str| guard.check("bash", &Access::execute(command), &Value::Null);
    assert_eq!(check(command), check(command));
    assert!(!matches!(check(&format!("rm -rf /\n{command}")), Verdict::Allow { .. }));
});
