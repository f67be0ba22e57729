//! Values of `[providers.NAME]` that have the right type and still make no sense: addresses, names, figures, headers.
//!
//! Each complaint names the value and the next step. Values that may be keys, such as those of headers, are not repeated.

use crate::document::{Kind, Node, position};
use crate::error::Problem;
use crate::key_hosts::leads_here;
use crate::layers::Builder;
use crate::providers::{
    CompatConfig, LoginConfig, ModelConfig, ProviderAuth, ProviderConfig, VENDORS, is_name, vendor,
};
use crate::tree::nearest;
use serde_json::Value;
use std::collections::BTreeMap;

/// Longest text of a value that a message repeats, in characters.
const SHOWN: usize = 80;
/// Headers that carry keys.
const KEY_HEADERS: &[&str] = &["authorization", "x-api-key", "api-key", "x-goog-api-key"];
/// Fields of a request's body that becket sets itself in some wire format, and those that change the form of an answer.
const OWN_FIELDS: &[&str] = &[
    "additionalModelRequestFields",
    "anthropic_version",
    "cache_control",
    "contents",
    "generationConfig",
    "include",
    "inferenceConfig",
    "input",
    "instructions",
    "max_completion_tokens",
    "max_output_tokens",
    "max_tokens",
    "messages",
    "model",
    "n",
    "output_config",
    "previous_response_id",
    "prompt_cache_key",
    "reasoning",
    "reasoning_effort",
    "store",
    "stream",
    "stream_options",
    "system",
    "systemInstruction",
    "system_instruction",
    "thinking",
    "thread",
    "toolConfig",
    "tool_choice",
    "tools",
];

/// Fields with which a server would change the context by itself. The model would then see something else than the session's view.
const CONTEXT_FIELDS: &[&str] = &["context_management", "conversation", "truncation"];

/// Returns a value for a message: quoted, without control characters, and not too long.
fn quoted_value(text: &str) -> String {
    let cut: String = text.chars().take(SHOWN).collect();
    if cut.len() < text.len() { format!("{cut:?}…") } else { format!("{cut:?}") }
}

impl Builder<'_> {
    /// Removes providers whose names are not valid, with a problem for each. A dot in a name would later be read as a separate
    /// table.
    pub(crate) fn check_provider_names(&mut self, root: &mut Node, origin: &str, text: &str) {
        let Kind::Table(entries) = &mut root.kind else { return };
        let Some(providers) = entries.iter_mut().find(|entry| entry.key == "providers") else { return };
        let wrong = providers.value.entries().iter().filter(|entry| !is_name(&entry.key));
        let wrong: Vec<(String, usize)> = wrong.map(|entry| (entry.key.clone(), entry.at)).collect();
        for (name, at) in wrong {
            providers.value.take(&name);
            self.errors.push(Problem {
                origin: origin.to_owned(),
                at: Some(position(text, at)),
                key: Some(format!("providers.{name}")),
                message: format!(
                    "{} cannot be a provider's name: use lower-case letters, digits, - and _, because it is the part of a model's name before the slash",
                    quoted_value(&name)
                ),
            });
        }
    }

    pub(crate) fn check_provider(&mut self, name: &str, provider: &ProviderConfig) {
        let key = |field: &str| format!("providers.{name}.{field}");
        self.check_own(name, provider);
        if let Some(url) = &provider.base_url {
            self.check_address(
                &key("base_url"),
                url,
                "https://host/path, or http://127.0.0.1:8080/v1 for a server on this machine",
            );
            // Azure's own examples have a version in the query, which becket does not need but accepts.
            if url.contains(['?', '#']) && name != "azure" {
                self.warn(
                    &key("base_url"),
                    "the part from ? or # on is not sent; give the address without it",
                );
            }
        }
        self.check_variable_name(&key("api_key_env"), provider.api_key_env.as_deref());
        self.check_command(&key("key_command"), &provider.key_command);
        self.check_headers(name, &provider.headers);
        self.check_cloud(name, provider);
        self.check_login(name, &provider.login);
        self.check_body(&key("body"), "", &provider.body);
        self.check_models(&key("models"), &provider.models);
        self.check_compat(name, &provider.compat);
    }

    /// Checks that a provider that is not built in has all that a request needs.
    fn check_own(&mut self, name: &str, provider: &ProviderConfig) {
        if vendor(name).is_some() {
            return;
        }
        let start = format!("providers.{name}.");
        if provider.kind.is_none() {
            let set = self.merged.keys().find(|key| key.starts_with(&start)).cloned();
            let near = nearest(name, VENDORS.iter().map(|vendor| vendor.name));
            let near = near.map(|near| format!("; did you mean {near}?")).unwrap_or_default();
            let address = if provider.base_url.is_none() { " and `base_url`" } else { "" };
            let message = format!(
                "{name} is not built in, so it needs `kind` (openai-chat for most servers){address}{near}"
            );
            self.complain(&set.unwrap_or_else(|| format!("{start}kind")), message);
        } else if provider.base_url.is_none() {
            self.complain(
                &format!("{start}kind"),
                format!("{name} is not built in, so it needs `base_url`, too: the address of its server"),
            );
        }
    }

    /// Checks the address of a server: `http` or `https`, and no user name or password in it.
    pub(crate) fn check_address(&mut self, key: &str, url: &str, example: &str) {
        if url.contains("://") && url.split('/').nth(2).unwrap_or_default().contains('@') {
            self.complain(key, "the address contains a user name or password; write it without them, and give the key with `becket login` or api_key_env");
        } else if !is_address(url) {
            self.complain(key, format!("{} is not an address; write it like {example}", quoted_value(url)));
        }
    }

    pub(crate) fn check_variable_name(&mut self, key: &str, variable: Option<&str>) {
        let is_name = |text: &str| {
            text.chars().all(|c| c.is_ascii_alphanumeric() || c == '_')
                && text.starts_with(|c: char| !c.is_ascii_digit())
        };
        if variable.is_some_and(|text| !is_name(text)) {
            // The value may be a key, so it is not repeated.
            let message = "this is the name of an environment variable, not the key itself; keys stay out of files: write a name like MY_KEY, or run `becket login`";
            self.complain(key, message);
        }
    }

    fn check_command(&mut self, key: &str, command: &[String]) {
        // If no layer gave a list, there is nothing to check.
        if !self.merged.contains_key(key) {
            return;
        }
        let example = "write it like [\"my-login\", \"print-token\"], or remove the key";
        match command.first() {
            None => self.complain(key, format!("[] names no program; {example}")),
            Some(program) if program.trim().is_empty() => {
                self.complain(key, format!("the program is {program:?}; {example}"));
            }
            Some(program)
                if command.len() == 1 && program.contains(char::is_whitespace) && !program.contains('/') =>
            {
                let message = format!(
                    "{} is one word of the command, with blanks; give program and arguments as separate texts: {example}",
                    quoted_value(program)
                );
                self.complain(key, message);
            }
            Some(_) if command.iter().any(|word| word.contains('\0')) => {
                self.complain(
                    key,
                    format!("a word contains a zero byte, which no program can get; {example}"),
                );
            }
            Some(_) => {}
        }
    }

    fn check_headers(&mut self, name: &str, headers: &BTreeMap<String, String>) {
        for (header, value) in headers {
            let key = format!("providers.{name}.headers.{header}");
            let is_name = !header.is_empty()
                && header.bytes().all(|b| b.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&b));
            if KEY_HEADERS.iter().any(|known| header.eq_ignore_ascii_case(known)) {
                let message = "a key does not belong in a file; name its variable with api_key_env, or a program with key_command";
                self.complain(&key, message);
            } else if !is_name {
                let message = format!(
                    "{} is not the name of a header: use letters, digits and -",
                    quoted_value(header)
                );
                self.complain(&key, message);
            } else if value.chars().any(char::is_control) {
                let message = format!(
                    "the value of {header} contains a line break or another control character; write it in one line"
                );
                self.complain(&key, message);
            }
        }
    }

    fn check_cloud(&mut self, name: &str, provider: &ProviderConfig) {
        let key = |field: &str| format!("providers.{name}.{field}");
        let cloud = &provider.cloud;
        let is_label = |text: &str| text.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'-');
        if let Some(region) = cloud.region.as_ref().filter(|text| text.is_empty() || !is_label(text)) {
            let message = format!(
                "{} is not a region; write it with letters, digits and - alone, such as eu-west-1",
                quoted_value(region)
            );
            self.complain(&key("region"), message);
        }
        let is_id = |text: &str| text.bytes().all(|b| b.is_ascii_alphanumeric() || b"-_.:".contains(&b));
        if let Some(project) = cloud.project.as_ref().filter(|text| text.is_empty() || !is_id(text)) {
            let message = format!(
                "{} is not the id of a project; write it with letters, digits, and - _ . : alone, such as my-project-1",
                quoted_value(project)
            );
            self.complain(&key("project"), message);
        }
        if let Some(url) = &cloud.token_url {
            self.check_address(&key("token_url"), url, "https://host/token");
        }
        let auth = provider.auth.or(vendor(name).map(|vendor| vendor.auth));
        let google = auth == Some(ProviderAuth::Google);
        let unused = [
            ("region", cloud.region.is_some() && !google && auth != Some(ProviderAuth::Aws)),
            ("project", cloud.project.is_some() && !google && name != "cloudflare"),
            ("token_url", cloud.token_url.is_some() && !google),
        ];
        for field in unused.into_iter().filter(|(_, unused)| *unused).map(|(field, _)| field) {
            let message = format!(
                "it has no effect, because {name} is at no cloud that has a {field}; remove the key, or set `auth`"
            );
            self.warn(&key(field), message);
        }
    }

    fn check_login(&mut self, name: &str, login: &LoginConfig) {
        if *login == LoginConfig::default() {
            return;
        }
        let needed = [
            ("device_authorization_url", &login.device_authorization_url),
            ("token_url", &login.token_url),
            ("client_id", &login.client_id),
        ];
        let set = format!("providers.{name}.login.");
        let set = self.merged.keys().find(|key| key.starts_with(&set)).cloned().unwrap_or(set);
        let missing: Vec<&str> =
            needed.iter().filter(|(_, value)| value.is_none()).map(|(field, _)| *field).collect();
        if !missing.is_empty() {
            self.complain(&set, format!("a login needs {}, too", missing.join(" and ")));
        }
        for (field, value) in needed {
            let key = format!("providers.{name}.login.{field}");
            match value {
                Some(url) if field.ends_with("_url") => {
                    if is_address(url) && !url.starts_with("https://") && !leads_here(url) {
                        let message =
                            format!("{} is not encrypted; a login needs https://", quoted_value(url));
                        self.complain(&key, message);
                    } else {
                        self.check_address(&key, url, "https://login.example.com/token");
                    }
                }
                Some(id) if id.is_empty() || id.chars().any(char::is_control) => {
                    let message = format!(
                        "{} is not a client id; write the one that the provider gave you",
                        quoted_value(id)
                    );
                    self.complain(&key, message);
                }
                _ => {}
            }
        }
        if let Some(scope) = login.scope.as_ref().filter(|scope| scope.chars().any(char::is_control)) {
            let message =
                format!("{} contains a control character; separate rights by blanks", quoted_value(scope));
            self.complain(&format!("providers.{name}.login.scope"), message);
        }
    }

    /// `model`: the name of the model whose entry has the fields; empty for the fields of the provider.
    fn check_body(&mut self, key: &str, model: &str, body: &BTreeMap<String, Value>) {
        let of = if model.is_empty() { String::new() } else { format!("{model}: ") };
        for field in body.keys() {
            if OWN_FIELDS.contains(&field.as_str()) {
                let message = format!("{of}becket sets the field {field} itself; remove it");
                self.complain(key, message);
            } else if CONTEXT_FIELDS.contains(&field.as_str()) {
                let message = format!(
                    "{of}{field} would let the server change the context, which becket does itself; remove it"
                );
                self.complain(key, message);
            } else if field.is_empty() || field.chars().any(char::is_control) {
                let message = format!(
                    "{of}{} cannot be the name of a field; write it like service_tier",
                    quoted_value(field)
                );
                self.complain(key, message);
            }
        }
    }

    fn check_models(&mut self, key: &str, models: &[ModelConfig]) {
        for (at, model) in models.iter().enumerate() {
            let name = &model.name;
            if name.trim().is_empty() {
                let message =
                    format!("entry {} has the name {name:?}; each entry needs the model's `name`", at + 1);
                self.complain(key, message);
                continue;
            }
            if models[..at].iter().any(|other| other.name == *name) {
                self.complain(key, format!("{name} is listed twice; keep one entry"));
            }
            if let Some(price) =
                model.prices.iter().flatten().find(|price| !price.is_finite() || **price < 0.0)
            {
                let message = format!(
                    "{name}: a price is 0 or more dollars per million tokens, not {price}; correct it"
                );
                self.complain(key, message);
            }
            match (model.window, model.max_output) {
                (Some(window), _) if window < 4_000 => {
                    let message = format!(
                        "{name}: a window has at least 4,000 tokens, not {window}; give a larger one"
                    );
                    self.complain(key, message);
                }
                (_, Some(0)) => {
                    self.complain(key, format!("{name}: max_output is 0; give at least 1, or leave it out"));
                }
                (Some(window), Some(output)) if output > window => {
                    let message = format!(
                        "{name}: max_output {output} is larger than the window {window}; an answer has to fit into it, so give a smaller one"
                    );
                    self.complain(key, message);
                }
                _ => {}
            }
            self.check_body(key, name, &model.body);
        }
    }

    fn check_compat(&mut self, name: &str, compat: &CompatConfig) {
        let key = |field: &str| format!("providers.{name}.compat.{field}");
        // These fields of a message already have a meaning in the wire format.
        let taken = ["role", "content", "tool_calls", "tool_call_id", "name"];
        let is_field = |text: &str| {
            !text.is_empty() && text.bytes().all(|b| b.is_ascii_alphanumeric() || b"_-.".contains(&b))
        };
        if let Some(field) =
            compat.reasoning_field.as_ref().filter(|f| !is_field(f) || taken.contains(&f.as_str()))
        {
            let message = format!(
                "{} cannot hold reasoning; name a field such as reasoning_content, or none",
                quoted_value(field)
            );
            self.complain(&key("reasoning_field"), message);
        }
        if let Some(code) = compat.fatal_codes.iter().find(|code| code.trim().is_empty()) {
            let message =
                format!("{code:?} is the code of no error; write one such as \"1308\", or remove it");
            self.complain(&key("fatal_codes"), message);
        }
    }
}

/// True for an `http` or `https` address with a host and a valid port.
fn is_address(url: &str) -> bool {
    let Some(rest) = url.strip_prefix("https://").or_else(|| url.strip_prefix("http://")) else {
        return false;
    };
    let authority = rest.split(['/', '?', '#']).next().unwrap_or_default();
    if rest.contains(char::is_whitespace) {
        return false;
    }
    let place = authority.rsplit('@').next().unwrap_or_default();
    let (host, port) = match place.strip_prefix('[').map(|inner| inner.split_once(']')) {
        Some(Some((host, after))) => match (after.is_empty(), after.strip_prefix(':')) {
            (true, _) => (host, None),
            (_, Some(port)) => (host, Some(port)),
            _ => return false,
        },
        Some(None) => return false,
        None => place.split_once(':').map_or((place, None), |(host, port)| (host, Some(port))),
    };
    !host.is_empty() && port.is_none_or(|port| port.parse::<u16>().is_ok_and(|port| port > 0))
}
