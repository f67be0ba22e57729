//! What the program that starts a run permits in it.

use crate::args::Run;

/// Limits that the program sets when it starts the run.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct HostLimits {
    /// The session may change to the permission mode `bypassPermissions`.
    pub may_bypass: bool,
}

impl HostLimits {
    /// Reads the flags of the run.
    pub(super) fn of(args: &Run) -> Self {
        let may_bypass =
            args.permissions.dangerously_skip_permissions || args.sdk.allow_dangerously_skip_permissions;
        Self { may_bypass }
    }
}
