//! Keys that a program prints: `providers.NAME.key_command`.
//!
//! Owns running the program, parsing its output, and the lifetime of a key. Only the user's own configuration can name
//! such a program. One request of one process at a time runs it. The others wait; they take its token if the program
//! named a lifetime. A key without a lifetime stays in memory. The output is never shown.

use crate::environment::Environment;
use crate::federation::{TemporaryCredential, TokenCache};
use becket_model::{NoKey, TokenSource};
use serde_json::Value;
use std::process::Stdio;
use std::time::Duration;
use tokio::process::Command;

/// Longest time for the program. A slower one probably waits for input that nobody gives.
const PATIENCE: Duration = Duration::from_mins(1);
/// Seconds after which a key that is printed without a lifetime is asked for again. Tokens are replaced a minute before
/// their expiry, so such a key is used for five minutes.
const DEFAULT_LIFETIME: u64 = 6 * 60;

/// Returns the source of this provider's key, which runs the program.
pub(crate) fn source(environment: &Environment, provider: &str, command: &[String]) -> TokenSource {
    let (name, arguments) = (provider.to_owned(), command.to_vec());
    let keeper =
        TokenCache::new(environment, &format!("command-{provider}"), &command.join("\0"), move || {
            let (provider, command) = (name.clone(), arguments.clone());
            Box::pin(async move {
                let PrintedKey { key, seconds } = run(&command).await.map_err(|why| NoKey {
                    why: format!("providers.{provider}.key_command {why}"),
                    hint: format!(
                        "Correct providers.{provider}.key_command, or run `becket login {provider}`."
                    ),
                })?;
                let grant = TemporaryCredential::token(&key, seconds.unwrap_or(DEFAULT_LIFETIME));
                // A key without a lifetime may be valid for long, so a copy in a file would be dangerous. It stays in memory.
                Ok(if seconds.is_some() { grant } else { grant.in_memory() })
            })
        });
    // The wait for other processes is as long as the program's time: in one of them, the program may wait for a person who confirms.
    keeper.patience(PATIENCE).into_token_source()
}

/// A key as a program printed it.
#[derive(Debug, PartialEq, Eq)]
struct PrintedKey {
    key: String,
    /// The lifetime, if the program names one.
    seconds: Option<u64>,
}

async fn run(command: &[String]) -> Result<PrintedKey, String> {
    let (program, arguments) = command.split_first().ok_or("names no program")?;
    let program = crate::program_lookup::find(program).ok_or_else(|| {
        format!("is not found in the system's folders or in PATH outside of the project: {program}")
    })?;
    let printed = run_for_output(Command::new(program).args(arguments), PATIENCE).await?;
    parse(&String::from_utf8(printed).map_err(|_| "printed something that is not text")?)
}

/// Runs a program that prints a credential, and returns what it printed. `Err` says what the program did instead.
pub(crate) async fn run_for_output(command: &mut Command, patience: Duration) -> Result<Vec<u8>, String> {
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
fn parse(text: &str) -> Result<PrintedKey, String> {
    let text = text.trim();
    let (key, seconds) = match becket_types::parse_json::<Value>(text) {
        Ok(Value::Object(map)) => {
            let names = ["token", "access_token", "key"];
            let key = names.iter().find_map(|name| map.get(*name)?.as_str()).unwrap_or_default().to_owned();
            let seconds = map.get("expires_in").and_then(Value::as_f64).filter(|s| *s > 0.0 && *s < 1e9);
            (key, seconds.map(|seconds| seconds.ceil() as u64))
        }
        _ => (text.to_owned(), None),
    };
    if key.is_empty() {
        return Err("printed no key".to_owned());
    }
    if !key.bytes().all(|b| b.is_ascii_graphic()) {
        return Err("printed something other than a single key".to_owned());
    }
    Ok(PrintedKey { key, seconds })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_program_may_print() {
        for (text, want) in [
            ("abc\n", Ok(("abc", None))),
            (r#"{"token": "t", "expires_in": 60}"#, Ok(("t", Some(60)))),
            (r#"{"access_token": "t"}"#, Ok(("t", None))),
            ("", Err("printed no key".to_owned())),
            (r#"{"other": 1}"#, Err("printed no key".to_owned())),
            ("two\nlines", Err("printed something other than a single key".to_owned())),
        ] {
            let want = want.map(|(key, seconds)| PrintedKey { key: key.to_owned(), seconds });
            assert_eq!(parse(text), want, "{text}");
        }
    }

    /// Each source represents a process. A token with a lifetime is asked for once; a key without one never reaches a file.
    #[tokio::test]
    async fn a_program_runs_once_for_many_requests_and_processes() {
        for (printed, key, runs) in [
            (r#"{"token": "the-token", "expires_in": 3600}"#, "the-token", 1),
            ("key-of-program", "key-of-program", 12),
        ] {
            let dir = tempfile::tempdir().unwrap();
            let count = dir.path().join("count");
            let environment = Environment::below(dir.path());
            let script = format!("echo x >> '{}'; echo '{printed}'", count.display());
            let command = ["/bin/sh".to_owned(), "-c".to_owned(), script];
            let processes: Vec<_> = (0..12).map(|_| source(&environment, "p", &command)).collect();
            let asked = (0..48).map(|n: usize| processes[n % 12].get(false));
            for got in futures::future::join_all(asked).await {
                assert_eq!(got, Ok(becket_model::Secret::new(key)));
            }
            assert_eq!(std::fs::read_to_string(&count).unwrap(), "x\n".repeat(runs));
            let file =
                std::fs::read_dir(environment.data_dir.join("tokens")).unwrap().next().unwrap().unwrap();
            assert_eq!(file.path().join("credentials.json").exists(), runs == 1, "{printed}");
        }
    }
}
