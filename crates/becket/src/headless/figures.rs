//! Owns the figures of a session for a program that drives becket, and its pending request to rewind files.

use becket_types::Event;
use serde_json::{Value, json};

/// `(used, usable, window, tokens by kind)`.
type ContextFigures = (u64, u64, u64, Vec<(String, u64)>);

/// Figures of the session, for requests about it.
#[derive(Debug, Default)]
pub(super) struct Figures {
    /// Sizes of the last request, in tokens.
    context: Option<ContextFigures>,
    pub cost: f64,
    pub duration_ms: u64,
    pub api_ms: u64,
}

/// A `rewind_files` request that is being carried out.
#[derive(Debug)]
pub(super) struct Rewinding {
    pub request_id: String,
    pub dry_run: bool,
    pub plan: Option<Value>,
}

impl Figures {
    pub(super) fn saw(&mut self, event: &Event) {
        match event {
            Event::ContextUsed { used, usable, window, kinds, .. } => {
                let kinds = kinds.iter().map(|(kind, tokens)| (kind_name(*kind), tokens.0)).collect();
                self.context = Some((used.0, usable.0, window.0, kinds));
            }
            Event::TurnFinished(result) => {
                self.cost += result.cost.0;
                self.duration_ms += result.duration.0;
                self.api_ms += result.api_duration.0;
            }
            _ => {}
        }
    }

    pub(super) fn context_usage(&self, model: &str) -> Value {
        let Some((used, usable, window, kinds)) = &self.context else {
            return json!({
                "categories": [], "totalTokens": 0, "maxTokens": 0, "rawMaxTokens": 0, "percentage": 0,
                "gridRows": [], "model": model, "memoryFiles": [], "mcpTools": [], "agents": [],
            });
        };
        let mut categories: Vec<Value> = kinds
            .iter()
            .map(|(name, tokens)| json!({ "name": name, "tokens": tokens, "color": "", "kind": "used" }))
            .collect();
        categories.push(json!({
            "id": "free_space", "name": "Free space", "tokens": usable.saturating_sub(*used), "color": "",
            "kind": "free",
        }));
        json!({
            "categories": categories, "totalTokens": used, "maxTokens": usable, "rawMaxTokens": window,
            "percentage": used * 100 / (*usable).max(1), "gridRows": [], "model": model, "memoryFiles": [],
            "mcpTools": [], "agents": [],
        })
    }
}

fn kind_name(kind: becket_types::SpanKind) -> String {
    serde_json::to_value(kind).ok().and_then(|name| name.as_str().map(str::to_owned)).unwrap_or_default()
}
