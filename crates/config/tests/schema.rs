//! The shipped schema is the one that the types give. `UPDATE_SCHEMA=1 cargo test -p becket-config` writes it again.

use std::path::Path;

#[test]
fn the_shipped_schema_is_current() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/config.schema.json");
    let current = serde_json::to_string_pretty(&becket_config::json_schema()).unwrap() + "\n";
    if std::env::var_os("UPDATE_SCHEMA").is_some() {
        std::fs::write(&path, &current).unwrap();
    }
    let shipped = std::fs::read_to_string(&path).unwrap_or_default();
    assert!(
        shipped == current,
        "docs/config.schema.json is old: UPDATE_SCHEMA=1 cargo test -p becket-config"
    );
}
