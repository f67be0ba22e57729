//! Agents that a run itself names: with `--agents` and `--agent`, or in the introduction of the program that drives it.

use super::{DefinedIn, Definition};
use becket_tool_skill::Head;
use serde_json::Value;

/// Agents that the run itself names.
#[derive(Clone, Debug, Default)]
pub(crate) struct GivenAgents {
    /// Definitions of `--agents` and of the program that drives the run.
    pub definitions: Vec<Definition>,
    /// Name of the kind that the session's own agent is (`--agent`).
    pub main: Option<String>,
    /// Notes for the user about the definitions.
    pub warnings: Vec<String>,
}

/// Parses definitions from an object of agents by name, as an SDK and `--agents` give it. Also returns notes for the user.
///
/// # Errors
///
/// Returns a message that names the mistake in the object.
pub(crate) fn parse_agents(agents: &Value) -> Result<(Vec<Definition>, Vec<String>), String> {
    let found = match agents {
        Value::Array(_) => "a list",
        Value::String(_) => "text",
        _ => "something else",
    };
    let agents =
        agents.as_object().ok_or_else(|| format!("an object of agents by name is expected, not {found}"))?;
    let (mut out, mut warnings) = (Vec::new(), Vec::new());
    for (name, agent) in agents {
        let mut keys = agent.as_object().cloned().ok_or_else(|| format!("{name}: an object is expected"))?;
        let prompt = keys.remove("prompt");
        let prompt =
            prompt.as_ref().and_then(Value::as_str).ok_or_else(|| format!("{name}: `prompt` is missing"))?;
        // The key of the object is the agent's name. A missing description is no error here: it only advises the model.
        keys.insert("name".to_owned(), Value::from(name.as_str()));
        if keys.get("description").and_then(Value::as_str).is_none_or(becket_types::is_blank) {
            keys.insert("description".to_owned(), Value::from("an agent of this run"));
        }
        match Definition::from_keys(name.clone(), &Head::new(keys), prompt, DefinedIn::Given) {
            Ok((definition, wrong)) => {
                out.push(definition);
                warnings.extend(wrong);
            }
            Err(why) => warnings.push(format!("an agent is left out: {why}")),
        }
    }
    Ok((out, warnings))
}
