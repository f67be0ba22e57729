//! Finds variables that becket withholds from commands but that a command uses. Pure.
//!
//! Without a note, such a variable would just be empty: a deployment with `$DEPLOY_TOKEN` would fail far from the cause.

/// The names among `withheld` that `command` uses as a variable: as `$NAME` or `${NAME…`, or, for a name with an underscore,
/// also as a word of its own (`printenv NAME`, `os.environ["NAME"]`).
pub(crate) fn named<'a>(command: &str, withheld: &'a [String]) -> Vec<&'a str> {
    withheld.iter().map(String::as_str).filter(|name| names(command, name)).collect()
}

fn names(command: &str, name: &str) -> bool {
    let of_a_name = |c: char| c.is_ascii_alphanumeric() || c == '_';
    command.match_indices(name).any(|(at, _)| {
        let (before, after) = (&command[..at], &command[at + name.len()..]);
        if after.starts_with(of_a_name) || before.ends_with(of_a_name) {
            return false;
        }
        let set_here = after.starts_with('=') && !after.starts_with("==");
        let variable = before.ends_with('$') || before.ends_with("${") || before.ends_with("${#");
        variable || (name.contains('_') && !set_here)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_command_names_a_variable() {
        let withheld = ["DEPLOY_TOKEN".to_owned(), "TOKEN".to_owned(), "KEY".to_owned()];
        for (command, want) in [
            ("curl -H \"Authorization: $DEPLOY_TOKEN\"", &["DEPLOY_TOKEN"][..]),
            ("echo ${DEPLOY_TOKEN:-none} $KEY", &["DEPLOY_TOKEN", "KEY"]),
            ("printenv DEPLOY_TOKEN", &["DEPLOY_TOKEN"]),
            ("python3 -c 'import os; os.environ[\"DEPLOY_TOKEN\"]'", &["DEPLOY_TOKEN"]),
            ("[ \"${#TOKEN}\" -gt 3 ]", &["TOKEN"]),
            ("DEPLOY_TOKEN=x ./deploy", &[]),
            ("grep TOKEN src", &[]),
            ("echo $MY_DEPLOY_TOKEN $DEPLOY_TOKENS", &[]),
            ("echo $é$TOKEN", &["TOKEN"]),
            ("ls", &[]),
        ] {
            assert_eq!(named(command, &withheld), want, "{command}");
        }
    }
}
