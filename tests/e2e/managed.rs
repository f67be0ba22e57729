//! Files of the administrator in `/etc`: they are a floor for rules, hooks and modes, and one that somebody else could change is
//! refused.
//!
//! Each run sees an `/etc` of its own, made with bubblewrap. For a user who is not root it is in a namespace in which the
//! user is root, so that files of the test belong to root there.

use crate::support::{Api, Bench, Ran, Running, ask, request, run, says};
use crate::terminal::Terminal;
use becket_testkit::{Answer, MockServer, Project};
use serde_json::{Value, json};
use std::os::unix::fs::{PermissionsExt, chown};
use std::process::Command;

const OWN: &str = "/etc/becket/config.toml";
const CLAUDE: &str = "/etc/claude-code/managed-settings.json";
const CLAUDE_PART: &str = "/etc/claude-code/managed-settings.d/50-team.json";
const BYPASS: [&str; 2] = ["--permission-mode", "bypassPermissions"];
const DRIVEN: [&str; 5] = ["--input-format", "stream-json", "--output-format", "stream-json", "--verbose"];

/// A machine that has these files at the given paths.
struct Machine {
    files: Project,
    /// The path there of each of these files.
    paths: Vec<(&'static str, String)>,
    /// The user of the test is root in it.
    as_root: bool,
}

impl Machine {
    fn new(path: &'static str, text: &str) -> Self {
        Self::with(&[(path, text)])
    }

    fn with(files: &[(&'static str, &str)]) -> Self {
        let names: Vec<String> = (0..files.len()).map(|n| format!("managed{n}")).collect();
        let texts: Vec<(&str, &str)> =
            names.iter().zip(files).map(|(name, (_, text))| (name.as_str(), *text)).collect();
        let project = Project::new(&texts);
        for name in &names {
            std::fs::set_permissions(project.path(name), PermissionsExt::from_mode(0o644)).unwrap();
        }
        let paths = files.iter().map(|(path, _)| *path).zip(names).collect();
        Self { files: project, paths, as_root: true }
    }

    /// `command` on this machine. Only the folders of `/etc` are replaced.
    fn runs(&self, command: &Command) -> Command {
        let mut out = Command::new("bwrap");
        out.env_clear().arg("--die-with-parent");
        if self.as_root && !rustix::process::geteuid().is_root() {
            out.args(["--unshare-user", "--uid", "0", "--gid", "0"]);
        }
        for entry in std::fs::read_dir("/").unwrap().flatten() {
            let path = entry.path();
            if path.is_symlink() {
                out.arg("--symlink").arg(std::fs::read_link(&path).unwrap()).arg(path);
            } else if path.is_dir() && !path.ends_with("etc") {
                out.args(["--dev-bind".as_ref(), path.as_os_str(), path.as_os_str()]);
            }
        }
        for name in ["alternatives", "ld.so.cache", "passwd", "group", "nsswitch.conf", "localtime"] {
            let path = format!("/etc/{name}");
            out.args(["--ro-bind-try", &path, &path]);
        }
        for (path, name) in &self.paths {
            out.arg("--ro-bind").arg(self.files.path(name)).arg(path);
        }
        if let Some(dir) = command.get_current_dir() {
            out.arg("--chdir").arg(dir);
        }
        out.arg(command.get_program()).args(command.get_args());
        out.envs(command.get_envs().filter_map(|(name, value)| Some((name, value?))));
        out
    }
}

/// False if this machine cannot show another `/etc`.
fn works() -> bool {
    let machine = Machine::new(OWN, "");
    let works = machine.runs(Command::new("true").env("PATH", std::env::var_os("PATH").unwrap_or_default()));
    let works = { works }.status().is_ok_and(|status| status.success());
    if !works {
        println!("skipped: bubblewrap does not work here");
    }
    works
}

/// A run in which the model calls `bash` with this command. Returns the last result, and the run.
fn called(bench: &Bench, machine: &Machine, command: &str, flags: &[&str]) -> (String, Ran) {
    let server =
        MockServer::start([Answer::tool("c1", "bash", json!({ "command": command })), Answer::text("done")]);
    let ran = run(&mut machine.runs(bench.print(Api::Anthropic, &server).args(flags).args(["--", "go"])));
    let last = server.requests().last().map(|last| last.text().to_owned());
    (last.unwrap_or_default(), ran)
}

#[test]
fn a_file_that_somebody_else_could_change_ends_the_start() {
    if !works() {
        return;
    }
    for (path, text) in [(OWN, ""), (CLAUDE, "{}"), (CLAUDE_PART, "{}")] {
        let refused = |machine: &Machine, why: &str| {
            let bench = Bench::new(&[]);
            let (last, ran) = called(&bench, machine, "touch made", &BYPASS);
            assert_eq!((ran.code, last.as_str()), (2, ""), "{path}: {ran:?}");
            for part in [path, "this managed file cannot be trusted, so becket does not start", why] {
                assert!(ran.stderr.contains(part), "{path}: {part}: {}", ran.stderr);
            }
            assert!(ran.stderr.lines().count() <= 2, "{path}: {}", ran.stderr);
        };
        let mut machine = Machine::new(path, text);
        let file = machine.files.path("managed0");
        let (_, ran) = called(&Bench::new(&[]), &machine, "touch made", &BYPASS);
        assert_eq!(ran.code, 0, "root's own file is used: {}", ran.stderr);
        std::fs::set_permissions(&file, PermissionsExt::from_mode(0o666)).unwrap();
        refused(&machine, "users other than root can write it (mode 666)");
        std::fs::set_permissions(&file, PermissionsExt::from_mode(0o644)).unwrap();
        // Only root can change the owner of the file. For any other user the file already belongs to somebody who is not root.
        if rustix::process::geteuid().is_root() {
            chown(&file, Some(54_321), None).unwrap();
        }
        machine.as_root = false;
        refused(&machine, "it belongs to user ");
    }
}

#[test]
fn a_file_that_cannot_be_read_whole_ends_the_start() {
    if !works() {
        return;
    }
    for (path, text, why) in [
        (OWN, "permissions = ", "config.toml"),
        (OWN, "permissions.deny = [\"Bash((\"]", "Bash(("),
        (CLAUDE, "{\"permissions\": ", "so becket does not start"),
        (CLAUDE, r#"{"permissions": {"deny": ["Bash(("]}}"#, "permissions.deny: "),
        (CLAUDE, r#"{"permissions": {"ask": "Bash"}}"#, "permissions.ask: this is not a list of rules"),
        (CLAUDE, r#"{"permissions": {"deny": [1]}}"#, "permissions.deny: 1 is not a rule"),
        (CLAUDE_PART, r#"{"permissions": {"deny": [1]}}"#, "permissions.deny: 1 is not a rule"),
        (
            CLAUDE,
            r#"{"allowManagedHooksOnly": "yes"}"#,
            "allowManagedHooksOnly: \"yes\" is neither true nor false",
        ),
        (CLAUDE, r#"{"AllowManagedHooksOnly": true}"#, "did you mean allowManagedHooksOnly?"),
        (CLAUDE, r#"{"permissions": ["Bash"]}"#, "permissions: expected a table, not a list"),
        (CLAUDE, r#"{"permissions": {"Deny": ["Bash"]}}"#, "read as permissions.deny"),
        (
            CLAUDE,
            r#"{"permissions": {"disableBypassPermissionsMode": true}}"#,
            "true is no value of this key",
        ),
        (CLAUDE, "", "the file is empty"),
    ] {
        let (last, ran) = called(&Bench::new(&[]), &Machine::new(path, text), "touch made", &BYPASS);
        assert_eq!((ran.code, last.as_str()), (2, ""), "{text}: {ran:?}");
        assert!(ran.stderr.contains(path) && ran.stderr.contains(why), "{text}: {}", ran.stderr);
    }
}

fn claude(permissions: &Value, hook: Option<&str>) -> String {
    let hook = hook.map(|text| json!({"PreToolUse": [{"hooks": [{"type": "command", "command": text}]}]}));
    json!({ "permissions": permissions, "hooks": hook.unwrap_or_else(|| json!({})), "model": "opus" })
        .to_string()
}

#[test]
fn rules_of_the_administrator_are_a_floor() {
    if !works() {
        return;
    }
    let lists = json!({"deny": ["Bash(rm *)"], "ask": ["Bash(touch *)"], "defaultMode": "bypassPermissions"});
    let own = "permissions.deny = [\"Bash(rm *)\"]\npermissions.ask = [\"Bash(touch *)\"]";
    for (path, text) in [(OWN, own.to_owned()), (CLAUDE, claude(&lists, None))] {
        let machine = Machine::new(path, &text);
        let bench = Bench::new(&[("kept", "x")]);
        bench.home.write(".config/becket/config.toml", "permissions.allow = [\"Bash\"]");
        for flags in [
            &["--setting-sources", "", BYPASS[0], BYPASS[1]][..],
            &["--allowedTools", "Bash(rm *)", "Bash(touch *)", "Bash"],
            &["--dangerously-skip-permissions"],
            &["--permission-mode", "auto"],
        ] {
            let (result, ran) = called(&bench, &machine, "rm kept", flags);
            assert!(
                bench.project.exists("kept") && result.contains("Bash(rm *)"),
                "{path} {flags:?}: {ran:?}"
            );
            let (_, ran) = called(&bench, &machine, "touch made", flags);
            assert!(!bench.project.exists("made"), "{path} {flags:?}: {ran:?}");
        }
        // The permission mode in a managed file of Claude Code has no effect.
        let (_, ran) = called(&Bench::new(&[]), &machine, "mkdir made", &[]);
        assert_eq!(ran.code, 5, "{path}: {ran:?}");
        // No request of a program removes a rule.
        let server = MockServer::start([
            Answer::tool("c1", "bash", json!({"command": "rm kept"})),
            Answer::text("done"),
        ]);
        let mut command = bench.print(Api::Anthropic, &server);
        let mut running = Running::start(&mut machine.runs(command.args(DRIVEN).args(BYPASS)));
        let rules = json!({ "permissions": { "allow": ["Bash(rm:*)"], "deny": [], "ask": [] } });
        ask(
            &mut running,
            &request(&json!({ "subtype": "apply_flag_settings", "settings": rules })),
            "control_response",
        );
        ask(&mut running, &says("go"), "\"type\":\"result\"");
        running.wait();
        assert!(bench.project.exists("kept"), "{path}");
    }
}

#[test]
fn hooks_of_the_administrator_run_whatever_the_user_switches_off() {
    if !works() {
        return;
    }
    let own =
        "[[hooks.PreToolUse]]\nhooks = [{ type = \"command\", command = \"echo not here >&2; exit 2\" }]";
    let other = claude(&json!({}), Some("echo not here >&2; exit 2"));
    for (path, text) in [(OWN, own.to_owned()), (CLAUDE, other)] {
        let machine = Machine::new(path, &text);
        let bench = Bench::new(&[]);
        bench.home.write(".config/becket/config.toml", "disable_all_hooks = true");
        bench.home.write(".claude/settings.json", "{\"disableAllHooks\": true}");
        for flags in [
            &BYPASS[..],
            &["--setting-sources", "", BYPASS[0], BYPASS[1]],
            &["--settings", "{\"disableAllHooks\": true}", BYPASS[0], BYPASS[1]],
        ] {
            let (result, ran) = called(&bench, &machine, "touch made", flags);
            assert!(
                !bench.project.exists("made") && result.contains("not here"),
                "{path} {flags:?}: {ran:?}"
            );
        }
        let listed = run(&mut machine.runs(bench.command().args(["hooks", "list"]))).expect(0).stdout;
        assert!(listed.contains("only the administrator's hooks run"), "{listed}");
    }
    // The administrator's own file switches them off.
    let machine = Machine::new(OWN, &format!("disable_all_hooks = true\n{own}"));
    let bench = Bench::new(&[]);
    let (_, ran) = called(&bench, &machine, "touch made", &BYPASS);
    assert!(bench.project.exists("made"), "{ran:?}");
}

/// The administrator's hooks run, and no other. The hooks of a program that drives the session are its own code.
#[test]
fn only_managed_hooks_run_if_the_administrator_says_so() {
    if !works() {
        return;
    }
    let hook = |name: &str| json!({"PreToolUse": [{"hooks": [{"type": "command", "command": format!("touch {name}")}]}]});
    let managed = json!({"allowManagedHooksOnly": true, "hooks": hook("of-managed")}).to_string();
    let part = json!({"hooks": hook("of-part"), "allowManagedHooksOnly": false}).to_string();
    let machine = Machine::with(&[(CLAUDE, &managed), (CLAUDE_PART, &part)]);
    let own = json!({ "hooks": hook("of-project") }).to_string();
    let bench = Bench::new(&[(".claude/settings.json", &own)]);
    let text = "[[hooks.PreToolUse]]\nhooks = [{ type = \"command\", command = \"touch of-user\" }]";
    bench.home.write(".config/becket/config.toml", text);
    bench.home.write(".claude/settings.json", json!({ "hooks": hook("of-other") }).to_string());
    let given = json!({ "hooks": hook("of-flag") }).to_string();
    let flags = [BYPASS[0], BYPASS[1], "--trust", "--settings", &given];
    let (_, ran) = called(&bench, &machine, "touch made", &flags);
    let runs = |name: &str| bench.project.exists(name);
    assert!(runs("made") && runs("of-managed") && runs("of-part"), "{ran:?}");
    for name in ["of-project", "of-user", "of-other", "of-flag"] {
        assert!(!runs(name), "{name}: {ran:?}");
    }
    let listed = run(&mut machine.runs(bench.command().args(["hooks", "list"]))).expect(0).stdout;
    let says = "allowManagedHooksOnly is set: only the administrator's hooks run";
    assert!(listed.contains(says) && !listed.contains("of-user"), "{listed}");
    // Without the switch, all of them run.
    let machine = Machine::with(&[(CLAUDE_PART, &part)]);
    let (_, ran) = called(&bench, &machine, "touch made", &flags);
    for name in ["of-project", "of-user", "of-other", "of-flag"] {
        assert!(runs(name), "{name}: {ran:?}");
    }
}

/// No file, flag, answer or program allows anything by a rule. Their rules that ask or deny still hold.
#[test]
fn only_managed_rules_allow_if_the_administrator_says_so() {
    if !works() {
        return;
    }
    let managed = json!({"permissions": {"allow": ["Bash(touch of-managed)"]}}).to_string();
    let part = json!({"allowManagedPermissionRulesOnly": true}).to_string();
    let machine = Machine::with(&[(CLAUDE, &managed), (CLAUDE_PART, &part)]);
    let bench = Bench::new(&[]);
    let lists = "permissions.allow = [\"Bash\"]\npermissions.deny = [\"Bash(touch of-managed-too)\"]";
    bench.home.write(".config/becket/config.toml", lists);
    let flags = ["--allowedTools", "Bash(touch *)"];
    let (_, ran) = called(&bench, &machine, "touch of-managed", &flags);
    assert!(bench.project.exists("of-managed"), "{ran:?}");
    assert!(ran.stderr.contains("lets only managed rules allow something"), "{}", ran.stderr);
    let (result, ran) = called(&bench, &machine, "touch made", &flags);
    assert!(!bench.project.exists("made"), "{result} {ran:?}");
    let (result, _) = called(&bench, &machine, "touch of-managed-too", &BYPASS);
    assert!(result.contains("Bash(touch of-managed-too)"), "a deny rule of the user holds: {result}");
    let listed = run(&mut machine.runs(bench.command().args(["permissions", "list"]))).expect(0).stdout;
    let allow: Vec<&str> = listed.lines().filter(|line| line.starts_with("allow")).collect();
    assert!(allow.len() == 1 && allow[0].contains("Bash(touch of-managed)"), "{listed}");
    // The answer to a question allows one call, and a rule in it nothing.
    let server = MockServer::start([
        Answer::tool("c1", "bash", json!({"command": "touch one"})),
        Answer::tool("c2", "bash", json!({"command": "touch two"})),
        Answer::text("done"),
    ]);
    let mut command = bench.print(Api::Anthropic, &server);
    command.args(DRIVEN).args(["--permission-prompt-tool", "stdio"]);
    let mut running = Running::start(&mut machine.runs(&command));
    let rules = json!({ "permissions": { "allow": ["Bash(touch two)"] } });
    let body = json!({ "subtype": "apply_flag_settings", "settings": rules });
    ask(&mut running, &request(&body), "control_response");
    let asked = ask(&mut running, &says("go"), "can_use_tool");
    assert!(!asked.to_string().contains("addRules"), "no rule is offered: {asked}");
    let rules = json!([{ "toolName": "Bash", "ruleContent": "touch *" }]);
    let update = json!({ "type": "addRules", "behavior": "allow", "rules": rules, "destination": "session" });
    let answer = json!({ "behavior": "allow", "updatedInput": asked["request"]["input"], "updatedPermissions": [update] });
    let response = json!({ "subtype": "success", "request_id": asked["request_id"], "response": answer });
    running.send(format!("{}\n", json!({ "type": "control_response", "response": response })).as_bytes());
    let line = running.line(|line| line.contains("can_use_tool") && line.contains("touch two"));
    let asked: Value = serde_json::from_str(&line).unwrap();
    let response = json!({ "subtype": "success", "request_id": asked["request_id"], "response": {"behavior": "deny", "message": "no"} });
    ask(&mut running, &json!({ "type": "control_response", "response": response }), "\"type\":\"result\"");
    running.wait();
    assert!(bench.project.exists("one") && !bench.project.exists("two"));
}

/// The files in `managed-settings.d` count in the order of their names, after `managed-settings.json`.
#[test]
fn managed_files_add_up_in_the_order_of_their_names() {
    if !works() {
        return;
    }
    let deny = |rule: &str, value: &str| {
        json!({"permissions": {"deny": [rule]}, "env": {"FROM": value}}).to_string()
    };
    let (first, second, last, hidden) = (
        deny("Bash(rm *)", "first"),
        deny("Bash(touch *)", "second"),
        deny("Bash(mkdir *)", "last"),
        deny("Bash(printenv *)", "of-a-hidden-file"),
    );
    let machine = Machine::with(&[
        ("/etc/claude-code/managed-settings.d/90-last.json", &last),
        (CLAUDE, &first),
        (CLAUDE_PART, &second),
        ("/etc/claude-code/managed-settings.d/.95-hidden.json", &hidden),
        ("/etc/claude-code/managed-settings.d/99-note.txt", "no settings"),
    ]);
    let bench = Bench::new(&[]);
    for command in ["rm x", "touch x", "mkdir x"] {
        let (result, ran) = called(&bench, &machine, command, &BYPASS);
        let rule = format!("Bash({} *)", command.split(' ').next().unwrap());
        assert!(result.contains(&rule), "{command}: {result} {ran:?}");
    }
    let (result, ran) = called(&bench, &machine, "printenv FROM", &BYPASS);
    assert!(result.contains("last") && !result.contains("of-a-hidden-file"), "{result} {ran:?}");
}

/// The mode of the session, as it tells a program.
fn mode(running: &mut Running) -> String {
    let told = ask(running, &request(&json!({ "subtype": "get_settings" })), "control_response");
    told["response"]["response"]["effective"]["permissions"]["defaultMode"].as_str().unwrap().to_owned()
}

#[test]
fn a_program_cannot_raise_the_mode_above_the_managed_one() {
    if !works() {
        return;
    }
    let off = claude(&json!({"disableBypassPermissionsMode": "disable"}), None);
    for (path, text, flags, first, refused, taken) in [
        // A flag does not start in a wider mode.
        (
            OWN,
            "permission_mode = \"default\"",
            &BYPASS[..],
            "default",
            &["acceptEdits", "auto", "bypassPermissions"][..],
            &["plan", "default", "dontAsk"][..],
        ),
        (
            OWN,
            "permission_mode = \"plan\"",
            &["--dangerously-skip-permissions"],
            "plan",
            &["default", "acceptEdits", "bypassPermissions"],
            &["plan"],
        ),
        (
            CLAUDE,
            off.as_str(),
            &["--allow-dangerously-skip-permissions"],
            "default",
            &["bypassPermissions"],
            &["acceptEdits", "auto", "default"],
        ),
    ] {
        let machine = Machine::new(path, text);
        let bench = Bench::new(&[]);
        let server = MockServer::start([
            Answer::tool("c1", "bash", json!({"command": "touch one"})),
            Answer::tool("c2", "bash", json!({"command": "touch two"})),
            Answer::text("done"),
        ]);
        let mut command = bench.print(Api::Anthropic, &server);
        command.args(DRIVEN).args(["--permission-prompt-tool", "stdio"]).args(flags);
        let mut running = Running::start(&mut machine.runs(&command));
        assert_eq!(mode(&mut running), first, "{text}");
        for wanted in taken {
            let body = json!({ "subtype": "set_permission_mode", "mode": wanted });
            let answer = ask(&mut running, &request(&body), "control_response");
            assert_eq!(answer["response"]["subtype"], "success", "{text} {wanted}: {answer}");
            assert_eq!(&mode(&mut running), wanted, "{text}");
        }
        let before = mode(&mut running);
        for wanted in refused {
            for body in [
                json!({ "subtype": "set_permission_mode", "mode": wanted }),
                json!({ "subtype": "apply_flag_settings", "settings": {"permissions": {"defaultMode": wanted}} }),
            ] {
                let answer = ask(&mut running, &request(&body), "control_response");
                let why = answer["response"]["error"].as_str().unwrap_or_default();
                assert!(why.contains("the administrator of this machine"), "{text} {wanted}: {answer}");
                assert_eq!(mode(&mut running), before, "{text} {wanted}");
            }
        }
        // The answer to a question does not raise it either: the second call is asked about as the first was.
        if before == "default" {
            let asked = ask(&mut running, &says("go"), "can_use_tool");
            let update = json!({ "type": "setMode", "mode": "bypassPermissions", "destination": "session" });
            let answer = json!({ "behavior": "allow", "updatedInput": asked["request"]["input"], "updatedPermissions": [update] });
            let response =
                json!({ "subtype": "success", "request_id": asked["request_id"], "response": answer });
            running.send(
                format!("{}\n", json!({ "type": "control_response", "response": response })).as_bytes(),
            );
            let line = running.line(|line| line.contains("can_use_tool") && line.contains("touch two"));
            let asked: Value = serde_json::from_str(&line).unwrap();
            let response = json!({ "subtype": "success", "request_id": asked["request_id"], "response": {"behavior": "deny", "message": "no"} });
            ask(
                &mut running,
                &json!({ "type": "control_response", "response": response }),
                "\"type\":\"result\"",
            );
            assert!(bench.project.exists("one") && !bench.project.exists("two"), "{text}");
        }
        running.wait();
    }
}

#[test]
fn bypass_that_the_administrator_switched_off_is_refused_at_the_start() {
    if !works() {
        return;
    }
    let machine = Machine::new(CLAUDE, &claude(&json!({"disableBypassPermissionsMode": "disable"}), None));
    let bench = Bench::new(&[]);
    let mut outcomes = vec![called(&bench, &machine, "touch made", &BYPASS)];
    outcomes.push(called(&bench, &machine, "touch made", &["--dangerously-skip-permissions"]));
    bench.home.write(".config/becket/config.toml", "permission_mode = \"bypassPermissions\"");
    outcomes.push(called(&bench, &machine, "touch made", &[]));
    for (last, ran) in outcomes {
        assert_eq!((ran.code, last.as_str()), (2, ""), "{ran:?}");
        assert!(
            ran.stderr.contains("the administrator of this machine has switched it off"),
            "{}",
            ran.stderr
        );
    }
    assert!(!bench.project.exists("made"));
}

#[test]
fn a_person_cannot_raise_the_mode_above_the_managed_one() {
    if !works() {
        return;
    }
    let machine = Machine::new(OWN, "permission_mode = \"default\"");
    let bench = Bench::new(&[]);
    let server = MockServer::start([
        Answer::tool("c1", "bash", json!({"command": "touch made"})),
        Answer::text("done"),
    ]);
    let mut command = bench.command();
    command
        .env("ANTHROPIC_API_KEY", "sk-test")
        .env("ANTHROPIC_BASE_URL", server.url())
        .env("TERM", "xterm-256color")
        .args(["--ax", "--model", "anthropic/claude-sonnet-4-5", "--dangerously-skip-permissions"]);
    let mut terminal = Terminal::start(machine.runs(&command));
    let said =
        |t: &Terminal| String::from_utf8_lossy(&t.bytes).split_whitespace().collect::<Vec<_>>().join(" ");
    terminal.until("the session", |t| said(t).contains("/quit to leave."));
    for (at, wanted) in ["acceptEdits", "auto"].iter().enumerate() {
        terminal.send(&format!("/mode {wanted}\n"));
        let why = "the administrator of this machine has set default";
        terminal.until("the refusal", |t| said(t).matches(why).count() > at);
    }
    terminal.send("/mode plan\n");
    terminal.until("the stricter mode", |t| said(t).contains("plan mode: becket only reads"));
    terminal.send("/mode default\n");
    terminal.until("the managed mode", |t| said(t).contains("default mode: becket asks"));
    terminal.send("go\n");
    terminal.until("the question", |t| said(t).contains("touch made") && said(t).contains("/y"));
    assert!(!bench.project.exists("made"));
}
