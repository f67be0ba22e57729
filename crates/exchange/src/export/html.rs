//! A session as one HTML page: works offline, loads nothing, is readable on a phone, has collapsible blocks (folds) and a search.
//!
//! The page shows what people saw, and more that helps to understand it: calls and outputs in folds;
//! compactions at their place with their summaries; the size and composition of the context at each request;
//! every span that the model sees at the end, with its origin; the list of requests; and the conversation of
//! each subagent in a fold below its call. Secrets are masked. Every text is escaped. The page allows no
//! network access (`Content-Security-Policy`), so nothing in a session can send data. Everything except the
//! search works without the script.

mod messages;
mod plot;
mod words;

pub(super) use words::{text, thousands};

use super::conversation::Conversation;
use super::provenance::Provenance;
use super::subagents::Subagents;
use becket_session::blobs::BlobStore;
use becket_types::{Entry, EntryKind, Millis, Role, SentRequest, Seq, SubagentOf, Usage};
use messages::Writer;
use std::fmt::Write as _;
use std::io;
use std::path::Path;
use words::{escape, moment};

const CSS: &str = include_str!("page.css");
const JS: &str = include_str!("page.js");

struct Row {
    seq: Seq,
    time: Millis,
    request: SentRequest,
    usage: Option<Usage>,
}

/// A page under construction. Receives the entries in order.
#[derive(Default)]
pub struct Page {
    talk: Conversation,
    subagents: Subagents,
    rows: Vec<Row>,
    /// Usage reports, each with its entry, for the plot of older sessions that did not record the composition of their requests.
    points: Vec<(Seq, Usage)>,
    compactions: Vec<Seq>,
    provenance: Provenance,
}

impl Page {
    /// Adds an entry. Entries come in the order of the ledger.
    pub fn take(&mut self, entry: &Entry) {
        self.talk.take(entry);
        self.provenance.take(entry);
        let (seq, time) = (entry.seq, entry.time);
        match &entry.kind {
            EntryKind::Compaction(_) => self.compactions.push(seq),
            EntryKind::Request(request) => {
                self.rows.push(Row { seq, time, request: SentRequest::clone(request), usage: None });
            }
            EntryKind::Usage { usage, purpose, .. } => {
                let open = |row: &&mut Row| row.request.purpose == *purpose && row.usage.is_none();
                if let Some(row) = self.rows.iter_mut().rev().find(open) {
                    row.usage = Some(*usage);
                }
                if purpose == "turn" {
                    self.points.push((seq, *usage));
                }
            }
            _ => {}
        }
    }

    /// Adds a notice about a record that could not be read.
    pub fn unreadable(&mut self, text: &str) {
        self.talk.unreadable(text);
    }

    /// Adds the conversations of subagents of the session in this folder. Call it after all entries.
    pub(crate) fn find_subagents(&mut self, session_dir: &Path) {
        self.subagents = Subagents::find(session_dir, &self.talk);
    }

    /// Writes the whole page. Returns the number of masked secrets. `blobs`: the source of its images.
    ///
    /// # Errors
    ///
    /// Fails if `out` fails.
    pub fn write(mut self, blobs: &BlobStore, out: &mut dyn io::Write) -> io::Result<usize> {
        let mut masked = 0;
        let body = self.body(blobs, &mut masked);
        let title = self.title(&mut masked);
        write!(
            out,
            "<!doctype html>\n<html lang=\"en\"><head><meta charset=\"utf-8\">\
             <meta name=\"viewport\" content=\"width=device-width,initial-scale=1\">\
             <meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; img-src data:; \
             style-src 'unsafe-inline'; script-src 'unsafe-inline'; base-uri 'none'; form-action 'none'\">\
             <meta name=\"referrer\" content=\"no-referrer\"><title>{title}</title>\n<style>\n{CSS}</style></head>\n<body>\n"
        )?;
        let spans = self.provenance.table(&self.talk.subjects, blobs, &mut masked);
        out.write_all(self.head(&title, &mut masked, blobs).as_bytes())?;
        out.write_all(body.as_bytes())?;
        out.write_all(spans.as_bytes())?;
        write!(out, "</main>\n<script>\n{JS}</script>\n</body></html>\n")?;
        Ok(masked)
    }

    fn title(&self, masked: &mut usize) -> String {
        let first_words = || {
            let message = self.talk.transcript.messages().iter().find(|m| m.role == Role::User)?;
            Some(message.text().split_whitespace().take(12).collect::<Vec<_>>().join(" "))
        };
        let title =
            self.talk.transcript.title.clone().or_else(first_words).unwrap_or_else(|| "Session".to_owned());
        text(&title, masked)
    }

    fn head(&self, title: &str, masked: &mut usize, blobs: &BlobStore) -> String {
        let mut out = format!("<header><h1>{title}</h1><dl>");
        let mut row = |name: &str, value: &str| {
            let _ = write!(out, "<dt>{name}</dt><dd>{}</dd>", text(value, masked));
        };
        if let Some(Entry { time, kind: EntryKind::Session { session, version, cwd, extra, .. }, .. }) =
            &self.talk.first
        {
            row("session", &session.to_string());
            row("directory", &cwd.display().to_string());
            row("time", &format!("{} – {} (UTC)", moment(*time), moment(self.talk.last_time)));
            row("becket", version);
            if let Some(from) = extra.get("imported").and_then(|i| i["from"].as_str()) {
                row("imported from", from);
            }
            if let Some(of) = SubagentOf::from_extra(extra) {
                row("works for", &format!("session {} (subagent {})", of.session, of.agent));
            }
        }
        row("messages", &format!("{}, {} compactions", self.talk.said(), self.compactions.len()));
        let Usage { input, output, cache_read, cache_write, .. } = self.talk.used;
        row(
            "tokens",
            &format!(
                "{} in, {cache_read} from the cache, {output} out; ${:.2} at list price",
                input + cache_write,
                self.talk.cost
            ),
        );
        let (subagents, cost) = self.subagents.sum();
        if subagents > 0 {
            row("subagents", &format!("{subagents}, below their calls; ${cost:.2} at list price besides"));
        }
        if *masked > 0 {
            let _ = write!(out, "<dt>masked</dt><dd>{masked} secrets, by their form</dd>");
        }
        out.push_str("</dl>");
        out.push_str(&plot::tokens(&self.points, &self.compactions));
        out.push_str(&self.provenance.plot(&self.compactions, blobs));
        out.push_str(
            "</header>\n<nav><div><input id=\"q\" type=\"search\" placeholder=\"Search\" aria-label=\"Search\">\
             <button id=\"all\">Fold / unfold</button><span id=\"n\" class=\"dim\"></span></div></nav>\n<main>\n",
        );
        out
    }

    fn body(&self, blobs: &BlobStore, masked: &mut usize) -> String {
        let mut out = String::new();
        Writer::new(&self.talk, &self.subagents, Some(blobs), masked).all(&mut out);
        out.push_str(&self.requests(masked));
        out
    }

    fn requests(&self, masked: &mut usize) -> String {
        if self.rows.is_empty() {
            return String::new();
        }
        let mut out = format!(
            "<details class=\"fold\" data-item><summary><span class=\"name\">Requests</span> ({})</summary>\
             <div class=\"scroll\"><table><tr><th>N</th><th>entry</th><th>time</th><th>bytes</th><th>tokens</th>\
             <th>cached</th><th>out</th><th>model</th></tr>",
            self.rows.len()
        );
        for (n, row) in (1..).zip(&self.rows) {
            let usage = row.usage.unwrap_or_default();
            let _ = write!(
                out,
                "<tr><td>{n}</td><td>{}</td><td>{}</td><td>{}</td><td>{}</td><td>{}</td><td>{}</td><td>{} {}<br>\
                 <span class=\"dim\">{}</span></td></tr>",
                row.seq,
                moment(row.time),
                row.request.bytes,
                usage.context(),
                usage.cache_read,
                usage.output,
                text(&row.request.model, masked),
                if row.request.purpose == "turn" { "" } else { "(summary)" },
                escape(&row.request.sha256),
            );
        }
        out.push_str("</table></div></details>\n");
        out
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use becket_session::store::Disk;
    use becket_types::{Message, Part};
    use serde_json::{Map, json};
    use std::sync::Arc;

    #[test]
    fn a_page_holds_what_was_said_escaped_masked_and_loads_nothing() {
        let answer = Message::assistant(vec![
            Part::text("Looking at <b>it</b>."),
            Part::tool_call("c1", "bash", json!({"command": "echo $KEY"})),
        ]);
        let result = Message::tool_result(
            "c1".into(),
            "bash",
            "</pre><script>alert(1)</script> AKIAIOSFODNN7EXAMPLE",
            true,
        );
        let kinds = [
            EntryKind::Title { title: "A \"title\"".into() },
            EntryKind::Message { message: Message::user("fix it\u{202e}") },
            EntryKind::Message { message: answer },
            EntryKind::Message { message: result },
            EntryKind::Notice { text: "told".into(), extra: Map::new() },
        ];
        let mut page = Page::default();
        for (seq, kind) in (1..).zip(kinds) {
            page.take(&Entry { seq: Seq(seq), time: Millis(1_795_269_906_789), kind });
        }
        let mut out = Vec::new();
        let blobs = BlobStore::in_memory(Arc::new(Disk), None);
        page.write(&blobs, &mut out).unwrap();
        let page = String::from_utf8(out).unwrap();
        for word in [
            "<title>A &quot;title&quot;</title>",
            "Looking at &lt;b&gt;it&lt;/b&gt;.",
            "&lt;script&gt;alert(1)",
            "‹AWS key masked›",
            "1 secrets",
            "2026-11-21 14:05",
            "name bad",
            "default-src 'none'",
        ] {
            assert!(page.contains(word), "{word}");
        }
        assert!(!page.contains("AKIAIOSFODNN7EXAMPLE") && !page.contains('\u{202e}'));
        assert_eq!(page.matches("<script>").count(), 1);
        assert!(!page.contains("http://") && !page.contains("https://"), "nothing from elsewhere");
    }

    /// A secret is masked in every place where an export shows a text of the session, keys and names included.
    #[test]
    fn a_secret_is_masked_in_every_place() {
        const TOKEN: &str = "ghp_0123456789abcdefghijABCDEFGHIJ012345";
        let named = |text: &str| format!("{text}-{TOKEN}");
        let input = json!({"headers": {TOKEN: "1", named("k"): [{TOKEN: 2}]}});
        let call = Part::tool_call(named("c1"), named("x"), input);
        let image = Part::Image {
            media_type: named("image/x"),
            source: becket_types::ImageSource::Url(named("https://a.example/")),
            name: Some(named("shot")),
            width: None,
            height: None,
            extra: Map::new(),
        };
        let session = json!({
            "kind": "session", "session": becket_types::SessionId::new(), "version": named("1"), "cwd": named("/p"), "format": 1,
            "imported": {"from": named("x")},
        });
        let compaction = json!({
            "kind": "compaction", "summary": named("s"), "tail_from": 2, "tokens_before": 9, "tokens_after": 1,
            "trigger": "manual", "model": named("p/m"), "source": "model", "snapshot_of": 2, "turn_state": "awaiting_user",
        });
        let mut kinds = vec![EntryKind::Title { title: named("t") }];
        kinds
            .extend([session, compaction].into_iter().filter_map(|value| serde_json::from_value(value).ok()));
        assert_eq!(kinds.len(), 3, "the entries above are of the current form");
        kinds.extend([
            EntryKind::Message { message: Message::assistant(vec![call, image]) },
            EntryKind::Message {
                message: Message::tool_result(named("c1").as_str().into(), "x", named("o"), false),
            },
            EntryKind::Notice { text: named("n"), extra: Map::new() },
        ]);
        let (mut page, mut text) = (Page::default(), super::super::Markdown::default());
        for (seq, kind) in (1..).zip(kinds) {
            let (masked, count) = becket_session::secrets::mask(&serde_json::to_string(&kind).unwrap());
            assert!(count > 0 && !masked.contains(TOKEN), "{masked}");
            let entry = Entry { seq: Seq(seq), time: Millis(0), kind };
            page.take(&entry);
            text.take(&entry);
        }
        let mut out = Vec::new();
        page.write(&BlobStore::in_memory(Arc::new(Disk), None), &mut out).unwrap();
        let page = String::from_utf8(out).unwrap();
        assert!(!page.contains(TOKEN), "{page}");
    }

    /// Entries that were reverted or dropped manually are marked; entries that were brought back are not.
    #[test]
    fn what_counts_no_more_is_marked_and_what_counts_again_is_not() {
        let compaction: EntryKind = serde_json::from_value(json!({
            "kind": "compaction", "summary": "folded", "tail_from": 2, "tokens_before": 9, "tokens_after": 1,
            "trigger": "manual", "model": "p/m", "source": "model", "snapshot_of": 2, "turn_state": "awaiting_user",
        }))
        .unwrap();
        let kinds = [
            EntryKind::Message { message: Message::user("stays") },
            EntryKind::Message { message: Message::user("goes") },
            EntryKind::Message { message: Message::user("goes and comes") },
            compaction.clone(),
            compaction,
            EntryKind::Revert { entry: Seq(2) },
            EntryKind::Revert { entry: Seq(3) },
            EntryKind::Revert { entry: Seq(7) },
            EntryKind::Revert { entry: Seq(4) },
            EntryKind::Revert { entry: Seq(5) },
            EntryKind::Revert { entry: Seq(10) },
        ];
        let (mut page, mut text) = (Page::default(), super::super::Markdown::default());
        for (seq, kind) in (1..).zip(kinds) {
            let entry = Entry { seq: Seq(seq), time: Millis(0), kind };
            page.take(&entry);
            text.take(&entry);
        }
        let mut out = Vec::new();
        page.write(&BlobStore::in_memory(Arc::new(Disk), None), &mut out).unwrap();
        let page = String::from_utf8(out).unwrap();
        for word in [
            "<article class=\"user\" data-item id=\"m1\">",
            "<article class=\"user out\" data-item id=\"m2\"><div class=\"who\"><span>user, taken out</span>",
            "<article class=\"user\" data-item id=\"m3\">",
        ] {
            assert!(page.contains(word), "{word}: {page}");
        }
        assert_eq!(page.matches("9 → 1 tokens, undone <time>").count(), 1);
        assert_eq!(page.matches("9 → 1 tokens <time>").count(), 1);
        let mut out = Vec::new();
        text.write(&BlobStore::in_memory(Arc::new(becket_session::store::Disk), None), &mut out).unwrap();
        let want = "## User\n\nstays\n\n## User (taken out)\n\ngoes\n\n## User\n\ngoes and comes\n\n";
        assert_eq!(String::from_utf8(out).unwrap(), want);
    }

    /// The page shows the origin of each part of the context without texts that are not for people, and the
    /// composition of each request.
    #[test]
    fn a_page_says_what_the_model_saw_and_where_it_is_from() {
        let request = || {
            EntryKind::Request(Box::new(SentRequest {
                model: "anthropic/claude".into(),
                purpose: "turn".into(),
                max_output: 100,
                effort: None,
                no_calls: false,
                layout: becket_types::WireLayout::Standard,
                cache: becket_types::CacheLifetime::default(),
                prompt: None,
                bytes: 10,
                sha256: "00".into(),
                estimate: None,
            }))
        };
        let mut nested = Message::synthetic(becket_types::Synthetic::Rules, "SECRET words of a rules file");
        nested.metadata.extra.insert("rules_path".into(), json!("/p/sub/AGENTS.md"));
        let rules = becket_types::SystemItem {
            kind: becket_types::SystemKind::Rules,
            path: Some("/p/AGENTS.md".into()),
            text: "SECRET rules".into(),
        };
        let kinds = [
            EntryKind::System { items: vec![rules] },
            EntryKind::Message { message: Message::user("fix it") },
            request(),
            EntryKind::Message {
                message: Message::assistant(vec![Part::tool_call("c1", "bash", json!({"command": "ls"}))]),
            },
            EntryKind::Message {
                message: Message::tool_result("c1".into(), "bash", "out\n".repeat(400), false),
            },
            EntryKind::Message { message: nested },
            request(),
            EntryKind::Usage {
                message: None,
                model: "anthropic/claude".into(),
                usage: Usage { input: 10, cache_read: 990, ..Usage::default() },
                cost_usd: 0.0,
                purpose: "turn".into(),
            },
            EntryKind::Message { message: Message::user("and then") },
        ];
        let mut page = Page::default();
        for (seq, kind) in (1..).zip(kinds) {
            page.take(&Entry { seq: Seq(seq), time: Millis(0), kind });
        }
        let mut out = Vec::new();
        page.write(&BlobStore::in_memory(Arc::new(Disk), None), &mut out).unwrap();
        let page = String::from_utf8(out).unwrap();
        for word in [
            "What the model sees at the end</span> (6 spans",
            "<td>read</td><td><span class=\"name\">user</span>",
            "<td>fresh</td><td><span class=\"name\">rules</span> rules /p/sub/AGENTS.md",
            "<td>not sent yet</td><td><span class=\"name\">user</span>",
            "<span class=\"name\">rules</span> /p/AGENTS.md",
            "<span class=\"name\">rules</span> rules /p/sub/AGENTS.md",
            "<a href=\"#m2\">message 2</a>",
            "(call c1)",
            "at each of 2 requests",
            "<polygon class=\"g4\"",
        ] {
            assert!(page.contains(word), "{word}: {page}");
        }
        assert!(page.contains("id=\"m2\""), "the link leads somewhere: {page}");
        assert!(!page.contains("SECRET"), "{page}");
    }
}
