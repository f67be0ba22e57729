//! Permission modes in words for people who do not know their names. `acceptEdits` says little by itself.
//!
//! A table. The guard decides what a mode allows.

/// Name of a mode, what becket does in it, and the same in few words.
const MODES: [(&str, &str, &str); 6] = [
    ("default", "becket asks before changes and commands", "asks before changes"),
    ("acceptEdits", "becket edits files without asking, and asks before commands", "edits without asking"),
    (
        "auto",
        "becket edits files and runs confined commands in this folder without asking",
        "works in this folder without asking",
    ),
    ("plan", "becket only reads, and presents a plan", "changes nothing"),
    ("dontAsk", "becket refuses what it would ask about", "refuses instead of asking"),
    ("bypassPermissions", "becket asks about nothing", "asks nothing"),
];

fn row(mode: &str) -> Option<&'static (&'static str, &'static str, &'static str)> {
    MODES.iter().find(|(name, ..)| *name == mode)
}

/// Returns what a mode means, in a few words without a subject; empty for an unknown mode.
pub(crate) fn meaning(mode: &str) -> &'static str {
    row(mode).map_or("", |(_, _, short)| short)
}

/// Returns a sentence that says which mode holds from now on, without its full stop.
pub(crate) fn announced(mode: &str) -> String {
    match row(mode) {
        Some((name, long, _)) => format!("{name} mode: {long}"),
        None => format!("{mode} mode"),
    }
}

/// Returns the forms of a mode for the status line, the longest first: at least one in words, and its name.
pub(crate) fn forms(mode: &str) -> Vec<String> {
    let means = meaning(mode);
    let words = match mode {
        "acceptEdits" => vec![format!("{means} ({mode})"), means.to_owned()],
        "auto" | "dontAsk" => vec![format!("{means} ({mode})"), format!("{mode} mode")],
        // The other names say what the mode does.
        _ => vec![format!("{mode} mode")],
    };
    words.into_iter().chain([mode.to_owned()]).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use becket_types::PermissionMode;

    #[test]
    fn each_mode_has_words_of_its_own() {
        for mode in PermissionMode::ALL {
            let name = mode.as_str();
            assert!(!meaning(name).is_empty(), "{name}");
            assert!(announced(name).starts_with(&format!("{name} mode: becket ")), "{name}");
            let forms = forms(name);
            assert!(forms.len() > 1 && forms[0].contains(name) && forms.last().unwrap() == name, "{forms:?}");
            assert!(forms.windows(2).all(|pair| pair[0].len() > pair[1].len()), "{forms:?}");
        }
        assert_eq!(PermissionMode::ALL.len(), MODES.len());
        assert_eq!((meaning("new"), announced("new").as_str()), ("", "new mode"));
    }
}
