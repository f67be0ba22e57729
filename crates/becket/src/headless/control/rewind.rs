//! `rewind_files`: plans the change of files, carries it out unless it is a trial, and answers with the plan.

use super::super::figures::Rewinding;
use super::super::{Front, written};
use crate::failure::Failure;
use becket_types::{Command, Event, MessageId, NoticeLevel, RewindWhat, UndoPlan};
use serde_json::{Value, json};

impl Front {
    pub(super) async fn rewind(&mut self, id: &str, body: &Value) -> Result<(), String> {
        let given = body
            .get("user_message_id")
            .and_then(Value::as_str)
            .ok_or("rewind_files needs `user_message_id`")?;
        if self.pending.rewinding.is_some() {
            return Err("another rewind_files is under way".to_owned());
        }
        if self.state.in_turn {
            return Err("files can be rewound between turns only; interrupt the turn first".to_owned());
        }
        let to = match self.known.messages.get(given) {
            Some(known) => *known,
            None => given
                .parse::<MessageId>()
                .map_err(|_| format!("there is no user message {given:?} in this session"))?,
        };
        let dry_run = body.get("dry_run").and_then(Value::as_bool) == Some(true);
        self.pending.rewinding = Some(Rewinding { request_id: id.to_owned(), dry_run, plan: None });
        self.command(Command::Rewind { to, what: RewindWhat::Files }).await;
        Ok(())
    }

    /// Advances a rewind by the agent's event.
    pub(in crate::headless) async fn rewind_saw(&mut self, event: &Event) -> Result<(), Failure> {
        let Some(rewinding) = &mut self.pending.rewinding else { return Ok(()) };
        let answer = match event {
            Event::UndoPlanned(plan) => {
                let told = rewound(plan);
                if rewinding.dry_run || plan.paths.is_empty() {
                    told
                } else {
                    rewinding.plan = Some(told);
                    let command = Command::CarryOut { plan: plan.plan, force: false };
                    self.command(command).await;
                    return Ok(());
                }
            }
            Event::UndoDone(_) => rewinding.plan.take().unwrap_or_else(|| json!({ "canRewind": true })),
            Event::Notice { level: NoticeLevel::Warning | NoticeLevel::Error, text } => {
                json!({ "canRewind": false, "error": text })
            }
            _ => return Ok(()),
        };
        let Some(Rewinding { request_id, .. }) = self.pending.rewinding.take() else { return Ok(()) };
        match answer.get("error").and_then(Value::as_str) {
            Some(why) => written(self.printer.refusal(&request_id, why)),
            None => written(self.printer.control_response(&request_id, &answer)),
        }
    }
}

fn rewound(plan: &UndoPlan) -> Value {
    let lines = plan.paths.iter().filter_map(|path| path.lines);
    let (more, less) = lines.fold((0, 0), |(more, less), (a, b)| (more + a, less + b));
    let files: Vec<Value> = plan.paths.iter().map(|path| json!(path.path.0.to_string_lossy())).collect();
    json!({ "canRewind": true, "filesChanged": files, "insertions": more, "deletions": less })
}
