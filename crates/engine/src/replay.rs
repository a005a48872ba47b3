//! Runs the code of a session again, with the recorded answers of the host, and compares the outcomes.
//!
//! The code runs in a temporary workspace, which is empty at first or a copy of the user's. It calls nothing: a call that
//! was not recorded is an error that the code sees, and so is one that the rules deny by now. Code that the guardrails do not
//! allow by now is not run.

mod files;
mod player;

use crate::audit::RunKind;
use crate::capture::Capture;
use crate::execution::{Executor, Facts, forbidden};
use crate::host_calls::HostCalls;
use crate::journal::{Tape, outcome, text_digest};
use crate::request::Request;
use crate::run::{CallCount, Context, run};
use crate::sessions::Live;
use crate::toolbox::Listing;
use coracle_sandbox::Network;
use coracle_store::{SessionRecord, StoreError, TaskRecord, TaskState};
use coracle_types::{Limits, UserId};
use player::{Player, Rules};
use serde::Serialize;
use serde_json::Value;
use std::path::Path;
use std::sync::Arc;
use tokio_util::sync::CancellationToken;

/// Maximum length of a differing value that is shown.
const MAX_SHOWN: usize = 400;

/// Why a session could not be replayed.
#[derive(Debug, thiserror::Error)]
pub enum ReplayError {
    /// Its log cannot be read.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// The temporary workspace cannot be created.
    #[error("no workspace can be made to replay in: {0}")]
    Workspace(std::io::Error),
}

/// The content of the workspace at the start of a replay.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReplayFiles {
    /// It is empty.
    Nothing,
    /// A copy of the user's workspace as it is now.
    Copied,
}

/// The outcome of a replay.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Replay {
    /// Session ID.
    pub session_id: String,
    /// Whether all files were copied into the workspace.
    pub all_files: bool,
    /// The tasks that are kept, in order.
    pub tasks: Vec<ReplayedTask>,
}

impl Replay {
    /// Whether all tasks that ran had the same outcome as before.
    pub fn is_same(&self) -> bool {
        self.tasks.iter().all(|task| task.differences.is_empty())
    }
}

/// The outcome of one task.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct ReplayedTask {
    /// Number of the task in the session.
    pub number: u64,
    /// Why it was not run, if it was not.
    pub skipped: Option<String>,
    /// The differences from the recorded outcome.
    pub differences: Vec<Difference>,
}

/// A difference from the recorded outcome.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Difference {
    /// Part that differs: `result`, `output`, `error` or `calls`.
    pub what: String,
    /// The recorded value.
    pub then: String,
    /// The value now.
    pub now: String,
}

/// Runs the code of a session again with the answers that were recorded.
pub(crate) async fn replay(
    executor: &Executor,
    user: &UserId,
    session: &SessionRecord,
    files: ReplayFiles,
    limits: &Limits,
    cancel: &CancellationToken,
) -> Result<Replay, ReplayError> {
    let parts = executor.parts();
    let tasks = parts.sessions.history().tasks(user, session, usize::MAX).await?;
    let folder = tempfile::Builder::new().prefix("coracle-replay-").tempdir().map_err(ReplayError::Workspace)?;
    let workspace = folder.path().join("workspace");
    std::fs::create_dir(&workspace).map_err(ReplayError::Workspace)?;
    let all_files = match files {
        ReplayFiles::Nothing => true,
        ReplayFiles::Copied => {
            let own = parts.workspaces.of(user).files().map_err(ReplayError::Workspace)?;
            let (to, most) = (workspace.clone(), limits.workspace_mb.saturating_mul(1_000_000));
            let copied = tokio::task::spawn_blocking(move || files::copy(&own, &to, most)).await;
            copied.map_err(std::io::Error::other).and_then(|copied| copied).map_err(ReplayError::Workspace)?
        }
    };
    let mut replayed = Replay { session_id: session.id.to_string(), all_files, tasks: Vec::new() };
    let mut live = None;
    for task in tasks {
        let skipped =
            |why: &str| ReplayedTask { number: task.number, skipped: Some(why.to_owned()), differences: Vec::new() };
        let why = match task.state {
            TaskState::Running => Some("it is still running"),
            TaskState::Interrupted => Some("it was interrupted: there is nothing to compare"),
            TaskState::Done if task.begun.vars.is_none() => Some("its variables were too large to be kept"),
            TaskState::Done => None,
        };
        if let Some(why) = why {
            replayed.tasks.push(skipped(why));
            continue;
        }
        let recording = parts.sessions.recording(user, &session.id, task.number).await?;
        let Some((entries, missed)) = recording.as_ref().map(Tape::entries) else {
            replayed.tasks.push(skipped("the recorded results of its calls are no longer kept"));
            continue;
        };
        let mut request = Request::new(user.clone(), task.begun.language, task.begun.code.clone());
        request.vars = task.begun.vars.clone().unwrap_or_default();
        request.session = Some(session.id.clone());
        request.limits = limits.clone();
        request.cancel = cancel.clone();
        let facts = Facts::new(&request);
        if let Err(failure) = executor.guards().check(&request, &parts.tools).await {
            parts.tools.audit().not_run(&request, facts.id(), &failure).await;
            replayed.tasks.push(skipped(&failure.error));
            continue;
        }
        if let Some(reason) = parts.tools.denied(&request) {
            parts.tools.audit().execution_denied(&request, facts.id(), &reason).await;
            replayed.tasks.push(skipped(&forbidden(&reason).error));
            continue;
        }
        let rules = Rules::of(&parts.tools, user, facts.id());
        let player = Arc::new(Player::new(entries, missed, rules));
        let now = replay_one(executor, facts, &request, &workspace, &task, &mut live, &player).await;
        let differences = differences(&task, &now, &player);
        replayed.tasks.push(ReplayedTask { number: task.number, skipped: None, differences });
        if cancel.is_cancelled() {
            break;
        }
    }
    Ok(replayed)
}

async fn replay_one(
    executor: &Executor,
    mut facts: Facts,
    request: &Request,
    workspace: &Path,
    task: &TaskRecord,
    live: &mut Option<Live>,
    player: &Arc<Player>,
) -> Value {
    let parts = executor.parts();
    // Without an audit log, code runs, too. It calls nothing here.
    let (running, _) = parts.tools.audit().began(request, facts.id(), RunKind::Replay).await;
    facts.tools.inventory = parts.tools.inventory(&request.user, Listing::For(&request.code)).await;
    let mut capture = Capture::new(None, request.limits.output_bytes);
    let restarted = task.outcome.as_ref().and_then(|outcome| outcome.get("session_restarted"));
    if restarted.is_some() {
        *live = None;
    }
    let opened = match live.take() {
        Some(live) => Ok(live),
        None => parts.sandboxes.open(request, workspace, facts.servers(), &facts.clock, Network::Off).await,
    };
    let ran = match opened {
        Err(ran) => ran,
        Ok(mut current) => {
            current.runs += 1;
            facts.clock.start(std::time::Duration::from_millis(request.limits.wall_ms));
            let calls: Arc<dyn HostCalls> = Arc::<Player>::clone(player);
            let context = Context { calls, clock: facts.clock.clone(), count: CallCount::default(), network: None };
            let ran = run(&mut current.sandbox, current.runs, request, &mut capture, context).await;
            if ran.reusable {
                *live = Some(current);
            }
            ran
        }
    };
    let execution = executor.finished(facts, request, ran, &capture.finish(), workspace);
    running.ended(&execution);
    outcome(&serde_json::to_value(&execution).unwrap_or_default())
}

fn differences(task: &TaskRecord, now: &Value, player: &Player) -> Vec<Difference> {
    let then = task.outcome.clone().unwrap_or_default();
    let mut found = Vec::new();
    for (field, what) in [("result", "result"), ("stdout", "output"), ("error", "error")] {
        // Values that were too long to be kept are compared by their digests.
        if fingerprint(&then, field) != fingerprint(now, field) {
            found.push(Difference { what: what.to_owned(), then: shown(then.get(field)), now: shown(now.get(field)) });
        }
    }
    let (left, unknown) = (player.left(), player.unknown());
    if !(left.is_empty() && unknown.is_empty()) {
        let names = |names: &[String]| if names.is_empty() { "nothing more".to_owned() } else { names.join(", ") };
        let mut then = names(&left);
        if player.missed() > 0 {
            then = format!("{then}, and {} calls of which nothing was kept", player.missed());
        }
        let now = names(&unknown);
        let short = |text: String| crate::journal::head(&text, MAX_SHOWN).to_owned();
        found.push(Difference { what: "calls".to_owned(), then: short(then), now: short(now) });
    }
    found
}

fn fingerprint(outcome: &Value, field: &str) -> String {
    let kept = outcome.get("shortened").and_then(|shortened| shortened.get(field)).and_then(Value::as_str);
    kept.map_or_else(
        || {
            let value = outcome.get(field).unwrap_or(&Value::Null);
            match value {
                Value::String(text) if field != "result" => text_digest(text),
                other => text_digest(&crate::json::sorted_text(other)),
            }
        },
        str::to_owned,
    )
}

fn shown(value: Option<&Value>) -> String {
    let text = match value {
        None | Some(Value::Null) => "nothing".to_owned(),
        Some(Value::String(text)) => text.clone(),
        Some(other) => other.to_string(),
    };
    let cut = crate::journal::head(&text, MAX_SHOWN);
    if cut.len() < text.len() { format!("{cut}…") } else { text }
}
