//! The answers that a question offers, with their effects.
//!
//! The permission that an answer gives is never cut: an answer has shorter forms for narrow screens, which say the same.

use super::{Approvals, Asked, Does, Step, hunks, is_plan};
use crate::answers::Answer;
use crate::input::Place;
use crate::paths::ShortPaths;
use crate::text;
use becket_types::RuleOffer;

/// Maximum width in columns of a rule in an answer. A wider one would hide what the answer says.
const RULE_SHOWN: usize = 36;

/// Beginning of an absolute path in a rule.
pub(super) const ABSOLUTE: &str = "(//";

/// Beginning of the words for a rule that covers edits of one file.
const EVERY_EDIT: &str = "every edit of ";

/// Returns the commands that a rule for the shell covers, in the words of the rule, such as `git push *`.
pub(super) fn commands_of(rule: &str) -> Option<&str> {
    rule.strip_prefix("Bash(")?.strip_suffix(')')
}

/// Returns the commands that the rules for the parts of a command cover, such as `git add * and git push *`. `None` if there are no such
/// rules, or if one of them is too long to be read in an answer.
pub(super) fn parts_in_words(offer: &RuleOffer) -> Option<String> {
    let is_short = |part: &&str| text::width(part) <= RULE_SHOWN && !part.contains('\n');
    let part =
        |rule: &String| commands_of(rule).filter(is_short).map(|part| text::visible(part).into_owned());
    let parts: Vec<String> = offer.parts.iter().map(part).collect::<Option<_>>()?;
    let (last, before) = parts.split_last()?;
    Some(if before.is_empty() { last.clone() } else { format!("{} and {last}", before.join(", ")) })
}

/// The words of the answers for the rules that a question offers.
struct RuleWords {
    /// The calls that the rule allows, in few words.
    what: String,
    /// The same for the rules of the command's parts.
    parts: Option<String>,
    covers: String,
}

impl RuleWords {
    fn of(offer: &RuleOffer, paths: &ShortPaths) -> Self {
        let shown = text::visible(&offer.rule);
        // A long rule, and one whose slashes need an explanation, is described in words, with paths as the question shows them.
        let covers = paths.shorten(&text::visible(&offer.covers));
        let in_words = text::width(&covers) <= RULE_SHOWN && !covers.is_empty();
        let is_short = |rule: &str| text::width(rule) <= RULE_SHOWN;
        let what = match commands_of(&shown) {
            Some(command) if is_short(command) && command.ends_with(" *") => command,
            Some(_) if in_words => &covers,
            _ if is_short(&shown) && !(in_words && shown.contains(ABSOLUTE)) => &shown,
            _ if in_words => &covers,
            _ => "the same",
        };
        Self { what: what.to_owned(), parts: parts_in_words(offer), covers }
    }
}

impl Approvals {
    /// Returns the answers of the current step with their effects.
    pub(super) fn answers(&self) -> Vec<(Does, Answer)> {
        let Some(Asked { request, .. }) = self.queue.front() else { return Vec::new() };
        let mut answers = Vec::new();
        let mut offer = |does, long: &str, short: &str| {
            let reads = !matches!(does, Does::Hunks | Does::Refuse | Does::Back);
            let answer = Answer { enabled: self.seen_end || !reads, ..Answer::new(long, short) };
            answers.push((does, answer));
        };
        let words = request.offer.as_ref().map(|offer| RuleWords::of(offer, &self.paths));
        // The title of a question about one file names the file.
        let names_file = request.preview.len() == 1;
        if matches!(self.step, Step::Always) {
            // The narrower permission comes first, because it has the cursor.
            let parts = words.as_ref().and_then(|words| Some((&words.what, words.parts.as_ref()?)));
            let whole = parts.map_or_else(|| "Always".to_owned(), |(what, _)| capital(what));
            offer(Does::Keep(Place::Local), &format!("{whole}, in this project only"), "here");
            offer(Does::Keep(Place::User), &format!("{whole}, in every project"), "everywhere");
            if let Some((_, parts)) = parts {
                offer(Does::KeepParts(Place::Local), &format!("{parts}, in this project only"), "parts here");
                offer(
                    Does::KeepParts(Place::User),
                    &format!("{parts}, in every project"),
                    "parts everywhere",
                );
            }
            offer(Does::Back, "Back to the question", "back");
            return answers;
        }
        if request.secrets.is_some() {
            // The first answer has the cursor, so it must be the one that reveals nothing.
            offer(Does::Refuse, "Mask it and continue", "mask");
            offer(Does::Once, "Send this output as it is", "send");
            offer(Does::Session, "Send all outputs as they are in this session", "session");
            return answers;
        }
        if is_plan(request) {
            offer(Does::Once, "Yes, and ask me before each change", "yes");
            offer(Does::AcceptEdits, "Yes, and edit files without asking (acceptEdits)", "yes, edit");
            offer(Does::Refuse, "No, continue planning", "plan on");
            return answers;
        }
        let (count, left_out) = (hunks(request), self.rejected.len());
        if left_out == 0 {
            offer(Does::Once, "Yes", "yes");
            // Without a rule there is nothing to allow for longer than this call.
            if let Some(RuleWords { what, parts, .. }) = &words {
                offer(Does::Session, &format!("Yes, and allow {what} in this session"), "session");
                if let Some(parts) = parts {
                    offer(Does::Parts, &format!("Yes, and allow {parts} in this session"), "parts");
                    offer(Does::Always, "Yes, and allow either of these always", "always");
                } else {
                    offer(Does::Always, &format!("Yes, and allow {what} always"), "always");
                }
            }
        } else if left_out < count {
            offer(Does::Once, &format!("Yes, without {left_out} of {count} hunks"), "the marked");
        }
        if count > 1 {
            offer(Does::Hunks, "Choose hunks", "hunks");
        }
        offer(Does::Refuse, "No", "no");
        let Some(RuleWords { what, parts, covers }) = words else { return answers };
        let it = names_file && covers.starts_with(EVERY_EDIT);
        for (does, answer) in &mut answers {
            let (what, when) = match does {
                Does::Session => (&what, "this session"),
                Does::Parts => (parts.as_ref().unwrap_or(&what), "this session"),
                Does::Always if parts.is_none() => (&what, "always"),
                _ => continue,
            };
            answer.shorter.push(format!("Yes, allow {what} {when}"));
            answer.shorter.extend(it.then(|| format!("Yes, {EVERY_EDIT}it {when}")));
        }
        answers
    }
}

/// Returns the words with a capital letter at their beginning.
fn capital(words: &str) -> String {
    let mut letters = words.chars();
    letters.next().map_or_else(String::new, |first| first.to_uppercase().chain(letters).collect())
}
