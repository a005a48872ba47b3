//! Runs code: in a sandbox of its own, or in the interpreter of a session.
//!
//! The entry point is [`Executor::execute`]. This module does not depend on how skills are saved: the request contains
//! the handler for calls of the code.

mod facts;
mod network;
mod refusals;

pub(crate) use facts::{Facts, nothing_ran};

use crate::active::Active;
use crate::artifacts::{Artifacts, Author};
use crate::audience::Audience;
use crate::audit::RunKind;
use crate::call_file::{CallFile, ResumeError};
use crate::capture::{Capture, Output};
use crate::guards::Guards;
use crate::journal::{self, Shown, Tape, not_logged};
use crate::listener::Listener;
use crate::network::CurrentNetwork;
use crate::privacy::{CurrentPrivacy, ForModel, unprotected};
use crate::records::Records;
use crate::request::{CallLogging, Request};
use crate::run::{CallCount, Context, Ran, run};
use crate::sandboxes::Sandboxes;
use crate::sessions::{Checkpoints, Live, Sessions};
use crate::sources::{SourceTracker, TrackedWorkspace, workspace_place};
use crate::tools::{Answering, CallsOf, Tools};
use crate::under_way::{Open, UnderWay, stopped};
use crate::verdict::Ending;
use crate::workspace::Workspaces;
use coracle_store::{ExecutionRecord, Place, Store, StoreError, TaskState};
use coracle_types::{Artifact, ErrorCode, Event, Execution, ExecutionId, Failure, OutputStream, UserId};
use facts::{Log, assemble};
pub(crate) use refusals::forbidden;
use refusals::{
    being_deleted, check, elsewhere_ran, no_folder, not_audited, not_resumed, suggest_resuming, too_many_sessions,
};
use serde_json::Value;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, SystemTime};
use tokio::time::{Instant, timeout};
use tokio_util::sync::CancellationToken;

/// Maximum time that a finished execution waits until a slow listener has heard of its artifacts.
const TOLD_WITHIN: Duration = Duration::from_millis(200);

/// The components that an execution uses.
#[derive(Debug)]
pub(crate) struct Parts {
    pub(crate) store: Arc<dyn Store>,
    pub(crate) workspaces: Arc<Workspaces>,
    pub(crate) artifacts: Arc<Artifacts>,
    pub(crate) sessions: Arc<Sessions>,
    pub(crate) sandboxes: Sandboxes,
    pub(crate) tools: Tools,
    pub(crate) privacy: CurrentPrivacy,
    pub(crate) network: CurrentNetwork,
}

/// Runs code.
#[derive(Debug)]
pub(crate) struct Executor {
    parts: Parts,
    guards: Guards,
    /// The users whose code is running.
    active: Active,
    under_way: UnderWay,
    /// Records of executions that the store has not accepted yet.
    records: Records,
}

impl Executor {
    pub(crate) fn new(parts: Parts) -> Self {
        let (active, under_way, records) = (Active::default(), UnderWay::default(), Records::default());
        Self { parts, guards: Guards::default(), active, under_way, records }
    }

    /// Runs one piece of code to its end, and returns all of its output too. Dropping the future ends the code.
    pub(crate) async fn execute(&self, mut request: Request) -> (Execution, Output) {
        let mut facts = Facts::new(&request);
        match check(&request) {
            Ok(vars_bytes) => facts.vars_bytes = vars_bytes,
            Err(failure) => return nothing_ran(facts, &request, failure),
        }
        match self.guards.check(&request, &self.parts.tools).await {
            Ok(warnings) => facts.warnings.extend(warnings),
            Err(failure) => {
                self.parts.tools.audit().not_run(&request, &facts.id, &failure).await;
                return nothing_ran(facts, &request, failure);
            }
        }
        if self.under_way.is_stopping() {
            return nothing_ran(facts, &request, stopped());
        }
        let Some(_busy) = self.active.begin(&request.user) else {
            return nothing_ran(facts, &request, being_deleted());
        };
        facts.for_model = match self.for_model(&request).await {
            Ok(for_model) => for_model,
            Err(failure) => return nothing_ran(facts, &request, failure),
        };
        // For a model, output is reported when all of it has been searched.
        let live = request.events.clone().filter(|_| facts.for_model.is_none());
        let mut capture = Capture::new(live, request.limits.output_bytes);
        let workspace = match self.workspace(&request) {
            Ok(workspace) => workspace,
            Err(error) => return nothing_ran(facts, &request, no_folder(self.parts.workspaces.root(), &error)),
        };
        let handle = request.session.clone();
        if let Some(handle) = &handle {
            let remembered = self.parts.sessions.interpreters().remembered(&request.user, handle);
            facts.remembered = remembered.is_some();
            let found = match remembered {
                Some(session) => Ok(session),
                None => self.parts.sessions.find(&request.user, handle).await,
            };
            match found {
                Ok(session) => {
                    // From here on, the request refers to the session by its ID.
                    request.session = Some(session.id.clone());
                    facts.session = Some(session);
                }
                Err(failure) => return nothing_ran(facts, &request, failure),
            }
        }
        if let Some(reason) = self.parts.tools.denied(&request) {
            self.parts.tools.audit().execution_denied(&request, &facts.id, &reason).await;
            return nothing_ran(facts, &request, forbidden(&reason));
        }
        facts.log = match self.log(&request, &facts).await {
            Ok(log) => log,
            Err(failure) => return nothing_ran(facts, &request, failure),
        };
        // The caller can cancel the execution, and so can the shutdown of this process.
        let asked = std::mem::take(&mut request.cancel);
        request.cancel = asked.child_token();
        let begun = facts.begun(&request);
        let open = self.under_way.begin(&self.parts.store, begun, &request.cancel, request.is_listed);
        let (running, unavailable) = self.parts.tools.audit().began(&request, &facts.id, RunKind::Execution).await;
        facts.warnings.extend(unavailable.map(|error| not_audited(&error)));
        facts.tools = self.parts.tools.known(&request).await;
        facts.sources = self.sources(&request, &facts.id, &workspace).await;
        let ran = match &request.session {
            None => self.run_fresh(&request, &workspace, &mut capture, &mut facts).await,
            Some(_) => self.run_in_session(&request, &workspace, &mut capture, &mut facts).await,
        };
        if let (true, true, Some(session)) = (facts.remembered, facts.gone, &facts.session) {
            // Another process has ended the session. The store knows which session the label refers to now.
            self.parts.sessions.interpreters().forget(&request.user, &session.id);
            open.discard();
            drop(facts.log.take());
            return Box::pin(self.execute(Request { session: handle, cancel: asked, ..request })).await;
        }
        let (task, tape, mut turn) = (facts.task.take(), facts.tape.take(), facts.turn.take());
        let (mut output, log) = (capture.finish(), facts.log.take());
        let (mut ran, for_model) = (ran, facts.for_model.clone());
        if let Some(for_model) = &for_model {
            (ran, output) = Box::pin(for_model.protect_output(ran, output)).await;
            Box::pin(tell_output(&output, &request)).await;
        }
        let sources = facts.sources.take();
        let mut execution = self.finished(facts, &request, ran, &output, &workspace);
        if let Some((sources, began)) = sources {
            Box::pin(self.parts.tools.settle(&sources, began)).await;
        }
        if let Some(for_model) = &for_model {
            Box::pin(for_model.protect(&mut execution)).await;
        }
        if log.is_some_and(|log| log.is_worth_resuming()) {
            suggest_resuming(&mut execution);
        }
        let state = self.state_of(&mut execution, &asked);
        // The list of executions and the log of the session are both made from this.
        let outcome = serde_json::to_value(&execution).unwrap_or_default();
        running.ended(&execution);
        let Some(task) = task else {
            let not_listed = Box::pin(self.wrap_up(&request, outcome, open, state)).await;
            execution.warnings.extend(not_listed);
            return (execution, output);
        };
        let (place, listed) = (task.place.clone(), open.record(state, Value::Null));
        // Both write to the disk, so they run at the same time.
        let logged = journal::outcome(&outcome);
        let (done, not_listed) = tokio::join!(
            Box::pin(task.finish(state, logged, tape)),
            Box::pin(self.wrap_up(&request, outcome, open, state))
        );
        execution.warnings.extend(not_listed);
        let done = match done {
            Ok(done) => Some(done),
            Err(failure) => {
                let was_success = std::mem::replace(&mut execution.success, false);
                execution.failure.get_or_insert(failure);
                if let (true, Some(record)) = (was_success, listed) {
                    let outcome = serde_json::to_value(&execution).unwrap_or_default();
                    self.records.keep(&self.parts.store, ExecutionRecord { outcome, ..record }).await;
                }
                None
            }
        };
        let (sessions, copying) = (Arc::clone(&self.parts.sessions), self.parts.sessions.copying().await);
        // The outcome is in the store, so the answer need not wait for the rest; the next execution of the session must.
        // All of it runs in one task: a second one would wake another thread, which takes longer than the work.
        tokio::spawn(async move {
            let live = turn.as_deref_mut().and_then(Option::as_mut);
            let mut unknown = Shown::default();
            let shown = live.map_or(&mut unknown, |live| &mut live.shown);
            match done {
                Some(done) => sessions.write_log_after(&place, &done, &workspace, shown).await,
                None => sessions.write_log_file(&place.user, &place.session, &workspace, shown).await,
            }
            if let Some(live) = turn.as_deref_mut().and_then(Option::as_mut) {
                live.sandbox.control.rest().await;
            }
            drop((turn, copying));
        });
        (execution, output)
    }

    /// The servers that code has read from, which is about to run now.
    async fn sources(
        &self,
        request: &Request,
        id: &ExecutionId,
        workspace: &Path,
    ) -> Option<(Arc<SourceTracker>, SystemTime)> {
        let place = match &request.copied_from {
            Some(place) => place.clone(),
            None => self.workspace_place(&request.user, request.workspace.as_ref().map(|_| workspace)),
        };
        // Changes of a copy get to the workspace later.
        let has_log = request.session.is_some() || request.copied_from.is_some();
        let tracked = TrackedWorkspace { folder: workspace.to_owned(), place, has_log };
        let began = SystemTime::now();
        Some((self.parts.tools.track(request, id, tracked).await?, began))
    }

    /// The name of a user's workspace, or of the folder that is used instead of it.
    pub(crate) fn workspace_place(&self, user: &UserId, folder: Option<&Path>) -> Place {
        match folder {
            None => Place::workspace(None),
            Some(folder) => workspace_place(folder, &self.parts.workspaces.of(user).folder()),
        }
    }

    /// What protects the answer to a request, if it goes to a model.
    pub(crate) async fn for_model(&self, request: &Request) -> Result<Option<ForModel>, Failure> {
        let Some(privacy) = self.parts.privacy.in_use().filter(|_| request.audience == Audience::Model) else {
            return Ok(None);
        };
        let vault = privacy.vault(&request.user).await.map_err(|error| unprotected(&error))?;
        Ok(Some(ForModel(vault)))
    }

    /// The users whose code is running.
    pub(crate) fn active(&self) -> &Active {
        &self.active
    }

    /// The checks of code before it runs.
    pub(crate) fn guards(&self) -> &Guards {
        &self.guards
    }

    /// The components that executions use.
    pub(crate) fn parts(&self) -> &Parts {
        &self.parts
    }

    /// Ends all executions and refuses new ones. Returns when all have ended.
    pub(crate) async fn interrupt(&self) {
        self.under_way.interrupt().await;
    }

    /// Cancels all executions of a user, and drops records of theirs that could not be written yet.
    pub(crate) fn cancel_all_of(&self, user: &UserId) {
        self.under_way.cancel_all_of(user);
        self.records.forget_all_of(user);
    }

    /// Waits for a short time until the store has accepted all records.
    pub(crate) async fn settled(&self) {
        self.records.settled().await;
    }

    /// The executions of a user, the newest first; only those before one of them, if it is given.
    pub(crate) async fn list(
        &self,
        user: &UserId,
        limit: usize,
        before: Option<&ExecutionId>,
    ) -> Result<Vec<ExecutionRecord>, StoreError> {
        self.parts.store.interrupt_lost().await?;
        self.parts.store.executions(user, limit, before).await
    }

    /// One execution of a user, if it is kept.
    pub(crate) async fn get(&self, user: &UserId, id: &ExecutionId) -> Result<Option<ExecutionRecord>, StoreError> {
        self.parts.store.interrupt_lost().await?;
        self.parts.store.execution(user, id).await
    }

    /// Whether an execution ended by itself or was interrupted by the shutdown of this process. In the latter case,
    /// replaces its failure.
    fn state_of(&self, execution: &mut Execution, asked: &CancellationToken) -> TaskState {
        let is_stopped = self.under_way.is_stopping() && !asked.is_cancelled();
        match &mut execution.failure {
            Some(failure) if is_stopped && failure.error_code == ErrorCode::Cancelled => {
                *failure = stopped();
                TaskState::Interrupted
            }
            _ => TaskState::Done,
        }
    }

    /// The log of the calls of an execution. Without tools there is nothing to log.
    async fn log(&self, request: &Request, facts: &Facts) -> Result<Option<Log>, Failure> {
        let log = match &request.call_log {
            CallLogging::Off => return Ok(None),
            CallLogging::In(log) => Log::Given(Arc::clone(log)),
            CallLogging::Resumable if self.parts.tools.toolbox().is_none() => return Ok(None),
            CallLogging::Resumable => {
                let folder = self.parts.workspaces.of(&request.user).calls();
                Log::File(Arc::new(CallFile::new(folder, facts.id.clone(), facts.program(request))))
            }
            CallLogging::Resuming(resumption) => {
                let (resumption, id, program) = (Arc::clone(resumption), facts.id.clone(), facts.program(request));
                let continued = tokio::task::spawn_blocking(move || resumption.continue_as(&id, program)).await;
                match continued
                    .map_err(|error| ResumeError::File { id: facts.id.clone(), error: std::io::Error::other(error) })
                    .and_then(|continued| continued)
                {
                    Ok(file) => Log::File(Arc::new(file)),
                    Err(error) => return Err(not_resumed(&error)),
                }
            }
        };
        Ok(Some(log))
    }

    fn workspace(&self, request: &Request) -> std::io::Result<PathBuf> {
        match &request.workspace {
            Some(folder) => Ok(folder.clone()),
            None => self.parts.workspaces.of(&request.user).files(),
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
        let Some(session) = facts.session.clone() else { return Ran::not_at_all(Ending::Cancelled) };
        let seat = self.parts.sessions.interpreters().seat(&request.user, &session.id);
        let mut live = tokio::select! {
            () = request.cancel.cancelled() => return Ran::not_at_all(Ending::Cancelled),
            () = facts.clock.expired() => return Ran::not_at_all(Ending::timed_out(request.limits.wall_ms)),
            live = seat.lock_owned() => live,
        };
        if live.is_none() && session.tasks > 0 {
            // Earlier tasks may have been interrupted. The log that the code can read should say so.
            self.parts.sessions.recover().await;
            self.parts.sessions.write_log_file(&request.user, &session.id, workspace, &mut Shown::default()).await;
        }
        let most = self.parts.sessions.max_live();
        if live.is_none() && self.parts.sessions.interpreters().live_of(&request.user) > most {
            return Ran::not_at_all(Ending::Refused(too_many_sessions(most)));
        }
        let number = match self.parts.sessions.begin_task(request, facts.vars_bytes, &session, &facts.id).await {
            Ok(task) => {
                let number = task.place.number;
                facts.task = Some(task);
                number
            }
            Err(error) => {
                facts.gone = matches!(error, StoreError::NoSession { .. });
                return Ran::not_at_all(Ending::Refused(not_logged(&error)));
            }
        };
        facts.tape = Some(Tape::default());
        // The interpreter is taken out while it runs: if this future is dropped, so is the interpreter, whose
        // state is unknown.
        let mut current = live.take().filter(|live| live.workspace == workspace);
        if current.is_none() {
            let used = self.parts.sessions.interpreters().mark_used(&request.user, &session.id);
            facts.restarted = used || session.tasks > 0;
            current = match self.open(request, workspace, facts).await {
                Ok(live) => Some(live),
                Err(ran) => return ran,
            };
        }
        let Some(mut current) = current else { return Ran::not_at_all(Ending::Cancelled) };
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

    async fn run_live(&self, live: &mut Live, request: &Request, capture: &mut Capture, facts: &mut Facts) -> Ran {
        live.runs += 1;
        facts.enforced = Some(live.sandbox.enforced.clone());
        facts.tier.clone_from(&live.sandbox.tier);
        let listener = Listener::new(request.events.clone(), facts.for_model.clone());
        if listener.is_present() {
            listener.tell_later(Event::Sandbox(Box::new(facts.sandbox(request))));
        }
        // The wall clock starts when the code does.
        facts.clock.start(Duration::from_millis(request.limits.wall_ms));
        let (Answering { calls, broker }, count) = (self.calls(request, facts), CallCount::default());
        let connected = match self.connected(live, request, broker, &count) {
            Ok(connected) => connected,
            Err(failure) => return Ran::not_at_all(Ending::Refused(failure)),
        };
        let network = connected.as_ref().map(|connected| connected.passage.network.clone());
        let context = Context { calls, clock: facts.clock.clone(), count, network };
        let ran = run(&mut live.sandbox, live.runs, request, capture, context).await;
        if let Some(connected) = connected {
            facts.warnings.extend(connected.end().await);
        }
        if request.trial.is_some() {
            return ran;
        }
        match live.artifacts.left(request.limits.artifacts_mb.saturating_mul(1_000_000)) {
            Ok(None) => {}
            Ok(Some(left)) => {
                if let Some((sources, _)) = &facts.sources
                    && let Err(error) = self.parts.tools.leaves_artifacts(sources).await
                {
                    facts.warnings.push(format!("artifacts were not kept: {}", error.message));
                    return ran;
                }
                let session = facts.session.as_ref().map(|session| session.id.clone());
                let author = Author { execution: facts.id.clone(), session };
                let taken = self.parts.artifacts.take_over(&request.user, author, left).await;
                live.artifacts.offer_again(&taken.again);
                Box::pin(tell_of(&taken.artifacts, request, facts.for_model.clone())).await;
                facts.artifacts = taken.artifacts;
                facts.warnings.extend(taken.warnings);
            }
            Err(error) => facts.warnings.push(format!("artifacts were not kept: {error}")),
        }
        ran
    }

    /// The answer to a request whose code has run.
    pub(crate) fn finished(
        &self,
        mut facts: Facts,
        request: &Request,
        mut ran: Ran,
        output: &Output,
        workspace: &Path,
    ) -> Execution {
        let ending = std::mem::replace(&mut ran.ending, Ending::Cancelled);
        let judged = ending.judge(&request.limits);
        let recorded = output.recorded(request.limits.output_tokens);
        let mut file = None;
        if !recorded.is_whole {
            let (name, both) = (format!("{}.txt", facts.id), output.both());
            match self.parts.workspaces.keep_output(&request.user, Some(workspace), &request.limits, &name, &both) {
                Ok(kept) => file = Some(kept),
                Err(error) => facts.warnings.push(format!("the whole output was not kept: {error}")),
            }
        }
        assemble(facts, request, ran, recorded, file, judged)
    }

    /// Records an execution that has ended. Returns a warning if that could not be done yet.
    async fn wrap_up(&self, request: &Request, outcome: Value, open: Open, state: TaskState) -> Option<String> {
        let record = open.record(state, outcome)?;
        self.parts.tools.after(request, &record).await;
        // The execution of an artifact is recorded in the same store as the artifact.
        let why = open.finish(record, self.parts.artifacts.opened(), &self.records).await?;
        Some(format!("this execution is not in the list of executions yet: {why}"))
    }

    fn calls(&self, request: &Request, facts: &Facts) -> Answering {
        let task = facts.task.as_ref().map(|task| task.place.clone());
        let checkpoints = Checkpoints::new(Arc::clone(&self.parts.sessions), task, Arc::clone(&request.calls));
        let Facts { id, clock, ledger, tools, log, for_model, sources, .. } = facts;
        let sources = sources.as_ref().map(|(sources, _)| sources);
        let log = log.as_ref().map(Log::calls);
        let for_model = for_model.as_ref();
        let calls_of = CallsOf { execution: id, clock, ledger, log: log.as_ref(), for_model, sources };
        let answering = self.parts.tools.answering(request, calls_of, tools.inventory.as_ref(), Arc::new(checkpoints));
        match &facts.tape {
            Some(tape) => Answering { calls: tape.around(answering.calls), ..answering },
            None => answering,
        }
    }
}

/// Reports output that nobody has heard of yet. The result has it, too, so a listener that is too slow misses nothing.
async fn tell_output(output: &Output, request: &Request) {
    let listener = Listener::new(request.events.clone(), None);
    let telling = async {
        for (stream, bytes) in [(OutputStream::Stdout, output.stdout()), (OutputStream::Stderr, output.stderr())] {
            if !bytes.is_empty() {
                listener.tell(Event::Output { stream, bytes: bytes.to_vec() }).await;
            }
        }
    };
    let _ = timeout(TOLD_WITHIN, telling).await;
}

/// Reports artifacts to the listener. The result has them all, so a listener that is too slow misses nothing.
async fn tell_of(artifacts: &[Artifact], request: &Request, for_model: Option<ForModel>) {
    let listener = Listener::new(request.events.clone(), for_model);
    if !listener.is_present() {
        return;
    }
    let telling = async {
        for artifact in artifacts {
            listener.tell(Event::Artifact(artifact.clone())).await;
        }
    };
    let _ = timeout(TOLD_WITHIN, telling).await;
}
