//! Serde form of a path field, for `#[serde(with = "becket_types::path_form")]`: text, or `{"bytes": hex}` if the path is not
//! UTF-8. Serde's own form of a path fails there, and `json!` panics. The form itself is that of [`FilePath`].

use crate::FilePath;
use serde::{Deserialize as _, Deserializer, Serialize as _, Serializer};
use std::path::{Path, PathBuf};

/// Writes a path as text, or as `{"bytes": hex}` if it is not UTF-8.
///
/// # Errors
///
/// Fails only if the serializer does.
pub fn serialize<S: Serializer>(path: &Path, serializer: S) -> Result<S::Ok, S::Error> {
    FilePath(path.to_owned()).serialize(serializer)
}

/// Reads a path in either form.
///
/// # Errors
///
/// Fails if the value is neither text nor an object with valid hex digits.
pub fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<PathBuf, D::Error> {
    Ok(FilePath::deserialize(deserializer)?.0)
}

/// The same form for a path that may be missing.
pub mod option {
    use super::{Deserializer, FilePath, PathBuf, Serializer};
    use serde::{Deserialize as _, Serialize as _};

    /// Writes a path as text or `{"bytes": hex}`, and `None` as `null`.
    ///
    /// # Errors
    ///
    /// Fails only if the serializer does.
    pub fn serialize<S: Serializer>(path: &Option<PathBuf>, serializer: S) -> Result<S::Ok, S::Error> {
        path.clone().map(FilePath).serialize(serializer)
    }

    /// Reads a path in either form; `null` is `None`. A missing field needs `#[serde(default)]` as well.
    ///
    /// # Errors
    ///
    /// Fails if the value is neither `null` nor a path in one of the two forms.
    pub fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<PathBuf>, D::Error> {
        Ok(Option::<FilePath>::deserialize(deserializer)?.map(|path| path.0))
    }
}

/// The same form for a list of paths.
pub mod list {
    use super::{Deserializer, FilePath, PathBuf, Serializer};
    use serde::Deserialize as _;

    /// Writes paths as an array, each as text or `{"bytes": hex}`.
    ///
    /// # Errors
    ///
    /// Fails only if the serializer does.
    pub fn serialize<S: Serializer>(paths: &[PathBuf], serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_seq(paths.iter().cloned().map(FilePath))
    }

    /// Reads an array of paths in either form.
    ///
    /// # Errors
    ///
    /// Fails if the value is not an array, or if an item is not a path in one of the two forms.
    pub fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<PathBuf>, D::Error> {
        Ok(Vec::<FilePath>::deserialize(deserializer)?.into_iter().map(|path| path.0).collect())
    }
}

#[cfg(test)]
mod tests {
    use crate::{Access, FileChange, FileChangeKind};
    use std::path::PathBuf;

    #[test]
    fn values_with_any_path_survive_json_byte_for_byte() {
        for hex in ["2f6361660ae92e74", "2f611b5b33316d", "ff", "2f61"] {
            let path: PathBuf = crate::path::from_hex(hex).unwrap();
            let change = FileChange { path: path.clone(), kind: FileChangeKind::Add };
            let json = serde_json::json!([change]);
            assert_eq!(serde_json::from_value::<Vec<FileChange>>(json).unwrap(), [change]);
            let access = Access { paths: vec![path], ..Access::session() };
            let json = serde_json::to_string(&access).unwrap();
            assert_eq!(serde_json::from_str::<Access>(&json).unwrap(), access, "{json}");
        }
    }
}
