//! `becket mcp serve`: becket's own tools for other programs, over standard input and output, with the same guard.
//!
//! Nobody can be asked here. A call that needs a question is refused, with the rule that would allow it. Calls run one
//! after the other. Offers only the tools that work without a session: no subagents, no `todo`, no `recall`.

use crate::args::{Permissions, Run};
use crate::environment::Environment;
use crate::failure::Failure;
use crate::settings::RunSettings;
use crate::toolbox;
use base64::Engine as _;
use becket_guard::{Guard, Verdict};
use becket_print::ExitStatus;
use becket_tool::{Host, Registry, ToolEnv};
use becket_tool_skill::{SkillTool, Skills};
use becket_types::{BlobId, CallId, ImageSource, Part, ToolOutput};
use clap::Parser as _;
use serde_json::{Value, json};
use std::collections::HashMap;
use std::io::{BufRead as _, Write};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use tokio_util::sync::CancellationToken;

/// Supported versions of the protocol, the newest first.
const VERSIONS: &[&str] = &["2026-07-28", "2025-11-25", "2025-06-18", "2025-03-26", "2024-11-05"];
/// Tools that need a session, or another way to ask.
const SESSION_TOOLS: &[&str] = &["todo", "recall", "task", "skill"];

pub(crate) fn run(
    environment: &Environment,
    permissions: &Permissions,
    out: &mut dyn Write,
) -> Result<ExitStatus, Failure> {
    let mut run = Run::try_parse_from(["becket", "-p"]).map_err(|e| Failure::error(e.to_string()))?;
    run.permissions = permissions.clone();
    let run = RunSettings::new(run, environment)?;
    let runtime = crate::runtime()?;
    let inside = runtime.enter();
    let server = Server::new(environment, &run)?;
    drop(inside);
    for line in std::io::stdin().lock().lines() {
        let Ok(line) = line else { break };
        if line.trim().is_empty() {
            continue;
        }
        let answer = match becket_types::parse_json::<Value>(&line) {
            Ok(message) => runtime.block_on(server.answer(&message)),
            Err(e) => Some(error(&Value::Null, -32700, &format!("no JSON: {e}"))),
        };
        if let Some(answer) = answer {
            let written = writeln!(out, "{answer}").and_then(|()| out.flush());
            if written.is_err() {
                break;
            }
        }
    }
    runtime.block_on(server.shell.end_jobs());
    Ok(ExitStatus::Ok)
}

struct Server {
    tools: Registry,
    guard: Guard,
    shell: Arc<becket_tool_shell::Shell>,
    host: Arc<MemoryHost>,
    calls: AtomicU64,
    cwd: PathBuf,
    roots: Arc<[PathBuf]>,
}

fn error(id: &Value, code: i32, message: &str) -> Value {
    json!({"jsonrpc": "2.0", "id": id, "error": {"code": code, "message": message}})
}

impl Server {
    fn new(environment: &Environment, run: &RunSettings) -> Result<Self, Failure> {
        let config = &run.settings.config;
        let sandbox = crate::sandbox::sandbox(environment, config, &run.project.roots).map(Arc::new);
        let guard = crate::guard::guard(environment, run)?
            .with_sandbox(crate::sandbox::rules(&config.tools.sandbox, sandbox.as_ref()));
        let programs = crate::sandbox::programs(
            environment,
            &config.tools.sandbox,
            sandbox.as_ref(),
            &run.project.roots,
        );
        let shell = toolbox::shell(environment, config, None, sandbox);
        let integrations = crate::integrations::build(environment, config, &run.project.roots, programs);
        let skill = SkillTool::new(Arc::new(Skills::discover(&[])));
        let (mut tools, _) = toolbox::registry(config, skill, &shell, "", integrations.tools, false)?;
        let removed = guard.removed_tools(&tools.all_names());
        tools.retain(|name| !SESSION_TOOLS.contains(&name) && !removed.iter().any(|r| r == name));
        let host = Arc::new(MemoryHost::default());
        Ok(Self {
            tools,
            guard,
            shell,
            host,
            calls: AtomicU64::new(0),
            cwd: run.project.cwd.clone(),
            roots: run.project.roots.as_slice().into(),
        })
    }

    /// Returns the answer to a message; `None` for a notification.
    async fn answer(&self, message: &Value) -> Option<Value> {
        let id = message.get("id")?;
        let method = message.get("method").and_then(Value::as_str)?;
        let params = message.get("params").cloned().unwrap_or(Value::Null);
        let result = match method {
            "initialize" => self.introduction(&params),
            "server/discover" => json!({
                "resultType": "complete", "supportedVersions": VERSIONS, "capabilities": {"tools": {}},
                "serverInfo": {"name": "becket", "version": env!("CARGO_PKG_VERSION")}, "ttlMs": 0, "cacheScope": "private",
            }),
            "ping" => json!({}),
            "tools/list" => {
                let tool = |spec: becket_types::ToolSpec| json!({"name": spec.name, "description": spec.description, "inputSchema": spec.input_schema});
                let tools: Vec<Value> = self.tools.specs().into_iter().map(tool).collect();
                json!({"resultType": "complete", "tools": tools, "ttlMs": 0, "cacheScope": "private"})
            }
            "tools/call" => {
                let name = params.get("name").and_then(Value::as_str).unwrap_or_default();
                let input = params.get("arguments").cloned().unwrap_or_else(|| json!({}));
                self.output_json(self.call(name, input).await)
            }
            other => return Some(error(id, -32601, &format!("becket has no method {other}"))),
        };
        Some(json!({"jsonrpc": "2.0", "id": id, "result": result}))
    }

    fn introduction(&self, params: &Value) -> Value {
        let asked = params.get("protocolVersion").and_then(Value::as_str).unwrap_or_default();
        // The newest version has no `initialize`.
        let known = VERSIONS[1..].iter().find(|version| **version == asked).unwrap_or(&VERSIONS[1]);
        json!({
            "protocolVersion": known, "capabilities": {"tools": {}},
            "serverInfo": {"name": "becket", "version": env!("CARGO_PKG_VERSION")},
            "instructions": format!("Tools of becket in {}. Calls that no permission rule allows are refused.", self.cwd.display()),
        })
    }

    async fn call(&self, name: &str, input: Value) -> ToolOutput {
        let Some(tool) = self.tools.get(name) else { return ToolOutput::error(self.tools.unknown(name)) };
        let number = self.calls.fetch_add(1, Ordering::Relaxed);
        let mut env = ToolEnv {
            cwd: self.cwd.clone(),
            roots: Arc::clone(&self.roots),
            call_id: CallId(format!("served-{number}")),
            cancel: CancellationToken::new(),
            progress: Arc::new(|_: &str| {}),
            host: Arc::clone(&self.host) as Arc<dyn Host>,
            may_read: Arc::new(|_: &Path| false),
            variables: &[],
            sandbox: becket_types::SandboxLevel::Off,
            judged: None,
        };
        let access = match tool.access(&input, &env) {
            Ok(access) => access,
            Err(why) => return ToolOutput::error(why),
        };
        env.judged = Some(access.paths.as_slice().into());
        let judged = self.guard.explain(&tool.spec().name, &access, &input);
        let refused = match judged.verdict {
            Verdict::Allow { .. } => None,
            Verdict::Deny { reason, .. } => Some(reason),
            Verdict::Ask { reason, rule } => {
                let how = rule.as_deref().map(becket_guard::how_to_allow).unwrap_or_default();
                Some(format!("{reason}{how} (there is no user to ask here)"))
            }
        };
        if let Some(reason) = refused {
            return ToolOutput::error(format!("Permission denied, not run: {reason}."));
        }
        (env.variables, env.sandbox) = (judged.variables, judged.level);
        env.may_read = Arc::new(self.guard.may_read(&tool.spec().name, &access, &input));
        tool.run(input, &env).await
    }

    fn output_json(&self, output: ToolOutput) -> Value {
        let mut content = vec![json!({"type": "text", "text": output.content})];
        for image in output.images {
            if let Part::Image { media_type, source: ImageSource::Blob(blob), .. } = image
                && let Some(bytes) = self.host.get_blob(&blob)
            {
                let data = base64::engine::general_purpose::STANDARD.encode(bytes);
                content.push(json!({"type": "image", "data": data, "mimeType": media_type}));
            }
        }
        json!({"resultType": "complete", "content": content, "isError": output.is_error})
    }
}

/// State that tools keep between calls. It is lost when the process ends.
#[derive(Default)]
struct MemoryHost(Mutex<HostState>);

#[derive(Default)]
struct HostState {
    blobs: HashMap<String, Vec<u8>>,
    reads: HashMap<PathBuf, String>,
    states: HashMap<String, Value>,
}

impl MemoryHost {
    fn lock_state(&self) -> MutexGuard<'_, HostState> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Host for MemoryHost {
    fn put_blob(&self, bytes: &[u8]) -> Result<BlobId, String> {
        let id = becket_tool::sha256(bytes);
        self.lock_state().blobs.insert(id.clone(), bytes.to_vec());
        Ok(BlobId(id))
    }
    fn get_blob(&self, id: &BlobId) -> Option<Vec<u8>> {
        self.lock_state().blobs.get(id.as_str()).cloned()
    }
    fn note_read(&self, path: &Path, sha256: &str) {
        self.lock_state().reads.insert(path.to_owned(), sha256.to_owned());
    }
    fn read_hash(&self, path: &Path) -> Option<String> {
        self.lock_state().reads.get(path).cloned()
    }
    fn state(&self, key: &str) -> Option<Value> {
        self.lock_state().states.get(key).cloned()
    }
    fn set_state(&self, key: &str, value: Value) {
        self.lock_state().states.insert(key.to_owned(), value);
    }
    fn original_output(&self, _: &CallId) -> Option<(String, String)> {
        None
    }
}
