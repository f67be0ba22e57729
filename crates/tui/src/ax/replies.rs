//! Answers of the host in plain lines.
//!
//! Pure. The speaker makes escape sequences visible.

use crate::input::Reply;
use crate::transcript::compaction;
use becket_types::CompactionPlan;

/// Maximum number of sessions that are read out.
const SESSIONS: usize = 20;

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
