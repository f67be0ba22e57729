//! Talks to a server that is a program: one JSON message per line on standard input and output, its log on standard
//! error.
//!
//! A line that is longer than [`LONGEST`] is dropped, and the call that it answers fails with a clear message. A line
//! that is not a message is stored in the server's log.

use super::message::{self, LONGEST};
use becket_sandbox::{Process, ProcessLog, Streams};
use rmcp::RoleClient;
use rmcp::service::{RxJsonRpcMessage, TxJsonRpcMessage};
use rmcp::transport::Transport;
use std::io;
use std::sync::Arc;
use std::time::Duration;
use tokio::io::{AsyncBufReadExt as _, AsyncWriteExt as _, BufReader};
use tokio::process::{ChildStdin, ChildStdout};

/// Number of bytes that are kept of each end of a line that is too long, to find the call that it answers.
const ENDS: usize = 4 * 1024;
/// Time for a server to exit after its input is closed.
const GRACE: Duration = Duration::from_millis(300);

/// Returns the last line of a log that is not blank.
pub(crate) fn last_line(log: &ProcessLog) -> Option<String> {
    let text = log.text();
    let line = text.lines().rev().map(str::trim).find(|line| !line.is_empty())?;
    Some(becket_types::cut_end(&becket_tool::text::clean(line), 200).to_owned())
}

pub(crate) struct Stdio {
    input: Arc<tokio::sync::Mutex<Option<ChildStdin>>>,
    output: BufReader<ChildStdout>,
    line: Vec<u8>,
    /// Number of bytes of the current line so far, including dropped ones.
    length: usize,
    tail: Vec<u8>,
    log: ProcessLog,
    process: Option<Process>,
}

impl Stdio {
    pub(crate) fn new(process: Process, streams: Streams, log: ProcessLog) -> Self {
        let Streams { stdin, stdout, stderr } = streams;
        tokio::spawn(log.clone().follow(stderr));
        Self {
            input: Arc::new(tokio::sync::Mutex::new(Some(stdin))),
            output: BufReader::with_capacity(64 * 1024, stdout),
            line: Vec::new(),
            length: 0,
            tail: Vec::new(),
            log,
            process: Some(process),
        }
    }

    /// Takes bytes of the current line.
    fn take(&mut self, bytes: &[u8]) {
        self.length += bytes.len();
        if self.length <= LONGEST {
            self.line.extend_from_slice(bytes);
            return;
        }
        self.line.truncate(ENDS);
        self.tail.extend_from_slice(bytes);
        if self.tail.len() > 2 * ENDS {
            let cut = self.tail.len() - ENDS;
            self.tail.drain(..cut);
        }
    }

    /// Parses the line that has ended.
    fn end_line(&mut self) -> Option<RxJsonRpcMessage<RoleClient>> {
        let (line, tail) = (std::mem::take(&mut self.line), std::mem::take(&mut self.tail));
        let length = std::mem::take(&mut self.length);
        if length > LONGEST {
            self.log.add(&format!("[becket: a line of {length} bytes was not read]\n"));
            return message::too_long(&line, &tail, length);
        }
        let text = line.strip_suffix(b"\r").unwrap_or(&line);
        if text.iter().all(u8::is_ascii_whitespace) {
            return None;
        }
        let message = message::read(text);
        if message.is_none() {
            let shown = String::from_utf8_lossy(text);
            self.log.add(becket_types::cut_end(&shown, 1000));
            self.log.add("\n");
        }
        message
    }
}

impl Transport<RoleClient> for Stdio {
    type Error = io::Error;

    fn send(
        &mut self,
        item: TxJsonRpcMessage<RoleClient>,
    ) -> impl Future<Output = Result<(), Self::Error>> + Send + 'static {
        let input = Arc::clone(&self.input);
        async move {
            let mut line = serde_json::to_vec(&item).map_err(io::Error::other)?;
            line.push(b'\n');
            let mut input = input.lock().await;
            let pipe = input.as_mut().ok_or_else(|| io::Error::from(io::ErrorKind::BrokenPipe))?;
            pipe.write_all(&line).await?;
            pipe.flush().await
        }
    }

    async fn receive(&mut self) -> Option<RxJsonRpcMessage<RoleClient>> {
        loop {
            // The only await is that of `fill_buf`, and all bytes consumed before it are in `self`. So the future may be dropped
            // there without loss.
            let (consumed, ended) = {
                let buffer = self.output.fill_buf().await.ok()?.to_vec();
                if buffer.is_empty() {
                    return None;
                }
                match buffer.iter().position(|byte| *byte == b'\n') {
                    Some(at) => {
                        self.take(&buffer[..at]);
                        (at + 1, true)
                    }
                    None => {
                        self.take(&buffer);
                        (buffer.len(), false)
                    }
                }
            };
            self.output.consume(consumed);
            if ended && let Some(message) = self.end_line() {
                return Some(message);
            }
        }
    }

    async fn close(&mut self) -> Result<(), Self::Error> {
        drop(self.input.lock().await.take());
        if let Some(mut process) = self.process.take() {
            let _ = tokio::time::timeout(GRACE, process.wait()).await;
        }
        Ok(())
    }
}
