//! A preview in words, and as JSON.

use super::{Preview, words};
use crate::cmd::sessions::write;
use crate::cmd::{one_line, short};
use crate::failure::Failure;
use becket_session::context::budget::estimate_message;
use becket_session::context::compaction::Breakdown;
use becket_session::context::present::Present;
use becket_types::{LeftOut, Message};
use serde_json::{Value, json};
use std::fmt::Write as _;
use std::io::Write;

/// Messages and lost things that are shown; `--json` has all.
const SHOWN: usize = 20;

pub(super) fn print(preview: &Preview, out: &mut dyn Write) -> Result<(), Failure> {
    let report = &preview.outcome.report;
    let mut text = format!(
        "{} -> {} tokens\n\n{:<16} {:>8} {:>8}\n",
        short(report.tokens_before.0),
        short(report.tokens_after.0),
        "",
        "before",
        "after"
    );
    for ((name, before), (_, after)) in report.before.categories().into_iter().zip(report.after.categories())
    {
        if before.0 + after.0 > 0 {
            let _ = writeln!(text, "{name:<16} {:>8} {:>8}", short(before.0), short(after.0));
        }
    }
    let _ = writeln!(
        text,
        "\n{} messages are folded away, {} stay, {} outputs become stubs:",
        preview.folded.gone.len(),
        report.tail + report.kept,
        report.pruned
    );
    for message in preview.folded.gone.iter().take(SHOWN) {
        text.push_str(&line(message));
    }
    more(&mut text, preview.folded.gone.len());
    for (name, list) in preview.folded.loss.lists() {
        if list.is_empty() {
            continue;
        }
        let _ = writeln!(text, "\nLost, {name} that stand nowhere in what is left ({}):", list.len());
        for lost in list.iter().take(SHOWN) {
            let by = if lost.by_user { "user" } else { "model" };
            let _ = writeln!(text, "  {:>6}  {by:<5}  {}", lost.seq, one_line(&lost.text, 100));
        }
        more(&mut text, list.len());
    }
    if preview.folded.loss.is_empty() {
        text.push_str("\nLost: no identifier, path, decision or sentence of yours.\n");
    }
    let _ = writeln!(
        text,
        "{} outputs are folded away; each comes back with recall.",
        preview.folded.loss.outputs
    );
    let _ = writeln!(text, "\n{}", self::present(&preview.folded.present));
    if !report.summary.is_empty() {
        let _ = writeln!(text, "Summary:\n\n{}\n", report.summary);
    }
    text.push_str(&left_out(&report.left_out));
    for notice in &preview.outcome.notices {
        let _ = writeln!(text, "note: {notice}");
    }
    write(out, &becket_print::clean(&text))
}

fn more(text: &mut String, count: usize) {
    if count > SHOWN {
        let _ = writeln!(text, "  … and {} more (--json shows all)", count - SHOWN);
    }
}

/// Text of the summarising model that is not in the summary; empty without any.
pub(super) fn left_out(left_out: &[LeftOut]) -> String {
    let mut text = String::new();
    if !left_out.is_empty() {
        text.push_str("Left out of the model's summary:\n");
    }
    for left in left_out {
        let section = if left.section.is_empty() { "outside of sections" } else { &left.section };
        let _ = writeln!(text, "  {section}: {}", left.why);
        for line in left.text.lines() {
            let _ = writeln!(text, "    {line}");
        }
    }
    text
}

/// What must be there, each with its proof.
pub(super) fn present(found: &[Present]) -> String {
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

pub(super) fn line(message: &Message) -> String {
    let role = message.role.name();
    format!(
        "  {:>6}  {role:<9}  {:>6}  {}\n",
        message.seq,
        short(estimate_message(message).0),
        words(message)
    )
}

pub(super) fn row(message: &Message) -> Value {
    let calls: Vec<&str> = message.call_ids().chain(message.result_of()).map(|id| id.as_str()).collect();
    json!({
        "seq": message.seq, "id": message.id, "role": message.role.name(), "tokens": estimate_message(message),
        "calls": calls, "preview": words(message),
    })
}

pub(super) fn json(preview: &Preview, applied: bool) -> Value {
    let report = &preview.outcome.report;
    let by_category = |b: &Breakdown| -> Value {
        b.categories().into_iter().map(|(name, tokens)| (name.replace(' ', "_"), json!(tokens))).collect()
    };
    json!({
        "applied": applied, "tokens_before": report.tokens_before, "tokens_after": report.tokens_after,
        "before": by_category(&report.before), "after": by_category(&report.after),
        "dropped": preview.folded.gone.iter().map(|m| row(m)).collect::<Vec<_>>(),
        "kept": report.kept, "tail": report.tail, "pruned": report.pruned, "cut": report.cut, "model_calls": report.model_calls,
        "source": report.source, "summary": report.summary, "loss": preview.folded.loss, "present": preview.folded.present,
        "left_out": report.left_out, "notices": preview.outcome.notices,
    })
}
