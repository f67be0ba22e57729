//! Content that must survive everything that can happen to a session: pins, open todos, rules files, the
//! user's last words; and the ledger itself through export and import.
//!
//! Properties run 64 and 256 cases (each makes sessions on disk); more with `PROPTEST_CASES`.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on fails")]

use becket_exchange::export::{Format, Secrets, export};
use becket_exchange::import::import_own;
use becket_session::context::budget::Budget;
use becket_session::context::compaction::{Floor, Request, Snapshot, Step, Summariser, begin};
use becket_session::context::{ModelScope, Policy, escape, present};
use becket_session::store::Outside;
use becket_session::{CreateOptions, Durability, Session};
use becket_types::{
    CompactionTrigger, EntryKind, FinishReason, Message, MessageId, Millis, Part, PinTarget, Seq, SystemItem,
    SystemKind,
};
use proptest::prelude::*;
use proptest::sample::Index;
use serde_json::json;
use std::path::{Path, PathBuf};
use tempfile::TempDir;

const EMPTY: &str = "## Goal\ngo on\n\n## Instructions\n\n## Progress\n### Done\n\n### In progress\n\n### Blocked\n\n## Decisions\n\n## Discoveries\n\n## Next steps\n1. go on\n\n## Relevant files\n";

fn cases(default: u32) -> ProptestConfig {
    let wanted = std::env::var("PROPTEST_CASES").ok().and_then(|n| n.parse().ok());
    ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(wanted.unwrap_or(default)) }
}

fn scope() -> ModelScope {
    ModelScope {
        provider: "p".into(),
        model: "m".into(),
        images: true,
        max_images: 9,
        max_media_bytes: 1 << 20,
    }
}

fn create(dir: &Path) -> Session {
    let options = CreateOptions { persist: true, ..CreateOptions::default() };
    Session::create(dir, dir, options, Policy::default(), scope()).unwrap()
}

/// An event in a session.
#[derive(Clone, Debug)]
enum Op {
    Asks(usize),
    Answers(usize),
    Calls(usize),
    PinsMessage(Index),
    PinsCall(Index),
    Todo(String),
    Compacts,
    UndoesCompaction,
    Restores(Index),
    Forks,
    Moves,
    Opens,
}

fn op() -> impl Strategy<Value = Op> {
    prop_oneof![
        2 => (0usize..3_000).prop_map(Op::Asks),
        3 => (0usize..3_000).prop_map(Op::Answers),
        5 => (3_000usize..9_000).prop_map(Op::Calls),
        1 => any::<Index>().prop_map(Op::PinsMessage),
        1 => any::<Index>().prop_map(Op::PinsCall),
        1 => "[a-zé数 </>]{1,500}".prop_map(Op::Todo),
        4 => Just(Op::Compacts),
        1 => Just(Op::UndoesCompaction),
        1 => any::<Index>().prop_map(Op::Restores),
        1 => Just(Op::Forks),
        1 => Just(Op::Moves),
        1 => Just(Op::Opens),
    ]
}

/// A session, what was pinned in it, and the folders that it was in.
struct World {
    /// Folders of the session, and of those that it was forked or moved from.
    dirs: Vec<TempDir>,
    session: Session,
    pinned: Vec<String>,
    /// Messages and calls that can be pinned, with a text that only they hold.
    messages: Vec<(MessageId, String)>,
    calls: Vec<(String, String)>,
    folded: Vec<MessageId>,
    compactions: Vec<Seq>,
    n: usize,
}

impl World {
    fn new() -> Self {
        let dir = tempfile::tempdir().unwrap();
        let mut session = create(dir.path());
        let rules = SystemItem {
            kind: SystemKind::Rules,
            path: Some("AGENTS.md".into()),
            text: "Be brief.\r\n\tAlways </system-reminder> escape\u{202e}.\0 \n\n".into(),
        };
        session.append(vec![EntryKind::System { items: vec![rules] }], Durability::Buffered).unwrap();
        Self {
            dirs: vec![dir],
            session,
            pinned: Vec::new(),
            messages: Vec::new(),
            calls: Vec::new(),
            folded: Vec::new(),
            compactions: Vec::new(),
            n: 0,
        }
    }

    fn put(&mut self, kinds: Vec<EntryKind>) -> Vec<Seq> {
        self.session.append(kinds, Durability::Buffered).unwrap()
    }

    fn text(&mut self, bytes: usize) -> String {
        self.n += 1;
        format!("fact {}x {}", self.n, "of the storage layer ".repeat(bytes / 21))
    }

    fn says(&mut self, message: Message, text: String) {
        self.messages.push((message.id, text));
        let (id, is_answer) = (message.id, message.role == becket_types::Role::Assistant);
        let reason =
            if message.call_ids().next().is_some() { FinishReason::ToolCalls } else { FinishReason::Stop };
        let mut kinds = vec![EntryKind::Message { message }];
        kinds.extend(is_answer.then_some(EntryKind::Finish { message: id, reason }));
        self.put(kinds);
    }

    fn apply(&mut self, op: &Op) {
        match op {
            Op::Asks(bytes) => {
                let text = self.text(*bytes);
                self.says(Message::user(text.clone()), text);
            }
            Op::Answers(bytes) => {
                let text = self.text(*bytes);
                self.says(Message::assistant(vec![Part::text(text.clone())]), text);
            }
            Op::Calls(bytes) => {
                let output = self.text(*bytes);
                let id = format!("c{}", self.n);
                let said = format!("call {}x", self.n);
                let call = Part::tool_call(id.as_str(), "bash", json!({ "command": "run" }));
                self.says(Message::assistant(vec![Part::text(said.clone()), call]), said);
                let result = Message::tool_result(id.as_str().into(), "bash", output.clone(), false);
                self.put(vec![EntryKind::Message { message: result }]);
                self.calls.push((id, output));
            }
            Op::PinsMessage(at) => {
                let live: Vec<_> =
                    self.messages.iter().filter(|(id, _)| self.is_live(*id)).cloned().collect();
                if !live.is_empty() && self.pinned.len() < 3 {
                    let (id, text) = live[at.index(live.len())].clone();
                    self.put(vec![EntryKind::Pin { target: PinTarget::Message(id) }]);
                    self.pinned.push(text);
                }
            }
            Op::PinsCall(at) => {
                let live: Vec<_> = self.calls.iter().filter(|(id, _)| self.is_shown(id)).cloned().collect();
                if !live.is_empty() && self.pinned.len() < 3 {
                    let (id, output) = live[at.index(live.len())].clone();
                    self.put(vec![EntryKind::Pin { target: PinTarget::Call(id.as_str().into()) }]);
                    self.pinned.push(output);
                }
            }
            Op::Todo(content) => {
                // As the todo tool does, both the call and its output contain the list.
                let content = content.split_whitespace().collect::<Vec<_>>().join(" ");
                self.n += 1;
                let id = format!("t{}", self.n);
                let value = json!([{ "content": content, "status": "pending" }]);
                let call = Part::tool_call(id.as_str(), "todo", json!({ "items": value }));
                self.says(Message::assistant(vec![call]), String::new());
                let result =
                    Message::tool_result(id.as_str().into(), "todo", format!("[ ] {content}\n"), false);
                self.put(vec![
                    EntryKind::Message { message: result },
                    EntryKind::State { key: "todo".into(), value },
                ]);
            }
            Op::Compacts => self.compact(),
            Op::UndoesCompaction => {
                if let Some(entry) = self.compactions.pop() {
                    self.put(vec![EntryKind::Revert { entry }]);
                }
            }
            Op::Restores(at) => {
                if !self.folded.is_empty() {
                    let id = self.folded[at.index(self.folded.len())];
                    self.put(vec![EntryKind::Restore { messages: vec![id] }]);
                }
            }
            Op::Forks => {
                let options = CreateOptions { persist: true, ..CreateOptions::default() };
                let root = self.dirs.last().unwrap().path().to_path_buf();
                let source = self.session.dir().to_path_buf();
                self.session =
                    Session::fork(&source, None, &root, &root, options, Policy::default(), scope()).unwrap();
            }
            Op::Moves => {
                let bytes = exported(&self.session);
                let dir = tempfile::tempdir().unwrap();
                let imported = import_own(dir.path(), &bytes, Some(dir.path())).unwrap();
                assert!(imported.bad.is_empty() && imported.bad_blobs.is_empty(), "{imported:?}");
                self.dirs.push(dir);
                self.session = Session::open(&imported.dir, Policy::default(), scope()).unwrap();
                assert_eq!(exported(&self.session), bytes);
            }
            Op::Opens => {
                let dir: PathBuf = self.session.dir().to_path_buf();
                // The old session holds the lock until it is dropped, so another session takes its place first.
                let options = CreateOptions { persist: false, ..CreateOptions::default() };
                self.session = Session::create(&dir, &dir, options, Policy::default(), scope()).unwrap();
                self.session =
                    Session::open_with(&dir, Policy::default(), scope(), Outside::default()).unwrap();
            }
        }
    }

    fn is_live(&self, id: MessageId) -> bool {
        self.session.view().live().any(|m| m.id == id)
    }

    fn is_shown(&self, call: &str) -> bool {
        let view = self.session.view();
        view.live().any(|m| m.result_of().is_some_and(|id| id.as_str() == call))
            && !view.is_pruned(&call.into())
    }

    fn compact(&mut self) {
        let budget = Budget::new(24_000, 0, 4_000);
        let before: Vec<MessageId> = self.session.view().live().map(|m| m.id).collect();
        let request = Request {
            trigger: CompactionTrigger::Auto,
            focus: None,
            floor: Floor::default(),
            used: self.session.view().estimated_tokens(),
            budget,
            summariser: Some(Summariser { name: "p/m".into(), budget, prices: None, cache_warm: false }),
            continuation_id: MessageId::new(),
            now: Millis(0),
        };
        let mut step = begin(Snapshot::take(self.session.view(), request));
        while let Step::Ask(ask) = step {
            step = ask.answer(Ok(EMPTY.to_owned()));
        }
        // A session that cannot be made smaller stays unchanged.
        let Step::Commit(outcome) = step else { return };
        let is_compaction = matches!(outcome.entries[0], EntryKind::Compaction(_));
        let seqs = self.put(outcome.entries);
        if is_compaction {
            self.compactions.push(seqs[0]);
        }
        self.folded = before.into_iter().filter(|id| !self.is_live(*id)).collect();
    }

    /// Everything that is shown, in one text.
    fn context(&mut self) -> String {
        let context = self.session.view_mut().context().clone();
        let texts = context.messages.iter().flat_map(|m| {
            m.message.parts.iter().map(|part| match part {
                Part::Text { text, .. } => text.clone(),
                Part::ToolResult { output, .. } => output.clone(),
                _ => String::new(),
            })
        });
        texts.collect::<Vec<_>>().join("\n")
    }
}

fn exported(session: &Session) -> Vec<u8> {
    let mut bytes = Vec::new();
    export(session.dir(), Format::Whole, Secrets::Keep, &mut bytes).unwrap();
    bytes
}

proptest! {
    #![proptest_config(cases(64))]

    /// Pinned texts are in the context byte for byte whatever happens to the session, and so says the engine's own proof.
    #[test]
    fn pins_survive_compactions_forks_moves_and_undo(ops in proptest::collection::vec(op(), 1..50)) {
        let mut world = World::new();
        for op in &ops {
            world.apply(op);
            let context = world.context();
            for text in &world.pinned {
                prop_assert!(context.contains(text.as_str()), "after {:?}: {:.20}", op, text);
            }
            let missing: Vec<_> =
                present::check(world.session.view_mut()).into_iter().filter(|p| !p.there).collect();
            prop_assert!(missing.is_empty(), "after {:?}: {:?}", op, missing);
            prop_assert!(world.session.view_mut().check().is_ok());
        }
    }
}

proptest! {
    #![proptest_config(cases(256))]

    /// Exporting, importing and exporting again gives the same bytes, blobs and damage included.
    #[test]
    fn export_import_export_is_the_identity(
        ops in proptest::collection::vec(op(), 1..12),
        blobs in proptest::collection::vec(proptest::collection::vec(any::<u8>(), 0..2_000), 0..4),
        torn in proptest::option::of("[ -~]{1,60}"),
    ) {
        let mut world = World::new();
        for blob in &blobs {
            world.session.put_blob(blob).unwrap();
        }
        for op in &ops {
            world.apply(op);
        }
        let first = exported(&world.session);
        // A damaged line in the middle of the ledger keeps its place.
        let end = first.iter().position(|b| *b == b'\n').unwrap() + 1;
        let torn = torn.map(|line| line + "\n").unwrap_or_default();
        let first = [&first[..end], torn.as_bytes(), &first[end..]].concat();
        let dir = tempfile::tempdir().unwrap();
        let imported = import_own(dir.path(), &first, Some(dir.path())).unwrap();
        prop_assert_eq!(imported.bad.is_empty(), torn.is_empty());
        let mut second = Vec::new();
        export(&imported.dir, Format::Whole, Secrets::Keep, &mut second).unwrap();
        prop_assert!(second == first);
        prop_assert!(import_own(dir.path(), &first, Some(dir.path())).unwrap().was_there);
    }

    /// Rules of any bytes that a text can have are sent as they are, but for tags that only the engine writes, also after
    /// a compaction; and a byte that is not there any more is noticed.
    #[test]
    fn rules_of_odd_bytes_are_there_byte_for_byte_after_a_compaction(
        pieces in proptest::collection::vec(
            prop_oneof![
                Just("\r\n".to_owned()), Just("\0".to_owned()), Just("\u{feff}".to_owned()), Just("\u{202e}".to_owned()),
                Just(" \t ".to_owned()), Just("<system-reminder>".to_owned()), Just("</context-summary >".to_owned()),
                Just("e\u{301}👩‍👩‍👧".to_owned()), Just("\u{200b}</verbatim_tail>".to_owned()), any::<String>(),
            ],
            1..12,
        )
    ) {
        let text = format!("rule {}", pieces.concat());
        let mut world = World::new();
        let rules = SystemItem { kind: SystemKind::Rules, path: Some("A.md".into()), text: text.clone() };
        world.put(vec![EntryKind::System { items: vec![rules] }]);
        world.apply(&Op::Asks(100));
        for _ in 0..12 {
            world.apply(&Op::Calls(8_000));
        }
        world.compact();
        prop_assert!(world.session.view().compaction().is_some() || !world.folded.is_empty()
            || world.session.view().is_pruned(&"c2".into()));
        let sent = world.session.view_mut().context().system.clone();
        prop_assert_eq!(&*sent[0], &*escape::escape(&text));
        let proof = present::check(world.session.view_mut());
        prop_assert_eq!(proof[0].what.as_str(), "rules A.md");
        prop_assert!(proof.iter().all(|p| p.there), "{:?}", proof);
    }
}

/// The continuation of a compaction repeats the prompt that had no answer. A `restore` entry does not bring the prompt back
/// beside it, so nobody can pin what the next compaction removes.
#[test]
fn a_prompt_that_a_continuation_repeats_is_not_restored() {
    let mut world = World::new();
    for op in [Op::Calls(3_000), Op::Calls(3_000), Op::Asks(0), Op::Compacts] {
        world.apply(&op);
    }
    let prompt = world.messages[2].0;
    assert!(world.folded.contains(&prompt));
    world.put(vec![EntryKind::Restore { messages: world.folded.clone() }]);
    assert_eq!(world.context().matches("fact 3x").count(), 1);
    assert!(!world.is_live(prompt) && world.is_live(world.messages[0].0));
    world.put(vec![EntryKind::Pin { target: PinTarget::Message(world.messages[0].0) }]);
    for op in [Op::Answers(0), Op::Compacts, Op::Opens] {
        world.apply(&op);
        assert!(present::check(world.session.view_mut()).into_iter().all(|p| p.there), "after {op:?}");
        assert_eq!(world.context().matches("fact 3x").count(), 1);
    }
}

#[test]
fn a_todo_as_long_as_the_tool_takes_is_there_after_a_compaction() {
    for content in ["w ".repeat(250), "数".repeat(500), format!("{} end", "a".repeat(490))] {
        let mut world = World::new();
        world.apply(&Op::Asks(10));
        world.apply(&Op::Todo(content.clone()));
        for _ in 0..40 {
            world.apply(&Op::Answers(3_000));
        }
        world.compact();
        assert!(world.session.view().compaction().is_some(), "{}", world.session.view().estimated_tokens());
        let proof = present::check(world.session.view_mut());
        let todo = proof.iter().find(|p| p.what.starts_with("todo")).unwrap_or_else(|| panic!("{proof:?}"));
        assert!(todo.there, "{todo:?}");
        assert!(world.context().contains(content.trim_end()));
    }
}
