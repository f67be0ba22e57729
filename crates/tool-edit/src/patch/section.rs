//! Owns the parts of a parsed patch: sections, actions and hunks, and the rules that both formats share.
//!
//! Pure; knows no file. All lines of a hunk end in `\n`.

/// The change to one file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Section {
    pub path: String,
    pub action: Action,
    /// Note for the model about parts that are not carried out.
    pub note: Option<String>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Action {
    Add(String),
    Delete {
        /// The content that the patch expects the file to have.
        held: Option<String>,
    },
    Update {
        /// New path, if the file is moved.
        to: Option<String>,
        hunks: Vec<Hunk>,
    },
}

/// One changed place of an update.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Hunk {
    /// Lines from `@@` headers that precede the place, outermost first.
    pub anchors: Vec<String>,
    /// Line number (from 1) in a unified header.
    pub line: Option<usize>,
    pub old: String,
    pub new: String,
    /// True if the patch marks the hunk with `*** End of File`.
    pub at_end: bool,
}

/// Parses the text after `@@`: a line number of a unified header, and a line to search for.
pub(super) fn header_of(header: &str) -> (Option<usize>, Option<String>) {
    let header = header.trim();
    let mut rest = header;
    let mut number = None;
    if let Some(ranges) = header.strip_prefix('-')
        && ranges.starts_with(|c: char| c.is_ascii_digit())
    {
        let digits: String = ranges.chars().take_while(char::is_ascii_digit).collect();
        number = digits.parse().ok();
        rest = header.split_once("@@").map_or("", |(_, rest)| rest);
    }
    // Models write `@@ ... @@` if they leave out the line numbers.
    if let Some(dots) = rest.trim().strip_prefix("...").or_else(|| rest.trim().strip_prefix('…'))
        && (dots.trim().is_empty() || dots.trim().starts_with("@@"))
    {
        rest = dots.trim().trim_start_matches('@');
    }
    let anchor = rest.trim().trim_end_matches("@@").trim();
    (number, (!anchor.is_empty()).then(|| anchor.to_owned()))
}

/// Completes a hunk. Empty lines at its end come from the space between sections and are removed.
pub(super) fn finish(hunk: &mut Hunk, hunks: &mut Vec<Hunk>) {
    let mut done = std::mem::take(hunk);
    while done.old.ends_with("\n\n") && done.new.ends_with("\n\n") && !done.at_end {
        done.old.pop();
        done.new.pop();
    }
    if done.old == "\n" && done.new.ends_with("\n\n") {
        done.old.clear();
        done.new.pop();
    }
    if !done.old.is_empty() || !done.new.is_empty() {
        hunks.push(done);
    }
}
