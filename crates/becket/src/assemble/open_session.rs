//! The session of a run: found, opened, copied or created.

use crate::cmd::{fork_title, newest, store_failure};
use crate::environment::Environment;
use crate::failure::Failure;
use crate::recorded_settings::RecordedSettings;
use crate::settings::{Fork, RunSettings, SessionChoice, policy};
use becket_session::context::{ModelScope, Policy};
use becket_session::store::{self, SessionSummary};
use becket_session::{CreateOptions, Durability, Session, StoreError, ledger};
use becket_types::{EntryKind, Seq, SessionId};
use std::path::{Path, PathBuf};

/// The session that the run continues, and the settings it keeps from earlier runs.
pub(super) struct ExistingSession {
    pub(super) remembered: RecordedSettings,
    from: SessionOrigin,
    /// A note for the user about how the session was found.
    pub(super) note: Option<String>,
}

/// The place of the earlier messages of a continued session.
#[derive(Debug)]
pub(crate) struct EarlierMessages {
    /// The folder of the session that holds them.
    pub(crate) dir: PathBuf,
    /// For a copy in memory, which has no folder: its source, and the last entry of the source that the copy has. The
    /// source holds the messages and may grow meanwhile.
    pub(crate) copy_of: Option<(SessionId, Seq)>,
}

impl EarlierMessages {
    /// All messages of the session in this folder.
    pub(crate) fn all(dir: &Path) -> Self {
        Self { dir: dir.to_owned(), copy_of: None }
    }

    /// The messages of a session that was copied from the one in `source`.
    fn of_copy(copy: &Session, source: PathBuf) -> Self {
        match copy.info().forked_from {
            Some(origin) if !copy.is_persistent() => Self { dir: source, copy_of: Some(origin) },
            _ => Self::all(copy.dir()),
        }
    }
}

#[expect(clippy::large_enum_variant, reason = "one value for a start, and it moves once")]
enum SessionOrigin {
    /// The session itself, open for writing.
    Opened(Box<Session>),
    /// A copy is to be made of this session.
    Copied(SessionSummary, Fork),
}

/// Finds the session to continue, and opens it unless a copy is wanted. The model is chosen later, so the scope of an
/// unknown model is used until then.
pub(super) fn existing(
    environment: &Environment,
    run: &RunSettings,
) -> Result<Option<ExistingSession>, Failure> {
    let root = environment.sessions_dir();
    let mut note = None;
    let (summary, fork) = match &run.session.choice {
        SessionChoice::New { .. } => return Ok(None),
        SessionChoice::Continue { fork } => {
            let found = newest(environment, &run.project.cwd)?.ok_or_else(|| {
                Failure::usage(format!("there is no session of {} to continue", run.project.cwd.display()))
                    .hint("becket sessions --all lists those of other directories")
            })?;
            note = found.note;
            (found.session, *fork)
        }
        SessionChoice::Resume { query, fork } => {
            let found = store::find(&root, query, Some(&run.project.cwd));
            let is_missing = matches!(found, Err(StoreError::NotFound { .. })) && run.session.persist;
            let imported =
                is_missing.then(|| crate::foreign_session::import(environment, &run.project.cwd, query));
            match imported.transpose()?.flatten() {
                Some((summary, why)) => {
                    note = why;
                    (summary, *fork)
                }
                None => (found.map_err(store_failure)?, *fork),
            }
        }
    };
    if let Some(fork) = fork {
        let remembered = RecordedSettings::from_ledger(&summary.dir);
        return Ok(Some(ExistingSession { remembered, from: SessionOrigin::Copied(summary, fork), note }));
    }
    let policy = policy(&run.settings.config);
    let scope = becket_agent::scope(&becket_model::catalog::lookup("unknown", "unknown"));
    let opened = match Session::open(&summary.dir, policy.clone(), scope.clone()) {
        Err(StoreError::Locked { .. }) if run.session.take_over => {
            ledger::take_over(store::Outside::default().io.as_ref(), &summary.dir)
                .and_then(|()| Session::open(&summary.dir, policy, scope))
        }
        opened => opened,
    };
    let session = opened.map_err(store_failure)?;
    let remembered = RecordedSettings::from_view(session.view());
    Ok(Some(ExistingSession { remembered, from: SessionOrigin::Opened(Box::new(session)), note }))
}

/// Opens or creates the session of the run. Returns its earlier messages as well if it existed before.
pub(super) fn session(
    environment: &Environment,
    run: &RunSettings,
    existing: Option<ExistingSession>,
    policy: Policy,
    scope: ModelScope,
) -> Result<(Session, Option<EarlierMessages>), Failure> {
    let root = environment.sessions_dir();
    let create = |id| CreateOptions {
        id,
        version: env!("CARGO_PKG_VERSION").to_owned(),
        persist: run.session.persist,
        ..CreateOptions::default()
    };
    match (existing.map(|existing| existing.from), &run.session.choice) {
        (Some(SessionOrigin::Opened(mut session)), _) => {
            session.view_mut().set_policy(policy);
            session.view_mut().set_scope(scope);
            let earlier = EarlierMessages::all(session.dir());
            Ok((*session, Some(earlier)))
        }
        (Some(SessionOrigin::Copied(summary, fork)), _) => {
            let upto =
                fork.at.map(|message| crate::resume_point::message_end(&summary.dir, message)).transpose()?;
            if let (Some(upto), Some(turn)) = (upto, fork.drops) {
                crate::resume_point::drops_only(&summary.dir, upto, turn)?;
            }
            let (source, cwd) = (&summary.dir, &run.project.cwd);
            let mut copy = Session::fork(source, upto, &root, cwd, create(fork.id), policy, scope)
                .map_err(store_failure)?;
            if run.session.persist && run.session.title.is_none() {
                // Two sessions of one name could not be told apart in lists, and not be resumed by it.
                let title = fork_title(&summary);
                copy.append(vec![EntryKind::Title { title }], Durability::Buffered).map_err(store_failure)?;
            }
            let earlier = EarlierMessages::of_copy(&copy, summary.dir);
            Ok((copy, Some(earlier)))
        }
        (None, SessionChoice::New { id }) => {
            Session::create(&root, &run.project.cwd, create(*id), policy, scope)
                .map(|s| (s, None))
                .map_err(store_failure)
        }
        (None, _) => Err(Failure::error("a session was chosen and not found")),
    }
}
