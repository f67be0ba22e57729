//! Base URLs as users write them: completes them, and tells servers on this machine from others.

use crate::{ErrorKind, ModelError};
use url::{Host, Url};

/// Joins a base URL, with or without `/v1`, and a path below `/v1`.
///
/// A base with a path of its own (`https://openrouter.ai/api/v1`, `…/api/paas/v4`) is used unchanged with `keep_path`, as
/// OpenAI's libraries do. Without it, `/v1` is added, as Anthropic's libraries do.
pub(crate) fn join(base: &str, path: &str, keep_path: bool) -> Result<Url, ModelError> {
    let bad = |why: String| {
        ModelError::new(
            ErrorKind::NotFound,
            format!("The base URL `{}` cannot be used: {why}.", without_login(base)),
        )
        .hint("Write it as http://HOST:PORT or https://HOST/v1.")
    };
    let mut url = Url::parse(base.trim()).map_err(|e| bad(e.to_string()))?;
    if !matches!(url.scheme(), "http" | "https") || url.host().is_none() {
        return Err(bad("it is not http or https".to_owned()));
    }
    if !url.username().is_empty() || url.password().is_some() {
        return Err(bad("it holds a login; give credentials as a key".to_owned()));
    }
    if url.port() == Some(0) {
        return Err(bad("no server has the port 0".to_owned()));
    }
    url.set_query(None);
    url.set_fragment(None);
    let own = url.path().trim_end_matches('/').trim_end_matches(path).trim_end_matches('/').to_owned();
    let last = own.rsplit('/').next().unwrap_or_default();
    let versioned = last.starts_with('v') && last[1..].starts_with(|c: char| c.is_ascii_digit());
    let prefix = if versioned || (keep_path && !own.is_empty()) { own } else { format!("{own}/v1") };
    url.set_path(&format!("{prefix}{path}"));
    Ok(url)
}

pub(crate) fn without_login(base: &str) -> String {
    match (base.find("://"), base.find('@')) {
        (Some(start), Some(at)) if start < at => format!("{}…{}", &base[..start + 3], &base[at..]),
        _ => base.to_owned(),
    }
}

pub(crate) fn is_local(url: &Url) -> bool {
    match url.host() {
        Some(Host::Domain(name)) => name == "localhost" || name.ends_with(".localhost"),
        Some(Host::Ipv4(ip)) => ip.is_loopback() || ip.is_unspecified(),
        Some(Host::Ipv6(ip)) => ip.is_loopback() || ip.is_unspecified(),
        None => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn base_urls_as_people_write_them() {
        for (base, path, keep, want) in [
            ("https://api.anthropic.com", "/messages", false, "https://api.anthropic.com/v1/messages"),
            ("https://api.anthropic.com/v1/", "/messages", false, "https://api.anthropic.com/v1/messages"),
            (
                "https://api.deepseek.com/anthropic",
                "/messages",
                false,
                "https://api.deepseek.com/anthropic/v1/messages",
            ),
            ("http://localhost:8080", "/chat/completions", true, "http://localhost:8080/v1/chat/completions"),
            (
                "http://localhost:8080/v1",
                "/chat/completions",
                true,
                "http://localhost:8080/v1/chat/completions",
            ),
            (
                "http://localhost:8080/v1/chat/completions",
                "/chat/completions",
                true,
                "http://localhost:8080/v1/chat/completions",
            ),
            (
                "https://openrouter.ai/api/v1",
                "/chat/completions",
                true,
                "https://openrouter.ai/api/v1/chat/completions",
            ),
            (
                "https://api.z.ai/api/paas/v4/",
                "/chat/completions",
                true,
                "https://api.z.ai/api/paas/v4/chat/completions",
            ),
            (
                "https://generativelanguage.googleapis.com/v1beta/openai",
                "/chat/completions",
                true,
                "https://generativelanguage.googleapis.com/v1beta/openai/chat/completions",
            ),
        ] {
            assert_eq!(join(base, path, keep).unwrap().as_str(), want);
        }
        for base in ["", "localhost:8080", "ftp://x", "https://user:pw@host", "http://localhost:0/v1"] {
            let error = join(base, "/messages", false).unwrap_err();
            assert!(!error.message.contains("pw"), "{}", error.message);
        }
    }

    #[test]
    fn loopback_is_local() {
        for (url, want) in [
            ("http://127.0.0.1:1/", true),
            ("http://127.9.9.9/", true),
            ("http://[::1]:8/", true),
            ("http://localhost/", true),
            ("http://0.0.0.0:8/", true),
            ("https://localhost.evil.com/", false),
            ("http://192.168.1.2/", false),
        ] {
            assert_eq!(is_local(&Url::parse(url).unwrap()), want, "{url}");
        }
    }
}
