//! Names of tools: `mcp__SERVER__TOOL`, at most 64 characters that every provider accepts.
//!
//! Pure. If a name is too long, or two tools would share it, it ends in eight digits of a hash of the full name. So it
//! is the same in every session.

use std::collections::BTreeSet;

/// Maximum length of a name that every provider accepts.
pub const LONGEST: usize = 64;

/// Returns the part of tool names that identifies the server.
pub fn server_part(server: &str) -> String {
    plain(server)
}

/// Keeps letters, digits, `_` and `-`; replaces everything else by `_`.
fn plain(text: &str) -> String {
    text.chars().map(|c| if c.is_ascii_alphanumeric() || matches!(c, '_' | '-') { c } else { '_' }).collect()
}

/// Returns the permission rule for all tools of a server.
pub fn server_rule(server: &str) -> String {
    format!("mcp__{}", plain(server))
}

/// Returns the name of a tool. `taken`: names that are already used, in lower case.
pub fn tool_name(server: &str, tool: &str, taken: &BTreeSet<String>) -> String {
    let name = format!("mcp__{}__{}", plain(server), plain(tool));
    if name.len() <= LONGEST && !tool.is_empty() && !taken.contains(&name.to_ascii_lowercase()) {
        return name;
    }
    let hash = becket_tool::sha256(format!("{server}\0{tool}").as_bytes());
    let end = format!("_{}", &hash[..8]);
    let room = LONGEST - end.len();
    format!("{}{end}", &name[..name.len().min(room)])
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn plain_names_stay_and_others_are_hashed() {
        let mut taken = BTreeSet::new();
        assert_eq!(tool_name("everything", "get-sum", &taken), "mcp__everything__get-sum");
        assert_eq!(tool_name("my server", "a.b/c", &taken), "mcp__my_server__a_b_c");
        taken.insert("mcp__my_server__a_b_c".to_owned());
        let second = tool_name("my server", "a.b.c", &taken);
        assert!(second.starts_with("mcp__my_server__a_b_c_") && second.len() == 30, "{second}");
        let long = tool_name("s", &"x".repeat(200), &taken);
        assert_eq!(long.len(), 64);
        assert_ne!(long, tool_name("s", &"x".repeat(201), &taken));
    }

    proptest! {
        #[test]
        fn names_are_distinct_and_fit(tools in prop::collection::btree_set(".{0,80}", 1..40)) {
            let mut taken = BTreeSet::new();
            for tool in &tools {
                let name = tool_name("s", tool, &taken);
                prop_assert!(name.len() <= LONGEST && name.bytes().all(|b| b.is_ascii_alphanumeric() || b"_-".contains(&b)));
                prop_assert!(taken.insert(name.to_ascii_lowercase()), "{} twice", name);
            }
        }
    }
}
