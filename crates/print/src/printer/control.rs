//! Lines of the control protocol: requests, answers, and the state of the session.

use super::turn::TurnSoFar;
use super::{Format, Printer};
use crate::exit::ExitStatus;
use crate::terminal;
use becket_types::{CallId, Event, MessageId, Part, PromptInput, TurnEnd, TurnResult, sdk_names};
use serde_json::{Value, json};
use std::io::{self, Write as _};

impl Printer {
    /// Writes a request to the program that drives becket. The answer arrives as a line of input. Returns the request in the form
    /// that the program gets, in which texts that are too long for a line are shortened.
    ///
    /// # Errors
    ///
    /// Fails if the output cannot be written.
    pub fn control_request(&mut self, request_id: &str, request: &Value) -> io::Result<Value> {
        let mut line = json!({ "type": "control_request", "request_id": request_id, "request": request });
        self.output.line_as_shown(&mut line)?;
        Ok(line["request"].take())
    }

    /// Informs the program that a request needs no answer any more.
    ///
    /// # Errors
    ///
    /// Fails if the output cannot be written.
    pub fn control_cancel(&mut self, request_id: &str) -> io::Result<()> {
        self.output.line(json!({ "type": "control_cancel_request", "request_id": request_id }))
    }

    /// Writes the error answer to a control request.
    ///
    /// # Errors
    ///
    /// Fails if the output cannot be written.
    pub fn refusal(&mut self, request_id: &str, error: &str) -> io::Result<()> {
        if self.options.format != Format::StreamJson {
            self.status = ExitStatus::Usage;
            return writeln!(self.output.notes, "becket: {}", terminal::clean(error));
        }
        self.output.line(json!({
            "type": "control_response",
            "response": { "subtype": "error", "request_id": request_id, "error": error },
        }))
    }

    /// Writes the success answer to a control request.
    ///
    /// # Errors
    ///
    /// Fails if the output cannot be written.
    pub fn control_response(&mut self, request_id: &str, response: &Value) -> io::Result<()> {
        if self.options.format != Format::StreamJson {
            return Ok(());
        }
        self.output.line(json!({
            "type": "control_response",
            "response": { "subtype": "success", "request_id": request_id, "response": response },
        }))
    }

    /// Writes the answer to a control request at once, even if other lines are collected.
    pub(super) fn receipt(&mut self, request_id: &str, error: Option<&str>) -> io::Result<()> {
        match error {
            None => self.control_response(request_id, &json!({})),
            Some(error) => self.refusal(request_id, error),
        }
    }

    /// Writes the state of the session: `running`, `requires_action` or `idle`.
    ///
    /// # Errors
    ///
    /// Fails if the output cannot be written.
    pub fn state(&mut self, state: &str) -> io::Result<()> {
        if !self.options.states || self.options.format != Format::StreamJson {
            return Ok(());
        }
        let line =
            self.lines.system_line("session_state_changed", json!({ "state": state, "sdk_host_only": true }));
        self.output.line(line)
    }

    /// Sets the number of the program's messages that wait for a turn. The next result contains it.
    pub fn set_queued(&mut self, queued: usize) {
        self.lines.totals.queued = queued;
    }

    /// Writes the state `idle`, unless another turn is about to begin. At `idle`, an SDK closes its input, and the next turn could
    /// ask the program nothing.
    pub(super) fn is_idle(&mut self) -> io::Result<()> {
        if self.lines.totals.queued > 0 { Ok(()) } else { self.state("idle") }
    }

    /// Changes the permission mode in later `system/init` lines, and writes a line about the change.
    ///
    /// # Errors
    ///
    /// Fails if the output cannot be written.
    pub fn mode_changed(&mut self, mode: &str) -> io::Result<()> {
        if let Some(Event::SessionStarted { permission_mode, .. }) = &mut self.lines.started {
            mode.clone_into(permission_mode);
        }
        let line = self.lines.system_line("status", json!({ "status": null, "permissionMode": mode }));
        self.output.emit(line)
    }

    /// Changes the commands in later `system/init` lines, and writes a line with all of them. `names`: the commands that are no
    /// prompts of MCP servers.
    ///
    /// # Errors
    ///
    /// Fails if the output cannot be written.
    pub fn commands_changed(&mut self, names: Vec<String>, commands: &[Value]) -> io::Result<()> {
        self.lines.facts.slash_commands = names;
        let line = self.lines.system_line("commands_changed", json!({ "commands": commands }));
        self.output.emit(line)
    }

    /// Writes the lines at the start of a turn, for a program that sends messages.
    pub(super) fn turn_began(&mut self) -> io::Result<()> {
        // A turn that asks again because of the schema belongs to the previous one, so it has no start of its own.
        if !self.options.driven || self.asking.asked > 0 {
            return Ok(());
        }
        self.turn.begun = true;
        self.state("running")?;
        self.emit_init()
    }

    /// Writes `system/init`, and the lines that waited for it.
    pub(super) fn emit_init(&mut self) -> io::Result<()> {
        let line = self.lines.init();
        self.output.emit(line)?;
        self.deferred.has_begun = true;
        for mut line in std::mem::take(&mut self.deferred.early) {
            line["session_id"] = json!(self.lines.session);
            self.output.emit(line)?;
        }
        Ok(())
    }

    /// Writes the answer to a command that becket answers itself: lines at the start of a turn, the text, and a result without
    /// a request to a model. `client_id`: the program's id of the command.
    ///
    /// # Errors
    ///
    /// Fails if the output cannot be written.
    pub fn local_answer(&mut self, text: &str, client_id: Option<&str>) -> io::Result<()> {
        self.lines.answered.opened_by(client_id);
        self.turn_began()?;
        if self.options.format == Format::StreamJson {
            let line = self.lines.system_line("local_command_output", json!({ "content": text }));
            self.output.emit(line)?;
        }
        self.local_result(text)
    }

    /// Writes the lines of a turn whose prompt a hook refused when its command was expanded.
    ///
    /// # Errors
    ///
    /// Fails if the output cannot be written.
    pub fn refused_expansion(&mut self, input: &PromptInput, why: &str) -> io::Result<()> {
        let prompt = input.parts.iter().find_map(|part| match part {
            Part::Text { text, .. } => Some(text.as_str()),
            _ => None,
        });
        let text = format!(
            "UserPromptExpansion operation blocked by hook:\n{why}\n\nOriginal prompt: {}",
            prompt.unwrap_or_default()
        );
        self.lines.answered.opened_by(input.client_id.as_deref());
        self.turn_began()?;
        let body = json!({ "content": text, "level": "warning", "prevent_continuation": true });
        self.system("informational", body)?;
        self.local_result(&text)
    }

    /// Writes the lines of a turn without a request to the model: its start, and a result without text.
    ///
    /// # Errors
    ///
    /// Fails if the output cannot be written.
    pub fn blank_answer(&mut self, client_id: Option<&str>) -> io::Result<()> {
        self.blank_begun(client_id)?;
        self.blank_ended()
    }

    /// Writes the start of a turn without a request to the model.
    ///
    /// # Errors
    ///
    /// Fails if the output cannot be written.
    pub fn blank_begun(&mut self, client_id: Option<&str>) -> io::Result<()> {
        self.lines.answered.opened_by(client_id);
        self.turn_began()
    }

    /// Writes the result of a turn without a request to the model.
    ///
    /// # Errors
    ///
    /// Fails if the output cannot be written.
    pub fn blank_ended(&mut self) -> io::Result<()> {
        self.local_result("")
    }

    /// Writes the line that announces an empty conversation to the program.
    ///
    /// # Errors
    ///
    /// Fails if the output cannot be written.
    pub fn conversation_reset(&mut self, client_id: Option<&str>) -> io::Result<()> {
        let mut line = json!({
            "type": "conversation_reset", "new_conversation_id": MessageId::new(), "trigger": "clear",
            "uuid": MessageId::new(), "session_id": self.lines.session,
        });
        if let Some(id) = client_id {
            line["user_message_uuid"] = json!(id);
        }
        self.output.emit(line)
    }

    fn local_result(&mut self, text: &str) -> io::Result<()> {
        let mut result = TurnResult::failed(String::new());
        (result.end, result.text) = (TurnEnd::Completed, text.into());
        self.status = ExitStatus::Ok;
        self.write_result(&result, None, None)?;
        self.turn = TurnSoFar::default();
        self.is_idle()
    }

    /// Writes a `system` line of this kind.
    ///
    /// # Errors
    ///
    /// Fails if the output cannot be written.
    pub fn system(&mut self, subtype: &str, body: Value) -> io::Result<()> {
        let line = self.lines.system_line(subtype, body);
        self.output.emit(line)
    }

    /// Writes that a long call still runs. `parent`: the call that started the subagent that makes this call.
    ///
    /// # Errors
    ///
    /// Fails if the output cannot be written.
    pub fn tool_progress(
        &mut self,
        call: &CallId,
        tool: &str,
        parent: Option<&CallId>,
        seconds: u64,
    ) -> io::Result<()> {
        self.output.line(json!({
            "type": "tool_progress", "tool_use_id": call, "tool_name": sdk_names::sdk_name(tool),
            "parent_tool_use_id": parent, "elapsed_time_seconds": seconds, "heartbeat": true,
            "uuid": MessageId::new(), "session_id": self.lines.session,
        }))
    }

    /// Writes the result for a message that starts no turn. `client_id`: the program's id of the message.
    ///
    /// # Errors
    ///
    /// Fails if the output cannot be written.
    pub fn no_turn(&mut self, why: &str, client_id: Option<&str>) -> io::Result<()> {
        if self.options.format == Format::StreamJson {
            let mut line = self.lines.no_turn(why, client_id);
            if self.options.driven {
                self.lines.totals.number(&mut line);
            }
            self.output.line(line)?;
        }
        self.status = ExitStatus::Error;
        writeln!(self.output.notes, "becket: {}", terminal::clean(why))
    }

    /// Writes a line, or keeps a notice until `system/init` is written.
    pub(super) fn emit_after_init(&mut self, line: Value) -> io::Result<()> {
        if self.deferred.has_begun || line["subtype"] != "informational" {
            return self.output.emit(line);
        }
        self.deferred.early.push(line);
        Ok(())
    }
}
