//! Blobs: large outputs, images and file snapshots, named by the SHA-256 of their bytes.
//!
//! Each blob is a file `blobs/<sha256>.zst` with one zstd frame. It is written under a temporary name and then renamed. So a blob that has
//! its name is complete, equal bytes are stored once, and writing twice equals writing once. Blobs that the disk refuses stay in memory and
//! are written later. The blobs of a session that is not saved stay in memory; those of more than 256 KiB go to files without a name, which
//! end with the process.
//!
//! Invariants: [`BlobStore::get`] returns exactly the stored bytes, or `None`. A missing, damaged or forged
//! blob is `None` and never an error that stops a session. An id that is not 64 hex digits is ignored,
//! because it may come from an edited file and would become a path.
//!
//! Deletes no blob: a session's blobs are deleted with its folder.

mod named;
mod writer;

pub use named::named_by;
pub use writer::BlobWriter;

use crate::store::{FromStart, Io, OpenMode, layout, write_all};
use becket_types::{BlobId, Blobs, hex};
use sha2::{Digest, Sha256};
use std::collections::{BTreeSet, HashMap};
use std::fs;
use std::io::{self, Read};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use writer::{BlobTarget, MOST_IN_MEMORY, Sink, nameless, read_nameless};

/// Maximum unpacked size in bytes. A frame that claims more is not unpacked.
const MAX_BLOB: u64 = 2 << 30;
const LEVEL: i32 = 3;
/// Size in bytes of the buffer for reading a stream.
const BUFFER: usize = 64 * 1024;
const TEMP: &str = ".tmp-";

/// The blobs of one session, shared by tools that run in parallel.
#[derive(Debug)]
pub struct BlobStore {
    /// Folder of the blobs; `None`: everything stays in memory.
    dir: Option<PathBuf>,
    /// Second folder to read from: for a fork in memory, the blobs of the session that it was forked from.
    also: Option<PathBuf>,
    io: Arc<dyn Io>,
    state: Mutex<State>,
    temp: AtomicU64,
    /// True once the name of the `blobs` folder itself is durable, that is, once its parent folder was synced.
    is_dir_synced: AtomicBool,
}

#[derive(Debug, Default)]
struct State {
    /// Compressed blobs that are not in the folder.
    memory: HashMap<BlobId, Vec<u8>>,
    /// Long compressed blobs of a session that is not saved: each with its file without a name and its length in bytes.
    nameless: HashMap<BlobId, (Arc<fs::File>, usize)>,
    /// Files written since the last [`BlobStore::sync`].
    unsynced: Vec<PathBuf>,
    /// True if names were added to the folder since it was last synced.
    has_unsynced_names: bool,
    failing: bool,
    warnings: Vec<String>,
}

impl State {
    fn note_written(&mut self, path: PathBuf) {
        self.unsynced.push(path);
        self.has_unsynced_names = true;
    }
}

impl BlobStore {
    /// Opens the blobs in a session's folder. The folder is created with the first blob.
    pub fn on_disk(io: Arc<dyn Io>, session_dir: &Path) -> Self {
        Self::new(io, Some(session_dir.join(layout::BLOBS)), None)
    }

    /// Makes a store that is kept only in memory. `also`: a session's folder to read from.
    pub fn in_memory(io: Arc<dyn Io>, also: Option<&Path>) -> Self {
        Self::new(io, None, also.map(|dir| dir.join(layout::BLOBS)))
    }

    fn new(io: Arc<dyn Io>, dir: Option<PathBuf>, also: Option<PathBuf>) -> Self {
        Self {
            dir,
            also,
            io,
            state: Mutex::default(),
            temp: AtomicU64::new(0),
            is_dir_synced: AtomicBool::new(false),
        }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Stores `bytes` and returns their id. Never fails: blobs that the disk refuses are kept in memory; see
    /// [`BlobStore::take_warnings`].
    pub fn put(&self, bytes: &[u8]) -> BlobId {
        let id = id_of(bytes);
        if self.get(&id).is_some() {
            return id;
        }
        // Compression in memory fails only if memory is exhausted. The empty fallback is not a valid frame,
        // so it is never returned as content.
        let packed = zstd::bulk::compress(bytes, LEVEL).unwrap_or_default();
        if let Err((packed, error)) = self.write(&id, packed) {
            self.keep_in_memory(id.clone(), packed, error);
        }
        id
    }

    /// Like [`BlobStore::put`], for bytes from a reader. They are hashed and compressed on their way to disk and are never in memory as a
    /// whole. If the disk refuses a write, the compressed bytes are kept in memory from then on.
    ///
    /// # Errors
    ///
    /// Fails if `reader` fails, or if the disk cannot return the part it took before it refused more. Nothing
    /// is stored then.
    pub fn put_from(&self, reader: &mut dyn Read) -> io::Result<BlobId> {
        let mut writer = self.writer()?;
        let mut buffer = vec![0; BUFFER];
        loop {
            match reader.read(&mut buffer) {
                Ok(0) => return self.keep(writer),
                Ok(n) => writer.write(buffer.get(..n).unwrap_or_default())?,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
    }

    /// Begins a blob whose id is known only after its last byte. [`BlobStore::keep`] stores it; a writer that is dropped leaves
    /// nothing.
    ///
    /// # Errors
    ///
    /// Fails if there is no memory for the compression. A disk that refuses is no error: the bytes stay in memory.
    pub fn writer(&self) -> io::Result<BlobWriter> {
        let Some(dir) = &self.dir else { return BlobWriter::new(Sink::in_memory(&self.io, None)) };
        let temp = self.temp_in(dir);
        let opened = self.io.create_dir(dir).and_then(|()| self.io.open(&temp, OpenMode::Fresh));
        BlobWriter::new(match opened {
            Ok(file) => Sink::on_disk(&self.io, file, temp),
            Err(error) => Sink::in_memory(&self.io, Some(error)),
        })
    }

    /// Stores a finished blob, and returns its id.
    ///
    /// # Errors
    ///
    /// Fails if the disk refused a write, and the bytes that it already has cannot be read back. Nothing is stored then.
    pub fn keep(&self, writer: BlobWriter) -> io::Result<BlobId> {
        let (id, sink) = writer.finish()?;
        let (place, refused) = sink.into_parts();
        match place {
            BlobTarget::Memory(packed) => self.keep_in_memory(id.clone(), packed, refused),
            BlobTarget::Nameless { file, len } => {
                self.state().nameless.insert(id.clone(), (Arc::new(file), len));
            }
            BlobTarget::Disk { file, temp, .. } => {
                drop(file);
                let path = temp.with_file_name(file_name(&id));
                match self.io.rename(&temp, &path) {
                    Ok(()) => self.state().note_written(path),
                    Err(error) => {
                        let packed = self.io.read(&temp);
                        let _ = self.io.remove(&temp);
                        self.keep_in_memory(id.clone(), packed?, Some(error));
                    }
                }
            }
        }
        Ok(id)
    }

    /// Keeps a blob in memory. `error`: the reason why it is not on disk, if it should be there. `None`: the session is not saved.
    fn keep_in_memory(&self, id: BlobId, packed: Vec<u8>, error: Option<io::Error>) {
        if error.is_none()
            && packed.len() > MOST_IN_MEMORY
            && let Ok(file) = nameless(self.io.as_ref(), &packed)
        {
            self.state().nameless.insert(id, (Arc::new(file), packed.len()));
            return;
        }
        let mut state = self.state();
        state.memory.insert(id, packed);
        if let Some(error) = error
            && !std::mem::replace(&mut state.failing, true)
        {
            state.warnings.push(format!(
                "Cannot save an output of this session: {error}. It is kept in memory with everything after it, and saved as \
                 soon as writing works again; free some space or make the directory writable before you leave."
            ));
        }
    }

    fn nameless(&self, id: &BlobId) -> Option<(Arc<fs::File>, usize)> {
        self.state().nameless.get(id).cloned()
    }

    fn temp_in(&self, dir: &Path) -> PathBuf {
        dir.join(format!("{TEMP}{}", self.temp.fetch_add(1, Ordering::Relaxed)))
    }

    /// Writes blobs that the disk refused earlier. Returns true if nothing is waiting any longer.
    pub fn flush(&self) -> bool {
        if self.dir.is_none() {
            return true;
        }
        let waiting: Vec<BlobId> = self.state().memory.keys().cloned().collect();
        for id in waiting {
            let Some(packed) = self.state().memory.get(&id).cloned() else { continue };
            if self.write(&id, packed).is_err() {
                return false;
            }
            self.state().memory.remove(&id);
        }
        self.state().failing = false;
        true
    }

    /// True if one of these blobs should be on disk and is not, because the disk refused it.
    pub(crate) fn waits_for(&self, ids: &BTreeSet<BlobId>) -> bool {
        let state = self.state();
        self.dir.is_some() && ids.iter().any(|id| state.memory.contains_key(id))
    }

    /// Makes every blob written so far durable. Called before an entry that may name them is synced to disk.
    pub fn sync(&self) {
        let Some(dir) = &self.dir else { return };
        let (mut owed, names_owed) = {
            let mut state = self.state();
            (std::mem::take(&mut state.unsynced), std::mem::take(&mut state.has_unsynced_names))
        };
        if owed.is_empty() && !names_owed {
            return;
        }
        owed.retain(|path| {
            self.io.open(path, OpenMode::Append).and_then(|file| self.io.sync(&file)).is_err()
        });
        // The first blob may be written long after the session's folder was synced. So the parent is synced once more for the name of the
        // `blobs` folder.
        let named = self.io.sync_dir(dir).and_then(|()| match dir.parent() {
            Some(session) if !self.is_dir_synced.load(Ordering::Relaxed) => self.io.sync_dir(session),
            _ => Ok(()),
        });
        self.is_dir_synced.fetch_or(named.is_ok(), Ordering::Relaxed);
        let mut state = self.state();
        state.unsynced.append(&mut owed);
        state.has_unsynced_names |= named.is_err();
    }

    /// Returns the warnings for the user since the last call.
    pub fn take_warnings(&self) -> Vec<String> {
        std::mem::take(&mut self.state().warnings)
    }

    /// Copies all blobs from the session folder `source`, as hard links if the disk supports them. Returns
    /// the number of blobs that could not be copied.
    pub(crate) fn adopt(&self, source: &Path) -> usize {
        let Some(dir) = &self.dir else { return 0 };
        let Ok(listing) = fs::read_dir(source.join(layout::BLOBS)) else { return 0 };
        let mut failed = 0;
        for entry in listing.flatten() {
            let name = entry.file_name();
            if blob_name(&name.to_string_lossy()).is_none() {
                continue;
            }
            let linked = self.io.create_dir(dir).and_then(|()| self.io.link(&entry.path(), &dir.join(&name)));
            match linked {
                Ok(()) => self.state().has_unsynced_names = true,
                Err(_) => failed += 1,
            }
        }
        failed
    }

    /// Removes temporary files of a process that died while writing a blob. Only the session's writer may
    /// call this.
    pub(crate) fn sweep(&self) {
        let Some(listing) = self.dir.as_ref().and_then(|dir| fs::read_dir(dir).ok()) else { return };
        for entry in listing.flatten() {
            if entry.file_name().to_string_lossy().starts_with(TEMP) {
                // If removing fails, the file stays. It does no harm.
                let _ = self.io.remove(&entry.path());
            }
        }
    }

    /// Writes a blob.
    ///
    /// # Errors
    ///
    /// Returns the compressed bytes if they are not on disk, with the reason if there is one.
    fn write(&self, id: &BlobId, packed: Vec<u8>) -> Result<(), (Vec<u8>, Option<io::Error>)> {
        let Some(dir) = &self.dir else { return Err((packed, None)) };
        let temp = self.temp_in(dir);
        let path = dir.join(file_name(id));
        let written = self.io.create_dir(dir).and_then(|()| {
            let file = self.io.open(&temp, OpenMode::Fresh)?;
            write_all(self.io.as_ref(), &file, &packed)?;
            drop(file);
            self.io.rename(&temp, &path)
        });
        match written {
            Ok(()) => {
                self.state().note_written(path);
                Ok(())
            }
            Err(error) => {
                let _ = self.io.remove(&temp);
                Err((packed, Some(error)))
            }
        }
    }
}

impl Blobs for BlobStore {
    fn get(&self, id: &BlobId) -> Option<Vec<u8>> {
        if !is_id(id.as_str()) {
            return None;
        }
        if let Some(packed) = self.state().memory.get(id).cloned() {
            return unpack(&packed, id);
        }
        if let Some((file, len)) = self.nameless(id) {
            return unpack(&read_nameless(&file, len).ok()?, id);
        }
        [&self.dir, &self.also]
            .into_iter()
            .flatten()
            .find_map(|dir| unpack(&self.io.read(&dir.join(file_name(id))).ok()?, id))
    }

    /// Opens a blob for reading. It is read twice: first to check that it is whole, and then for the caller.
    fn read(&self, id: &BlobId) -> Option<Box<dyn Read + Send>> {
        if !is_id(id.as_str()) {
            return None;
        }
        let in_memory = self.state().memory.get(id).map(|packed| Arc::<[u8]>::from(packed.as_slice()));
        if let Some(packed) = in_memory {
            return stream(id, || Some(io::Cursor::new(Arc::clone(&packed))));
        }
        if let Some((file, len)) = self.nameless(id) {
            return stream(id, || Some(FromStart { file: file.try_clone().ok()?, at: 0 }.take(len as u64)));
        }
        [&self.dir, &self.also]
            .into_iter()
            .flatten()
            .find_map(|dir| stream(id, || self.io.open(&dir.join(file_name(id)), OpenMode::Read).ok()))
    }
}

/// Opens the unpacked bytes of a blob. `None` if they do not match its id.
fn stream<R: Read + Send + 'static>(
    id: &BlobId,
    open: impl Fn() -> Option<R>,
) -> Option<Box<dyn Read + Send>> {
    if !is_packed(open()?, id.as_str()) {
        return None;
    }
    let decoder = zstd::stream::read::Decoder::new(open()?).ok()?;
    Some(Box::new(decoder.take(MAX_BLOB)))
}

/// Returns the id of these bytes, which is the same in every session.
pub fn id_of(bytes: &[u8]) -> BlobId {
    BlobId(hex(&Sha256::digest(bytes)))
}

/// Returns the file names of blobs in a session whose content does not match their name.
pub fn damaged(session_dir: &Path) -> Vec<String> {
    let Ok(listing) = fs::read_dir(session_dir.join(layout::BLOBS)) else { return Vec::new() };
    let mut found: Vec<String> = listing
        .flatten()
        .filter_map(|entry| {
            let name = entry.file_name().to_string_lossy().into_owned();
            let id = BlobId(blob_name(&name)?.to_owned());
            fs::read(entry.path()).ok().and_then(|packed| unpack(&packed, &id)).is_none().then_some(name)
        })
        .collect();
    found.sort();
    found
}

/// Returns those of the blobs that are not in the session's folder.
pub fn missing<'a>(session_dir: &Path, ids: impl Iterator<Item = &'a BlobId>) -> Vec<&'a BlobId> {
    let dir = session_dir.join(layout::BLOBS);
    ids.filter(|id| is_id(id.as_str()) && !dir.join(file_name(id)).is_file()).collect()
}

fn file_name(id: &BlobId) -> String {
    format!("{id}.zst")
}

fn blob_name(file: &str) -> Option<&str> {
    file.strip_suffix(".zst").filter(|id| is_id(id))
}

fn is_id(id: &str) -> bool {
    id.len() == 64 && id.bytes().all(|b| b.is_ascii_digit() || (b'a'..=b'f').contains(&b))
}

/// True if these are the compressed bytes of the blob with this id. Uses only a small buffer, regardless of
/// the uncompressed size.
pub(crate) fn is_packed(packed: impl Read, id: &str) -> bool {
    let Ok(decoder) = zstd::stream::read::Decoder::new(packed) else { return false };
    let (mut bytes, mut hash, mut buffer) = (decoder.take(MAX_BLOB + 1), Sha256::new(), vec![0; BUFFER]);
    loop {
        match bytes.read(&mut buffer) {
            Ok(0) => return bytes.limit() > 0 && hex(&hash.finalize()) == id,
            Ok(n) => hash.update(buffer.get(..n).unwrap_or_default()),
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(_) => return false,
        }
    }
}

fn unpack(packed: &[u8], id: &BlobId) -> Option<Vec<u8>> {
    let mut bytes = Vec::new();
    zstd::stream::read::Decoder::new(packed).ok()?.take(MAX_BLOB).read_to_end(&mut bytes).ok()?;
    (id_of(&bytes) == *id).then_some(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::store::Disk;

    fn store(dir: &Path) -> BlobStore {
        BlobStore::on_disk(Arc::new(Disk), dir)
    }

    #[test]
    fn the_same_bytes_are_kept_once_and_come_back() {
        let dir = tempfile::tempdir().unwrap();
        let blobs = store(dir.path());
        let bytes = b"hello ".repeat(10_000);
        let id = blobs.put(&bytes);
        assert_eq!(blobs.put(&bytes), id);
        assert_eq!(store(dir.path()).get(&id), Some(bytes));
        let packed = fs::read(dir.path().join("blobs").join(file_name(&id))).unwrap();
        assert!(is_packed(packed.as_slice(), id.as_str()));
        for other in [&packed[..packed.len() - 1], b"", b"no zstd"] {
            assert!(!is_packed(other, id.as_str()));
        }
        assert!(!is_packed(packed.as_slice(), &"0".repeat(64)));
        let names: Vec<_> =
            fs::read_dir(dir.path().join("blobs")).unwrap().map(|e| e.unwrap().file_name()).collect();
        assert_eq!(names, [std::ffi::OsString::from(format!("{id}.zst"))]);
        assert_eq!(blobs.get(&blobs.put(b"")), Some(Vec::new()));
    }

    #[test]
    fn a_missing_damaged_or_forged_blob_is_none_and_putting_it_again_heals_it() {
        let dir = tempfile::tempdir().unwrap();
        let blobs = store(dir.path());
        let id = blobs.put(b"some bytes that are long enough to be packed, packed, packed");
        let path = dir.path().join("blobs").join(file_name(&id));
        let good = fs::read(&path).unwrap();
        for bad in
            [&b""[..], b"not zstd", &good[..good.len() / 2], &zstd::bulk::compress(b"other", 3).unwrap()]
        {
            fs::write(&path, bad).unwrap();
            assert_eq!(blobs.get(&id), None);
        }
        blobs.put(b"some bytes that are long enough to be packed, packed, packed");
        assert_eq!(fs::read(&path).unwrap(), good);
        for forged in ["../ledger", "", "0", &"g".repeat(64), &"A".repeat(64)] {
            assert_eq!(blobs.get(&BlobId(forged.to_owned())), None);
        }
        assert_eq!(blobs.get(&id_of(b"never put")), None);
    }

    #[test]
    fn without_a_usable_folder_blobs_stand_in_memory() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("file");
        fs::write(&file, "in the way").unwrap();
        let blobs = store(&file);
        let id = blobs.put(b"x");
        blobs.put(b"y");
        assert_eq!(blobs.get(&id), Some(b"x".to_vec()));
        assert_eq!(blobs.take_warnings().len(), 1);
        assert!(!blobs.flush());
        fs::remove_file(&file).unwrap();
        assert!(blobs.flush());
        assert_eq!(store(&file).get(&id), Some(b"x".to_vec()));

        let memory = BlobStore::in_memory(Arc::new(Disk), Some(&file));
        assert_eq!(memory.get(&id), Some(b"x".to_vec()));
        let own = memory.put(b"z");
        assert_eq!(memory.get(&own), Some(b"z".to_vec()));
        assert!(memory.take_warnings().is_empty());
    }

    #[test]
    fn a_stream_has_the_name_of_its_bytes_wherever_it_ends_up() {
        let dir = tempfile::tempdir().unwrap();
        let blobs = store(dir.path());
        for bytes in [Vec::new(), b"short".to_vec(), b"0123456789abcdef ".repeat(40_000)] {
            let id = blobs.put_from(&mut bytes.as_slice()).unwrap();
            assert_eq!(id, id_of(&bytes));
            assert_eq!(blobs.put(&bytes), id);
            assert_eq!(store(dir.path()).get(&id), Some(bytes.clone()));
            let memory = BlobStore::in_memory(Arc::new(Disk), None);
            assert_eq!(memory.put_from(&mut bytes.as_slice()).unwrap(), id);
            assert_eq!(memory.get(&id), Some(bytes));
            assert!(memory.take_warnings().is_empty());
        }
        // Writing a stream also replaces a damaged blob and leaves no temporary file.
        let id = id_of(b"short");
        fs::write(dir.path().join("blobs").join(file_name(&id)), "damaged").unwrap();
        blobs.put_from(&mut &b"short"[..]).unwrap();
        assert_eq!(blobs.get(&id), Some(b"short".to_vec()));
        assert_eq!(fs::read_dir(dir.path().join("blobs")).unwrap().count(), 3);
    }

    #[test]
    fn a_blob_is_read_as_a_stream_if_it_is_whole() {
        let dir = tempfile::tempdir().unwrap();
        let (blobs, memory) = (store(dir.path()), BlobStore::in_memory(Arc::new(Disk), None));
        let bytes = b"0123456789abcdef ".repeat(40_000);
        for blobs in [&blobs, &memory] {
            let mut writer = blobs.writer().unwrap();
            bytes.chunks(777).for_each(|chunk| writer.write(chunk).unwrap());
            assert_eq!(writer.len(), bytes.len() as u64);
            let id = blobs.keep(writer).unwrap();
            assert_eq!(id, id_of(&bytes));
            let mut read = Vec::new();
            blobs.read(&id).unwrap().read_to_end(&mut read).unwrap();
            assert!(read == bytes);
            // A writer that is given up leaves nothing.
            drop(blobs.writer().unwrap());
        }
        assert_eq!(fs::read_dir(dir.path().join("blobs")).unwrap().count(), 1);
        let path = dir.path().join("blobs").join(file_name(&id_of(&bytes)));
        let good = fs::read(&path).unwrap();
        for bad in [&good[..good.len() / 2], &zstd::bulk::compress(b"other", 3).unwrap()] {
            fs::write(&path, bad).unwrap();
            assert!(blobs.read(&id_of(&bytes)).is_none());
        }
        assert!(blobs.read(&BlobId("../ledger".to_owned())).is_none());
    }

    #[test]
    fn a_stream_that_breaks_is_an_error_and_leaves_nothing() {
        struct Broken(usize);
        impl Read for Broken {
            fn read(&mut self, buf: &mut [u8]) -> io::Result<usize> {
                self.0 = self.0.checked_sub(1).ok_or(io::ErrorKind::BrokenPipe)?;
                buf.fill(b'x');
                Ok(buf.len())
            }
        }
        let dir = tempfile::tempdir().unwrap();
        let error = store(dir.path()).put_from(&mut Broken(20)).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::BrokenPipe);
        assert_eq!(fs::read_dir(dir.path().join("blobs")).unwrap().count(), 0);
    }

    #[test]
    fn leftovers_of_a_crash_are_swept() {
        let dir = tempfile::tempdir().unwrap();
        let blobs = store(dir.path());
        let id = blobs.put(b"x");
        fs::write(dir.path().join("blobs/.tmp-0"), "half").unwrap();
        blobs.sweep();
        assert_eq!(fs::read_dir(dir.path().join("blobs")).unwrap().count(), 1);
        assert_eq!(blobs.get(&id), Some(b"x".to_vec()));
    }
}
