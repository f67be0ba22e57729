//! Handles requests and notifications of a server: questions for the user, the folders of the workspace, progress, changed lists.
//! Other requests are refused.
//!
//! Notifications only set marks for later work, so a hundred of them cost no more than one.

#![expect(deprecated, reason = "the newest protocol drops roots, and servers of today ask for them")]

use crate::elicitation::{Answer, Elicitation, Form, Question};
use becket_types::cut_end;
use rmcp::ClientHandler;
use rmcp::model::{
    ClientCapabilities, ClientConfig, CustomNotification, ElicitRequestParams, ElicitResult,
    ElicitationAction, ElicitationCapability, ErrorData, FormElicitationCapability, Implementation,
    ListRootsResult, ProgressNotificationParam, ProgressToken, ProtocolVersion, Root, RootsCapabilities,
    UrlElicitationCapability,
};
use rmcp::service::{NotificationContext, RequestContext, RoleClient};
use serde_json::Value;
use std::collections::HashMap;
use std::path::PathBuf;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use tokio::sync::{Notify, mpsc};

/// The notification with which a server ends a question that is an address.
const ELICITATION_COMPLETE: &str = "notifications/elicitation/complete";
/// Longest id of such a question, in bytes.
const MAX_ID: usize = 256;

/// A progress notification of a running call.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Progress {
    pub done: f64,
    pub total: Option<f64>,
    pub message: Option<String>,
}

/// Marks that notifications set and that the server's task and its calls read.
#[derive(Default)]
pub(crate) struct Notifications {
    pub lists: Notify,
    pub notified: AtomicU64,
    /// Running calls, each with the channel for its progress.
    pub calls: Mutex<HashMap<ProgressToken, mpsc::Sender<Progress>>>,
    /// Number of questions that wait for a person. While there are any, calls do not time out.
    pub questions: AtomicU64,
}

#[derive(Clone)]
pub(crate) struct Handler {
    pub server: String,
    pub version: String,
    pub marks: Arc<Notifications>,
    pub elicitation: Elicitation,
    /// The folders of the workspace, which a server may ask for.
    pub roots: Vec<PathBuf>,
}

impl Handler {
    /// Returns the folders of the workspace as addresses.
    pub(crate) fn listed_roots(&self) -> ListRootsResult {
        let root = |folder: &PathBuf| {
            let mut root = Root::new(url::Url::from_file_path(folder).ok()?);
            root.name = folder.file_name().map(|name| name.to_string_lossy().into_owned());
            Some(root)
        };
        ListRootsResult::new(self.roots.iter().filter_map(root).collect())
    }

    /// Answers a question, also one inside a result.
    pub(crate) async fn elicit(&self, params: ElicitRequestParams) -> ElicitResult {
        let (message, id, form) = match params {
            ElicitRequestParams::FormElicitationParams { message, requested_schema, .. } => {
                (message, None, Form::Fields(serde_json::to_value(requested_schema).unwrap_or(Value::Null)))
            }
            ElicitRequestParams::UrlElicitationParams { message, url, elicitation_id, .. } => {
                (message, Some(elicitation_id), Form::Url(url))
            }
            _ => return ElicitResult::new(ElicitationAction::Cancel),
        };
        let question = Question { server: self.server.clone(), message, id, form };
        self.marks.questions.fetch_add(1, Ordering::Relaxed);
        let answer = self.elicitation.answer(question).await;
        self.marks.questions.fetch_sub(1, Ordering::Relaxed);
        match answer {
            Answer::Accept(content) => {
                ElicitResult::new(ElicitationAction::Accept).with_content(Value::Object(content))
            }
            Answer::Decline => ElicitResult::new(ElicitationAction::Decline),
            Answer::Cancel => ElicitResult::new(ElicitationAction::Cancel),
        }
    }

    fn list_changed(&self) {
        self.marks.notified.fetch_add(1, Ordering::Relaxed);
        self.marks.lists.notify_one();
    }
}

impl ClientHandler for Handler {
    fn get_info(&self) -> ClientConfig {
        let mut capabilities = ClientCapabilities::default();
        capabilities.elicitation = Some(
            ElicitationCapability::new()
                .with_form(FormElicitationCapability::default())
                .with_url(UrlElicitationCapability::default()),
        );
        capabilities.roots = Some(RootsCapabilities::default());
        let mut config = ClientConfig::new(capabilities, Implementation::new("becket", self.version.clone()));
        config.protocol_version = ProtocolVersion::LATEST_WITH_INITIALIZE;
        config
    }

    async fn create_elicitation(
        &self,
        request: ElicitRequestParams,
        _: RequestContext<RoleClient>,
    ) -> Result<ElicitResult, ErrorData> {
        Ok(self.elicit(request).await)
    }

    async fn list_roots(&self, _: RequestContext<RoleClient>) -> Result<ListRootsResult, ErrorData> {
        Ok(self.listed_roots())
    }

    async fn on_progress(&self, params: ProgressNotificationParam, _: NotificationContext<RoleClient>) {
        let progress = Progress { done: params.progress, total: params.total, message: params.message };
        let calls = self.marks.calls.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(call) = calls.get(&params.progress_token) {
            // If the queue is full, enough progress waits to be displayed, so this step is dropped.
            let _ = call.try_send(progress);
        }
    }

    async fn on_custom_notification(
        &self,
        notification: CustomNotification,
        _: NotificationContext<RoleClient>,
    ) {
        let id = notification.params.as_ref().and_then(|params| params.get("elicitationId")?.as_str());
        if let Some(id) = id.filter(|_| notification.method == ELICITATION_COMPLETE) {
            self.elicitation.completed(&self.server, cut_end(id, MAX_ID));
        }
    }

    async fn on_tool_list_changed(&self, _: NotificationContext<RoleClient>) {
        self.list_changed();
    }

    async fn on_resource_list_changed(&self, _: NotificationContext<RoleClient>) {
        self.list_changed();
    }

    async fn on_prompt_list_changed(&self, _: NotificationContext<RoleClient>) {
        self.list_changed();
    }
}
