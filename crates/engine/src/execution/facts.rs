use crate::call_file::{CallFile, Program};
use crate::call_log::CallLog;
use crate::capture::{Output, Recorded};
use crate::clock::Clock;
use crate::ids::new_execution_id;
use crate::journal::{OpenTask, Tape, shown_name};
use crate::ledger::Ledger;
use crate::privacy::ForModel;
use crate::request::Request;
use crate::run::Ran;
use crate::sessions::Turn;
use crate::sources::SourceTracker;
use crate::toolbox::Inventory;
use crate::tools::Known;
use crate::verdict::Ending;
use coracle_store::{ExecutionRecord, SessionRecord, TaskState};
use coracle_types::{
    Artifact, Enforced, ErrorCode, Execution, ExecutionId, Failure, LimitsReport, SandboxState, SessionId,
};
use serde_json::Value;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, SystemTime};
use tokio::time::Instant;

/// Maximum size of variables that are kept for further attempts.
const MAX_VARS_BYTES: u64 = 256 << 10;

/// State of an execution while it runs.
pub(crate) struct Facts {
    pub(super) id: ExecutionId,
    /// The size of the variables as JSON.
    pub(super) vars_bytes: u64,
    started: Instant,
    pub(super) restarted: bool,
    pub(super) artifacts: Vec<Artifact>,
    pub(super) warnings: Vec<String>,
    pub(super) enforced: Option<Enforced>,
    pub(super) tier: String,
    pub(crate) clock: Clock,
    pub(super) ledger: Ledger,
    /// The log of its calls, if there is one.
    pub(super) log: Option<Log>,
    /// The servers that the code has read from, and when it began.
    pub(super) sources: Option<(Arc<SourceTracker>, SystemTime)>,
    /// The tools that the code can call.
    pub(crate) tools: Known,
    /// Set if the answer goes to a model and personal data in it is replaced by tokens.
    pub(super) for_model: Option<ForModel>,
    /// The session, if the execution runs in one. `task` is its entry in the log, `tape` has the recorded answers of
    /// the host, and `turn` is the right to use the session.
    pub(super) session: Option<SessionRecord>,
    /// Whether the session was remembered instead of looked up in the store.
    pub(super) remembered: bool,
    /// Whether the session has ended or been deleted, according to the store.
    pub(super) gone: bool,
    pub(super) task: Option<OpenTask>,
    pub(super) tape: Option<Tape>,
    pub(super) turn: Option<Turn>,
}

/// Where the calls of an execution are logged.
pub(super) enum Log {
    /// A log of the caller.
    Given(Arc<dyn CallLog>),
    /// A file, so that the execution can be resumed. It is closed when this is dropped.
    File(Arc<CallFile>),
}

impl Log {
    /// The log.
    pub(super) fn calls(&self) -> Arc<dyn CallLog> {
        match self {
            Self::Given(log) => Arc::clone(log),
            Self::File(file) => Arc::<CallFile>::clone(file),
        }
    }

    /// Whether the execution can be resumed, and would otherwise repeat calls that may have had an effect.
    pub(super) fn is_worth_resuming(&self) -> bool {
        matches!(self, Self::File(file) if file.has_effects())
    }
}

impl Drop for Log {
    fn drop(&mut self) {
        if let Self::File(file) = self {
            file.close();
        }
    }
}

impl Facts {
    /// ID of the execution.
    pub(crate) fn id(&self) -> &ExecutionId {
        &self.id
    }

    pub(crate) fn new(request: &Request) -> Self {
        Self {
            id: new_execution_id(),
            vars_bytes: 0,
            started: Instant::now(),
            restarted: false,
            artifacts: Vec::new(),
            warnings: Vec::new(),
            enforced: None,
            tier: "none".to_owned(),
            clock: Clock::new(Duration::from_millis(request.limits.wall_ms)),
            ledger: Ledger::default(),
            log: None,
            sources: None,
            tools: Known::default(),
            for_model: None,
            session: None,
            remembered: false,
            gone: false,
            task: None,
            tape: None,
            turn: None,
        }
    }

    /// The modules of the servers whose tools the code can call.
    pub(crate) fn servers(&self) -> Option<PathBuf> {
        let known = || self.tools.inventory.as_ref().and_then(|inventory| inventory.modules());
        self.tools.modules.clone().or_else(known)
    }

    /// The name of the session, as clients see it.
    fn session_name(&self, request: &Request) -> Option<SessionId> {
        let name = self.session.as_ref().and_then(|session| SessionId::new(shown_name(session)).ok());
        name.or_else(|| request.session.clone())
    }

    fn limits(&self, request: &Request) -> LimitsReport {
        LimitsReport { requested: request.limits.clone(), enforced: self.enforced.clone(), tier: self.tier.clone() }
    }

    /// The sandbox in which the code is about to run.
    pub(super) fn sandbox(&self, request: &Request) -> SandboxState {
        SandboxState {
            execution_id: self.id.clone(),
            session: self.session_name(request),
            session_restarted: self.restarted,
            limits: self.limits(request),
        }
    }

    /// The program, as it is kept for further attempts.
    pub(super) fn program(&self, request: &Request) -> Program {
        Program {
            language: request.language,
            code: request.code.clone(),
            vars: (self.vars_bytes <= MAX_VARS_BYTES).then(|| request.vars.clone()),
            session: request.session.clone(),
        }
    }

    /// The record of an execution that has no outcome yet.
    pub(super) fn begun(&self, request: &Request) -> ExecutionRecord {
        ExecutionRecord {
            execution_id: self.id.clone(),
            user: request.user.clone(),
            session: request.session.clone(),
            started_at: SystemTime::now(),
            language: request.language,
            code: request.code.clone(),
            state: TaskState::Running,
            outcome: Value::Null,
        }
    }
}

/// The answer to a request that is refused, without output.
pub(crate) fn nothing_ran(facts: Facts, request: &Request, failure: Failure) -> (Execution, Output) {
    let recorded = Recorded { is_whole: true, ..Recorded::default() };
    let ran = Ran::not_at_all(Ending::Cancelled);
    (assemble(facts, request, ran, recorded, None, (1, Some(failure))), Output::default())
}

/// The answer to a request: `judged` is its exit code, and its failure if it failed.
pub(super) fn assemble(
    facts: Facts,
    request: &Request,
    ran: Ran,
    recorded: Recorded,
    output_file: Option<String>,
    judged: (i32, Option<Failure>),
) -> Execution {
    let (exit_code, mut failure) = judged;
    if let (Some(failure), Some(inventory)) = (&mut failure, &facts.tools.inventory) {
        explain_missing(failure, &request.code, inventory);
    }
    let (session, limits) = (facts.session_name(request), facts.limits(request));
    Execution {
        execution_id: facts.id,
        session,
        session_id: facts.session.map(|session| session.id),
        session_restarted: facts.restarted,
        language: request.language,
        success: failure.is_none(),
        result: ran.result,
        truncated: ran.result_truncated || !recorded.is_whole,
        output: recorded.lines(),
        stdout: recorded.stdout,
        stderr: recorded.stderr,
        exit_code,
        execution_time_ms: facts.started.elapsed().as_secs_f64() * 1e3,
        output_file,
        calls: facts.ledger.take(),
        artifacts: facts.artifacts,
        warnings: facts.warnings,
        plan: None,
        limits,
        failure,
    }
}

/// Adds a hint with the reason why the tools of a server that the code uses are not known.
fn explain_missing(failure: &mut Failure, code: &str, inventory: &Inventory) {
    let reasons: Vec<String> = inventory
        .missing_in(code)
        .map(|(server, reason)| format!("the tools of {server} are not known: {reason}"))
        .collect();
    // Replaces the hint of the guest, which only knows that the tools are missing.
    if !reasons.is_empty() && failure.error_code == ErrorCode::Exception {
        failure.hint = Some(reasons.join("; "));
    }
}
