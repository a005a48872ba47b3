//! How the end of a run is reported.

use crate::status::Status;
use coracle_agent::Ended;

/// Why a task was not finished.
pub(crate) fn problem(ended: &Ended) -> Option<String> {
    match ended {
        Ended::Done => None,
        Ended::ClientCalls(_) => Some("the model called a tool that does not exist".to_owned()),
        Ended::Parked { .. } => Some("a call waits for approval".to_owned()),
        Ended::Refused => Some("the model refused the task".to_owned()),
        Ended::Length => Some("the answer reached its maximum length".to_owned()),
        Ended::Steps(most) => Some(format!("stopped after {most} steps (agent.max_steps)")),
        Ended::Calls(most) => Some(format!("stopped after {most} tool calls (agent.max_calls)")),
        Ended::Tokens(most) => Some(format!("stopped after {most} tokens (agent.max_run_tokens)")),
        Ended::Loop => Some("stopped because the model repeated the same call".to_owned()),
        Ended::Cancelled => Some("cancelled".to_owned()),
        Ended::Failed(error) => Some(error.to_string()),
        Ended::NotRecorded(error) => Some(error.to_string()),
    }
}

/// The code of an end that is not an error of the model.
pub(crate) fn limit_code(ended: &Ended) -> Option<&'static str> {
    match ended {
        Ended::Done | Ended::Failed(_) => None,
        Ended::ClientCalls(_) => Some("unknown_tool"),
        Ended::Parked { .. } => Some("approval"),
        Ended::Refused => Some("refused"),
        Ended::Length => Some("length"),
        Ended::Steps(_) => Some("steps"),
        Ended::Calls(_) => Some("calls"),
        Ended::Tokens(_) => Some("tokens"),
        Ended::Loop => Some("loop"),
        Ended::Cancelled => Some("cancelled"),
        Ended::NotRecorded(_) => Some("not_recorded"),
    }
}

pub(crate) fn status(ended: &Ended) -> Status {
    match ended {
        Ended::Done => Status::Success,
        Ended::Cancelled => Status::Cancelled,
        Ended::Failed(_) => Status::Unavailable,
        _ => Status::Failed,
    }
}

/// Writes to standard error why a run was not finished.
pub(crate) fn report_problem(ended: &Ended) {
    let Some(why) = problem(ended) else { return };
    eprintln!("error: {why}");
    if let Ended::Failed(error) = ended
        && let Some(hint) = error.hint()
    {
        eprintln!("hint: {hint}");
    }
}
