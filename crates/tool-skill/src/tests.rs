//! Skills on disk: finding, overriding, refusing and loading them.

use super::*;
use becket_tool::testing::run;
use becket_tool::{Tool, testing};
use serde_json::{Value, json};
use std::path::Path;
use std::sync::Arc;

fn write(root: &Path, name: &str, text: &str) {
    let path = root.join(name);
    std::fs::create_dir_all(path.parent().unwrap()).unwrap();
    std::fs::write(path, text).unwrap();
}

fn skill_md(name: &str, description: &str, body: &str) -> String {
    format!("---\nname: {name}\ndescription: {description}\n---\n{body}")
}

fn dir(path: &Path, scope: Scope) -> SkillDir {
    SkillDir { path: path.to_owned(), scope, trusted: true }
}

#[test]
fn bundled_skills_are_sound() {
    let skills = Skills::discover(&[]);
    assert_eq!(skills.warnings(), [] as [String; 0]);
    let names: Vec<&str> = skills.iter().map(|s| s.name.as_str()).collect();
    assert_eq!(names, ["commit", "debug", "review", "write-tests"]);
    for text in bundled::BUNDLED {
        assert!(text.lines().count() < 150);
    }
}

#[test]
fn project_goes_before_user_and_user_before_bundled() {
    let tmp = tempfile::tempdir().unwrap();
    let root = tmp.path().canonicalize().unwrap();
    write(&root, "user/commit/SKILL.md", &skill_md("commit", "user's", ""));
    write(&root, "user/mine/SKILL.md", &skill_md("mine", "user's", ""));
    write(&root, "project/deep/mine/SKILL.md", &skill_md("mine", "project's", ""));
    let skills =
        Skills::discover(&[dir(&root.join("user"), Scope::User), dir(&root.join("project"), Scope::Project)]);
    assert_eq!(skills.get("/Commit").unwrap().description, "user's");
    assert_eq!(skills.get("mine").unwrap().description, "project's");
    assert_eq!(
        skills.warnings(),
        [format!(
            "{}: left out, {} has the same name `mine`",
            root.join("user/mine/SKILL.md").display(),
            root.join("project/deep/mine").display()
        )]
    );
}

#[test]
fn what_is_not_a_skill_of_the_project_is_not_found() {
    let tmp = tempfile::tempdir().unwrap();
    let root = tmp.path().canonicalize().unwrap();
    for place in ["s/node_modules/a", "s/.hidden/b", "s/1/2/3/4/5/6/7/c", "elsewhere/d"] {
        write(&root, &format!("{place}/SKILL.md"), &skill_md("x", "d", ""));
    }
    std::os::unix::fs::symlink(root.join("elsewhere"), root.join("s/link")).unwrap();
    write(&root, "s/broken/SKILL.md", "no head");
    write(&root, "s/nameless/SKILL.md", "---\nname: nameless\n---\n");
    write(&root, "s/big/SKILL.md", &skill_md("big", "d", &"x".repeat(2 * 1024 * 1024)));
    let bundled = Skills::discover(&[]).iter().count();
    let skills =
        Skills::discover(&[dir(&root.join("s"), Scope::Project), dir(&root.join("none"), Scope::Project)]);
    assert_eq!(skills.iter().count(), bundled);
    let warnings = skills.warnings().join("\n");
    for want in [
        "s/broken/SKILL.md: left out: it does not begin with frontmatter (---)",
        "s/nameless/SKILL.md: left out: it has no description",
        "s/big/SKILL.md: left out: it has 2097",
    ] {
        assert!(warnings.contains(want), "{warnings}");
    }
    assert_eq!(skills.warnings().len(), 3);
    // Links in the user's own folders are followed.
    assert!(Skills::discover(&[dir(&root.join("s"), Scope::User)]).get("x").is_some());
    let untrusted = SkillDir { trusted: false, ..dir(&root.join("s"), Scope::Project) };
    let skills = Skills::discover(&[untrusted]);
    assert_eq!(skills.iter().count(), bundled);
    assert_eq!(
        skills.warnings(),
        [format!("{}: skills are not loaded until the folder is trusted", root.join("s").display())]
    );
}

#[test]
fn the_catalogue_fits() {
    let tmp = tempfile::tempdir().unwrap();
    for n in 0..60 {
        write(
            tmp.path(),
            &format!("s{n:02}/SKILL.md"),
            &skill_md(&format!("s{n:02}"), &"word ".repeat(100), ""),
        );
    }
    write(
        tmp.path(),
        "own/SKILL.md",
        "---\nname: own\ndescription: d\ndisable-model-invocation: true\n---\n",
    );
    let mut skills = Skills::discover(&[dir(tmp.path(), Scope::User)]);
    for max in [100, 300, 1_000, 3_000, 8_000, 100_000] {
        match skills.catalog(max, "") {
            Some(text) => assert!(text.chars().count() <= max && !text.contains("own"), "{max}"),
            None => assert_eq!(max, 100),
        }
    }
    assert_eq!(skills.catalog(8_000, ""), skills.catalog(8_000, ""));
    skills.retain(|s| s.name == "s07");
    let text = skills.catalog(300, "").unwrap();
    assert!(text.starts_with("# Skills\n") && text.contains("\n- s07: word word"), "{text}");
    skills.retain(|_| false);
    assert_eq!(skills.catalog(8_000, ""), None);
}

/// If there are many skills, those that are used, match the task or belong to the project keep their
/// descriptions.
#[test]
fn the_best_of_many_keep_their_descriptions() {
    let tmp = tempfile::tempdir().unwrap();
    let about = "Handles one of the many things that somebody may want to have done some day, in detail";
    for n in 0..400 {
        let name = format!("thing-{n:03}");
        write(tmp.path(), &format!("{name}/SKILL.md"), &skill_md(&name, about, ""));
    }
    write(tmp.path(), "zebra/SKILL.md", &skill_md("zebra", "Draws striped animals", ""));
    let log = tmp.path().join("data/uses");
    let mut skills = Skills::discover(&[dir(tmp.path(), Scope::User)]);
    skills.count_uses(&log);
    let plain = skills.catalog(CATALOG_CHARS, "").unwrap();
    assert!(plain.chars().count() <= CATALOG_CHARS);
    assert!(plain.contains("- thing-000: Handles") && !plain.contains("- zebra: "), "{plain}");
    assert!(plain.contains(" more\n") && plain.contains("`query`"), "{plain}");
    let fit = skills.catalog(CATALOG_CHARS, "Please draw some striped animal").unwrap();
    assert!(fit.contains("- zebra: Draws striped animals\n"), "{fit}");
    usage::add(&log, "thing-399");
    skills.count_uses(&log);
    let used = skills.catalog(CATALOG_CHARS, "").unwrap();
    assert!(used.contains("- thing-399: Handles") && used.chars().count() <= CATALOG_CHARS);
    let found: Vec<&str> =
        skills.search("animals with stripes: zebra?").iter().map(|s| s.name.as_str()).collect();
    assert_eq!(found, ["zebra"]);
}

#[tokio::test]
async fn the_model_searches_what_is_not_described() {
    let tmp = tempfile::tempdir().unwrap();
    let root = tmp.path().canonicalize().unwrap();
    for n in 0..30 {
        write(
            &root,
            &format!("s{n}/SKILL.md"),
            &skill_md(&format!("s{n}"), &format!("Handles file type{n}x"), ""),
        );
    }
    let log = root.join("data/uses");
    let tool =
        SkillTool::new(Arc::new(Skills::discover(&[dir(&root, Scope::User)]))).recorded_in(log.clone());
    let (env, _) = testing::env(&root);
    let found = run(&tool, &env, json!({"query": "a file of type7x"})).await;
    assert!(found.content.starts_with("- s7: Handles file type7x\n"), "{}", found.content);
    assert!(found.content.ends_with("[10 of 30 shown; give more words]\n"), "{}", found.content);
    let none = run(&tool, &env, json!({"query": "quantum"})).await;
    assert!(!none.is_error && none.content.starts_with("No skill has"), "{}", none.content);
    assert!(run(&tool, &env, json!({})).await.content.starts_with("`name` is missing"));
    assert!(run(&tool, &env, json!({"name": "nothing"})).await.content.contains("search them with `query`"));
    // A search does not count as a use; only loading does.
    assert!(!log.exists());
    assert!(!run(&tool, &env, json!({"name": "s7"})).await.is_error);
    assert_eq!(usage::counts(&log)["s7"], 1);
}

#[tokio::test]
async fn a_name_that_was_changed_is_called_as_written() {
    let tmp = tempfile::tempdir().unwrap();
    let root = tmp.path().canonicalize().unwrap();
    write(&root, "code_explorer/SKILL.md", &skill_md("code_explorer", "d", "Explore."));
    write(&root, "x/SKILL.md", &skill_md("PDF Forms!", "d", "Fill."));
    let skills = Skills::discover(&[dir(&root, Scope::User)]);
    for (written, name) in [
        ("code_explorer", "code-explorer"),
        ("/Code_Explorer", "code-explorer"),
        ("code-explorer", "code-explorer"),
        ("PDF Forms!", "pdf-forms"),
        ("pdf-forms", "pdf-forms"),
    ] {
        assert_eq!(skills.get(written).map(|s| s.name.as_str()), Some(name), "{written}");
    }
    assert!(skills.warnings().iter().any(|w| w.contains("it is listed as `code-explorer`")));
    let mut kept = skills.clone();
    kept.keep_named(&["code_explorer".to_owned(), "no such skill".to_owned()]);
    assert_eq!(kept.iter().map(|s| s.name.as_str()).collect::<Vec<_>>(), ["code-explorer"]);
    let tool = SkillTool::new(Arc::new(skills));
    let (env, _) = testing::env(&root);
    assert!(run(&tool, &env, json!({"name": "code_explorer"})).await.content.contains("Explore."));
}

#[test]
fn the_nearest_folder_of_a_scope_goes_first() {
    let tmp = tempfile::tempdir().unwrap();
    let root = tmp.path().canonicalize().unwrap();
    write(&root, "far/mine/SKILL.md", &skill_md("mine", "far", ""));
    write(&root, "far/other/SKILL.md", &skill_md("other", "far", ""));
    write(&root, "near/mine/SKILL.md", &skill_md("mine", "near", ""));
    let dirs = [dir(&root.join("near"), Scope::Project), dir(&root.join("far"), Scope::Project)];
    let skills = Skills::discover(&dirs);
    assert_eq!(skills.get("mine").unwrap().description, "near");
    assert_eq!(skills.get("other").unwrap().description, "far");
}

#[tokio::test]
async fn a_skill_is_loaded_once() {
    let tmp = tempfile::tempdir().unwrap();
    let root = tmp.path().canonicalize().unwrap();
    write(&root, "x/SKILL.md", &skill_md("x", "d", "\n# Do\n$ARGUMENTS from ${CLAUDE_SKILL_DIR}\n"));
    write(&root, "x/scripts/run.sh", "");
    write(&root, "x/.git/config", "");
    let tool = SkillTool::new(Arc::new(Skills::discover(&[dir(&root, Scope::User)])));
    assert!(tool.protected());
    let (env, host) = testing::env(&root);
    let access = tool.access(&json!({"skill": "X"}), &env).unwrap();
    assert_eq!(access.subject.as_deref(), Some("x"));
    let place = root.join("x");
    let place = place.display();
    let first = run(&tool, &env, json!({"name": "x", "args": "this"})).await;
    assert_eq!(
        first.content,
        format!(
            "Skill x, in {place}\n\n# Do\nthis from {place}\n\nFiles of the skill, to read or run when needed:\n- scripts/run.sh\n"
        )
    );
    let again = run(&tool, &env, json!({"name": "/x", "arguments": "this"})).await;
    assert_eq!(
        again.content,
        "The skill `x` is active already, with the same text. Go on with it; do not begin it again."
    );
    let other = run(&tool, &env, json!({"name": "x", "arguments": "that"})).await;
    assert!(other.content.contains("that from"));
    let state = host.kept().state["skills"].clone();
    let names: Vec<&Value> = state.as_array().unwrap().iter().map(|s| &s["name"]).collect();
    assert_eq!(names, ["x"]);
    assert_eq!(state[0]["content"], format!("# Do\nthat from {place}\n"));
}

#[tokio::test]
async fn wrong_names_are_errors_with_a_hint() {
    let tool = SkillTool::new(Arc::new(Skills::discover(&[])));
    let (env, _) = testing::env(Path::new("/"));
    let output = run(&tool, &env, json!({"name": "comit"})).await;
    assert!(output.is_error);
    assert_eq!(
        output.content,
        "There is no skill named `comit`. Did you mean `commit`? Skills: commit, debug, review, write-tests."
    );
}

#[tokio::test]
async fn a_skill_that_vanished_is_an_error() {
    let tmp = tempfile::tempdir().unwrap();
    let root = tmp.path().canonicalize().unwrap();
    write(&root, "x/SKILL.md", &skill_md("x", "d", ""));
    let tool = SkillTool::new(Arc::new(Skills::discover(&[dir(&root, Scope::User)])));
    std::fs::remove_dir_all(root.join("x")).unwrap();
    let (env, _) = testing::env(&root);
    let output = run(&tool, &env, json!({"name": "x"})).await;
    assert!(
        output.is_error && output.content.starts_with("The skill `x` cannot be loaded"),
        "{}",
        output.content
    );
}
