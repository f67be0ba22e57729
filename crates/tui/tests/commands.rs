//! Commands, completion, pages, drafts and history by keystrokes. Input: keys and answers of the host. Checked: the
//! screen, and the requests to the host and the agent.

#[allow(dead_code, reason = "each binary uses its part of the stage")]
mod support;

use becket_tui::input::{
    Confirm, Effect, Input, Page, PageRequest, PastPrompt, Place, Reply, Request, Timer, To,
};
use becket_tui::page::Sheet;
use becket_types::{Access, CallId, Command, DeliveryMode, Event, Message, Part, PermissionRequest, Tokens};
use crossterm::event::{KeyCode, MouseEvent, MouseEventKind};
use serde_json::json;
use support::{Stage, started};

fn stage() -> Stage {
    let mut stage = Stage::new(60, 14);
    stage.event(started());
    stage
}

/// Returns the commands for the agent and the requests for the host, without timers and titles.
fn asked(effects: Vec<Effect>) -> Vec<Effect> {
    effects
        .into_iter()
        .filter(|e| matches!(e, Effect::Send(_) | Effect::Ask(_) | Effect::Quit | Effect::Switch(_)))
        .collect()
}

fn host(page: PageRequest) -> Effect {
    Effect::Ask(Request::Page(page))
}

/// Returns the entries of the menu and the composer's line.
fn menu(stage: &mut Stage) -> Vec<String> {
    let screen = stage.screen();
    let rows: Vec<&str> = screen.lines().collect();
    let from = rows.iter().position(|r| r.starts_with("❯ ")).unwrap_or(rows.len() - 2);
    let shown = rows[from..rows.len() - 1].iter().filter(|row| !row.contains("Esc closes"));
    shown.map(|row| (*row).to_owned()).collect()
}

#[test]
fn a_command_is_found_while_it_is_typed() {
    let mut stage = stage();
    stage.type_text("/");
    assert!(stage.screen().contains("❯ /help"), "{}", stage.screen());
    stage.type_text("cont");
    assert_eq!(menu(&mut stage)[0], "❯ /context  what fills the model's context, and its history");
    assert_eq!(menu(&mut stage).last().unwrap(), "› /cont");
    assert_eq!(
        asked(stage.key(KeyCode::Enter)),
        [host(PageRequest::Context { used: Tokens(0), window: Tokens(0), usable: Tokens(0) })]
    );
    assert!(!stage.screen().contains('❯'), "{}", stage.screen());
    // Matches inside a name come after matches at its start.
    stage.type_text("/co");
    let rows = menu(&mut stage);
    assert!(rows[0].starts_with("❯ /co") && rows[1].starts_with("  /co"), "{rows:?}");
    stage.ctrl('c');
    stage.type_text("/cle");
    assert_eq!(menu(&mut stage)[0], "❯ /clear  the same as /new");
    stage.ctrl('c');
    stage.type_text("/co");
    // A path is not a command, and an unknown command is reported.
    for _ in 0..3 {
        stage.key(KeyCode::Backspace);
    }
    stage.type_text("/usr/bin");
    assert!(!stage.screen().contains('❯'), "{}", stage.screen());
    stage.ctrl('c');
    stage.type_text("/xyzzy");
    let unknown = Request::Custom { name: "xyzzy".into(), arguments: String::new() };
    assert_eq!(asked(stage.key(KeyCode::Enter)), [Effect::Ask(unknown)]);
    stage.update(Input::Reply(Reply::Done(Err("there is no command /xyzzy".into()))));
    assert!(stage.screen().contains("there is no command /xyzzy"), "{}", stage.screen());
}

#[test]
fn arrows_choose_tab_inserts_escape_closes() {
    let mut stage = stage();
    stage.type_text("/mo");
    assert!(menu(&mut stage)[0].starts_with("❯ /model NAME"));
    stage.key(KeyCode::Down);
    assert!(menu(&mut stage)[0].starts_with("❯ /mode NAME"));
    stage.key(KeyCode::Tab);
    // The menu of the command's arguments follows.
    assert_eq!(menu(&mut stage)[0], "❯ default            asks before changes");
    assert_eq!(menu(&mut stage).last().unwrap(), "› /mode");
    stage.type_text("pl");
    assert_eq!(menu(&mut stage), ["❯ plan  changes nothing", "› /mode pl"]);
    assert_eq!(asked(stage.key(KeyCode::Enter)), [Effect::Send(Command::SetMode { mode: "plan".into() })]);
    stage.type_text("/he");
    assert!(stage.screen().contains('❯'));
    stage.key(KeyCode::Esc);
    assert!(!stage.screen().contains('❯'));
    stage.type_text("l");
    assert!(!stage.screen().contains('❯'), "closed it stays closed");
    stage.type_text("p");
    stage.key(KeyCode::Enter);
    assert!(stage.screen().contains("/keys lists all"), "help: {}", stage.screen());
}

#[test]
fn enter_on_a_command_that_needs_an_argument_asks_for_it() {
    let mut stage = stage();
    stage.type_text("/them");
    assert_eq!(asked(stage.key(KeyCode::Enter)), []);
    assert_eq!(menu(&mut stage)[0], "❯ dark");
    stage.key(KeyCode::Up);
    assert!(menu(&mut stage).contains(&"❯ plain".to_owned()), "around: {:?}", menu(&mut stage));
    stage.key(KeyCode::Enter);
    assert!(stage.screen().contains("› Describe a task"));
    // The host lists the models.
    stage.type_text("/model");
    let effects = asked(stage.update(Input::Key(support::key(' '))));
    assert_eq!(effects, [Effect::Ask(Request::Models)]);
    stage.type_text("son");
    stage.update(Input::Reply(Reply::Models(vec![
        ("openai/gpt-x".into(), "no key".into()),
        ("anthropic/sonnet".into(), String::new()),
    ])));
    assert_eq!(menu(&mut stage), ["❯ anthropic/sonnet", "› /model son"]);
    assert_eq!(
        asked(stage.key(KeyCode::Enter)),
        [Effect::Send(Command::SetModel { model: "anthropic/sonnet".into() })]
    );
}

#[test]
fn the_menu_is_for_what_is_typed_and_not_for_the_history() {
    let mut stage = stage();
    stage.update(Input::Reply(Reply::History(vec!["first".into(), "/mode plan".into()])));
    stage.key(KeyCode::Up);
    assert!(stage.screen().contains("› /mode plan") && !stage.screen().contains('❯'));
    stage.key(KeyCode::Up);
    assert!(stage.screen().contains("› first"));
    // After an earlier prompt was deleted, typed text is a new prompt, so the menu opens.
    stage.ctrl('u');
    stage.type_text("/");
    assert!(stage.screen().contains("❯ /help"), "{}", stage.screen());
    stage.ctrl('u');
    stage.key(KeyCode::Up);
    stage.ctrl('u');
    stage.type_text("@");
    stage.update(Input::Reply(Reply::Files { query: String::new(), paths: vec!["a.rs".into()], cut: None }));
    assert!(stage.screen().contains("❯ a.rs"), "{}", stage.screen());
}

/// The list is set off from the transcript, says how much of it is shown, and names its keys.
#[test]
fn a_list_says_how_long_it_is_and_what_its_keys_do() {
    for (columns, rows) in [(80, 24), (40, 14)] {
        let mut stage = Stage::new(columns, rows);
        stage.event(started());
        for n in 0..rows {
            stage.event(Event::Notice { level: becket_types::NoticeLevel::Info, text: format!("line {n}") });
        }
        stage.type_text("/");
        let screen = stage.screen();
        let lines: Vec<&str> = screen.lines().collect();
        let first = lines.iter().position(|line| line.starts_with('❯')).unwrap();
        assert_eq!(lines[first - 1], "", "{screen}");
        assert!(lines[first + 8].contains("1–8 of ") && lines[first + 8].contains("Tab"), "{screen}");
        for _ in 0..9 {
            stage.key(KeyCode::Down);
        }
        assert!(stage.screen().contains("3–10 of "), "{}", stage.screen());
    }
    // On a very small screen, the entries alone are shown.
    let mut stage = Stage::new(40, 8);
    stage.event(started());
    stage.type_text("/");
    assert!(stage.screen().contains("❯ /help"), "{}", stage.screen());
}

/// An earlier prompt that was edited is a draft: it is not lost when the user goes through the history again, and a command
/// in it is completed.
#[test]
fn an_edited_earlier_prompt_is_a_draft_of_its_own() {
    let mut stage = stage();
    stage.update(Input::Reply(Reply::History(vec!["first".into(), "second".into()])));
    stage.key(KeyCode::Up);
    stage.ctrl('u');
    stage.type_text("/mo");
    assert!(stage.screen().contains("❯ /mo"), "{}", stage.screen());
    stage.ctrl('u');
    stage.type_text("my new draft");
    for (key, shown) in [(KeyCode::Up, "› second"), (KeyCode::Up, "› first"), (KeyCode::Down, "› second")]
    {
        stage.key(key);
        assert!(stage.screen().contains(shown), "{}", stage.screen());
    }
    stage.key(KeyCode::Down);
    assert!(stage.screen().contains("› my new draft"), "{}", stage.screen());
    stage.key(KeyCode::Up);
    stage.update(Input::Paste("!".into()));
    // The draft that was typed before the last walk through the history is its newest entry.
    stage.key(KeyCode::Up);
    assert!(stage.screen().contains("› my new draft"), "{}", stage.screen());
    stage.key(KeyCode::Down);
    assert!(stage.screen().contains("› second!"), "{}", stage.screen());
}

/// Enter runs a command only if the list's choice begins with what was typed, or was chosen with the arrows.
#[test]
fn a_command_that_was_not_meant_is_inserted_and_not_run() {
    let mut stage = stage();
    stage.type_text("/ontext");
    assert!(stage.screen().contains("❯ /context"), "{}", stage.screen());
    assert_eq!(asked(stage.key(KeyCode::Enter)), []);
    assert!(stage.screen().contains("› /context"), "{}", stage.screen());
    let page = host(PageRequest::Context { used: Tokens(0), window: Tokens(0), usable: Tokens(0) });
    assert_eq!(asked(stage.key(KeyCode::Enter)), std::slice::from_ref(&page));
    stage.ctrl('c');
    // `/y` answers questions at the start, and must not open the page for a key.
    stage.type_text("/y");
    assert_eq!(asked(stage.key(KeyCode::Enter)), []);
    assert!(!stage.screen().contains("Another key"), "{}", stage.screen());
    stage.ctrl('c');
    stage.type_text("/ontext");
    stage.key(KeyCode::Down);
    stage.key(KeyCode::Up);
    assert_eq!(asked(stage.key(KeyCode::Enter)), [page]);
}

/// A list is drawn where the header is, so the header makes room.
#[test]
fn a_list_leaves_no_part_of_the_header() {
    let mut stage = Stage::new(80, 24);
    stage.event(started());
    assert!(stage.screen().contains("reads, changes"), "{}", stage.screen());
    stage.type_text("/mo");
    let screen = stage.screen();
    assert!(screen.contains("❯ /mo") && !screen.contains('▌') && !screen.contains("To begin"), "{screen}");
    stage.key(KeyCode::Esc);
    assert!(stage.screen().contains("reads, changes"), "{}", stage.screen());
}

#[test]
fn the_palette_finds_commands_by_name_and_purpose() {
    let mut stage = stage();
    stage.type_text("half a thought");
    stage.ctrl('p');
    assert!(stage.screen().contains("❯ /help"), "{}", stage.screen());
    stage.type_text("clipboard");
    assert!(stage.screen().contains("❯ /copy"), "{}", stage.screen());
    stage.key(KeyCode::Esc);
    stage.key(KeyCode::Esc);
    stage.ctrl('p');
    stage.type_text("cost");
    assert_eq!(asked(stage.key(KeyCode::Enter)), [host(PageRequest::Cost)]);
    // The unfinished text is still there.
    assert!(stage.screen().contains("› half a thought"), "{}", stage.screen());
    stage.ctrl('p');
    stage.type_text("mode");
    stage.key(KeyCode::Down);
    stage.key(KeyCode::Up);
    stage.ctrl('u');
    stage.type_text("mode plan");
    assert_eq!(asked(stage.key(KeyCode::Enter)), [Effect::Send(Command::SetMode { mode: "plan".into() })]);
}

#[test]
fn files_are_asked_for_and_only_the_answer_to_the_last_question_is_shown() {
    let mut stage = stage();
    let query = |q: &str| Effect::Ask(Request::Files { query: q.into() });
    let files = |q: &str, paths: &[&str]| {
        Input::Reply(Reply::Files {
            query: q.into(),
            paths: paths.iter().map(Into::into).collect(),
            cut: None,
        })
    };
    stage.type_text("look at");
    assert_eq!(asked(stage.update(Input::Key(support::key(' ')))), []);
    assert_eq!(asked(stage.update(Input::Key(support::key('@')))), [query("")]);
    stage.update(files("", &["Cargo.toml", "src/lib.rs"]));
    assert_eq!(menu(&mut stage), ["❯ Cargo.toml", "  src/lib.rs", "› look at @"]);
    assert_eq!(asked(stage.update(Input::Key(support::key('l')))), [query("l")]);
    // Until the answer arrives, earlier files that match are shown.
    assert!(menu(&mut stage).iter().all(|r| !r.contains("zzz")));
    stage.type_text("i");
    stage.update(files("l", &["zzz-late"]));
    assert!(!stage.screen().contains("zzz-late"));
    stage.update(files("li", &["src/lib.rs", "my lib.rs"]));
    stage.key(KeyCode::Down);
    assert_eq!(asked(stage.key(KeyCode::Enter)), []);
    assert!(stage.screen().contains("› look at @\"my lib.rs\""), "{}", stage.screen());
    stage.type_text("and @src");
    stage.update(files("src", &["src/lib.rs"]));
    stage.key(KeyCode::Tab);
    let effects = asked(stage.key(KeyCode::Enter));
    let sent = effects.iter().find_map(|e| match e {
        Effect::Send(Command::Prompt(p)) => Some(p.parts.clone()),
        _ => None,
    });
    assert_eq!(sent.unwrap(), [Part::text("look at @\"my lib.rs\" and @src/lib.rs ")]);
}

fn page(lines: usize, confirm: Option<Confirm>) -> Input {
    let text: Vec<String> = (0..lines).map(|i| format!("line {i}")).collect();
    let markdown = format!("```text\n{}\n```", text.join("\n"));
    let page = Page { title: "context".into(), markdown, confirm, ..Page::default() };
    Input::Reply(Reply::Page(Ok(page)))
}

#[test]
fn a_page_is_shown_scrolls_and_closes() {
    let mut stage = stage();
    stage.type_text("draft");
    stage.update(page(40, None));
    let screen = stage.screen();
    assert!(
        screen.starts_with("── context ───") && screen.contains("line 0") && !screen.contains("line 20"),
        "{screen}"
    );
    stage.key(KeyCode::PageDown);
    assert!(!stage.screen().contains("line 0\n"));
    stage.key(KeyCode::End);
    assert!(stage.screen().contains("line 39"), "{}", stage.screen());
    stage.key(KeyCode::Home);
    assert!(stage.screen().contains("line 0\n"), "{}", stage.screen());
    let wheel = MouseEvent {
        kind: MouseEventKind::ScrollDown,
        column: 1,
        row: 1,
        modifiers: crossterm::event::KeyModifiers::NONE,
    };
    stage.update(Input::Mouse(wheel));
    assert!(!stage.screen().contains("line 0\n"));
    assert_eq!(stage.screen(), stage.fresh());
    stage.resize(30, 6);
    stage.screen();
    stage.key(KeyCode::Esc);
    assert!(stage.screen().contains("› draft"), "{}", stage.screen());
    stage.update(Input::Reply(Reply::Page(Err("no session yet".into()))));
    assert!(stage.screen().contains("✗ no session yet"));
}

/// Whatever the first letter is, none is lost, and a command is completed as usual.
#[test]
fn typing_closes_a_page_and_loses_no_letter() {
    for text in ["no borres la carpeta", "quiet", "jump", "go", "Grep", "kill it", "/context", "你好"] {
        let mut stage = stage();
        stage.update(page(40, None));
        stage.type_text(text);
        let screen = stage.screen();
        assert!(screen.contains(&format!("› {text}")) && !screen.contains("── context ─"), "{screen}");
    }
}

#[test]
fn a_question_of_the_agent_goes_before_a_page() {
    let mut stage = stage();
    stage.update(page(5, None));
    stage.event(Event::PermissionAsked(Box::new(PermissionRequest {
        call_id: CallId("c1".into()),
        tool: "bash".into(),
        input: json!({"command": "ls"}),
        access: Access::execute("ls"),
        reason: "no rule".into(),
        offer: None,
        nearest: None,
        secrets: None,
        preview: Vec::new(),
    })));
    assert!(stage.screen().contains("? Run this command?"), "{}", stage.screen());
    stage.read_question();
    assert!(matches!(stage.key(KeyCode::Esc)[..], [Effect::Send(Command::Decide { .. })]));
    assert!(stage.screen().contains("line 4"), "the page is back: {}", stage.screen());
}

#[test]
fn what_was_allowed_is_shown_with_its_scope_and_withdrawn() {
    let permissions = |stage: &mut Stage| {
        let kept = Some(vec![("Bash(make *)".to_owned(), Place::Local)]);
        let page =
            Page { title: "permissions".into(), sheet: Some(Sheet::default()), kept, ..Page::default() };
        stage.update(Input::Reply(Reply::Page(Ok(page))));
    };
    let mut stage = Stage::new(80, 24);
    stage.event(started());
    stage.event(Event::Grants { rules: vec!["Bash(touch *)".into()] });
    permissions(&mut stage);
    let screen = stage.screen();
    assert!(screen.contains("1 Withdraw Bash(touch *) (this session)"), "{screen}");
    assert!(screen.contains("2 Withdraw Bash(make *) (always, in this project)"), "{screen}");
    assert!(
        screen.contains("this session  Bash(touch *)") && screen.contains("3 Close this page"),
        "{screen}"
    );
    // On a small screen each answer still has a row, and says that it withdraws.
    stage.resize(40, 12);
    let small = stage.screen();
    assert!(small.contains("1 Withdraw Bash(touch *)") && small.contains("3 Close"), "{small}");
    stage.resize(80, 24);
    let revoke = |rule: &str| Effect::Send(Command::revoke(rule));
    assert_eq!(stage.answer('1'), [revoke("Bash(touch *)")]);
    assert!(!stage.screen().contains("Withdraw"), "the page closes: {}", stage.screen());
    stage.event(Event::Grants { rules: Vec::new() });
    permissions(&mut stage);
    assert!(!stage.screen().contains("touch"), "{}", stage.screen());
    let disallow = Request::Disallow { rule: "Bash(make *)".into(), place: Place::Local };
    assert_eq!(stage.answer('1'), [Effect::Ask(disallow), revoke("Bash(make *)")]);
}

/// A rule shows its path below the project or the home folder. One key shows the rules as they are in the files, and the answers stay the
/// same.
#[test]
fn rules_have_short_paths_and_one_key_shows_them_as_they_are() {
    let mut stage = Stage::new(100, 24);
    stage.event(started());
    let long = "Edit(//home/u/project/src/**)";
    stage.event(Event::Grants { rules: vec![long.into()] });
    let mut sheet = Sheet::default();
    sheet.field("allow", "Read(//home/u/project/a.rs)\nRead(//etc/**)");
    let kept = Some(vec![("Edit(//home/u/project/b.rs)".to_owned(), Place::Local)]);
    let page = Page { title: "permissions".into(), sheet: Some(sheet), kept, ..Page::default() };
    stage.update(Input::Reply(Reply::Page(Ok(page))));
    let short = stage.screen();
    for shown in [
        "allow         Read(a.rs)",
        "              Read(/etc/**)",
        "this session  Edit(src/**)",
        "1 Withdraw Edit(src/**) (this session)",
        "2 Withdraw Edit(b.rs) (always, in this project)",
        "Ctrl-O shows the exact rules",
    ] {
        assert!(short.contains(shown), "{shown}: {short}");
    }
    assert!(!short.contains("//"), "{short}");
    stage.ctrl('o');
    let exact = stage.screen();
    for shown in [
        "Read(//home/u/project/a.rs)",
        "Read(//etc/**)",
        "1 Withdraw Edit(//home/u/project/src/**) (this session)",
        "2 Withdraw Edit(//home/u/project/b.rs) (always, in this project)",
        "Ctrl-O shows short paths",
    ] {
        assert!(exact.contains(shown), "{shown}: {exact}");
    }
    stage.ctrl('o');
    assert_eq!(stage.screen(), short);
    stage.ctrl('o');
    assert_eq!(stage.answer('1'), [Effect::Send(Command::revoke(long))]);
}

/// A session with more grants than digits offers the others through one more answer, and begins again after the last.
#[test]
fn every_rule_can_be_withdrawn_however_many_there_are() {
    let mut stage = Stage::new(80, 40);
    stage.event(started());
    let rules: Vec<String> = (1..=17).map(|at| format!("Bash(tool{at:02} *)")).collect();
    stage.event(Event::Grants { rules: rules.clone() });
    for (wanted, others) in [(0, 0), (8, 1), (16, 2), (6, 3)] {
        stage.type_text("/permissions");
        stage.key(KeyCode::Esc);
        stage.key(KeyCode::Enter);
        let kept = Some(Vec::new());
        let page =
            Page { title: "permissions".into(), sheet: Some(Sheet::default()), kept, ..Page::default() };
        stage.update(Input::Reply(Reply::Page(Ok(page))));
        stage.read_question();
        stage.key(KeyCode::Tab);
        for _ in 0..others {
            let label = stage
                .screen()
                .lines()
                .find_map(|line| line.trim().split_once(" Show others").map(|(at, _)| at.to_owned()));
            let digit = label.and_then(|label| label.chars().last()).expect("others are offered");
            assert_eq!(stage.key(KeyCode::Char(digit)), []);
        }
        let screen = stage.screen();
        let row = screen.lines().find(|line| line.contains(&format!("Withdraw {}", rules[wanted])));
        let digit = row.and_then(|row| row.split(" Withdraw").next()?.trim().chars().last());
        let digit = digit.unwrap_or_else(|| panic!("{wanted} is not offered:\n{screen}"));
        assert_eq!(
            stage.key(KeyCode::Char(digit)),
            [Effect::Send(Command::revoke(&rules[wanted]))],
            "{screen}"
        );
    }
}

#[test]
fn the_mode_that_asks_about_nothing_is_asked_about_once() {
    let mut stage = Stage::new(80, 24);
    stage.event(started());
    let change = |stage: &mut Stage, mode: &str| {
        stage.type_text(&format!("/mode {mode}"));
        stage.key(KeyCode::Esc);
        asked(stage.key(KeyCode::Enter))
    };
    let sent = |mode: &str| vec![Effect::Send(Command::SetMode { mode: mode.into() })];
    assert_eq!(change(&mut stage, "bypassPermissions"), []);
    assert!(stage.screen().contains("1 Yes, ask about nothing"), "{}", stage.screen());
    stage.read_question();
    stage.key(KeyCode::Esc);
    assert!(stage.screen().contains("default mode: asks before changes"), "{}", stage.screen());
    assert_eq!(change(&mut stage, "bypassPermissions"), []);
    assert_eq!(asked(stage.answer('1')), sent("bypassPermissions"));
    assert!(stage.screen().contains("\nbypassPermissions mode · Ctrl-P"), "{}", stage.screen());
    assert_eq!(change(&mut stage, "default"), sent("default"));
    assert_eq!(change(&mut stage, "bypassPermissions"), sent("bypassPermissions"));
}

#[test]
fn a_large_output_of_the_person_is_told_before_the_model_gets_it() {
    for (output, told) in [
        ("line\n".repeat(100), None),
        ("line\n".repeat(2_500), Some("This output (13 kB, about 3,000 tokens) goes to the model")),
        (
            format!("{}[cut: 9 of 20 lines left out]\n", "line\n".repeat(5_000)),
            Some("This output (26 kB, cut, about 6,000 tokens) goes to the model"),
        ),
    ] {
        let mut stage = stage();
        stage.type_text("!cat log");
        stage.key(KeyCode::Enter);
        let details = json!({"exit_code": 0});
        stage.update(Input::Reply(Reply::Ran { command: "cat log".into(), output, failed: false, details }));
        let screen = stage.screen().split_whitespace().collect::<Vec<_>>().join(" ");
        assert_eq!(screen.contains("goes to the model"), told.is_some(), "{screen}");
        assert!(told.is_none_or(|told| screen.contains(told)), "{screen}");
    }
}

#[test]
fn a_command_of_the_person_runs_and_the_model_reads_it_with_the_next_message() {
    let mut stage = stage();
    stage.type_text("!ls -l");
    let effects = asked(stage.key(KeyCode::Enter));
    assert_eq!(effects[0], Effect::Ask(Request::Shell { command: "ls -l".into() }));
    assert!(stage.screen().contains("◐ $ ls -l · Esc stops it"), "{}", stage.screen());
    stage.type_text("!pwd");
    stage.key(KeyCode::Enter);
    assert!(stage.screen().contains("one command at a time"));
    stage.ctrl('u');
    assert_eq!(stage.key(KeyCode::Esc), [Effect::Ask(Request::StopShell)]);
    let ran = Reply::Ran {
        command: "ls -l".into(),
        output: "a ``` b\u{1b}[31m\n".into(),
        failed: false,
        details: json!({"exit_code": 0, "printed_lines": 1}),
    };
    stage.update(Input::Reply(ran));
    let screen = stage.screen();
    assert!(
        screen.contains("✓ ! ls -l\n│ a ``` b") && !screen.contains("[31m") && !screen.contains('◐'),
        "{screen}"
    );
    stage.type_text("why?");
    let effects = stage.key(KeyCode::Enter);
    let sent = effects.iter().find_map(|e| match e {
        Effect::Send(Command::Prompt(p)) if p.mode == DeliveryMode::Steer => Some(p.parts.clone()),
        _ => None,
    });
    let told = "I ran `ls -l`:\n````\na ``` b\u{1b}[31m\n````";
    let parts = vec![becket_tui::transcript::pasted::of_shell(told.to_owned(), "ls -l"), Part::text("why?")];
    assert_eq!(sent, Some(parts.clone()));
    // The transcript has shown the output already, so the message names it only.
    let message = Message { parts, ..Message::user("") };
    stage.event(Event::UserMessage { message, client_id: None, steered: false });
    assert!(stage.screen().contains("› [output of ls -l]\n  why?"), "{}", stage.screen());
    stage.type_text("again");
    let effects = asked(stage.key(KeyCode::Enter));
    assert!(matches!(&effects[0], Effect::Send(Command::Prompt(p)) if p.parts == [Part::text("again")]));
}

#[test]
fn a_hash_remembers_a_line() {
    let mut stage = stage();
    stage.type_text("# use tabs");
    assert_eq!(
        asked(stage.key(KeyCode::Enter)),
        [Effect::Ask(Request::Memorize { text: "use tabs".into() })]
    );
    stage.update(Input::Reply(Reply::Done(Ok("added to AGENTS.md".into()))));
    assert!(stage.screen().contains("· added to AGENTS.md"));
}

#[test]
fn the_draft_is_kept_a_second_later_and_dropped_when_it_is_sent() {
    let mut stage = stage();
    let wake = Effect::Wake(1_000, Timer::Draft);
    assert_eq!(stage.update(Input::Key(support::key('a'))), std::slice::from_ref(&wake));
    assert_eq!(stage.update(Input::Key(support::key('b'))), [], "one timer for all that is typed");
    let keep = |text: Option<&str>| Effect::Ask(Request::Draft { text: text.map(str::to_owned) });
    assert_eq!(stage.update(Input::Due(Timer::Draft)), [keep(Some("ab"))]);
    assert_eq!(stage.update(Input::Key(support::key('c'))), [wake]);
    assert_eq!(asked(stage.key(KeyCode::Enter))[0], keep(None));
    assert_eq!(stage.update(Input::Due(Timer::Draft)), []);
}

#[test]
fn a_draft_comes_back_before_what_was_typed_ahead() {
    let mut stage = stage();
    stage.type_text("now");
    stage.update(Input::Reply(Reply::Draft("before ".into())));
    assert!(stage.screen().contains("› before now"), "{}", stage.screen());
    assert_eq!(
        asked(stage.ctrl('c')),
        [Effect::Ask(Request::Draft { text: None })],
        "thrown away, also on the disk"
    );
}

#[test]
fn ctrl_r_finds_earlier_prompts() {
    let mut stage = stage();
    let history = ["fix the parser", "write docs", "fix the lexer"].map(PastPrompt::from).to_vec();
    stage.update(Input::Reply(Reply::History(history)));
    stage.type_text("draft");
    stage.ctrl('r');
    assert!(stage.screen().contains("earlier:"), "{}", stage.screen());
    stage.type_text("fix");
    assert!(stage.screen().contains("earlier: fix  fix the lexer"), "{}", stage.screen());
    stage.ctrl('r');
    assert!(stage.screen().contains("earlier: fix  fix the parser"), "{}", stage.screen());
    stage.key(KeyCode::Esc);
    assert!(stage.screen().contains("› draft"), "{}", stage.screen());
    stage.ctrl('r');
    stage.type_text("docs");
    assert_eq!(asked(stage.key(KeyCode::Enter)), [], "taken, not sent");
    assert!(stage.screen().contains("› write docs"), "{}", stage.screen());
    assert!(matches!(asked(stage.key(KeyCode::Enter))[..], [Effect::Send(_), Effect::Ask(_)]));
}

#[test]
fn another_session_is_chosen_from_a_list_and_only_while_idle() {
    let mut stage = stage();
    stage.type_text("/resume");
    assert_eq!(asked(stage.update(Input::Key(support::key(' ')))), [Effect::Ask(Request::Sessions)]);
    let list = [("0199aa", "2026-11-20  fix the parser"), ("0198bb", "2026-11-19  write docs")];
    let list = list.map(|(id, what)| (id.to_owned(), what.to_owned())).to_vec();
    stage.update(Input::Reply(Reply::Sessions(list)));
    assert_eq!(menu(&mut stage).len(), 3);
    stage.type_text("docs");
    assert_eq!(menu(&mut stage), ["❯ 0198bb  2026-11-19  write docs", "› /resume docs"]);
    assert_eq!(asked(stage.key(KeyCode::Enter)), [Effect::Ask(Request::Resume { session: "0198bb".into() })]);
    let found = |result: Result<&str, &str>| {
        Input::Reply(Reply::Found(result.map(str::to_owned).map_err(str::to_owned)))
    };
    stage.update(found(Err("you are already in that session")));
    assert!(stage.screen().contains("✗ you are already in that session"));
    assert_eq!(stage.update(found(Ok("0198bb"))), [Effect::Switch(To::Session("0198bb".into()))]);
    stage.type_text("/new");
    assert_eq!(asked(stage.key(KeyCode::Enter)), [Effect::Switch(To::New)]);
    stage.event(Event::StepStarted { step: 1 });
    stage.type_text("/new");
    assert_eq!(asked(stage.key(KeyCode::Enter)), []);
    assert!(stage.screen().contains("wait until it finishes"), "{}", stage.screen());
}

#[test]
fn a_command_without_its_argument_asks_for_it() {
    for (command, why) in [("/rename", "/rename needs a title"), ("/model", "/model needs a name")] {
        let mut stage = stage();
        stage.type_text(command);
        stage.key(KeyCode::Esc);
        stage.key(KeyCode::Enter);
        let screen = stage.screen();
        assert!(screen.contains(why), "{screen}");
        stage.type_text("x/y");
        assert!(stage.screen().contains(&format!("› {command} x/y")), "{}", stage.screen());
    }
}

#[test]
fn an_earlier_prompt_has_the_chips_of_its_pastes() {
    let mut stage = stage();
    let pasted = "one line of many\n".repeat(40);
    stage.type_text("what is ");
    // Most terminals send a line end as a carriage return.
    stage.update(Input::Paste(pasted.replace('\n', "\r")));
    stage.type_text(" about?");
    let chip = "› what is [pasted 40 lines] about?";
    assert!(stage.screen().contains(chip), "{}", stage.screen());
    let sent = |effects: Vec<Effect>| {
        effects.into_iter().find_map(|effect| match effect {
            Effect::Send(Command::Prompt(prompt)) => Some(prompt.parts),
            _ => None,
        })
    };
    let range = 8..8 + pasted.len();
    let whole = vec![becket_tui::transcript::pasted::part(format!("what is {pasted} about?"), &[range])];
    assert_eq!(sent(stage.key(KeyCode::Enter)), Some(whole.clone()));
    stage.event(Event::StepStarted { step: 1 });
    stage.key(KeyCode::Up);
    assert!(stage.screen().contains(chip), "{}", stage.screen());
    let effects = stage.key(KeyCode::Enter);
    let kept = effects.iter().find_map(|effect| match effect {
        Effect::Ask(Request::Remember(prompt)) => Some(prompt.clone()),
        _ => None,
    });
    assert_eq!(sent(effects), Some(whole));
    // Another process reads the prompt from the history.
    let mut stage = self::stage();
    stage.update(Input::Reply(Reply::History(vec!["older".into(), kept.unwrap()])));
    stage.key(KeyCode::Up);
    assert!(stage.screen().contains(chip), "{}", stage.screen());
}

#[test]
fn a_command_without_its_argument_says_what_is_missing() {
    for (command, missing) in
        [("/export", "/export needs a file: /export notes.md"), ("/rename", "/rename needs a title")]
    {
        let mut stage = stage();
        stage.type_text(command);
        assert_eq!(asked(stage.key(KeyCode::Enter)), []);
        let screen = stage.screen();
        assert!(screen.contains(missing) && screen.contains(&format!("› {command}")), "{screen}");
    }
}

#[test]
fn ctrl_b_moves_what_runs_to_the_background_and_is_a_key_of_the_composer_otherwise() {
    let mut stage = stage();
    let background = Effect::Send(Command::Background { call_id: None });
    assert_eq!(asked(stage.ctrl('b')), [], "nothing runs");
    stage.event(Event::StepStarted { step: 1 });
    assert_eq!(asked(stage.ctrl('b')), [background]);
    stage.type_text("ab");
    assert_eq!(asked(stage.ctrl('b')), [], "the cursor moves");
    stage.type_text("x");
    assert!(stage.screen().contains("axb"), "{}", stage.screen());
}

#[test]
fn a_question_of_a_subagent_in_the_background_outlives_the_turn() {
    let mut stage = stage();
    stage.event(Event::StepStarted { step: 1 });
    let request = PermissionRequest {
        call_id: CallId("c".into()),
        tool: "bash".into(),
        input: json!({"command": "make"}),
        access: Access::execute("make"),
        reason: "no rule allows it".into(),
        offer: None,
        nearest: None,
        secrets: None,
        preview: Vec::new(),
    };
    let what = Box::new(Event::PermissionAsked(Box::new(request)));
    stage.event(Event::Subagent { call_id: CallId("t".into()), what });
    stage.event(support::turn_end(becket_types::TurnEnd::Completed));
    assert!(stage.screen().contains("make"), "{}", stage.screen());
    // A subagent's work is not a turn of the session.
    let started = Event::ToolStarted { call_id: CallId("c".into()), name: "bash".into(), input: json!({}) };
    stage.event(Event::Subagent { call_id: CallId("t".into()), what: Box::new(started) });
    assert!(!stage.screen().contains("Ctrl-C interrupts"), "{}", stage.screen());
}
