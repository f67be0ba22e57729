//! Converts call ids and tool names to the forms that each wire format accepts.
//!
//! A history may continue with another provider, whose rules for ids differ. The mapping is a pure function of the id, so a
//! call and its result always agree, and the same history gives the same bytes.

use becket_types::CallId;
use std::borrow::Cow;
use std::collections::HashSet;
use std::sync::{Arc, Mutex, PoisonError};

/// The form of call ids that a server accepts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum IdRule {
    /// `[a-zA-Z0-9_-]+` (Anthropic), at most 64.
    Word,
    /// Any text of at most 40 characters (OpenAI).
    Short,
    /// Exactly nine letters and digits (Mistral).
    Nine,
    /// Anything.
    Any,
}

/// Converts a call id to the form that `rule` allows.
pub(crate) fn wire_id(id: &str, rule: IdRule) -> Cow<'_, str> {
    let word = |s: &str| s.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_' || b == b'-');
    let fits = match rule {
        IdRule::Word => !id.is_empty() && id.len() <= 64 && word(id),
        IdRule::Short => !id.is_empty() && id.chars().count() <= 40,
        IdRule::Nine => id.len() == 9 && id.bytes().all(|b| b.is_ascii_alphanumeric()),
        IdRule::Any => !id.is_empty(),
    };
    if fits {
        return Cow::Borrowed(id);
    }
    let hash = fnv(FNV_START, id.as_bytes());
    Cow::Owned(match rule {
        IdRule::Nine => base36(hash),
        _ => format!("call_{hash:016x}"),
    })
}

/// Converts a tool's name to `[a-zA-Z0-9_-]{1,64}`, which every provider accepts. Models sometimes invent names with other
/// characters.
pub(crate) fn wire_name(name: &str) -> Cow<'_, str> {
    let ok = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == '-';
    if !name.is_empty() && name.len() <= 64 && name.chars().all(ok) {
        return Cow::Borrowed(name);
    }
    let clean: String = name.chars().take(64).map(|c| if ok(c) { c } else { '_' }).collect();
    Cow::Owned(if clean.is_empty() { "unknown_tool".to_owned() } else { clean })
}

/// The start value of FNV-1a.
pub(crate) const FNV_START: u64 = 0xcbf2_9ce4_8422_2325;

/// The hash FNV-1a. It is the same on every machine and in every version, which std's hashers do not promise.
pub(crate) fn fnv(start: u64, bytes: &[u8]) -> u64 {
    bytes.iter().fold(start, |hash, byte| (hash ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3))
}

fn base36(mut hash: u64) -> String {
    let mut out = String::with_capacity(9);
    for _ in 0..9 {
        out.push(char::from_digit((hash % 36) as u32, 36).unwrap_or('0'));
        hash /= 36;
    }
    out
}

/// Ids of calls in earlier requests. A generated id must differ from all of them. A server's own id is never changed because
/// it is in this set: a call that is delivered twice must be recognisable.
#[derive(Clone, Debug, Default)]
pub(crate) struct SeenCalls(Arc<Mutex<HashSet<String>>>);

impl SeenCalls {
    pub(crate) fn note(&self, id: &CallId) {
        let mut seen = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if !seen.contains(id.as_str()) {
            seen.insert(id.0.clone());
        }
    }

    pub(crate) fn contains(&self, id: &str) -> bool {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).contains(id)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn ids_stay_where_they_fit() {
        for (id, rule, kept) in [
            ("toolu_01", IdRule::Word, true),
            ("functions.bash:0", IdRule::Word, false),
            ("functions.bash:0", IdRule::Short, true),
            ("", IdRule::Any, false),
            ("a23456789", IdRule::Nine, true),
            ("call_1", IdRule::Nine, false),
        ] {
            assert_eq!(wire_id(id, rule) == id, kept, "{id} {rule:?}");
        }
    }

    proptest! {
        #[test]
        fn every_mapped_id_fits_its_rule(id in "\\PC{0,80}") {
            for rule in [IdRule::Word, IdRule::Short, IdRule::Nine, IdRule::Any] {
                let mapped = wire_id(&id, rule).into_owned();
                prop_assert_eq!(wire_id(&mapped, rule), mapped.as_str());
            }
            let name = wire_name(&id).into_owned();
            prop_assert_eq!(wire_name(&name), name.as_str());
        }
    }
}
