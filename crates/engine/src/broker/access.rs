//! Tasks that only read.

use crate::host_calls::{HostCallError, refused};
use coracle_guardrails::Access;
use coracle_types::Tool;

/// Refuses a tool that is not marked as read-only, if the task only reads.
pub(super) fn check(access: Access, tool: &Tool) -> Result<(), HostCallError> {
    match access {
        Access::ReadOnly if tool.hints.read_only != Some(true) => Err(refused(
            "denied_read_only",
            "this task only reads, and the tool is not marked as read-only; use a tool that only reads, or run the \
             code without read-only mode",
        )),
        Access::Any | Access::ReadOnly => Ok(()),
    }
}
