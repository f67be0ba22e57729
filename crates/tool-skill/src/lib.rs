//! Skills in the open `SKILL.md` format: found, listed, loaded.
//!
//! Owns discovery in the directories it is given, the reading of frontmatter, the catalogue in the system prompt, the
//! `skill` tool and the bundled skills. Progressive disclosure: the model sees one line per skill, the body when it asks,
//! other files of the skill when it reads them.
//!
//! Invariants:
//! - Only named directories are searched, within fixed bounds; project skills count only in a trusted folder.
//! - A broken skill is left out with a warning; it never stops a start.
//! - Activating the same text twice returns it once. Nothing in a skill is run by becket: `` !`cmd` `` is text.
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
pub use frontmatter::Head;
pub use tool::SkillTool;

use std::path::PathBuf;

/// One skill, without its body.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Skill {
    /// Lower case; unique among [`Skills`].
    pub name: String,
    pub description: String,
    /// When the model should think of it; follows the description in the catalogue.
    pub when_to_use: Option<String>,
    /// For people: what may follow the name.
    pub argument_hint: Option<String>,
    /// Names of positional arguments, for `$name` in the body.
    pub arguments: Vec<String>,
    /// The model may load it by itself and sees it in the catalogue.
    pub model_invocable: bool,
    /// People may call it as `/name`.
    pub user_invocable: bool,
    pub scope: Scope,
    /// Times it was loaded before, as far as is known.
    pub uses: usize,
    source: Source,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Source {
    /// The whole text of a bundled `SKILL.md`.
    Bundled(&'static str),
    /// The directory and the file in it.
    Folder(PathBuf, PathBuf),
}

impl Skill {
    /// The skill's directory; bundled skills have none.
    pub fn dir(&self) -> Option<&std::path::Path> {
        match &self.source {
            Source::Bundled(_) => None,
            Source::Folder(dir, _) => Some(dir),
        }
    }
}

/// The skills of a session, in the order of their names.
#[derive(Clone, Debug, Default)]
pub struct Skills {
    skills: Vec<Skill>,
    warnings: Vec<String>,
}

impl Skills {
    /// Bundled skills and those in `dirs`. A project's skill replaces a user's of the same name, and both a bundled one;
    /// within a scope the directory named first wins. Never fails: see [`Skills::warnings`].
    pub fn discover(dirs: &[SkillDir]) -> Self {
        discover::discover(dirs)
    }

    /// Leaves out skills by name (switched off by the user).
    pub fn retain(&mut self, mut keep: impl FnMut(&Skill) -> bool) {
        self.skills.retain(|s| keep(s));
    }

    pub fn iter(&self) -> impl Iterator<Item = &Skill> {
        self.skills.iter()
    }

    /// By name, as a person or a model writes it: case, a leading `/` or `$` do not matter, and a name that was changed to
    /// letters, digits and hyphens is found as it was written, too.
    pub fn get(&self, name: &str) -> Option<&Skill> {
        let name = name.trim().trim_start_matches(['/', '$']).to_lowercase();
        let plain = frontmatter::plain_name(&name);
        self.skills.iter().find(|s| s.name == name).or_else(|| self.skills.iter().find(|s| s.name == plain))
    }

    /// Counts how often each skill was loaded before, from the file where [`SkillTool::recorded_in`] writes it: such
    /// skills keep their descriptions first.
    pub fn count_uses(&mut self, file: &std::path::Path) {
        let counts = usage::counts(file);
        for skill in &mut self.skills {
            skill.uses = counts.get(&skill.name).copied().unwrap_or(0);
        }
    }

    /// The skills that fit words best, best first; none that has none of them.
    pub fn search(&self, words: &str) -> Vec<&Skill> {
        catalog::search(&self.skills, words)
    }

    /// What was left out or odd, for people; never shown to the model.
    pub fn warnings(&self) -> &[String] {
        &self.warnings
    }

    /// The block for the system prompt, at most `max_chars` characters; `None` when there is nothing to offer. A caller
    /// passes 2 % of the window (about 4 characters a token), or [`CATALOG_CHARS`] where the window is unknown. Where the
    /// list is too long, skills that were used, then those that fit `task`, then those of the project keep their
    /// descriptions.
    pub fn catalog(&self, max_chars: usize, task: &str) -> Option<String> {
        catalog::catalog(&self.skills, max_chars, task)
    }
}

/// Size of the catalogue where the window is unknown.
pub const CATALOG_CHARS: usize = 8_000;

#[cfg(test)]
mod tests;
