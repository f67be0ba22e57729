//! Prompts whose commands and references to servers are expanded while the loop goes on, because hooks and servers of the program
//! may take part in it.

use super::waits::Completion;
use super::{note, note_left_out};
use crate::hooks::OutsideHooks;
use crate::slash::Slash;
use becket_types::{Part, PromptInput};

/// Beginning of the reason with which a hook refuses a prompt.
const HOOK_REFUSED: &str = "a hook refused";

/// Returns the prompt with `text`, in which references to servers are expanded. A text that cannot be expanded is sent as it
/// is, unless a hook refuses it.
pub(super) async fn with_servers(
    hub: &becket_mcp::Hub,
    mut input: PromptInput,
    text: String,
    hooks: Option<OutsideHooks>,
) -> Completion {
    let expanded = match crate::mcp::expand_references(hub, text.clone(), hooks.as_ref()).await {
        Ok(expanded) => expanded,
        Err(failure) if failure.message.starts_with(HOOK_REFUSED) => {
            input.parts = vec![Part::text(text)];
            return Completion::Refused(input, failure.message);
        }
        Err(failure) => {
            note(&failure.message);
            text
        }
    };
    if let [Part::Text { text, .. }] = &mut input.parts[..] {
        *text = expanded;
    }
    Completion::Prompt(input)
}

/// Returns the prompt with `text`, whose command is expanded. A command that cannot be used is sent as it is, unless a hook
/// refuses it.
pub(super) async fn with_command(slash: &Slash, mut input: PromptInput, called: String) -> Completion {
    match slash.expanded(called.clone()).await {
        Ok(prompt) => {
            note_left_out(&called, &prompt.left_out);
            if let [Part::Text { text, .. }] = &mut input.parts[..] {
                *text = prompt.text;
            }
            input.terms = prompt.terms;
        }
        Err(why) if why.starts_with(HOOK_REFUSED) => {
            input.parts = vec![Part::text(called)];
            return Completion::Refused(input, why);
        }
        Err(why) => note(&why),
    }
    Completion::Prompt(input)
}
