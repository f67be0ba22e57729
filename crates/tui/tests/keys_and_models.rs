//! `/model` and `/key` by keystrokes: the first offers, the effect of a mistyped name, and keys that are never shown.

#[allow(dead_code, reason = "each binary uses its part of the stage")]
mod support;

use becket_tui::input::{Account, Effect, Hidden, Input, LoginCode, Reply, Request, Timer};
use becket_types::{Command, Event};
use crossterm::event::KeyCode;
use support::{Stage, started};

const KEY: &str = "sk-ant-0123456789";

fn stage() -> Stage {
    let mut stage = Stage::new(80, 24);
    stage.event(started());
    stage
}

fn run(stage: &mut Stage, command: &str) -> Vec<Effect> {
    stage.type_text(command);
    // The first Enter may choose from a list of commands.
    stage.key(KeyCode::Enter)
}

fn asks(effects: &[Effect]) -> Vec<&Request> {
    let requests = effects.iter().filter_map(|effect| match effect {
        Effect::Ask(request) => Some(request),
        _ => None,
    });
    requests.filter(|request| !matches!(request, Request::Draft { .. } | Request::CustomCommands)).collect()
}

fn models(stage: &mut Stage) {
    let pair = |name: &str, detail: &str| (name.to_owned(), detail.to_owned());
    stage.update(Input::Reply(Reply::Models(vec![
        pair("openai/qwen", "at http://127.0.0.1:8080/v1"),
        pair("script/demo", ""),
        pair("anthropic/sonnet", "key in ANTHROPIC_API_KEY"),
        pair("openai/gpt", "no key"),
    ])));
}

fn offered(stage: &mut Stage) -> Vec<String> {
    let screen = stage.screen();
    let rows = screen.lines().filter(|line| line.starts_with("❯ ") || line.starts_with("  "));
    rows.map(|row| row[row.find(|c: char| c.is_ascii_alphabetic()).unwrap_or(0)..].to_owned())
        .filter(|row| row.contains('/') && !row.starts_with("becket"))
        .collect()
}

#[test]
fn the_model_in_use_is_offered_first() {
    let mut stage = stage();
    stage.type_text("/model ");
    models(&mut stage);
    let screen = stage.screen();
    let at = |name: &str| screen.find(name).unwrap_or_else(|| panic!("{name}: {screen}"));
    assert!(screen.contains("❯ script/demo       in use"), "{screen}");
    assert!(
        at("❯ script/demo") < at("openai/qwen") && at("openai/qwen") < at("anthropic/sonnet"),
        "{screen}"
    );
    assert!(at("anthropic/sonnet") < at("openai/gpt"), "{screen}");
    assert!(offered(&mut stage).len() >= 4);
    // The model changed, so the list is requested again.
    stage.event(Event::ModelChosen { model: "openai/qwen".into() });
    let effects = run_back(&mut stage);
    assert_eq!(asks(&effects), [&Request::Models]);
    models(&mut stage);
    let screen = stage.screen();
    assert!(screen.contains("❯ openai/qwen       in use · at http://127.0.0.1:8080/v1"), "{screen}");
    // Typing filters the list.
    stage.type_text("gp");
    let screen = stage.screen();
    assert!(screen.contains("❯ openai/gpt") && !screen.contains("anthropic/sonnet"), "{screen}");
}

/// Types the blank after the command again.
fn run_back(stage: &mut Stage) -> Vec<Effect> {
    stage.key(KeyCode::Backspace);
    stage.update(Input::Key(support::key(' ')))
}

#[test]
fn a_mode_that_does_not_exist_leaves_the_input_and_the_modes_are_named() {
    let mut stage = stage();
    stage.type_text("/mode foo");
    stage.key(KeyCode::Enter);
    let screen = stage.screen();
    assert!(screen.contains("unknown permission mode \"foo\""), "{screen}");
    assert!(screen.contains("acceptEdits") && screen.contains("bypassPermissions"), "{screen}");
    assert!(screen.contains("› Describe a task"), "{screen}");
    // Without a name, the command waits for one.
    stage.type_text("/mode");
    stage.key(KeyCode::Esc);
    stage.key(KeyCode::Enter);
    assert!(stage.screen().contains("› /mode"), "{}", stage.screen());
}

fn key_page() -> Stage {
    let mut stage = stage();
    let effects = run(&mut stage, "/key");
    assert_eq!(asks(&effects), [&Request::Keys]);
    stage.update(Input::Reply(Reply::Keys(Ok(accounts()))));
    stage
}

fn accounts() -> Vec<Account> {
    let account = |provider: &str, about: &str, has_login| Account {
        provider: provider.to_owned(),
        about: about.to_owned(),
        has_login,
    };
    vec![
        account("anthropic", "no key", false),
        account("script", "key in credentials.toml", false),
        account("work", "no key · logs in with a code", true),
    ]
}

/// Opens the page by `/login` and chooses the provider that has a login.
fn login_page() -> Stage {
    let mut stage = stage();
    let effects = run(&mut stage, "/login");
    assert_eq!(asks(&effects), [&Request::Keys]);
    stage.update(Input::Reply(Reply::Keys(Ok(accounts()))));
    stage.asks();
    stage.update(Input::Due(Timer::Page));
    stage.key(KeyCode::Up);
    let effects = stage.key(KeyCode::Enter);
    assert_eq!(asks(&effects), [&Request::LogIn { provider: "work".into() }]);
    assert!(stage.screen().contains("Asking work for a code"), "{}", stage.screen());
    stage
}

fn code() -> LoginCode {
    LoginCode {
        address: "https://login.example.com/device".into(),
        code: "WDJB-MJHT".into(),
        complete: Some("https://login.example.com/device?code=WDJB-MJHT".into()),
        minutes: 15,
    }
}

#[test]
fn a_login_shows_its_code_and_ends_by_itself() {
    let mut stage = login_page();
    let effects = stage.update(Input::Reply(Reply::LoginCode { provider: "work".into(), code: code() }));
    assert_eq!(asks(&effects), [&Request::AwaitLogin { provider: "work".into() }]);
    let screen = stage.screen();
    for words in [
        "Log in at work",
        "https://login.example.com/device",
        "WDJB-MJHT",
        "device?code=WDJB-MJHT",
        "It is valid for 15 min.",
        "Esc cancels",
    ] {
        assert!(screen.contains(words), "{words}: {screen}");
    }
    stage.asks();
    stage.update(Input::Due(Timer::Page));
    // The first two entries copy, and the page stays.
    assert_eq!(stage.key(KeyCode::Enter), [Effect::Copy("WDJB-MJHT".into())]);
    assert!(stage.screen().contains("The code is copied."), "{}", stage.screen());
    stage.key(KeyCode::Down);
    let address = "https://login.example.com/device?code=WDJB-MJHT";
    assert_eq!(stage.key(KeyCode::Enter), [Effect::Copy(address.into())]);
    let result = Ok("You are logged in at work.".to_owned());
    stage.update(Input::Reply(Reply::KeyKept { provider: "work".into(), result }));
    let screen = stage.screen();
    assert!(screen.contains("You are logged in at work.") && !screen.contains("WDJB"), "{screen}");
}

#[test]
fn a_login_is_cancelled_by_esc_before_and_after_its_code() {
    for with_code in [false, true] {
        let mut stage = login_page();
        let reply = || Input::Reply(Reply::LoginCode { provider: "work".into(), code: code() });
        if with_code {
            stage.update(reply());
        }
        stage.asks();
        stage.update(Input::Due(Timer::Page));
        let effects = stage.key(KeyCode::Esc);
        assert_eq!(asks(&effects), [&Request::CancelLogin], "{with_code}");
        let screen = stage.screen();
        assert!(screen.contains("the login at work is cancelled") && !screen.contains("Log in"), "{screen}");
        // A code that arrives later opens nothing and is not waited for.
        let effects = stage.update(reply());
        assert_eq!(asks(&effects), Vec::<&Request>::new(), "{with_code}");
        assert!(!stage.screen().contains("WDJB"), "{}", stage.screen());
    }
}

#[test]
fn a_login_that_fails_closes_its_page_and_says_why() {
    let mut stage = login_page();
    let result = Err("The login at work did not work: it was denied in the browser.".to_owned());
    stage.update(Input::Reply(Reply::KeyKept { provider: "work".into(), result }));
    let screen = stage.screen();
    assert!(screen.contains("denied in the browser") && !screen.contains("Log in at"), "{screen}");
}

#[test]
fn a_key_is_on_no_screen_and_counts_at_once() {
    let mut stage = key_page();
    // An Enter pressed before the page could be read chooses nothing.
    stage.key(KeyCode::Enter);
    assert!(stage.asks().contains(&Effect::Wake(300, Timer::Page)));
    stage.update(Input::Due(Timer::Page));
    let screen = stage.screen();
    assert!(screen.contains("Another key") && screen.contains("1 anthropic  no key"), "{screen}");
    assert!(screen.contains("Esc closes"), "{screen}");
    stage.key(KeyCode::Down);
    stage.key(KeyCode::Enter);
    stage.update(Input::Paste(format!("{KEY}\n")));
    let screen = stage.screen();
    assert!(
        !screen.contains("0123") && screen.contains("•••••") && screen.contains("17 characters"),
        "{screen}"
    );
    let effects = stage.key(KeyCode::Enter);
    let key = Hidden(KEY.to_owned());
    assert_eq!(asks(&effects), [&Request::KeepKey { provider: "script".into(), key }]);
    assert!(!format!("{effects:?}").contains("0123"), "{effects:?}");
    assert!(stage.screen().contains("asking script if the key is valid"), "{}", stage.screen());
    let said = Ok("The key for script is good.".to_owned());
    let effects = stage.update(Input::Reply(Reply::KeyKept { provider: "script".into(), result: said }));
    // The key belongs to the provider of the current model, which is opened again.
    assert_eq!(effects, [Effect::Send(Command::SetModel { model: "script/demo".into() })]);
    assert!(stage.screen().contains("The key for script is good."), "{}", stage.screen());
}

#[test]
fn a_refused_key_is_told_and_changes_nothing() {
    let mut stage = key_page();
    let said = Err("The key was refused and is not kept: invalid x-api-key.".to_owned());
    stage.key(KeyCode::Char('x'));
    stage.asks();
    stage.update(Input::Due(Timer::Page));
    stage.key(KeyCode::Esc);
    assert!(!stage.screen().contains("Another key"), "{}", stage.screen());
    let effects = stage.update(Input::Reply(Reply::KeyKept { provider: "script".into(), result: said }));
    assert_eq!(effects, []);
    assert!(stage.screen().contains("refused and is not kept: invalid x-api-key"), "{}", stage.screen());
    stage.update(Input::Reply(Reply::Keys(Err("A key cannot be kept: the folder is in here.".into()))));
    assert!(stage.screen().contains("A key cannot be kept"), "{}", stage.screen());
}

#[test]
fn a_key_behind_the_command_is_not_taken() {
    let mut stage = stage();
    stage.type_text(&format!("/key {KEY}"));
    let effects = stage.key(KeyCode::Enter);
    assert_eq!(asks(&effects), Vec::<&Request>::new());
    assert!(stage.screen().contains("takes no argument"), "{}", stage.screen());
    assert!(!stage.screen().contains("0123"), "{}", stage.screen());
}
