//! Skills in the open `SKILL.md` format: finding, listing and loading them.
//!
//! Owns discovery in given directories, parsing of frontmatter, the catalogue in the system prompt, the `skill` tool and the
//! bundled skills. The model gets a skill step by step: the model first sees one line per skill, then the body if it asks for it,
//! then other files of the skill if it reads them.
//!
//! Invariants:
//! - Only given directories are searched, within fixed limits; project skills are used only in a trusted
//!   folder.
//! - A broken skill is skipped with a warning and never prevents a start.
//! - Loading the same text twice returns it only once. becket runs nothing in a skill: `` !`cmd` `` is plain
//!   text.
//!
//! Decides no permission and reads neither HOME nor settings.

mod bundled;
mod catalog;
mod discover;
mod expand;
mod frontmatter;
#[doc(hidden)]
pub mod fuzzing;
mod tool;
mod usage;
mod yaml;

pub use discover::{Scope, SkillDir};
pub use expand::{Arguments, ChangeWord};
pub use frontmatter::Head;
pub use tool::{OnLoad, SkillTool};

use becket_types::TurnTerms;
use std::path::PathBuf;

/// One skill, without its body.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Skill {
    /// Name in lower case; unique within [`Skills`].
    pub name: String,
    pub description: String,
    /// Tells the model when to use the skill. Follows the description in the catalogue.
    pub when_to_use: Option<String>,
    /// Tells people which arguments follow the name.
    pub argument_hint: Option<String>,
    /// Names of positional arguments, for `$name` in the body.
    pub arguments: Vec<String>,
    /// True if the model sees the skill in the catalogue and may load it.
    pub model_invocable: bool,
    /// True if people may call the skill as `/name`.
    pub user_invocable: bool,
    /// The table of the skill's hooks, which are active from the moment the skill is loaded.
    pub hooks: Option<serde_json::Value>,
    /// The terms of the turn in which a person calls the skill: tools that are allowed, model, effort.
    pub terms: TurnTerms,
    pub scope: Scope,
    /// Number of times the skill was loaded in earlier sessions, as far as recorded.
    pub uses: usize,
    source: Source,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Source {
    /// The whole text of a bundled `SKILL.md`.
    Bundled(&'static str),
    /// The skill's directory, and its `SKILL.md`.
    Folder(PathBuf, PathBuf),
    /// For a skill of a plugin: the skill's directory, its `SKILL.md`, and the plugin's directory.
    Plugin(PathBuf, PathBuf, PathBuf),
}

impl Skill {
    /// Returns the text of the skill for the prompt of a user who calls it.
    ///
    /// # Errors
    ///
    /// Returns a message if the skill's file cannot be read.
    pub fn prompt(&self, arguments: &str) -> Result<String, String> {
        tool::text(self, arguments)
    }

    /// Returns the skill's `SKILL.md`; `None` for bundled skills.
    pub fn file(&self) -> Option<&std::path::Path> {
        match &self.source {
            Source::Bundled(_) => None,
            Source::Folder(_, file) | Source::Plugin(_, file, _) => Some(file),
        }
    }

    /// Returns the skill's directory; `None` for bundled skills.
    pub fn dir(&self) -> Option<&std::path::Path> {
        match &self.source {
            Source::Bundled(_) => None,
            Source::Folder(dir, _) | Source::Plugin(dir, ..) => Some(dir),
        }
    }
}

/// The skills of a session, ordered by name.
#[derive(Clone, Debug, Default)]
pub struct Skills {
    skills: Vec<Skill>,
    warnings: Vec<String>,
}

impl Skills {
    /// Finds the bundled skills and those in `dirs`. A project's skill replaces a user's skill of the same
    /// name, and both replace a bundled one. Within a scope, the directory listed first wins. Never fails;
    /// problems are in [`Skills::warnings`].
    pub fn discover(dirs: &[SkillDir]) -> Self {
        discover::discover(dirs)
    }

    /// Adds the skills in a directory of a plugin. Their names begin with that of the plugin: `plugin:skill`.
    pub fn add_plugin(&mut self, plugin: &str, root: &std::path::Path, dir: &std::path::Path) {
        let found =
            discover::discover_below(&SkillDir { path: dir.to_owned(), scope: Scope::User, trusted: true });
        self.warnings.extend(found.warnings);
        for mut skill in found.skills {
            skill.name = format!("{}:{}", plugin.to_lowercase(), skill.name);
            if let Source::Folder(dir, file) = skill.source {
                skill.source = Source::Plugin(dir, file, root.to_owned());
            }
            self.skills.retain(|known| known.name != skill.name);
            self.skills.push(skill);
        }
        self.skills.sort_by(|a, b| a.name.cmp(&b.name));
    }

    /// Keeps only the skills that pass the test. Used to remove skills that the user switched off.
    pub fn retain(&mut self, mut keep: impl FnMut(&Skill) -> bool) {
        self.skills.retain(|s| keep(s));
    }

    /// Keeps only the skills with these names. A name may also be written as in the skill's file.
    pub fn keep_named(&mut self, names: &[String]) {
        let named: Vec<String> =
            names.iter().filter_map(|name| self.get(name)).map(|skill| skill.name.clone()).collect();
        self.retain(|skill| named.contains(&skill.name));
    }

    /// Iterates over all skills, sorted by name.
    pub fn iter(&self) -> impl Iterator<Item = &Skill> {
        self.skills.iter()
    }

    /// Finds a skill by name. Case and a leading `/` or `$` are ignored. A skill whose name was converted to
    /// letters, digits and hyphens is also found by its original name.
    pub fn get(&self, name: &str) -> Option<&Skill> {
        let name = name.trim().trim_start_matches(['/', '$']).to_lowercase();
        let plain = frontmatter::plain_name(&name);
        self.skills.iter().find(|s| s.name == name).or_else(|| self.skills.iter().find(|s| s.name == plain))
    }

    /// Reads how often each skill was loaded from the file that [`SkillTool::recorded_in`] writes. Frequently
    /// used skills keep their descriptions longest.
    pub fn count_uses(&mut self, file: &std::path::Path) {
        let counts = usage::counts(file);
        for skill in &mut self.skills {
            skill.uses = counts.get(&skill.name).copied().unwrap_or(0);
        }
    }

    /// Returns the skills that contain at least one of the words, best match first.
    pub fn search(&self, words: &str) -> Vec<&Skill> {
        catalog::search(&self.skills, words)
    }

    /// Returns warnings about skipped or unusual skills, for people. The model never sees them.
    pub fn warnings(&self) -> &[String] {
        &self.warnings
    }

    /// Returns the block for the system prompt, at most `max_chars` characters; `None` if there is no skill
    /// to list.
    ///
    /// Callers pass 2 % of the context window (about 4 characters per token), or [`CATALOG_CHARS`] if the
    /// window is unknown. If the list is too long, the most used skills keep their descriptions, then those
    /// that match `task`, then those of the project.
    pub fn catalog(&self, max_chars: usize, task: &str) -> Option<String> {
        catalog::catalog(&self.skills, max_chars, task)
    }
}

/// Size of the catalogue in characters if the context window is unknown.
pub const CATALOG_CHARS: usize = 8_000;

#[cfg(test)]
mod tests;
