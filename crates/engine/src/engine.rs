mod data;

use crate::artifacts::{ArtifactFolder, Author};
use crate::broker::{Broker, Caller};
use crate::capture::{Capture, Captured};
use crate::clock::Clock;
use crate::files::Usages;
use crate::history::History;
use crate::housekeeping::Active;
use crate::journal::{OpenTask, Shown, Tape, shown_name};
use crate::ledger::Ledger;
use crate::request::{DirectCall, DirectError, HostCalls, MAX_CODE_BYTES, MAX_VARS_BYTES, NoCalls, Request};
use crate::run::{Context, Ran, run};
use crate::services::Services;
use crate::session::{Live, Sessions, Turn};
use crate::skills::Skills;
use crate::toolbox::{Inventory, Listing, Toolbox};
use crate::verdict::{Ending, invalid};
use crate::workspace::UserFolders;
use coracle_sandbox::{Backend, Spec};
use coracle_store::{ExecutionRecord, SessionRecord, Store, StoreError};
use coracle_types::{Artifact, Enforced, ErrorCode, Execution, ExecutionId, Failure, LimitsReport, SessionId, UserId};
use serde_json::Value;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::time::{Duration, SystemTime};
use tokio::time::Instant;

/// How the engine is set up.
#[derive(Clone, Debug)]
pub struct EngineConfig {
    /// Where users have their folders: workspace and artifacts.
    pub workspaces: PathBuf,
    /// An interpreter of a session that nobody uses ends after this time.
    pub session_idle: Duration,
}

/// Runs code. Cheap to clone.
#[derive(Clone, Debug)]
pub struct Engine {
    inner: Arc<Inner>,
}

#[derive(Debug)]
struct Inner {
    config: EngineConfig,
    backend: Arc<dyn Backend>,
    sessions: Sessions,
    skills: Skills,
    store: Arc<dyn Store>,
    toolbox: Option<Arc<Toolbox>>,
    /// How full workspaces are.
    usages: Usages,
    /// What all artifacts of a user may amount to.
    artifact_bytes: AtomicU64,
    /// Who has something running.
    active: Active,
    /// Held by whoever writes a copy of a log.
    copies: Arc<tokio::sync::RwLock<()>>,
}

/// What is known of an execution while it is under way.
pub(crate) struct Facts {
    id: ExecutionId,
    begun: Instant,
    restarted: bool,
    artifacts: Vec<Artifact>,
    warnings: Vec<String>,
    enforced: Option<Enforced>,
    tier: String,
    pub(crate) clock: Clock,
    ledger: Ledger,
    /// What the code can call.
    pub(crate) inventory: Option<Arc<Inventory>>,
    /// In a session: which one, the line in its log, what the host answers, and the right to use it.
    session: Option<SessionRecord>,
    task: Option<OpenTask>,
    tape: Option<Tape>,
    turn: Option<Turn>,
}

impl Facts {
    pub(crate) fn new(request: &Request) -> Self {
        Self {
            id: ExecutionId::from_random(random_number()),
            begun: Instant::now(),
            restarted: false,
            artifacts: Vec::new(),
            warnings: Vec::new(),
            enforced: None,
            tier: "none".to_owned(),
            clock: Clock::new(Duration::from_millis(request.limits.wall_ms)),
            ledger: Ledger::default(),
            inventory: None,
            session: None,
            task: None,
            tape: None,
            turn: None,
        }
    }
}

impl Engine {
    /// An engine on a backend; its code can call tools if there is a toolbox. Must be called within a tokio runtime.
    pub fn new(
        config: EngineConfig,
        backend: Arc<dyn Backend>,
        store: Arc<dyn Store>,
        toolbox: Option<Arc<Toolbox>>,
    ) -> Self {
        let inner = Arc::new(Inner {
            skills: Skills::new(&config.workspaces),
            config,
            backend,
            sessions: Sessions::default(),
            store,
            toolbox,
            usages: Usages::default(),
            artifact_bytes: data::ARTIFACT_BYTES.into(),
            active: Active::default(),
            copies: Arc::default(),
        });
        let watched = Arc::downgrade(&inner);
        let idle = inner.config.session_idle;
        tokio::spawn(async move {
            loop {
                tokio::time::sleep((idle / 4).clamp(Duration::from_millis(50), Duration::from_secs(15))).await;
                match watched.upgrade() {
                    Some(inner) => inner.sessions.expire(idle),
                    None => return,
                }
            }
        });
        let engine = Self { inner };
        let recovering = engine.clone();
        tokio::spawn(async move { recovering.recover().await });
        engine
    }

    /// Runs one piece of code to its end. Dropping the future ends the code.
    pub async fn execute(&self, mut request: Request) -> Execution {
        let mut facts = Facts::new(&request);
        if let Err(failure) = check(&request) {
            return refused(facts, &request, failure);
        }
        let Some(_busy) = self.inner.active.begin(&request.user) else {
            return refused(facts, &request, being_deleted());
        };
        let mut capture =
            Capture::new(request.events.clone(), request.limits.output_tokens, request.limits.output_bytes);
        let workspace = match self.workspace(&request) {
            Ok(workspace) => workspace,
            Err(error) => return refused(facts, &request, no_folder(&self.inner.config.workspaces, &error)),
        };
        if let Some(handle) = &request.session {
            match self.session_of(&request.user, handle).await {
                Ok(session) => {
                    // From here on nobody goes by the name that it was given.
                    request.session = Some(session.id.clone());
                    facts.session = Some(session);
                }
                Err(failure) => return refused(facts, &request, failure),
            }
        }
        if let Some(toolbox) = &self.inner.toolbox {
            // Servers that have never listed their tools are waited for: not in the code's time.
            facts.inventory = tokio::select! {
                biased;
                () = request.cancel.cancelled() => None,
                inventory = toolbox.inventory(&request.user, Listing::For(&request.code)) => Some(inventory),
            };
        }
        let started_at = SystemTime::now();
        let ran = match &request.session {
            None => self.run_fresh(&request, &workspace, &mut capture, &mut facts).await,
            Some(_) => self.run_in_session(&request, &workspace, &mut capture, &mut facts).await,
        };
        let (task, tape, mut turn) = (facts.task.take(), facts.tape.take(), facts.turn.take());
        let mut execution = self.finished(facts, &request, ran, capture.finish(), &workspace);
        if let Some(task) = task {
            let session = task.place.session.clone();
            self.finish_task(task, &mut execution, tape).await;
            let (engine, user, copies) = (self.clone(), request.user.clone(), Arc::clone(&self.inner.copies));
            let copying = copies.read_owned().await;
            // The store has it. Whoever is next in the session has to wait for the rest, who is answered need not. One task
            // for all of it: a second one would wake a thread, which takes longer than answering.
            tokio::spawn(async move {
                let live = turn.as_deref_mut().and_then(Option::as_mut);
                let mut unknown = Shown::default();
                let shown = live.map_or(&mut unknown, |live| &mut live.shown);
                engine.write_log_file(&user, &session, &workspace, shown).await;
                if let Some(live) = turn.as_deref_mut().and_then(Option::as_mut) {
                    live.sandbox.control.rest().await;
                }
                drop((turn, copying));
            });
        }
        self.wrap_up(&request, &execution, started_at).await;
        execution
    }

    /// Its tools, if its code has any.
    pub fn toolbox(&self) -> Option<&Arc<Toolbox>> {
        self.inner.toolbox.as_ref()
    }

    pub(crate) fn skills(&self) -> &Skills {
        &self.inner.skills
    }

    /// Calls one tool for somebody who does not write code, past the same broker as code does.
    pub async fn call_tool(&self, call: DirectCall) -> Result<Value, DirectError> {
        let Some(toolbox) = &self.inner.toolbox else { return Err(NoCalls::refusal(&call.tool).into()) };
        let caller = Caller {
            user: call.user.clone(),
            session: call.session.clone(),
            execution: ExecutionId::from_random(random_number()),
            approver: Arc::clone(&call.approver),
            cancel: call.context.cancel.clone(),
        };
        // Nothing runs out: a call that is passed on has the time of its server.
        let clock = Clock::new(Duration::from_hours(24));
        let broker = Broker::new(Arc::clone(toolbox), caller, clock, Ledger::default(), Arc::new(NoCalls));
        broker.pass_on(&call.server, &call.tool, call.arguments, call.context).await
    }

    /// What a user has run, the newest first; those before one of them, if it is given.
    pub async fn executions(
        &self,
        user: &UserId,
        limit: usize,
        before: Option<&ExecutionId>,
    ) -> Result<Vec<ExecutionRecord>, StoreError> {
        self.inner.store.executions(user, limit, before).await
    }

    /// One execution of a user, if it is kept.
    pub async fn execution(&self, user: &UserId, id: &ExecutionId) -> Result<Option<ExecutionRecord>, StoreError> {
        self.inner.store.execution(user, id).await
    }

    /// The log of sessions.
    pub fn history(&self) -> History {
        History::new(Arc::clone(&self.inner.store), self.inner.config.workspaces.clone())
    }

    /// Ends a session: its interpreter, and its name is free again. Returns whether it had not ended before.
    pub async fn end_session(&self, user: &UserId, session: &SessionRecord) -> Result<bool, StoreError> {
        let ended = self.history().end(user, session).await?;
        self.inner.sessions.forget(user, &session.id);
        Ok(ended)
    }

    /// How many interpreters of sessions live.
    pub fn live_sessions(&self) -> usize {
        self.inner.sessions.live()
    }

    /// Waits until the copies of logs are written into the workspaces.
    pub async fn settled(&self) {
        drop(self.inner.copies.write().await);
    }

    /// Ends all sandboxes; returns when nothing is left.
    pub async fn shutdown(&self) {
        self.settled().await;
        self.inner.sessions.clear();
        self.inner.backend.shutdown().await;
    }

    pub(crate) fn store(&self) -> &Arc<dyn Store> {
        &self.inner.store
    }

    pub(crate) fn folders(&self, user: &UserId) -> UserFolders {
        UserFolders::of(&self.inner.config.workspaces, user)
    }

    fn workspace(&self, request: &Request) -> std::io::Result<PathBuf> {
        match &request.workspace {
            Some(folder) => Ok(folder.clone()),
            None => self.folders(&request.user).files(),
        }
    }

    async fn run_fresh(&self, request: &Request, workspace: &Path, capture: &mut Capture, facts: &mut Facts) -> Ran {
        let mut live = match self.open(request, workspace, facts).await {
            Ok(live) => live,
            Err(ran) => return ran,
        };
        self.run_live(&mut live, request, capture, facts).await
    }

    async fn run_in_session(
        &self,
        request: &Request,
        workspace: &Path,
        capture: &mut Capture,
        facts: &mut Facts,
    ) -> Ran {
        let Some(session) = facts.session.clone() else { return ended(Ending::Cancelled) };
        let seat = self.inner.sessions.seat(&request.user, &session.id);
        let mut live = tokio::select! {
            () = request.cancel.cancelled() => return ended(Ending::Cancelled),
            () = facts.clock.expired() => return ended(Ending::timed_out(request.limits.wall_ms)),
            live = seat.lock_owned() => live,
        };
        if live.is_none() && session.tasks > 0 {
            // Others may have been interrupted; the code that follows should find that in the log.
            self.recover().await;
            self.write_log_file(&request.user, &session.id, workspace, &mut Shown::default()).await;
        }
        match self.begin_task(request, &session, &facts.id).await {
            Ok(task) => facts.task = Some(task),
            Err(failure) => return ended(Ending::Refused(failure)),
        }
        facts.tape = Some(Tape::default());
        // Taken out while it runs: if this future is dropped midway, the interpreter in an unknown state goes with it.
        let mut current = live.take().filter(|live| live.workspace == workspace);
        if current.is_none() {
            let used = self.inner.sessions.mark_used(&request.user, &session.id);
            facts.restarted = used || session.tasks > 0;
            current = match self.open(request, workspace, facts).await {
                Ok(live) => Some(live),
                Err(ran) => return ran,
            };
        }
        let Some(mut current) = current else { return ended(Ending::Cancelled) };
        let ran = self.run_live(&mut current, request, capture, facts).await;
        facts.restarted |= ran.restarted;
        if ran.reusable {
            current.last_used = Instant::now();
            *live = Some(current);
        }
        facts.turn = Some(live);
        ran
    }

    pub(crate) async fn open(&self, request: &Request, workspace: &Path, facts: &mut Facts) -> Result<Live, Ran> {
        facts.clock.start(Duration::from_millis(request.limits.wall_ms));
        let servers = facts.inventory.as_ref().and_then(|inventory| inventory.modules.clone());
        let skills = match &request.trial {
            Some(folder) => Some(folder.clone()),
            None => self.skills().seen(&request.user).await,
        };
        let spec = Spec { workspace: workspace.to_owned(), servers, skills, limits: request.limits.clone() };
        let opened = tokio::select! {
            biased;
            () = request.cancel.cancelled() => return Err(ended(Ending::Cancelled)),
            opened = self.inner.backend.open(spec) => opened,
            () = facts.clock.expired() => return Err(ended(Ending::timed_out(request.limits.wall_ms))),
        };
        let sandbox = opened.map_err(|error| ended(Ending::NoSandbox(error)))?;
        let artifacts = ArtifactFolder::new(sandbox.artifacts.clone());
        let (workspace, shown) = (workspace.to_owned(), Shown::default());
        Ok(Live { sandbox, artifacts, workspace, shown, runs: 0, last_used: Instant::now() })
    }

    async fn run_live(&self, live: &mut Live, request: &Request, capture: &mut Capture, facts: &mut Facts) -> Ran {
        live.runs += 1;
        facts.enforced = Some(live.sandbox.enforced.clone());
        facts.tier.clone_from(&live.sandbox.tier);
        // The wall clock starts when the code does.
        facts.clock.start(Duration::from_millis(request.limits.wall_ms));
        let context = Context { calls: self.calls(request, facts), clock: facts.clock.clone() };
        let ran = run(&mut live.sandbox, live.runs, request, capture, context).await;
        if request.trial.is_some() {
            return ran;
        }
        match live.artifacts.left() {
            Ok(None) => {}
            Ok(Some(left)) => {
                let session = facts.session.as_ref().map(|session| session.id.clone());
                let author = Author { execution: facts.id.clone(), session };
                (facts.artifacts, facts.warnings) = self.take_over(&request.user, author, left).await;
            }
            Err(error) => facts.warnings.push(format!("artifacts were not kept: {error}")),
        }
        ran
    }

    pub(crate) fn finished(
        &self,
        facts: Facts,
        request: &Request,
        mut ran: Ran,
        mut captured: Captured,
        workspace: &Path,
    ) -> Execution {
        let ending = std::mem::replace(&mut ran.ending, Ending::Cancelled);
        let judged = ending.judge();
        let kept = |whole: Vec<u8>| {
            self.keep(&request.user, Some(workspace), &request.limits, &format!("{}.txt", facts.id), &whole)
        };
        let file = captured.overflow.take().and_then(kept);
        assemble(facts, request, ran, captured, file, judged)
    }

    /// After an execution: what was learned and what happened is kept, what was allowed for it is not.
    async fn wrap_up(&self, request: &Request, execution: &Execution, started_at: SystemTime) {
        let record = ExecutionRecord {
            execution_id: execution.execution_id.clone(),
            user: request.user.clone(),
            session: request.session.clone(),
            started_at,
            language: request.language,
            code: request.code.clone(),
            outcome: serde_json::to_value(execution).unwrap_or_default(),
        };
        if let Some(toolbox) = &self.inner.toolbox {
            if request.session.is_none() {
                toolbox.approvals().end_execution(&request.user, &execution.execution_id);
            }
            toolbox.keep().await;
            toolbox.used(&record);
        }
        if let Err(error) = self.inner.store.record(&record).await {
            tracing::warn!(%error, "an execution could not be kept");
        }
    }

    fn calls(&self, request: &Request, facts: &Facts) -> Arc<dyn HostCalls> {
        let task = facts.task.as_ref().map(|task| &task.place);
        let services = Services::new(self.clone(), request).in_task(task);
        let taped = |calls: Arc<dyn HostCalls>| match &facts.tape {
            Some(tape) => tape.around(calls),
            None => calls,
        };
        let Some(toolbox) = &self.inner.toolbox else { return taped(Arc::new(services)) };
        let caller = Caller {
            user: request.user.clone(),
            session: request.session.clone(),
            execution: facts.id.clone(),
            approver: Arc::clone(&request.approver),
            cancel: request.cancel.clone(),
        };
        let ledger = facts.ledger.clone();
        let broker = Broker::new(Arc::clone(toolbox), caller, facts.clock.clone(), ledger, Arc::new(services));
        taped(Arc::new(broker.knowing(facts.inventory.as_ref())))
    }
}

/// Code that uses a server whose tools are not known does not know why.
fn explain_missing(failure: &mut Failure, code: &str, inventory: &Inventory) {
    let reasons: Vec<String> = inventory
        .missing_in(code)
        .map(|(server, reason)| format!("the tools of {server} are not known: {reason}"))
        .collect();
    // Stronger than what the guest guesses, which knows only that they are not there.
    if !reasons.is_empty() && failure.error_code == ErrorCode::Exception {
        failure.hint = Some(reasons.join("; "));
    }
}

fn ended(ending: Ending) -> Ran {
    Ran { ending, result: None, result_truncated: false, restarted: false, reusable: false }
}

fn check(request: &Request) -> Result<(), Failure> {
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
    let vars = serde_json::to_vec(&request.vars).map_or(usize::MAX, |bytes| bytes.len());
    if vars > MAX_VARS_BYTES {
        return Err(invalid(format!("the variables are {vars} bytes long: at most {MAX_VARS_BYTES} are taken")));
    }
    Ok(())
}

fn no_folder(workspaces: &Path, error: &std::io::Error) -> Failure {
    Failure {
        error: format!("the user's workspace cannot be made in {}: {error}", workspaces.display()),
        error_code: ErrorCode::SandboxUnavailable,
        traceback: None,
        hint: Some("name a folder that you may write to with CORACLE_HOME or execution.workspace_dir".to_owned()),
    }
}

fn being_deleted() -> Failure {
    Failure {
        error: "the workspace, which nobody has used for long, is being deleted".to_owned(),
        error_code: ErrorCode::SandboxUnavailable,
        traceback: None,
        hint: Some("try again in a moment: there will be an empty one".to_owned()),
    }
}

fn refused(facts: Facts, request: &Request, failure: Failure) -> Execution {
    let captured = Captured { stdout: String::new(), stderr: String::new(), output: Vec::new(), overflow: None };
    assemble(facts, request, ended(Ending::Cancelled), captured, None, (1, Some(failure)))
}

fn assemble(
    facts: Facts,
    request: &Request,
    ran: Ran,
    captured: Captured,
    output_file: Option<String>,
    judged: (i32, Option<Failure>),
) -> Execution {
    let (exit_code, mut failure) = judged;
    if let (Some(failure), Some(inventory)) = (&mut failure, &facts.inventory) {
        explain_missing(failure, &request.code, inventory);
    }
    let name = facts.session.as_ref().and_then(|session| SessionId::new(shown_name(session)).ok());
    Execution {
        execution_id: facts.id,
        session: name.or_else(|| request.session.clone()),
        session_id: facts.session.map(|session| session.id),
        session_restarted: facts.restarted,
        language: request.language,
        success: failure.is_none(),
        result: ran.result,
        truncated: ran.result_truncated || output_file.is_some(),
        output: captured.output,
        stdout: captured.stdout,
        stderr: captured.stderr,
        exit_code,
        execution_time_ms: facts.begun.elapsed().as_secs_f64() * 1e3,
        output_file,
        calls: facts.ledger.take(),
        artifacts: facts.artifacts,
        warnings: facts.warnings,
        limits: LimitsReport { requested: request.limits.clone(), enforced: facts.enforced, tier: facts.tier },
        failure,
    }
}

/// Unguessable where the system gives randomness, unique in any case.
fn random_number() -> u64 {
    getrandom::u64().unwrap_or_else(|_| {
        let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
        now.as_nanos() as u64
    })
}
