//! The `lsp` tool: definition, references, hover, symbols, rename.
//!
//! A position is given as a file, a symbol, and a line that it is on or near, because models count lines well
//! and columns badly. A rename takes two calls (see `rename`).

use crate::pool::{Pool, Slot};
use crate::position::{self, Encoding, byte_of, line_at};
use crate::rename::{self, FileEdit};
use crate::replace::read_text;
use crate::server::{
    Definition, DocumentSymbol, Hover, References, Rename, Server, WorkspaceSymbol, path_of,
};
use async_lsp::lsp_types::Position;
use becket_tool::input::Parser;
use becket_tool::{Keep, Tool, ToolEnv, finish};
use becket_types::{Access, Effect, ToolOutput, ToolSpec, cut_end};
use futures::future::BoxFuture;
use serde::Deserialize;
use serde_json::{Value, json};
use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;
use tokio::time::Instant;
use url::Url;

/// Time limit of one call, including the start and loading of a server.
const LIMIT: Duration = Duration::from_mins(1);
/// Maximum number of listed positions or symbols.
const SHOWN: usize = 100;

#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
struct Input {
    action: String,
    path: Option<String>,
    line: Option<usize>,
    symbol: Option<String>,
    new_name: Option<String>,
    #[serde(default)]
    apply: bool,
}

/// The tool that queries the language servers of a session.
pub struct LspTool {
    spec: ToolSpec,
    pool: Arc<Pool>,
    /// The rename that was planned last, with the input that requested it.
    planned: Mutex<Option<(Input, Vec<FileEdit>)>>,
}

/// The result of a request. The error is a message for the model.
type Answer<T> = Result<T, String>;

impl LspTool {
    pub(crate) fn new(pool: Arc<Pool>) -> Self {
        let spec = ToolSpec {
            name: "lsp".to_owned(),
            description: "Asks the language server. symbols: of path, or in the project by symbol. The others need path, symbol, line. \
                rename plans; again with apply it changes files."
                .to_owned(),
            input_schema: json!({
                "type": "object",
                "properties": {
                    "action": {"type": "string", "enum": ["definition", "references", "hover", "symbols", "rename"]},
                    "path": {"type": "string"},
                    "symbol": {"type": "string"},
                    "line": {"type": "integer", "minimum": 1},
                    "new_name": {"type": "string"},
                    "apply": {"type": "boolean"}
                },
                "required": ["action"]
            }).into(),
        };
        Self { spec, pool, planned: Mutex::default() }
    }

    fn parse(&self, input: &Value) -> Answer<Input> {
        let aliases = [
            ("file_path", "path"),
            ("file", "path"),
            ("operation", "action"),
            ("query", "symbol"),
            ("name", "symbol"),
            ("newName", "new_name"),
        ];
        let parser =
            Parser::new(&self.spec).aliases(&aliases).ignore(&["column", "character", "description"]);
        let mut input: Input = parser.parse(input)?;
        let given = |text: &Option<String>| text.as_deref().is_some_and(|t| !t.trim().is_empty());
        let missing = match input.action.as_str() {
            "symbols" if !given(&input.path) && !given(&input.symbol) => Some("path or symbol"),
            "symbols" => None,
            _ if !given(&input.path) => Some("path"),
            _ if !given(&input.symbol) => Some("symbol, the name as it is written in the file"),
            "rename" if !given(&input.new_name) => Some("new_name"),
            _ => None,
        };
        if let Some(missing) = missing {
            return Err(format!("lsp {} needs {missing}.", input.action));
        }
        input.path = input.path.filter(|p| !p.trim().is_empty());
        Ok(input)
    }

    /// Returns the plan if it was made for exactly this rename.
    fn plan_of(&self, input: &Input) -> Option<Vec<FileEdit>> {
        let planned = self.planned.lock().unwrap_or_else(PoisonError::into_inner);
        let (asked, plan) = planned.as_ref()?;
        (Input { apply: true, ..asked.clone() } == *input && !plan.is_empty()).then(|| plan.clone())
    }

    async fn answer(&self, input: Input, env: &ToolEnv) -> Answer<ToolOutput> {
        if input.action == "rename"
            && input.apply
            && let Some(plan) = self.plan_of(&input)
        {
            let changes = rename::apply(&plan, env)?;
            *self.planned.lock().unwrap_or_else(PoisonError::into_inner) = None;
            let places: usize = plan.iter().map(|f| f.places).sum();
            let text = format!("Renamed in {} files, {places} places:{}", plan.len(), listed(&plan, env));
            let details = json!({"files": plan.iter().map(|f| f.path.to_string_lossy()).collect::<Vec<_>>(), "places": places});
            return Ok(ToolOutput { changes, details, ..ToolOutput::text(text) });
        }
        let deadline = Instant::now() + LIMIT;
        let Some(path) = input.path.as_deref() else {
            return self.project_symbols(input.symbol.as_deref().unwrap_or_default(), env, deadline).await;
        };
        let path = env.path(path)?;
        let text = read_text(&path)?;
        let slot = self.pool.slot(&path, &env.roots).ok_or_else(|| {
            format!("No language server for {} is installed or configured.", env.display(&path))
        })?;
        let server = self.ready(&slot, deadline).await?;
        server.send_text(&path, &text);
        let uri = Url::from_file_path(&path).map_err(|()| "This path has no address.".to_owned())?;
        let document = json!({"textDocument": {"uri": uri}});
        let say = |why: String| format!("{}: {why}.", server.name);
        if input.action == "symbols" {
            let found =
                patient(&server, deadline, || server.ask::<DocumentSymbol>(document.clone(), deadline)).await;
            return Ok(ToolOutput::text(outline(&found.map_err(say)?)));
        }
        let symbol = input.symbol.clone().unwrap_or_default();
        let symbol = symbol.trim();
        let byte = position::find_symbol(&text, symbol, input.line)
            .ok_or_else(|| format!("{} does not contain {:?}.", env.display(&path), cut_end(symbol, 200)))?;
        // Of a path such as `a::b` or `a.b`, the server is asked about the last name.
        let last = symbol.rfind(['.', ':', '>', '/']).map_or(0, |at| at + 1);
        let encoding = server.lock().encoding;
        let at = position::position_of(&text, byte + if last < symbol.len() { last } else { 0 }, encoding);
        let mut params = document;
        params["position"] = json!(at);
        match input.action.as_str() {
            "definition" => {
                let found =
                    patient(&server, deadline, || server.ask::<Definition>(params.clone(), deadline)).await;
                Ok(places(&found.map_err(say)?, "definition", encoding, env))
            }
            "references" => {
                params["context"] = json!({"includeDeclaration": true});
                let found =
                    patient(&server, deadline, || server.ask::<References>(params.clone(), deadline)).await;
                Ok(places(&found.map_err(say)?, "reference", encoding, env))
            }
            "hover" => {
                let found =
                    patient(&server, deadline, || server.ask::<Hover>(params.clone(), deadline)).await;
                let text = hover(found.map_err(say)?.get("contents").unwrap_or(&Value::Null));
                Ok(ToolOutput::text(if text.is_empty() {
                    "Nothing is known of it.".to_owned()
                } else {
                    text
                }))
            }
            _ => {
                let name = input.new_name.as_deref().unwrap_or_default();
                // Not every server checks the new name. If the old name is one word, the new one must be one
                // word too.
                if name.contains(char::is_whitespace) && !symbol.contains(char::is_whitespace) {
                    return Err(format!(
                        "{:?} is not one word, as {symbol:?} is; nothing was changed. Give a name without blanks.",
                        cut_end(name, 200)
                    ));
                }
                params["newName"] = json!(name);
                server.settled(deadline).await;
                let edit = server.ask::<Rename>(params, deadline).await.map_err(say)?;
                let plan =
                    rename::plan(&edit, encoding, env).map_err(|why| format!("Not renamed: {why}."))?;
                Ok(self.planned(input, plan, env))
            }
        }
    }

    fn planned(&self, input: Input, plan: Vec<FileEdit>, env: &ToolEnv) -> ToolOutput {
        if plan.is_empty() {
            return ToolOutput::error("The language server finds nothing to rename there.");
        }
        let places: usize = plan.iter().map(|f| f.places).sum();
        let text = format!(
            "Planned, nothing changed yet: {places} places in {} files. The same call with apply: true does it.{}",
            plan.len(),
            listed(&plan, env)
        );
        *self.planned.lock().unwrap_or_else(PoisonError::into_inner) = Some((input, plan));
        ToolOutput::text(text)
    }

    async fn project_symbols(&self, query: &str, env: &ToolEnv, deadline: Instant) -> Answer<ToolOutput> {
        let mut lines = Vec::new();
        let mut why = None;
        for slot in self.pool.slots_of_project(&env.roots) {
            let server = match self.ready(&slot, deadline).await {
                Ok(server) => server,
                Err(reason) => {
                    why = Some(reason);
                    continue;
                }
            };
            let ask = || server.ask::<WorkspaceSymbol>(json!({"query": query}), deadline);
            match patient(&server, deadline, ask).await {
                Ok(found) => {
                    lines.extend(found.as_array().into_iter().flatten().filter_map(|s| symbol_line(s, env)));
                }
                Err(reason) => why = Some(format!("{}: {reason}.", server.name)),
            }
        }
        match (lines.is_empty(), why) {
            (true, Some(why)) => Err(why),
            (true, None) => {
                Ok(ToolOutput::text(format!("No symbol matches {}.", becket_types::quoted(&query))))
            }
            _ => Ok(ToolOutput::text(capped(lines))),
        }
    }

    async fn ready(&self, slot: &Slot, deadline: Instant) -> Answer<Arc<Server>> {
        let name = &slot.spec.name;
        let (server, _) = self.pool.server(slot).map_err(|why| format!("{name} cannot be used: {why}."))?;
        match server.ready(deadline).await {
            Ok(true) => Ok(server),
            Ok(false) => Err(format!("{name} is still starting; try again later.")),
            Err(why) => Err(format!("{name} cannot be used: {why}.")),
        }
    }
}

impl Tool for LspTool {
    fn spec(&self) -> &ToolSpec {
        &self.spec
    }

    fn access(&self, input: &Value, env: &ToolEnv) -> Result<Access, String> {
        let input = self.parse(input)?;
        if input.action == "rename"
            && input.apply
            && let Some(plan) = self.plan_of(&input)
        {
            let paths = plan.into_iter().map(|f| f.path).collect();
            return Ok(Access { effect: Effect::Write, paths, subject: input.new_name, ..Access::session() });
        }
        match &input.path {
            Some(path) => Ok(Access::read(env.path(path)?)),
            None => Ok(Access::read(env.cwd.clone())),
        }
    }

    fn run<'a>(&'a self, input: Value, env: &'a ToolEnv) -> BoxFuture<'a, ToolOutput> {
        Box::pin(async move {
            let answer = async {
                let input = self.parse(&input)?;
                self.answer(input, env).await
            };
            let output = tokio::select! {
                answer = answer => answer.unwrap_or_else(ToolOutput::error),
                () = env.cancel.cancelled() => {
                    ToolOutput { interrupted: true, ..ToolOutput::error("Interrupted.") }
                }
            };
            finish(output, Keep::Head, env)
        })
    }
}

/// Sends a request, and repeats it once if a server that is still loading found nothing.
async fn patient<F: Future<Output = Answer<Value>>>(
    server: &Server,
    deadline: Instant,
    ask: impl Fn() -> F,
) -> Answer<Value> {
    let first = ask().await;
    let empty = match &first {
        Ok(Value::Null) | Err(_) => true,
        Ok(value) => value.as_array().is_some_and(Vec::is_empty),
    };
    if !empty || !server.is_busy() {
        return first;
    }
    server.settled(deadline).await;
    ask().await
}

fn listed(plan: &[FileEdit], env: &ToolEnv) -> String {
    let mut out = String::new();
    for file in plan.iter().take(SHOWN) {
        let (line, text) = &file.example;
        let (path, places) = (env.display(&file.path), file.places);
        let _ = write!(out, "\n{path}: {places}, first {line}: {}", cut_end(text, 120));
    }
    if plan.len() > SHOWN {
        let _ = write!(out, "\n… and {} more files", plan.len() - SHOWN);
    }
    out
}

fn capped(mut lines: Vec<String>) -> String {
    let left = lines.len().saturating_sub(SHOWN);
    lines.truncate(SHOWN);
    if left > 0 {
        lines.push(format!("… and {left} more"));
    }
    lines.join("\n")
}

/// Reads a location, or a link to one: the file and its start position.
fn location(value: &Value) -> Option<(PathBuf, Position)> {
    let uri = value.get("uri").or_else(|| value.get("targetUri"))?.as_str()?;
    let range = ["range", "targetSelectionRange", "targetRange"].iter().find_map(|key| value.get(*key))?;
    let number = |key: &str| u32::try_from(range.pointer(key)?.as_u64()?).ok();
    Some((path_of(uri)?, Position::new(number("/start/line")?, number("/start/character")?)))
}

fn places(found: &Value, what: &str, encoding: Encoding, env: &ToolEnv) -> ToolOutput {
    let single = [found.clone()];
    let list = found.as_array().map_or(&single[..], Vec::as_slice);
    let mut at: Vec<(PathBuf, Position)> = list.iter().filter_map(location).collect();
    at.sort();
    at.dedup();
    let total = at.len();
    if total == 0 {
        return ToolOutput::text(format!("No {what} found."));
    }
    let mut lines = Vec::new();
    let mut read: Option<(PathBuf, Option<String>)> = None;
    for (path, position) in at {
        if lines.len() >= SHOWN {
            lines.push(String::new()); // counted, not shown
            continue;
        }
        if read.as_ref().is_none_or(|(p, _)| *p != path) {
            // Files outside the session's roots are only named, because reading them needs permission.
            let text = env.is_inside(&path).then(|| read_text(&path).ok()).flatten();
            read = Some((path.clone(), text));
        }
        let text = read.as_ref().and_then(|(_, text)| text.as_deref());
        lines.push(place(&path, position, text, encoding, env));
    }
    let details = json!({"count": total});
    ToolOutput { details, ..ToolOutput::text(capped(lines)) }
}

fn place(path: &Path, at: Position, text: Option<&str>, encoding: Encoding, env: &ToolEnv) -> String {
    let line = u64::from(at.line) + 1;
    let Some(text) = text else { return format!("{}:{line}", env.display(path)) };
    let column = text[..byte_of(text, at, encoding)].rsplit('\n').next().map_or(0, |l| l.chars().count()) + 1;
    let shown = line_at(text, at.line as usize).map_or("", |(_, line)| line.trim());
    format!("{}:{line}:{column}: {}", env.display(path), cut_end(shown, 160))
}

const KINDS: [&str; 27] = [
    "",
    "file",
    "module",
    "namespace",
    "package",
    "class",
    "method",
    "property",
    "field",
    "constructor",
    "enum",
    "interface",
    "function",
    "variable",
    "constant",
    "string",
    "number",
    "boolean",
    "array",
    "object",
    "key",
    "null",
    "enum member",
    "struct",
    "event",
    "operator",
    "type parameter",
];

fn kind(symbol: &Value) -> &'static str {
    let number = symbol.get("kind").and_then(Value::as_u64).unwrap_or(0) as usize;
    KINDS.get(number).copied().unwrap_or_default()
}

/// Formats the symbols of a file as an indented list.
fn outline(found: &Value) -> String {
    fn add(symbols: &Value, depth: usize, out: &mut Vec<String>) {
        for symbol in symbols.as_array().into_iter().flatten() {
            let name = symbol.get("name").and_then(Value::as_str).unwrap_or_default();
            let at = ["/selectionRange/start/line", "/range/start/line", "/location/range/start/line"];
            let line = at.iter().find_map(|p| symbol.pointer(p)?.as_u64()).map_or(0, |n| n + 1);
            out.push(format!("{}{line}: {} {}", "  ".repeat(depth), kind(symbol), cut_end(name, 120)));
            if depth < 4 {
                add(symbol.get("children").unwrap_or(&Value::Null), depth + 1, out);
            }
        }
    }
    let mut lines = Vec::new();
    add(found, 0, &mut lines);
    if lines.is_empty() { "No symbols.".to_owned() } else { lines.join("\n") }
}

fn symbol_line(symbol: &Value, env: &ToolEnv) -> Option<String> {
    let location = symbol.get("location")?;
    let path = path_of(location.get("uri")?.as_str()?)?;
    let line = location.pointer("/range/start/line").and_then(Value::as_u64).map_or(0, |n| n + 1);
    let name = symbol.get("name")?.as_str()?;
    Some(format!("{}:{line}: {} {}", env.display(&path), kind(symbol), cut_end(name, 120)))
}

/// Reads hover contents: markup, marked strings, or a list of them.
fn hover(contents: &Value) -> String {
    match contents {
        Value::String(text) => text.trim().to_owned(),
        Value::Array(parts) => {
            let parts: Vec<String> = parts.iter().map(hover).filter(|p| !p.is_empty()).collect();
            parts.join("\n\n")
        }
        Value::Object(map) => {
            map.get("value").and_then(Value::as_str).map(|t| t.trim().to_owned()).unwrap_or_default()
        }
        _ => String::new(),
    }
}
