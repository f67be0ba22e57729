//! The answers that a question offers, with their effects.
//!
//! The permission that an answer gives is never cut: an answer has shorter forms for narrow screens, which say the same.

use super::{Approvals, Asked, Does, Step, hunks, is_plan};
use crate::answers::Answer;
use crate::input::Place;
use crate::text;
use becket_types::RuleOffer;

/// Maximum width in columns of a rule in an answer. A wider one would hide what the answer says.
const RULE_SHOWN: usize = 36;

/// Beginning of an absolute path in a rule.
pub(super) const ABSOLUTE: &str = "(//";

/// Beginning of the words for a rule that covers edits of one file.
const EVERY_EDIT: &str = "every edit of ";

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
        let mut brief = None;
        // The title of a question about one file names the file.
        let names_file = request.preview.len() == 1;
        if matches!(self.step, Step::Always) {
            // The narrower permission comes first, because it has the cursor.
            offer(Does::Keep(Place::Local), "Always, in this project only", "here");
            offer(Does::Keep(Place::User), "Always, in every project", "everywhere");
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
            offer(Does::Once, "Yes, once", "once");
            // Without a rule there is nothing to allow for longer than this call.
            if let Some(RuleOffer { rule, covers }) = &request.offer {
                let shown = text::visible(rule);
                // A long rule, and one whose slashes need an explanation, is described in words, with paths as the question shows them.
                let covers = self.paths.shorten(&text::visible(covers));
                let is_short = text::width(&shown) <= RULE_SHOWN;
                let in_words = text::width(&covers) <= RULE_SHOWN && !covers.is_empty();
                let what = if is_short && !(in_words && shown.contains(ABSOLUTE)) {
                    &*shown
                } else if in_words {
                    &*covers
                } else {
                    "the same"
                };
                let session = format!("Yes, and allow {what} in this session");
                offer(Does::Session, &session, "session");
                offer(Does::Always, &format!("Yes, and allow {what} always"), "always");
                let it = names_file && covers.starts_with(EVERY_EDIT);
                brief = Some((what.to_owned(), it));
            }
        } else if left_out < count {
            offer(Does::Once, &format!("Yes, without {left_out} of {count} hunks"), "the marked");
        }
        if count > 1 {
            offer(Does::Hunks, "Choose hunks", "hunks");
        }
        offer(Does::Refuse, "No", "no");
        for (does, answer) in &mut answers {
            let when = if *does == Does::Session { "this session" } else { "always" };
            if let Some((what, it)) = brief.as_ref().filter(|_| matches!(does, Does::Session | Does::Always))
            {
                answer.shorter.push(format!("Yes, allow {what} {when}"));
                answer.shorter.extend(it.then(|| format!("Yes, {EVERY_EDIT}it {when}")));
            }
        }
        answers
    }
}
