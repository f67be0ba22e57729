//! Opens the models of a run: the one of the session, its fallbacks, and those for summaries, titles and subagents.
//! Records them all with `--record`, and plays them back with `replay:FILE`.
//!
//! A model that has no key or no address does not prevent the run if another one can take its place; the user gets a note. Every other
//! mistake in a model's name ends the start.

use crate::environment::Environment;
use crate::failure::Failure;
use crate::model_names::FoundModel;
use crate::models;
use crate::no_model::NoModel;
use crate::settings::RunSettings;
use becket_agent::Auxiliary;
use becket_model::{ErrorKind, Model, ModelError, ModelRef, Recording, RecordingHead, Settings, Tape};
use std::io::Write;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// The models of a run.
pub(crate) struct ChosenModels {
    pub reference: ModelRef,
    pub model: Arc<dyn Model>,
    pub fallbacks: Vec<Arc<dyn Model>>,
    pub auxiliary: Auxiliary,
    /// The file that `--record` writes.
    pub tape: Option<Tape>,
    /// The date of the recording that is played back. The prompt names this date, because it is part of the requests.
    pub date: Option<String>,
    pub notes: Vec<String>,
}

/// Opens the models of a run.
///
/// # Errors
///
/// Returns a failure for the user if no model can be opened, or if a name is wrong.
pub(crate) async fn open(
    environment: &Environment,
    run: &RunSettings,
    settings: &mut Settings,
) -> Result<ChosenModels, Failure> {
    let command = run.command.as_ref();
    let asks_no_model = command.is_some_and(|command| command.asks_no_model);
    let FoundModel { mut reference, note } = match &run.settings.config.model.name {
        Some(name) if asks_no_model => find(name, run, settings)?,
        _ => choose_main_model(environment, run, settings).await?,
    };
    let summary = command.and_then(|command| command.summary_model.as_deref());
    let summary = summary.map(|name| open_required(name, run, settings)).transpose()?;
    if asks_no_model || summary.is_some() {
        // If another model writes the summary, the session's own model needs no key.
        let model = Arc::new(NoModel(models::info(Some(&full_name(&reference)), settings))) as Arc<dyn Model>;
        let auxiliary = Auxiliary { summary, ..Auxiliary::default() };
        let (fallbacks, notes) = (Vec::new(), Vec::new());
        return Ok(ChosenModels { reference, model, fallbacks, auxiliary, tape: None, date: None, notes });
    }
    if let ModelRef::Replay(file) = &reference {
        let recording = Recording::open(file).map_err(|e| models::usage(&e))?;
        return replay_models(&recording, reference.clone(), run, settings);
    }
    let mut notes = Vec::from_iter(note);
    if run.settings.config.model.name.is_none()
        && becket_config::vendor(reference.provider()).is_some_and(|v| v.local)
    {
        notes.push(format!(
            "no model and no key is configured, so the model of the server on this machine answers: {reference}; --model names \
             another one"
        ));
    }
    let mut fallbacks = Vec::new();
    let mut failed = None;
    let mut model = match becket_model::open(&reference, settings) {
        Ok(model) => Some(model),
        Err(e) if is_incomplete(&e, &reference, settings) => {
            failed = Some(e);
            None
        }
        Err(e) => return Err(open_failure(&e, &reference, run)),
    };
    for name in &run.settings.config.model.others.fallback {
        let next = find(name, run, settings)
            .map_err(|failure| with_key_name(&fallback_key(run), failure))?
            .reference;
        if model.is_some() && next == reference {
            continue;
        }
        match becket_model::open(&next, settings) {
            Ok(opened) if model.is_none() => {
                let why = failed.as_ref().map(reason).unwrap_or_default();
                notes.push(format!("{why} The session runs with {next}, which is the next fallback model"));
                (model, reference) = (Some(opened), next);
            }
            Ok(opened) => fallbacks.push(opened),
            Err(e) if is_incomplete(&e, &next, settings) => {
                notes.push(format!("the fallback model {next} is left out: {}", reason(&e)));
            }
            Err(e) => return Err(with_key_name(&fallback_key(run), models::usage(&e))),
        }
    }
    let Some(model) = model else {
        let error = failed.unwrap_or_else(|| ModelError::new(ErrorKind::Auth, "There is no model."));
        let has_key = settings.endpoint(reference.provider()).is_some_and(|at| at.credential.is_some());
        // Only a missing key can be asked for. A key with invalid characters must be corrected in its source.
        let lacks_key = (error.kind == ErrorKind::Auth && !has_key).then(|| reference.clone());
        return Err(Failure { lacks_key, ..open_failure(&error, &reference, run) });
    };
    notes.extend(models::notes(&reference, model.info(), &run.settings));
    let auxiliary = auxiliary(run, settings, &fallbacks, &mut notes)?;
    let chosen = ChosenModels { reference, model, fallbacks, auxiliary, tape: None, date: None, notes };
    match &run.files.record {
        Some(file) => record_models(chosen, file, environment, run, settings),
        None => Ok(chosen),
    }
}

/// Chooses the model of the run. If no model is configured and none can be chosen, the first fallback is the model.
async fn choose_main_model(
    environment: &Environment,
    run: &RunSettings,
    settings: &mut Settings,
) -> Result<FoundModel, Failure> {
    let config = &run.settings.config;
    match (models::choose(environment, &run.settings, settings).await, config.model.others.fallback.first()) {
        (Err(_), Some(name)) if config.model.name.is_none() => find(name, run, settings),
        (chosen, _) => chosen,
    }
}

/// Finds the model that a name of the configuration or the command line means.
fn find(name: &str, run: &RunSettings, settings: &Settings) -> Result<FoundModel, Failure> {
    crate::model_names::find(name, &run.settings.config.model.others.aliases, settings)
}

/// True if a key or an address is missing, so another model can take this one's place.
fn is_incomplete(error: &ModelError, reference: &ModelRef, settings: &Settings) -> bool {
    let is_known = settings.endpoint(reference.provider()).is_some();
    error.kind == ErrorKind::Auth || (error.kind == ErrorKind::NotFound && is_known)
}

/// Returns why a model cannot be used and the next step, in whole sentences.
fn reason(error: &ModelError) -> String {
    let hint =
        error.hint.as_deref().map(|hint| format!(" {}.", hint.trim_end_matches('.'))).unwrap_or_default();
    format!("{}{hint}", error.message)
}

/// Returns the key or the flag that names the fallback models.
fn fallback_key(run: &RunSettings) -> String {
    match run.settings.source("models.fallback") {
        becket_config::Source::Flag(flag) => flag,
        _ => "models.fallback".to_owned(),
    }
}

/// Begins the message with the configuration key or flag that names the model.
fn with_key_name(key: &str, failure: Failure) -> Failure {
    Failure { message: format!("{key}: {}", failure.message), ..failure }
}

/// Opens a model that must be there.
fn open_required(name: &str, run: &RunSettings, settings: &Settings) -> Result<Arc<dyn Model>, Failure> {
    becket_model::open(&find(name, run, settings)?.reference, settings).map_err(|e| models::usage(&e))
}

/// Opens the configured models for work beside the conversation.
///
/// If the model for titles has no key, the first fallback model that has one takes its place. The session's own model does not,
/// because it is usually too expensive for titles.
fn auxiliary(
    run: &RunSettings,
    settings: &Settings,
    fallbacks: &[Arc<dyn Model>],
    notes: &mut Vec<String>,
) -> Result<Auxiliary, Failure> {
    let config = &run.settings.config.model.others;
    let mut open = |name: &Option<String>, key: &str, instead: &str| {
        let Some(name) = name else { return Ok(None) };
        let key = format!("models.{key}");
        let reference = find(name, run, settings).map_err(|failure| with_key_name(&key, failure))?.reference;
        match becket_model::open(&reference, settings) {
            Ok(model) => Ok(Some(model)),
            Err(e) if is_incomplete(&e, &reference, settings) => {
                notes.push(format!("{key}: {} {instead}", reason(&e)));
                Ok(None)
            }
            Err(e) => Err(with_key_name(&key, models::usage(&e))),
        }
    };
    let next = fallbacks.first();
    let instead = next.map_or_else(
        || "Titles are the first line of a session".to_owned(),
        |model| format!("{}, the next fallback model, writes titles", model.info().id),
    );
    let title = open(&config.title, "title", &instead)?;
    Ok(Auxiliary {
        summary: open(&config.summary, "summary", "The session's model writes summaries")?,
        title: title.or_else(|| config.title.as_ref().and(next).cloned()),
        subagent: open(&config.subagent, "subagent", "Subagents run with the session's model")?,
    })
}

/// The failure for the session's model, which cannot be opened.
fn open_failure(error: &ModelError, reference: &ModelRef, run: &RunSettings) -> Failure {
    let failure = models::usage(error);
    match failure.hint.clone() {
        hint if run.settings.is_remembered("model") => failure.hint(format!(
            "{}this session ran with {reference}; --model continues it with another one",
            hint.map(|hint| format!("{}; ", hint.trim_end_matches('.'))).unwrap_or_default(),
        )),
        _ => failure,
    }
}

fn full_name(reference: &ModelRef) -> String {
    match reference {
        ModelRef::Named { .. } => reference.to_string(),
        ModelRef::Script(file) | ModelRef::Replay(file) => {
            format!("{}/{}", reference.provider(), file.display())
        }
    }
}

/// Returns the models of a recording, in place of those that the run names.
fn replay_models(
    recording: &Recording,
    reference: ModelRef,
    run: &RunSettings,
    settings: &Settings,
) -> Result<ChosenModels, Failure> {
    let head = recording.head();
    let open = |id: &str| recording.model(id, settings).map_err(|e| models::usage(&e));
    let has = |name: &String| {
        let id = find(name, run, settings).ok()?.reference.to_string();
        recording.models().find(|known| *known == id).map(str::to_owned)
    };
    let config = &run.settings.config.model.others;
    let auxiliary = |name: &Option<String>| name.as_ref().and_then(has).map(|id| open(&id)).transpose();
    let mut notes = Vec::new();
    let cwd = run.project.cwd.display().to_string();
    if head.cwd != cwd {
        notes.push(format!(
            "the recording was made in {}; its requests name that folder, so they differ from those made here",
            head.cwd
        ));
    }
    Ok(ChosenModels {
        model: open(&head.model)?,
        fallbacks: config.fallback.iter().filter_map(has).map(|id| open(&id)).collect::<Result<_, _>>()?,
        auxiliary: Auxiliary {
            summary: auxiliary(&config.summary)?,
            title: auxiliary(&config.title)?,
            subagent: auxiliary(&config.subagent)?,
        },
        reference,
        tape: None,
        date: Some(head.date.clone()),
        notes,
    })
}

/// Has all requests of these models written to a new file.
fn record_models(
    chosen: ChosenModels,
    file: &Path,
    environment: &Environment,
    run: &RunSettings,
    settings: &Settings,
) -> Result<ChosenModels, Failure> {
    let head = RecordingHead {
        becket: env!("CARGO_PKG_VERSION").to_owned(),
        date: crate::clock::today(environment),
        cwd: run.project.cwd.display().to_string(),
        model: chosen.model.info().id.clone(),
        ..RecordingHead::default()
    };
    let tape = tape(file, head)?;
    let on_tape = |model: Arc<dyn Model>| {
        let endpoint = settings.endpoint(&model.info().provider).cloned();
        tape.model(model, endpoint.as_ref())
    };
    let Auxiliary { summary, title, subagent } = chosen.auxiliary;
    Ok(ChosenModels {
        model: on_tape(chosen.model),
        fallbacks: chosen.fallbacks.into_iter().map(on_tape).collect(),
        auxiliary: Auxiliary {
            summary: summary.map(on_tape),
            title: title.map(on_tape),
            subagent: subagent.map(on_tape),
        },
        tape: Some(tape.clone()),
        ..chosen
    })
}

/// True once a line of the recording could not be written.
static RECORDING_INCOMPLETE: AtomicBool = AtomicBool::new(false);

/// True if the recording of this process is incomplete. A script that relies on it must not see success.
pub(crate) fn recording_is_incomplete() -> bool {
    RECORDING_INCOMPLETE.load(Ordering::Relaxed)
}

/// Creates the file of a recording. It contains everything that the models see, so only its owner may read it.
fn tape(file: &Path, head: RecordingHead) -> Result<Tape, Failure> {
    let cannot = |e: std::io::Error| {
        let failure = Failure::usage(format!("--record: cannot create {}: {e}", file.display()));
        if e.kind() == std::io::ErrorKind::AlreadyExists {
            return failure.hint("name a file that does not exist yet");
        }
        failure.hint("name a file in an existing folder that you can write to")
    };
    let writer = crate::sys::new_private_file(file).map_err(cannot)?;
    Ok(Tape::new(head, lines_to(writer, file.display().to_string())))
}

/// Returns a function that writes lines. The first failure is reported; the next lines would fail in the same way.
fn lines_to(mut writer: impl Write, name: String) -> impl FnMut(&str) {
    let mut failed = false;
    move |line| {
        if let Err(e) = writeln!(writer, "{line}")
            && !std::mem::replace(&mut failed, true)
        {
            RECORDING_INCOMPLETE.store(true, Ordering::Relaxed);
            let _ = writeln!(std::io::stderr(), "becket: --record: cannot write {name}: {e}");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_recording_that_cannot_be_written_is_known_to_be_incomplete() {
        let mut full = [0_u8; 4];
        let mut write = lines_to(&mut full[..], "full".to_owned());
        write("abc");
        assert!(!recording_is_incomplete());
        write("abc");
        assert!(recording_is_incomplete());
    }
}
