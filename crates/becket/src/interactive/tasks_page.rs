//! The page `/tasks`: subagents in the background, as the session records them, and commands in the background.
//!
//! Reads only, except for [`stop_job`], which ends a command. Subagents get commands through the agent.

use super::user_shell::UserShell;
use becket_tui::input::Reply;
use becket_tui::page::Sheet;
use serde_json::Value;

const MAX_ENDED: usize = 10;

/// A command in the background: its number, its state and text, and if it runs.
pub(super) type Job = (u64, String, bool);

/// Ends a command in the background.
pub(super) async fn stop_job(user_shell: &UserShell, job: u64) -> Reply {
    let ended = user_shell.end_job(job).await;
    Reply::Done(ended.ok_or_else(|| format!("there is no job {job}; /tasks lists them")))
}

/// Returns the page. `tasks`: subagents in the background, as the session records them.
pub(super) fn sheet(tasks: &[Value], jobs: &[Job]) -> Sheet {
    let mut sheet = Sheet::default();
    let is_running = |task: &&Value| task["state"] == "running";
    let running = tasks.iter().filter(is_running).count();
    sheet.heading("Subagents", format!("{running} running"));
    for task in tasks.iter().filter(is_running) {
        add(&mut sheet, task);
    }
    let ended: Vec<&Value> = tasks.iter().filter(|task| !is_running(task)).collect();
    for task in ended.iter().rev().take(MAX_ENDED) {
        add(&mut sheet, task);
    }
    if tasks.is_empty() {
        sheet.note("No subagent was started in the background. Ctrl-B moves one there while it runs.");
    }
    let alive = jobs.iter().filter(|(.., running)| *running).count();
    sheet.heading("Commands", format!("{alive} running"));
    for (id, line, _) in jobs {
        sheet.field(&format!("job {id}"), line);
    }
    if jobs.is_empty() {
        sheet.note("No command was started in the background.");
    }
    if running > 0 {
        sheet.note("/tasks stop N stops a subagent, /tasks tell N TEXT sends it a message.");
    }
    if alive > 0 {
        sheet.note("/tasks stop job N ends a command.");
    }
    sheet
}

fn add(sheet: &mut Sheet, task: &Value) {
    let text = |key: &str| task[key].as_str().unwrap_or_default();
    let about = format!(
        "{} · {}: {} (session {})",
        text("state"),
        text("agent"),
        text("description"),
        text("session")
    );
    sheet.field(&format!("task {}", task["id"]), about);
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn running_tasks_come_first_and_say_how_to_stop_them() {
        let task = |id: u64, state: &str| json!({"id": id, "state": state, "agent": "general", "description": "look", "session": "s"});
        let page =
            sheet(&[task(1, "completed"), task(2, "running")], &[(3, "running for 1 s: make".into(), true)]);
        let text = page.spoken();
        let at = |words: &str| text.find(words).unwrap_or_else(|| panic!("{words}: {text}"));
        assert!(at("running · general: look (session s)") < at("completed · general"), "{text}");
        assert!(at("1 running") < at("running for 1 s: make"), "{text}");
        assert!(text.contains("/tasks stop N") && text.contains("/tasks stop job N"), "{text}");
        assert!(sheet(&[], &[]).spoken().contains("Ctrl-B"));
    }
}
