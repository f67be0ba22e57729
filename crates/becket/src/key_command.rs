//! Keys that a program prints: `providers.NAME.key_command`.
//!
//! Owns running the program, parsing its output, and the lifetime of a key. Only the user's own configuration can name
//! such a program. One request at a time runs it, and the others wait for its result. The output is never shown.

use becket_model::{NoKey, Secret, TokenSource};
use serde_json::Value;
use std::process::Stdio;
use std::sync::Arc;
use std::time::{Duration, Instant};
use tokio::process::Command;
use tokio::sync::Mutex;

/// Longest time for the program. A slower one probably waits for input that nobody gives.
const PATIENCE: Duration = Duration::from_mins(1);
/// Lifetime of a key that is printed without one.
const USUAL: Duration = Duration::from_mins(5);
/// A token is replaced this long before it expires, because a request may take a while to arrive.
const EARLY: Duration = Duration::from_secs(30);

struct Held {
    key: Secret,
    until: Instant,
}

/// Returns the source of this provider's key, which runs the program.
pub(crate) fn source(provider: &str, command: &[String]) -> TokenSource {
    let held: Arc<Mutex<Option<Held>>> = Arc::default();
    let (provider, command) = (provider.to_owned(), command.to_vec());
    TokenSource::new(move |refused| {
        let (held, provider, command) = (Arc::clone(&held), provider.clone(), command.clone());
        Box::pin(async move {
            let mut held = held.lock().await;
            if let Some(known) = held.as_ref().filter(|known| !refused && known.until > Instant::now()) {
                return Ok(known.key.clone());
            }
            let (key, lifetime) = run(&command).await.map_err(|why| NoKey {
                why: format!("providers.{provider}.key_command {why}"),
                hint: format!("Correct providers.{provider}.key_command, or run `becket login {provider}`."),
            })?;
            let key = Secret::new(key);
            *held = Some(Held { key: key.clone(), until: Instant::now() + lifetime.saturating_sub(EARLY) });
            Ok(key)
        })
    })
}

async fn run(command: &[String]) -> Result<(String, Duration), String> {
    let (program, arguments) = command.split_first().ok_or("names no program")?;
    let printed = printed(Command::new(program).args(arguments), PATIENCE).await?;
    parse(&String::from_utf8(printed).map_err(|_| "printed something that is not text")?)
}

/// Runs a program that prints a credential, and returns what it printed. `Err` says what the program did instead.
pub(crate) async fn printed(command: &mut Command, patience: Duration) -> Result<Vec<u8>, String> {
    let child = command.stdin(Stdio::null()).stderr(Stdio::null()).kill_on_drop(true).output();
    let output = tokio::time::timeout(patience, child)
        .await
        .map_err(|_| format!("took more than {} s", patience.as_secs()))?
        .map_err(|e| format!("did not start: {e}"))?;
    if !output.status.success() {
        return Err(format!("failed ({})", output.status));
    }
    Ok(output.stdout)
}

/// Parses a key alone, or JSON with `token` (also `access_token`, `key`) and `expires_in` in seconds.
fn parse(text: &str) -> Result<(String, Duration), String> {
    let text = text.trim();
    let (key, lifetime) = match serde_json::from_str::<Value>(text) {
        Ok(Value::Object(map)) => {
            let names = ["token", "access_token", "key"];
            let key = names.iter().find_map(|name| map.get(*name)?.as_str()).unwrap_or_default().to_owned();
            let seconds = map.get("expires_in").and_then(Value::as_f64).filter(|s| *s > 0.0 && *s < 1e9);
            (key, seconds.map_or(USUAL, Duration::from_secs_f64))
        }
        _ => (text.to_owned(), USUAL),
    };
    if key.is_empty() {
        return Err("printed no key".to_owned());
    }
    if !key.bytes().all(|b| b.is_ascii_graphic()) {
        return Err("printed something other than a single key".to_owned());
    }
    Ok((key, lifetime))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_program_may_print() {
        for (text, want) in [
            ("abc\n", Ok(("abc".to_owned(), USUAL))),
            (r#"{"token": "t", "expires_in": 60}"#, Ok(("t".to_owned(), Duration::from_mins(1)))),
            (r#"{"access_token": "t"}"#, Ok(("t".to_owned(), USUAL))),
            ("", Err("printed no key".to_owned())),
            (r#"{"other": 1}"#, Err("printed no key".to_owned())),
            ("two\nlines", Err("printed something other than a single key".to_owned())),
        ] {
            assert_eq!(parse(text), want, "{text}");
        }
    }

    #[tokio::test]
    async fn a_program_runs_once_for_many_requests() {
        let dir = tempfile::tempdir().unwrap();
        let count = dir.path().join("count");
        let script = format!("echo x >> '{}'; echo key-of-program", count.display());
        let source = source("p", &["/bin/sh".to_owned(), "-c".to_owned(), script]);
        let asked = (0..8).map(|_| source.get(false));
        for key in futures::future::join_all(asked).await {
            assert_eq!(key, Ok(Secret::new("key-of-program")));
        }
        assert_eq!(std::fs::read_to_string(&count).unwrap(), "x\n");
    }
}
