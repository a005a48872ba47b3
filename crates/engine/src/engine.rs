pub(crate) mod data;
mod lasting;

pub use lasting::{Lasting, OpenStore};

use crate::artifacts::{ArtifactFolder, Author};
use crate::broker::{Broker, Caller};
use crate::capture::{Capture, Captured};
use crate::clock::Clock;
use crate::files::Usages;
use crate::history::History;
use crate::host_calls::{HostCalls, NoCalls};
use crate::housekeeping::Active;
use crate::journal::{OpenTask, Shown, Tape, not_logged, shown_name};
use crate::ledger::Ledger;
use crate::records::Records;
use crate::request::{DirectCall, DirectError, MAX_CODE_BYTES, MAX_VARS_BYTES, Request};
use crate::run::{Context, Ran, run};
use crate::services::Services;
use crate::session::{Live, Sessions, Turn};
use crate::skills::Skills;
use crate::toolbox::{Inventory, Listing, Toolbox};
use crate::under_way::{Open, UnderWay, stopped};
use crate::verdict::{Ending, invalid};
use crate::waiting::telling;
use crate::workspace::UserFolders;
use coracle_sandbox::{Backend, Spec};
use coracle_store::{ExecutionRecord, Kept, SessionRecord, Store, StoreError, TaskState};
use coracle_types::{Artifact, Enforced, ErrorCode, Execution, ExecutionId, Failure, LimitsReport, SessionId, UserId};
use serde_json::Value;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::{Duration, SystemTime};
use tokio::sync::Semaphore;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

/// Sessions of one user that may have an interpreter at once, if nobody says otherwise.
const LIVE_SESSIONS: usize = 2_000;
/// Executions that are interrupted have ended by then.
const ENDED_WITHIN: Duration = Duration::from_secs(5);
/// Interpreters that nobody uses end this much late at most.
const LATE: Duration = Duration::from_mins(1);

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
    /// Where artifacts are entered if `store` does not last.
    lasting: OnceLock<Lasting>,
    toolbox: Option<Arc<Toolbox>>,
    /// How full workspaces are.
    usages: Usages,
    /// A folder that nobody gets at.
    hidden: OnceLock<PathBuf>,
    /// What all artifacts of a user may amount to.
    artifact_bytes: AtomicU64,
    /// How many more sandboxes there may be at once, and how many there may be in all.
    places: std::sync::OnceLock<(Arc<Semaphore>, usize)>,
    /// Who has something running.
    active: Active,
    under_way: UnderWay,
    /// Sessions of one user that may have an interpreter at once.
    live_sessions: AtomicUsize,
    /// What ran, on its way into the store.
    records: Records,
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
    /// Modules of an earlier run, if nothing had to be known for this one.
    modules: Option<PathBuf>,
    /// In a session: which one, the line in its log, what the host answers, and the right to use it.
    session: Option<SessionRecord>,
    /// The session was remembered, not looked up in the store.
    remembered: bool,
    /// The store does not have the session any more, or it has ended.
    gone: bool,
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
            modules: None,
            session: None,
            remembered: false,
            gone: false,
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
            lasting: OnceLock::new(),
            toolbox,
            usages: Usages::default(),
            hidden: OnceLock::new(),
            artifact_bytes: data::ARTIFACT_BYTES.into(),
            places: std::sync::OnceLock::new(),
            active: Active::default(),
            under_way: UnderWay::default(),
            live_sessions: LIVE_SESSIONS.into(),
            records: Records::default(),
            copies: Arc::default(),
        });
        inner.store.keep(Kept { live_for: inner.config.session_idle + LATE, ..Kept::default() });
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
        if self.inner.under_way.is_stopping() {
            return refused(facts, &request, stopped());
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
        let handle = request.session.clone();
        if let Some(handle) = &handle {
            let remembered = self.inner.sessions.remembered(&request.user, handle);
            facts.remembered = remembered.is_some();
            let found = match remembered {
                Some(session) => Ok(session),
                None => self.session_of(&request.user, handle).await,
            };
            match found {
                Ok(session) => {
                    // From here on nobody goes by the name that it was given.
                    request.session = Some(session.id.clone());
                    facts.session = Some(session);
                }
                Err(failure) => return refused(facts, &request, failure),
            }
        }
        // Whoever asked can end it, and so can the end of this program.
        let asked = std::mem::take(&mut request.cancel);
        request.cancel = asked.child_token();
        let open = self.inner.under_way.begin(&self.inner.store, begun(&facts, &request), &request.cancel);
        if let Some(toolbox) = &self.inner.toolbox {
            facts.modules = toolbox.modules_at_hand(&request.user, &request.code).await;
            if facts.modules.is_none() {
                // Servers that have never listed their tools are waited for: not in the code's time.
                facts.inventory = tokio::select! {
                    biased;
                    () = request.cancel.cancelled() => None,
                    inventory = telling(
                        toolbox,
                        &request.user,
                        request.events.as_ref(),
                        toolbox.inventory(&request.user, Listing::For(&request.code)),
                    ) => Some(inventory),
                };
            }
        }
        let ran = match &request.session {
            None => self.run_fresh(&request, &workspace, &mut capture, &mut facts).await,
            Some(_) => self.run_in_session(&request, &workspace, &mut capture, &mut facts).await,
        };
        if let (true, true, Some(session)) = (facts.remembered, facts.gone, &facts.session) {
            // Another process has ended the session. The store knows what the name refers to now.
            self.inner.sessions.forget(&request.user, &session.id);
            open.discard();
            return Box::pin(self.execute(Request { session: handle, cancel: asked, ..request })).await;
        }
        let (task, tape, mut turn) = (facts.task.take(), facts.tape.take(), facts.turn.take());
        let mut execution = self.finished(facts, &request, ran, capture.finish(), &workspace);
        let state = self.state_of(&mut execution, &asked);
        let Some(task) = task else {
            Box::pin(self.wrap_up(&request, &mut execution, open, state)).await;
            return execution;
        };
        let (place, listed) = (task.place.clone(), open.record(state, Value::Null));
        // While one waits for the disk, the other writes.
        let mut recorded = execution.clone();
        let (done, ()) = tokio::join!(
            Box::pin(self.finish_task(task, state, &mut execution, tape)),
            Box::pin(self.wrap_up(&request, &mut recorded, open, state))
        );
        execution.warnings = recorded.warnings;
        if let (true, Some(record)) = (execution.success != recorded.success, listed) {
            let outcome = serde_json::to_value(&execution).unwrap_or_default();
            self.inner.records.keep(&self.inner.store, ExecutionRecord { outcome, ..record }).await;
        }
        let (engine, copies) = (self.clone(), Arc::clone(&self.inner.copies));
        let copying = copies.read_owned().await;
        // The store has it. Whoever is next in the session has to wait for the rest, who is answered need not. One task
        // for all of it: a second one would wake a thread, which takes longer than answering.
        tokio::spawn(async move {
            let live = turn.as_deref_mut().and_then(Option::as_mut);
            let mut unknown = Shown::default();
            let shown = live.map_or(&mut unknown, |live| &mut live.shown);
            match done {
                Some(done) => engine.write_log_after(&place, &done, &workspace, shown).await,
                None => engine.write_log_file(&place.user, &place.session, &workspace, shown).await,
            }
            if let Some(live) = turn.as_deref_mut().and_then(Option::as_mut) {
                live.sandbox.control.rest().await;
            }
            drop((turn, copying));
        });
        execution
    }

    /// Whether an execution came to its end, or to that of this program; then its answer says so.
    fn state_of(&self, execution: &mut Execution, asked: &CancellationToken) -> TaskState {
        let is_stopped = self.inner.under_way.is_stopping() && !asked.is_cancelled();
        match &mut execution.failure {
            Some(failure) if is_stopped && failure.error_code == ErrorCode::Cancelled => {
                *failure = stopped();
                TaskState::Interrupted
            }
            _ => TaskState::Done,
        }
    }

    /// Ends everything that is under way; its callers are told, and it is written down as interrupted. Nothing begins
    /// any more. Returns when all of it has ended.
    pub async fn interrupt(&self) {
        self.inner.under_way.interrupt().await;
    }

    /// How much of what has run is kept, and how many sessions of one user may have an interpreter at once.
    pub fn limit_history(&self, kept: Kept, live_sessions: usize) {
        self.inner.store.keep(Kept { live_for: self.inner.config.session_idle + LATE, ..kept });
        self.inner.live_sessions.store(live_sessions, Ordering::Relaxed);
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
            events: None,
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
        self.inner.store.interrupt_lost().await?;
        self.inner.store.executions(user, limit, before).await
    }

    /// One execution of a user, if it is kept.
    pub async fn execution(&self, user: &UserId, id: &ExecutionId) -> Result<Option<ExecutionRecord>, StoreError> {
        self.inner.store.interrupt_lost().await?;
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

    /// Waits until the copies of logs are written into the workspaces, and a little for what the store did not take.
    pub async fn settled(&self) {
        drop(self.inner.copies.write().await);
        self.inner.records.settled().await;
    }

    /// Whether what is to be kept can be kept at this moment.
    pub async fn ready(&self) -> Result<(), StoreError> {
        self.inner.store.ready().await
    }

    /// Ends all sandboxes; returns when nothing is left.
    pub async fn shutdown(&self) {
        if tokio::time::timeout(ENDED_WITHIN, self.interrupt()).await.is_err() {
            tracing::warn!("executions that should have ended are still under way");
        }
        self.settled().await;
        self.inner.sessions.clear();
        self.inner.backend.shutdown().await;
    }

    pub(crate) fn sessions(&self) -> &Sessions {
        &self.inner.sessions
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
        let most = self.inner.live_sessions.load(Ordering::Relaxed);
        if live.is_none() && self.inner.sessions.live_of(&request.user) > most {
            return ended(Ending::Refused(too_many_sessions(most)));
        }
        let number = match self.begin_task(request, &session, &facts.id).await {
            Ok(task) => {
                let number = task.place.number;
                facts.task = Some(task);
                number
            }
            Err(error) => {
                facts.gone = matches!(error, StoreError::NoSession { .. });
                return ended(Ending::Refused(not_logged(&error)));
            }
        };
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
        let elsewhere = number.saturating_sub(current.last_task + 1);
        if current.last_task > 0 && elsewhere > 0 {
            facts.warnings.push(elsewhere_ran(elsewhere));
        }
        current.last_task = number;
        let ran = self.run_live(&mut current, request, capture, facts).await;
        facts.restarted |= ran.restarted;
        if ran.reusable {
            current.last_used = Instant::now();
            *live = Some(current);
        }
        facts.turn = Some(live);
        ran
    }

    /// From now on there are so many sandboxes at once at most. Said once, before the first.
    pub fn limit_sandboxes(&self, most: usize) {
        let _ = self.inner.places.set((Arc::new(Semaphore::new(most)), most));
    }

    pub(crate) async fn open(&self, request: &Request, workspace: &Path, facts: &mut Facts) -> Result<Live, Ran> {
        let place = match self.inner.places.get() {
            None => None,
            Some((places, most)) => match Arc::clone(places).try_acquire_owned() {
                Ok(place) => Some(place),
                Err(_) => return Err(ended(Ending::Refused(too_many(*most)))),
            },
        };
        facts.clock.start(Duration::from_millis(request.limits.wall_ms));
        let known = || facts.inventory.as_ref().and_then(|inventory| inventory.modules());
        let servers = facts.modules.clone().or_else(known);
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
        Ok(Live {
            sandbox,
            artifacts,
            workspace,
            shown,
            runs: 0,
            last_task: 0,
            last_used: Instant::now(),
            _place: place,
        })
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
        match live.artifacts.left(request.limits.artifacts_mb.saturating_mul(1_000_000)) {
            Ok(None) => {}
            Ok(Some(left)) => {
                let session = facts.session.as_ref().map(|session| session.id.clone());
                let author = Author { execution: facts.id.clone(), session };
                let taken = self.take_over(&request.user, author, left).await;
                live.artifacts.offer_again(&taken.again);
                facts.artifacts = taken.artifacts;
                facts.warnings.extend(taken.warnings);
            }
            Err(error) => facts.warnings.push(format!("artifacts were not kept: {error}")),
        }
        ran
    }

    pub(crate) fn finished(
        &self,
        mut facts: Facts,
        request: &Request,
        mut ran: Ran,
        mut captured: Captured,
        workspace: &Path,
    ) -> Execution {
        let ending = std::mem::replace(&mut ran.ending, Ending::Cancelled);
        let judged = ending.judge(&request.limits);
        let kept = |whole: Vec<u8>| {
            self.keep_or_say(&request.user, Some(workspace), &request.limits, &format!("{}.txt", facts.id), &whole)
        };
        let file = match captured.overflow.take().map(kept) {
            None => None,
            Some(Ok(file)) => Some(file),
            Some(Err(error)) => {
                facts.warnings.push(format!("the whole output was not kept: {error}"));
                None
            }
        };
        assemble(facts, request, ran, captured, file, judged)
    }

    /// After an execution: what was learned and what happened is kept, what was allowed for it is not.
    async fn wrap_up(&self, request: &Request, execution: &mut Execution, open: Open, state: TaskState) {
        let outcome = serde_json::to_value(&*execution).unwrap_or_default();
        let Some(record) = open.record(state, outcome) else { return };
        if let Some(toolbox) = &self.inner.toolbox {
            if request.session.is_none() {
                toolbox.approvals().end_execution(&request.user, &execution.execution_id);
            }
            toolbox.keep().await;
            toolbox.used(&record);
        }
        // An artifact's execution can be looked up where the artifact can.
        let opened = self.inner.lasting.get().and_then(Lasting::opened);
        if let Some(why) = open.finish(record, opened, &self.inner.records).await {
            execution.warnings.push(format!("this execution is not in the list of executions yet: {why}"));
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
            events: request.events.clone(),
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

/// What is written down of an execution before it has come to anything.
fn begun(facts: &Facts, request: &Request) -> ExecutionRecord {
    ExecutionRecord {
        execution_id: facts.id.clone(),
        user: request.user.clone(),
        session: request.session.clone(),
        started_at: SystemTime::now(),
        language: request.language,
        code: request.code.clone(),
        state: TaskState::Running,
        outcome: Value::Null,
    }
}

fn too_many_sessions(most: usize) -> Failure {
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

fn no_folder(workspaces: &Path, error: &std::io::Error) -> Failure {
    Failure {
        error: format!("the user's workspace cannot be made in {}: {error}", workspaces.display()),
        error_code: ErrorCode::SandboxUnavailable,
        traceback: None,
        hint: Some("name a folder that you may write to with CORACLE_HOME or execution.workspace_dir".to_owned()),
    }
}

fn too_many(most: usize) -> Failure {
    Failure {
        error: format!("{most} sandboxes are in use, as many as the limit on open files of this server allows"),
        error_code: ErrorCode::SandboxUnavailable,
        traceback: None,
        hint: Some(
            "end sessions that are not needed, or let the server open more files: raise `ulimit -n`, or LimitNOFILE= of \
             its systemd unit"
                .to_owned(),
        ),
    }
}

/// Each process has an interpreter of its own for a session; they share files and log.
fn elsewhere_ran(count: u64) -> String {
    let tasks = if count == 1 { "1 task".to_owned() } else { format!("{count} tasks") };
    format!(
        "{tasks} of this session ran in another coracle process since: their files are here, their variables are not"
    )
}

fn being_deleted() -> Failure {
    Failure {
        error: "the workspace is being deleted, because it was unused for a long time".to_owned(),
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
