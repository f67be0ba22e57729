//! `becket login openrouter --browser`: a key from OpenRouter's login in the browser, which its published rules open to all
//! programs (OAuth with PKCE, without a client id).
//!
//! Owns one login: the address for the browser, the answer at a port of this machine, and the exchange for a key. An answer
//! that somebody else sends is useless: the exchange needs the secret of this login.

use crate::environment::Environment;
use crate::failure::Failure;
use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use becket_mcp::CallbackPort;
use becket_model::{TokenBody, TokenRequest, token_request};
use serde_json::{Value, json};
use sha2::{Digest as _, Sha256};
use std::io::{Read as _, Write as _};
use std::time::Duration;
use url::Url;

/// The only provider whose rules allow such a login.
const PROVIDER: &str = "openrouter";
/// The port that OpenRouter's examples use. If it is taken, any free one is tried.
const PORT: u16 = 3000;
/// Longest wait for the browser.
const PATIENCE: Duration = Duration::from_mins(5);

/// Waits for the login in the browser and returns the key. `address`: the provider's base URL.
pub(super) fn key(
    environment: &Environment,
    provider: Option<&str>,
    address: Option<&str>,
) -> Result<String, Failure> {
    if provider != Some(PROVIDER) {
        return Err(Failure::usage(format!(
            "only {PROVIDER} has a login in the browser that becket may use"
        ))
        .hint("run `becket login openrouter --browser`, or paste a key: becket login PROVIDER"));
    }
    let cannot = |why: &str| Failure::error(format!("the login in the browser does not work: {why}"));
    let base = address.unwrap_or("https://openrouter.ai/api/v1").trim_end_matches('/');
    let site = base.strip_suffix("/api/v1").unwrap_or(base);
    let verifier = secret().map_err(|e| cannot(&e.to_string()))?;
    let challenge = URL_SAFE_NO_PAD.encode(Sha256::digest(verifier.as_bytes()));
    crate::runtime()?.block_on(async {
        let port = match CallbackPort::open(PORT).await {
            Ok(port) => port,
            Err(_) => CallbackPort::open(0).await.map_err(|e| cannot(&e.to_string()))?,
        };
        let mut page = Url::parse(&format!("{site}/auth")).map_err(|e| cannot(&e.to_string()))?;
        page.query_pairs_mut()
            .append_pair("callback_url", &format!("http://localhost:{}/callback", port.number()))
            .append_pair("code_challenge", &challenge)
            .append_pair("code_challenge_method", "S256");
        let _ = writeln!(
            std::io::stderr(),
            "Open this address in your browser:\n\n{page}\n\nbecket waits for {} min.",
            PATIENCE.as_secs() / 60
        );
        let code = tokio::time::timeout(PATIENCE, port.answer(code_in))
            .await
            .map_err(|_| cannot("no answer came from the browser"))?;
        let body = json!({ "code": code, "code_verifier": verifier, "code_challenge_method": "S256" });
        let request = TokenRequest {
            url: Url::parse(&format!("{base}/auth/keys")).map_err(|e| cannot(&e.to_string()))?,
            headers: Vec::new(),
            body: TokenBody::Json(body),
            timeout: Duration::from_secs(20),
            sign: None,
        };
        let answer =
            token_request(&request, &environment.proxies()).await.map_err(|fault| cannot(&fault.why))?;
        let json: Value = becket_types::parse_json(&answer).unwrap_or_default();
        let key =
            json["key"].as_str().filter(|key| !key.is_empty() && key.bytes().all(|b| b.is_ascii_graphic()));
        key.map(str::to_owned).ok_or_else(|| cannot("the provider sent no key"))
    })
}

/// Returns a random secret for this login, the code verifier of PKCE.
fn secret() -> std::io::Result<String> {
    let mut bytes = [0u8; 32];
    std::fs::File::open("/dev/urandom")?.read_exact(&mut bytes)?;
    Ok(URL_SAFE_NO_PAD.encode(bytes))
}

/// Returns the code in the path and query of the browser's request.
fn code_in(path: &str) -> Option<String> {
    let url = Url::parse(&format!("http://localhost{path}")).ok()?;
    let code = url.query_pairs().find(|(name, _)| name == "code").map(|(_, code)| code.into_owned());
    code.filter(|code| !code.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_code_is_in_the_browser_s_request() {
        for (path, want) in [
            ("/callback?code=a%20b", Some("a b")),
            ("/callback?error=denied", None),
            ("/callback?code=", None),
            ("", None),
        ] {
            assert_eq!(code_in(path).as_deref(), want, "{path}");
        }
    }
}
