//! Completion at the cursor: commands after `/`, their arguments, and files after `@`.
//!
//! Owns the menu of matches and the range of the text that a choice replaces. Commands and themes are known here.
//! Models and files come from the host, and an answer is shown only while its query is still current.
//!
//! After Esc the menu stays closed while the same word is being typed.

use crate::commands::{self, COMMANDS};
use crate::input::{Custom, Effect, Request};
use crate::menu::{Item, Menu};
use crate::modes;
use crate::theme::Theme;
use becket_types::PermissionMode;
use crossterm::event::{KeyCode, KeyEvent};
use frizbee::{Config, Matcher};
use ratatui::Frame;
use ratatui::layout::Rect;
use std::ops::Range;
use std::path::PathBuf;

/// The menu of completions, and the lists it is made from.
#[derive(Debug, Default)]
pub struct Completion {
    target: Option<Target>,
    menu: Menu,
    /// Kind and offset of the completion that Esc closed.
    dismissed: Option<(Kind, usize)>,
    models: Option<Vec<Item>>,
    sessions: Option<Vec<Item>>,
    /// Commands of the user and the project; `None` until the host has answered.
    customs: Option<Vec<Custom>>,
    /// Commands are also found by words of their description.
    by_purpose: bool,
    /// The user moved the cursor in the list since it was opened for this text.
    moved: bool,
}

/// Completable text at the cursor.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Target {
    kind: Kind,
    /// Bytes of the text that a choice replaces.
    range: Range<usize>,
    query: String,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Kind {
    Command,
    /// An argument of the command with this name.
    Argument(String),
    File,
}

/// Effect of a key press on the menu.
#[derive(Debug, PartialEq)]
pub enum Choice {
    /// The key is not for the menu.
    None,
    /// The menu changed.
    Moved,
    /// Replace `range` with `text`. `run`: the text is complete and shall be submitted.
    Put { range: Range<usize>, text: String, run: bool },
}

impl Completion {
    /// Creates a completion that also finds commands by words of their description.
    pub(crate) fn by_purpose() -> Self {
        Self { by_purpose: true, ..Self::default() }
    }

    /// True if the menu is shown.
    pub fn is_open(&self) -> bool {
        self.menu.is_open()
    }

    /// Closes the menu.
    pub fn close(&mut self) {
        self.menu.close();
        self.target = None;
    }

    /// True if the menu still fits the text at the cursor, or no menu is open.
    pub fn is_for(&self, text: &str, cursor: usize) -> bool {
        self.target.is_none() || target(text, cursor) == self.target
    }

    /// Updates the menu after the text or the cursor changed. Returns requests for the host.
    pub fn refresh(&mut self, text: &str, cursor: usize) -> Vec<Effect> {
        let Some(target) = target(text, cursor) else {
            self.dismissed = None;
            self.close();
            return Vec::new();
        };
        let place = (target.kind.clone(), target.range.start);
        if self.dismissed.as_ref() == Some(&place) {
            self.close();
            return Vec::new();
        }
        self.dismissed = None;
        let mut effects = Vec::new();
        let items = match &target.kind {
            Kind::Command => {
                if self.customs.is_none() {
                    self.customs = Some(Vec::new());
                    effects.push(Effect::Ask(Request::CustomCommands));
                }
                self.commands(&target.query)
            }
            Kind::Argument(command) => match command.as_str() {
                "theme" => plain(&target.query, &Theme::NAMES),
                "mode" => by_name(&target.query, &PermissionMode::ALL.map(mode)),
                "model" => {
                    if self.models.is_none() {
                        effects.push(Effect::Ask(Request::Models));
                    }
                    by_name(&target.query, self.models.as_deref().unwrap_or_default())
                }
                "resume" => {
                    if self.sessions.is_none() {
                        effects.push(Effect::Ask(Request::Sessions));
                    }
                    among(&target.query, self.sessions.as_deref().unwrap_or_default())
                }
                _ => Vec::new(),
            },
            Kind::File => {
                effects.push(Effect::Ask(Request::Files { query: target.query.clone() }));
                // Until the answer arrives, earlier files that match are shown.
                let same = self.target.as_ref().is_some_and(|t| t.kind == Kind::File);
                let before: Vec<&str> = if same {
                    self.menu.items().iter().map(|i| i.name.as_str()).collect()
                } else {
                    Vec::new()
                };
                plain(&target.query, &before)
            }
        };
        self.menu.set(items);
        self.moved &= self.target.as_ref() == Some(&target);
        self.target = Some(target);
        effects
    }

    fn commands(&self, query: &str) -> Vec<Item> {
        let own = self.customs.iter().flatten();
        let own = own.map(|c| (c.name.as_str(), c.arguments.as_str(), c.description.as_str()));
        let all: Vec<(&str, &str, &str)> = COMMANDS.iter().copied().chain(own).collect();
        let names: Vec<&str> = all.iter().map(|(name, ..)| *name).collect();
        let mut found = best(query, &names);
        found.sort_by_key(|i| !names[*i].starts_with(query));
        if self.by_purpose {
            let purposes: Vec<&str> = all.iter().map(|(.., what)| *what).collect();
            let lower = query.to_lowercase();
            let more = (0..purposes.len()).filter(|i| purposes[*i].to_lowercase().contains(&lower));
            found.extend(more.filter(|i| !found.contains(i)).collect::<Vec<_>>());
        }
        let item = |i: usize| {
            let (name, arguments, what) = all[i];
            Item { name: format!("/{name} {arguments}").trim_end().to_owned(), detail: what.to_owned() }
        };
        found.into_iter().map(item).collect()
    }

    /// Takes the host's answer about files.
    pub fn files(&mut self, query: &str, paths: &[PathBuf]) {
        if self.target.as_ref().is_some_and(|t| t.kind == Kind::File && t.query == query) {
            let name = |path: &PathBuf| Item { name: path.to_string_lossy().into_owned(), ..Item::default() };
            self.menu.set(paths.iter().map(name).collect());
        }
    }

    /// Takes the host's answer about models, in the order in which they are offered.
    pub fn models(&mut self, models: Vec<Item>) {
        if let Some(Target { kind: Kind::Argument(command), query, .. }) = &self.target
            && command == "model"
        {
            self.menu.set(by_name(query, &models));
        }
        self.models = Some(models);
    }

    /// Drops the list of models, because the model or a key changed. It is requested again when it is needed.
    pub(crate) fn forget_models(&mut self) {
        self.models = None;
    }

    /// Takes the host's answer about sessions: ids and descriptions.
    pub fn sessions(&mut self, sessions: Vec<(String, String)>) {
        let sessions: Vec<Item> = sessions.into_iter().map(|(name, detail)| Item { name, detail }).collect();
        if let Some(Target { kind: Kind::Argument(command), query, .. }) = &self.target
            && command == "resume"
        {
            self.menu.set(among(query, &sessions));
        }
        self.sessions = Some(sessions);
    }

    /// Takes the host's answer about commands of the user and the project.
    pub(crate) fn customs(&mut self, customs: Vec<Custom>) {
        self.customs = Some(customs);
        if let Some(Target { kind: Kind::Command, query, .. }) = &self.target {
            let items = self.commands(query);
            self.menu.set(items);
        }
    }

    /// Returns the commands of the user and the project; none before the host has answered.
    pub(crate) fn known_customs(&self) -> &[Custom] {
        self.customs.as_deref().unwrap_or_default()
    }

    /// Handles a key while the menu is open.
    pub fn key(&mut self, key: KeyEvent) -> Choice {
        if !self.is_open() {
            return Choice::None;
        }
        match key.code {
            KeyCode::Esc => {
                self.dismissed = self.target.take().map(|t| (t.kind, t.range.start));
                self.menu.close();
                Choice::Moved
            }
            KeyCode::Enter if key.modifiers.is_empty() => self.choose(true),
            KeyCode::Tab => self.choose(false),
            _ if self.menu.key(key) => {
                self.moved = true;
                Choice::Moved
            }
            _ => Choice::None,
        }
    }

    fn choose(&mut self, enter: bool) -> Choice {
        let (Some(target), Some(item)) = (self.target.take(), self.menu.chosen().cloned()) else {
            return Choice::None;
        };
        self.menu.close();
        let (text, run) = match target.kind {
            Kind::Command => {
                let name = item.name.split(' ').next().unwrap_or_default();
                // A name that does not begin with what was typed may not be meant, so it is only inserted.
                let typed = target.query.to_lowercase();
                let meant = self.moved || self.by_purpose || name[1..].to_lowercase().starts_with(&typed);
                (format!("{name} "), enter && meant && !commands::needs_argument(&name[1..]))
            }
            Kind::Argument(_) => (item.name, enter),
            Kind::File => (mention(&item.name), false),
        };
        Choice::Put { range: target.range, text, run }
    }

    /// Draws the menu over the lowest rows of `area`.
    pub fn draw(&mut self, frame: &mut Frame<'_>, area: Rect, theme: &Theme) {
        let keys = match self.target.as_ref().map(|target| &target.kind) {
            Some(Kind::File) => "Tab or Enter inserts · Esc closes",
            _ => "Tab completes · Enter runs · Esc closes",
        };
        self.menu.draw_with_keys(frame, area, keys, theme);
    }
}

/// Returns a path as it is mentioned in a prompt.
fn mention(path: &str) -> String {
    if path.contains(char::is_whitespace) { format!("@\"{path}\" ") } else { format!("@{path} ") }
}

/// Returns the completable text at the cursor, if any.
fn target(text: &str, cursor: usize) -> Option<Target> {
    let before = text.get(..cursor)?;
    if let Some(rest) = text.strip_prefix('/')
        && cursor > 0
        && !text.contains('\n')
    {
        let end = rest.find(char::is_whitespace).map_or(text.len(), |i| i + 1);
        if cursor <= end {
            let query = before[1..].to_owned();
            return (!text[1..end].contains('/')).then_some(Target {
                kind: Kind::Command,
                range: 0..end,
                query,
            });
        }
        let start = end + text[end..].len() - text[end..].trim_start().len();
        let kind = Kind::Argument(text[1..end].to_owned());
        return (cursor >= start).then(|| Target {
            kind,
            range: start..text.len(),
            query: text[start..cursor].to_owned(),
        });
    }
    let start = before
        .rfind(char::is_whitespace)
        .map_or(0, |i| i + before[i..].chars().next().map_or(1, char::len_utf8));
    let query = before[start..].strip_prefix('@')?;
    Some(Target { kind: Kind::File, range: start..cursor, query: query.to_owned() })
}

fn plain<S: AsRef<str>>(query: &str, names: &[S]) -> Vec<Item> {
    let item = |i: usize| Item { name: names[i].as_ref().to_owned(), ..Item::default() };
    best(query, names).into_iter().map(item).collect()
}

/// Finds items by name or description.
fn among(query: &str, items: &[Item]) -> Vec<Item> {
    let both: Vec<String> = items.iter().map(|i| format!("{} {}", i.name, i.detail)).collect();
    best(query, &both).into_iter().map(|i| items[i].clone()).collect()
}

/// Finds items by name alone.
fn by_name(query: &str, items: &[Item]) -> Vec<Item> {
    let names: Vec<&str> = items.iter().map(|i| i.name.as_str()).collect();
    best(query, &names).into_iter().map(|i| items[i].clone()).collect()
}

fn mode(mode: PermissionMode) -> Item {
    Item { name: mode.to_string(), detail: modes::meaning(mode.as_str()).to_owned() }
}

/// Returns indices of matching names, best first; all of them if the query is empty.
fn best<S: AsRef<str>>(query: &str, names: &[S]) -> Vec<usize> {
    if query.is_empty() {
        return (0..names.len()).collect();
    }
    Matcher::new(query, &Config::default()).match_list(names).iter().map(|m| m.index as usize).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// `|` marks the cursor.
    fn at(text: &str) -> Option<(Kind, Range<usize>, String)> {
        let cursor = text.find('|').unwrap();
        target(&text.replace('|', ""), cursor).map(|t| (t.kind, t.range, t.query))
    }

    #[test]
    fn what_is_being_typed() {
        assert_eq!(at("/|"), Some((Kind::Command, 0..1, String::new())));
        assert_eq!(at("/mo|del"), Some((Kind::Command, 0..6, "mo".into())));
        assert_eq!(at("|/model"), None);
        assert_eq!(at("/usr/bi|"), None);
        assert_eq!(at("/theme d|"), Some((Kind::Argument("theme".into()), 7..8, "d".into())));
        assert_eq!(at("see @src/li|"), Some((Kind::File, 4..11, "src/li".into())));
        assert_eq!(at("a@b|"), None);
        assert_eq!(at("see @a |"), None);
        assert_eq!(at("日\u{3000}@x|"), Some((Kind::File, 6..8, "x".into())));
    }

    #[test]
    fn a_path_with_spaces_is_quoted() {
        assert_eq!(mention("src/a.rs"), "@src/a.rs ");
        assert_eq!(mention("my notes.md"), "@\"my notes.md\" ");
    }
}
