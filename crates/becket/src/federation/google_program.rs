//! Identity tokens that a program prints, for `external_account` credentials with `credential_source.executable`.
//!
//! Invariants: a program of the file runs only if the user allows it with `GOOGLE_EXTERNAL_ACCOUNT_ALLOW_EXECUTABLES=1`, as with
//! Google's own tools, because the file may come from elsewhere. No shell takes part. Does not exchange the token.

use super::now;
use crate::key_command::run_for_output;
use serde_json::Value;
use std::time::Duration;
use tokio::process::Command;

/// The user's permission to run programs that a file of credentials names.
pub(super) const ALLOW: &str = "GOOGLE_EXTERNAL_ACCOUNT_ALLOW_EXECUTABLES";
/// Time that a program gets, in milliseconds: usual, least and most, as Google documents them.
const PATIENCE: (u64, u64, u64) = (30_000, 5_000, 120_000);

/// Returns the identity token that the program of `source` prints, or that its output file still has. `file`: the whole
/// credentials.
pub(super) async fn subject(file: &Value, source: &Value, is_allowed: bool) -> Result<String, String> {
    let command = source["command"].as_str().ok_or("the credential source names no `command`")?;
    if !is_allowed {
        return Err(format!(
            "the file of credentials wants to run the program `{command}`, which needs {ALLOW}=1; set it if you trust that program"
        ));
    }
    let output = source["output_file"].as_str();
    if let Some(kept) = output.and_then(|path| std::fs::read_to_string(path).ok())
        && let Ok(token) = token(&kept, file["subject_token_type"].as_str(), true)
    {
        return Ok(token);
    }
    let mut words = command.split_whitespace();
    let mut process = Command::new(words.next().ok_or("the credential source names no `command`")?);
    process.args(words).env("GOOGLE_EXTERNAL_ACCOUNT_INTERACTIVE", "0");
    for (name, value) in [
        ("GOOGLE_EXTERNAL_ACCOUNT_AUDIENCE", file["audience"].as_str()),
        ("GOOGLE_EXTERNAL_ACCOUNT_TOKEN_TYPE", file["subject_token_type"].as_str()),
        ("GOOGLE_EXTERNAL_ACCOUNT_OUTPUT_FILE", output),
        (
            "GOOGLE_EXTERNAL_ACCOUNT_IMPERSONATED_EMAIL",
            file["service_account_impersonation_url"].as_str().and_then(impersonated_email),
        ),
    ] {
        process.envs(value.map(|value| (name, value)));
    }
    let (usual, least, most) = PATIENCE;
    let patience = source["timeout_millis"].as_u64().unwrap_or(usual).clamp(least, most);
    let text = run_for_output(&mut process, Duration::from_millis(patience)).await;
    let text = text.map_err(|why| format!("the program `{command}` {why}"))?;
    let text =
        String::from_utf8(text).map_err(|_| format!("`{command}` printed something that is not text"))?;
    token(&text, file["subject_token_type"].as_str(), output.is_some())
        .map_err(|why| format!("`{command}` {why}"))
}

/// Returns the account in `…/serviceAccounts/EMAIL:generateAccessToken`.
fn impersonated_email(url: &str) -> Option<&str> {
    let (_, rest) = url.rsplit_once('/')?;
    rest.strip_suffix(":generateAccessToken")
}

/// Reads a program's answer. `expires`: it must say until when the token is valid.
fn token(text: &str, kind: Option<&str>, expires: bool) -> Result<String, String> {
    let json: Value = becket_types::parse_json(text).map_err(|_| "printed no JSON")?;
    if json["version"].as_u64() != Some(1) {
        return Err("answered in a version that is not 1".to_owned());
    }
    if json["success"] != true {
        let code = json["code"].as_str().unwrap_or("no code");
        let message = json["message"].as_str().unwrap_or("no message");
        return Err(format!("reported a failure: {message} ({code})"));
    }
    match json["expiration_time"].as_u64() {
        Some(until) if until <= now() => return Err("gave a token that has expired".to_owned()),
        None if expires => return Err("gave a token without `expiration_time`".to_owned()),
        _ => {}
    }
    let is_saml = json["token_type"].as_str().or(kind).is_some_and(|kind| kind.ends_with("saml2"));
    let name = if is_saml { "saml_response" } else { "id_token" };
    json[name].as_str().map(str::to_owned).ok_or_else(|| format!("gave no `{name}`"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn answers_of_programs() {
        let good = json!({"version": 1, "success": true, "token_type": "urn:ietf:params:oauth:token-type:id_token", "id_token": "t"});
        let with = |key: &str, value: Value| {
            let mut answer = good.clone();
            answer[key] = value;
            answer.to_string()
        };
        for (text, expires, want) in [
            (good.to_string(), false, Ok("t")),
            (good.to_string(), true, Err("expiration_time")),
            (with("expiration_time", json!(now() + 60)), true, Ok("t")),
            (with("expiration_time", json!(now() - 60)), true, Err("expired")),
            (with("version", json!(2)), false, Err("version")),
            (with("id_token", Value::Null), false, Err("`id_token`")),
            ("t".to_owned(), false, Err("no JSON")),
            (
                json!({"version": 1, "success": true, "token_type": "urn:ietf:params:oauth:token-type:saml2", "saml_response": "s"}).to_string(),
                false,
                Ok("s"),
            ),
            (
                json!({"version": 1, "success": false, "code": "401", "message": "Caller not authorized."}).to_string(),
                false,
                Err("Caller not authorized. (401)"),
            ),
        ] {
            match (token(&text, None, expires), want) {
                (Ok(got), Ok(want)) => assert_eq!(got, want),
                (Err(got), Err(want)) => assert!(got.contains(want), "{text}: {got}"),
                (got, want) => panic!("{text}: {got:?}, not {want:?}"),
            }
        }
        let url =
            "https://iamcredentials.googleapis.com/v1/projects/-/serviceAccounts/a@b.iam:generateAccessToken";
        assert_eq!(impersonated_email(url), Some("a@b.iam"));
    }
}
