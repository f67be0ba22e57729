//! The first entry of a session: its id, where it was started, and the session it was forked from.
//!
//! The path of a working directory may contain any bytes, but JSON only text. If the path is not UTF-8, the entry has it as readable text,
//! and its bytes beside it in hex.

use crate::ledger::claimed_format;
use crate::store::{CWD_BYTES, StoreError, cwd_of, layout};
use becket_types::{Entry, EntryKind, Seq, SessionId};
use serde_json::{Map, Value};
use std::path::{Path, PathBuf};

/// Version of the ledger format, stored in a session's first entry.
pub(crate) const FORMAT: u32 = 1;

/// The content of the first entry.
#[derive(Clone, Debug, PartialEq)]
pub struct SessionInfo {
    pub id: SessionId,
    /// Version of the ledger's format.
    pub format: u32,
    /// Version of becket that created the session.
    pub version: String,
    /// Working directory in which the session was started, with its real bytes.
    pub cwd: PathBuf,
    /// The session that this one was copied from, and the last entry that both share.
    pub forked_from: Option<(SessionId, Seq)>,
    /// Other keys of the entry, such as the front end that created the session.
    pub extra: Map<String, Value>,
}

impl SessionInfo {
    pub(super) fn entry(&self) -> EntryKind {
        let mut extra = self.extra.clone();
        let cwd = match self.cwd.to_str() {
            Some(_) => self.cwd.clone(),
            None => {
                let bytes = becket_types::hex(self.cwd.as_os_str().as_encoded_bytes());
                extra.insert(CWD_BYTES.to_owned(), Value::String(bytes));
                PathBuf::from(self.cwd.to_string_lossy().into_owned())
            }
        };
        EntryKind::Session {
            session: self.id,
            format: self.format,
            version: self.version.clone(),
            cwd,
            forked_from: self.forked_from,
            extra,
        }
    }

    pub(super) fn from_entry(entry: &Entry) -> Option<Self> {
        let EntryKind::Session { session, format, version, cwd, forked_from, extra } = &entry.kind else {
            return None;
        };
        Some(Self {
            id: *session,
            format: *format,
            version: version.clone(),
            cwd: cwd_of(cwd, extra),
            forked_from: *forked_from,
            extra: extra.clone(),
        })
    }
}

/// Refuses a session with a newer format, because this version cannot write it correctly.
///
/// # Errors
///
/// Returns [`StoreError::Newer`] for such a session.
pub(super) fn refuse_newer(dir: &Path) -> Result<(), StoreError> {
    let claimed =
        std::fs::File::open(layout::ledger_path(dir)).ok().and_then(|mut file| claimed_format(&mut file));
    match claimed {
        Some((format, version)) if format > FORMAT => Err(StoreError::Newer {
            id: layout::id_of(dir).unwrap_or_default(),
            format,
            known: FORMAT,
            version,
        }),
        _ => Ok(()),
    }
}

/// Returns the facts of the first entry. If that entry cannot be read, returns unknown facts, and adds a notice about it. The id is always
/// that in the folder's name, also if the folder is a copy under another name.
pub(super) fn info_or_unknown(
    info: Option<SessionInfo>,
    dir: &Path,
    notices: &mut Vec<String>,
) -> SessionInfo {
    let Some(info) = info else {
        notices
            .push("The first entry of this session cannot be read: its directory is not known.".to_owned());
        return SessionInfo {
            id: layout::id_of(dir).unwrap_or_default(),
            format: FORMAT,
            version: String::new(),
            cwd: PathBuf::new(),
            forked_from: None,
            extra: Map::new(),
        };
    };
    if info.format > FORMAT {
        notices.push(format!(
            "This session was written by a newer version ({}); what this one does not know is kept and has no effect.",
            info.version
        ));
    }
    SessionInfo { id: layout::id_of(dir).unwrap_or(info.id), ..info }
}
