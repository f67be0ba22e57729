//! Shell text before the parser: never a panic, the same result twice, no part left out without a doubt, and no command hidden
//! by what follows it.
#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|source: &str| {
    assert_eq!(becket_shell_syntax::fuzzing::check(source), Ok(()));
});
