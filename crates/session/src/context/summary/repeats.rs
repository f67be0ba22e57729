//! Removing lines of the model's summary that repeat, at length, a text shown elsewhere in the request: a
//! message of the tail, or a quote of the user's words. Otherwise a summariser that copies its input would
//! fill the window with it a second time.
//!
//! Nothing is lost: only text that is shown elsewhere, word for word, is removed. Facts that becket adds are
//! not examined.

use super::provenance::{Run, runs};
use super::sections::Sections;
use becket_types::LeftOut;
use std::collections::HashSet;

/// Minimum length of a repeated sequence: 80 letters, doubled as in [`Run`].
const REPEATED: usize = 2 * 80;
/// The same for Goal and Instructions, where the user's own words belong: 200 letters.
const REPEATED_INTENT: usize = 2 * 200;
/// A repeated sequence of 400 letters is a copy, even if most of the line consists of other words.
const COPIED: usize = 2 * 400;
const INTENT: [&str; 2] = ["## Goal", "## Instructions"];

/// Texts that a request shows in addition to the summary, as hashes of word sequences.
#[derive(Clone, Debug, Default)]
pub struct ShownTexts(HashSet<u64>);

impl ShownTexts {
    /// Remembers a text that the request shows, so that lines of the summary that repeat it can be removed.
    pub fn learn(&mut self, text: &str) {
        self.0.extend(runs(text).map(|run| run.hash));
    }

    /// Removes lines that repeat a shown text from the sections, and returns them.
    pub fn leave_out(&self, sections: &mut Sections) -> Vec<LeftOut> {
        let headings: Vec<String> = sections.headings().map(str::to_owned).collect();
        let mut left_out = Vec::new();
        for heading in headings {
            let most = if INTENT.contains(&heading.as_str()) { REPEATED_INTENT } else { REPEATED };
            let (repeated, own): (Vec<&str>, Vec<&str>) =
                sections.get(&heading).lines().partition(|line| self.repeats(line, most));
            if repeated.is_empty() {
                continue;
            }
            let (text, own) = (repeated.join("\n"), own.join("\n"));
            sections.set(&heading, own.trim());
            left_out.push(LeftOut {
                section: heading.trim_start_matches('#').trim().to_owned(),
                text,
                why: "repeats a message that is still in the context, or is quoted there".to_owned(),
            });
        }
        left_out
    }

    /// True if the line has a sequence of shown words that is at least `most` long and longer than all other words of the line together. A
    /// sequence of [`COPIED`] is enough by itself: of a cut quote, only the ends are shown, so the rest of a copy is unknown.
    fn repeats(&self, line: &str, most: usize) -> bool {
        let (mut longest, mut now, mut all) = (0, 0, 0);
        for Run { hash, weight, last_weight, .. } in runs(line) {
            all += if all == 0 { weight } else { last_weight };
            // The first run of a sequence counts with all of its words. Each further run overlaps it and adds only its last word.
            now = match (self.0.contains(&hash), now) {
                (false, _) => 0,
                (true, 0) => weight,
                (true, now) => now + last_weight,
            };
            longest = longest.max(now);
        }
        longest >= most && (longest * 2 > all || longest >= COPIED)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::context::summary::Template;

    #[test]
    fn only_long_repetitions_leave() {
        let template = Template::new(None);
        let mut shown = ShownTexts::default();
        let said = "never touch the files below vendor without asking me first, since they come from another team and are \
                    replaced by a script every night; the same goes for everything that is generated from the schema";
        shown.learn(said);
        let long = "the build reads its settings from three files in this order and the last of them wins over the two before it \
                    unless the variable for the profile is set";
        shown.learn(long);
        let mut sections = template.empty();
        sections.set("## Instructions", said);
        sections.set(
            "## Discoveries",
            format!("- {long}\n- the settings are read from three files in this order"),
        );
        sections.set(
            "## Next steps",
            format!("Explain that {said} — {said} — to the other team, and {}", "more ".repeat(90)),
        );
        let before = sections.clone();
        let left = shown.leave_out(&mut sections);
        assert_eq!(sections.get("## Instructions"), said, "the user's own words have their place there");
        assert_eq!(sections.get("## Discoveries"), "- the settings are read from three files in this order");
        assert_eq!(sections.get("## Next steps"), before.get("## Next steps"), "mostly its own words");
        assert_eq!(
            (left.len(), left[0].section.as_str(), left[0].text.as_str()),
            (1, "Discoveries", format!("- {long}").as_str())
        );
        assert!(shown.leave_out(&mut sections).is_empty(), "once is enough");
        // Even in Goal and Instructions, a copy of several hundred letters is removed.
        let many = said.repeat(2);
        shown.learn(&many);
        sections.set("## Instructions", many.as_str());
        shown.leave_out(&mut sections);
        assert_eq!(sections.get("## Instructions"), "");
    }
}
