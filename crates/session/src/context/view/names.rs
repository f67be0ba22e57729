//! A table of strings with numbers, each string stored once.
//!
//! Designed for many short strings that are never removed: their bytes are in one piece of memory, and a look-up usually costs a hash and
//! one comparison. The hash table contains only numbers, a few bytes per name, so most of it stays in the processor's caches.

use hashbrown::{DefaultHashBuilder, HashTable, hash_table};
use serde::{Deserialize, Serialize, Serializer};
use std::hash::BuildHasher as _;

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(from = "Vec<String>")]
pub(super) struct Names {
    list: List,
    /// The numbers of the names, in a hash table by the hash of the name.
    numbers: HashTable<u32>,
    hasher: DefaultHashBuilder,
}

#[derive(Clone, Debug, Default)]
struct List {
    /// All names, one after the other.
    text: String,
    /// The end of each name in `text`, in bytes.
    ends: Vec<usize>,
}

impl List {
    fn get(&self, number: usize) -> &str {
        let start = number.checked_sub(1).map_or(0, |last| self.ends[last]);
        &self.text[start..self.ends[number]]
    }
}

impl Names {
    pub(super) fn len(&self) -> usize {
        self.list.ends.len()
    }

    pub(super) fn get(&self, number: usize) -> &str {
        self.list.get(number)
    }

    pub(super) fn find(&self, name: &str) -> Option<usize> {
        let same = |number: &u32| self.get(*number as usize) == name;
        self.numbers.find(self.hasher.hash_one(name), same).map(|number| *number as usize)
    }

    /// Adds a name; its number is the previous count. Returns false if the name already exists.
    pub(super) fn add(&mut self, name: &str) -> bool {
        let Self { list, numbers, hasher } = self;
        let same = |number: &u32| list.get(*number as usize) == name;
        let hash = |number: &u32| hasher.hash_one(list.get(*number as usize));
        let hash_table::Entry::Vacant(place) = numbers.entry(hasher.hash_one(name), same, hash) else {
            return false;
        };
        place.insert(u32::try_from(list.ends.len()).unwrap_or(u32::MAX));
        list.text.push_str(name);
        list.ends.push(list.text.len());
        true
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
    fn a_name_is_taken_in_once() {
        let mut names = Names::default();
        assert!(names.add("a") && names.add("b") && !names.add("a"));
        assert_eq!((names.len(), names.find("a"), names.find("b")), (2, Some(0), Some(1)));
    }

    #[test]
    fn names_of_one_hash_are_told_apart() {
        let mut names = Names::default();
        names.add("a");
        names.add("b");
        // Simulates a hash collision: both names have the hash of "a", and the other one comes first.
        let hash = names.hasher.hash_one("a");
        names.numbers.clear();
        for number in [1, 0] {
            names.numbers.insert_unique(hash, number, |_| hash);
        }
        assert_eq!(names.find("a"), Some(0));
    }
}
