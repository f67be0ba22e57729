//! A session: ledger, blobs and view together.
//!
//! [`Session::append`] gives entries their sequence numbers and time, commits them, and passes them to the
//! view. Opening passes the ledger to the view line by line: all of it, or the part after the last
//! checkpoint. So the view always corresponds to the ledger.
//!
//! Invariants: a commit is in the ledger, or in its queue for the disk, before the view sees it. A blob is on disk before an entry that
//! names it is written. Opening changes nothing in a sound session.
//!
//! Decides nothing about the conversation; that belongs to the context engine and the agent.

mod checkpoint;
mod damage;
mod info;
mod label;
mod saving;
mod snapshot;
mod storable;

pub(crate) use info::FORMAT;
pub use info::SessionInfo;
pub use label::SessionLabel;
pub use snapshot::{History, Snapshot};

use crate::blobs::BlobStore;
use crate::context::{ModelScope, Policy, View, input};
use crate::history_search::HistorySearch;
use crate::ledger::{AnyReader, BadRecord, Item, Ledger, line};
use crate::store::{Durability, Outside, StoreError, layout, refuse_elsewhere};
use becket_types::{BlobId, Blobs, CallId, Entry, EntryKind, Millis, Seq, SessionId, SubagentOf};
use damage::damage_notices;
use info::{info_or_unknown, refuse_newer};
use serde_json::{Map, Value};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use storable::{MAX_DEPTH, flattened, holds_values, make_paths_unicode};

/// Options for a new session.
#[derive(Clone, Debug, Default)]
pub struct CreateOptions {
    /// Id of the session; `None`: a new one.
    pub id: Option<SessionId>,
    /// Version of becket, recorded as the creator of the session.
    pub version: String,
    /// For a fork: the session that it is copied from, and the last copied entry.
    pub forked_from: Option<(SessionId, Seq)>,
    /// False: the session is kept in memory and nothing is written to disk.
    pub persist: bool,
    /// Further keys for the first entry, such as the front end that created the session.
    pub extra: Map<String, Value>,
    pub outside: Outside,
}

/// A session as read by [`Session::peek`].
#[derive(Debug)]
pub struct Peek {
    pub info: SessionInfo,
    pub title: Option<String>,
    pub view: View,
    /// Damaged records. If another process is writing, the last one may be a line that is not complete yet.
    pub bad: Vec<BadRecord>,
    /// Notices for the user, as sentences.
    pub notices: Vec<String>,
    pub blobs: Arc<BlobStore>,
}

/// A session open for writing.
#[derive(Debug)]
pub struct Session {
    info: SessionInfo,
    dir: PathBuf,
    ledger: Ledger,
    blobs: Arc<BlobStore>,
    view: View,
    title: Option<String>,
    outside: Outside,
    notices: Vec<String>,
    checkpoint: checkpoint::Progress,
}

impl Session {
    /// Creates a session of the project `cwd` below `root`, with its first entry.
    ///
    /// If the folder cannot be written, the session is kept in memory, and [`Session::take_notices`] says so.
    ///
    /// # Errors
    ///
    /// Returns [`StoreError::Exists`] or [`StoreError::Locked`] if the id is taken, in this project or another one.
    pub fn create(
        root: &Path,
        cwd: &Path,
        options: CreateOptions,
        policy: Policy,
        scope: ModelScope,
    ) -> Result<Self, StoreError> {
        let CreateOptions { id, version, forked_from, persist, extra, outside } = options;
        // An id names one session, whatever its project is. An id made here is new.
        if let Some(id) = id.filter(|_| persist) {
            refuse_elsewhere(root, &layout::project_dir(root, cwd), id)?;
        }
        let id = id.unwrap_or_default();
        let dir = layout::session_dir(root, cwd, id);
        let info = SessionInfo { id, format: FORMAT, version, cwd: cwd.to_path_buf(), forked_from, extra };
        let first = Entry { seq: Seq(1), time: (outside.clock)(), kind: info.entry() };
        let mut ledger = if persist {
            Ledger::create(Arc::clone(&outside.io), &dir, std::slice::from_ref(&first))?
        } else {
            Ledger::memory()
        };
        let blobs = if persist {
            BlobStore::on_disk(Arc::clone(&outside.io), &dir)
        } else {
            ledger.append(std::slice::from_ref(&first), Durability::Buffered)?;
            BlobStore::in_memory(Arc::clone(&outside.io), None)
        };
        let mut view = View::new(policy, scope);
        view.apply(&first);
        let blobs = Arc::new(blobs);
        Ok(Self {
            info,
            dir,
            ledger,
            blobs,
            view,
            title: None,
            outside,
            notices: Vec::new(),
            checkpoint: checkpoint::Progress::default(),
        })
    }

    /// Opens the session in this folder for writing and computes its view.
    ///
    /// # Errors
    ///
    /// Returns [`StoreError::Locked`] if another process writes it, [`StoreError::Newer`],
    /// [`StoreError::NotFound`], or [`StoreError::Io`] if the ledger cannot be read. Damage is not an error:
    /// it is skipped, with a notice.
    pub fn open(session_dir: &Path, policy: Policy, scope: ModelScope) -> Result<Self, StoreError> {
        Self::open_with(session_dir, policy, scope, Outside::default())
    }

    /// Like [`Session::open`], with the caller's disk and clock.
    ///
    /// # Errors
    ///
    /// Returns the errors of [`Session::open`].
    pub fn open_with(
        session_dir: &Path,
        policy: Policy,
        scope: ModelScope,
        outside: Outside,
    ) -> Result<Self, StoreError> {
        refuse_newer(session_dir)?;
        let found = checkpoint::read(outside.io.as_ref(), session_dir);
        let restored = found.and_then(|(saved, progress)| {
            let (info, end, title) = (saved.info(), saved.end(), saved.title);
            let view = View::restore(policy.clone(), scope.clone(), saved.view)?;
            Some((view, info, title, Some(end), progress))
        });
        let (mut view, mut info, mut title, end, progress) = restored
            .unwrap_or_else(|| (View::new(policy, scope), None, None, None, checkpoint::Progress::default()));
        let opened = Ledger::open_after(Arc::clone(&outside.io), session_dir, end, &mut |entry| {
            if info.is_none() {
                info = SessionInfo::from_entry(entry);
            }
            if let EntryKind::Title { title: new } = &entry.kind {
                title = Some(new.clone());
            }
            view.apply(entry);
            view.let_go(View::UNDO_ROOM);
        })?;
        let mut notices = damage_notices(&opened.bad);
        let info = info_or_unknown(info, session_dir, &mut notices);
        let blobs = Arc::new(BlobStore::on_disk(Arc::clone(&outside.io), session_dir));
        blobs.sweep();
        let mut session = Self {
            info,
            dir: session_dir.to_path_buf(),
            ledger: opened.ledger,
            blobs,
            view,
            title,
            outside,
            notices,
            checkpoint: progress,
        };
        session.refold_if_stale()?;
        Ok(session)
    }

    /// Reads the session in this folder without opening it for writing, even if another process has it open. Changes nothing, and leaves an
    /// incomplete end of the ledger in place.
    ///
    /// # Errors
    ///
    /// Returns [`StoreError::NotFound`], or [`StoreError::Io`] if the ledger cannot be read.
    pub fn peek(session_dir: &Path, policy: Policy, scope: ModelScope) -> Result<Peek, StoreError> {
        let mut view = View::new(policy, scope);
        let (mut info, mut title, mut bad) = (None, None, Vec::new());
        for item in crate::ledger::read(session_dir)? {
            match item.map_err(StoreError::io("read", session_dir))? {
                Item::Bad(record) => bad.push(record),
                Item::Commit(entries) => {
                    for entry in &entries {
                        info = info.or_else(|| SessionInfo::from_entry(entry));
                        if let EntryKind::Title { title: new } = &entry.kind {
                            title = Some(new.clone());
                        }
                        view.apply(entry);
                    }
                }
            }
        }
        let mut notices = damage_notices(&bad);
        let info = info_or_unknown(info, session_dir, &mut notices);
        let blobs = Arc::new(BlobStore::in_memory(Outside::default().io, Some(session_dir)));
        Ok(Peek { info, title, view, bad, notices, blobs })
    }

    /// Creates a session that begins with the entries of the session in `source` up to `upto` (all if
    /// `None`), byte for byte and with the same numbers. `source` may be open elsewhere; it is not changed.
    ///
    /// # Errors
    ///
    /// Returns the errors of [`Session::create`], and [`StoreError::NotFound`] if `source` has no ledger.
    pub fn fork(
        source: &Path,
        upto: Option<Seq>,
        root: &Path,
        cwd: &Path,
        mut options: CreateOptions,
        policy: Policy,
        scope: ModelScope,
    ) -> Result<Self, StoreError> {
        refuse_newer(source)?;
        let limit = upto.unwrap_or(Seq(u64::MAX));
        let persist = options.persist;
        let mut reader = crate::ledger::read(source)?;
        let origin = layout::id_of(source).unwrap_or_default();
        let last = last_seq_upto(source, limit)?;
        options.forked_from = Some((origin, last));
        let mut session = Self::create(root, cwd, options, policy, scope)?;
        while let Some(item) = reader.next_item().map_err(StoreError::io("read", source))? {
            let Item::Commit(entries) = item else { continue };
            let raw = reader.raw_entries();
            let mut kept = Vec::new();
            let mut end = Seq(0);
            for (entry, raw) in entries.iter().zip(raw) {
                // The first entry of the source is not copied: the new session has its own, with the number 1.
                if entry.seq > Seq(1) && entry.seq <= limit {
                    kept.push(raw);
                    end = entry.seq;
                    session.note(entry);
                    session.view.apply(entry);
                }
            }
            session.ledger.append_raw(&kept, end)?;
        }
        if persist {
            let failed = session.blobs.adopt(source);
            if failed > 0 {
                session
                    .notices
                    .push(format!("{failed} outputs and images could not be taken over into the fork."));
            }
        } else {
            session.blobs = Arc::new(BlobStore::in_memory(Arc::clone(&session.outside.io), Some(source)));
        }
        session.refold_if_stale()?;
        session.keep_checkpoint();
        Ok(session)
    }

    /// Creates a session for a subagent that works for a call of this session: in the same project and
    /// directory, and on disk if this session is.
    ///
    /// # Errors
    ///
    /// Returns the errors of [`Session::create`].
    pub fn for_subagent(&self, call_id: CallId, agent: &str, scope: ModelScope) -> Result<Self, StoreError> {
        let of = SubagentOf { session: self.info.id, call_id, agent: agent.to_owned() };
        let extra = Map::from_iter([(SubagentOf::KEY.to_owned(), serde_json::json!(of))]);
        let options = CreateOptions {
            version: self.info.version.clone(),
            persist: self.is_persistent(),
            extra,
            outside: self.outside.clone(),
            ..CreateOptions::default()
        };
        let root = self.dir.parent().and_then(Path::parent).unwrap_or(&self.dir);
        Self::create(root, &self.info.cwd, options, self.view.policy().clone(), scope)
    }

    /// Appends one commit and passes it to the view. Returns the new sequence numbers in order; each message gets its own in `seq`.
    ///
    /// # Errors
    ///
    /// Fails for entries that cannot be written at all, and if another process took the session over ([`StoreError::TakenOver`]). In these
    /// cases nothing was appended. A failing disk is only a notice.
    pub fn append(&mut self, kinds: Vec<EntryKind>, durability: Durability) -> Result<Vec<Seq>, StoreError> {
        if kinds.is_empty() {
            return Ok(Vec::new());
        }
        let time = (self.outside.clock)();
        let mut seq = self.ledger.last_seq();
        let mut entries = Vec::with_capacity(kinds.len());
        for mut kind in kinds {
            seq = seq.next();
            make_paths_unicode(&mut kind);
            if let EntryKind::Message { message } = &mut kind {
                message.seq = seq;
            }
            entries.push(Entry { seq, time, kind });
        }
        let mut draft = self.ledger.draft(&entries)?;
        if entries.iter().any(|entry| holds_values(&entry.kind))
            && line::is_deeper(draft.entries(), MAX_DEPTH)
        {
            entries = entries.into_iter().map(flattened).collect();
            draft = self.ledger.draft(&entries)?;
            self.notices.push("A value nested more than 100 levels deep was kept as text.".to_owned());
        }
        saving::settle_blobs(self, &entries);
        if durability == Durability::Synced {
            self.blobs.sync();
        }
        self.ledger.append_draft(draft, seq, durability)?;
        let seqs = entries.iter().map(|entry| entry.seq).collect();
        let is_moment = checkpoint::ends_turn_or_compaction(&entries);
        for entry in entries {
            self.note(&entry);
            self.view.apply_owned(entry);
        }
        self.refold_if_stale()?;
        if is_moment {
            self.keep_checkpoint();
        }
        Ok(seqs)
    }

    /// Opens a session that was just written as a whole, and writes a checkpoint, so that opening a long one for the first time takes no
    /// longer than later. Failures are ignored.
    pub(crate) fn prepare(session_dir: &Path) {
        if let Ok(mut session) = Self::open(session_dir, Policy::reading(), ModelScope::no_model()) {
            session.keep_checkpoint();
        }
    }

    /// Writes a checkpoint if a compaction is in force and the ledger has grown enough since the last one ([`checkpoint::is_due`]).
    fn keep_checkpoint(&mut self) {
        if self.view.compaction().is_none() || !checkpoint::is_due(&self.ledger, self.checkpoint) {
            return;
        }
        let (io, view) = (self.outside.io.as_ref(), self.view.checkpoint());
        let written = checkpoint::write(io, &self.dir, &self.ledger, &self.info, self.title.as_deref(), view);
        self.checkpoint = written.unwrap_or_else(|| self.checkpoint.failed(&self.ledger));
    }

    fn note(&mut self, entry: &Entry) {
        if let EntryKind::Title { title } = &entry.kind {
            self.title = Some(title.clone());
        }
    }

    /// Computes the view again from the ledger if it needs messages that have left memory ([`View::stale`]).
    fn refold_if_stale(&mut self) -> Result<(), StoreError> {
        if !self.view.stale() {
            return Ok(());
        }
        let mut view = View::new(self.view.policy().clone(), self.view.scope().clone());
        let mut reader = self.ledger.read()?;
        while let Some(item) = reader.next_item().map_err(StoreError::io("read", &self.dir))? {
            if let Item::Commit(entries) = item {
                for entry in &entries {
                    view.apply(entry);
                }
            }
        }
        drop(reader);
        self.view = view;
        Ok(())
    }

    /// Returns the view of the session: its state, derived from all entries that were appended so far.
    pub fn view(&self) -> &View {
        &self.view
    }

    /// Returns the view for calls of `context`, `set_scope` and `take_notices` only. Entries must go through [`Session::append`].
    pub fn view_mut(&mut self) -> &mut View {
        &mut self.view
    }

    /// Returns the blobs for model adapters.
    pub fn blobs(&self) -> Arc<dyn Blobs> {
        Arc::clone(&self.blobs) as Arc<dyn Blobs>
    }

    /// Returns the blobs for tools, which store blobs in parallel.
    pub fn blob_store(&self) -> Arc<BlobStore> {
        Arc::clone(&self.blobs)
    }

    /// Stores bytes in the session's blob store. If the disk refuses, they wait in memory, with a notice.
    ///
    /// # Errors
    ///
    /// Never fails at present.
    pub fn put_blob(&self, bytes: &[u8]) -> Result<BlobId, StoreError> {
        Ok(self.blobs.put(bytes))
    }

    /// Returns the id of the session, which is also the name of its folder.
    pub fn id(&self) -> SessionId {
        self.info.id
    }

    /// Returns the folder of the session; for a session in memory, the folder that it would have.
    pub fn dir(&self) -> &Path {
        &self.dir
    }

    /// Returns the facts of the session's first entry, such as its folder and the version that created it.
    pub fn info(&self) -> &SessionInfo {
        &self.info
    }

    /// Returns the time that an entry appended now would get.
    pub fn now(&self) -> Millis {
        (self.outside.clock)()
    }

    /// Returns the newest title that was set.
    pub fn title(&self) -> Option<&str> {
        self.title.as_deref()
    }

    /// False if the session was created without persistence.
    pub fn is_persistent(&self) -> bool {
        self.ledger.is_persistent()
    }

    /// Returns the number of the last entry that was appended, also if it is still waiting for the disk.
    pub fn last_seq(&self) -> Seq {
        self.ledger.last_seq()
    }

    /// Returns the notices for the user since the last call, as sentences: storage first, then the view's.
    pub fn take_notices(&mut self) -> Vec<String> {
        let mut notices = std::mem::take(&mut self.notices);
        notices.extend(self.ledger.take_warnings());
        notices.extend(self.blobs.take_warnings());
        notices.extend(self.view.take_notices());
        notices
    }

    /// Returns the number of commits that are waiting for the disk.
    pub fn backlog(&self) -> usize {
        self.ledger.backlog()
    }

    /// Looks if this process may still write the session, and so act for it.
    ///
    /// # Errors
    ///
    /// Returns [`StoreError::TakenOver`] if another process has taken the session over.
    pub fn check_held(&mut self) -> Result<(), StoreError> {
        self.ledger.check_held()
    }

    /// True if commits are waiting for the disk, or were refused because another process has taken the session over.
    pub fn has_unsaved(&self) -> bool {
        self.backlog() > 0 || self.ledger.is_taken_over()
    }

    /// Tries again to write everything that waits for the disk. Returns true if nothing is waiting, and nothing was
    /// refused. Call it before exiting.
    pub fn flush(&mut self) -> bool {
        let blobs = self.blobs.flush();
        if blobs {
            self.ledger.release();
        }
        self.ledger.flush() && blobs
    }

    /// Reads the ledger from its start, including commits that wait for the disk.
    ///
    /// # Errors
    ///
    /// Fails if the file cannot be opened.
    pub fn read(&self) -> Result<AnyReader<'_>, StoreError> {
        self.ledger.read()
    }

    /// Returns all entries in order. Unreadable entries are left out (use [`Session::read`] to see them).
    ///
    /// # Errors
    ///
    /// Fails if the file cannot be opened.
    pub fn entries(&self) -> Result<impl Iterator<Item = Entry> + '_, StoreError> {
        Ok(self.ledger.read()?.map_while(Result::ok).flat_map(|item| match item {
            Item::Commit(entries) => entries,
            Item::Bad(_) => Vec::new(),
        }))
    }

    /// Returns `(tool, output)` with the whole output of an earlier call, as the tool returned it: from memory, or from the ledger and the
    /// blobs. An id `input:ID` means the input of the call `ID`. `None` if there is none, or if it was reverted or manually dropped.
    ///
    /// May read the whole ledger. Callers that share the session behind a lock use
    /// [`Session::output_in_memory`] and [`HistorySearch::output`] instead.
    pub fn original_output(&self, call: &CallId) -> Option<(String, String)> {
        self.output_in_memory(call)
            .or_else(|| self.history_search().ok()?.output(self.output_place(call)?, call).ok()?)
    }

    /// Like [`Session::original_output`] without reading the ledger: `None` also if the output has left
    /// memory.
    pub fn output_in_memory(&self, call: &CallId) -> Option<(String, String)> {
        self.output_place(call)?;
        if let Some(call) = input::call_of(call) {
            return self
                .view
                .original_input(&call)
                .map(|(tool, value)| (tool.to_owned(), input::text(value)));
        }
        let (tool, output, spill) = self.view.original_output(call)?;
        Some((tool.to_owned(), self.spilled(spill).unwrap_or_else(|| output.to_owned())))
    }

    /// Returns the entry with the result of a call. `None` for reverted or manually dropped results.
    pub fn output_place(&self, call: &CallId) -> Option<Seq> {
        let seq = match input::call_of(call) {
            Some(call) => self.view.input_at(&call),
            None => self.view.output_at(call),
        };
        seq.filter(|seq| !self.view.is_reverted(*seq))
    }

    /// Returns the entry that an id for `recall` names: a message (`m12`: entry 12), or the result of a call. `None` if there is no such
    /// entry, or if it was reverted or manually dropped.
    pub fn place_of(&self, id: &str) -> Option<Seq> {
        let call = CallId::from(id);
        if self.view.output_at(&call).is_some() {
            return self.output_place(&call);
        }
        let seq = Seq(id.strip_prefix('m')?.parse().ok()?);
        (seq <= self.ledger.last_seq() && !self.view.is_reverted(seq)).then_some(seq)
    }

    /// Returns the history for a search, which may run while the session continues.
    ///
    /// # Errors
    ///
    /// Fails if the ledger cannot be opened.
    pub fn history_search(&self) -> Result<HistorySearch, StoreError> {
        Ok(HistorySearch::new(self.ledger.read_snapshot()?, &self.view, self.blobs()))
    }

    fn spilled(&self, spill: Option<&BlobId>) -> Option<String> {
        spill.and_then(|id| self.blobs.get(id)).map(|bytes| String::from_utf8_lossy(&bytes).into_owned())
    }
}

/// Returns the last entry of the ledger in `source` that is not after `limit`.
fn last_seq_upto(source: &Path, limit: Seq) -> Result<Seq, StoreError> {
    let mut last = Seq(0);
    for item in crate::ledger::read(source)? {
        let item: Item = item.map_err(|e: io::Error| StoreError::io("read", source)(e))?;
        if let Item::Commit(entries) = item {
            last = entries.iter().map(|e| e.seq).filter(|seq| *seq <= limit).fold(last, Seq::max);
        }
    }
    Ok(last)
}
