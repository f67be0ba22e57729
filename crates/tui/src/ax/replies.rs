//! Answers of the host, results and denials of calls in plain lines.
//!
//! Pure. The speaker makes escape sequences visible.

use super::without_escapes;
use crate::input::Reply;
use crate::transcript::compaction;
use becket_types::{CompactionPlan, DenialCause, Message, Part, PermissionDenial};
use serde_json::Value;

/// Maximum number of sessions that are read out.
const SESSIONS: usize = 20;
/// Maximum number of lines of output that are read out. Earlier lines are left out.
const OUTPUT_LINES: usize = 20;

/// Shows the plan of a compaction.
pub(super) fn compaction_plan(plan: &CompactionPlan, out: &mut Vec<String>) {
    out.push(format!("Compaction: {}", compaction::plan_line(plan)));
    out.push("What would be lost:".to_owned());
    out.extend(compaction::lines(&plan.loss));
    if !plan.left_out.is_empty() {
        out.push("Left out of the model's summary:".to_owned());
        out.extend(compaction::left_out_lines(&plan.left_out));
    }
    out.push("Write /compact to apply it.".to_owned());
}

/// Returns the text of an answer; nothing for answers that only a drawn interface uses.
pub(super) fn text(reply: Reply) -> String {
    match reply {
        Reply::Page(Ok(page)) => {
            let text = match &page.sheet {
                Some(sheet) => sheet.spoken(),
                None => without_fences(&page.markdown).join("\n"),
            };
            let confirm = match page.confirm {
                Some(_) => "\nStart becket without --ax to answer this question.",
                None => "",
            };
            format!("{}\n{text}{confirm}", page.title)
        }
        Reply::Ran { command, output, failed, details: _ } => {
            let how = if failed { "failed" } else { "ended" };
            format!("{command} {how}.\n{output}")
        }
        Reply::Done(Ok(said)) => said,
        Reply::Sessions(sessions) if sessions.is_empty() => "There is no other session here.".to_owned(),
        Reply::Sessions(sessions) => {
            let lines = sessions.iter().take(SESSIONS).map(|(id, about)| format!("{id}: {about}"));
            let mut lines: Vec<String> = lines.collect();
            lines.push("Write /resume and an id or a title to continue one of them.".to_owned());
            lines.join("\n")
        }
        Reply::Page(Err(why)) | Reply::Done(Err(why)) | Reply::Found(Err(why)) => {
            format!("Error: {why}")
        }
        _ => String::new(),
    }
}

/// Returns the lines of a page without code fences, which mean nothing when they are read out.
pub(super) fn without_fences(markdown: &str) -> Vec<String> {
    markdown.lines().filter(|line| !line.trim_start().starts_with("```")).map(str::to_owned).collect()
}

/// Says that a call was not permitted, and why.
pub(super) fn denied(denial: &PermissionDenial) -> String {
    let why = match &denial.cause {
        DenialCause::User { words: Some(words) } => format!("you said no: {words}"),
        DenialCause::User { words: None } => "you said no".to_owned(),
        DenialCause::PlanMode | DenialCause::Policy => denial.reason.clone(),
    };
    format!("{} was not permitted: {}.", denial.tool, why.trim_end_matches('.'))
}

pub(super) fn finished(message: &Message, out: &mut Vec<String>) {
    for part in &message.parts {
        let Part::ToolResult { name, output, is_error, details, .. } = part else { continue };
        let diff = details.get("diff").and_then(Value::as_str).filter(|diff| !diff.is_empty());
        // The line numbers of hunks (`@@ -3,4 +3,6 @@`) are for programs.
        let told = |line: &&str| diff.is_none() || !line.starts_with("@@ ");
        let lines: Vec<String> = diff.unwrap_or(output).lines().filter(told).map(without_escapes).collect();
        let code = details.get("exit_code").and_then(Value::as_i64).filter(|code| *code != 0);
        let how = match (is_error, code) {
            (_, Some(code)) => format!("ended with code {code}"),
            (true, None) => "failed".to_owned(),
            (false, None) => "ended".to_owned(),
        };
        out.push(format!("{name} {how}, {} line{}.", lines.len(), if lines.len() == 1 { "" } else { "s" }));
        // Output of calls that only read is for the model. Output of calls that failed or changed something is read
        // out.
        if diff.is_some() || *is_error || code.is_some() || name == "bash" {
            let left = lines.len().saturating_sub(OUTPUT_LINES);
            if left > 0 {
                out.push(format!("{left} lines left out."));
            }
            out.extend(lines.into_iter().skip(left));
        }
    }
}
