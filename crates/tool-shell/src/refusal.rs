//! Guesses from a command's output whether the sandbox caused its failure. Pure.
//!
//! The command could print anything, so the note calls it a guess. In doubt there is no note: if a message names only files of the
//! workspace, the sandbox did not cause it.

use becket_types::{SandboxLevel, ToolOutput};
use serde_json::json;
use std::path::{Path, PathBuf};

/// Messages of programs that were denied access to a file.
const FILES: &[&str] =
    &["Permission denied", "permission denied", "Operation not permitted", "EACCES", "EPERM"];

/// Messages that only a read-only mount causes.
const READ_ONLY: &[&str] = &["Read-only file system", "EROFS"];

/// Messages of programs that miss rights of another user, or the owners of files, where the user has a namespace of his own.
const OWNERS: &[&str] = &["no new privileges", "Bad owner or permissions", "setuid"];

/// Messages of programs that cannot reach the network.
const NETWORK: &[&str] = &[
    "Network is unreachable",
    "network is unreachable",
    "Could not resolve host",
    "Couldn't resolve host",
    "Temporary failure in name resolution",
    "Temporary failure resolving",
    "Name or service not known",
    "Failed to create socket",
    "socket: Operation not permitted",
    "Unable to create socket",
    "EAI_AGAIN",
    "dns error",
    "dial tcp",
    "Failed to connect to",
    "Failed to establish a new connection",
];

/// The kind of access that the sandbox seems to have refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Refusal {
    File,
    Network,
}

/// Adds to the result of a confined command the hosts that the proxy refused, and a note if the sandbox may have caused the
/// failure. `hosts`: the refusals of the proxy; `None` if the command had no proxy.
///
/// `advice`: see [`advice`].
pub(crate) fn add(
    output: &mut ToolOutput,
    (level, roots): (SandboxLevel, &[PathBuf]),
    hosts: Option<&[String]>,
    advice: &str,
) {
    output.details["sandbox"] = json!({ "level": level.as_str() });
    if hosts.is_some_and(|hosts| add_hosts(output, hosts, advice)) {
        return;
    }
    if !output.is_error || output.interrupted {
        return;
    }
    let Some((refusal, line)) = find(&output.content, level, roots) else { return };
    let line = becket_types::cut_end(line.trim(), 160);
    let why = match (refusal, level) {
        (Refusal::Network, _) if hosts.is_some() => {
            "it reaches hosts only through the proxy that HTTPS_PROXY and ALL_PROXY name"
        }
        (Refusal::Network, _) => "it has no network",
        (Refusal::File, SandboxLevel::ReadOnly) => {
            "it writes nothing but $TMPDIR, and reads the workspace and the system's folders"
        }
        (Refusal::File, SandboxLevel::DenyRules) => {
            "the files that the user's deny rules name are hidden from it, or read-only, and it cannot gain the rights of another user"
        }
        (Refusal::File, _) => "it writes the workspace and $TMPDIR, and reads no secrets",
    };
    output.details["sandbox"]["refused"] = json!(line);
    let note =
        format!("\n[this ran in the sandbox (level {level}): {why}. That may be why it failed. {advice}]");
    output.content.push_str(&note);
}

/// Adds the hosts that the proxy refused to a result. Returns false if there are none.
pub(crate) fn add_hosts(output: &mut ToolOutput, hosts: &[String], advice: &str) -> bool {
    if hosts.is_empty() {
        return false;
    }
    output.details["sandbox"]["refused_hosts"] = json!(hosts);
    let hosts = hosts.join("; ");
    let note = format!(
        "\n[the sandbox refused a connection to {hosts}. The user can allow a host with sandbox.allow_hosts. {advice}]"
    );
    output.content.push_str(&note);
    true
}

/// Returns what the model can do about a refusal. `keeps_confined`: nothing runs outside the sandbox.
pub(crate) fn advice(keeps_confined: bool) -> &'static str {
    if keeps_confined {
        "No command runs outside it"
    } else {
        "If it must run outside, repeat the call with \"unconfined\": true; the user is asked"
    }
}

/// The first line that looks like a refusal of the sandbox.
fn find<'a>(text: &'a str, level: SandboxLevel, roots: &[PathBuf]) -> Option<(Refusal, &'a str)> {
    let has = |line: &str, words: &[&str]| words.iter().any(|word| line.contains(word));
    text.lines().find_map(|line| {
        if has(line, NETWORK) && level != SandboxLevel::DenyRules {
            return Some((Refusal::Network, line));
        }
        let file = match level {
            SandboxLevel::Off => false,
            SandboxLevel::ReadOnly | SandboxLevel::DenyRules => {
                has(line, READ_ONLY) || has(line, FILES) || has(line, OWNERS)
            }
            SandboxLevel::Workspace => has(line, READ_ONLY) || has(line, FILES) && names_outside(line, roots),
        };
        file.then_some((Refusal::File, line))
    })
}

/// True if the line holds an absolute path outside of the workspace.
fn names_outside(line: &str, roots: &[PathBuf]) -> bool {
    let words =
        line.split(|c: char| c.is_whitespace() || matches!(c, '\'' | '"' | '`' | ':' | '(' | ')' | ','));
    let mut paths = words.filter(|word| word.starts_with('/') && word.len() > 1).map(Path::new);
    paths.any(|path| !roots.iter().any(|root| path.starts_with(root)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn refusals_are_told_apart_from_other_failures() {
        use SandboxLevel::{ReadOnly, Workspace};
        let roots = [PathBuf::from("/repo")];
        for (text, level, want) in [
            ("touch: cannot touch 'a': Permission denied", ReadOnly, Some(Refusal::File)),
            ("touch: cannot touch '/etc/x': Read-only file system", Workspace, Some(Refusal::File)),
            ("cat: /root/.ssh/id_rsa: Permission denied", Workspace, Some(Refusal::File)),
            ("Error: EACCES: permission denied, open '/home/u/.npmrc'", Workspace, Some(Refusal::File)),
            ("bash: ./x: Permission denied", Workspace, None),
            ("bash: /repo/x: Permission denied", Workspace, None),
            ("test result: FAILED. 3 passed; 1 failed", Workspace, None),
            ("cat: b: No such file or directory", ReadOnly, None),
            ("curl: (6) Could not resolve host: a.example", Workspace, Some(Refusal::Network)),
            (
                "fatal: unable to access 'https://x/': Could not resolve host: x",
                Workspace,
                Some(Refusal::Network),
            ),
        ] {
            assert_eq!(find(text, level, &roots).map(|found| found.0), want, "{text}");
        }
    }

    #[test]
    fn only_a_failure_gets_the_note() {
        let mut output = ToolOutput { details: json!({}), ..ToolOutput::text("Permission denied") };
        add(&mut output, (SandboxLevel::ReadOnly, &[]), None, advice(false));
        assert_eq!(output.content, "Permission denied");
        assert_eq!(output.details, json!({"sandbox": {"level": "read-only"}}));
        output.is_error = true;
        add(&mut output, (SandboxLevel::ReadOnly, &[]), None, advice(false));
        assert!(output.content.contains("\"unconfined\": true"), "{}", output.content);
        assert_eq!(output.details["sandbox"]["refused"], "Permission denied");
    }

    #[test]
    fn refused_hosts_are_told_also_after_a_success() {
        let hosts = ["evil.example:443: it is not in sandbox.allow_hosts".to_owned()];
        for (is_error, hosts, want) in [
            (false, Some(&hosts[..]), "refused a connection to evil.example:443: it is not"),
            (true, Some(&hosts[..]), "refused a connection to evil.example:443: it is not"),
            (true, Some(&[][..]), "only through the proxy that HTTPS_PROXY"),
            (true, None, "it has no network"),
        ] {
            let text = "curl: (6) Could not resolve host: evil.example";
            let mut output = ToolOutput { details: json!({}), is_error, ..ToolOutput::text(text) };
            add(&mut output, (SandboxLevel::Workspace, &[]), hosts, advice(true));
            assert!(output.content.contains(want), "{}", output.content);
            assert_eq!(output.content.matches("\n[").count(), 1, "{}", output.content);
        }
    }
}
