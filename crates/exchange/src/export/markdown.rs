//! A session as Markdown: the user's messages, the model's answers, calls with their results. The
//! conversation of a subagent is quoted below its call.

use super::conversation::{CallPlace, Conversation};
use super::subagents::{Subagent, Subagents};
use becket_types::{
    Blobs, Entry, ImageSource, MessageId, Part, Role, SubagentReport, TrimmedChunks, blob_chunks,
};
use std::collections::{HashMap, HashSet};
use std::io::{self, Write};
use std::path::Path;

/// A Markdown text under construction. Receives the entries in order.
#[derive(Default)]
pub(crate) struct Markdown {
    talk: Conversation,
    subagents: Subagents,
}

impl Markdown {
    pub(crate) fn take(&mut self, entry: &Entry) {
        self.talk.take(entry);
    }

    /// Adds a notice about a record that could not be read.
    pub(crate) fn unreadable(&mut self, text: &str) {
        self.talk.unreadable(text);
    }

    /// Adds the conversations of subagents of the session in this folder. Call it after all entries.
    pub(crate) fn find_subagents(&mut self, session_dir: &Path) {
        self.subagents = Subagents::find(session_dir, &self.talk);
    }

    /// Writes the whole Markdown text. `blobs`: the source of texts that are too long for an entry.
    pub(crate) fn write(&self, blobs: &dyn Blobs, out: &mut dyn Write) -> io::Result<()> {
        if let Some(title) = &self.talk.transcript.title {
            writeln!(out, "# {}\n", one_line(title))?;
        }
        Quoting::new(&self.talk, &self.subagents, Some(blobs), 2).write(out)
    }
}

/// Writes one conversation, with the conversations of its subagents as block quotes.
struct Quoting<'a> {
    talk: &'a Conversation,
    subagents: &'a Subagents,
    /// Source of long texts. `None` for a subagent: only the beginning and the end of its long texts are written.
    blobs: Option<&'a dyn Blobs>,
    /// The call of each message with a result.
    calls: HashMap<MessageId, CallPlace>,
    /// Level of the headings.
    level: usize,
}

impl<'a> Quoting<'a> {
    fn new(
        talk: &'a Conversation,
        subagents: &'a Subagents,
        blobs: Option<&'a dyn Blobs>,
        level: usize,
    ) -> Self {
        let calls = talk.results().into_iter().map(|(call, result)| (result.id, call)).collect();
        Self { talk, subagents, blobs, calls, level }
    }

    fn write(&self, out: &mut dyn Write) -> io::Result<()> {
        let answered: HashSet<CallPlace> = self.calls.values().copied().collect();
        let taken_out = self.talk.taken_out();
        let mut speaker = None;
        for message in self.talk.transcript.messages() {
            // Results are written under the heading of the answer that requested them, without a heading of their own.
            let role = if message.role == Role::Tool { Role::Assistant } else { message.role };
            let is_out = taken_out.contains(&message.seq);
            if speaker != Some((role, is_out)) {
                speaker = Some((role, is_out));
                let note = if is_out { " (taken out)" } else { "" };
                writeln!(out, "{} {}{note}\n", self.marks(0), heading(role))?;
            }
            for (at, part) in message.parts.iter().enumerate() {
                write_part(part, self.blobs, out)?;
                // If a call has no result, the subagent's conversation is placed after the call.
                if !answered.contains(&(message.id, at)) {
                    self.quote_all(self.subagents.of_call((message.id, at)), out)?;
                }
            }
            if let Some(call) = self.calls.get(&message.id) {
                self.quote_all(self.subagents.of_call(*call), out)?;
            }
        }
        self.quote_all(&self.subagents.others, out)?;
        for line in &self.talk.transcript.unreadable {
            writeln!(out, "> unreadable record: {line}\n")?;
        }
        Ok(())
    }

    fn marks(&self, below: usize) -> &'static str {
        const MARKS: &str = "######";
        &MARKS[..(self.level + below).min(MARKS.len())]
    }

    fn quote_all(&self, subagents: &[Subagent], out: &mut dyn Write) -> io::Result<()> {
        subagents.iter().try_for_each(|subagent| self.quote(subagent, out))
    }

    fn quote(&self, subagent: &Subagent, out: &mut dyn Write) -> io::Result<()> {
        let mut text = Vec::new();
        writeln!(text, "{} {}\n\nSession {}\n", self.marks(1), one_line(&subagent.head()), subagent.session)?;
        Quoting::new(&subagent.talk, &subagent.below, None, self.level + 2).write(&mut text)?;
        if let Some(cut) = subagent.cut() {
            writeln!(text, "{cut}\n")?;
        }
        for line in String::from_utf8_lossy(&text).trim_end().split('\n') {
            writeln!(out, ">{}{line}", if line.is_empty() { "" } else { " " })?;
        }
        writeln!(out)
    }
}

fn one_line(text: &str) -> String {
    text.lines().collect::<Vec<_>>().join(" ")
}

fn heading(role: Role) -> &'static str {
    match role {
        Role::System => "System",
        Role::User => "User",
        Role::Assistant | Role::Tool => "Assistant",
    }
}

fn write_part(part: &Part, blobs: Option<&dyn Blobs>, out: &mut dyn Write) -> io::Result<()> {
    match part {
        Part::Text { synthetic: false, spill: Some(id), .. } if let Some(blobs) = blobs => {
            let mut trimmed = TrimmedChunks::default();
            blob_chunks(blobs, id, &mut |chunk| {
                trimmed.pass(chunk, &mut |text| out.write_all(text.as_bytes()))
            })?;
            writeln!(out, "\n")
        }
        Part::Text { text, synthetic: false, .. } if !becket_types::is_blank(text) => {
            writeln!(out, "{}\n", text.trim_end_matches('\n'))
        }
        Part::Image { media_type, source, name, .. } => {
            let name = name.as_deref().unwrap_or(match source {
                ImageSource::Url(url) => url,
                ImageSource::Blob(_) | ImageSource::Base64(_) => "image",
            });
            writeln!(out, "[Attached {media_type}: {name}]\n")
        }
        Part::File { media_type, name, .. } => {
            writeln!(out, "[Attached {media_type}: {}]\n", name.as_deref().unwrap_or("file"))
        }
        Part::ToolCall { name, input, invalid, .. } => {
            let input = match invalid {
                Some(invalid) => invalid.clone(),
                None => serde_json::to_string_pretty(input).unwrap_or_default(),
            };
            writeln!(out, "**{name}**\n")?;
            fenced("json", &input, out)
        }
        Part::ToolResult { name, output, is_error, interrupted, details, .. } => {
            let outcome = match (interrupted, is_error) {
                (true, _) => " (interrupted)",
                (false, true) => " (error)",
                (false, false) => "",
            };
            writeln!(out, "Result of **{name}**{outcome}:\n")?;
            if let Some(report) = SubagentReport::from_details(details) {
                fenced("", &report.to_string(), out)?;
            }
            fenced("", output, out)
        }
        // Reasoning is not shown to people, and an unknown part has no known format.
        Part::Text { .. } | Part::Reasoning { .. } | Part::Unknown(_) => Ok(()),
    }
}

/// Writes a code block with a fence that the content cannot close.
fn fenced(language: &str, text: &str, out: &mut dyn Write) -> io::Result<()> {
    let longest = text.split(|c| c != '`').map(str::len).max().unwrap_or(0);
    let fence = "`".repeat(longest.max(2) + 1);
    writeln!(out, "{fence}{language}\n{}\n{fence}\n", text.trim_end_matches('\n'))
}

#[cfg(test)]
mod tests {
    use super::*;
    use becket_types::{EntryKind, Message, Millis, Seq, Synthetic};
    use serde_json::json;

    #[test]
    fn markdown_holds_what_the_user_saw_in_plain_words() {
        let mut replay = Message::user("fix it");
        replay.metadata.compaction_continue = true;
        let answer = Message::assistant(vec![Part::text("Looking.")]);
        let call = EntryKind::Part {
            message: answer.id,
            part: Part::tool_call("c1", "read", json!({"path": "a.md"})),
        };
        let kinds = [
            EntryKind::Title { title: "Fix\nthe build".into() },
            EntryKind::Message { message: Message::user("fix it") },
            EntryKind::Message { message: Message::synthetic(Synthetic::Rules, "secret rules") },
            EntryKind::Message { message: answer },
            call,
            EntryKind::Message {
                message: Message::tool_result("c1".into(), "read", "```\ncode\n```\n", true),
            },
            EntryKind::Message { message: replay },
            EntryKind::Message { message: Message::synthetic(Synthetic::CompactionContinue, "continue") },
            EntryKind::Message { message: Message::assistant(vec![Part::text("Done.")]) },
        ];
        let mut text = Markdown::default();
        for (i, kind) in kinds.into_iter().enumerate() {
            text.take(&Entry { seq: Seq(i as u64 + 1), time: Millis(0), kind });
        }
        let mut out = Vec::new();
        text.write(
            &becket_session::blobs::BlobStore::in_memory(
                std::sync::Arc::new(becket_session::store::Disk),
                None,
            ),
            &mut out,
        )
        .unwrap();
        let want = "# Fix the build\n\n## User\n\nfix it\n\n## Assistant\n\nLooking.\n\n**read**\n\n```json\n{\n  \
                    \"path\": \"a.md\"\n}\n```\n\nResult of **read** (error):\n\n````\n```\ncode\n```\n````\n\nDone.\n\n";
        assert_eq!(String::from_utf8(out).unwrap(), want);
    }
}
