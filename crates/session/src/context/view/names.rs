//! Strings by number, each once. Made for many short ones that stay for ever: their bytes lie in one piece of memory, and
//! looking one up costs a hash and, as a rule, one comparison.

use serde::{Deserialize, Serialize, Serializer};
use std::collections::HashMap;
use std::hash::{BuildHasher, RandomState};

/// No other name has this hash.
const NONE: u32 = u32::MAX;

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(from = "Vec<String>")]
pub(super) struct Names {
    /// All of them, one behind the other.
    text: String,
    /// Where each ends.
    ends: Vec<usize>,
    /// The newest name with this hash.
    newest: HashMap<u64, u32>,
    /// For each name the one before it with the same hash.
    before: Vec<u32>,
    hasher: RandomState,
}

impl Names {
    pub(super) fn len(&self) -> usize {
        self.ends.len()
    }

    pub(super) fn get(&self, number: usize) -> &str {
        let start = number.checked_sub(1).map_or(0, |last| self.ends[last]);
        &self.text[start..self.ends[number]]
    }

    pub(super) fn find(&self, name: &str) -> Option<usize> {
        let mut at = *self.newest.get(&self.hasher.hash_one(name))?;
        while at != NONE {
            if self.get(at as usize) == name {
                return Some(at as usize);
            }
            at = self.before[at as usize];
        }
        None
    }

    /// Takes in a name that is new; its number is how many there were.
    pub(super) fn add(&mut self, name: &str) {
        let number = u32::try_from(self.len()).unwrap_or(NONE);
        let before = self.newest.insert(self.hasher.hash_one(name), number);
        self.before.push(before.unwrap_or(NONE));
        self.text.push_str(name);
        self.ends.push(self.text.len());
    }
}

impl From<Vec<String>> for Names {
    fn from(list: Vec<String>) -> Self {
        let mut names = Self::default();
        for name in &list {
            names.add(name);
        }
        names
    }
}

impl Serialize for Names {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_seq((0..self.len()).map(|number| self.get(number)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_found_again_also_after_a_copy_through_a_list() {
        let mut names = Names::default();
        for n in 0..1_000 {
            names.add(&format!("call_{n}"));
        }
        names.add("");
        let again: Names = serde_json::from_str(&serde_json::to_string(&names).unwrap()).unwrap();
        for names in [names, again] {
            assert_eq!(names.len(), 1_001);
            assert_eq!(
                (names.find("call_999"), names.find(""), names.find("call_")),
                (Some(999), Some(1_000), None)
            );
            assert_eq!((names.get(0), names.get(1_000)), ("call_0", ""));
        }
    }

    #[test]
    fn names_of_one_hash_are_told_apart() {
        let mut names = Names::default();
        names.add("a");
        names.add("b");
        // As if both had the hash of "a".
        let hash = names.hasher.hash_one("a");
        names.newest.insert(hash, 1);
        names.before[1] = 0;
        assert_eq!(names.find("a"), Some(0));
    }
}
