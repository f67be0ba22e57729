//! The system's resolver of names. Its errors say which name could not be resolved and whether a retry makes sense.

use reqwest::dns::{Addrs, Name, Resolve, Resolving};

/// The system's resolver. Its errors say which name could not be resolved and whether a retry makes sense.
pub(crate) struct Names;

impl Resolve for Names {
    fn resolve(&self, name: Name) -> Resolving {
        Box::pin(async move {
            let host = name.as_str().to_owned();
            // The caller sets the port.
            let found = tokio::net::lookup_host((host.as_str(), 0)).await.map(Iterator::collect::<Vec<_>>);
            let found = found.map_err(|error| Unresolved::new(host, &error.to_string()))?;
            Ok(Box::new(found.into_iter()) as Addrs)
        })
    }
}

#[derive(Debug, PartialEq, Eq, thiserror::Error)]
#[error("{host} cannot be resolved: {why}")]
pub(crate) struct Unresolved {
    pub host: String,
    pub why: String,
    /// True for `EAI_AGAIN`: the resolver did not answer. False: it answered that there is no such name.
    pub temporary: bool,
}

impl Unresolved {
    /// Rust reports the resolver's code only as text, so the texts of glibc, musl and macOS for `EAI_AGAIN` are listed here.
    fn new(host: String, error: &str) -> Self {
        let why = error.rsplit(": ").next().unwrap_or(error).to_owned();
        let lower = why.to_ascii_lowercase();
        let temporary = lower.contains("temporary") || lower.contains("try again");
        Self { host, why, temporary }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn which_names_may_resolve_in_a_moment() {
        for (error, why, temporary) in [
            (
                "failed to lookup address information: Name or service not known",
                "Name or service not known",
                false,
            ),
            (
                "failed to lookup address information: Temporary failure in name resolution",
                "Temporary failure in name resolution",
                true,
            ),
            ("failed to lookup address information: Try again", "Try again", true),
            ("failed to lookup address information: Name does not resolve", "Name does not resolve", false),
            ("No address associated with hostname", "No address associated with hostname", false),
            (
                "failed to lookup address information: nodename nor servname provided, or not known",
                "nodename nor servname provided, or not known",
                false,
            ),
        ] {
            let want = Unresolved { host: "h".to_owned(), why: why.to_owned(), temporary };
            assert_eq!(Unresolved::new("h".to_owned(), error), want);
        }
    }
}
