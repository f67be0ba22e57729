//! Decides which files a permitted search may open.
//!
//! The verdict on a search is about the folder that it names. Its files are judged here, one by one, and without questions,
//! because there may be thousands. A file that would be asked about or denied by itself is skipped, and the search reports
//! that.

use crate::matchers::Matchers;
use crate::rule::PathMatcher;
use crate::{Rule, RuleKind, secret};
use becket_types::{Access, Effect};
use serde_json::Value;
use std::path::Path;

/// Returns the function of [`crate::Guard::may_read`]. `all`: ask rules do not apply, because the mode asks nothing. `secrets`: the
/// search may open secrets.
pub(crate) fn may_read(
    matchers: &Matchers,
    tool: &str,
    access: &Access,
    all: bool,
    secrets: bool,
) -> impl Fn(&Path) -> bool + Send + Sync + use<> + 'static {
    let named = access.paths.clone();
    let deny: Vec<_> = matchers.covering(RuleKind::Deny, tool).map(|(_, matcher)| matcher.clone()).collect();
    let asks = matchers.covering(RuleKind::Ask, tool).map(|(_, matcher)| matcher);
    let ask: Vec<_> = asks.filter(|m| !all && !named.iter().any(|path| m.matches(path))).cloned().collect();
    let allow: Vec<_> = matchers.covering(RuleKind::Allow, tool).cloned().collect();
    move |path| {
        let mut root = Path::new("");
        for name in &named {
            if path == name {
                return true;
            }
            if path.starts_with(name) {
                root = name;
            }
        }
        !deny.iter().chain(&ask).any(|matcher| matcher.matches(path))
            && (secrets || !secret::is_secret_below(root, path) || excused(&allow, path))
    }
}

/// True if a rule matches a secret and spells out the name that makes it one.
fn excused(allow: &[(Rule, PathMatcher)], path: &Path) -> bool {
    allow.iter().any(|(rule, matcher)| {
        matcher.matches(path) && secret::secret(path).is_some_and(|word| rule.says(&word))
    })
}

/// The tool whose path rules apply to a call of a tool that both reads and changes files.
pub(crate) fn stands_for(tool: &str, effect: Effect) -> Option<&'static str> {
    match effect {
        Effect::Read if tool.eq_ignore_ascii_case("lsp") => Some("read"),
        Effect::Write if tool.eq_ignore_ascii_case("lsp") => Some("edit"),
        _ => None,
    }
}

/// A secret that the file pattern of a search tool names. The `pattern` of `grep` is text, not a file.
pub(crate) fn searched_secret(tool: &str, input: &Value) -> Option<String> {
    let names = tool.eq_ignore_ascii_case("glob").then_some("pattern");
    ["glob", "include", "file_pattern"]
        .into_iter()
        .chain(names)
        .filter_map(|key| input.get(key)?.as_str())
        .filter(|text| text.len() < 512)
        .find_map(secret::pattern_meets_secret)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Guard, GuardSettings, Rules};
    use becket_types::PermissionMode;
    use serde_json::Value;
    use std::path::PathBuf;

    fn may(
        allow: &[&str],
        ask: &[&str],
        deny: &[&str],
        mode: PermissionMode,
        root: &str,
        path: &str,
    ) -> bool {
        let guard = Guard::new(GuardSettings {
            rules: Rules::parse(allow, ask, deny).unwrap(),
            mode,
            roots: vec![PathBuf::from("/p")],
            home: PathBuf::from("/home/u"),
            own: Vec::new(),
        });
        guard.may_read("grep", &Access::read(PathBuf::from(root)), &Value::Null)(Path::new(path))
    }

    #[test]
    fn files_are_judged_one_by_one_below_what_was_named() {
        use PermissionMode::{BypassPermissions as Bypass, Default as Plain};
        let none: &[&str] = &[];
        for (allow, ask, deny, mode, root, path, want) in [
            (none, none, none, Plain, "/p", "/p/src/a.rs", true),
            (none, none, none, Plain, "/p", "/p/.env", false),
            (none, none, none, Plain, "/p/.env", "/p/.env", true),
            (none, none, none, Bypass, "/p", "/p/.env", true),
            (&["Read(.env)"], none, none, Plain, "/p", "/p/.env", true),
            (&["Read(**)", "Grep"], none, none, Plain, "/p", "/p/.env", false),
            (none, &["Read(docs/**)"], none, Plain, "/p", "/p/docs/a", false),
            (none, &["Read(docs/**)"], none, Plain, "/p/docs", "/p/docs/a", true),
            (none, &["Read(docs/**)"], none, Bypass, "/p", "/p/docs/a", true),
            (none, &["Edit(docs/**)"], none, Plain, "/p", "/p/docs/a", true),
            (none, none, &["Read(docs/**)"], Plain, "/p", "/p/docs/a", false),
            (none, none, &["Read(docs/**)"], Bypass, "/p", "/p/docs/a", false),
            (&["Read(docs/**)"], none, &["Grep(docs/x/**)"], Plain, "/p", "/p/docs/x/a", false),
            // A folder outside the workspace that a person has allowed: its files are judged like files of the workspace.
            (none, none, none, Plain, "/opt/lib", "/opt/lib/a.c", true),
            (none, none, none, Plain, "/opt/lib", "/opt/lib/key.pem", false),
            (none, none, none, Plain, "/home/u/.ssh", "/home/u/.ssh/config", true),
        ] {
            assert_eq!(
                may(allow, ask, deny, mode, root, path),
                want,
                "{allow:?} {ask:?} {deny:?} {mode} {path}"
            );
        }
        let guard = Guard::new(GuardSettings::default());
        let input = serde_json::json!({"pattern": "x", "glob": "*.pem"});
        assert!(guard.may_read("grep", &Access::read(PathBuf::from("/p")), &input)(Path::new("/p/a.pem")));
    }
}
