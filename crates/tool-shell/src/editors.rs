//! Finds editors that would wait for keys although there is no terminal, before they run.
//!
//! Other programs that read input find an end of file or no terminal, and give up. The `vi` family then reads keys from the
//! output instead, where none ever comes. Pure. A command that is not recognised here runs into its timeout.

use crate::selfkill::{program, simple_commands};

const EDITORS: &[&str] = &["vi", "vim", "nvim", "view", "vimdiff", "nvimdiff", "rvim", "gvim", "vimtutor"];
/// Prefixes of arguments that make an editor run a script and exit.
const SCRIPTED: &[&str] =
    &["-c", "+", "-e", "-E", "-s", "-S", "-V1", "--cmd", "--version", "--help", "-h", "--headless", "-l"];

/// Returns the reason, a message for the model, if `command` is refused.
pub(crate) fn refusal(command: &str) -> Option<String> {
    waiting_editor(command).map(|name| {
        format!(
            "`{name}` waits for keys and there is no terminal; the command was not run. Edit files with the tools for \
             it, or start it with `pty` and type with `input`."
        )
    })
}

/// Returns the name of the editor in `command` that would wait for keys.
pub fn waiting_editor(command: &str) -> Option<String> {
    simple_commands(command).iter().find_map(|words| {
        let (name, args) = program(words)?;
        let scripted = args.iter().any(|arg| SCRIPTED.iter().any(|s| arg.starts_with(s)));
        (EDITORS.contains(&name) && !scripted).then(|| name.to_owned())
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
