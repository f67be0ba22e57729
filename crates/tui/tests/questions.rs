//! Questions and the keyboard: typing answers none of them, and deliberate keys answer each.
//!
//! The property types random sentences, runs of Enter and digits at random times around a question of every kind, in 2,000 cases
//! (`PROPTEST_CASES` sets another number). An answer must follow from two deliberate keys: one that marks it, and Enter after a pause. Time is simulated: a frame follows each key unless the next one comes within
//! a frame, and timers fire when they are due.
#![expect(clippy::unwrap_used, reason = "helpers of tests")]

#[allow(dead_code, reason = "each binary uses its part of the stage")]
mod support;

use becket_tui::Preferences;
use becket_tui::app::App;
use becket_tui::ax::Speaker;
use becket_tui::input::{Confirm, Effect, Input, Page, Place, Reply, Request, Timer};
use becket_tui::inspector::{Inspect, Inspected, InspectedRequest, SpanRow};
use becket_tui::server_question::{ServerAnswer, ServerForm, ServerQuestion};
use becket_tui::terminal::surface::Surface;
use becket_tui::theme::Theme;
use becket_tui::welcome::{Answer, Entry, Welcome};
use becket_types::{
    Access, CallId, Command, CompactionPlan, ContextPlan, Decision, Event, FilePath, FilePreview, Loss,
    Message, Origin, Part, PathFate, PathPlan, PermissionRequest, ProtectedContent, Role, RuleOffer,
    SizeChange, Tokens, UndoKind, UndoPlan,
};
use crossterm::event::{KeyCode, KeyEvent, KeyModifiers};
use proptest::prelude::*;
use ratatui::layout::Size;
use serde_json::json;
use std::collections::BTreeMap;
use support::started;

const SIZES: [(u16, u16); 4] = [(80, 24), (120, 40), (200, 60), (40, 10)];
/// Duration of a frame in milliseconds.
const FRAME: u64 = 16;
/// Milliseconds without a key before a key counts for a question.
const PAUSE: u64 = 300;

/// A user at the interface, with a simulated clock.
struct Desk {
    app: App,
    surface: Surface,
    size: Size,
    now: u64,
    timers: BTreeMap<Timer, u64>,
    effects: Vec<Effect>,
}

impl Desk {
    fn new(size: (u16, u16), vim: bool) -> Self {
        let size = Size::new(size.0, size.1);
        let app = App::with(Preferences { vim, ..Preferences::plain(Theme::plain()) });
        let surface = Surface::new(size).unwrap();
        let mut desk = Self { app, surface, size, now: 0, timers: BTreeMap::new(), effects: Vec::new() };
        desk.give(Input::Agent(started()));
        desk.give(Input::Agent(Event::StepStarted { step: 1 }));
        desk.frame();
        desk.effects.clear();
        desk
    }

    fn take(&mut self, effects: Vec<Effect>) {
        for effect in effects {
            match effect {
                Effect::Wake(millis, timer) => drop(self.timers.insert(timer, self.now + millis)),
                effect => self.effects.push(effect),
            }
        }
    }

    fn give(&mut self, input: Input) {
        let effects = self.app.update(input);
        self.take(effects);
    }

    fn frame(&mut self) -> String {
        let (app, mut effects) = (&mut self.app, Vec::new());
        let (cells, _) = self.surface.cells(self.size, |frame| effects = app.draw(frame)).unwrap();
        let shown = becket_tui::picture::text(cells);
        self.take(effects);
        shown
    }

    /// Lets time pass: first a frame, then every timer when it is due, each followed by a frame.
    fn wait(&mut self, millis: u64) {
        let end = self.now + millis;
        if millis >= FRAME {
            self.now += FRAME;
            self.frame();
        }
        while let Some((&timer, &at)) =
            self.timers.iter().min_by_key(|(_, at)| **at).filter(|(_, at)| **at <= end)
        {
            self.timers.remove(&timer);
            self.now = self.now.max(at);
            // Ticks of the status line do not affect questions.
            if matches!(timer, Timer::Arm | Timer::Page) {
                self.give(Input::Due(timer));
                self.frame();
            }
        }
        self.now = end;
    }

    fn press(&mut self, code: KeyCode) {
        self.give(Input::Key(KeyEvent::new(code, KeyModifiers::NONE)));
    }

    /// Presses a key after a pause that is longer than every timer.
    fn deliberately(&mut self, code: KeyCode) {
        self.wait(3_000);
        self.press(code);
    }

    fn type_text(&mut self, text: &str) {
        text.chars().for_each(|c| self.press(KeyCode::Char(c)));
    }

    /// Returns the text that was sent so far, followed by the text in the composer.
    fn written(&mut self) -> String {
        let mut out = String::new();
        for effect in &self.effects {
            match effect {
                Effect::Send(Command::Prompt(prompt)) => {
                    out.extend(prompt.parts.iter().filter_map(|part| match part {
                        Part::Text { text, .. } => Some(text.as_str()),
                        _ => None,
                    }));
                }
                Effect::Send(command) => out.extend(decision(command).and_then(|decision| match decision {
                    Decision::Deny { reason } => reason.as_deref(),
                    _ => None,
                })),
                _ => {}
            }
        }
        let ctrl_g = KeyEvent::new(KeyCode::Char('g'), KeyModifiers::CONTROL);
        for effect in self.app.update(Input::Key(ctrl_g)) {
            if let Effect::Ask(Request::Edit { text }) = effect {
                out.push_str(&text);
            }
        }
        out.retain(|c| !c.is_whitespace());
        out
    }

    fn decisions(&self) -> Vec<&Decision> {
        let sent = self.effects.iter().filter_map(|effect| match effect {
            Effect::Send(command) => decision(command),
            _ => None,
        });
        sent.collect()
    }

    /// Returns the effects that mean yes to a question of any kind.
    fn approvals(&self) -> Vec<&Effect> {
        let is = |effect: &&Effect| match effect {
            Effect::Send(command) => {
                decision(command).is_some_and(|decision| !matches!(decision, Decision::Deny { .. }))
                    || matches!(
                        command,
                        Command::CarryOut { .. }
                            | Command::Rewind { .. }
                            | Command::EditCompaction { .. }
                            | Command::SetMode { .. }
                            | Command::ChangeRules { .. }
                    )
            }
            Effect::Ask(request) => matches!(
                request,
                Request::Allow { .. }
                    | Request::Disallow { .. }
                    | Request::Edit { .. }
                    | Request::TrustCustom { .. }
                    | Request::AnswerServer { answer: ServerAnswer::Accept(_), .. }
            ),
            _ => false,
        };
        self.effects.iter().filter(is).collect()
    }
}

fn decision(command: &Command) -> Option<&Decision> {
    match command {
        Command::Decide { decision, .. } => Some(decision),
        Command::ToSubagent { what, .. } => decision(what),
        _ => None,
    }
}

fn request(hunks: usize, lines: usize) -> PermissionRequest {
    let command: Vec<String> = (0..lines).map(|i| format!("echo {i}")).collect();
    PermissionRequest {
        call_id: CallId("c1".into()),
        tool: "bash".into(),
        input: json!({"command": command.join("\n")}),
        access: Access::execute(command.join("\n")),
        reason: "no rule".into(),
        offer: Some(RuleOffer {
            rule: "Bash(echo *)".into(),
            covers: "every echo".into(),
            ..RuleOffer::default()
        }),
        nearest: None,
        secrets: None,
        preview: (hunks > 0)
            .then(|| FilePreview {
                path: "/p/a.rs".into(),
                hunks: (0..hunks).map(|i| format!("@@ -{i} +{i} @@\n-old {i}\n+new {i}\n")).collect(),
                marks: Vec::new(),
            })
            .into_iter()
            .collect(),
    }
}

/// Returns a question about a secret in the output of a call.
fn secrets() -> PermissionRequest {
    PermissionRequest { secrets: Some("GitHub token".into()), offer: None, ..request(0, 1) }
}

/// Kinds of questions in the interface.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Call,
    /// A question if the output of a finished call may be sent with its secrets.
    Secrets,
    CallOfSubagent,
    LongCall,
    /// Two calls, asked about one after the other.
    TwoCalls,
    /// A change of a file, whose rule allows every edit of it.
    Edit,
    /// A page of the web.
    Fetch,
    /// A call of an MCP server's tool, which has neither a command nor a path.
    McpTool,
    /// A call that the model wrote as text, which becket asks about one by one.
    TextCall,
    Hunks,
    /// The list of hunks is open.
    InHunks,
    /// The rule that would always allow the call is shown.
    Always,
    /// The answers have the keyboard.
    Focused,
    /// A block of the transcript above the question has the keyboard.
    Above,
    Undo,
    Rewind,
    Compaction,
    /// A custom command that is shown before it runs.
    Custom,
    Context,
    /// The same change of the context, requested in the inspector.
    Inspector,
    /// The mode in which nothing is asked about.
    Mode,
    /// The list of allowed rules, to be withdrawn.
    Withdraw,
    /// A plan of the model, to be carried out.
    Plan,
    /// Questions of the model with prepared answers.
    Model,
    /// A form of an MCP server.
    Form,
    /// An address that an MCP server wants to be opened.
    Address,
}

const KINDS: [Kind; 26] = [
    Kind::Call,
    Kind::Edit,
    Kind::Fetch,
    Kind::McpTool,
    Kind::TextCall,
    Kind::Above,
    Kind::Secrets,
    Kind::CallOfSubagent,
    Kind::LongCall,
    Kind::TwoCalls,
    Kind::Hunks,
    Kind::InHunks,
    Kind::Always,
    Kind::Focused,
    Kind::Undo,
    Kind::Rewind,
    Kind::Compaction,
    Kind::Custom,
    Kind::Context,
    Kind::Inspector,
    Kind::Mode,
    Kind::Withdraw,
    Kind::Plan,
    Kind::Model,
    Kind::Form,
    Kind::Address,
];

/// Returns a question that a tool of the model asks.
fn model_asks(tool: &str, input: serde_json::Value) -> Event {
    let access = Access::session();
    Event::PermissionAsked(Box::new(PermissionRequest {
        tool: tool.into(),
        input,
        access,
        offer: None,
        ..request(0, 1)
    }))
}

/// Returns a question of an MCP server.
fn server_asks(form: ServerForm) -> Input {
    let question =
        ServerQuestion { number: 1, server: "weather".into(), message: "Which place?".into(), form };
    Input::Reply(Reply::ServerAsks(Box::new(question)))
}

fn context_plan() -> ContextPlan {
    ContextPlan {
        plan: 5,
        what: "Left out: 2 messages.".into(),
        items: vec!["12".into()],
        tokens_before: Tokens(23_100),
        tokens_after: Tokens(13_700),
        messages: 9,
        messages_unchanged: 1,
        tokens_resent: Tokens(4_300),
        usd_once: None,
        usd_saved_per_request: None,
    }
}

impl Kind {
    /// True for a question about a call. The composer is on the screen then, and no page refuses the text.
    fn is_call(self) -> bool {
        matches!(
            self,
            Self::Call
                | Self::CallOfSubagent
                | Self::LongCall
                | Self::TwoCalls
                | Self::Hunks
                | Self::Edit
                | Self::Fetch
                | Self::McpTool
                | Self::TextCall
        )
    }

    /// Brings the interface into the state before the typing begins.
    fn prepare(self, desk: &mut Desk) {
        if self == Self::Inspector {
            desk.type_text("/inspect 2");
            desk.press(KeyCode::Enter);
            let rows = vec![SpanRow { seq: Some(12), kind: "user".into(), ..SpanRow::default() }];
            let page = Inspected::Spans { head: "request 2".into(), rows };
            let asked = Inspect::Spans { request: InspectedRequest::numbered(2) };
            desk.give(Input::Reply(Reply::Inspected { asked, result: Ok(page) }));
            desk.frame();
        }
        if self == Self::Rewind {
            let message = Message::new(Role::User, Origin::User, vec![Part::text("fix it")]);
            desk.give(Input::Agent(Event::UserMessage { message, client_id: None, steered: false }));
            desk.give(Input::Agent(support::turn_end(becket_types::TurnEnd::Completed)));
        }
        desk.effects.clear();
    }

    fn ask(self, desk: &mut Desk) {
        let plain = || Event::PermissionAsked(Box::new(request(0, 1)));
        let event = match self {
            Self::Call | Self::Focused | Self::Always | Self::Above => plain(),
            Self::Edit => Event::PermissionAsked(Box::new(PermissionRequest {
                tool: "edit".into(),
                access: Access::write("/p/a.rs".into()),
                offer: Some(RuleOffer {
                    rule: "Edit(//p/a.rs)".into(),
                    covers: "every edit of /p/a.rs".into(),
                    ..RuleOffer::default()
                }),
                ..request(1, 1)
            })),
            Self::Fetch => Event::PermissionAsked(Box::new(PermissionRequest {
                tool: "webfetch".into(),
                input: json!({"url": "https://docs.rs/a"}),
                access: Access { subject: Some("https://docs.rs/a".into()), ..Access::session() },
                offer: Some(RuleOffer {
                    rule: "WebFetch(domain:docs.rs)".into(),
                    covers: "pages of docs.rs".into(),
                    ..RuleOffer::default()
                }),
                ..request(0, 1)
            })),
            Self::McpTool => model_asks("mcp__weather__now", json!({"place": "Kiel"})),
            Self::TextCall => Event::PermissionAsked(Box::new(PermissionRequest {
                reason: "the model wrote this call as text".into(),
                offer: None,
                ..request(0, 1)
            })),
            Self::Secrets => Event::PermissionAsked(Box::new(secrets())),
            Self::CallOfSubagent => Event::Subagent { call_id: CallId("t".into()), what: Box::new(plain()) },
            Self::LongCall => Event::PermissionAsked(Box::new(request(0, 80))),
            Self::TwoCalls => {
                desk.give(Input::Agent(plain()));
                let second = PermissionRequest { call_id: CallId("c2".into()), ..request(0, 1) };
                Event::PermissionAsked(Box::new(second))
            }
            Self::Hunks | Self::InHunks => Event::PermissionAsked(Box::new(request(2, 1))),
            Self::Undo => {
                let path = PathPlan {
                    path: FilePath("/p/a.rs".into()),
                    fate: PathFate::Conflict { why: "changed".into() },
                    node: None,
                    lines: Some((1, 2)),
                    bytes: 9,
                    mode: None,
                };
                Event::UndoPlanned(Box::new(UndoPlan {
                    plan: 7,
                    kind: UndoKind::Undo,
                    turns: Vec::new(),
                    newer: 0,
                    calls: vec!["edit a.rs".into()],
                    paths: vec![path],
                    unchanged: 0,
                    skipped: Vec::new(),
                    damaged: 0,
                    conversation: None,
                    resumed: false,
                    doubt: None,
                }))
            }
            Self::Compaction => Event::CompactionPlanned(Box::new(CompactionPlan {
                plan: 1,
                size: SizeChange { before: Tokens(148_000), after: Tokens(21_000) },
                categories: Vec::new(),
                gone: Vec::new(),
                stays: 7,
                stubs: 2,
                loss: Loss::default(),
                protected: ProtectedContent { present: 3, ..ProtectedContent::default() },
                summary: "## Goal".into(),
                notices: Vec::new(),
                left_out: Vec::new(),
            })),
            Self::Context | Self::Inspector => Event::ContextPlanned(Box::new(context_plan())),
            Self::Custom => {
                let request = Request::TrustCustom { name: "review".into(), arguments: String::new() };
                let confirm = Confirm { question: "run it?".into(), request };
                let page = Page { markdown: "runs".into(), confirm: Some(confirm), ..Page::default() };
                desk.give(Input::Reply(Reply::Page(Ok(page))));
                return;
            }
            Self::Mode => {
                desk.type_text("/mode bypassPermissions");
                // Enter takes the completion first, then the command.
                for _ in 0..2 {
                    if !desk.frame().contains("becket asks") {
                        desk.press(KeyCode::Enter);
                    }
                }
                let frame = desk.frame();
                assert!(frame.contains("becket asks"), "{frame}");
                return;
            }
            Self::Plan => model_asks("exit_plan", json!({"plan": "# Steps\n\n1. read\n2. write"})),
            Self::Model => model_asks(
                "ask_user",
                json!({"questions": [{"question": "Which one?", "header": "One", "multiSelect": false, "options": [
                    {"label": "sqlite", "description": "one file"}, {"label": "postgres", "description": "a server"}]}]}),
            ),
            Self::Form => {
                let schema = json!({"type": "object", "properties": {
                    "rain": {"type": "boolean", "default": true}, "days": {"type": "integer", "default": 3}}});
                desk.give(server_asks(ServerForm::Fields(schema)));
                return;
            }
            Self::Address => {
                desk.give(server_asks(ServerForm::Url("https://example.org".to_owned())));
                return;
            }
            Self::Withdraw => {
                let kept = Some(vec![("Bash(make *)".to_owned(), Place::Local)]);
                desk.give(Input::Reply(Reply::Page(Ok(Page { kept, ..Page::default() }))));
                return;
            }
            Self::Rewind => {
                // The page is opened by hand: Esc twice, then the message.
                for code in [KeyCode::Esc, KeyCode::Esc, KeyCode::Enter] {
                    desk.press(code);
                    desk.frame();
                }
                return;
            }
        };
        desk.give(Input::Agent(event));
        if self == Self::Above {
            desk.wait(3_000);
            desk.give(Input::Key(KeyEvent::new(KeyCode::Up, KeyModifiers::ALT)));
        }
        if matches!(self, Self::Focused | Self::InHunks | Self::Always) {
            // The user was about to answer and begins to type instead.
            desk.deliberately(KeyCode::Tab);
            if self != Self::Focused {
                let number = if self == Self::InHunks { '4' } else { '3' };
                desk.deliberately(KeyCode::Char(number));
            }
            // Begins the text with a letter, because a digit alone would be an answer here, as intended.
            desk.press(KeyCode::Char('w'));
        }
    }
}

/// An action of the user at one moment.
#[derive(Clone, Debug)]
enum Stroke {
    Type(char),
    /// Sends the text.
    Enter,
    NewLine,
    Paste(String),
}

fn strokes() -> impl Strategy<Value = Vec<(Stroke, u64)>> {
    let gap = prop_oneof![6 => 0..120_u64, 2 => 120..400_u64, 1 => 400..4_000_u64];
    let letter = prop_oneof![
        4 => prop::sample::select("ynsahrxpufbceqgjk".chars().collect::<Vec<_>>()),
        2 => prop::char::range('1', '9'),
        4 => prop::char::range('a', 'z'),
        2 => Just(' '),
        1 => prop::sample::select(".,;:?!…-'\"()é日😀ßЯ".chars().collect::<Vec<_>>()),
    ];
    let stroke = prop_oneof![
        20 => letter.prop_map(Stroke::Type),
        2 => Just(Stroke::Enter),
        1 => Just(Stroke::NewLine),
        1 => "[a-z1-9ys\n]{1,12}".prop_map(Stroke::Paste),
    ];
    let random = prop::collection::vec((stroke, gap.clone()), 1..30);
    let said = [
        "stop, wrong file\n",
        "yes but first run the tests\n",
        "notes: see docs\n",
        "1\n",
        "2 of them are wrong\n",
        "y\n",
        "s\n",
        "a\n",
        "1 more thing\n2 more\n",
        "\n\n1\n",
        "\n\n\n\n",
        "\n2 of them are wrong\n\n",
        "4\n\n",
        "12\n34 more\n",
        "yyyy1111\n",
        "ask me first",
    ];
    let sentence =
        (prop::sample::select(said.to_vec()), prop::collection::vec(gap, 40)).prop_map(|(text, gaps)| {
            let stroke = |c| if c == '\n' { Stroke::Enter } else { Stroke::Type(c) };
            text.chars().map(stroke).zip(gaps).collect::<Vec<_>>()
        });
    // Keys that are both typing and keys of the list of answers.
    let press = prop_oneof![
        5 => Just(Stroke::Enter),
        3 => prop::char::range('1', '9').prop_map(Stroke::Type),
        1 => prop::sample::select("y x".chars().collect::<Vec<_>>()).prop_map(Stroke::Type),
        1 => Just(Stroke::Paste("ok".to_owned())),
    ];
    let gap = prop_oneof![2 => 0..PAUSE, 1 => PAUSE..1_000_u64];
    let presses = prop::collection::vec((press, gap), 1..12);
    prop_oneof![2 => random, 1 => sentence, 1 => presses]
}

/// True if the stroke `at` can be the second of two deliberate keys: Enter after a pause, and before the pause a key that marks an
/// answer of a question that had been on the screen for a pause. `appears`: the first stroke after the question, `after` the pause
/// before it.
fn is_deliberate(strokes: &[(Stroke, u64)], at: usize, appears: usize, after: u64) -> bool {
    let Some(marking) = at.checked_sub(1).filter(|marking| *marking >= appears) else { return false };
    let (key, pause) = &strokes[marking];
    let marks = match key {
        Stroke::Enter => true,
        Stroke::Type(c) => c.is_ascii_digit(),
        Stroke::NewLine | Stroke::Paste(_) => false,
    };
    let read = after >= PAUSE || strokes[appears..marking].iter().any(|(_, gap)| *gap >= PAUSE);
    matches!(strokes[at].0, Stroke::Enter) && marks && *pause >= PAUSE && read
}

fn cases() -> u32 {
    std::env::var("PROPTEST_CASES").ok().and_then(|n| n.parse().ok()).unwrap_or(2_000)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: cases().div_ceil(4), failure_persistence: None, ..ProptestConfig::default() })]

    /// Without a pause no keys answer a question with yes, whatever they are and however many.
    #[test]
    fn keys_without_a_pause_answer_nothing(
        kind in prop::sample::select(KINDS.to_vec()),
        keys in prop::collection::vec((prop::sample::select(vec!['\n', '\n', '1', '2', '3', '4', 'y', ' ']), 0..290_u64), 1..15),
        after in 0..3_000_u64,
        size in prop::sample::select(SIZES.to_vec()),
        vim in any::<bool>(),
    ) {
        let mut desk = Desk::new(size, vim);
        kind.prepare(&mut desk);
        kind.ask(&mut desk);
        desk.wait(after);
        for (c, gap) in keys {
            desk.press(if c == '\n' { KeyCode::Enter } else { KeyCode::Char(c) });
            desk.wait(gap);
        }
        prop_assert!(desk.approvals().is_empty(), "{kind:?}: {:?}", desk.approvals());
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: cases(), failure_persistence: None, ..ProptestConfig::default() })]

    /// Whatever is typed, sent or pasted around a question, no question is answered with yes and no text is lost, unless a key marked
    /// the answer and Enter took it after a pause.
    #[test]
    fn typing_never_answers_a_question(
        kind in prop::sample::select(KINDS.to_vec()),
        strokes in strokes(),
        appears in 0..30_usize,
        after in 0..3_000_u64,
        size in prop::sample::select(SIZES.to_vec()),
        vim in any::<bool>(),
    ) {
        let mut desk = Desk::new(size, vim);
        kind.prepare(&mut desk);
        let appears = match kind {
            // The user opens these with keys, so no text was typed before: the composer is empty, and the inspector takes letters itself.
            Kind::Rewind
            | Kind::Inspector
            | Kind::Focused
            | Kind::InHunks
            | Kind::Always
            | Kind::Mode => 0,
            _ => appears.min(strokes.len()),
        };
        let mut typed = String::new();
        // Text since the last Enter. A `?` alone asks for help, so it is no message.
        let (mut line, mut asks_for_help) = (String::new(), false);
        let (mut approved, mut deliberate) = (0, false);
        for (at, (stroke, gap)) in strokes.iter().enumerate() {
            if at == appears {
                kind.ask(&mut desk);
                desk.wait(after);
            }
            match stroke {
                Stroke::Type(c) => {
                    typed.push(*c);
                    line.push(*c);
                    desk.press(KeyCode::Char(*c));
                }
                Stroke::Enter => {
                    asks_for_help |= line.trim() == "?";
                    line.clear();
                    desk.press(KeyCode::Enter);
                }
                Stroke::NewLine => {
                    desk.give(Input::Key(KeyEvent::new(KeyCode::Enter, KeyModifiers::SHIFT)));
                }
                Stroke::Paste(text) => {
                    typed.push_str(text);
                    line.push_str(text);
                    desk.give(Input::Paste(text.clone()));
                }
            }
            if is_deliberate(&strokes, at, appears, after) {
                (approved, deliberate) = (desk.approvals().len(), true);
            }
            prop_assert_eq!(desk.approvals().len(), approved, "{:?} at {}: {:?}", kind, at, desk.approvals());
            desk.wait(*gap);
        }
        prop_assert_eq!(desk.approvals().len(), approved, "{:?}: {:?}", kind, desk.approvals());
        // Some characters have a special meaning at the start of a line.
        let signs = typed.contains('!') || asks_for_help;
        if kind.is_call() && !signs && !deliberate {
            typed.retain(|c| !c.is_whitespace());
            prop_assert_eq!(desk.written(), typed, "{:?}", kind);
        }
    }

    /// The keys of the composer, such as Tab and the arrows: pressed while the user types, none of them answers a question with yes.
    #[test]
    fn keys_of_the_composer_in_the_flow_of_typing_answer_nothing(
        kind in prop::sample::select(vec![Kind::Call, Kind::LongCall, Kind::Hunks, Kind::Undo, Kind::Compaction]),
        keys in prop::collection::vec(
            (
                prop::sample::select(vec![
                    KeyCode::Char('1'), KeyCode::Char('y'), KeyCode::Char('o'), KeyCode::Char(' '), KeyCode::Enter,
                    KeyCode::Tab, KeyCode::Up, KeyCode::Left, KeyCode::Right, KeyCode::Home, KeyCode::End,
                    KeyCode::Backspace,
                ]),
                0..290_u64,
            ),
            1..40,
        ),
        after in 0..3_000_u64,
        size in prop::sample::select(SIZES.to_vec()),
    ) {
        let mut desk = Desk::new(size, false);
        desk.type_text("half a thought");
        kind.ask(&mut desk);
        desk.wait(after);
        for (code, gap) in keys {
            // After a draft is sent or deleted, the user begins the next one at once.
            desk.type_text("and");
            desk.wait(gap);
            desk.press(code);
            desk.wait(gap);
        }
        prop_assert!(desk.approvals().is_empty(), "{kind:?}: {:?}", desk.approvals());
    }

    /// Typing never answers the trust question before a session with yes.
    #[test]
    fn typing_never_trusts(strokes in strokes(), armed in prop::collection::vec(any::<bool>(), 40)) {
        let entries = vec![Entry::new("no", "no", ""), Entry::new("yes", "yes", "")];
        let mut page = Welcome::new("trust?", Vec::new(), entries);
        for ((stroke, _), armed) in strokes.into_iter().zip(armed) {
            if armed {
                page.arm();
            }
            let answer = match stroke {
                Stroke::Type(c) => page.key(KeyEvent::new(KeyCode::Char(c), KeyModifiers::NONE)),
                Stroke::Enter => page.key(KeyEvent::new(KeyCode::Enter, KeyModifiers::NONE)),
                Stroke::NewLine => page.key(KeyEvent::new(KeyCode::Enter, KeyModifiers::SHIFT)),
                Stroke::Paste(text) => {
                    page.paste(&text);
                    None
                }
            };
            prop_assert_ne!(&answer, &Some(Answer::Chosen("yes".into())));
            if answer.is_some() {
                break;
            }
        }
    }

    /// The first start: typed and pasted text chooses no entry. Enter takes the entry at the cursor, which is the first one
    /// after typing.
    #[test]
    fn typing_at_the_first_start_chooses_nothing_by_itself(
        strokes in strokes(),
        armed in prop::collection::vec(any::<bool>(), 40),
    ) {
        let names = ["model a/b", "paste", "demo"];
        let entries = names.map(|name| Entry::new(name, name, "")).to_vec();
        let mut page = Welcome::new("Which model?", Vec::new(), entries);
        for ((stroke, _), armed) in strokes.into_iter().zip(armed) {
            if armed {
                page.arm();
            }
            match stroke {
                Stroke::Type(c) => {
                    prop_assert_eq!(page.key(KeyEvent::new(KeyCode::Char(c), KeyModifiers::NONE)), None);
                }
                Stroke::Paste(text) => page.paste(&text),
                Stroke::Enter | Stroke::NewLine => {
                    let answer = page.key(KeyEvent::new(KeyCode::Enter, KeyModifiers::NONE));
                    prop_assert!(answer.is_none_or(|answer| answer == Answer::Chosen(names[0].into())));
                }
            }
        }
    }

    /// For screen readers: only a few exact lines are answers.
    #[test]
    fn no_line_of_a_sentence_answers_a_question(
        lines in prop::collection::vec("[ynsfa1-9]|(y|yes|s|no?|1|always)[ ,.]{0,2}[a-z1-9 ]{0,20}|[a-zA-Z1-9é日 ,.!?]{0,30}", 1..8),
        early in any::<bool>(),
    ) {
        let mut speaker = Speaker::default();
        speaker.event(&Event::PermissionAsked(Box::new(request(0, 1))));
        for line in lines {
            for effect in speaker.line(&line, early).0 {
                if let Effect::Send(command) = &effect {
                    prop_assert!(decision(command).is_none(), "{line:?}: {effect:?}");
                }
            }
        }
    }
}

fn allowed(desk: &Desk) -> Vec<Decision> {
    desk.decisions().into_iter().cloned().collect()
}

#[test]
fn a_question_is_answered_deliberately_at_every_size() {
    for size in SIZES {
        for vim in [false, true] {
            let ask = || {
                let mut desk = Desk::new(size, vim);
                Kind::Hunks.ask(&mut desk);
                desk.wait(3_000);
                desk
            };
            // Down and Enter without a pause between them choose the first answer.
            let mut desk = ask();
            desk.press(KeyCode::Down);
            let shown = desk.frame();
            assert!(shown.contains("❯ 1 Yes") || shown.contains("❯1 yes"), "{shown}");
            assert!(shown.contains('›'), "the composer stays: {shown}");
            // On a small screen the question does not fit, so it must be scrolled to its end first.
            for _ in 0..4 {
                desk.press(KeyCode::PageDown);
                desk.frame();
            }
            desk.press(KeyCode::Enter);
            assert_eq!(allowed(&desk), [Decision::AllowOnce], "{size:?}\n{}", desk.frame());
            // There is no cursor until the list has the keyboard, and the answer that Enter marks has a sign of its own. Up gives it to the list as well. Since Up also brings earlier prompts back, the list waits
            // before it answers.
            let mut desk = ask();
            let shown = desk.frame();
            let marked = shown.contains("▸ 1 Yes") || shown.contains("▸1 yes");
            assert!(marked || !shown.contains("Ctrl-C"), "{shown}");
            assert!(!shown.contains('❯'), "{shown}");
            desk.press(KeyCode::Up);
            let shown = desk.frame();
            assert!(shown.contains("❯ 1 Yes") || shown.contains("❯1 yes"), "{shown}");
            desk.press(KeyCode::Enter);
            assert!(allowed(&desk).is_empty(), "{size:?}\n{}", desk.frame());
            for _ in 0..4 {
                desk.deliberately(KeyCode::PageDown);
            }
            desk.deliberately(KeyCode::Enter);
            assert_eq!(allowed(&desk), [Decision::AllowOnce], "{size:?}");
            // A number chooses once the list has the keyboard.
            let mut desk = ask();
            for _ in 0..4 {
                desk.deliberately(KeyCode::PageDown);
            }
            desk.deliberately(KeyCode::Tab);
            desk.press(KeyCode::Char('2'));
            assert_eq!(allowed(&desk), [Decision::AllowSession], "{size:?}");
            // The arrows wrap around: Up from the first answer reaches No.
            let mut desk = ask();
            for code in [KeyCode::Down, KeyCode::Up, KeyCode::Enter] {
                desk.press(code);
            }
            assert_eq!(allowed(&desk), [Decision::Deny { reason: None }], "{size:?}");
            // Esc refuses. In Vim's insert mode it leaves that mode first.
            let mut desk = ask();
            desk.press(KeyCode::Esc);
            if vim {
                assert!(allowed(&desk).is_empty());
                desk.press(KeyCode::Esc);
            }
            assert_eq!(allowed(&desk), [Decision::Deny { reason: None }], "{size:?}");
            // A sentence becomes the reason.
            let mut desk = ask();
            desk.type_text("1 file at a time, yes?");
            desk.press(KeyCode::Enter);
            let reason = Some("1 file at a time, yes?".to_owned());
            assert_eq!(allowed(&desk), [Decision::Deny { reason }], "{size:?}");
        }
    }
}

/// Consent as a text neither allows a call, because typing never does, nor refuses it, because nobody means that.
#[test]
fn a_text_that_only_says_yes_leaves_the_question_open() {
    for text in ["y", "Yes", "ok.", "ja", "0", "はい", " sí! "] {
        let mut desk = Desk::new((80, 24), false);
        Kind::Call.ask(&mut desk);
        desk.wait(3_000);
        desk.type_text(text);
        // The line of keys says so before it happens.
        assert!(desk.frame().contains("Your text answers nothing: Tab"), "{}", desk.frame());
        desk.deliberately(KeyCode::Enter);
        assert!(desk.decisions().is_empty(), "{text}: {:?}", desk.effects);
        let shown = desk.frame();
        assert!(shown.contains("The question is still open: Tab, then Enter, answers"), "{shown}");
        desk.deliberately(KeyCode::Tab);
        // The text is still in the composer, so the list waits a moment before a key counts.
        desk.deliberately(KeyCode::Char('1'));
        assert_eq!(allowed(&desk), [Decision::AllowOnce], "{text}");
    }
    for text in ["no", "yes but not this file", "10", "y?"] {
        let mut desk = Desk::new((80, 24), false);
        Kind::Call.ask(&mut desk);
        desk.wait(3_000);
        desk.type_text(text);
        desk.deliberately(KeyCode::Enter);
        assert_eq!(allowed(&desk), [Decision::Deny { reason: Some(text.to_owned()) }]);
    }
}

#[test]
fn each_question_of_a_session_names_files_in_the_same_way() {
    let mut desk = Desk::new((80, 24), false);
    let Event::SessionStarted { cwd, .. } = support::started() else { panic!("another event") };
    let path = cwd.join("src/a.rs");
    for _ in 0..3 {
        let hunks = vec!["@@ -1 +1 @@\n-old\n+new\n".to_owned()];
        let preview = vec![FilePreview { path: path.clone(), hunks, marks: Vec::new() }];
        let access = Access::write(path.clone());
        let asked = PermissionRequest { tool: "edit".into(), access, preview, ..request(0, 0) };
        desk.give(Input::Agent(Event::PermissionAsked(Box::new(asked))));
        desk.wait(3_000);
        let shown = desk.frame();
        assert!(shown.contains("? Edit src/a.rs?"), "{shown}");
        desk.deliberately(KeyCode::Tab);
        desk.press(KeyCode::Char('1'));
    }
    assert_eq!(desk.decisions().len(), 3);
}

#[test]
fn a_question_that_has_room_is_shown_whole() {
    let change = |lines: usize| {
        let body: Vec<String> = (0..lines).map(|i| format!("-old {i}\n")).collect();
        let body = body.concat();
        let preview = vec![FilePreview {
            path: "/p/a.rs".into(),
            hunks: vec![format!("@@ -1 +1 @@\n{body}")],
            marks: Vec::new(),
        }];
        let reason = "edits in src/ are asked about in this mode, and no rule of yours or of the project allows the tool edit".into();
        PermissionRequest {
            reason,
            preview,
            tool: "edit".into(),
            access: Access::write("/p/a.rs".into()),
            ..request(0, 0)
        }
    };
    for lines in 1..60 {
        let mut desk = Desk::new((80, 24), false);
        desk.give(Input::Agent(Event::PermissionAsked(Box::new(change(lines)))));
        desk.wait(3_000);
        let shown = desk.frame();
        let whole = shown.contains(&format!("-old {}", lines - 1)) && shown.contains("1 Yes");
        // One hunk of twelve lines with its reason, the answers, the composer, the status line and a row of the
        // transcript.
        assert_eq!(whole, lines <= 12, "{lines}\n{shown}");
        desk.deliberately(KeyCode::Tab);
        desk.press(KeyCode::Char('1'));
        let decided = if whole { vec![Decision::AllowOnce] } else { Vec::new() };
        assert_eq!(allowed(&desk), decided, "{lines}\n{}", desk.frame());
    }
}

/// Answers say whole what they allow, at every width: shorter, or in several rows. None looks like another one.
#[test]
fn answers_are_never_cut_and_differ() {
    for columns in 24..100 {
        let mut desk = Desk::new((columns, 24), false);
        Kind::Call.ask(&mut desk);
        desk.wait(3_000);
        let shown = desk.frame();
        let from = shown.lines().position(|line| line.starts_with("▸ 1 Yes")).unwrap();
        let mut answers: Vec<String> = Vec::new();
        for line in shown.lines().skip(from).take_while(|line| line.starts_with(['▸', ' '])) {
            match line.chars().nth(2) {
                Some(' ') => answers.last_mut().unwrap().push_str(&line[3..]),
                _ => answers.push(line.chars().skip(4).collect::<String>().trim().to_owned()),
            }
        }
        assert!(answers.len() >= 4, "{columns}\n{shown}");
        assert!(answers.iter().all(|answer| !answer.contains('…')), "{columns}\n{shown}");
        assert!(answers[1].contains("echo *") && answers[1].contains("this session"), "{columns}\n{shown}");
        assert!(answers[2].contains("echo *") && answers[2].contains("always"), "{columns}\n{shown}");
        let different: std::collections::BTreeSet<&String> = answers.iter().collect();
        assert_eq!(different.len(), answers.len(), "{columns}\n{shown}");
    }
}

/// Enter marks the first answer and a number marks its own, with a cursor and the words that the next Enter takes it. No key but
/// that Enter answers, and only after a pause.
#[test]
fn enter_or_a_number_marks_an_answer_and_enter_takes_it() {
    for size in SIZES {
        for vim in [false, true] {
            for (mark, row, decision) in [
                (KeyCode::Enter, "❯ 1 Yes", Decision::AllowOnce),
                (KeyCode::Char('1'), "❯ 1 Yes", Decision::AllowOnce),
                (KeyCode::Char('2'), "❯ 2 Yes", Decision::AllowSession),
                (KeyCode::Char('4'), "❯ 4 No", Decision::Deny { reason: None }),
            ] {
                let mut desk = Desk::new(size, vim);
                Kind::Call.ask(&mut desk);
                // On a small screen the question must be read to its end first, and its answers share a row.
                for _ in 0..4 {
                    desk.deliberately(KeyCode::PageDown);
                }
                desk.deliberately(mark);
                let shown = desk.frame();
                let marked = shown.contains(row) || (size.1 == 10 && shown.contains('❯'));
                assert!(marked && shown.contains("Enter takes it"), "{row} {size:?}\n{shown}");
                // A run of Enters, as of a key that is held down, answers nothing, and the screen says so.
                for _ in 0..40 {
                    desk.wait(100);
                    desk.press(KeyCode::Enter);
                }
                let shown = desk.frame();
                assert!(shown.contains("too early") || shown.contains("Press Enter again"), "{shown}");
                assert!(desk.decisions().is_empty(), "{size:?}");
                desk.deliberately(KeyCode::Enter);
                assert_eq!(allowed(&desk), [decision], "{size:?}");
            }
        }
    }
    // The same keys answer a page that asks.
    for mark in [KeyCode::Enter, KeyCode::Char('1')] {
        let mut desk = Desk::new((80, 24), false);
        Kind::Undo.prepare(&mut desk);
        Kind::Undo.ask(&mut desk);
        desk.deliberately(mark);
        let shown = desk.frame();
        assert!(shown.contains("❯ 1") && shown.contains("Enter takes it"), "{shown}");
        assert!(desk.approvals().is_empty());
        desk.deliberately(KeyCode::Enter);
        assert_eq!(desk.approvals().len(), 1, "{}", desk.frame());
    }
}

/// A number that turns out to be the beginning of a text is a part of the text, and other numbers go on from there.
/// Shift-Enter is a new line of a text, so it takes the keyboard from a marked answer, and the next Enter answers nothing.
#[test]
fn a_new_line_takes_the_keyboard_from_a_marked_answer() {
    for kind in [Kind::Call, Kind::Undo, Kind::Inspector] {
        let mut desk = Desk::new((80, 24), false);
        kind.prepare(&mut desk);
        kind.ask(&mut desk);
        desk.deliberately(KeyCode::Enter);
        desk.give(Input::Key(KeyEvent::new(KeyCode::Enter, KeyModifiers::SHIFT)));
        desk.deliberately(KeyCode::Enter);
        assert!(desk.approvals().is_empty(), "{kind:?}: {:?}", desk.approvals());
    }
}

#[test]
fn a_text_that_begins_with_a_number_marks_and_then_loses_nothing() {
    for (text, pause) in
        [("2 of them are wrong", 0), ("2 of them are wrong", 3_000), ("12 times no", 500), ("19", 0)]
    {
        let mut desk = Desk::new((80, 24), false);
        Kind::Call.ask(&mut desk);
        desk.wait(3_000);
        for c in text.chars() {
            desk.press(KeyCode::Char(c));
            desk.wait(pause);
        }
        let shown = desk.frame();
        assert!(shown.contains(&format!("› {text}")) && !shown.contains('❯'), "{shown}");
        desk.press(KeyCode::Enter);
        assert_eq!(allowed(&desk), [Decision::Deny { reason: Some(text.to_owned()) }]);
    }
    // Digits move the mark, and Backspace goes on writing.
    let mut desk = Desk::new((80, 24), false);
    Kind::Call.ask(&mut desk);
    for key in [KeyCode::Char('2'), KeyCode::Char('3')] {
        desk.deliberately(key);
    }
    assert!(desk.frame().contains("❯ 3 Yes"), "{}", desk.frame());
    desk.deliberately(KeyCode::Backspace);
    assert!(desk.frame().contains("› 2") && !desk.frame().contains('❯'), "{}", desk.frame());
}

/// A text that was meant for the turn, sent with one Enter too many, marks an answer at most.
#[test]
fn enters_after_a_text_that_was_sent_mark_an_answer_at_most() {
    let ask = || {
        let mut desk = Desk::new((80, 24), false);
        desk.type_text("fo");
        Kind::Call.ask(&mut desk);
        desk.wait(3_000);
        desk.type_text("o");
        desk.press(KeyCode::Enter);
        desk
    };
    let mut desk = ask();
    desk.deliberately(KeyCode::Enter);
    assert_eq!((desk.written().as_str(), desk.decisions().len()), ("foo", 0));
    assert!(desk.frame().contains("❯ 1 Yes"), "{}", desk.frame());
    desk.deliberately(KeyCode::Enter);
    assert_eq!(allowed(&desk), [Decision::AllowOnce], "the third one answers");
    let mut desk = ask();
    for _ in 0..10 {
        desk.press(KeyCode::Enter);
        desk.wait(200);
    }
    assert!(desk.decisions().is_empty(), "{}", desk.frame());
}

/// A paste gives the keyboard back to the composer, so that the Enter after it sends the text.
#[test]
fn enter_after_a_paste_sends_the_text_and_takes_no_marked_answer() {
    for mark in [KeyCode::Enter, KeyCode::Char('1'), KeyCode::Tab, KeyCode::Down] {
        let mut desk = Desk::new((80, 24), false);
        Kind::Call.ask(&mut desk);
        desk.deliberately(mark);
        desk.give(Input::Paste(" of them".into()));
        desk.deliberately(KeyCode::Enter);
        let reason = if mark == KeyCode::Char('1') { "1 of them" } else { "of them" };
        assert_eq!(allowed(&desk), [Decision::Deny { reason: Some(reason.to_owned()) }], "{mark:?}");
    }
}

/// The inspector has no composer: a paste there takes the keyboard from the answers, too.
#[test]
fn a_paste_in_the_inspector_takes_no_marked_answer() {
    let mut desk = Desk::new((80, 24), false);
    Kind::Inspector.prepare(&mut desk);
    Kind::Inspector.ask(&mut desk);
    desk.deliberately(KeyCode::Enter);
    desk.wait(3_000);
    desk.give(Input::Paste("ok".into()));
    desk.press(KeyCode::Enter);
    assert!(desk.approvals().is_empty(), "{:?}", desk.approvals());
}

/// At first sight the row of the first answer is marked whole, in every theme, and the keys that give it are beside it and below.
#[test]
fn a_question_shows_at_first_sight_which_keys_answer_it() {
    for name in Theme::NAMES {
        let mut stage = support::Stage::themed(80, 24, Theme::by_name(name).unwrap());
        stage.event(started());
        stage.event(Event::PermissionAsked(Box::new(request(0, 1))));
        stage.read_question();
        let shown = stage.screen();
        assert!(shown.contains("▸ 1 Yes   Enter twice"), "{name}: {shown}");
        assert!(
            shown.contains("\nEnter marks, Enter again allows · 1–4 or ↑ ↓ select another · Esc refuses\n"),
            "{name}: {shown}"
        );
        assert!(shown.contains("4 No   Esc"), "{name}: {shown}");
        stage.key(KeyCode::Enter);
        let shown = stage.screen();
        assert!(shown.contains("❯ 1 Yes   Enter takes it"), "{name}: {shown}");
        assert!(
            shown.contains("\nEnter takes it · ↑ ↓ or 1–4 select another · Esc refuses"),
            "{name}: {shown}"
        );
    }
}

/// The rows of the answers name the keys that give them, and none looks selected.
#[test]
fn each_answer_names_its_keys() {
    let mut desk = Desk::new((80, 24), false);
    Kind::Call.ask(&mut desk);
    desk.wait(3_000);
    let shown = desk.frame();
    assert!(shown.contains("▸ 1 Yes   Enter twice") && shown.contains("No   Esc"), "{shown}");
    assert!(!shown.contains('❯'), "{shown}");
    desk.press(KeyCode::Tab);
    assert!(desk.frame().contains("❯ 1 Yes"), "{}", desk.frame());
    // While a text is in the composer, Tab and Enter have another meaning, which the line below says.
    let mut desk = Desk::new((80, 24), false);
    Kind::Call.ask(&mut desk);
    desk.wait(3_000);
    desk.type_text("why");
    assert!(!desk.frame().contains("Enter twice"), "{}", desk.frame());
}

fn change() -> PermissionRequest {
    let path = "/home/u/project/src/span.py";
    PermissionRequest {
        tool: "edit".into(),
        access: Access::write(path.into()),
        reason: "default mode asks before changes".into(),
        offer: Some(RuleOffer {
            rule: "Edit(//home/u/project/src/span.py)".into(),
            covers: format!("every edit of {path}"), ..RuleOffer::default() }),
        preview: vec![FilePreview {
            path: path.into(),
            hunks: vec![
                "@@ -4,3 +4,4 @@\n def span(first, last):\n-    return list(range(first, last))\n+    # inclusive\n+    return list(range(first, last + 1))\n"
                    .to_owned(),
            ],
            marks: Vec::new(),
        }],
        ..request(0, 1)
    }
}

/// On a short screen the first page shows the change, and Enter on an answer that is not yet enabled turns the page. A key that is
/// held down never answers.
#[test]
fn a_short_screen_shows_the_change_first_and_enter_reads_on() {
    let mut desk = Desk::new((40, 12), false);
    desk.give(Input::Agent(Event::PermissionAsked(Box::new(change()))));
    desk.wait(3_000);
    let shown = desk.frame();
    assert!(shown.contains("? Edit src/span.py? +2 −1"), "{shown}");
    assert!(shown.contains("def span") && shown.contains("-    return list"), "{shown}");
    assert!(shown.contains("Yes, every edit of it this session"), "{shown}");
    desk.press(KeyCode::Tab);
    assert!(desk.frame().contains("To allow, first PageDown"), "{}", desk.frame());
    for _ in 0..40 {
        desk.press(KeyCode::Enter);
        desk.wait(FRAME);
    }
    assert!(allowed(&desk).is_empty(), "{}", desk.frame());
    // After a pause, Enter reads on to the end and then answers.
    for _ in 0..10 {
        if allowed(&desk).is_empty() {
            desk.deliberately(KeyCode::Enter);
            desk.frame();
        }
    }
    assert_eq!(allowed(&desk), [Decision::AllowOnce]);
}

/// The reason names programs without backticks and does not repeat the command, which keeps its own backticks.
#[test]
fn the_reason_is_a_sentence_and_the_command_is_shown_as_it_is() {
    let mut desk = Desk::new((80, 24), false);
    let command = "python3 `which x`";
    let reason = format!("no rule allows `{command}` (`python3` is not known to only read)");
    let asked = PermissionRequest { access: Access::execute(command), reason, ..request(0, 1) };
    desk.give(Input::Agent(Event::PermissionAsked(Box::new(asked))));
    desk.wait(3_000);
    let shown = desk.frame();
    assert!(shown.contains("  $ python3 `which x`"), "{shown}");
    assert!(shown.contains("asked because no rule allows it (python3 is not known to only read)"), "{shown}");
    // The reasons of the parts of a command come after the whole command, which is not said again either.
    let mut desk = Desk::new((80, 24), false);
    let command = "mkdir a && rm b".to_owned() + &" && true".repeat(40);
    let reason = format!("`{}`: no rule allows `mkdir a`; no rule allows `rm b`", &command[..200]);
    let asked = PermissionRequest { access: Access::execute(command), reason, ..request(0, 1) };
    desk.give(Input::Agent(Event::PermissionAsked(Box::new(asked))));
    desk.wait(3_000);
    let shown = desk.frame();
    assert!(shown.contains("asked because no rule allows mkdir a; no rule allows rm b\n"), "{shown}");
}

#[test]
fn a_text_that_was_begun_before_the_question_is_a_message() {
    let mut desk = Desk::new((80, 24), false);
    desk.type_text("fix the par");
    Kind::Call.ask(&mut desk);
    desk.wait(3_000);
    desk.type_text("ser too");
    let shown = desk.frame();
    assert!(
        shown.contains("Enter sends this, the question stays · Tab goes to the answers · Esc refuses"),
        "{shown}"
    );
    desk.press(KeyCode::Enter);
    assert_eq!(desk.written(), "fixtheparsertoo");
    assert!(allowed(&desk).is_empty());
    // The next text is a reply to the question.
    desk.type_text("no, later");
    assert!(desk.frame().contains("Enter refuses and sends your text as the reason"));
    desk.press(KeyCode::Enter);
    assert_eq!(allowed(&desk), [Decision::Deny { reason: Some("no, later".to_owned()) }]);
}

#[test]
fn the_next_question_has_to_be_read_too() {
    let mut desk = Desk::new((80, 24), false);
    Kind::TwoCalls.ask(&mut desk);
    desk.wait(3_000);
    for code in
        [KeyCode::Down, KeyCode::Enter, KeyCode::Enter, KeyCode::Char('1'), KeyCode::Down, KeyCode::Enter]
    {
        desk.press(code);
        desk.wait(30);
    }
    assert_eq!(allowed(&desk), [Decision::AllowOnce], "one answer, one call");
}

#[test]
fn esc_before_the_question_was_read_interrupts_as_the_screen_said() {
    let mut desk = Desk::new((80, 24), false);
    Kind::Call.ask(&mut desk);
    desk.press(KeyCode::Esc);
    assert_eq!(desk.effects, [Effect::Send(Command::Interrupt)]);
    desk.wait(3_000);
    let shown = desk.frame();
    assert!(shown.contains("4 No   Esc") && !shown.contains("Esc interrupts"), "{shown}");
}

/// A page with a list takes keys like other panes. Keys meant for it must not become a message.
#[test]
fn keys_meant_for_a_page_under_the_question_are_not_sent() {
    let mut desk = Desk::new((80, 24), false);
    desk.type_text("/resume");
    desk.press(KeyCode::Enter);
    desk.give(Input::Reply(Reply::Sessions(vec![("0198".into(), "fix the parser".into())])));
    desk.frame();
    desk.effects.clear();
    Kind::Call.ask(&mut desk);
    desk.type_text("fix");
    desk.press(KeyCode::Enter);
    assert_eq!(desk.written(), "", "nothing is sent, nothing is in the composer");
}

#[test]
fn the_lines_of_a_screen_reader_answer_when_they_are_meant_to() {
    let decided = |line: &str, early: bool| {
        let mut speaker = Speaker::default();
        speaker.event(&Event::PermissionAsked(Box::new(request(0, 1))));
        let effects = speaker.line(line, early).0;
        effects.iter().find_map(|effect| match effect {
            Effect::Send(command) => decision(command).cloned(),
            _ => None,
        })
    };
    assert_eq!(decided("/y", false), Some(Decision::AllowOnce));
    assert_eq!(decided("/s", false), Some(Decision::AllowSession));
    assert_eq!(decided("/n", false), Some(Decision::Deny { reason: None }));
    let reason = Some("use git rm".to_owned());
    assert_eq!(decided("/n use git rm", false), Some(Decision::Deny { reason }));
    for line in ["/y", "/s", "/n"] {
        assert_eq!(decided(line, true), None, "{line} came before the question was said");
    }
}

#[test]
fn secrets_in_an_output_are_masked_unless_the_person_chooses_otherwise() {
    let ask = || {
        let mut desk = Desk::new((80, 24), false);
        Kind::Secrets.ask(&mut desk);
        desk.wait(3_000);
        desk
    };
    let mut desk = ask();
    let shown = desk.frame();
    for part in ["the output of bash contains GitHub token", "1 Mask it and continue   Esc"] {
        assert!(shown.contains(part), "{part}: {shown}");
    }
    assert!(!shown.contains("why not"), "{shown}");
    desk.deliberately(KeyCode::Tab);
    desk.press(KeyCode::Enter);
    assert_eq!(allowed(&desk), [Decision::Deny { reason: None }]);
    for (key, decision) in [('2', Decision::AllowOnce), ('3', Decision::AllowSession)] {
        let mut desk = ask();
        desk.deliberately(KeyCode::Tab);
        desk.press(KeyCode::Char(key));
        assert_eq!(allowed(&desk), [decision]);
    }
    // Text becomes a message for the model and does not answer the question.
    let mut desk = ask();
    desk.type_text("use the test account");
    let shown = desk.frame();
    assert!(shown.contains("Enter sends"), "{shown}");
    desk.press(KeyCode::Enter);
    assert!(allowed(&desk).is_empty());
    assert_eq!(desk.written().replace(' ', ""), "usethetestaccount");
}
