//! Variables that a hook sets for later commands: lines `export NAME=VALUE` in the file of `CLAUDE_ENV_FILE`.
//!
//! The lines are read, not run: a value is text, in quotes or not, with `$NAME` and `${NAME}` in it. Anything else is left out.

use becket_hooks::TakeExports;
use becket_tool_shell::Shell;
use becket_types::is_obeyed_variable;
use std::sync::Arc;

/// Returns a function that sets the variables for the commands of this shell.
pub(crate) fn into_shell(shell: &Arc<Shell>) -> TakeExports {
    let shell = Arc::clone(shell);
    Arc::new(move |text, of_project| {
        for line in text.lines() {
            let variable = |name: &str| shell.variable(name)?.into_string().ok();
            let Some((name, value)) = assignment(line, &variable) else { continue };
            // A project's hook may be trusted to run, but not to decide which programs commands are.
            if !(of_project && is_obeyed_variable(&name)) {
                shell.export(&name, &value);
            }
        }
    })
}

/// Reads one assignment.
fn assignment(line: &str, variable: &dyn Fn(&str) -> Option<String>) -> Option<(String, String)> {
    let line = line.trim();
    let line = ["export ", "declare -x ", "typeset -x "]
        .iter()
        .find_map(|start| line.strip_prefix(start))
        .unwrap_or(line);
    let (name, value) = line.trim_start().split_once('=')?;
    let is_name = name.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_')
        && name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_');
    Some((name.to_owned(), value_of(value, variable)?)).filter(|_| is_name)
}

/// Reads a value as a shell does. `None` if it has something that must be run or that ends the assignment.
fn value_of(text: &str, variable: &dyn Fn(&str) -> Option<String>) -> Option<String> {
    let mut out = String::new();
    let mut rest = text;
    let mut double = false;
    while let Some(c) = rest.chars().next() {
        rest = &rest[c.len_utf8()..];
        match c {
            '"' => double = !double,
            '\'' if !double => {
                let (inner, after) = rest.split_once('\'')?;
                out.push_str(inner);
                rest = after;
            }
            '\\' => {
                let next = rest.chars().next()?;
                if double && !matches!(next, '"' | '\\' | '$' | '`') {
                    out.push('\\');
                }
                out.push(next);
                rest = &rest[next.len_utf8()..];
            }
            '`' => return None,
            '$' => {
                let (name, after) = match rest.strip_prefix('{') {
                    Some(braced) => braced.split_once('}')?,
                    None => {
                        let end = rest.find(|c: char| !(c.is_ascii_alphanumeric() || c == '_'));
                        rest.split_at(end.unwrap_or(rest.len()))
                    }
                };
                if !name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_') || name.is_empty() {
                    return None;
                }
                out.push_str(&variable(name).unwrap_or_default());
                rest = after;
            }
            ';' | '&' | '|' | '<' | '>' | '(' | ')' if !double => return None,
            c if c.is_whitespace() && !double => {
                // A comment may follow.
                return Some(out)
                    .filter(|_| rest.trim_start().is_empty() || rest.trim_start().starts_with('#'));
            }
            c => out.push(c),
        }
    }
    Some(out).filter(|_| !double)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_read_as_a_shell_reads_them() {
        let variable = |name: &str| (name == "PATH").then(|| "/bin".to_owned());
        for (line, want) in [
            ("export FOO=bar", Some(("FOO", "bar"))),
            ("FOO='a b' # why", Some(("FOO", "a b"))),
            ("export FOO=\"a \\\"b\\\" $PATH\"", Some(("FOO", "a \"b\" /bin"))),
            ("export PATH=/x:${PATH}", Some(("PATH", "/x:/bin"))),
            ("declare -x FOO=\"1\"", Some(("FOO", "1"))),
            ("export FOO='a'\\''b'", Some(("FOO", "a'b"))),
            ("export FOO=", Some(("FOO", ""))),
            ("export FOO=$GONE", Some(("FOO", ""))),
            ("export FOO=$(date)", None),
            ("export FOO=`date`", None),
            ("FOO=1; touch evil", None),
            ("FOO=1 touch evil", None),
            ("export FOO=\"open", None),
            ("export 1FOO=x", None),
            ("touch evil", None),
            ("", None),
        ] {
            let found = assignment(line, &variable);
            let found = found.as_ref().map(|(name, value)| (name.as_str(), value.as_str()));
            assert_eq!(found, want, "{line}");
        }
    }
}
