//! Commands of the shell: the question about one, and its line in the transcript.

#[allow(dead_code, reason = "each binary uses its part of the stage")]
mod support;

use becket_tui::input::{Effect, Input, Place, Request, Timer};
use becket_tui::theme::Theme;
use becket_types::{
    Access, CallId, Command, Decision, Event, Message, Millis, Part, PermissionRequest, RuleChange, RuleKind,
    RuleOffer,
};
use crossterm::event::KeyCode;
use serde_json::{Value, json};
use support::{Stage, key, started};

const LIST: &str = "git add -A && git commit -m \"one more\" && git push origin main";

fn request(command: &str, offer: RuleOffer) -> PermissionRequest {
    PermissionRequest {
        call_id: CallId("c9".into()),
        tool: "bash".into(),
        input: json!({"command": command, "description": "Commit everything and publish it\nasked because"}),
        access: Access::execute(command),
        reason: format!("`{command}`: no rule allows `git add`, `git commit`, `git push`"),
        offer: Some(offer),
        nearest: None,
        secrets: None,
        preview: Vec::new(),
    }
}

fn whole() -> RuleOffer {
    RuleOffer { rule: format!("Bash({LIST})"), covers: "exactly this command".into(), ..RuleOffer::default() }
}

fn with_parts() -> RuleOffer {
    let parts = ["Bash(git add *)", "Bash(git commit *)", "Bash(git push *)"].map(str::to_owned).into();
    RuleOffer { parts, ..whole() }
}

fn asked(size: (u16, u16), theme: Theme, request: PermissionRequest) -> Stage {
    let mut stage = Stage::themed(size.0, size.1, theme);
    stage.event(started());
    stage.event(Event::PermissionAsked(Box::new(request)));
    stage
}

/// The model's words, the command, the reason in one row, and answers that say what they allow.
#[test]
fn a_question_about_a_command_is_read_at_a_glance() {
    for theme in Theme::NAMES.map(|name| Theme::by_name(name).unwrap()) {
        let mut stage = asked((80, 24), theme, request(LIST, whole()));
        let question = "? Run this command?\n  Commit everything and publish it\n  $ git add -A && git commit -m \"one more\" && \
                        git push origin main\n  asked because no rule allows git add, git commit, git push\n\n\
                        ▸ 1 Yes   Enter twice\n  2 Yes, and allow exactly this command in this session\n  \
                        3 Yes, and allow exactly this command always\n  4 No   Esc\n\n\
                        Enter marks, Enter again allows · 1–4 or ↑ ↓ select another · Esc refuses\n";
        let screen = stage.screen();
        assert!(screen.contains(question), "{screen}");
        // The name of each program differs from its arguments once the command was parsed.
        let row = screen.lines().position(|line| line.contains("$ git add")).unwrap() as u16;
        let look = |stage: &Stage, part: &str| {
            let column = screen.lines().nth(row.into()).unwrap().find(part).unwrap();
            let cell = stage.cells(row)[column].clone();
            (cell.fgcolor(), cell.bold())
        };
        assert_eq!(look(&stage, "git add"), look(&stage, "add -A"));
        assert_eq!(stage.read_code(), 1);
        assert_eq!(stage.screen(), screen, "colours change no text");
        for part in ["git add", "git commit", "git push"] {
            assert!(look(&stage, part) != look(&stage, "add -A") && look(&stage, part).1, "{part}");
        }
        // The numbers of the answers have the colour of keys.
        let row = screen.lines().position(|line| line.starts_with("  2 Yes")).unwrap() as u16;
        let cells = stage.cells(row);
        assert!((cells[2].fgcolor(), cells[2].bold()) != (cells[4].fgcolor(), cells[4].bold()));
    }
    // The answer shows a rule for more than this command in its own words.
    let kind = RuleOffer { rule: "Bash(cargo build *)".into(), covers: "…".into(), ..RuleOffer::default() };
    let mut stage = asked((80, 24), Theme::plain(), request("cargo build --release", kind));
    assert!(
        stage.screen().contains("2 Yes, and allow cargo build * in this session\n"),
        "{}",
        stage.screen()
    );
}

/// The parts of a list are allowed by rules of their own, before the call that was asked about.
#[test]
fn the_parts_of_a_command_can_be_allowed() {
    let parts = || vec!["Bash(git add *)", "Bash(git commit *)", "Bash(git push *)"];
    let add = || {
        let rules = parts().into_iter().map(str::to_owned).collect();
        Effect::Send(Command::change_rules(RuleKind::Allow, RuleChange::Add, rules))
    };
    let once = || {
        let decision = Decision::AllowOnce;
        Effect::Send(Command::Decide { call_id: CallId("c9".into()), decision })
    };
    let mut stage = asked((80, 24), Theme::plain(), request(LIST, with_parts()));
    let screen = stage.screen();
    let answers = "  2 Yes, and allow exactly this command in this session\n  \
                   3 Yes, and allow git add *, git commit * and git push * in this session\n  \
                   4 Yes, and allow either of these always\n  5 No   Esc\n";
    assert!(screen.contains(answers), "{screen}");
    assert_eq!(stage.answer('3'), [add(), once()]);

    let mut stage = asked((100, 30), Theme::plain(), request(LIST, with_parts()));
    assert_eq!(stage.answer('4'), []);
    let screen = stage.screen();
    let answers = "1 Exactly this command, in this project only   Enter takes it\n  2 Exactly this command, in every project\n  \
                   3 git add *, git commit * and git push *, in this project only\n  \
                   4 git add *, git commit * and git push *, in every project\n  5 Back to the question\n";
    assert!(screen.contains(answers), "{screen}");
    assert!(
        screen.contains("becket will not ask again about exactly this command\n")
            && screen.contains("or about its parts: git add *, git commit * and git push *\n"),
        "{screen}"
    );
    stage.read_question();
    let keep = |rule: &str| Effect::Ask(Request::Allow { rule: rule.to_owned(), place: Place::Local });
    let mut wanted: Vec<Effect> = parts().into_iter().map(keep).collect();
    wanted.extend([add(), once()]);
    assert_eq!(stage.update(Input::Key(key('3'))), wanted);
}

/// A part whose rule would be too long to read is not offered: the answer would say less than it allows.
#[test]
fn parts_that_cannot_be_shown_whole_are_not_offered() {
    let offer = RuleOffer { parts: vec![format!("Bash(rm -r {})", "x".repeat(60))], ..whole() };
    let mut stage = asked((80, 24), Theme::plain(), request(LIST, offer));
    assert!(
        stage.screen().contains("3 Yes, and allow exactly this command always\n  4 No"),
        "{}",
        stage.screen()
    );
}

fn run(stage: &mut Stage, command: &str) {
    let input = json!({"command": command});
    stage.event(Event::ToolStarted { call_id: CallId("c1".into()), name: "bash".into(), input });
}

fn end(stage: &mut Stage, code: u8) {
    let mut message = Message::tool_result(CallId("c1".into()), "bash", "no", code > 0);
    if let Some(Part::ToolResult { details, .. }) = message.parts.first_mut() {
        *details = json!({"exit_code": code});
    }
    stage.event(Event::ToolFinished { message, changes: Vec::new(), duration: Millis(20), original: None });
}

/// A command that runs or failed is whole in two rows, and a longer one says how much is missing.
#[test]
fn a_command_that_runs_or_failed_is_shown_in_two_rows() {
    let words = |n: usize| (0..n).map(|at| format!("--option={at:02}")).collect::<Vec<_>>().join(" ");
    let flat = |screen: &str| screen.split_whitespace().collect::<Vec<_>>().join(" ");
    for (command, missing) in [
        (format!("cargo test {}", words(3)), None),
        (format!("cargo test {}", words(5)), None),
        (format!("cargo test {}", words(9)), None),
        (format!("cargo test {}", words(40)), Some("more characters")),
        ("cargo build &&\ncargo test".to_owned(), None),
        ("python3 - <<'E'\nimport os\nprint(1)\nE".to_owned(), Some("… 2 more lines")),
    ] {
        let mut stage = Stage::new(80, 24);
        stage.event(started());
        run(&mut stage, &command);
        for state in ["runs", "failed"] {
            let screen = stage.screen();
            let whole = flat(&screen).contains(&flat(&command));
            assert_eq!(whole, missing.is_none(), "{state}: {command}\n{screen}");
            assert!(missing.is_none_or(|missing| screen.contains(missing)), "{screen}");
            assert_eq!(stage.screen(), stage.fresh());
            end(&mut stage, 1);
        }
        assert!(stage.screen().contains("failed (exit code 1) · 20 ms\n"), "{}", stage.screen());
        // A command that ended well needs one row.
        let mut stage = Stage::new(80, 24);
        stage.event(started());
        run(&mut stage, &command);
        end(&mut stage, 0);
        let screen = stage.screen();
        let row = screen.lines().position(|line| line.starts_with("✓ bash")).unwrap();
        assert_eq!(screen.lines().nth(row + 1), Some("│ no"), "{screen}");
        // Opened, a command that was cut is whole.
        stage.ctrl('o');
        assert!(flat(&stage.screen()).contains(&flat(&command)), "{}", stage.screen());
    }
}

/// A call that runs for some seconds can go to the background, and the line of the activity names the key.
#[test]
fn the_key_that_moves_work_to_the_background_is_named() {
    let hint = "Ctrl-B moves it to the background";
    for (name, input, named) in [
        ("bash", json!({"command": "make"}), true),
        ("task", json!({"description": "look around"}), true),
        ("read", json!({"path": "a"}), false),
    ] {
        let mut stage = Stage::new(100, 24);
        stage.event(started());
        stage.event(Event::ToolStarted { call_id: CallId("c1".into()), name: name.into(), input });
        assert!(!stage.screen().contains(hint), "{name}");
        (0..6).for_each(|_| drop(stage.update(Input::Due(Timer::Clock))));
        assert_eq!(stage.screen().contains(hint), named, "{name}\n{}", stage.screen());
        let inner =
            Event::ToolStarted { call_id: CallId("c2".into()), name: "grep".into(), input: Value::Null };
        stage.event(Event::Subagent { call_id: CallId("c1".into()), what: Box::new(inner) });
        assert!(stage.screen().contains(hint), "{name}\n{}", stage.screen());
        // With a text in the composer the key moves the cursor.
        stage.key(KeyCode::Char('x'));
        assert!(!stage.screen().contains(hint), "{name}");
    }
}
