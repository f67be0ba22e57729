//! The tools of a session, by name.
//!
//! Owns order and lookup. Tools are sorted by name, regardless of the order in which they were added. Sessions with the same tools
//! therefore send the same bytes of specifications, which the provider's cache depends on. Lookup ignores case and knows the names
//! of other agents: models that learned `Read` or `TodoWrite` find `read` and `todo`. A tool may be registered without being
//! offered: its specification is not sent, but a model that knows its name can still call it. Runs nothing and decides nothing.

use crate::Tool;
use becket_types::ToolSpec;
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// Tools, sorted by name.
#[derive(Clone, Default)]
pub struct Registry {
    tools: BTreeMap<String, Arc<dyn Tool>>,
    /// Names of registered tools whose specification is not sent to the model.
    quiet: BTreeSet<String>,
    /// True if specifications are sent in a short form.
    brief: bool,
    /// Masks secrets in the texts that are sent.
    mask: Option<Mask>,
}

/// Returns the text with its secrets masked; `None` if it has none.
pub type Mask = fn(&str) -> Option<String>;

/// The reason why a tool was not added.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum RegistryError {
    #[error("tool name {0:?} is not of the form [a-zA-Z0-9_-]{{1,64}}")]
    BadName(String),
    #[error("there is a tool named {0:?} already")]
    Duplicate(String),
    #[error("the input schema of {0:?} is not an object schema")]
    BadSchema(String),
}

impl Registry {
    /// Makes a registry without tools.
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds a tool under the name in its specification.
    ///
    /// # Errors
    ///
    /// Fails if the name is invalid or taken, or if the input schema is not an object schema.
    pub fn add(&mut self, tool: Arc<dyn Tool>) -> Result<(), RegistryError> {
        let spec = tool.spec();
        let name = spec.name.clone();
        let plain = |b: u8| b.is_ascii_alphanumeric() || b == b'_' || b == b'-';
        if name.is_empty() || name.len() > 64 || !name.bytes().all(plain) {
            return Err(RegistryError::BadName(name));
        }
        if spec.input_schema.get("type").and_then(|t| t.as_str()) != Some("object") {
            return Err(RegistryError::BadSchema(name));
        }
        if self.tools.contains_key(&name) {
            return Err(RegistryError::Duplicate(name));
        }
        self.tools.insert(name, tool);
        Ok(())
    }

    /// Finds a tool by its name, or by the name that other agents use. Case and surrounding white space are
    /// ignored.
    pub fn get(&self, name: &str) -> Option<&Arc<dyn Tool>> {
        if let Some(tool) = self.tools.get(name) {
            return Some(tool);
        }
        let name = name.trim();
        let own = becket_types::sdk_names::own_name(name);
        let found =
            self.tools.get(own.as_ref()).or_else(|| self.tools.get(name.to_ascii_lowercase().as_str()));
        if found.is_some() || !name.get(..5).is_some_and(|start| start.eq_ignore_ascii_case("mcp__")) {
            return found;
        }
        // Names of servers' tools may have capital letters, so they are compared without regard to case.
        self.tools.iter().find(|(known, _)| known.eq_ignore_ascii_case(name)).map(|(_, tool)| tool)
    }

    /// Adds a tool that can be called, but is not offered to the model.
    ///
    /// # Errors
    ///
    /// Fails like [`Registry::add`].
    pub fn add_quiet(&mut self, tool: Arc<dyn Tool>) -> Result<(), RegistryError> {
        let name = tool.spec().name.clone();
        self.add(tool)?;
        self.quiet.insert(name);
        Ok(())
    }

    /// Removes all tools whose name does not pass the test.
    pub fn retain(&mut self, mut keep: impl FnMut(&str) -> bool) {
        self.tools.retain(|name, _| keep(name));
    }

    /// Replaces each tool by what `make` returns for its name and the tool. The names stay.
    pub fn wrap(&mut self, mut make: impl FnMut(&str, Arc<dyn Tool>) -> Arc<dyn Tool>) {
        for (name, tool) in &mut self.tools {
            *tool = make(name, Arc::clone(tool));
        }
    }

    /// Offers only the tools whose name passes the test. [`Registry::get`] still finds the others.
    pub fn offer(&mut self, mut pass: impl FnMut(&str) -> bool) {
        self.quiet = self.tools.keys().filter(|name| !pass(name)).cloned().collect();
    }

    /// Sends specifications in a short form, with only the first sentence of each description. For models with a small window.
    pub fn shorten(&mut self) {
        self.brief = true;
    }

    /// Masks secrets in the descriptions and schemas that are sent. Tools of MCP servers have texts that becket did not write.
    pub fn mask_with(&mut self, mask: Mask) {
        self.mask = Some(mask);
    }

    fn spec_of(&self, tool: &Arc<dyn Tool>) -> ToolSpec {
        let mut spec = if self.brief { shortened(tool.spec()) } else { tool.spec().clone() };
        // Every specification that is sent passes here, so texts that servers wrote are cleaned here.
        let safe = |text: &str| safe_text(text, self.mask);
        if let Some(description) = safe(&spec.description) {
            spec.description = description;
        }
        if has_unsafe_text(&spec.input_schema, &safe) {
            make_safe(Arc::make_mut(&mut spec.input_schema), &safe);
        }
        spec
    }

    fn offered(&self) -> impl Iterator<Item = (&String, &Arc<dyn Tool>)> {
        self.tools.iter().filter(|(name, _)| !self.quiet.contains(*name))
    }

    /// Returns the sorted names of the offered tools.
    pub fn names(&self) -> Vec<String> {
        self.offered().map(|(name, _)| name.clone()).collect()
    }

    /// Returns the sorted names of all tools.
    pub fn all_names(&self) -> Vec<String> {
        self.tools.keys().cloned().collect()
    }

    /// Returns the sorted names of the tools whose outputs are never pruned.
    pub fn protected(&self) -> Vec<String> {
        self.tools.iter().filter(|(_, t)| t.protected()).map(|(n, _)| n.clone()).collect()
    }

    /// Returns the specifications for the model, sorted by name.
    pub fn specs(&self) -> Vec<ToolSpec> {
        self.offered().map(|(_, tool)| self.spec_of(tool)).collect()
    }

    /// Returns the hex SHA-256 of [`Registry::specs`] as lines of JSON, one for each tool. Two registries have the
    /// same hash exactly if they send the same specifications.
    pub fn hash(&self) -> String {
        crate::sha256(&self.lines())
    }

    /// Returns [`Registry::specs`] as a JSON array, and [`Registry::hash`], which is not the hash of that array.
    pub fn definitions(&self) -> (Vec<u8>, String) {
        let lines = self.lines();
        let hash = crate::sha256(&lines);
        // JSON escapes a line break inside a text, so each line break here ends a specification.
        let mut array = Vec::with_capacity(lines.len() + 2);
        array.push(b'[');
        array.extend(lines.iter().map(|byte| if *byte == b'\n' { b',' } else { *byte }));
        array.pop_if(|last| *last == b',');
        array.push(b']');
        (array, hash)
    }

    /// One line of JSON for each offered tool.
    fn lines(&self) -> Vec<u8> {
        let mut bytes = Vec::with_capacity(16 * 1024);
        for (_, tool) in self.offered() {
            // The specification is plain data with string keys, so writing it to memory cannot fail.
            let _ = serde_json::to_writer(&mut bytes, &self.spec_of(tool));
            bytes.push(b'\n');
        }
        bytes
    }

    /// Returns the message for a model that called a tool which does not exist.
    pub fn unknown(&self, name: &str) -> String {
        let near = crate::text::nearest(name, self.offered().map(|(name, _)| name.as_str()))
            .map_or(String::new(), |n| format!(" Did you mean `{n}`?"));
        format!("There is no tool named `{name}`.{near} Tools: {}.", self.names().join(", "))
    }

    /// Returns the number of tools, whether they are offered or only found by a search.
    pub fn len(&self) -> usize {
        self.tools.len()
    }

    /// True if there is no tool at all.
    pub fn is_empty(&self) -> bool {
        self.tools.is_empty()
    }
}

/// Returns the text with invisible characters written out and secrets masked; `None` if it has neither.
fn safe_text(text: &str, mask: Option<Mask>) -> Option<String> {
    let cleaned = match crate::text::clean(text) {
        std::borrow::Cow::Owned(cleaned) => Some(cleaned),
        std::borrow::Cow::Borrowed(_) => None,
    };
    let masked = mask.and_then(|mask| mask(cleaned.as_deref().unwrap_or(text)));
    masked.or(cleaned)
}

/// True if a text in a schema has invisible characters or secrets, so that [`make_safe`] would change the schema.
fn has_unsafe_text(value: &Value, safe: &dyn Fn(&str) -> Option<String>) -> bool {
    match value {
        Value::String(text) => safe(text).is_some(),
        Value::Array(items) => items.iter().any(|item| has_unsafe_text(item, safe)),
        Value::Object(fields) => {
            fields.iter().any(|(key, item)| safe(key).is_some() || has_unsafe_text(item, safe))
        }
        Value::Null | Value::Bool(_) | Value::Number(_) => false,
    }
}

fn make_safe(value: &mut Value, safe: &dyn Fn(&str) -> Option<String>) {
    match value {
        Value::String(text) => {
            if let Some(new) = safe(text) {
                *text = new;
            }
        }
        Value::Array(items) => items.iter_mut().for_each(|item| make_safe(item, safe)),
        Value::Object(fields) => {
            let old = std::mem::take(fields);
            for (key, mut item) in old {
                make_safe(&mut item, safe);
                let _ = fields.insert(safe(&key).unwrap_or(key), item);
            }
        }
        Value::Null | Value::Bool(_) | Value::Number(_) => {}
    }
}

/// Longest description in the short form of a specification, in bytes.
const BRIEF: usize = 160;

fn shortened(spec: &ToolSpec) -> ToolSpec {
    let mut schema = Value::clone(&spec.input_schema);
    shorten_schema(&mut schema);
    let description = first_sentence(&spec.description);
    ToolSpec { name: spec.name.clone(), description, input_schema: schema.into() }
}

/// Shortens the descriptions of a schema. A property may have the name `description`, too: its value is an object and not a text.
fn shorten_schema(schema: &mut Value) {
    match schema {
        Value::Object(fields) => {
            for (key, value) in fields {
                match value {
                    Value::String(text) if key == "description" => *text = first_sentence(text),
                    other => shorten_schema(other),
                }
            }
        }
        Value::Array(items) => items.iter_mut().for_each(shorten_schema),
        _ => {}
    }
}

fn first_sentence(text: &str) -> String {
    let text = text.trim();
    let line = text.lines().next().unwrap_or_default();
    let end = line.find(". ").map_or(line.len(), |at| at + 1);
    becket_types::cut_end(&line[..end], BRIEF).to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ToolEnv;
    use becket_types::{Access, ToolOutput};
    use futures::future::BoxFuture;
    use serde_json::json;

    struct Named(ToolSpec, bool);

    impl Tool for Named {
        fn spec(&self) -> &ToolSpec {
            &self.0
        }
        fn access(&self, _: &Value, _: &ToolEnv) -> Result<Access, String> {
            Ok(Access::session())
        }
        fn run<'a>(&'a self, _: Value, _: &'a ToolEnv) -> BoxFuture<'a, ToolOutput> {
            Box::pin(async { ToolOutput::default() })
        }
        fn protected(&self) -> bool {
            self.1
        }
    }

    fn named(name: &str) -> Arc<dyn Tool> {
        let schema = json!({"type": "object", "properties": {}});
        Arc::new(Named(
            ToolSpec { name: name.into(), description: String::new(), input_schema: schema.into() },
            name == "skill",
        ))
    }

    fn registry(names: &[&str]) -> Registry {
        let mut registry = Registry::new();
        for name in names {
            registry.add(named(name)).unwrap();
        }
        registry
    }

    #[test]
    fn texts_of_specifications_are_shown_whole_and_without_secrets() {
        let schema = json!({"type": "object", "properties": {
            "a\u{200B}b": {"type": "string", "description": "x\u{202E}y", "enum": ["plain", "KEY1"]},
        }});
        let spec = ToolSpec {
            name: "t".into(),
            description: "say KEY1 \u{E0041}".into(),
            input_schema: schema.into(),
        };
        let mut registry = registry(&["bash"]);
        registry.add(Arc::new(Named(spec, false))).unwrap();
        registry.mask_with(|text| text.contains("KEY1").then(|| text.replace("KEY1", "‹masked›")));
        let specs = registry.specs();
        assert_eq!(specs[1].description, "say ‹masked› <U+E0041>");
        assert_eq!(
            *specs[1].input_schema,
            json!({"type": "object", "properties": {
                "a<U+200B>b": {"type": "string", "description": "x<U+202E>y", "enum": ["plain", "‹masked›"]},
            }})
        );
        assert_eq!(registry.definitions(), (serde_json::to_vec(&specs).unwrap(), registry.hash()));
        assert_eq!(specs[0], *named("bash").spec());
    }

    #[test]
    fn order_and_hash_do_not_depend_on_the_order_of_adding() {
        let a = registry(&["write", "bash", "read"]);
        let b = registry(&["read", "write", "bash"]);
        assert_eq!(a.names(), ["bash", "read", "write"]);
        assert_eq!((a.specs(), a.hash()), (b.specs(), b.hash()));
        for registry in [&a, &registry(&[])] {
            let array = serde_json::to_vec(&registry.specs()).unwrap();
            assert_eq!(registry.definitions(), (array, registry.hash()));
        }
        assert_ne!(a.hash(), registry(&["read", "write"]).hash());
    }

    #[test]
    fn lookup_ignores_case_and_unknown_names_get_a_hint() {
        let r = registry(&["bash", "read", "skill", "todo"]);
        assert!(r.get("TodoWrite").is_some());
        for (asked, found) in [("read", true), ("Read", true), (" BASH ", true), ("reed", false), ("", false)]
        {
            assert_eq!(r.get(asked).is_some(), found, "{asked:?}");
        }
        assert_eq!(
            r.unknown("raed"),
            "There is no tool named `raed`. Did you mean `read`? Tools: bash, read, skill, todo."
        );
        assert_eq!(r.protected(), ["skill"]);
    }

    #[test]
    fn what_is_not_offered_is_found_and_not_told_of() {
        let mut r = registry(&["apply_patch", "edit", "read"]);
        r.offer(|name| name != "edit");
        assert_eq!(r.names(), ["apply_patch", "read"]);
        assert_eq!((r.specs(), r.hash()), {
            let two = registry(&["apply_patch", "read"]);
            (two.specs(), two.hash())
        });
        assert!(r.get("Edit").is_some());
        assert_eq!(r.all_names(), ["apply_patch", "edit", "read"]);
        assert_eq!(r.unknown("edti"), "There is no tool named `edti`. Tools: apply_patch, read.");
    }

    #[test]
    fn bad_names_and_duplicates_are_refused() {
        let mut r = registry(&["read"]);
        assert_eq!(r.add(named("read")), Err(RegistryError::Duplicate("read".into())));
        for bad in ["", "a b", "a.b", "ä", &"x".repeat(65)] {
            assert_eq!(r.add(named(bad)), Err(RegistryError::BadName(bad.into())));
        }
    }

    #[test]
    fn the_short_form_has_first_sentences_and_all_names() {
        let schema = json!({"type": "object", "required": ["description"], "properties": {
            "description": {"type": "string", "description": "A few words. At most five."},
            "path": {"description": "The file,\nor a folder", "anyOf": [{"description": "One. Two."}]},
        }});
        let spec = ToolSpec {
            name: "task".into(),
            description: "Does it, e.g.x. And more.\nAnd even more.".into(),
            input_schema: schema.into(),
        };
        let mut registry = Registry::new();
        registry.add(Arc::new(Named(spec.clone(), false))).unwrap();
        let before = registry.hash();
        registry.shorten();
        let short = registry.specs().remove(0);
        assert_eq!(short.description, "Does it, e.g.x.");
        assert_eq!(
            *short.input_schema,
            json!({"type": "object", "required": ["description"], "properties": {
                "description": {"type": "string", "description": "A few words."},
                "path": {"description": "The file,", "anyOf": [{"description": "One."}]},
            }})
        );
        assert_ne!(registry.hash(), before);
    }
}
