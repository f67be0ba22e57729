//! Owns the figures of a session for a program that drives becket, and its pending request to rewind files.

use crate::assemble::Opening;
use becket_session::context::budget::estimate_text;
use becket_session::context::compaction::Floor;
use becket_session::context::scale::ContextScale;
use becket_types::{Event, ModelUsage, Part, SystemItem, Tokens, Usage};
use serde_json::{Map, Value, json};
use std::collections::BTreeMap;
use std::fmt::Write as _;

/// `(used, usable, window, by kind)`, all in tokens. `usable` is the part of the window that a request may fill.
type ContextFigures = (u64, u64, u64, Vec<(String, u64)>);

/// Figures of the session, for requests about it.
#[derive(Debug, Default)]
pub(super) struct Figures {
    /// Sizes of the last request, in tokens.
    context: Option<ContextFigures>,
    pub cost: f64,
    pub duration_ms: u64,
    pub api_ms: u64,
    /// Numbers of lines that edits have added and removed.
    lines: (u64, u64),
    /// Usage and cost of each model.
    models: BTreeMap<String, ModelUsage>,
}

/// A `rewind_files` request that is being carried out.
#[derive(Debug)]
pub(super) struct Rewinding {
    pub request_id: String,
    pub dry_run: bool,
    pub plan: Option<Value>,
}

impl Figures {
    pub(super) fn observe(&mut self, event: &Event) {
        match event {
            Event::ContextUsed { used, usable, window, kinds, .. } => {
                let kinds = kinds.iter().map(|(kind, tokens)| (kind_name(*kind), tokens.0)).collect();
                self.context = Some((used.0, usable.0, window.0, kinds));
            }
            Event::TurnFinished(result) => {
                self.cost += result.cost.0;
                self.duration_ms += result.duration.0;
                self.api_ms += result.api_duration.0;
                for model in &result.models {
                    self.add(model);
                }
            }
            Event::ToolFinished { message, .. } => {
                for part in &message.parts {
                    let Part::ToolResult { details, .. } = part else { continue };
                    let diff = details.get("diff").and_then(Value::as_str).unwrap_or_default();
                    let (more, less) = changed_lines(diff);
                    self.lines = (self.lines.0 + more, self.lines.1 + less);
                }
            }
            _ => {}
        }
    }

    fn add(&mut self, more: &ModelUsage) {
        let known = self.models.entry(more.model.clone()).or_insert_with(|| ModelUsage {
            usage: Usage::default(),
            cost: becket_types::Cost(0.0),
            ..more.clone()
        });
        known.usage += more.usage;
        known.cost.0 += more.cost.0;
    }

    /// Returns cost and usage in words.
    pub(super) fn cost_text(&self) -> String {
        let mut out = format!(
            "Total cost: ${:.4}\nTime: {:.1} s in turns, {:.1} s of it in requests\nLines: {} added, {} removed",
            self.cost,
            self.duration_ms as f64 / 1000.0,
            self.api_ms as f64 / 1000.0,
            self.lines.0,
            self.lines.1
        );
        for (name, model) in &self.models {
            let usage = &model.usage;
            let _ = write!(
                out,
                "\n{name}: {} input, {} output, {} cache read, {} cache write (${:.4})",
                usage.input, usage.output, usage.cache_read, usage.cache_write, model.cost.0
            );
        }
        out
    }

    /// Returns the answer to `get_usage`.
    pub(super) fn usage(&self) -> Value {
        let models = self.models.iter().map(|(name, model)| {
            let name = name.strip_prefix("anthropic/").unwrap_or(name).to_owned();
            let usage = json!({
                "inputTokens": model.usage.input, "outputTokens": model.usage.output,
                "cacheReadInputTokens": model.usage.cache_read, "cacheCreationInputTokens": model.usage.cache_write,
                "webSearchRequests": 0, "costUSD": model.cost.0, "contextWindow": model.context_window,
                "maxOutputTokens": model.max_output,
            });
            (name, usage)
        });
        json!({
            "session": {
                "total_cost_usd": self.cost, "total_duration_ms": self.duration_ms,
                "total_api_duration_ms": self.api_ms, "total_lines_added": self.lines.0,
                "total_lines_removed": self.lines.1, "model_usage": models.collect::<Map<String, Value>>(),
            },
            "subscription_type": null, "rate_limits_available": false, "rate_limits": null, "behaviors": null,
        })
    }

    /// Returns the answer to `get_context_usage`. Before the first request, sizes are estimated from what it will contain.
    /// Blocks: rules files are read.
    pub(super) fn context_usage(&self, model: &str, opening: &Opening) -> Value {
        let items = opening.items();
        let (used, usable, window, kinds) =
            &self.context.clone().unwrap_or_else(|| estimate_first_request(&items, opening));
        let of_kind =
            |name: &str| kinds.iter().find(|(kind, _)| kind == name).map_or(Tokens(0), |(_, n)| Tokens(*n));
        let mut categories: Vec<Value> = kinds
            .iter()
            .filter(|(_, tokens)| *tokens > 0)
            .map(|(name, tokens)| {
                // Kinds that the SDK also has get the SDK's ids.
                let id = match name.as_str() {
                    "system" => "system_prompt",
                    "tools" => "system_tools",
                    "rules" => "memory_files",
                    other => other,
                };
                json!({ "id": id, "name": name, "tokens": tokens, "color": "", "kind": "used" })
            })
            .collect();
        categories.push(json!({
            "id": "free_space", "name": "Free space", "tokens": usable.saturating_sub(*used), "color": "",
            "kind": "free",
        }));
        json!({
            "categories": categories, "totalTokens": used, "maxTokens": usable, "rawMaxTokens": window,
            "percentage": used * 100 / (*usable).max(1), "gridRows": [], "model": model,
            "memoryFiles": memory_files(&items, of_kind("rules")), "mcpTools": mcp_tools(opening, of_kind("tools")),
            "agents": [],
        })
    }
}

/// Estimates the sizes of a session's first request.
fn estimate_first_request(items: &[SystemItem], opening: &Opening) -> ContextFigures {
    let Floor { system, rules, skills, tools } = Floor::measure(items, &opening.tools);
    let kinds = [("system", system + skills), ("rules", rules), ("tools", tools)];
    let used = kinds.iter().map(|(_, tokens)| tokens.0).sum();
    let kinds = kinds.map(|(name, tokens)| (name.to_owned(), tokens.0)).to_vec();
    (used, opening.usable, opening.window, kinds)
}

/// Returns the rules files with their sizes, which add up to `all`.
fn memory_files(items: &[SystemItem], all: Tokens) -> Vec<Value> {
    let scale = ContextScale::new(all, Floor::measure(items, &[]).rules);
    let files = items.iter().filter_map(|item| Some((item.path.as_ref()?, &item.text)));
    files
        .map(|(path, text)| {
            let tokens = scale.scaled(estimate_text(text));
            json!({ "path": path.to_string_lossy(), "type": "Project", "tokens": tokens })
        })
        .collect()
}

/// Returns the tools of MCP servers with their sizes. `all`: the size of all tools, of which each has its share.
fn mcp_tools(opening: &Opening, all: Tokens) -> Vec<Value> {
    let scale = ContextScale::new(all, Floor::measure(&[], &opening.tools).tools);
    let split = |tool: &becket_types::ToolSpec| {
        let (server, _) = tool.name.strip_prefix("mcp__")?.split_once("__")?;
        let tokens = scale.scaled(Floor::measure(&[], std::slice::from_ref(tool)).tools);
        Some(json!({ "name": tool.name, "serverName": server, "tokens": tokens, "isLoaded": true }))
    };
    opening.tools.iter().filter_map(split).collect()
}

/// Returns the numbers of lines that a diff adds and removes.
fn changed_lines(diff: &str) -> (u64, u64) {
    let count = |sign: char, head: &str| {
        diff.lines().filter(|line| line.starts_with(sign) && !line.starts_with(head)).count() as u64
    };
    (count('+', "+++ "), count('-', "--- "))
}

fn kind_name(kind: becket_types::SpanKind) -> String {
    serde_json::to_value(kind).ok().and_then(|name| name.as_str().map(str::to_owned)).unwrap_or_default()
}
