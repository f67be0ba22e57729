//! A summary as sections: parsing a model's text with a template, and rendering it in the template's order.
//!
//! Parsing is lenient about the spelling of a heading (level, case, colon, bold) and strict about the set: each heading counts once, in the
//! template's order ([`headings`]). Any other line that looks like a heading is text, and gets a backslash.

mod headings;

use super::{HEADINGS, estimate_text};
use becket_types::{LeftOut, Tokens, cut_end, cut_start, is_blank};

/// Headings that a text must have to count as a filled default template.
const REQUIRED: [&str; 3] = ["## Goal", "## Progress", "## Next steps"];
/// Maximum number of bytes of a section's removed text that are recorded.
const LEFT_OUT_BYTES: usize = 16_384;
const CUT_MARK: &str = "\n[… cut …]\n";

/// The template to fill: the default one or the user's own.
#[derive(Clone, Debug, PartialEq)]
pub struct Template {
    custom: Option<String>,
    headings: Vec<String>,
}

impl Template {
    /// Makes a template. `custom` is the text of a template file; blank text counts as none.
    pub fn new(custom: Option<&str>) -> Self {
        let custom = custom.filter(|t| !is_blank(t)).map(str::to_owned);
        let headings = match &custom {
            Some(text) => {
                text.lines().filter(|l| l.starts_with('#')).map(|l| l.trim_end().to_owned()).collect()
            }
            None => HEADINGS.iter().map(|h| (*h).to_owned()).collect(),
        };
        Self { custom, headings }
    }

    /// Returns the template as the model sees it.
    pub fn text(&self) -> String {
        match &self.custom {
            Some(text) => text.trim().to_owned(),
            None => HEADINGS.join("\n\n"),
        }
    }

    /// Returns all sections, empty.
    pub fn empty(&self) -> Sections {
        Sections {
            preface: String::new(),
            items: self.headings.iter().map(|h| (h.clone(), String::new())).collect(),
        }
    }

    /// Parses the sections of a model's text, and lists the missing ones.
    pub(super) fn read(&self, text: &str) -> Answer {
        let mut sections = self.empty();
        if self.headings.is_empty() {
            text.trim().clone_into(&mut sections.preface);
            return Answer { sections, missing: Vec::new(), follows: true, outside: String::new() };
        }
        let lines: Vec<&str> = text.lines().collect();
        let places = headings::places(&self.headings, &lines, self.custom.is_none());
        let mut outside = String::new();
        let mut found = vec![false; self.headings.len()];
        let mut current: Option<usize> = None;
        for (number, line) in lines.iter().enumerate() {
            if let Some((_, index)) = places.iter().find(|(at, _)| *at == number) {
                found[*index] = true;
                current = Some(*index);
                continue;
            }
            let body = current.map_or(&mut outside, |index| &mut sections.items[index].1);
            body.push_str(line);
            body.push('\n');
        }
        for (_, body) in &mut sections.items {
            *body = headings::escape(&self.headings, body.trim_matches('\n').trim_end());
        }
        let has = |name: &str| self.headings.iter().zip(&found).any(|(h, f)| *f && h == name);
        let follows = if self.custom.is_some() {
            found.iter().filter(|f| **f).count() * 2 >= found.len()
        } else {
            // A text that has "### Done" or "### In progress" without "## Progress" above it is accepted too.
            REQUIRED
                .iter()
                .all(|r| has(r) || (*r == "## Progress" && (has("### Done") || has("### In progress"))))
        };
        let missing =
            self.headings.iter().zip(&found).filter(|(_, f)| !**f).map(|(h, _)| h.clone()).collect();
        let outside = headings::escape(&self.headings, outside.trim());
        Answer { sections, missing, follows, outside }
    }
}

/// The parsed text of a model.
#[derive(Clone, Debug, PartialEq)]
pub struct Answer {
    pub sections: Sections,
    /// Missing headings of the template, in its order.
    pub missing: Vec<String>,
    /// True if the text counts as a filled template: the default template needs a goal, progress and next
    /// steps, a user's own template at least half of its headings.
    pub follows: bool,
    /// Text before the first heading.
    pub outside: String,
}

impl Answer {
    /// True if at least one section has text.
    pub(crate) fn has_sections(&self) -> bool {
        !self.sections.is_blank()
    }
}

/// A summary, divided into sections.
#[derive(Clone, Debug, PartialEq)]
pub struct Sections {
    /// The whole text if the template has no headings; otherwise empty.
    preface: String,
    items: Vec<(String, String)>,
}

impl Sections {
    /// Returns the body under a heading; empty if there is none.
    pub fn get(&self, heading: &str) -> &str {
        self.items.iter().find(|(h, _)| h == heading).map_or("", |(_, body)| body)
    }

    /// Sets the body under `heading`. Has no effect if the template has no such heading.
    pub fn set(&mut self, heading: &str, body: impl Into<String>) {
        if let Some(item) = self.items.iter_mut().find(|(h, _)| h == heading) {
            item.1 = body.into();
        }
    }

    /// Returns the headings in the template's order.
    pub fn headings(&self) -> impl Iterator<Item = &str> {
        self.items.iter().map(|(heading, _)| heading.as_str())
    }

    /// True if the template has this heading. `heading` includes the marks, as in `## Goal`.
    pub fn has(&self, heading: &str) -> bool {
        self.items.iter().any(|(h, _)| h == heading)
    }

    /// True if no section has text.
    pub fn is_blank(&self) -> bool {
        is_blank(&self.preface) && self.items.iter().all(|(_, body)| is_blank(body))
    }

    /// Returns the summary as Markdown: the preface, then each heading with its body, separated by empty lines. Lines of a
    /// body
    /// that look like a heading of the template are escaped. No newline at the end unless the last body ends with one.
    pub fn render(&self) -> String {
        let names: Vec<String> = self.items.iter().map(|(heading, _)| heading.clone()).collect();
        let mut out = self.preface.clone();
        for (heading, body) in &self.items {
            if !out.is_empty() {
                out.push_str("\n\n");
            }
            out.push_str(heading);
            if !body.is_empty() {
                out.push('\n');
                out.push_str(&headings::escape(&names, body));
            }
        }
        out
    }

    /// Renders within `max` base tokens, and returns the text that was cut.
    pub(super) fn clamp_parts(self, max: Tokens) -> (String, Vec<LeftOut>) {
        let before = self.clone();
        let text = self.clamp(max);
        if estimate_text(&before.render()) <= max {
            return (text, Vec::new());
        }
        let cut = before.items.iter().filter(|(heading, _)| heading != "## Relevant files");
        let cut = cut.filter(|(_, body)| !body.is_empty() && !text.contains(body.as_str()));
        // Clamping removes text from the middle of a section. The lines at its start that are still in the summary are not reported.
        let left_out = cut.map(|(heading, body)| {
            let start = body.len() - longest_end(body, |start| text.contains(start)).len();
            LeftOut {
                section: heading.trim_start_matches('#').trim().to_owned(),
                text: cut_end(body[start..].trim(), LEFT_OUT_BYTES).to_owned(),
                why: "too long for the summary; its end may be there".to_owned(),
            }
        });
        let left_out = left_out.filter(|left| !is_blank(&left.text)).collect();
        (text, left_out)
    }

    /// Renders within `max` base tokens. The longest sections are cut first, in their middle.
    pub fn clamp(mut self, max: Tokens) -> String {
        loop {
            let text = self.render();
            let size = estimate_text(&text);
            if size <= max {
                return text;
            }
            let bodies =
                self.items.iter_mut().map(|(_, body)| body).chain(std::iter::once(&mut self.preface));
            let Some(longest) = bodies.max_by_key(|body| body.len()) else { return text };
            if longest.len() < 64 {
                let mut cut = cut_end(&text, (max.0 as usize).saturating_mul(4));
                while estimate_text(cut) > max {
                    cut = cut_end(cut, cut.len() * 9 / 10);
                }
                return cut.trim_end().to_owned();
            }
            // Approaches the fitting size in steps, so that several long sections are shortened evenly.
            let excess = ((size.0 - max.0) * 4) as usize + CUT_MARK.len();
            let keep = longest.len().saturating_sub(excess).max(longest.len() * 2 / 3).min(longest.len() - 1);
            *longest = cut_middle(longest, keep);
        }
    }
}

/// Returns the body without the leading lines for which `there` is true, except the last line.
fn longest_end(body: &str, there: impl Fn(&str) -> bool) -> &str {
    let mut rest = body;
    while let Some((line, behind)) = rest.split_once('\n') {
        if !there(line) {
            break;
        }
        rest = behind;
    }
    rest
}

/// Keeps a third of `keep` bytes from the start and the rest from the end of `text`, cut at character
/// borders.
fn cut_middle(text: &str, keep: usize) -> String {
    let keep = keep.saturating_sub(CUT_MARK.len());
    // The mark of an earlier cut is removed, because one mark is enough.
    let start = cut_end(text, keep / 3).trim_end();
    let end = cut_start(text, keep - keep / 3).trim_start();
    let start = start.split(CUT_MARK).next().unwrap_or_default();
    let end = end.rsplit(CUT_MARK).next().unwrap_or_default();
    format!("{start}{CUT_MARK}{end}")
}
