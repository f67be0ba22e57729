//! The thread on which the agent of an interactive session runs: its start, its events and its end. A fault of the agent is never taken
//! for a normal end.

use crate::assemble::discard_if_unused;
use crate::environment::Environment;
use crate::failure::Failure;
use becket_agent::Agent;
use becket_tool_shell::Shell;
use becket_tui::Ended;
use becket_types::{Command, EndReason, Event};
use std::io::{self, Write as _};
use std::path::Path;
use std::sync::Arc;
use tokio::sync::mpsc;

/// The thread of the agent.
pub(super) type AgentThread = std::thread::JoinHandle<Result<(), Failure>>;

pub(super) fn start(agent: Agent) -> Result<AgentThread, Failure> {
    std::thread::Builder::new()
        .name("agent".to_owned())
        .spawn(move || crate::runtime().map(|runtime| drop(runtime.block_on(agent.run()))))
        .map_err(|e| Failure::error(format!("cannot start: {e}")))
}

/// Interrupts running work, waits for the end of the agent, and stops the servers. Everything that happened is in the ledger
/// already. `reason`: how the session ends.
pub(super) async fn stop(
    reason: EndReason,
    commands: mpsc::Sender<Command>,
    agent: AgentThread,
    mcp: Option<Arc<becket_mcp::Hub>>,
) -> std::thread::Result<Result<(), Failure>> {
    let _ = commands.send(Command::Leave { reason }).await;
    let _ = commands.send(Command::Interrupt).await;
    let _ = commands.send(Command::EndInput).await;
    drop(commands);
    let left = tokio::task::spawn_blocking(move || agent.join()).await;
    if let Some(mcp) = mcp {
        mcp.stop().await;
    }
    left.unwrap_or(Ok(Ok(())))
}

/// Reports why the agent's thread ended, unless it ended by itself. The user must not take a fault for a normal end.
pub(super) fn agent_left(left: std::thread::Result<Result<(), Failure>>) -> Result<(), Failure> {
    left.unwrap_or_else(|panic| Err(crate::failure::broken(&*panic)))
}

/// Ends the background jobs of a session that was left, and removes a new session in which nothing happened.
pub(super) async fn end_session(ended: &Ended, shell: &Shell, begun: Option<&Path>) {
    if *ended != Ended::Terminated {
        for line in shell.end_jobs().await {
            let _ = writeln!(io::stderr(), "becket: {line}");
        }
    }
    if matches!(ended, Ended::Quit | Ended::AgentGone) {
        discard_if_unused(begun);
    }
}

/// Passes events on to the interface until it is gone.
pub(super) async fn pass_on(
    mut from: mpsc::UnboundedReceiver<Event>,
    to: mpsc::UnboundedSender<Event>,
    environment: Environment,
) {
    while let Some(event) = from.recv().await {
        crate::servers::forget_first_models_after(&environment, &event);
        if to.send(event).is_err() {
            break;
        }
    }
}
