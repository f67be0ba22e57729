//! Text with secrets: masking it once is masking it twice, and what was JSON stays JSON.
#![no_main]

use becket_session::secrets::mask;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|text: &str| {
    let (once, _) = mask(text);
    assert_eq!(mask(&once).0, once);
    let json = serde_json::to_string(text).unwrap();
    let masked = mask(&json).0;
    assert!(serde_json::from_str::<serde_json::Value>(&masked).is_ok(), "{masked}");
});
