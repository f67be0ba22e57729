//! The dialect of a server as the configuration changes it: `providers.NAME.compat` and `.body`.
//!
//! Pure. The dialect that is known for a server, and the wire format, belong to `becket_model`.

use becket_config::{CallIds, CompatConfig, EffortDial, OutputLimitField, ProviderConfig, SystemRole};
use becket_model::{Compat, CompatChanges, Dial, OutputLimit, ReasoningField};

/// Returns the changes of the configuration to the dialect of a server; `None` if it changes nothing.
pub(crate) fn changes(provider: &ProviderConfig) -> Option<CompatChanges> {
    if provider.compat == CompatConfig::default() && provider.body.is_empty() {
        return None;
    }
    let (config, body) = (provider.compat.clone(), provider.body.clone());
    Some(CompatChanges::new(move |compat| {
        change(compat, &config);
        compat.body = body.clone().into_iter().collect();
    }))
}

fn change(compat: &mut Compat, config: &CompatConfig) {
    if let Some(field) = config.output_limit {
        compat.output_limit = match field {
            OutputLimitField::MaxTokens => OutputLimit::MaxTokens,
            OutputLimitField::MaxCompletionTokens => OutputLimit::MaxCompletionTokens,
            OutputLimitField::None => OutputLimit::None,
        };
    }
    if let Some(role) = config.system_role {
        compat.messages.system_role = match role {
            SystemRole::System => becket_model::SystemRole::System,
            SystemRole::Developer => becket_model::SystemRole::Developer,
            SystemRole::User => becket_model::SystemRole::User,
        };
    }
    if let Some(dial) = config.effort {
        compat.effort = match dial {
            EffortDial::ReasoningEffort => Dial::ReasoningEffort,
            EffortDial::Reasoning => Dial::Reasoning,
            EffortDial::Thinking => Dial::Thinking,
            EffortDial::None => Dial::None,
        };
    }
    if let Some(ids) = config.tools.call_ids {
        compat.tools.call_ids = match ids {
            CallIds::Any => becket_model::CallIds::Any,
            CallIds::Word => becket_model::CallIds::Word,
            CallIds::Short => becket_model::CallIds::Short,
            CallIds::Nine => becket_model::CallIds::Nine,
        };
    }
    if let Some(field) = &config.reasoning_field {
        compat.messages.reasoning_field = match field.as_str() {
            "none" => ReasoningField::None,
            named => ReasoningField::Named(named.to_owned()),
        };
    }
    for (own, set) in [
        (&mut compat.stream_usage, config.stream_usage),
        (&mut compat.prompt_cache_key, config.prompt_cache_key),
        (&mut compat.tools.says_strict, config.tools.strict_tools),
        (&mut compat.tools.sends_empty, config.tools.empty_tools),
        (&mut compat.messages.null_content, config.null_content),
        (&mut compat.tools.schemas.plain, config.tools.plain_schemas),
        (&mut compat.tools.schemas.flat, config.tools.flat_schemas),
        (&mut compat.messages.strict_order, config.strict_order),
        (&mut compat.hour_cache, config.hour_cache),
        (&mut compat.message_threads, config.message_threads),
    ] {
        *own = set.unwrap_or(*own);
    }
    compat.fatal_codes.extend(config.fatal_codes.iter().cloned());
}
