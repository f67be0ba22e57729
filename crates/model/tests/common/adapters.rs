//! Every adapter: each wire format with the path and the key of a provider that uses it.

use super::settings;
use becket_model::{
    Auth, AwsKeys, Credential, Endpoint, Kind, Model, ModelRef, Secret, Settings, TokenSource, open,
};
use becket_testkit::{MockServer, Wire};
use std::sync::Arc;

/// A wire format with a provider's paths and keys.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Adapter {
    pub(crate) name: &'static str,
    pub(crate) wire: Wire,
    pub(crate) provider: &'static str,
    pub(crate) model: &'static str,
}

const fn adapter(name: &'static str, wire: Wire, provider: &'static str, model: &'static str) -> Adapter {
    Adapter { name, wire, provider, model }
}

/// The adapters. The model's name decides which of the three of Bedrock, and of the two of Vertex, is used.
pub(crate) const ADAPTERS: [Adapter; 10] = [
    adapter("Anthropic", Wire::Anthropic, "anthropic", "claude-sonnet-4-5"),
    adapter("OpenAI Chat", Wire::Chat, "openai", "org/model-x"),
    adapter("OpenAI Responses", Wire::Responses, "responses", "org/model-x"),
    adapter("Gemini", Wire::Gemini, "google", "gemini-3.5-flash"),
    adapter("Bedrock Messages", Wire::Anthropic, "bedrock", "eu.anthropic.claude-sonnet-4-5-20250929-v1:0"),
    adapter("Bedrock Responses", Wire::Responses, "bedrock", "openai.gpt-5.6"),
    adapter("Bedrock Converse", Wire::Converse, "bedrock", "amazon.nova-pro-v1:0"),
    adapter("Vertex Claude", Wire::Anthropic, "vertex", "claude-sonnet-4-5"),
    adapter("Vertex Gemini", Wire::Gemini, "vertex", "gemini-3.5-flash"),
    adapter("Azure", Wire::Responses, "azure", "my-deployment"),
];

impl Adapter {
    pub(crate) fn reference(&self) -> ModelRef {
        match self.provider {
            "anthropic" => ModelRef::anthropic(self.model.into()),
            "openai" => ModelRef::openai(self.model.into()),
            provider => ModelRef::named(provider, self.model),
        }
    }

    pub(crate) fn open(&self, settings: &Settings) -> Arc<dyn Model> {
        open(&self.reference(), settings).unwrap()
    }

    pub(crate) fn at(&self, server: &MockServer) -> Arc<dyn Model> {
        self.open(&everywhere(&server.url()))
    }
}

/// Settings in which all providers are at this server, each with its own path and key.
pub(crate) fn everywhere(url: &str) -> Settings {
    let (mut settings, _) = settings(url);
    let keys = AwsKeys {
        id: "AKID".into(),
        secret: Secret::new("aws-secret"),
        session_token: None,
        region: Some("eu-west-1".into()),
    };
    let token = TokenSource::new(|_| Box::pin(async { Ok(Secret::new("cloud-token")) }));
    for (provider, kind, below, auth, credential) in [
        ("bedrock", Kind::Anthropic, "", Auth::Aws, Credential::Aws(keys)),
        ("vertex", Kind::Gemini, "/v1/projects/p/locations/global", Auth::Google, Credential::Token(token)),
        ("azure", Kind::Responses, "/openai/v1", Auth::ApiKey, Credential::ApiKey(Secret::new("azure-key"))),
    ] {
        let endpoint = Endpoint {
            kind: Some(kind),
            base_url: Some(format!("{url}{below}")),
            credential: Some(credential),
            auth: Some(auth),
            ..Endpoint::default()
        };
        settings.others.insert(provider.into(), endpoint);
    }
    settings
}
