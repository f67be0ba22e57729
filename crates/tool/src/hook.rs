//! Hooks that run around calls that change files: a formatter, a language server.
//!
//! Owns only the interface. The agent calls the hook; the program that installs a hook decides what it does. A hook never makes a
//! call fail, because the files have already changed. If the hook fails, its note says so.

use crate::ToolEnv;
use becket_types::{FileChange, PermissionMode, ToolOutput};
use futures::FutureExt;
use futures::future::{BoxFuture, Either, select};
use serde_json::{Value, json};
use std::fmt;
use std::panic::AssertUnwindSafe;
use std::path::PathBuf;
use std::pin::pin;

/// The note that a hook adds to the output of a call.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct EditNote {
    /// Text for the model, appended to the tool's own output; empty for none.
    pub text: String,
    /// Data for people, stored as `after_edit` in the output's details; null for none.
    pub details: Value,
}

/// Observes calls that change files, before and after they run.
pub trait EditHook: Send + Sync {
    /// Called before a permitted call that may change these files.
    fn before<'a>(
        &'a self,
        paths: &'a [PathBuf],
        mode: PermissionMode,
        env: &'a ToolEnv,
    ) -> BoxFuture<'a, ()>;

    /// Called after a call that changed these files. `mode` is the session's current mode: the hook may not
    /// run any program of the project that this mode forbids.
    fn after<'a>(
        &'a self,
        changes: &'a [FileChange],
        mode: PermissionMode,
        env: &'a ToolEnv,
    ) -> BoxFuture<'a, EditNote>;
}

impl fmt::Debug for dyn EditHook {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("EditHook")
    }
}

/// Returns the call's output with the hook's note added. The hook is skipped if the call failed or changed no
/// file. An interrupt cancels the hook.
pub async fn noted(
    hook: &dyn EditHook,
    mut output: ToolOutput,
    mode: PermissionMode,
    env: &ToolEnv,
) -> ToolOutput {
    if output.is_error || output.changes.is_empty() || env.cancel.is_cancelled() {
        return output;
    }
    let changes = output.changes.clone();
    let told = pin!(AssertUnwindSafe(hook.after(&changes, mode, env)).catch_unwind());
    let note = match select(told, pin!(env.cancel.cancelled())).await {
        Either::Left((Ok(note), _)) => note,
        Either::Left((Err(_), _)) => EditNote {
            text: "The checks after the edit stopped because of an internal error.".to_owned(),
            details: Value::Null,
        },
        Either::Right(_) => EditNote::default(),
    };
    if !note.text.is_empty() {
        if !output.content.is_empty() && !output.content.ends_with('\n') {
            output.content.push('\n');
        }
        output.content.push_str(&note.text);
    }
    if !note.details.is_null() {
        match &mut output.details {
            Value::Object(map) => {
                map.insert("after_edit".to_owned(), note.details);
            }
            details if details.is_null() => *details = json!({"after_edit": note.details}),
            _ => {}
        }
    }
    output
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing;
    use becket_types::FileChangeKind;
    use futures::executor::block_on;

    enum Behaviour {
        Says(&'static str),
        Panics,
        NeverEnds,
    }

    impl EditHook for Behaviour {
        fn before<'a>(&'a self, _: &'a [PathBuf], _: PermissionMode, _: &'a ToolEnv) -> BoxFuture<'a, ()> {
            futures::future::ready(()).boxed()
        }
        fn after<'a>(
            &'a self,
            changes: &'a [FileChange],
            _: PermissionMode,
            _: &'a ToolEnv,
        ) -> BoxFuture<'a, EditNote> {
            async move {
                match self {
                    Self::Says(text) => {
                        EditNote { text: (*text).to_owned(), details: json!({"files": changes.len()}) }
                    }
                    Self::Panics => panic!("inside"),
                    Self::NeverEnds => futures::future::pending().await,
                }
            }
            .boxed()
        }
    }

    fn changed(details: Value) -> ToolOutput {
        let changes = vec![FileChange { path: "/a".into(), kind: FileChangeKind::Update }];
        ToolOutput { details, changes, ..ToolOutput::text("Edited a.") }
    }

    #[test]
    fn a_note_stands_below_the_output_and_nothing_else_changes() {
        let (env, _) = testing::env(std::path::Path::new("/"));
        let note = |hook: Behaviour, output| block_on(noted(&hook, output, PermissionMode::Default, &env));
        let out = note(Behaviour::Says("1 error"), changed(json!({"diff": "d"})));
        assert_eq!(out.content, "Edited a.\n1 error");
        assert_eq!(out.details, json!({"diff": "d", "after_edit": {"files": 1}}));
        let out = note(Behaviour::Says(""), changed(Value::Null));
        assert_eq!((out.content.as_str(), out.details), ("Edited a.", json!({"after_edit": {"files": 1}})));
        let failed = ToolOutput { is_error: true, ..changed(Value::Null) };
        assert_eq!(note(Behaviour::Says("x"), failed.clone()), failed);
        assert_eq!(note(Behaviour::Says("x"), ToolOutput::text("t")), ToolOutput::text("t"));
    }

    #[test]
    fn a_hook_that_panics_or_hangs_loses_no_result() {
        let (env, _) = testing::env(std::path::Path::new("/"));
        let out = block_on(noted(&Behaviour::Panics, changed(Value::Null), PermissionMode::Default, &env));
        assert_eq!(out.content, "Edited a.\nThe checks after the edit stopped because of an internal error.");
        let cancel = env.cancel.clone();
        let (out, ()) = block_on(async {
            let hook = Behaviour::NeverEnds;
            let waiting = noted(&hook, changed(Value::Null), PermissionMode::Default, &env);
            futures::join!(waiting, async { cancel.cancel() })
        });
        assert_eq!(out, changed(Value::Null));
    }
}
