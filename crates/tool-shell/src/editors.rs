//! Editors that wait for keys although there is no terminal: found before they run.
//!
//! Everything else that wants to read gets the end of the file or no terminal, and gives up. The `vi` family then waits on
//! the output instead, where no key ever comes. Pure; what it does not find runs into its timeout.

use crate::selfkill::{program, simple_commands};

const EDITORS: &[&str] = &["vi", "vim", "nvim", "view", "vimdiff", "nvimdiff", "rvim", "gvim", "vimtutor"];
/// Beginnings of arguments with which they do something and end.
const SCRIPTED: &[&str] =
    &["-c", "+", "-e", "-E", "-s", "-S", "-V1", "--cmd", "--version", "--help", "-h", "--headless", "-l"];

/// Why `command` is refused, if it is.
pub(crate) fn refusal(command: &str) -> Option<String> {
    simple_commands(command).iter().find_map(|words| {
        let (name, args) = program(words)?;
        let scripted = args.iter().any(|arg| SCRIPTED.iter().any(|s| arg.starts_with(s)));
        (EDITORS.contains(&name) && !scripted).then(|| {
            format!(
                "`{name}` waits for keys and there is no terminal; the command was not run. Edit files with the tools for \
                 it, or start it with `pty` and type with `input`."
            )
        })
    })
}

#[cfg(test)]
mod tests {
    use super::refusal;

    #[test]
    fn table() {
        for (command, refused) in [
            ("vi", true),
            ("vim file", true),
            ("/usr/bin/vim -u NONE a", true),
            ("cd x && nvim .", true),
            ("sudo vi /etc/hosts", true),
            ("vim -es file +wq", false),
            ("vim -c ':%s/a/b/' -c wq file", false),
            ("vim --version", false),
            ("nvim --headless +qa", false),
            ("echo vim", false),
            ("git commit -m 'use vim'", false),
            ("which vim", false),
        ] {
            assert_eq!(refusal(command).is_some(), refused, "{command}");
        }
    }
}
