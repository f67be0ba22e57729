//! `becket config`: every setting with its value and its origin.

use crate::args::ConfigCommandArgs;
use crate::cmd::write;
use crate::environment::Environment;
use crate::failure::Failure;
use crate::settings::configuration;
use serde_json::{Value, json};
use std::io::Write;
use std::path::Path;

pub(crate) fn run(
    environment: &Environment,
    cwd: &Path,
    args: &ConfigCommandArgs,
    out: &mut dyn Write,
) -> Result<(), Failure> {
    if args.schema {
        let schema = serde_json::to_string_pretty(&becket_config::json_schema())
            .map_err(|e| Failure::error(e.to_string()))?;
        return write(out, &format!("{schema}\n"));
    }
    let settings = configuration(environment, cwd, &args.config, Vec::new(), true)?;
    let rows = settings.explain();
    if args.json {
        let rows: Vec<Value> = rows
            .iter()
            .map(|row| json!({ "key": row.key, "value": value(&row.value), "source": row.source }))
            .collect();
        let warnings: Vec<String> = settings.warnings.iter().map(ToString::to_string).collect();
        return write(out, &format!("{}\n", json!({ "settings": rows, "warnings": warnings })));
    }
    let width = rows.iter().map(|r| r.key.chars().count()).max().unwrap_or(0);
    for row in &rows {
        let value = if row.value.is_empty() { "-" } else { &row.value };
        write(out, &format!("{:<width$}  {value:<24}  {}\n", row.key, row.source))?;
    }
    for warning in &settings.warnings {
        write(out, &format!("warning: {warning}\n"))?;
    }
    Ok(())
}

/// Returns the value that a row's text represents. A masked value stays text.
fn value(text: &str) -> Value {
    match text {
        "" => Value::Null,
        _ => serde_json::from_str(text).unwrap_or_else(|_| Value::from(text)),
    }
}
