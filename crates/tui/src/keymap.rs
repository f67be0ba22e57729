//! Global key bindings: chords and their actions, the user's own chords, and conflicts between them.
//!
//! A table. Keys of one pane (the digits of a question, the motions of the composer) belong to that pane and cannot be
//! changed here. A chord that the composer uses as well is reported as a conflict.

use crate::page::{Entry, Sheet};
use crossterm::event::{KeyCode, KeyEvent, KeyModifiers};
use std::fmt::Write as _;

/// Action of a chord. A pane that takes every key gets the key before the action.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Do {
    Suspend,
    PageUp,
    PageDown,
    EarlierMessage,
    LaterMessage,
    End,
    Open,
    Hidden,
    Editor,
    Palette,
    PasteImage,
    NextMode,
    Status,
}

/// A key with its modifiers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Chord {
    pub code: KeyCode,
    pub modifiers: KeyModifiers,
}

/// Name, action, default chord, and description.
const TABLE: &[(&str, Do, &str, &str)] = &[
    ("suspend", Do::Suspend, "ctrl+z", "suspends becket; fg continues it"),
    ("page-up", Do::PageUp, "pageup", "the transcript, a page up"),
    ("page-down", Do::PageDown, "pagedown", "a page down"),
    ("earlier-message", Do::EarlierMessage, "ctrl+up", "to your previous message"),
    ("later-message", Do::LaterMessage, "ctrl+down", "to your next message"),
    ("end", Do::End, "ctrl+end", "to the end of the transcript"),
    ("open", Do::Open, "ctrl+o", "opens and closes calls, thoughts and compactions"),
    ("hidden", Do::Hidden, "ctrl+t", "shows, marked, the content that only the model sees"),
    ("editor", Do::Editor, "ctrl+g", "the text in $VISUAL or $EDITOR"),
    ("palette", Do::Palette, "ctrl+p", "the command palette"),
    ("paste-image", Do::PasteImage, "ctrl+v", "an image from the clipboard"),
    ("status", Do::Status, "ctrl+s", "the whole status line, and the short one again"),
    ("next-mode", Do::NextMode, "shift+tab", "the next permission mode: ask, edit without asking, plan only"),
];

/// Chords of the composer. Binding one of them to something else is a conflict.
const COMPOSER: &[&str] = &[
    "ctrl+a",
    "ctrl+b",
    "ctrl+d",
    "ctrl+e",
    "ctrl+f",
    "ctrl+h",
    "ctrl+j",
    "ctrl+k",
    "ctrl+r",
    "ctrl+u",
    "ctrl+w",
    "ctrl+y",
    "alt+b",
    "alt+d",
    "alt+f",
    "ctrl+c",
    "enter",
    "tab",
    "esc",
    "up",
    "down",
    "left",
    "right",
    "home",
    "end",
    "backspace",
    "delete",
    "alt+enter",
    "shift+enter",
];

/// Bindings from chords to actions.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Keymap {
    bindings: Vec<(Chord, Do)>,
    /// Problems with the user's own chords, one sentence each.
    conflicts: Vec<String>,
}

impl Default for Keymap {
    fn default() -> Self {
        Self::with(&[])
    }
}

impl Keymap {
    /// Returns the table with the user's own chords applied: names of `TABLE` and chords such as `ctrl+x`.
    pub fn with(own: &[(String, String)]) -> Self {
        let mut keymap = Self { bindings: Vec::new(), conflicts: Vec::new() };
        let mut named = Vec::new();
        for (name, action, chord, _) in TABLE {
            let mine = own.iter().rev().find(|(n, _)| n == name);
            let text = mine.map_or(*chord, |(_, chord)| chord.as_str());
            if mine.is_some() && COMPOSER.contains(&text.to_lowercase().as_str()) {
                keymap
                    .conflicts
                    .push(format!("{text} is now {name}, and no longer works as before in the composer"));
            }
            let parsed = Chord::parse(text);
            if parsed.is_none() {
                keymap
                    .conflicts
                    .push(format!("{name}: {text:?} is not a chord; write it like ctrl+x, alt+f, f5"));
            }
            if let Some(chord) = parsed.or_else(|| Chord::parse(chord)) {
                named.push((*name, chord, *action));
            }
        }
        for (i, (name, chord, action)) in named.iter().enumerate() {
            if let Some((other, ..)) = named[..i].iter().find(|(_, c, _)| c == chord) {
                keymap.conflicts.push(format!("{} is {other} and {name}; {other} has it", chord.name()));
            } else {
                keymap.bindings.push((*chord, *action));
            }
        }
        let unknown = own.iter().filter(|(n, _)| !TABLE.iter().any(|(name, ..)| name == n));
        keymap.conflicts.extend(unknown.map(|(n, _)| {
            let near = nearest(n).map(|near| format!("; did you mean {near}?")).unwrap_or_default();
            format!("there is no key called {n:?}{near}")
        }));
        keymap
    }

    /// Returns the action of a key, if the key is bound.
    pub fn action(&self, key: KeyEvent) -> Option<Do> {
        let chord = Chord::of(key);
        self.bindings.iter().find(|(c, _)| *c == chord).map(|(_, action)| *action)
    }

    /// Returns the chord of an action, `None` if another action took it.
    pub(crate) fn chord(&self, action: Do) -> Option<String> {
        self.bindings.iter().find(|(_, a)| *a == action).map(|(chord, _)| chord.name())
    }

    /// Returns the problems with the user's own chords.
    pub fn conflicts(&self) -> &[String] {
        &self.conflicts
    }

    /// Returns the page of `/keys`.
    pub fn page(&self) -> Sheet {
        let mut sheet = Sheet::default();
        if !self.conflicts.is_empty() {
            sheet.heading("Wrong in [ui.keys]", "");
            self.conflicts.iter().for_each(|conflict| sheet.note(conflict));
        }
        sheet.heading("Keys with names", "[ui.keys] changes them: editor = \"ctrl+x\"");
        let named = TABLE.iter().map(|(name, action, _, what)| {
            let chord = self.chord(*action).map_or_else(|| "-".to_owned(), |chord| pretty(&chord));
            Entry::new(&chord, name, what)
        });
        sheet.entries(named.collect());
        sheet.heading("Other keys", "");
        sheet.entries(FIXED.iter().map(|(keys, what)| Entry::new(keys, "", what)).collect());
        sheet
    }
}

/// Returns the name that a mistyped name most likely means.
fn nearest(name: &str) -> Option<&'static str> {
    let near = TABLE.iter().map(|(known, ..)| (becket_types::edit_distance(known, name), *known));
    near.filter(|(distance, _)| distance * 3 <= name.len()).min().map(|(_, known)| known)
}

/// Keys that cannot be changed, and their effects.
const FIXED: &[(&str, &str)] = &[
    ("Enter", "sends; while the agent works, into the running turn"),
    ("Tab", "while the agent works: sends after this turn"),
    ("Up", "on the first line: takes a waiting message back, then earlier prompts"),
    ("Esc", "interrupts; twice on an empty line goes back to an earlier message"),
    ("Ctrl-C", "interrupts; twice on an empty line leaves"),
    ("Shift-Enter, Alt-Enter", "a new line, where the terminal reports it"),
    ("Ctrl-J, \\ Enter", "a new line"),
    ("End", "in an empty composer: to the end of the transcript"),
    ("Alt-Up", "selects a block: Enter opens it, c copies it"),
    ("Ctrl-A E B F K U W Y", "as in Emacs"),
    ("Alt-B F D, Ctrl-_", "as in Emacs"),
    ("/ @ ! #", "a command, a file, your own shell, a line for AGENTS.md"),
];

/// Returns a chord as it is written for the user: `ctrl+o` as `Ctrl-O`.
pub(crate) fn pretty(chord: &str) -> String {
    let capital = |part: &str| {
        match part {
            "pageup" => return "PageUp".to_owned(),
            "pagedown" => return "PageDown".to_owned(),
            _ => {}
        }
        let mut chars = part.chars();
        let first = chars.next().map(|c| c.to_uppercase().to_string()).unwrap_or_default();
        format!("{first}{}", chars.as_str())
    };
    chord.split('+').map(capital).collect::<Vec<_>>().join("-")
}

impl Chord {
    /// Returns the chord of a key, in its normal form.
    pub fn of(key: KeyEvent) -> Self {
        let mut modifiers = key.modifiers & (KeyModifiers::CONTROL | KeyModifiers::ALT | KeyModifiers::SHIFT);
        let code = match key.code {
            // The case of the letter already contains Shift.
            KeyCode::Char(c) => {
                modifiers.remove(KeyModifiers::SHIFT);
                KeyCode::Char(if modifiers.is_empty() { c } else { c.to_ascii_lowercase() })
            }
            KeyCode::BackTab => {
                modifiers.insert(KeyModifiers::SHIFT);
                KeyCode::Tab
            }
            code => code,
        };
        Self { code, modifiers }
    }

    /// Parses a chord such as `ctrl+x`, `alt+shift+up` or `f5`. A letter alone is not a chord, because it is typed.
    pub fn parse(text: &str) -> Option<Self> {
        let lower = text.trim().to_lowercase();
        let mut parts: Vec<&str> = lower.split('+').map(str::trim).collect();
        let last = parts.pop()?;
        let mut modifiers = KeyModifiers::NONE;
        for part in parts {
            modifiers |= match part {
                "ctrl" | "control" | "c" => KeyModifiers::CONTROL,
                "alt" | "meta" | "option" => KeyModifiers::ALT,
                "shift" => KeyModifiers::SHIFT,
                _ => return None,
            };
        }
        let code = match last {
            "enter" | "return" => KeyCode::Enter,
            "tab" => KeyCode::Tab,
            "esc" | "escape" => KeyCode::Esc,
            "up" => KeyCode::Up,
            "down" => KeyCode::Down,
            "left" => KeyCode::Left,
            "right" => KeyCode::Right,
            "home" => KeyCode::Home,
            "end" => KeyCode::End,
            "pageup" => KeyCode::PageUp,
            "pagedown" => KeyCode::PageDown,
            "insert" => KeyCode::Insert,
            "delete" => KeyCode::Delete,
            "backspace" => KeyCode::Backspace,
            "space" => KeyCode::Char(' '),
            _ => match last.strip_prefix('f').and_then(|n| n.parse::<u8>().ok()) {
                Some(n @ 1..=24) => KeyCode::F(n),
                Some(_) => return None,
                None => {
                    let mut chars = last.chars();
                    let c = chars.next().filter(|_| chars.next().is_none())?;
                    KeyCode::Char(c)
                }
            },
        };
        let held = modifiers.intersects(KeyModifiers::CONTROL | KeyModifiers::ALT);
        let typed = matches!(code, KeyCode::Char(_)) && !held;
        (!typed).then_some(Self { code, modifiers })
    }

    /// Returns the chord as [`Chord::parse`] reads it: `ctrl+x`.
    pub fn name(&self) -> String {
        let mut out = String::new();
        for (modifier, name) in
            [(KeyModifiers::CONTROL, "ctrl+"), (KeyModifiers::ALT, "alt+"), (KeyModifiers::SHIFT, "shift+")]
        {
            if self.modifiers.contains(modifier) {
                out.push_str(name);
            }
        }
        match self.code {
            KeyCode::Char(' ') => out.push_str("space"),
            KeyCode::Char(c) => out.push(c),
            KeyCode::F(n) => {
                let _ = write!(out, "f{n}");
            }
            code => out.push_str(&code.to_string().to_lowercase().replace(' ', "")),
        }
        out
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn own(pairs: &[(&str, &str)]) -> Keymap {
        let pairs: Vec<_> = pairs.iter().map(|(n, c)| ((*n).to_owned(), (*c).to_owned())).collect();
        Keymap::with(&pairs)
    }

    #[test]
    fn every_default_is_a_chord_of_its_own() {
        let keymap = Keymap::default();
        assert_eq!((keymap.bindings.len(), keymap.conflicts()), (TABLE.len(), &[][..]));
        for (_, action, chord, _) in TABLE {
            let parsed = Chord::parse(chord).unwrap();
            let key = KeyEvent::new(parsed.code, parsed.modifiers);
            assert_eq!(keymap.action(key), Some(*action), "{chord}");
            assert_eq!(parsed.name(), *chord);
        }
        assert_eq!(keymap.action(KeyEvent::new(KeyCode::BackTab, KeyModifiers::SHIFT)), Some(Do::NextMode));
        assert_eq!(keymap.action(KeyEvent::new(KeyCode::Char('g'), KeyModifiers::NONE)), None);
    }

    #[test]
    fn own_chords_and_what_is_wrong_with_them() {
        let keymap = own(&[("editor", "Ctrl+X"), ("palette", "ctrl+o"), ("hidden", "ctrl+k"), ("open", "q")]);
        let key = |c| KeyEvent::new(KeyCode::Char(c), KeyModifiers::CONTROL);
        assert_eq!(keymap.action(key('x')), Some(Do::Editor));
        assert_eq!(keymap.action(key('g')), None);
        // `q` alone is text and no chord, so `open` keeps `ctrl+o`, which `palette` does not get because `open` is before it in the table.
        assert_eq!(keymap.action(key('o')), Some(Do::Open));
        let said = keymap.conflicts().join("\n");
        for part in ["\"q\" is not a chord", "ctrl+k is now hidden", "ctrl+o is open and palette"] {
            assert!(said.contains(part), "{said}");
        }
        assert!(own(&[("jump", "f5")]).conflicts()[0].ends_with("called \"jump\""));
        let mistyped = own(&[("editer", "f5")]);
        assert!(mistyped.conflicts()[0].ends_with("\"editer\"; did you mean editor?"), "{mistyped:?}");
        let said = mistyped.page().spoken();
        assert!(said.starts_with("Wrong in [ui.keys]\n  there is no key called"), "{said}");
        let page = keymap.page().spoken();
        assert!(page.contains("\n  Ctrl-X editor "), "{page}");
    }
}
