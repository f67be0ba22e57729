//! Login by a code at a provider of the user's own: the flow, the place of the tokens, and their renewal by one process.

use crate::providers::{configured, everything_below, holds, with_keychain};
use crate::support::{Bench, run};
use crate::terminal::{Terminal, becket};
use becket_testkit::{Answer, MockServer, Recorded, Reply};
use rustix::termios::{LocalModes, tcgetattr};
use serde_json::json;
use std::os::unix::fs::PermissionsExt as _;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// The access tokens and the refresh tokens of the server begin like this.
const PLANTED: &str = "planted-login-93c1";

/// An authorization server and a model. Each refresh token is valid once. `lifetime`: that of an access token in seconds.
fn server(lifetime: u64) -> MockServer {
    let (mut polls, mut given) = (0, 0);
    MockServer::with(move |request| {
        let text = request.text();
        let tokens = |n: u64| {
            Reply::json(
                200,
                &json!({"access_token": format!("{PLANTED}-access-{n}"), "refresh_token": format!("{PLANTED}-refresh-{n}"),
                "token_type": "Bearer", "expires_in": lifetime}),
            )
        };
        match request.path.as_str() {
            "/device" => Reply::json(
                200,
                &json!({"device_code": "the-device", "user_code": "WDJB-MJHT", "expires_in": 600, "interval": 0,
                    "verification_uri": "https://login.example.com/device",
                    "verification_uri_complete": "https://login.example.com/device?code=WDJB-MJHT"}),
            ),
            "/token" if text.contains("grant_type=refresh_token") => {
                if text.contains(&format!("refresh_token={PLANTED}-refresh-{given}&")) {
                    given += 1;
                    tokens(given)
                } else {
                    Reply::json(400, &json!({"error": "invalid_grant", "error_description": "used twice"}))
                }
            }
            "/token" => {
                polls += 1;
                if polls == 1 {
                    Reply::json(400, &json!({"error": "authorization_pending"}))
                } else {
                    tokens(given)
                }
            }
            _ => Answer::text("fine").into(),
        }
    })
}

fn work(bench: &Bench, server: &MockServer) {
    let url = server.url();
    configured(
        bench,
        &format!(
            "[providers.work]\nkind = \"openai-chat\"\nbase_url = \"{url}/v1\"\n[providers.work.login]\n\
             device_authorization_url = \"{url}/device\"\ntoken_url = \"{url}/token\"\nclient_id = \"becket-at-work\"\nscope = \"models\"\n"
        ),
    );
}

fn of_model(request: &Recorded) -> bool {
    request.path.contains("/chat/completions")
}

fn refreshes(server: &MockServer) -> usize {
    server.requests().iter().filter(|request| request.text().contains("grant_type=refresh_token")).count()
}

#[test]
fn a_code_logs_in_and_the_tokens_stay_in_their_place() {
    if std::env::consts::OS == "macos" {
        return;
    }
    for keychain in [false, true] {
        let bench = Bench::new(&[]);
        let server = server(3600);
        work(&bench, &server);
        let in_keychain = with_keychain(&bench);
        let command = |arguments: &[&str]| {
            if keychain {
                in_keychain(arguments)
            } else {
                let mut c = bench.command();
                c.args(arguments);
                c
            }
        };
        // Without a login, one message names the next step, and nothing is sent.
        let ran = run(&mut command(&["-p", "--model", "work/one", "go"])).expect(2);
        assert!(ran.stderr.contains("There is no key for `work`"), "{}", ran.stderr);
        assert!(
            ran.stderr.contains("Run `becket login work`, which shows an address and a code."),
            "{}",
            ran.stderr
        );
        run(&mut command(&["auth", "status", "work"])).expect(1);
        assert_eq!(server.requests().len(), 0);

        let ran = run(&mut command(&["login", "work"])).expect(0);
        assert!(ran.stderr.contains("Open https://login.example.com/device in a browser"), "{}", ran.stderr);
        assert!(ran.stderr.contains("enter this code: WDJB-MJHT"), "{}", ran.stderr);
        assert!(
            ran.stdout.starts_with("You are logged in at work. The login is saved in "),
            "{}",
            ran.stdout
        );
        assert_eq!(ran.stdout.contains("the system's keychain"), keychain, "{}", ran.stdout);
        assert!(!ran.stdout.contains(PLANTED) && !ran.stderr.contains(PLANTED));
        let ran = run(&mut command(&["auth", "status", "work"])).expect(0);
        assert_eq!(ran.stdout, "work: key in the login of `becket login work`\n");

        run(&mut command(&["-p", "--model", "work/one", "go"])).expect(0);
        let asked = server.requests();
        let model = asked.iter().find(|request| of_model(request)).unwrap();
        let token = format!("Bearer {PLANTED}-access-0");
        assert_eq!(model.header("authorization"), Some(token.as_str()));
        assert_eq!(refreshes(&server), 0);
        let mut kept = Vec::new();
        everything_below(&bench.home.path(".local"), &mut kept);
        everything_below(&bench.home.path(".config"), &mut kept);
        assert_eq!(holds(&kept, &format!("{PLANTED}-refresh")), !keychain);
        // The access token is in its own file alone, which only its owner can read.
        let text = String::from_utf8_lossy(&kept);
        assert_eq!(text.matches(&format!("{PLANTED}-access")).count(), 1);
        let tokens = bench.home.path(".local/share/becket/tokens");
        for folder in std::fs::read_dir(&tokens).unwrap() {
            for file in ["login.json", "credentials.json"] {
                let mode = std::fs::metadata(folder.as_ref().unwrap().path().join(file))
                    .unwrap()
                    .permissions()
                    .mode();
                assert_eq!(mode & 0o777, 0o600, "{file}");
            }
        }

        let ran = run(&mut command(&["logout", "work"])).expect(0);
        assert_eq!(ran.stdout, "The key for work is removed.\n");
        let mut kept = Vec::new();
        everything_below(bench.home.root(), &mut kept);
        assert!(!holds(&kept, PLANTED), "a token is left after the logout");
        run(&mut command(&["auth", "status", "work"])).expect(1);
        let ran = run(&mut command(&["logout", "work"])).expect(0);
        assert!(ran.stdout.starts_with("There is no key for work"), "{}", ran.stdout);
    }
}

/// A refresh token is valid once: several processes with an old access token renew the login once, and use its tokens.
#[test]
fn one_process_renews_the_login() {
    let bench = Bench::new(&[]);
    // A lifetime of two minutes is enough for all processes. The test makes the first token expire by hand.
    let server = server(120);
    work(&bench, &server);
    run(bench.command().args(["login", "work"])).expect(0);
    let folder =
        std::fs::read_dir(bench.home.path(".local/share/becket/tokens")).unwrap().next().unwrap().unwrap();
    let file = folder.path().join("credentials.json");
    let mut grant: serde_json::Value =
        serde_json::from_str(&std::fs::read_to_string(&file).unwrap()).unwrap();
    grant["until"] = json!(1);
    std::fs::write(&file, grant.to_string()).unwrap();
    let start = || {
        let mut command = bench.command();
        command.args(["-p", "--no-session-persistence", "--model", "work/one", "go"]);
        command.stdin(std::process::Stdio::null()).stdout(std::process::Stdio::null()).spawn().unwrap()
    };
    let children: Vec<_> = (0..5).map(|_| start()).collect();
    for mut child in children {
        assert!(child.wait().unwrap().success());
    }
    assert_eq!(refreshes(&server), 1);
    let asked = server.requests();
    let mut models = asked.iter().filter(|request| of_model(request));
    let token = format!("Bearer {PLANTED}-access-1");
    assert!(
        models.clone().count() == 5 && models.all(|request| request.header("authorization") == Some(&token))
    );
}

/// A login that is not valid any more is one message with the next step, and a state of `auth status`.
#[test]
fn an_expired_login_says_what_to_do() {
    let bench = Bench::new(&[]);
    let server = server(1);
    work(&bench, &server);
    run(bench.command().args(["login", "work"])).expect(0);
    let folder =
        std::fs::read_dir(bench.home.path(".local/share/becket/tokens")).unwrap().next().unwrap().unwrap();
    let revoked = json!({"refresh_token": format!("{PLANTED}-refresh-77")}).to_string();
    std::fs::write(folder.path().join("login.json"), revoked).unwrap();
    std::fs::remove_file(folder.path().join("credentials.json")).unwrap();
    let ran = run(bench.command().args(["-p", "--model", "work/one", "go"])).expect(7);
    assert!(
        ran.stderr.contains("the login is not valid any more: 127.0.0.1 refused (status 400): used twice"),
        "{}",
        ran.stderr
    );
    assert!(ran.stderr.contains("Run `becket login work`."), "{}", ran.stderr);
    assert!(!ran.stderr.contains(PLANTED), "{}", ran.stderr);
    let ran = run(bench.command().args(["auth", "status", "work", "--check"])).expect(2);
    assert!(ran.stdout.contains("work: key in the login of `becket login work`, refused"), "{}", ran.stdout);
    assert!(server.requests().iter().all(|request| !of_model(request)));
}

/// A project's file cannot name the addresses of a login.
#[test]
fn a_project_cannot_set_up_a_login() {
    let config = "[providers.groq.login]\ndevice_authorization_url = \"https://evil.example/d\"\n\
                  token_url = \"https://evil.example/t\"\nclient_id = \"x\"\n";
    let bench = Bench::new(&[(".becket/config.toml", config)]);
    let ran = run(bench.command().args(["login", "groq"])).expect(2);
    assert!(!ran.stderr.contains("https://evil.example"), "{}", ran.stderr);
}

/// An authorization server whose code is entered when `entered` says so.
fn at_the_terminal(entered: &Arc<AtomicBool>) -> MockServer {
    let entered = Arc::clone(entered);
    MockServer::with(move |request| match request.path.as_str() {
        "/device" => Reply::json(
            200,
            &json!({"device_code": "the-device", "user_code": "WDJB-MJHT", "expires_in": 600, "interval": 0,
                "verification_uri": "https://login.example.com/device"}),
        ),
        "/token" if entered.load(Ordering::SeqCst) => {
            let token = format!("{PLANTED}-access-0");
            Reply::json(200, &json!({"access_token": token, "token_type": "Bearer", "expires_in": 3600}))
        }
        "/token" => Reply::json(400, &json!({"error": "authorization_pending"})),
        _ => Answer::text("fine").into(),
    })
}

/// `/login` shows address and code, asks until the code was entered, and the session then uses the new token. Esc ends the wait.
#[test]
fn the_terminal_shows_the_code_and_waits_for_it() {
    let bench = Bench::new(&[]);
    let entered = Arc::new(AtomicBool::new(false));
    let server = at_the_terminal(&entered);
    work(&bench, &server);
    let mut terminal = Terminal::start(becket(&bench, &server));
    terminal.shows("Describe a task");
    let open = |terminal: &mut Terminal| {
        terminal.send("/login\r");
        terminal.shows("Another key");
        terminal.shows("❯ 1 work");
        terminal.shows_words("no key · logs in with a code");
        terminal.press_until("\r", "WDJB-MJHT");
        terminal.shows_words("https://login.example.com/device");
        terminal.shows_words("It is valid for 10 min.");
    };
    open(&mut terminal);
    terminal.press_until("\x1b", "the login at work is cancelled");
    let polls = || server.requests().iter().filter(|request| request.path == "/token").count();
    let (asked, devices) = (polls(), server.requests().iter().filter(|r| r.path == "/device").count());
    assert_eq!(devices, 1);
    open(&mut terminal);
    entered.store(true, Ordering::SeqCst);
    terminal.shows_words("You are logged in at work. The login is saved in");
    assert!(polls() > asked);
    terminal.send("/model work/one\r");
    terminal.until("the command has run", |t| {
        let screen = t.screen();
        screen.contains("Describe a task") && !screen.contains("/model")
    });
    terminal.send("go\r");
    terminal.shows("fine");
    let requests = server.requests();
    let model = requests.iter().find(|request| of_model(request)).unwrap();
    assert_eq!(model.header("authorization"), Some(&*format!("Bearer {PLANTED}-access-0")));
    let written = String::from_utf8_lossy(&terminal.bytes).into_owned();
    assert!(!written.contains(PLANTED));
    // Another process finds the saved login.
    run(bench.command().args(["auth", "status", "work"])).expect(0);
}

/// A provider that denies the login is one message with the next step.
#[test]
fn a_login_that_is_denied_is_told_in_the_terminal() {
    let bench = Bench::new(&[]);
    let server = MockServer::with(|_| Reply::json(400, &json!({"error": "unauthorized_client"})));
    work(&bench, &server);
    let mut terminal = Terminal::start(becket(&bench, &server));
    terminal.shows("Describe a task");
    terminal.send("/login\r");
    terminal.shows("Another key");
    terminal.press_until("\r", "The login at work did not work");
    terminal.shows_words("/login begins again; its addresses are in providers.work.login.");
}

/// A model that the command line names and that has no key opens a question, not an error.
fn named(bench: &Bench) -> std::process::Command {
    let mut command = bench.command();
    command.env("TERM", "xterm-256color").args(["--model", "work/one"]);
    command
}

#[test]
fn a_named_model_without_a_login_shows_the_code_and_then_the_session() {
    let bench = Bench::new(&[]);
    let entered = Arc::new(AtomicBool::new(false));
    let server = at_the_terminal(&entered);
    work(&bench, &server);
    let mut terminal = Terminal::start(named(&bench));
    terminal.shows("work/one needs a key");
    terminal.shows("There is no key for `work`.");
    terminal.shows("❯ 1 log in at work");
    terminal.press_until("\r", "WDJB-MJHT");
    terminal.shows("https://login.example.com/device");
    // Esc goes back to the question.
    terminal.press_until("\x1b", "The login is cancelled.");
    terminal.press_until("\r", "WDJB-MJHT");
    entered.store(true, Ordering::SeqCst);
    terminal.shows("Describe a task");
    terminal.send("go\r");
    terminal.shows("fine");
    let requests = server.requests();
    let model = requests.iter().find(|request| of_model(request)).unwrap();
    assert_eq!(model.header("authorization"), Some(&*format!("Bearer {PLANTED}-access-0")));
    terminal.send("\x04");
    terminal.is_given_back();
    assert!(!String::from_utf8_lossy(&terminal.bytes).contains(PLANTED));
    // The next start asks nothing, because the login is saved.
    let mut terminal = Terminal::start(named(&bench));
    terminal.shows("Describe a task");
}

/// A server that takes this key; its list of models says if a key is valid.
fn with_key(list: Reply) -> MockServer {
    MockServer::with(|request| {
        if request.header("authorization") != Some(&*format!("Bearer {PLANTED}")) {
            return Reply::json(401, &json!({"error": {"message": "wrong key"}}));
        }
        Answer::text("fine").into()
    })
    .get("/v1/models", list)
}

fn enter_key(terminal: &mut Terminal, key: &str) {
    terminal.shows("❯ 1 log in at work");
    terminal.press_until("\x1b[B", "❯ 2 enter a key for work");
    terminal.press_until("\r", "the key:");
    terminal.send(key);
    terminal.send("\r");
}

#[test]
fn a_named_model_without_a_key_takes_one_that_its_provider_accepts() {
    let bench = Bench::new(&[]);
    let server = with_key(Reply::json(200, &json!({"data": [{"id": "one"}]})));
    work(&bench, &server);
    let mut terminal = Terminal::start(named(&bench));
    enter_key(&mut terminal, PLANTED);
    terminal.shows("Describe a task");
    terminal.send("go\r");
    terminal.shows("fine");
    terminal.send("\x04");
    terminal.is_given_back();
    assert!(!String::from_utf8_lossy(&terminal.bytes).contains("planted"), "a key is on the screen");
    let mut terminal = Terminal::start(named(&bench));
    terminal.shows("Describe a task");
    drop(terminal);
    // A headless run with the same model works now, too.
    run(bench.command().args(["-p", "--model", "work/one", "go"])).expect(0);
}

#[test]
fn a_key_that_the_provider_refuses_is_not_saved() {
    let bench = Bench::new(&[]);
    let server = with_key(Reply::json(401, &json!({"error": {"message": "wrong key"}})));
    work(&bench, &server);
    let mut terminal = Terminal::start(named(&bench));
    enter_key(&mut terminal, "planted-but-wrong");
    terminal.shows_words("The key was refused and is not saved:");
    terminal.shows("❯ 1 log in at work");
    assert!(!bench.home.exists(".config/becket/credentials.toml"));
    assert!(!String::from_utf8_lossy(&terminal.bytes).contains("planted"), "a key is on the screen");
}

/// Esc leaves with the message that a headless run gives. A model whose key is there is offered for this run.
#[test]
fn a_named_model_without_a_key_can_be_left_or_replaced() {
    let bench = Bench::new(&[]);
    let server = with_key(Reply::status(404));
    work(&bench, &server);
    let start = |key: Option<&str>| {
        let mut command = named(&bench);
        command.env("ANTHROPIC_BASE_URL", server.url());
        if let Some(key) = key {
            command.env("ANTHROPIC_API_KEY", key);
        }
        Terminal::start(command)
    };
    let mut terminal = start(None);
    terminal.shows("❯ 1 log in at work");
    terminal.press_until("\x1b", "becket: There is no key for `work`.");
    terminal.is_given_back();
    assert_eq!(terminal.child.wait().unwrap().code(), Some(2));
    assert_eq!(server.requests().len(), 0);

    let mut terminal = start(Some("sk-ant-api03-0123456789"));
    terminal.shows_words("for this run, with the key in ANTHROPIC_API_KEY");
    terminal.press_until("\x1b[B", "❯ 2 enter a key for work");
    terminal.press_until("\x1b[B", "❯ 3 anthropic/");
    terminal.press_until("\r", "Describe a task");
    terminal.send("\x04");
    terminal.is_given_back();
    assert!(
        !bench.home.read(".config/becket/config.toml").contains("model ="),
        "it holds for this run alone"
    );
}

/// A screen reader gets the same as lines; the key is not echoed. A key that cannot be checked is saved.
#[test]
fn a_named_model_without_a_key_asks_in_plain_lines() {
    let bench = Bench::new(&[]);
    let mut command = bench.command();
    // No request leaves this machine.
    command.env("TERM", "xterm-256color").env("HTTPS_PROXY", "http://127.0.0.1:1");
    command.args(["--ax", "--model", "groq/one"]);
    let mut terminal = Terminal::start(command);
    let says = |terminal: &mut Terminal, text: &str| {
        terminal.until(text, |t| String::from_utf8_lossy(&t.bytes).contains(text));
    };
    says(&mut terminal, "There is no key for `groq`.");
    says(&mut terminal, "Key for groq (it is not shown; Enter alone leaves): ");
    terminal.until("a hidden line", |t| !tcgetattr(&*t.pty).unwrap().local_modes.contains(LocalModes::ECHO));
    terminal.send("planted with blanks\n");
    says(&mut terminal, "a key has no spaces and only ASCII characters");
    terminal.until("a hidden line", |t| {
        let prompts = String::from_utf8_lossy(&t.bytes).matches("Key for groq").count();
        prompts == 2 && !tcgetattr(&*t.pty).unwrap().local_modes.contains(LocalModes::ECHO)
    });
    terminal.send(&format!("gsk_{PLANTED}\n"));
    says(&mut terminal, "/quit to leave.\r\n");
    assert!(!String::from_utf8_lossy(&terminal.bytes).contains("planted"), "a key is on the screen");
    let saved = bench.home.read(".config/becket/credentials.toml");
    assert!(saved.contains(&format!("groq = \"gsk_{PLANTED}\"")), "{saved}");
}
