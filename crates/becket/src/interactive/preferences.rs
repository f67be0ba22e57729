//! The user's preferences for the interface, and changes to keep: themes, chords, notifications, permission rules.
//!
//! Owns the file that each change is written to: always one of the user's own, never one that a project shares. A file
//! is replaced atomically, and everything else in it stays as it was.

use crate::environment::Environment;
use becket_config::{Amend, Config, UiConfig};
use becket_print::SettingsChange;
use becket_tui::Preferences;
use becket_tui::graphics::{Graphics, Protocol};
use becket_tui::input::{Keep, Place};
use becket_tui::keymap::Keymap;
use becket_tui::notify::Notifications;
use becket_tui::theme::Theme;
use becket_types::{RuleChange, RuleKind, quoted};
use serde_json::Value;
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};

/// Returns the file of the user's own rules for one project.
pub(crate) fn project_file(environment: &Environment, root: &Path) -> PathBuf {
    let name = becket_session::store::project_name(root);
    environment.config_dir.join("projects").join(format!("{name}.toml"))
}

/// Returns the preferences of the configuration, and messages about what is wrong with them.
pub(super) fn load(environment: &Environment, config: &Config) -> (Preferences, Vec<String>) {
    let ui = &config.ui;
    let mut wrong = Vec::new();
    let themes: Vec<Theme> = ui
        .themes
        .iter()
        .filter_map(|(name, colours)| {
            let colours = colours.iter().map(|(k, v)| (k.as_str(), v.as_str()));
            Theme::own(name, colours).map_err(|why| wrong.push(format!("ui.themes.{name}: {why}"))).ok()
        })
        .collect();
    let wanted = ui.theme.as_deref().map(|name| {
        themes.iter().find(|t| t.name == name).cloned().or_else(|| Theme::by_name(name)).ok_or(name)
    });
    let theme = match wanted {
        _ if environment.var("NO_COLOR").is_some() => Theme::plain(),
        Some(Ok(theme)) => theme,
        Some(Err(name)) => {
            wrong.push(format!(
                "ui.theme: there is no theme {name}; themes: {}",
                Theme::NAMES.join(", "),
                name = quoted(&name)
            ));
            default_theme(environment)
        }
        None => default_theme(environment),
    };
    let keys: Vec<(String, String)> = ui.keys.iter().map(|(k, v)| (k.clone(), v.clone())).collect();
    let keymap = Keymap::with(&keys);
    wrong.extend(keymap.conflicts().iter().map(|c| format!("ui.keys: {c}")));
    let status_line = ui.status_line.command.is_some();
    let told = environment.var("COLORFGBG").is_some();
    let follow = match &ui.theme {
        Some(_) => theme.name == "system",
        None => !told && matches!(theme.name, "dark" | "light"),
    };
    let images = images(environment);
    if environment.var("TERM").is_some_and(becket_tui::links::is_harmless) {
        becket_tui::links::switch_on();
    }
    let home = environment.home.clone();
    let vim = ui.vim;
    let plain = Preferences::plain(theme);
    (Preferences { themes, keymap, vim, status_line, follow, images, home, ..plain }, wrong)
}

/// Returns the preferences of the screen. Adds notes about values that cannot be used.
pub(super) fn for_screen(
    environment: &Environment,
    config: &Config,
    (workspace, root): (&Path, &Path),
    notes: &mut Vec<String>,
) -> (Preferences, Notifications) {
    let (mut preferences, wrong) = load(environment, config);
    workspace.clone_into(&mut preferences.workspace);
    preferences.rule_files = Some(rule_files(environment, root));
    notes.extend(wrong);
    let notifications = notifications(environment, &config.ui).unwrap_or_else(|why| {
        notes.push(why);
        Notifications::Off
    });
    (preferences, notifications)
}

/// Returns messages about what is wrong with the preferences of the configuration.
pub(crate) fn complaints(environment: &Environment, config: &Config) -> Vec<String> {
    let (_, mut wrong) = load(environment, config);
    wrong.extend(notifications(environment, &config.ui).err());
    wrong
}

/// Returns the image support that the environment variables show, or asks for a query of the terminal (`protocol:
/// None`).
///
/// A multiplexer must pass images on and reports itself if it draws sixels. So inside one, the variables of the outer
/// terminal are ignored.
fn images(environment: &Environment) -> Option<Graphics> {
    let var = |name| environment.var(name);
    let graphics = |protocol| Some(Graphics { first: first_image(), protocol });
    if var("NO_COLOR").is_some() {
        return None;
    }
    let term = var("TERM").unwrap_or_default();
    let between = ["TMUX", "STY"].iter().any(|name| var(name).is_some());
    if between || term.starts_with("tmux") || term.starts_with("screen") {
        return graphics(None);
    }
    match (var("TERM_PROGRAM"), term) {
        (Some("ghostty"), _) | (_, "xterm-kitty" | "xterm-ghostty") => graphics(Some(Protocol::Kitty)),
        // TERM is looked at before TERM_PROGRAM: each of these terminals sets TERM itself, but may have inherited
        // TERM_PROGRAM from another terminal in which it was started.
        (_, "foot" | "foot-extra" | "mlterm" | "contour" | "alacritty") => graphics(None),
        (Some("iTerm.app" | "WezTerm" | "mintty"), _) => graphics(Some(Protocol::Iterm)),
        (Some("vscode"), _) => graphics(None),
        _ if var("LC_TERMINAL") == Some("iTerm2") => graphics(Some(Protocol::Iterm)),
        // Konsole supports both protocols, but does not erase an image when text is written over it.
        _ if var("KONSOLE_VERSION").is_some() => None,
        _ if ["XTERM_VERSION", "WT_SESSION"].iter().any(|name| var(name).is_some()) => graphics(None),
        // A terminal that is not known to answer is not asked, because keys are read more slowly while an answer is
        // awaited.
        _ => None,
    }
}

/// Returns a different number for each process, so that two processes on one screen do not change each other's images.
fn first_image() -> u32 {
    (std::process::id() << 8) % (1 << 24) + 1
}

/// Returns the theme for the terminal's colours and background, as the environment variables describe them.
fn default_theme(environment: &Environment) -> Theme {
    let light = environment
        .var("COLORFGBG")
        .and_then(|v| v.rsplit(';').next())
        .is_some_and(|b| matches!(b, "7" | "15"));
    let rich = if light { Theme::light } else { Theme::dark };
    match (environment.var("COLORTERM"), environment.var("TERM")) {
        (Some("truecolor" | "24bit"), _) => rich(),
        (_, Some(term)) if term.contains("256color") || term.contains("direct") => rich(),
        _ => Theme::ansi(),
    }
}

/// Returns the kind of notification for this terminal, by its environment variables.
///
/// # Errors
///
/// Returns a message for the user if the configured name is unknown.
pub(super) fn notifications(environment: &Environment, ui: &UiConfig) -> Result<Notifications, String> {
    if let Some(name) = &ui.notifications {
        return Notifications::by_name(name).ok_or_else(|| {
            format!(
                "ui.notifications: {name} is none of {}",
                Notifications::NAMES.join(", "),
                name = quoted(&name)
            )
        });
    }
    // A multiplexer does not pass the escape sequences of notifications on, so only the bell is used.
    if environment.var("TMUX").is_some() || environment.var("STY").is_some() {
        return Ok(Notifications::Bell);
    }
    Ok(match (environment.var("TERM_PROGRAM"), environment.var("TERM")) {
        (Some("iTerm.app" | "WezTerm" | "ghostty"), _) => Notifications::Osc9,
        (_, Some(term)) if term.contains("kitty") => Notifications::Osc99,
        (_, Some(term)) if term.starts_with("rxvt-unicode") || term.starts_with("foot") => {
            Notifications::Osc777
        }
        _ => Notifications::Bell,
    })
}

/// Writes a rule into the chosen settings. Returns a line for the user.
///
/// # Errors
///
/// Returns a message for the user if the settings cannot be changed.
pub(super) fn allow(
    environment: &Environment,
    root: &Path,
    rule: &str,
    place: Place,
) -> Result<String, String> {
    let path = settings_file(environment, root, place);
    change(&path, "permissions", "allow", &Amend::Add(rule.to_owned()))?;
    Ok(format!("allowed from now on: {} (rule {rule} in {})", becket_guard::covers(rule), path.display()))
}

/// Removes an allow rule from the settings that hold it. Returns a line for the user.
///
/// # Errors
///
/// Returns a message for the user if the settings cannot be changed.
pub(super) fn disallow(
    environment: &Environment,
    root: &Path,
    rule: &str,
    place: Place,
) -> Result<String, String> {
    let path = settings_file(environment, root, place);
    change(&path, "permissions", "allow", &Amend::Remove(rule.to_owned()))?;
    Ok(format!("removed from {}: {rule}", path.display()))
}

/// Carries out a change of the settings that a driving program requests in its answer to a permission question. Relative
/// folders are meant from `cwd`. Returns a line for the user.
///
/// # Errors
///
/// Returns a message for the user if a rule is invalid, or if the settings cannot be changed.
pub(crate) fn keep_rules(
    environment: &Environment,
    root: &Path,
    cwd: &Path,
    kept: &SettingsChange,
) -> Result<String, String> {
    let place = if kept.everywhere { Place::User } else { Place::Local };
    let path = settings_file(environment, root, place);
    let (section, key) = match kept.kind {
        Some(RuleKind::Allow) => ("permissions", "allow"),
        Some(RuleKind::Ask) => ("permissions", "ask"),
        Some(RuleKind::Deny) => ("permissions", "deny"),
        None => ("", "add_dirs"),
    };
    let mut values = Vec::new();
    for value in &kept.values {
        values.push(match kept.kind {
            Some(_) => {
                let rule =
                    becket_guard::Rule::parse(value).map_err(|e| format!("{value} was not saved: {e}"))?;
                rule.to_string()
            }
            None => cwd.join(value).display().to_string(),
        });
    }
    if kept.change == RuleChange::Replace {
        let text = becket_config::read_text(&path).ok().flatten().unwrap_or_default();
        for old in becket_config::listed(&text, section, key).into_iter().filter(|old| !values.contains(old))
        {
            change(&path, section, key, &Amend::Remove(old))?;
        }
    }
    for value in &values {
        let how = match kept.change {
            RuleChange::Remove => Amend::Remove(value.clone()),
            RuleChange::Add | RuleChange::Replace => Amend::Add(value.clone()),
        };
        change(&path, section, key, &how)?;
    }
    Ok(format!("changed {} as the program asked: {key} {}", path.display(), values.join(", ")))
}

/// Returns the allow rules in the user's own settings files, each with its file.
pub(super) fn allowed(environment: &Environment, root: &Path) -> Vec<(String, Place)> {
    let rules = |place| {
        let path = settings_file(environment, root, place);
        let text = becket_config::read_text(&path).ok().flatten().unwrap_or_default();
        becket_config::listed(&text, "permissions", "allow").into_iter().map(move |rule| (rule, place))
    };
    rules(Place::User).chain(rules(Place::Local)).collect()
}

/// Returns the files that rules are written to, as the permission question names them.
pub(super) fn rule_files(environment: &Environment, root: &Path) -> (String, String) {
    let named = |place| settings_file(environment, root, place).display().to_string();
    (named(Place::User), named(Place::Local))
}

fn settings_file(environment: &Environment, root: &Path, place: Place) -> PathBuf {
    match place {
        Place::User => environment.config_dir.join("config.toml"),
        Place::Local => project_file(environment, root),
    }
}

/// Writes a changed preference of the interface.
///
/// # Errors
///
/// Returns a message for the user if the configuration cannot be changed.
pub(super) fn keep(environment: &Environment, keep: &Keep) -> Result<(), String> {
    let path = environment.config_dir.join("config.toml");
    let (key, value) = match keep {
        Keep::Theme(name) => ("theme", Value::from(name.as_str())),
        Keep::Vim(on) => ("vim", Value::from(*on)),
    };
    change(&path, "ui", key, &Amend::Set(value))
}

pub(crate) fn change(path: &Path, section: &str, key: &str, how: &Amend) -> Result<(), String> {
    let cannot = |e: &dyn std::fmt::Display| format!("{} was not changed: {e}", path.display());
    let text = match becket_config::read_text(path) {
        Ok(text) => text.unwrap_or_default(),
        Err(e) => return Err(cannot(&e)),
    };
    let new = becket_config::amend(&text, section, key, how).map_err(|e| cannot(&e))?;
    write(path, &new).map_err(|e| cannot(&e))
}

/// Replaces a file atomically. The file keeps its mode, and a new one is readable by its owner alone. A symbolic link
/// stays a link.
pub(crate) fn write(path: &Path, text: &str) -> io::Result<()> {
    let path = path.canonicalize().unwrap_or_else(|_| path.to_owned());
    let dir = path.parent().unwrap_or_else(|| Path::new("/"));
    becket_files::private::dir(dir)?;
    let mut new = tempfile::NamedTempFile::new_in(dir)?;
    new.write_all(text.as_bytes())?;
    if let Ok(meta) = std::fs::metadata(&path) {
        new.as_file().set_permissions(meta.permissions())?;
    }
    new.persist(&path)?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn environment(dir: &Path, vars: &[(&str, &str)]) -> Environment {
        let vars = vars.iter().map(|(k, v)| ((*k).to_owned(), (*v).to_owned())).collect();
        Environment { vars, ..Environment::below(dir) }
    }

    #[test]
    fn a_rule_goes_into_a_file_of_the_person_s_own() {
        let dir = tempfile::tempdir().unwrap();
        let environment = environment(dir.path(), &[]);
        let root = dir.path().join("project");
        std::fs::create_dir_all(&root).unwrap();
        allow(&environment, &root, "Bash(ls *)", Place::User).unwrap();
        allow(&environment, &root, "Bash(make)", Place::Local).unwrap();
        keep(&environment, &Keep::Theme("light".into())).unwrap();
        keep(&environment, &Keep::Vim(true)).unwrap();
        let text = std::fs::read_to_string(dir.path().join("config/config.toml")).unwrap();
        assert_eq!(text, "[permissions]\nallow = [\"Bash(ls *)\"]\n\n[ui]\ntheme = \"light\"\nvim = true\n");
        let own = std::fs::read_to_string(project_file(&environment, &root)).unwrap();
        assert_eq!(own, "[permissions]\nallow = [\"Bash(make)\"]\n");
        assert_eq!(std::fs::read_dir(&root).unwrap().count(), 0);
        std::fs::write(dir.path().join("config/config.toml"), "[permissions").unwrap();
        let said = allow(&environment, &root, "Read", Place::User).unwrap_err();
        assert!(said.contains("was not changed") && said.contains("write it there yourself"), "{said}");
    }

    #[test]
    fn the_environment_decides_how_images_are_drawn_or_the_terminal_is_asked() {
        let dir = tempfile::tempdir().unwrap();
        let (kitty, iterm) = (Some(Protocol::Kitty), Some(Protocol::Iterm));
        for (vars, want) in [
            (&[("TERM", "xterm-kitty")][..], Some(kitty)),
            (&[("TERM", "xterm-256color"), ("TERM_PROGRAM", "ghostty")], Some(kitty)),
            (&[("TERM", "xterm-256color"), ("TERM_PROGRAM", "iTerm.app")], Some(iterm)),
            (&[("TERM", "xterm-256color"), ("TERM_PROGRAM", "WezTerm")], Some(iterm)),
            (&[("TERM", "xterm"), ("TERM_PROGRAM", "mintty")], Some(iterm)),
            (&[("TERM", "xterm-256color"), ("LC_TERMINAL", "iTerm2")], Some(iterm)),
            (&[("TERM", "xterm-256color"), ("KONSOLE_VERSION", "221203")], None),
            (&[("TERM", "foot"), ("KONSOLE_VERSION", "230804")], Some(None)),
            (&[("TERM", "xterm-256color"), ("TERM_PROGRAM", "vscode")], Some(None)),
            (&[("TERM", "xterm-256color"), ("WT_SESSION", "1")], Some(None)),
            (&[("TERM", "xterm"), ("XTERM_VERSION", "XTerm(379)")], Some(None)),
            (&[("TERM", "xterm-256color")], None),
            (&[("TERM", "xterm-kitty"), ("TMUX", "/tmp/tmux")], Some(None)),
            (&[("TERM", "tmux-256color"), ("LC_TERMINAL", "iTerm2")], Some(None)),
            (&[("TERM", "screen"), ("TERM_PROGRAM", "WezTerm")], Some(None)),
            (&[("TERM", "xterm-kitty"), ("NO_COLOR", "1")], None),
        ] {
            let found = images(&environment(dir.path(), vars));
            assert_eq!(found.map(|graphics| graphics.protocol), want, "{vars:?}");
        }
    }

    #[test]
    fn the_terminal_and_the_configuration_decide_the_theme() {
        let dir = tempfile::tempdir().unwrap();
        let theme = |vars: &[(&str, &str)], wanted: Option<&str>| {
            let mut config = Config::default();
            config.ui.theme = wanted.map(str::to_owned);
            let own = [("base", "light"), ("accent", "#010203")];
            let own = own.iter().map(|(k, v)| ((*k).to_owned(), (*v).to_owned())).collect();
            config.ui.themes.insert("mine".to_owned(), own);
            let (preferences, wrong) = load(&environment(dir.path(), vars), &config);
            (preferences.theme.name, wrong.len())
        };
        assert_eq!(theme(&[("TERM", "xterm")], None), ("ansi", 0));
        assert_eq!(theme(&[("COLORTERM", "truecolor")], None), ("dark", 0));
        assert_eq!(theme(&[("TERM", "xterm-256color"), ("COLORFGBG", "0;15")], None), ("light", 0));
        assert_eq!(theme(&[("TERM", "xterm")], Some("mine")), ("mine", 0));
        assert_eq!(theme(&[("NO_COLOR", "1")], Some("mine")), ("plain", 0));
        assert_eq!(theme(&[("TERM", "xterm")], Some("pink")), ("ansi", 1));
    }
}
