//! Settings in TOML and JSON: read or refused with messages, never a panic.
#![no_main]

use becket_config::{Inputs, load};
use libfuzzer_sys::fuzz_target;
use std::collections::BTreeMap;
use std::path::Path;

fuzz_target!(|text: &str| {
    let settings = Some(("--settings".to_owned(), text.to_owned()));
    let env = BTreeMap::new();
    let (home, cwd) = (Path::new("/home/user"), Path::new("/project"));
    let loaded = load(&Inputs { files: Vec::new(), settings, env: &env, keys: None, trusted: true, approved: Vec::new(), driven: false, flags: Vec::new(), home, cwd });
    if let Err(error) = loaded {
        assert!(!error.to_string().is_empty());
    }
});
