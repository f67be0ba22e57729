//! `becket config`: every setting with its value and its origin.

use crate::args::ConfigCommandArgs;
use crate::cmd::write;
use crate::environment::Environment;
use crate::failure::Failure;
use crate::settings::configuration;
use becket_config::Row;
use serde_json::{Value, json};
use std::fmt::Write as _;
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
    let of_screen = crate::interactive::preferences::complaints(environment, &settings.config);
    let warnings: Vec<String> = settings.warnings.iter().map(ToString::to_string).chain(of_screen).collect();
    if args.json {
        let rows: Vec<Value> = rows
            .iter()
            .map(|row| json!({ "key": row.key, "value": value(&row.value), "source": row.source }))
            .collect();
        return write(out, &format!("{}\n", json!({ "settings": rows, "warnings": warnings })));
    }
    write(out, &table(&rows, usize::MAX))?;
    for warning in &warnings {
        write(out, &format!("warning: {warning}\n"))?;
    }
    Ok(())
}

/// Lays out keys, values and sources in columns. If a row is wider than `columns`, its value and source are split into
/// lines below its key, so that the terminal wraps nothing.
pub(crate) fn table(rows: &[Row], columns: usize) -> String {
    const INDENT: usize = 4;
    let width = rows.iter().map(|r| r.key.chars().count()).max().unwrap_or(0);
    let mut text = String::new();
    for row in rows {
        let value = if row.value.is_empty() { "-" } else { &row.value };
        let line = format!("{:<width$}  {value:<24}  {}", row.key, row.source);
        if line.chars().count() <= columns {
            let _ = writeln!(text, "{line}");
            continue;
        }
        let _ = writeln!(text, "{}", row.key);
        for part in [value, &row.source] {
            let chars: Vec<char> = part.chars().collect();
            for piece in chars.chunks(columns.saturating_sub(INDENT).max(1)) {
                let _ = writeln!(text, "{:INDENT$}{}", "", piece.iter().collect::<String>());
            }
        }
    }
    text
}

/// Returns the value that a row's text represents. A masked value stays text.
fn value(text: &str) -> Value {
    match text {
        "" => Value::Null,
        _ => serde_json::from_str(text).unwrap_or_else(|_| Value::from(text)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_row_is_wider_than_the_page() {
        let row = |key: &str, value: &str, source: &str| Row {
            key: key.to_owned(),
            value: value.to_owned(),
            source: source.to_owned(),
        };
        let rows = [
            row("effort", "\"high\"", "session"),
            row(
                "permissions.allow",
                &"x".repeat(100),
                "/a/long/path/to/the/configuration/file/config.toml:12",
            ),
        ];
        let text = table(&rows, 60);
        assert!(text.lines().all(|line| line.chars().count() <= 60), "{text}");
        assert!(
            text.starts_with(
                "effort             \"high\"                    session\npermissions.allow\n    xxx"
            ),
            "{text}"
        );
        assert!(text.contains("config.toml:12"), "{text}");
        assert_eq!(table(&rows, usize::MAX).lines().count(), 2);
    }
}
