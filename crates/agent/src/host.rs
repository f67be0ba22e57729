//! Services of the session for its tools: blobs, named state, hashes of files read, and earlier outputs.
//!
//! Tools run in parallel and only borrow the host. State that they set is collected here, and the driver
//! writes it to the ledger with the next commit (`SessionHost::drain`). Locks are held only for a look-up,
//! never across an await.

pub(crate) use crate::sync::lock;
use crate::watch::{Watch, Watching};
use becket_session::Session;
use becket_tool::{Contents, Host};
use becket_types::{BlobId, CallId, EntryKind, Part, RecallMatches, Seq};
use serde_json::{Map, Value};
use std::collections::HashMap;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};

/// Name of the state that maps each file read or written to its SHA-256.
pub(crate) const READ_FILES: &str = "read_files";

/// The host of one session.
pub struct SessionHost {
    session: Arc<Mutex<Session>>,
    inner: Mutex<Inner>,
    watch: Watch,
}

#[derive(Default)]
struct Inner {
    reads: HashMap<PathBuf, String>,
    /// Contents of the files in `reads`, if they are small enough to keep in memory.
    contents: Contents,
    /// Files read since the last drain. They are written with the call's journal entry.
    new_reads: Vec<(PathBuf, String)>,
    /// True if files were read since [`SessionHost::read_files`] was last called.
    reads_changed: bool,
    /// State set by tools that is not in the ledger yet, in order.
    state: Vec<(String, Value)>,
}

impl SessionHost {
    /// Makes the host. The files that the ledger lists as read are loaded.
    pub(crate) fn new(session: Arc<Mutex<Session>>, watching: Watching) -> Self {
        let mut inner = Inner::default();
        {
            let session = lock(&session);
            let view = session.view();
            if let Some(Value::Object(files)) = view.state(READ_FILES) {
                inner.reads.extend(pairs(files));
            }
            for line in view.journal().iter() {
                if line.result.contains("\"reads\"")
                    && let Some(Value::Object(files)) = line.value().get("reads")
                {
                    inner.reads.extend(pairs(files));
                }
            }
        }
        Self { session, inner: Mutex::new(inner), watch: Watch::new(watching) }
    }

    pub(crate) fn watch(&self) -> &Watch {
        &self.watch
    }

    /// Returns the state entries set since the last call, and the files read since then.
    pub(crate) fn drain(&self) -> (Vec<EntryKind>, Map<String, Value>) {
        let mut inner = lock(&self.inner);
        let state = inner.state.drain(..).map(|(key, value)| EntryKind::State { key, value }).collect();
        let reads =
            inner.new_reads.drain(..).map(|(path, hash)| (path_key(&path), Value::from(hash))).collect();
        (state, reads)
    }

    /// Returns the hashes of all files read, if any was read since the last call.
    pub(crate) fn read_files(&self) -> Option<EntryKind> {
        let mut inner = lock(&self.inner);
        if !std::mem::take(&mut inner.reads_changed) {
            return None;
        }
        let mut files: Vec<_> = inner.reads.iter().collect();
        files.sort_unstable();
        let value =
            files.into_iter().map(|(path, hash)| (path_key(path), Value::from(hash.as_str()))).collect();
        Some(EntryKind::State { key: READ_FILES.to_owned(), value: Value::Object(value) })
    }
}

fn pairs(files: &Map<String, Value>) -> impl Iterator<Item = (PathBuf, String)> + '_ {
    files.iter().filter_map(|(path, hash)| Some((PathBuf::from(path), hash.as_str()?.to_owned())))
}

fn path_key(path: &Path) -> String {
    path.to_string_lossy().into_owned()
}

impl Host for SessionHost {
    fn put_blob(&self, bytes: &[u8]) -> Result<BlobId, String> {
        lock(&self.session).put_blob(bytes).map_err(|error| error.to_string())
    }

    fn put_blob_from(&self, reader: &mut dyn Read) -> Result<BlobId, String> {
        // The session's lock is not held here, because this may take a second.
        let blobs = lock(&self.session).blob_store();
        blobs.put_from(reader).map_err(|error| error.to_string())
    }

    fn get_blob(&self, id: &BlobId) -> Option<Vec<u8>> {
        let blobs = lock(&self.session).blobs();
        blobs.get(id)
    }

    fn unfinished_secret(&self, before: &str, text: &str) -> Option<usize> {
        becket_session::secrets::unfinished(before, text)
    }

    fn note_read(&self, path: &Path, sha256: &str) {
        self.watch.track(path, sha256);
        let mut inner = lock(&self.inner);
        if inner.reads.get(path).is_some_and(|known| known == sha256) {
            return;
        }
        inner.contents.remove(path);
        inner.reads.insert(path.to_owned(), sha256.to_owned());
        inner.new_reads.push((path.to_owned(), sha256.to_owned()));
        inner.reads_changed = true;
    }

    fn note_content(&self, path: &Path, sha256: &str, content: Vec<u8>) {
        self.note_read(path, sha256);
        lock(&self.inner).contents.put(path, content);
    }

    fn read_content(&self, path: &Path) -> Option<Arc<Vec<u8>>> {
        lock(&self.inner).contents.get(path)
    }

    fn read_hash(&self, path: &Path) -> Option<String> {
        lock(&self.inner).reads.get(path).cloned()
    }

    fn state(&self, key: &str) -> Option<Value> {
        let new = lock(&self.inner)
            .state
            .iter()
            .rev()
            .find(|(name, _)| name == key)
            .map(|(_, value)| value.clone());
        new.or_else(|| lock(&self.session).view().state(key).cloned())
    }

    fn set_state(&self, key: &str, value: Value) {
        lock(&self.inner).state.push((key.to_owned(), value));
    }

    fn original_output(&self, call: &CallId) -> Option<(String, String)> {
        let (past, seq) = {
            let session = lock(&self.session);
            if let Some(found) = session.output_in_memory(call) {
                return Some(found);
            }
            let seq = session.output_place(call)?;
            (session.history_search(), seq)
        };
        // The lock is released, so the session can continue while its ledger is read.
        past.and_then(|past| past.output(seq, call)).ok()?
    }

    fn past_message(&self, seq: Seq) -> Option<(String, String)> {
        let past = lock(&self.session).history_search();
        past.and_then(|past| past.message(seq)).ok()?
    }

    fn past_users_words(&self, first: Seq, last: Seq) -> Vec<(Seq, String)> {
        // The lock is released, so the session can continue while its ledger is read.
        let past = lock(&self.session).history_search();
        past.and_then(|past| past.users_words(first, last)).unwrap_or_default()
    }

    fn past_images(&self, id: &str) -> Vec<Part> {
        let (past, seq) = {
            let session = lock(&self.session);
            let Some(seq) = session.place_of(id) else { return Vec::new() };
            (session.history_search(), seq)
        };
        // The lock is released, so the session can continue while its ledger is read.
        past.and_then(|past| past.images(seq)).unwrap_or_default()
    }

    fn search_past(&self, query: &str, limit: usize) -> Result<RecallMatches, String> {
        // The lock is released, so the session can continue while its ledger is read.
        let past = lock(&self.session).history_search();
        past.and_then(|past| past.search(query, limit)).map_err(|error| error.to_string())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use becket_session::CreateOptions;
    use becket_session::context::{ModelScope, Policy};
    use std::io;

    /// A reader that uses the host while it is being read, as tools that run in parallel do.
    struct Nosy<'a> {
        host: &'a SessionHost,
        left: usize,
    }

    impl Read for Nosy<'_> {
        fn read(&mut self, buf: &mut [u8]) -> io::Result<usize> {
            assert_eq!(self.host.get_blob(&BlobId("none".into())), None);
            let n = buf.len().min(self.left);
            buf[..n].fill(b'x');
            self.left -= n;
            Ok(n)
        }
    }

    #[test]
    fn a_stream_becomes_a_blob_without_holding_the_session() {
        let dir = tempfile::tempdir().unwrap();
        let scope = ModelScope {
            provider: "p".into(),
            model: "m".into(),
            images: true,
            max_images: 1,
            max_media_bytes: 1,
        };
        let options = CreateOptions { persist: true, ..CreateOptions::default() };
        let session = Session::create(dir.path(), dir.path(), options, Policy::default(), scope).unwrap();
        let host = SessionHost::new(Arc::new(Mutex::new(session)), Watching::Off);
        let id = host.put_blob_from(&mut Nosy { host: &host, left: 1 << 20 }).unwrap();
        let whole = vec![b'x'; 1 << 20];
        assert_eq!(host.put_blob(&whole).unwrap(), id);
        assert_eq!(host.get_blob(&id), Some(whole));
    }
}
