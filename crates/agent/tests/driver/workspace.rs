//! Folders that join the workspace while the session runs.

use crate::support::{Setup, call, calls, say, write};
use becket_agent::{ADDED_FOLDERS, Confinement};
use becket_guard::Rule;
use becket_types::{Command, Event, NoticeLevel, PermissionMode, RuleChange, RuleKind, RuleOwner};
use serde_json::json;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};

#[derive(Debug, Default)]
struct Confined(Mutex<Vec<PathBuf>>, Mutex<Vec<String>>);

impl Confinement for Confined {
    fn add_folder(&self, folder: &Path) -> Vec<PathBuf> {
        self.0.lock().unwrap().push(folder.to_path_buf());
        vec![folder.join("dev/gitconfig")]
    }

    fn remove_folder(&self, folder: &Path, roots: &[PathBuf]) {
        assert!(!roots.contains(&folder.to_path_buf()));
        self.0.lock().unwrap().retain(|known| known != folder);
    }

    fn deny(&self, rules: &[Rule]) {
        *self.1.lock().unwrap() = rules.iter().map(ToString::to_string).collect();
    }

    fn undone(&self) -> Vec<String> {
        Vec::new()
    }
}

/// Commands are confined by all deny rules of the session, whichever front end or program adds or withdraws them.
#[tokio::test(start_paused = true)]
async fn deny_rules_that_come_and_go_reach_the_confinement() {
    let mut setup = Setup::new(vec![]);
    let confined = Arc::new(Confined::default());
    setup.settings.tools.confinement = Some(Arc::clone(&confined) as Arc<dyn Confinement>);
    let mut rig = setup.start();
    let change = |owner, change, rules: &[&str]| Command::ChangeRules {
        owner,
        change,
        rules: BTreeMap::from([(RuleKind::Deny, rules.iter().map(|rule| (*rule).to_owned()).collect())]),
    };
    for (owner, how, rules, all) in [
        (RuleOwner::Session, RuleChange::Add, &["Read(./a/**)"][..], &["Read(./a/**)"][..]),
        (RuleOwner::Program, RuleChange::Replace, &["Edit(*.lock)"], &["Edit(*.lock)", "Read(./a/**)"]),
        (RuleOwner::Program, RuleChange::Replace, &[], &["Read(./a/**)"]),
        (RuleOwner::Session, RuleChange::Remove, &["Read(./a/**)"], &[]),
    ] {
        let what = Box::new(change(owner, how, rules));
        rig.send(Command::WithReceipt { request_id: "r".into(), what }).await;
        rig.event(|event| matches!(event, Event::Receipt { .. })).await;
        assert_eq!(*confined.1.lock().unwrap(), all, "{rules:?}");
    }
}

fn add(path: impl Into<PathBuf>) -> Command {
    Command::AddDirectory { path: Some(path.into()) }
}

#[tokio::test(start_paused = true)]
async fn a_folder_joins_the_workspace_and_the_session_keeps_it() {
    let read = |id: &str| calls(vec![call(id, "read", json!({ "path": "../lib/a.txt" }))]);
    let mut setup = Setup::new(vec![read("c1"), say("one"), read("c2"), say("two"), say("three")]);
    let confined = Arc::new(Confined::default());
    setup.mode = PermissionMode::Default;
    setup.settings.tools.confinement = Some(Arc::clone(&confined) as Arc<dyn Confinement>);
    let top = setup.cwd().parent().unwrap().to_owned();
    write(&top, "lib/a.txt", "hello");
    write(&top, "lib/below/b.txt", "");
    write(&top, "project/in/c.txt", "");
    let mut rig = setup.start();
    // In a headless run nobody can be asked, so the call is denied.
    rig.turn("read it").await;
    assert!(rig.names().contains(&"permission_denied".to_owned()));

    let lib = top.join("lib");
    for (path, level, text) in [
        ("nowhere", NoticeLevel::Error, "nowhere was not added to the workspace: No such file".to_owned()),
        (
            "in/c.txt",
            NoticeLevel::Error,
            "in/c.txt was not added to the workspace: it is not a folder.".to_owned(),
        ),
        ("in", NoticeLevel::Info, format!("{}/project/in is in the workspace already", top.display())),
        ("../lib", NoticeLevel::Info, format!("Added {} to the workspace.", lib.display())),
        ("../lib/below", NoticeLevel::Info, format!("{}/below is in the workspace already", lib.display())),
    ] {
        rig.send(add(path)).await;
        let told = rig.event(|event| matches!(event, Event::Notice { .. })).await;
        let Event::Notice { level: shown, text: words } = &told else { panic!("{told:?}") };
        assert!(*shown == level && words.starts_with(&text), "{path}: {told:?}");
    }
    let changed = Event::WorkspaceChanged { added: vec![lib.clone()] };
    assert!(rig.log.contains(&changed), "{:?}", rig.log);
    rig.send(Command::AddDirectory { path: None }).await;
    let told = rig.event(|event| matches!(event, Event::Notice { .. })).await;
    let all = format!("The workspace: {}/project, {}.", top.display(), lib.display());
    assert!(matches!(&told, Event::Notice { text, .. } if text.starts_with(&all)), "{told:?}");

    rig.turn("now read it").await;
    assert_eq!(rig.model.turns()[3].last(), "result c2: 1\thello");
    let informs = |at: usize| {
        let lines = rig.model.turns()[at].lines();
        lines.iter().filter(|line| line.contains("The user added the folder")).count()
    };
    assert_eq!([informs(1), informs(2), informs(3)], [0, 1, 1]);
    assert_eq!(*confined.0.lock().unwrap(), std::slice::from_ref(&lib));
    let session = rig.end().await;
    let session = session.lock().unwrap();
    assert_eq!(session.view().state(ADDED_FOLDERS), Some(&json!([lib])));
}

#[tokio::test(start_paused = true)]
async fn a_folder_that_was_added_leaves_the_workspace() {
    let read = |id: &str| calls(vec![call(id, "read", json!({ "path": "../lib/a.txt" }))]);
    let mut setup = Setup::new(vec![read("c1"), say("one"), read("c2"), say("two")]);
    let confined = Arc::new(Confined::default());
    setup.mode = PermissionMode::Default;
    setup.settings.tools.confinement = Some(Arc::clone(&confined) as Arc<dyn Confinement>);
    let top = setup.cwd().parent().unwrap().to_owned();
    write(&top, "lib/a.txt", "hello");
    let mut rig = setup.start();
    rig.send(add("../lib")).await;
    rig.turn("read it").await;
    assert!(!rig.names().contains(&"permission_denied".to_owned()));
    for (path, wanted) in [(top.join("project"), "was not removed"), (top.join("lib"), "Removed")] {
        rig.send(Command::RemoveDirectory { path }).await;
        let told = rig.event(|event| matches!(event, Event::Notice { .. })).await;
        assert!(matches!(&told, Event::Notice { text, .. } if text.contains(wanted)), "{told:?}");
    }
    rig.turn("read it again").await;
    assert!(rig.log.contains(&Event::WorkspaceChanged { added: Vec::new() }), "{:?}", rig.log);
    assert!(rig.names().contains(&"permission_denied".to_owned()));
    assert!(rig.model.turns()[2].lines().iter().any(|line| line.contains("The user removed the folder")));
    assert!(confined.0.lock().unwrap().is_empty());
    let session = rig.end().await;
    let session = session.lock().unwrap();
    assert_eq!(session.view().state(ADDED_FOLDERS), Some(&json!([])));
}

#[tokio::test(start_paused = true)]
async fn what_is_chosen_before_the_first_message_is_kept_as_chosen() {
    let mut setup = Setup::new(vec![say("ok")]);
    let top = setup.cwd().parent().unwrap().to_owned();
    for folder in ["one", "two"] {
        std::fs::create_dir(top.join(folder)).unwrap();
    }
    setup.settings.session.states =
        vec![("mode".into(), json!("plan")), (ADDED_FOLDERS.into(), json!([top.join("one")]))];
    let mut rig = setup.start();
    rig.send(Command::SetMode { mode: "acceptEdits".into() }).await;
    rig.send(add(top.join("two"))).await;
    rig.turn("go").await;
    assert!(rig.model.turns()[0].context.system.iter().any(|block| block.contains("/two")));
    let session = rig.end().await;
    let session = session.lock().unwrap();
    assert_eq!(session.view().state("mode"), Some(&json!("acceptEdits")));
    assert_eq!(session.view().state(ADDED_FOLDERS), Some(&json!([top.join("one"), top.join("two")])));
}
