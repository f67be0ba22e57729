//! Bad input to every tool, generated from its schema: each parameter missing, null, of each wrong type, of extreme
//! size, with characters that no path or text has, and outside of the workspace. Unknown parameters are added as well.
//! Input that cannot be understood is an error that names the parameter. Input that is only extreme is an error or does
//! no harm. Nothing is changed, left running or waited for.

use super::*;
use becket_tool::ToolEnv;
use becket_tool::testing::{env, run};
use becket_tool_lsp::{AfterEdit, CustomServer, LspSettings, Settings};
use becket_tool_web::{Provider, Proxies, SearchSettings, WebSearch};
use becket_types::PermissionMode;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::os::unix::fs::PermissionsExt as _;
use std::time::Duration;

/// Returns a valid call for every tool.
fn in_order(tool: &str) -> Value {
    let patch = "*** Begin Patch\n*** Update File: f.txt\n-text\n+other\n*** End Patch";
    match tool {
        "read" => json!({"path": "f.txt", "offset": 1, "limit": 5}),
        "edit" => json!({"path": "f.txt", "old": "text", "new": "other", "replace_all": false}),
        "multi_edit" => {
            json!({"path": "f.txt", "edits": [{"old": "text", "new": "other", "replace_all": false}]})
        }
        "apply_patch" => json!({"patch": patch}),
        "write" => json!({"path": "f.txt", "content": "other\n"}),
        "bash" => {
            json!({"command": "true", "timeout": 5000, "description": "d", "workdir": ".", "pty": true, "input": "\u{4}"})
        }
        "job_output" => json!({"id": 77, "wait": 1}),
        "job_kill" => json!({"id": 77}),
        "grep" => {
            json!({"pattern": "text", "path": ".", "glob": "*.txt", "mode": "content", "context": 1, "limit": 5})
        }
        "glob" => json!({"pattern": "*.txt", "path": ".", "limit": 5}),
        "skill" => json!({"name": "none-such", "arguments": "x"}),
        "todo" => json!({"items": [{"content": "a", "status": "pending"}]}),
        "recall" => json!({"id": "call_0", "lines": "1-2"}),
        "notebook_edit" => {
            json!({"path": "n.ipynb", "cell": "1", "source": "other", "cell_type": "code", "edit_mode": "replace"})
        }
        "web_fetch" => json!({"url": "http://127.0.0.1:1/"}),
        "web_search" => json!({"query": "x"}),
        "lsp" => json!({"action": "hover", "path": "f.txt", "symbol": "text", "line": 1}),
        other => panic!("{other} is a new tool: give it a call that is in order"),
    }
}

/// Parameters that accept any text, so that a call may change something.
const FREE: &[&str] =
    &["edit.new", "multi_edit.new", "write.content", "notebook_edit.source", "bash.command", "todo.content"];

/// A parameter: its path in the input, and its schema.
struct Place {
    pointer: String,
    name: String,
    schema: Value,
    required: bool,
}

fn places(schema: &Value, at: &str, out: &mut Vec<Place>) {
    let required =
        |name: &str| schema["required"].as_array().is_some_and(|all| all.iter().any(|r| r == name));
    for (name, inner) in schema["properties"].as_object().into_iter().flatten() {
        let pointer = format!("{at}/{name}");
        if inner["type"] == "array" {
            places(&inner["items"], &format!("{pointer}/0"), out);
        }
        out.push(Place { pointer, name: name.clone(), schema: inner.clone(), required: required(name) });
    }
}

/// Returns `input` with `value` at a path, or without that path.
fn with(input: &Value, place: &Place, value: Option<&Value>) -> Value {
    let mut input = input.clone();
    let (above, name) = place.pointer.rsplit_once('/').unwrap();
    let map = input.pointer_mut(above).unwrap().as_object_mut().unwrap();
    match value {
        Some(value) => map.insert(name.to_owned(), value.clone()),
        None => map.remove(name),
    };
    input
}

/// Returns one value of each type that the schema does not allow.
fn not_of_type(schema: &Value) -> Vec<Value> {
    let mut out = vec![json!({"a": 1}), json!({})];
    match schema["type"].as_str().unwrap_or_default() {
        "string" if schema.get("enum").is_some() => out.extend([json!("sideways"), json!([1])]),
        "string" => out.push(json!([1])),
        "integer" => out.extend([
            json!("many"),
            json!("NaN"),
            json!(1.5),
            json!(1e300),
            json!([1]),
            json!(true),
            json!(""),
        ]),
        "number" => {
            out.extend([json!("many"), json!("NaN"), json!("inf"), json!([1]), json!(true), json!("")]);
        }
        "boolean" => out.extend([json!("perhaps"), json!(7), json!([true])]),
        "array" => out.extend([json!("text"), json!(7), json!([7]), json!(["x"]), json!(true)]),
        other => panic!("no parameter is of type {other:?}"),
    }
    if schema["type"] == "array" {
        out.retain(|value| !value.is_object());
    }
    out
}

fn extreme(schema: &Value) -> Vec<Value> {
    match schema["type"].as_str().unwrap_or_default() {
        "string" if schema.get("enum").is_none() => {
            let mut out: Vec<Value> = [
                "",
                "  ",
                "\n",
                "\0",
                "f.txt\0",
                "f.txt\n",
                "\u{1b}[2J\u{7}",
                "\u{202e}txt.f",
                "\u{feff}",
                "~",
                "~root/x",
                "/dev/zero",
                "/proc/self/mem",
                "f.txt/x",
                "nowhere/f",
                "*",
                "[",
                "(",
                "\\",
                "-",
                "--help",
                "%00",
                "${HOME}",
                "f.txt;touch g",
                "NaN",
                "null",
            ]
            .map(Value::from)
            .to_vec();
            out.extend([
                json!("x".repeat(1 << 20)),
                json!("a/".repeat(5_000)),
                json!("é".repeat(300)),
                json!("\n".repeat(100_000)),
            ]);
            out
        }
        "integer" | "number" => {
            vec![
                json!(-1),
                json!(0),
                json!(i64::MAX),
                json!(i64::MIN),
                json!(u64::MAX),
                json!(1u64 << 63),
                json!(9e18),
                json!("1e18"),
            ]
        }
        _ => Vec::new(),
    }
}

/// Returns names, modes and contents below a directory.
fn tree(dir: &Path) -> BTreeMap<PathBuf, (u32, Vec<u8>)> {
    let mut out = BTreeMap::new();
    for entry in std::fs::read_dir(dir).unwrap().map(Result::unwrap) {
        let meta = entry.path().symlink_metadata().unwrap();
        let content = if meta.is_file() { std::fs::read(entry.path()).unwrap() } else { Vec::new() };
        if meta.is_dir() {
            out.extend(tree(&entry.path()));
        }
        out.insert(entry.path(), (meta.permissions().mode(), content));
    }
    out
}

/// Returns the live processes that this one started.
fn children() -> Vec<String> {
    let own = std::process::id().to_string();
    let of = |pid: std::ffi::OsString| {
        let text = std::fs::read_to_string(Path::new("/proc").join(pid).join("stat")).ok()?;
        let rest: Vec<&str> = text.rsplit_once(')')?.1.split_whitespace().collect();
        (rest.get(1) == Some(&own.as_str()) && rest.first() != Some(&"Z")).then_some(text)
    };
    std::fs::read_dir("/proc").unwrap().flatten().filter_map(|entry| of(entry.file_name())).collect()
}

struct Bench {
    _dir: tempfile::TempDir,
    root: PathBuf,
    tools: Vec<Arc<dyn Tool>>,
    env: ToolEnv,
}

/// Creates the files that exist before every call.
fn fill(root: &Path) {
    for dir in ["in", "out"] {
        let _ = std::fs::remove_dir_all(root.join(dir));
    }
    for (name, text) in
        [("in/f.txt", "text\nline\n"), ("in/sub/g.txt", "more text\n"), ("out/f.txt", "text\n")]
    {
        std::fs::create_dir_all(root.join(name).parent().unwrap()).unwrap();
        std::fs::write(root.join(name), text).unwrap();
    }
    std::os::unix::fs::symlink(root.join("out"), root.join("in/away")).unwrap();
}

fn know(env: &ToolEnv) {
    for name in ["f.txt", "sub/g.txt"] {
        let path = env.cwd.join(name);
        let bytes = std::fs::read(&path).unwrap();
        env.host.note_content(&path, &becket_tool::sha256(&bytes), bytes);
    }
}

fn bench() -> Bench {
    let dir = tempfile::tempdir().unwrap();
    let root = dir.path().canonicalize().unwrap();
    fill(&root);
    let (env, _) = env(&root.join("in"));
    know(&env);
    let path = vec![(OsString::from("PATH"), OsString::from("/usr/bin:/bin"))];
    let shell = Shell::new(ShellSettings::new(path.clone(), root.join("spill")));
    let mut tools = tools(&shell, SkillTool::new(Arc::new(Skills::discover(&[]))));
    tools.extend(crate::integrations::always(&Config::default(), Proxies::default()));
    let server = CustomServer {
        name: "cat".to_owned(),
        command: Some(vec!["/bin/cat".to_owned()]),
        extensions: vec!["zz".to_owned()],
        root_markers: vec!["f.txt".to_owned()],
        initialization_options: None,
    };
    let lsp = LspSettings { enabled: Some(true), servers: vec![server] };
    let hook = AfterEdit::new(Settings { env: path, lsp, ..Settings::default() });
    let lsp = hook.tool(PermissionMode::BypassPermissions, &env.roots).expect("the lsp tool is offered");
    tools.push(Arc::new(lsp));
    let search = WebSearch::new(SearchSettings {
        provider: Provider::Searxng,
        url: Some("http://127.0.0.1:1".to_owned()),
        key: None,
        proxies: Proxies::default(),
        limit: Some(Duration::from_secs(5)),
    });
    tools.push(Arc::new(search.unwrap()));
    Bench { _dir: dir, root, tools, env }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn bad_input_to_any_tool_is_named_and_does_nothing() {
    let bench = bench();
    let before = tree(&bench.root);
    let (mut wrong, mut count) = (Vec::new(), 0);
    let mut children_before = None;
    for tool in &bench.tools {
        let spec = tool.spec().clone();
        let base = in_order(&spec.name);
        let mut all = Vec::new();
        places(&spec.input_schema, "", &mut all);
        // Each case: the mistake, the input, and the name that the error must contain; `None` if the call may also do
        // no harm.
        let mut cases: Vec<(String, Value, Option<String>)> = Vec::new();
        for value in [json!(null), json!([]), json!(7), json!("text"), json!(true)] {
            cases.push((format!("{value} for the input"), value, Some(String::new())));
        }
        cases.push(("an unknown parameter".into(), merged(&base, "frobnicate"), Some("frobnicate".into())));
        for place in &all {
            let reached = base.pointer(place.pointer.rsplit_once('/').unwrap().0).is_some();
            assert!(reached, "{} {}: give it in the call that is in order", spec.name, place.pointer);
            let name = &place.name;
            if place.required {
                cases.push((format!("no {name}"), with(&base, place, None), Some(name.clone())));
                cases.push((
                    format!("null for {name}"),
                    with(&base, place, Some(&Value::Null)),
                    Some(name.clone()),
                ));
            }
            for value in not_of_type(&place.schema) {
                cases.push((
                    format!("{value} for {name}"),
                    with(&base, place, Some(&value)),
                    Some(name.clone()),
                ));
            }
            if FREE.contains(&format!("{}.{name}", spec.name).as_str()) {
                continue;
            }
            for value in extreme(&place.schema) {
                cases.push((format!("extreme {name}"), with(&base, place, Some(&value)), None));
            }
        }
        for (what, input, name) in cases {
            count += 1;
            let path = input["path"].as_str().map(str::to_owned);
            let shown = becket_types::cut_end(&input.to_string(), 200).to_owned();
            let said = tokio::time::timeout(Duration::from_secs(30), run(&**tool, &bench.env, input)).await;
            let fail = match (&said, &name) {
                (Err(_), _) => "not ended after 30 s".to_owned(),
                (Ok(output), Some(name)) if !output.is_error || !output.content.contains(name.as_str()) => {
                    format!("does not name it: {}", becket_types::cut_end(&output.content, 300))
                }
                (Ok(output), _) if output.content.trim().is_empty() => "says nothing".to_owned(),
                (Ok(output), _) if output.content.len() > 60_000 => format!("{} bytes", output.content.len()),
                _ => String::new(),
            };
            let now = tree(&bench.root);
            let only = |path: &&PathBuf| !path.starts_with(bench.root.join("spill"));
            let changed = now.iter().filter(|(path, _)| only(path)).ne(before.iter());
            // A call that names a file to write may write it, even with odd characters in the name, or at the path that
            // the text was understood as.
            let meant = |text: &str| {
                !text.chars().any(|c| c.is_control() || ['\u{202e}', '\u{feff}'].contains(&c))
                    || text.trim() == "f.txt"
            };
            let may = what == "extreme path"
                && ["edit", "multi_edit", "write"].contains(&spec.name.as_str())
                && said.as_ref().is_ok_and(|output| !output.is_error)
                && meant(path.as_deref().unwrap_or_default());
            if changed {
                fill(&bench.root);
                know(&bench.env);
            }
            if !fail.is_empty() || changed && !may {
                wrong.push(format!(
                    "{}, {what}, {shown}: {fail}{}",
                    spec.name,
                    if changed { " CHANGED" } else { "" }
                ));
            }
        }
        // The first command of `bash` also starts the process that watches over all commands.
        let now = children().len();
        if spec.name == "bash" {
            children_before = Some(now);
        }
    }
    assert!(wrong.is_empty(), "{} of {count}:\n{}", wrong.len(), wrong.join("\n"));
    assert!(count > 900, "{count}");
    for _ in 0..100 {
        if children_before.is_some_and(|before| children().len() <= before) {
            return;
        }
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    panic!("left running: {:?}", children());
}

fn merged(base: &Value, name: &str) -> Value {
    let mut input = base.clone();
    input[name] = json!(1);
    input
}

/// The permission rules judge paths outside of the workspace. So each tool must report such a path unchanged, however
/// it is written.
#[test]
fn a_path_outside_of_the_workspace_is_said_to_be_outside() {
    let bench = bench();
    for tool in &bench.tools {
        let spec = tool.spec();
        let mut all = Vec::new();
        places(&spec.input_schema, "", &mut all);
        let base = in_order(&spec.name);
        for place in all.iter().filter(|place| ["path", "workdir", "patch"].contains(&place.name.as_str())) {
            for outside in
                ["../out/f.txt", "sub/../../out/f.txt", "away/f.txt", "/etc/passwd", "./away/../f.txt"]
            {
                let value = match place.name.as_str() {
                    "patch" => {
                        format!("*** Begin Patch\n*** Update File: {outside}\n-text\n+other\n*** End Patch")
                    }
                    "workdir" => outside.trim_end_matches("/f.txt").to_owned(),
                    _ => outside.to_owned(),
                };
                let input = with(&base, place, Some(&json!(value)));
                match tool.access(&input, &bench.env) {
                    Err(why) => assert!(!why.is_empty()),
                    Ok(access) => assert!(
                        access.paths.iter().any(|path| !bench.env.is_inside(path)),
                        "{} {input}: {access:?}",
                        spec.name
                    ),
                }
            }
        }
    }
}
