//! A compaction plan as text and as JSON, and its summary in the user's editor.

use super::first_words;
use crate::cmd::{count, one_line, short, write};
use crate::environment::Environment;
use crate::failure::Failure;
use becket_session::context::budget::estimate_message;
use becket_session::context::scale::ContextScale;
use becket_types::{CategoryChange, CompactionPlan, LeftOut, Message, Present, Tokens};
use serde_json::{Value, json};
use std::fmt::Write as _;
use std::io::Write;
use std::process::Command;

/// Maximum number of messages and lost items that are shown; `--json` prints all.
const MAX_LISTED: usize = 20;

pub(super) fn print(plan: &CompactionPlan, out: &mut dyn Write) -> Result<(), Failure> {
    let mut text = format!(
        "{} -> {} tokens\n\n{:<16} {:>8} {:>8}\n",
        short(plan.size.before.0),
        short(plan.size.after.0),
        "",
        "before",
        "after"
    );
    for CategoryChange { name, before, after } in &plan.categories {
        let _ = writeln!(text, "{name:<16} {:>8} {:>8}", short(before.0), short(after.0));
    }
    let stubs = usize::try_from(plan.stubs).unwrap_or(usize::MAX);
    let (is, become_) = (
        if plan.gone.len() == 1 { "is" } else { "are" },
        if plan.stubs == 1 { "becomes a stub" } else { "become stubs" },
    );
    let _ = writeln!(
        text,
        "\n{} {is} removed, {} stay, {} {become_}:",
        count(plan.gone.len(), "message"),
        plan.stays,
        count(stubs, "output")
    );
    for message in plan.gone.iter().take(MAX_LISTED) {
        let (role, tokens) = (&message.who, short(message.tokens.0));
        let _ =
            writeln!(text, "  {:>6}  {role:<9}  {tokens:>6}  {}", message.seq, one_line(&message.words, 80));
    }
    push_more_line(&mut text, plan.gone.len());
    for (name, list) in plan.loss.lists() {
        if list.is_empty() {
            continue;
        }
        let _ = writeln!(text, "\nLost, {name} that are missing from the rest ({}):", list.len());
        for lost in list.iter().take(MAX_LISTED) {
            let by = if lost.by_user { "user" } else { "model" };
            let _ = writeln!(text, "  {:>6}  {by:<5}  {}", lost.seq, one_line(&lost.text, 100));
        }
        push_more_line(&mut text, list.len());
    }
    if plan.loss.is_empty() {
        text.push_str("\nLost: no identifier, path, decision or sentence of yours.\n");
    }
    let are = if plan.loss.outputs == 1 {
        "is removed; the model can get it"
    } else {
        "are removed; the model can get each"
    };
    let _ = writeln!(text, "{} {are} back with recall.", count(plan.loss.outputs, "output"));
    let _ = writeln!(text, "\n{}", self::protected_content(&plan.protected.proofs));
    if !plan.summary.is_empty() {
        let _ = writeln!(text, "Summary:\n\n{}\n", plan.summary);
    }
    text.push_str(&left_out(&plan.left_out));
    for notice in &plan.notices {
        let _ = writeln!(text, "note: {notice}");
    }
    write(out, &becket_print::clean(&text))
}

fn push_more_line(text: &mut String, count: usize) {
    if count > MAX_LISTED {
        let _ = writeln!(text, "  … and {} more (--json shows all)", count - MAX_LISTED);
    }
}

/// Returns text of the summarising model that was not taken into the summary; empty if there is none.
pub(super) fn left_out(left_out: &[LeftOut]) -> String {
    let mut text = String::new();
    if !left_out.is_empty() {
        text.push_str("Left out of the model's summary:\n");
    }
    for left in left_out {
        let section = if left.section.is_empty() { "not in any section" } else { &left.section };
        let _ = writeln!(text, "  {section}: {}", left.why);
        for line in left.text.lines() {
            let _ = writeln!(text, "    {line}");
        }
    }
    text
}

/// Lists the protected content, each item with its proof.
pub(super) fn protected_content(found: &[Present]) -> String {
    let mut text = String::from("Present byte for byte:\n");
    for item in found {
        let sign = if item.there { "yes" } else { "NO " };
        let _ = writeln!(
            text,
            "  {sign}  {}  {}",
            item.sha256.get(..12).unwrap_or("-"),
            one_line(&item.what, 100)
        );
    }
    text
}

pub(super) fn message_line(message: &Message, scale: ContextScale) -> String {
    let role = message.role.name();
    format!(
        "  {:>6}  {role:<9}  {:>6}  {}\n",
        message.seq,
        short(scale.scaled(estimate_message(message)).0),
        first_words(message)
    )
}

pub(super) fn message_json(message: &Message, scale: ContextScale) -> Value {
    let calls: Vec<&str> = message.call_ids().chain(message.result_of()).map(|id| id.as_str()).collect();
    json!({
        "seq": message.seq, "id": message.id, "role": message.role.name(), "tokens": scale.scaled(estimate_message(message)),
        "calls": calls, "preview": first_words(message),
    })
}

pub(super) fn plan_json(plan: &CompactionPlan, applied: bool) -> Value {
    let sizes = |of: &dyn Fn(&CategoryChange) -> Tokens| -> Value {
        plan.categories.iter().map(|change| (change.name.replace(' ', "_"), json!(of(change)))).collect()
    };
    let dropped: Vec<Value> = plan
        .gone
        .iter()
        .map(|m| {
            json!({
                "seq": m.seq, "id": m.id, "role": m.who, "tokens": m.tokens, "calls": m.calls, "preview": m.words,
            })
        })
        .collect();
    json!({
        "applied": applied, "tokens_before": plan.size.before, "tokens_after": plan.size.after,
        "before": sizes(&|change| change.before), "after": sizes(&|change| change.after),
        "dropped": dropped, "stays": plan.stays, "stubs": plan.stubs,
        "summary": plan.summary, "loss": plan.loss, "present": plan.protected.proofs,
        "left_out": plan.left_out, "notices": plan.notices,
    })
}

/// Returns the text after the user edited it.
pub(super) fn edit_text(environment: &Environment, text: &str) -> Result<String, Failure> {
    let editor = environment.var("VISUAL").or_else(|| environment.var("EDITOR")).ok_or_else(|| {
        Failure::usage("there is no editor: neither VISUAL nor EDITOR is set")
            .hint("or write the summary to a file and give it: --preview -o FILE, then --summary FILE")
    })?;
    let failed = |e: std::io::Error| Failure::error(format!("cannot edit the summary: {e}"));
    let mut file =
        tempfile::Builder::new().prefix("becket-summary-").suffix(".md").tempfile().map_err(failed)?;
    file.write_all(text.as_bytes()).map_err(failed)?;
    // Runs the editor through a shell as git does, because the variable may contain arguments.
    let status = Command::new("/bin/sh")
        .args(["-c", &format!("{editor} \"$1\""), "sh"])
        .arg(file.path())
        .status()
        .map_err(failed)?;
    if !status.success() {
        return Err(Failure::error(format!("the editor {editor} ended with {status}; nothing was changed"))
            .hint("set VISUAL or EDITOR to one that works, or give the summary as a file: --summary FILE"));
    }
    std::fs::read_to_string(file.path()).map_err(failed)
}
