//! Variables that a hook sets for later commands: lines `export NAME=VALUE` in the file of `CLAUDE_ENV_FILE`.
//!
//! The lines are read by `becket-shell-syntax`, not run: a value is text, in quotes or not, with `$NAME`, `${NAME}` and `~` in it.
//! Anything else is left out.

use becket_hooks::TakeExports;
use becket_shell_syntax::assignments;
use becket_tool_shell::Shell;
use becket_types::is_obeyed_variable;
use std::sync::Arc;

/// Returns a function that sets the variables for the commands of this shell.
pub(crate) fn into_shell(shell: &Arc<Shell>) -> TakeExports {
    let shell = Arc::clone(shell);
    Arc::new(move |text, of_project| {
        let variable = |name: &str| shell.variable(name)?.into_string().ok();
        // A project's hook may be trusted to run, but not to decide by variables such as `PATH` which programs later commands run.
        let may_set = |name: &str| !(of_project && is_obeyed_variable(name));
        for (name, value) in exports(text, &may_set, &variable) {
            shell.export(&name, &value);
        }
    })
}

/// Returns the variables that a text sets, in its order. A value may use those that the text sets before.
fn exports(
    text: &str,
    may_set: &dyn Fn(&str) -> bool,
    variable: &dyn Fn(&str) -> Option<String>,
) -> Vec<(String, String)> {
    let mut set: Vec<(String, String)> = Vec::new();
    for (name, word) in assignments(&text.replace("\r\n", "\n")).into_iter().filter(|(name, _)| may_set(name))
    {
        let earlier = |wanted: &str| {
            let value = set.iter().rev().find(|(name, _)| name == wanted).map(|(_, value)| value.clone());
            value.or_else(|| variable(wanted))
        };
        if let Some(value) = word.value(&earlier) {
            set.push((name, value));
        }
    }
    set
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Compares the variables that a text sets with the wanted ones.
    fn check(text: &str, want: &[(&str, &str)]) {
        let variable = |name: &str| match name {
            "PATH" => Some("/bin".to_owned()),
            "HOME" => Some("/home/u".to_owned()),
            _ => None,
        };
        let found = exports(text, &|name| name != "FORBIDDEN", &variable);
        let found: Vec<(&str, &str)> =
            found.iter().map(|(name, value)| (name.as_str(), value.as_str())).collect();
        assert_eq!(found, want, "{text}");
    }

    #[test]
    fn lines_are_read_as_a_shell_reads_them() {
        for (line, want) in [
            ("export FOO=bar", Some(("FOO", "bar"))),
            ("FOO='a b' # why", Some(("FOO", "a b"))),
            ("export FOO=\"a \\\"b\\\" $PATH\"", Some(("FOO", "a \"b\" /bin"))),
            ("export PATH=/x:${PATH}", Some(("PATH", "/x:/bin"))),
            ("export PATH=$PATH:~/bin", Some(("PATH", "/bin:/home/u/bin"))),
            ("export FOO='~/x'", Some(("FOO", "~/x"))),
            ("export FOO=~someone/x", None),
            ("declare -x FOO=\"1\"", Some(("FOO", "1"))),
            ("declare FOO=1", None),
            ("export FOO='a'\\''b'", Some(("FOO", "a'b"))),
            ("export FOO=$'a\\nb'", Some(("FOO", "a\nb"))),
            ("export FOO=*.rs", Some(("FOO", "*.rs"))),
            ("export FOO=", Some(("FOO", ""))),
            ("export FOO=$GONE", Some(("FOO", ""))),
            ("export FOO=$(date)", None),
            ("export FOO=`date`", None),
            ("export FOO=${PATH:-x}", None),
            ("export FOO=$?", None),
            ("FOO=1 touch evil", None),
            ("(FOO=1)", None),
            ("true && FOO=1", None),
            ("export FOO=\"open", None),
            ("export 1FOO=x", None),
            ("export FOO=bar\r", Some(("FOO", "bar"))),
            ("export FOO='größe'", Some(("FOO", "größe"))),
            ("touch evil", None),
            ("", None),
        ] {
            check(&format!("{line}\n"), want.as_slice());
        }
    }

    #[test]
    fn a_text_sets_several_variables() {
        check("export A=1 B=2\nC=3 D=4\n", &[("A", "1"), ("B", "2"), ("C", "3"), ("D", "4")]);
        check("A=1; touch evil\nB=2\n", &[("A", "1"), ("B", "2")]);
        // A later line sees the earlier ones, and a value may be longer than a line.
        check("A=1\nexport B=\"$A\nC=3\"\n", &[("A", "1"), ("B", "1\nC=3")]);
        check("FORBIDDEN=1\nB=x$FORBIDDEN\n", &[("B", "x")]);
        // A long value beside one that is not ASCII, which the grammar cannot parse as one text.
        let letters = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ";
        check(&format!("A={letters}\nB='ä'\n"), &[("A", letters), ("B", "ä")]);
    }
}
