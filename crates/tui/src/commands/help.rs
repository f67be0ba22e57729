//! The page of `/help`: the keys first, then the commands by purpose.
//!
//! Owns the order of the commands on the page. Their names and descriptions are in [`COMMANDS`].

use super::COMMANDS;
use crate::input::Custom;
use crate::page::{Entry, Sheet};

/// Headings and the commands below them. Each command is below one of them.
const GROUPS: &[(&str, &[&str])] = &[
    ("Session", &["new", "clear", "resume", "sessions", "rename", "fork", "export", "copy", "quit"]),
    ("Going back", &["rewind", "undo", "redo"]),
    (
        "Context and cost",
        &["context", "compact", "compact preview", "compact undo", "removed", "inspect", "cost", "limits"],
    ),
    ("Model", &["model", "effort", "key", "btw"]),
    ("Permissions", &["mode", "plan", "permissions", "add-dir", "status"]),
    ("Project", &["init", "memory", "diff", "todos", "tools", "skills", "agents", "mcp", "hooks"]),
    ("Background", &["tasks", "tasks stop", "tasks tell"]),
    ("becket", &["help", "keys", "vim", "theme", "config", "doctor", "bug"]),
];

/// Returns the page. `customs`: commands of the user and the project. `shift`: true if the terminal reports Shift-Enter;
/// `None` if the terminal edits lines itself.
pub fn help(customs: &[Custom], shift: Option<bool>) -> Sheet {
    let mut sheet = Sheet::default();
    sheet.heading("Keys", if shift.is_some() { "/keys lists all" } else { "" });
    let keys: &[(&str, &str)] = match shift {
        Some(_) => &[
            ("Enter", "sends; while becket works: into the running turn"),
            ("Tab", "while becket works: queues for the next turn"),
            ("Esc", "interrupts; twice when idle: back to a message"),
            ("Shift-Tab", "changes the permission mode"),
            ("Ctrl-O", "opens and closes calls and thoughts"),
            ("Ctrl-R", "finds an earlier prompt"),
        ],
        None => &[("Enter", "sends"), ("Ctrl-C", "interrupts")],
    };
    let mut entries: Vec<Entry> = keys.iter().map(|(key, what)| Entry::new(key, "", what)).collect();
    let new_line: &[(&str, &str)] = match shift {
        Some(true) => &[("Shift-Enter", "new line; so do Alt-Enter, Ctrl-J, and \\ then Enter")],
        Some(false) => &[
            ("Alt-Enter", "new line; so do Ctrl-J, and \\ then Enter"),
            ("", "this terminal does not report Shift-Enter"),
        ],
        None => &[],
    };
    entries.extend(new_line.iter().map(|(key, what)| Entry::new(key, "", what)));
    let signs = [("@file", "names a file"), ("!command", "runs it"), ("#text", "adds a line to AGENTS.md")];
    entries.extend(signs.map(|(sign, what)| Entry::new(sign, "", what)));
    sheet.entries(entries);
    for (title, names) in GROUPS {
        sheet.heading(title, "");
        let listed = names.iter().filter_map(|name| COMMANDS.iter().find(|(known, ..)| known == name));
        sheet.entries(
            listed.map(|(name, arguments, what)| Entry::new(&format!("/{name}"), arguments, what)).collect(),
        );
    }
    if !customs.is_empty() {
        sheet.heading("Your commands", "");
        let entry = |custom: &Custom| {
            Entry::new(&format!("/{}", custom.name), &custom.arguments, &custom.description)
        };
        sheet.entries(customs.iter().map(entry).collect());
    }
    sheet
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::text;
    use crate::theme::Theme;

    #[test]
    fn each_command_is_in_one_group() {
        let mut grouped: Vec<&str> = GROUPS.iter().flat_map(|(_, names)| *names).copied().collect();
        let mut known: Vec<&str> = COMMANDS.iter().map(|(name, ..)| *name).collect();
        grouped.sort_unstable();
        known.sort_unstable();
        assert_eq!(grouped, known);
    }

    #[test]
    fn keys_are_first_and_names_have_another_colour_than_descriptions() {
        let theme = Theme::dark();
        for columns in [1, 10, 40, 52, 80, 120] {
            let rows = help(&[], Some(false)).rows(columns, &theme);
            assert!(rows.iter().all(|row| text::width(&row.to_string()) <= columns), "{columns}");
            let find = |words: &str| rows.iter().position(|row| row.to_string().contains(words));
            if columns >= 40 {
                assert!(find("Keys") < find("Session") && find("Shift-Tab") < find("/new"), "{columns}");
                let row = &rows[find("/fork").unwrap()];
                let style =
                    |words: &str| row.spans.iter().find(|s| s.content.contains(words)).map(|s| s.style);
                assert_eq!(style("/fork"), Some(theme.accent));
                let below = &rows[find("continue in a copy").unwrap()];
                assert!(below.spans.iter().any(|span| span.style == theme.dim), "{below:?}");
            }
        }
        let beside = help(&[], None).rows(80, &theme);
        assert!(beside.iter().any(|row| {
            let row = row.to_string();
            row.starts_with("  /fork ") && row.ends_with("continue in a copy of this session")
        }));
    }
}
