//! Requests that are refused before any code runs.

use crate::call_file::ResumeError;
use crate::json;
use crate::network::rules_of_request;
use crate::request::{MAX_CODE_BYTES, MAX_VARS_BYTES, Request};
use crate::verdict::invalid;
use coracle_audit::AuditError;
use coracle_policy::Reason;
use coracle_types::{ErrorCode, Execution, Failure};
use std::path::Path;

/// Checks that a request is valid and small enough. Returns the size of its variables as JSON.
pub(super) fn check(request: &Request) -> Result<u64, Failure> {
    request.limits.check().map_err(|error| invalid(error.to_string()))?;
    if request.code.len() > MAX_CODE_BYTES {
        let failure =
            invalid(format!("the code is {} bytes long: at most {MAX_CODE_BYTES} are taken", request.code.len()));
        return Err(Failure {
            hint: Some("put data into a file in the workspace and read it from there".to_owned()),
            ..failure
        });
    }
    if request.code.contains('\0') {
        return Err(invalid("the code contains a NUL byte"));
    }
    if let Some(lines) = &request.network {
        rules_of_request(lines)
            .map_err(|error| Failure { hint: Some(error.hint().to_owned()), ..invalid(error.to_string()) })?;
    }
    let vars = json::length(&request.vars);
    if vars > MAX_VARS_BYTES {
        return Err(invalid(format!("the variables are {vars} bytes long: at most {MAX_VARS_BYTES} are taken")));
    }
    Ok(vars)
}

pub(super) fn too_many_sessions(most: usize) -> Failure {
    Failure {
        error: format!("there are {most} live sessions already, the most that one user may have"),
        error_code: ErrorCode::SandboxUnavailable,
        traceback: None,
        hint: Some(
            "end sessions that are no longer needed, use one of them again, run without a session, or raise \
             history.live_sessions"
                .to_owned(),
        ),
    }
}

pub(super) fn no_folder(workspaces: &Path, error: &std::io::Error) -> Failure {
    Failure {
        error: format!("the user's workspace cannot be made in {}: {error}", workspaces.display()),
        error_code: ErrorCode::SandboxUnavailable,
        traceback: None,
        hint: Some("name a folder that you may write to with CORACLE_HOME or execution.workspace_dir".to_owned()),
    }
}

/// A policy of the operator does not let the code run.
pub(crate) fn forbidden(reason: &Reason) -> Failure {
    Failure {
        error: format!("this execution is denied: {reason}"),
        error_code: ErrorCode::Denied,
        traceback: None,
        hint: Some("the operator can change this policy; `coracle policy show` prints all of them".to_owned()),
    }
}

pub(super) fn being_deleted() -> Failure {
    Failure {
        error: "the workspace is being deleted, because it was unused for a long time".to_owned(),
        error_code: ErrorCode::SandboxUnavailable,
        traceback: None,
        hint: Some("try again in a moment: there will be an empty one".to_owned()),
    }
}

pub(super) fn not_resumed(error: &ResumeError) -> Failure {
    Failure { hint: Some(error.hint().to_owned()), ..invalid(error.to_string()) }
}

/// The warning that the beginning of an execution could not be recorded.
pub(super) fn not_audited(error: &AuditError) -> String {
    format!("tools cannot be called: {error}; {}", error.hint())
}

/// Adds to the hint of an execution that has failed after calls with an effect.
pub(super) fn suggest_resuming(execution: &mut Execution) {
    let Some(failure) = &mut execution.failure else { return };
    let id = &execution.execution_id;
    let resume = format!("to run it again, or corrected code, without repeating calls already made, resume {id}");
    failure.hint = Some(match failure.hint.take() {
        Some(hint) => format!("{hint}; {resume}"),
        None => resume,
    });
}

/// The warning that tasks of a session ran in other processes. Processes that use the same session share its files and
/// log, but each has a separate interpreter.
pub(super) fn elsewhere_ran(count: u64) -> String {
    let tasks = if count == 1 { "1 task".to_owned() } else { format!("{count} tasks") };
    format!(
        "{tasks} of this session ran in another coracle process since: their files are here, their variables are not"
    )
}
