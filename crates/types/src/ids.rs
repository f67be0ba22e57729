//! Identifiers and units as newtypes, so that the compiler rejects one in place of another.

use serde::{Deserialize, Serialize};
use std::fmt;
use std::str::FromStr;
use std::time::{SystemTime, UNIX_EPOCH};
use uuid::{NoContext, Timestamp, Uuid};

/// Returns a new UUID v7. If the clock shows a time before 1970, which version 7 cannot hold, 1970 is used.
pub fn unique() -> Uuid {
    unique_at(SystemTime::now())
}

fn unique_at(now: SystemTime) -> Uuid {
    if now < UNIX_EPOCH { Uuid::new_v7(Timestamp::from_unix(NoContext, 0, 0)) } else { Uuid::now_v7() }
}

macro_rules! uuid_id {
    ($(#[$doc:meta])* $name:ident) => {
        $(#[$doc])*
        #[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
        #[serde(transparent)]
        pub struct $name(pub Uuid);

        impl $name {
            /// Makes a new UUID v7. Such ids sort by time, but [`Seq`] decides the order of entries, not ids.
            pub fn new() -> Self {
                Self(unique())
            }
        }
        impl Default for $name {
            fn default() -> Self {
                Self::new()
            }
        }
        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                self.0.fmt(f)
            }
        }
        impl fmt::Debug for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                write!(f, "{}", self.0)
            }
        }
        impl FromStr for $name {
            type Err = uuid::Error;
            fn from_str(s: &str) -> Result<Self, Self::Err> {
                Uuid::parse_str(s).map(Self)
            }
        }
    };
}

uuid_id!(
    /// One session: one ledger folder.
    SessionId
);
uuid_id!(
    /// One message, whichever role.
    MessageId
);

/// Position of an entry in its ledger. Starts at 1, grows by one per entry, never reused.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Seq(pub u64);

impl Seq {
    /// Returns the position of the following entry.
    pub fn next(self) -> Self {
        Self(self.0 + 1)
    }
}

impl fmt::Display for Seq {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// Entries are identified by their sequence number: a `revert` names the entry that it undoes.
pub type EntryId = Seq;

/// The provider's id of one tool call. Opaque text, unique within a session.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(transparent)]
pub struct CallId(pub String);

impl CallId {
    /// Returns the id as the provider wrote it.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl From<&str> for CallId {
    fn from(s: &str) -> Self {
        Self(s.to_owned())
    }
}

impl fmt::Display for CallId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// Content address of a blob: lower-case hex SHA-256 of its uncompressed bytes.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(transparent)]
pub struct BlobId(pub String);

impl BlobId {
    /// Returns the 64 hex digits.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for BlobId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// Milliseconds. For a moment: since the Unix epoch. For a duration: its length.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Millis(pub u64);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_clock_before_1970_still_gives_ids_of_their_own() {
        let before = UNIX_EPOCH - std::time::Duration::from_secs(7);
        let (one, other) = (unique_at(before), unique_at(before));
        assert_ne!(one, other);
        assert_eq!((one.get_version_num(), other.get_version_num()), (7, 7));
    }
}
