//! Runs one call to an output in every case, and words the outcome for the model and for the journal.
//!
//! Order and permission are decided in [`super`].

use super::super::Core;
use super::GRACE;
use super::batch::{HookProgress, Slot};
use crate::answer::Call;
use crate::host::lock;
use crate::machine::NotRun;
use crate::spend::millis;
use becket_guard::Verdict;
use becket_session::secrets::{mask, mask_published, mask_published_after};
use becket_tool::{Tool, ToolEnv};
use becket_types::{
    Access, CallId, DecidedBy, DenialCause, EntryKind, Event, JournalState, Message, Millis, Part,
    PermissionDecision, PermissionMode, ToolOutput, Verb, cut_end, cut_start, cut_start_at_word,
    sdk_names::{INTERRUPTED, PRINTED_LINES},
};
use futures::future::{BoxFuture, FutureExt as _};
use serde_json::{Map, Value, json};
use std::borrow::Cow;
use std::panic::AssertUnwindSafe;
use std::sync::{Arc, Mutex};
use std::time::Duration;
use tokio_util::sync::CancellationToken;

/// Maximum number of bytes of one call's live output: that front ends get, and that are kept for the result of an
/// interrupted call.
const MAX_LIVE: usize = 1 << 20;
const MAX_PARTIAL: usize = 16 * 1024;
/// Longest reason of a decision in the ledger, in bytes.
const MAX_REASON: usize = 2_000;
/// Longest rule of a decision in the ledger, in bytes. A rule may contain a whole command.
const MAX_RULE: usize = 2_000;
/// Number of bytes of a subject that are examined for secrets. More than its kept part needs.
const MAX_MASKED: usize = 4 << 10;
/// Shortest time of a call that is recorded and shown.
const SHOWN_TIME: Millis = Millis(10);
/// Limit on refused connections of one command that get an entry each.
const MAX_REFUSED: usize = 20;

/// The verdict about a call that the model wrote into its text: the user always decides, because the text may be an example.
pub(super) fn asked_as_text(verdict: Verdict) -> Verdict {
    match verdict {
        Verdict::Allow { .. } => {
            let reason = "the model wrote this call into its text instead of making it".to_owned();
            Verdict::Ask { reason, rule: None }
        }
        // No rule is offered, because even a call that a rule allows is asked about here.
        Verdict::Ask { reason, .. } => Verdict::Ask { reason, rule: None },
        denied @ Verdict::Deny { .. } => denied,
    }
}

/// If `nobody` can be asked, a question becomes a denial.
pub(super) fn unless_nobody(nobody: bool, verdict: Verdict) -> Verdict {
    match verdict {
        Verdict::Ask { reason, rule } if nobody => {
            let how = rule.as_deref().map(becket_guard::how_to_allow).unwrap_or_default();
            Verdict::deny(format!("{reason}{how} (nobody can be asked in this session)"))
        }
        other => other,
    }
}

/// The verdict about a call that may put a question to a person. Unless a hook has answered, the person is asked in every
/// mode except `dontAsk`, which denies the call.
///
/// # Errors
///
/// Returns a message for the model if the call makes no sense in this mode.
pub(super) fn asked_person(
    tool: &dyn Tool,
    mode: PermissionMode,
    opinion: &HookProgress,
    (by, verdict): (DecidedBy, Verdict),
) -> Result<(DecidedBy, Verdict), String> {
    let Some(question) = tool.asks_person() else { return Ok((by, verdict)) };
    if let Some((only, why)) = question.only_in
        && mode != only
    {
        return Err(why.to_owned());
    }
    Ok(match verdict {
        denied @ Verdict::Deny { .. } => (by, denied),
        _ if opinion.answers => (DecidedBy::Hook, Verdict::Allow { why: "a hook answered".to_owned() }),
        _ if mode == PermissionMode::DontAsk => {
            (by, Verdict::deny("permission mode dontAsk asks nobody".to_owned()))
        }
        // No rule is offered, because the person is asked each time.
        _ => (by, Verdict::Ask { reason: question.reason.to_owned(), rule: None }),
    })
}

impl Core {
    /// Handles live output of a call: sends it to the front ends, and keeps its end in case of an interrupt.
    pub(super) fn progress(
        &self,
        call_id: CallId,
        partial: Arc<Mutex<String>>,
    ) -> Arc<dyn Fn(&str) + Send + Sync> {
        let events = self.events.clone();
        let forwarded = std::sync::atomic::AtomicUsize::new(0);
        Arc::new(move |chunk: &str| {
            {
                let mut kept = lock(&partial);
                kept.push_str(chunk);
                if kept.len() > 2 * MAX_PARTIAL {
                    let drop = kept.len() - cut_start(&kept, MAX_PARTIAL).len();
                    kept.drain(..drop);
                }
            }
            let before = forwarded.fetch_add(chunk.len(), std::sync::atomic::Ordering::Relaxed);
            if before < MAX_LIVE {
                let _ = events.send(Event::ToolOutput { call_id: call_id.clone(), chunk: chunk.to_owned() });
            }
        })
    }
}

/// Calls a tool. `rejected` are the hunks of its preview that the user has left out.
pub(super) fn call_tool(
    tool: Arc<dyn Tool>,
    input: Value,
    env: ToolEnv,
    rejected: Vec<usize>,
) -> BoxFuture<'static, ToolOutput> {
    let call = async move {
        if rejected.is_empty() {
            tool.run(input, &env).await
        } else {
            tool.run_without(rejected, input, &env).await
        }
    };
    call.boxed()
}

/// Runs a call to an output in every case: a panic and a timeout become outputs too.
pub(super) async fn run(
    call: BoxFuture<'static, ToolOutput>,
    cancel: CancellationToken,
    limit: Duration,
) -> ToolOutput {
    let mut call = AssertUnwindSafe(call).catch_unwind();
    let Ok(ended) = tokio::time::timeout(limit, &mut call).await else {
        cancel.cancel();
        let said = match tokio::time::timeout(GRACE, &mut call).await {
            Ok(Ok(output)) => output.content,
            Ok(Err(_)) | Err(_) => String::new(),
        };
        return timed_out(limit, &said);
    };
    let mut output = ended.unwrap_or_else(|panic| {
        ToolOutput::error(format!("The tool stopped because of an internal error: {}", panic_text(&*panic)))
    });
    if output.interrupted && !output.content.to_lowercase().contains("interrupted") {
        output.content = format!("{INTERRUPTED}{}", output.content);
    }
    output
}

fn panic_text(panic: &(dyn std::any::Any + Send)) -> &str {
    let text = panic.downcast_ref::<String>().map(String::as_str);
    text.or_else(|| panic.downcast_ref::<&str>().copied()).unwrap_or("it panicked")
}

fn timed_out(limit: Duration, said: &str) -> ToolOutput {
    let text =
        format!("Timed out after {} s and was stopped; its effect is unknown.\n{said}", limit.as_secs());
    ToolOutput { interrupted: true, ..ToolOutput::error(text.trim_end()) }
}

pub(super) fn interrupted(partial: &str) -> ToolOutput {
    let partial = cut_start_at_word(partial, MAX_PARTIAL);
    let rest = if partial.is_empty() { String::new() } else { format!("\nOutput until then:\n{partial}") };
    let text = format!("Interrupted by the user, effect unknown.{rest}");
    ToolOutput { interrupted: true, ..ToolOutput::error(text) }
}

/// The result of a call that was not started. Front ends read in its details that the user interrupted.
pub(super) fn not_run(why: NotRun) -> ToolOutput {
    let text = match why {
        NotRun::Cut => {
            "Not run: your answer was cut by the output limit, so its calls may be incomplete. Make them again in smaller \
             parts, for example several smaller edits in place of one large one."
        }
        NotRun::WrapUp => {
            "Not run: the step limit of this turn is reached, and no more tools are available in it."
        }
        NotRun::Refused => "Not run: the answer that called it was refused.",
        NotRun::Interrupted => "Not run: the user interrupted before it was started.",
    };
    let details = if why == NotRun::Interrupted { json!({ "not_run": "interrupted" }) } else { Value::Null };
    ToolOutput { details, ..ToolOutput::error(text) }
}

/// The error for the model if a call's arguments are not a JSON object.
pub(super) fn invalid_arguments(text: &str) -> String {
    let what = match serde_json::from_str::<Value>(text) {
        Ok(_) => "they are not a JSON object".to_owned(),
        Err(error) => format!("at line {}, column {}: {error}", error.line(), error.column()),
    };
    let start = cut_end(text, 200);
    // The end of the arguments shows if they were cut off or are too long.
    let end = match cut_start(&text[start.len()..], 200) {
        "" => String::new(),
        end => format!("… and end: {end}"),
    };
    format!("Not run: the arguments of this call are not valid JSON, {what}. They begin: {start}{end}")
}

/// The subject of a call in one line, for people and for the summary. Secrets are masked before it is cut, because the
/// beginning of one has no known form.
pub(super) fn subject(access: &Access, env: &ToolEnv) -> Option<String> {
    let line = match (&access.command, access.paths.first(), &access.subject) {
        (Some(command), ..) => command.clone(),
        (None, Some(path), _) => env.display(path),
        (None, None, subject) => subject.clone()?,
    };
    let first = line.lines().next().unwrap_or_default();
    Some(cut_end(&mask(cut_end(first, MAX_MASKED)).0, 200).to_owned())
}

pub(super) fn journal(slot: &Slot, state: JournalState, result: Value) -> EntryKind {
    EntryKind::ToolJournal {
        call_id: slot.call.id.clone(),
        state,
        tool: Some(slot.call.name.clone()),
        subject: slot.subject.clone(),
        result,
    }
}

/// The decision about a call, for the ledger.
pub(super) fn permission(
    slot: &Slot,
    decision: Verb,
    by: DecidedBy,
    rule: Option<String>,
    reason: &str,
) -> EntryKind {
    EntryKind::Permission(Box::new(decided(slot, decision, by, rule, reason)))
}

/// The decision that a call does not run, for the ledger.
pub(super) fn denial(
    slot: &Slot,
    by: DecidedBy,
    rule: Option<String>,
    reason: &str,
    cause: &DenialCause,
) -> EntryKind {
    let decision = decided(slot, Verb::Deny, by, rule, reason);
    EntryKind::Permission(Box::new(PermissionDecision { cause: Some(cause.clone()), ..decision }))
}

fn decided(
    slot: &Slot,
    decision: Verb,
    by: DecidedBy,
    rule: Option<String>,
    reason: &str,
) -> PermissionDecision {
    let rule = rule.map(|rule| mask(&rule).0).map(|rule| match cut_end(&rule, MAX_RULE) {
        start if start.len() < rule.len() => format!("{start}…"),
        _ => rule,
    });
    PermissionDecision {
        call: slot.call.id.clone(),
        decision,
        by,
        rule,
        reason: cut_end(&mask(reason).0, MAX_REASON).to_owned(),
        cause: None,
    }
}

/// Entries for connections of a command that the sandbox's proxy refused, for at most [`MAX_REFUSED`] hosts.
pub(super) fn refused_hosts(slot: &Slot, output: &ToolOutput) -> Vec<EntryKind> {
    let hosts = output.details.pointer("/sandbox/refused_hosts").and_then(Value::as_array);
    let hosts = hosts.into_iter().flatten().filter_map(Value::as_str).take(MAX_REFUSED);
    hosts
        .map(|host| {
            permission(slot, Verb::Deny, DecidedBy::Sandbox, None, &format!("a connection to {host}"))
        })
        .collect()
}

fn exit_code(output: &ToolOutput) -> Option<i64> {
    ["exit_code", "exit"].iter().find_map(|key| output.details.get(key)).and_then(Value::as_i64)
}

/// Returns the duration of a call. A failed call shows its time however short that was, so it has at least a millisecond:
/// zero means that the time is not known.
pub(super) fn duration(output: &ToolOutput, time: Duration) -> Millis {
    let least = u64::from(output.is_error && !time.is_zero());
    Millis(millis(time).0.max(least))
}

/// The outcome of a call as the journal keeps it: for the sections of a summary that becket fills itself, and for showing the
/// session again.
pub(super) fn journal_result(output: &ToolOutput, reads: Map<String, Value>, time: Millis) -> Value {
    let mut result = Map::new();
    let code = exit_code(output);
    let failed = output.is_error || code.is_some_and(|code| code != 0);
    // A resumed session shows the times of its calls, so record them. Shorter times are shown only of calls that failed.
    if time >= SHOWN_TIME || failed && time > Millis(0) {
        result.insert("millis".to_owned(), Value::from(time.0));
    }
    if let Some(code) = code {
        result.insert("exit_code".to_owned(), Value::from(code));
    }
    if output.is_error {
        result.insert("is_error".to_owned(), Value::Bool(true));
    }
    if output.interrupted {
        result.insert("interrupted".to_owned(), Value::Bool(true));
    }
    if !output.changes.is_empty() {
        result.insert("changes".to_owned(), json!(output.changes));
    }
    if !reads.is_empty() {
        result.insert("reads".to_owned(), Value::Object(reads));
    }
    if result.is_empty() { Value::Null } else { Value::Object(result) }
}

/// Returns the kinds of the known secrets in the output's text, in words. `None` if there are none.
pub(super) fn secrets_in(output: &ToolOutput) -> Option<String> {
    secret_kinds_text(&mask_published_after(&output.before, &output.content).1)
}

/// Masks secrets of known forms in the text and details of a tool's output, and appends a note for the model if the
/// text had one. Returns their kinds in words. `None` if the text has none.
///
/// Details are not sent to the model, but the ledger and driving programs get them: a diff, for example, quotes the
/// lines that an edit replaced. Answers that follow a schema keep their details: they are the model's own text.
pub(super) fn mask_secrets(output: &mut ToolOutput) -> Option<String> {
    if output.details.get("structured_output").is_none() {
        becket_session::secrets::mask_published_value(&mut output.details);
    }
    if let Some(original) = &mut output.original {
        *original = mask_published(original).0.into_owned();
    }
    let (masked, kinds) = mask_published_after(&output.before, &output.content);
    let words = secret_kinds_text(&kinds)?;
    fewer_lines(&output.content, &masked, &mut output.details);
    output.content = format!(
        "{masked}\n[becket masked secrets in this output, so that they do not leave this machine: {words}. They are unchanged on \
         disk. The user can allow them with secrets = \"send\"]"
    );
    Some(words)
}

/// Corrects the number of lines that a command has printed after masking: a secret of several lines becomes a mask of one
/// line.
pub(super) fn fewer_lines(before: &str, masked: &str, details: &mut Value) {
    let gone = before.lines().count().saturating_sub(masked.lines().count()) as u64;
    if let Some(lines) = details.get_mut(PRINTED_LINES).filter(|_| gone > 0) {
        *lines = json!(lines.as_u64().unwrap_or_default().saturating_sub(gone));
    }
}

fn secret_kinds_text(kinds: &[&'static str]) -> Option<String> {
    let first = *kinds.first()?;
    if kinds.len() == 1 {
        return Some(first.to_owned());
    }
    let mut different = kinds.to_vec();
    different.sort_unstable();
    different.dedup();
    Some(format!("{} secrets ({})", kinds.len(), different.join(", ")))
}

/// The answer to a call that would write a mask in place of a secret.
pub(super) fn masked_secret(kind: &str) -> String {
    format!(
        "Nothing was done: the input holds ‹{kind} masked›, which stands for a secret that you were not shown. Written to a file, it \
         would replace the secret. Change the lines around it with edits that leave it out; the user can show you secrets \
         with secrets = \"send\"."
    )
}

/// The tool message: the result, and the images that came with it. Every result passes here, so this is where characters that a
/// person cannot see become visible, whichever tool printed them.
pub(super) fn result_message(call: &Call, mut output: ToolOutput) -> Message {
    if let Cow::Owned(shown) = becket_tool::text::clean(&output.content) {
        output.content = shown;
    }
    let mut message =
        Message::tool_result(call.id.clone(), call.name.clone(), output.content, output.is_error);
    for part in &mut message.parts {
        if let Part::ToolResult { interrupted, details, spill, extra, .. } = part {
            *interrupted = output.interrupted;
            *details = output.details.clone();
            spill.clone_from(&output.spill);
            if output.excerpt_lines > 0 {
                extra.insert("excerpt_lines".to_owned(), Value::from(output.excerpt_lines));
            }
        }
    }
    message.parts.extend(output.images);
    message
}
