//! Secrets of the environment that a script would print by way of its own variables, of its input, or of a trace.
//!
//! `echo $TOKEN` names the secret. `x=$TOKEN; echo $x`, `cat <<< $TOKEN` and `set -x; [[ $TOKEN ]]` print it as well. Values are
//! searched as text: `$NAME` in a value counts as the variable, even if the shell would not expand it there. The order of the parts
//! does not matter, because loops run parts again.

use becket_shell_syntax::{Word, may_show, system_name};
use std::collections::BTreeMap;

/// Variables of a script that may hold a secret of the environment. Maps each to the name of the secret variable.
#[derive(Clone, Debug, Default)]
pub(super) struct Hidden(BTreeMap<String, String>);

impl Hidden {
    /// Adds those variables of a script whose value names a secret. `given`: each variable with its value as written.
    pub(super) fn add(&mut self, given: &[(String, String)]) {
        loop {
            let before = self.0.len();
            for (name, value) in given {
                if let Some(secret) = self.secret_in(value) {
                    self.0.entry(name.clone()).or_insert(secret);
                }
            }
            if self.0.len() == before {
                return;
            }
        }
    }

    /// Returns the name of the first secret environment variable that the text names, directly or through a variable of the script.
    pub(super) fn secret_in(&self, text: &str) -> Option<String> {
        text.match_indices('$').find_map(|(at, _)| {
            let rest = text[at + 1..].trim_start_matches(['{', '#', '!']);
            let end = rest.find(|c: char| !(c.is_ascii_alphanumeric() || c == '_')).unwrap_or(rest.len());
            let name = &rest[..end];
            match self.0.get(name) {
                Some(secret) => Some(secret.clone()),
                None => (!name.is_empty() && !may_show(name)).then(|| name.to_owned()),
            }
        })
    }

    /// Notes in each word the secrets that its variables may hold, as if the word named them.
    pub(super) fn mark(&self, words: &mut [Word]) {
        for names in words.iter_mut().filter_map(|word| word.variables.as_mut()) {
            let secrets: Vec<String> = names.iter().filter_map(|name| self.0.get(name).cloned()).collect();
            names.extend(secrets);
        }
    }
}

/// True for `set -x` and for a shell with that option: what it runs is printed with the values of variables.
pub(super) fn traces(words: &[Word]) -> bool {
    let Some((first, rest)) = words.split_first() else { return false };
    let name = system_name(&first.text).unwrap_or(&first.text);
    let has_letter =
        |word: &Word| word.text.starts_with('-') && !word.text.starts_with("--") && word.text.contains('x');
    (name == "set" || name.ends_with("sh")) && rest.iter().any(has_letter)
}
