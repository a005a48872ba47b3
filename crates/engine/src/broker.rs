//! Broker for all tool calls of sandboxed code: each call is looked up, validated, approved, executed and recorded.
//! Searches for tools are in `search.rs`, questions to people in `asking.rs`.
//!
//! Trust boundary: both the code and the server are untrusted.

mod access;
mod asking;
mod flows;
mod network;
mod personal;
pub(crate) mod planning;
mod requests;
mod search;

use crate::answer::Answer;
use crate::audit::{Audit, CallInProgress, CallOf, Stage};
use crate::call_log::digest;
use crate::clock::Clock;
use crate::host_calls::{ABSENT, HostCallError, HostCalls, SAVE_SKILL, SEARCH, TOOL, refused, upstream_failed};
use crate::json;
use crate::ledger::{Ledger, Line};
use crate::listener::Listener;
use crate::plans::Planner;
use crate::privacy::{ForModel, Privacy};
use crate::recording::{Entry, Found, Recording};
use crate::request::DirectError;
use crate::sources::SourceTracker;
use crate::toolbox::{Inventory, Toolbox};
use crate::waiting::telling;
use asking::Asking;
use async_trait::async_trait;
use coracle_guardrails::Access;
use coracle_policy::{Approver, Call, Charge, Circumstances, Grant, Interface, Refusal};
use coracle_store::Place;
use coracle_types::{Event, ExecutionId, MAX_CALL_BYTES, ServerName, SessionId, Tool, ToolHints, UserId};
use coracle_upstream::{CallContext, ServerState, ServerStatus, UpstreamError};
use flows::Holds;
pub(crate) use network::NetworkCalls;
use planning::Foreseen;
use serde_json::{Map, Value, json};
use std::collections::{BTreeSet, HashSet};
use std::sync::{Arc, Mutex, PoisonError};
use std::task::Poll;
use std::time::Instant;
use tokio::sync::{OnceCell, Semaphore, mpsc};
use tokio_util::sync::CancellationToken;

/// Code of calls that a rule denies.
pub(crate) const DENIED: &str = "denied_by_policy";

/// Hint for an answer that is too large.
const LESS: &str = "ask the tool for less at once: a filter, a page, a range";

/// Execution or client on whose behalf calls are made.
#[derive(Debug)]
pub(crate) struct Caller {
    pub(crate) user: UserId,
    pub(crate) session: Option<SessionId>,
    /// The conversation, run or connection that it belongs to.
    pub(crate) conversation: Option<Place>,
    pub(crate) execution: ExecutionId,
    pub(crate) approver: Arc<dyn Approver>,
    pub(crate) cancel: CancellationToken,
    pub(crate) audit: Audit,
    /// Channel for events that report calls, questions, and the servers that a call is waiting for.
    pub(crate) events: Option<mpsc::Sender<Event>>,
    /// Set if a model receives the events.
    pub(crate) for_model: Option<ForModel>,
    /// Set if personal data is replaced by tokens.
    pub(crate) privacy: Option<Arc<Privacy>>,
    /// What finds personal data, for flow rules, also if nothing is replaced.
    pub(crate) detection: Option<Arc<Privacy>>,
    /// The servers that the code has read from.
    pub(crate) sources: Arc<SourceTracker>,
    /// What it may do with tools.
    pub(crate) access: Access,
    /// Where the calls come from.
    pub(crate) interface: Interface,
}

/// Validation of arguments before they are sent.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Arguments {
    /// Arguments are validated against the input schema of the tool, so that code gets a readable error.
    Checked,
    /// Arguments are sent unchanged; the server reports invalid ones.
    AsTheyAre,
}

/// A call that may be made.
struct Admitted {
    tool: Arc<Tool>,
    /// The arguments to send.
    arguments: Map<String, Value>,
    charge: Charge,
}

/// Records of a call that is being made.
struct Current {
    line: Line,
    /// The entry in the log of calls, if the execution has one.
    entry: Option<Entry>,
    /// Set if the call is only planned: what a person would be asked about it.
    foreseen: Option<Foreseen>,
}

/// Handles the host calls of one execution.
#[derive(Debug)]
pub(crate) struct Broker {
    toolbox: Arc<Toolbox>,
    caller: Caller,
    clock: Clock,
    listener: Listener,
    ledger: Ledger,
    /// The calls of earlier attempts and of this one, if they are logged.
    recording: Option<Arc<Recording>>,
    /// Collects calls instead of making them, in the mode `plan`.
    planner: Option<Arc<Planner>>,
    /// Servers whose start has already paused the clock of this execution. A later start of the same server does not
    /// pause it: otherwise code could pause the clock forever with a server that keeps failing.
    waited: Mutex<HashSet<ServerName>>,
    under_way: Semaphore,
    /// Tools that the code can import, and the servers whose tools are not known.
    inventory: Option<Arc<Inventory>>,
    /// Tools that are searched; fixed for the whole execution once initialized.
    searched: OnceCell<Arc<Inventory>>,
    /// Handler for all calls that do not concern tools.
    others: Arc<dyn HostCalls>,
}

impl Broker {
    pub(crate) fn new(
        toolbox: Arc<Toolbox>,
        caller: Caller,
        clock: Clock,
        ledger: Ledger,
        others: Arc<dyn HostCalls>,
    ) -> Self {
        let listener = Listener::new(caller.events.clone(), caller.for_model.clone());
        let under_way = Semaphore::new(toolbox.caps().at_once);
        let waited = Mutex::default();
        Self {
            toolbox,
            caller,
            clock,
            listener,
            ledger,
            recording: None,
            planner: None,
            waited,
            under_way,
            inventory: None,
            searched: OnceCell::new(),
            others,
        }
    }

    /// Sets the tools that the code can import. Searches use the same tools, unless those of a usable server are
    /// missing.
    pub(crate) fn knowing(mut self, inventory: Option<&Arc<Inventory>>) -> Self {
        let is_unusable = |(server, _): &(ServerName, String)| self.toolbox.is_unusable(server);
        let whole = inventory.filter(|inventory| inventory.missing.iter().all(is_unusable));
        self.inventory = inventory.map(Arc::clone);
        self.searched = OnceCell::new_with(whole.map(Arc::clone));
        self
    }

    /// Sets the recording of tool calls.
    pub(crate) fn recorded(mut self, recording: Option<Arc<Recording>>) -> Self {
        self.recording = recording;
        self
    }

    /// Collects calls that change something instead of making them.
    pub(crate) fn planned_by(mut self, planner: Option<Arc<Planner>>) -> Self {
        self.planner = planner;
        self
    }

    /// Returns why servers have no modules: one server, given by its own name or its package name, or all of them.
    fn absent(&self, params: &Map<String, Value>) -> Value {
        let named = params.get("server").and_then(Value::as_str).unwrap_or_default();
        let is_meant = |server: &ServerName| {
            named.is_empty() || named == server.as_str() || named == coracle_catalog::package_name(server.as_str())
        };
        let missing = match &self.inventory {
            Some(inventory) => inventory.missing.clone(),
            None => self.toolbox.unusable(),
        };
        let meant = missing.iter().filter(|(server, _)| is_meant(server));
        let told = meant.map(|(server, reason)| {
            if !named.is_empty() {
                self.toolbox.list_in_background(&self.caller.user, server);
            }
            let what = if self.toolbox.is_unusable(server) {
                format!("server {server} cannot be used")
            } else {
                format!("the tools of server {server} are not known")
            };
            json!({ "server": server.as_str(), "reason": format!("{what}: {reason}") })
        });
        told.collect()
    }

    async fn tool(&self, mut params: Map<String, Value>) -> Result<Value, HostCallError> {
        let key = self.recording.as_ref().map(|_| digest(TOOL, &params));
        let (server, tool, arguments) = (params.remove("server"), params.remove("tool"), params.remove("arguments"));
        let (Some(Value::String(server)), Some(Value::String(tool))) = (server, tool) else {
            return Err(refused("invalid_request", "a call of a tool names a server and a tool"));
        };
        let arguments = match arguments {
            None | Some(Value::Null) => Map::new(),
            Some(Value::Object(arguments)) => arguments,
            Some(_) => return Err(refused("invalid_request", "the arguments of a tool are an object")),
        };
        let bytes = json::length(&arguments);
        let found = self.recording.as_ref().zip(key).map(|(recording, key)| recording.find(key));
        let (number, replayed, entry) = match found {
            Some(Found::Answered(number, answer)) => (number, Some(answer), None),
            Some(Found::Due(entry)) => (entry.number(), None, Some(entry)),
            None => (self.number(), None, None),
        };
        let mut line = self.ledger.begin(number, &server, &tool, bytes);
        line.audit(self.in_progress(number));
        line.announce(&self.listener, &arguments).await;
        let mut current = Current { line, entry, foreseen: None };
        let mut outcome = if let Some(planner) = &self.planner {
            match self.plan(planner, &server, &tool, arguments, &mut current).await {
                // Checks of restored arguments may quote them.
                Err(error) => self.shown_to_code(Err(error)).await,
                planned => planned,
            }
        } else if let Some(answer) = replayed {
            current.line.replayed();
            let noted = match ServerName::new(&server) {
                Ok(name) => self.receives(&name, ToolHints::default()).await,
                Err(_) => Ok(()),
            };
            noted.and(answer).map(|value| {
                let length = json::length(&value);
                (value, length)
            })
        } else {
            let outcome = self.call(&server, &tool, arguments, &mut current).await;
            let shown = self.shown_to_code(outcome).await;
            self.with_sources(&server, shown).await
        };
        if let Some(entry) = current.entry
            && let Err(error) = entry.end(outcome.as_ref().map(|(value, _)| value)).await
        {
            outcome = Err(error);
        }
        match outcome {
            Ok((value, bytes)) => {
                current.line.answered(bytes);
                Ok(value)
            }
            Err(error) => {
                current.line.failed(&error.code);
                Err(error)
            }
        }
    }

    async fn call(
        &self,
        server: &str,
        tool: &str,
        arguments: Map<String, Value>,
        current: &mut Current,
    ) -> Result<(Value, u64), HostCallError> {
        let user = &self.caller.user;
        let (arguments, tokens) = self.restored(arguments).await?;
        let bytes = json::length(&arguments);
        let name = ServerName::new(server).map_err(|_| self.toolbox.no_server(server))?;
        let Admitted { tool, arguments, charge } =
            self.admit(&name, tool, (arguments, tokens), bytes, Arguments::Checked, current).await?;
        // Acquired after the approval, so that a call that waits for a person does not delay others. `acquire` fails
        // only if the semaphore is closed, which never happens.
        let _permit = self.under_way.acquire().await;
        if let Some(entry) = &mut current.entry
            && let Err(error) = entry.begin(tool.hints).await
        {
            charge.give_back().await;
            return Err(error);
        }
        let context = CallContext { cancel: self.caller.cancel.child_token(), ..CallContext::default() };
        // Dropping this future cancels the token, and with it the call to the server.
        let _told = context.cancel.clone().drop_guard();
        let result = self.toolbox.upstream().call(user, &name, &tool.name, arguments, context).await;
        if result.as_ref().is_err_and(has_not_arrived) {
            charge.give_back().await;
        }
        let answer = result
            .map_err(|error| upstream_failed(&error))
            .and_then(|result| Answer::of(&tool, result).map_err(|complaint| refused("tool_error", &complaint)))?;
        self.toolbox.observe(user, &tool, &answer);
        let wire = answer.into_wire();
        let length = json::length(&wire);
        self.fits(length, LESS)?;
        Ok((wire, length))
    }

    /// Calls a tool for a client that does not run code, and returns the answer unchanged.
    pub(crate) async fn pass_on(
        &self,
        server: &ServerName,
        tool: &str,
        arguments: Map<String, Value>,
        context: CallContext,
    ) -> Result<Value, DirectError> {
        let bytes = json::length(&arguments);
        let number = self.ledger.next_number();
        let mut line = self.ledger.begin(number, server.as_str(), tool, bytes);
        line.audit(self.in_progress(number));
        let mut current = Current { line, entry: None, foreseen: None };
        let passed = async {
            let arguments = self.restored(arguments).await?;
            let admitted = self.admit(server, tool, arguments, bytes, Arguments::AsTheyAre, &mut current).await;
            let Admitted { tool, arguments, charge } = admitted?;
            let Some(upstream) = self.toolbox.upstream().passes_on() else {
                return Err(refused("unavailable", "these tools can be called from code only").into());
            };
            let answer = upstream.call_raw(&self.caller.user, server, &tool.name, arguments, context).await;
            if answer.as_ref().is_err_and(has_not_arrived) {
                charge.give_back().await;
            }
            let answer = answer.map_err(|error| match error {
                UpstreamError::Refused { number, message, data, .. } => DirectError::Refused { number, message, data },
                other => upstream_failed(&other).into(),
            })?;
            let length = json::length(&answer);
            self.fits(length, LESS)?;
            self.came_from(server.as_str(), &answer, Holds::Data).await?;
            Ok::<_, DirectError>((answer, length))
        };
        let (user, outcome) = (&self.caller.user, passed.await);
        match outcome {
            Ok((answer, length)) => {
                current.line.answered(length);
                tracing::info!(%user, %server, tool, bytes, length, "a call was passed on");
                Ok(answer)
            }
            Err(error) => {
                current.line.failed(error.code());
                tracing::info!(%user, %server, tool, bytes, code = error.code(), "a call was not passed on");
                Err(error)
            }
        }
    }

    /// Looks up, validates, approves and charges a call.
    async fn admit(
        &self,
        server: &ServerName,
        tool: &str,
        (arguments, tokens): (Map<String, Value>, BTreeSet<String>),
        bytes: u64,
        checks: Arguments,
        current: &mut Current,
    ) -> Result<Admitted, HostCallError> {
        let most = self.toolbox.caps().argument_bytes;
        if bytes > most {
            return Err(refused(
                "too_large",
                &format!("the arguments are {bytes} bytes long: at most {most} are taken"),
            ));
        }
        let user = &self.caller.user;
        let checked = (checks == Arguments::Checked).then_some(&arguments);
        self.toolbox.recall(user, server).await;
        let fitting = match self.toolbox.refused_early(user, server, tool, checked) {
            Err(error) if error.code == DENIED => {
                self.caller.audit.denied_early(self.call_of(server, tool, bytes, current), &error).await;
                current.line.reached(Stage::Denied);
                return Err(error);
            }
            fitting => fitting?,
        };
        let (tool, validator) = self.started(server, &mut current.line, self.toolbox.tool(user, server, tool)).await?;
        if let Err(error) = access::check(self.caller.access, &tool) {
            self.caller.audit.denied_early(self.call_of(server, &tool.name, bytes, current), &error).await;
            current.line.reached(Stage::Denied);
            return Err(error);
        }
        let is_checked = fitting.is_some_and(|fitting| Arc::ptr_eq(&fitting, &tool)) && !validator.completes();
        let arguments = match checks {
            Arguments::Checked => validator.complete(arguments),
            Arguments::AsTheyAre => arguments,
        };
        if checks == Arguments::Checked
            && !is_checked
            && let Err(error) = validator.check(&arguments)
        {
            let hint = error.hint().map(|hint| format!("; {hint}")).unwrap_or_default();
            return Err(refused(error.code(), &format!("{error}{hint}")));
        }
        let arguments = Value::Object(arguments);
        let names = self.toolbox.names(user, server, &tool.name);
        let doubt = current.entry.as_ref().and_then(|entry| entry.doubt(tool.hints));
        let cargo = self.cargo(&tool, &names, &arguments, tokens).await?;
        let question = Call {
            user,
            session: self.caller.session.as_ref(),
            execution: &self.caller.execution,
            tool: &tool,
            names: &names,
            arguments: &arguments,
            cargo: &cargo,
            circumstances: Circumstances {
                are_arguments_open: current.foreseen.is_some() && checks == Arguments::AsTheyAre,
                ..self.circumstances(current)
            },
            doubt,
        };
        let (approver, audit, number) = (self.caller.approver.as_ref(), &self.caller.audit, current.line.number());
        let privacy = self.caller.privacy.as_ref();
        let asking = Asking::new(approver, &self.clock, &self.listener, audit, number, &arguments, privacy);
        let decided = match &current.foreseen {
            Some(foreseen) => self.toolbox.approvals().decide(question, foreseen).await,
            None => self.toolbox.approvals().decide(question, &asking).await,
        };
        asking.decided(decided.is_ok()).await;
        if let Some(entry) = &mut current.entry {
            entry.decided(doubt, &decided);
        }
        let grant = match decided {
            Ok(grant) => grant,
            Err(refusal) => return Err(self.denied(server, &tool, bytes, &arguments, current, &refusal).await),
        };
        if current.foreseen.is_some() {
            let Value::Object(arguments) = arguments else {
                return Err(refused("internal", "the arguments are gone"));
            };
            // What is only planned is charged when it is run.
            return Ok(Admitted { tool, arguments, charge: Charge::nothing() });
        }
        // The server may have stopped during the approval.
        self.started(server, &mut current.line, self.toolbox.upstream().tools(user, server))
            .await
            .map_err(|error| upstream_failed(&error))?;
        let charge = self.settled(&question, &grant, bytes, current).await?;
        let Value::Object(arguments) = arguments else { return Err(refused("internal", "the arguments are gone")) };
        Ok(Admitted { tool, arguments, charge })
    }

    fn circumstances(&self, current: &Current) -> Circumstances<'_> {
        Circumstances {
            calls: current.line.number().saturating_sub(1),
            are_arguments_open: false,
            conversation: self.caller.conversation.as_ref().map(Place::as_str),
            interface: self.caller.interface,
        }
    }

    /// Charges a call that is decided, and records it. This comes last of all: what is recorded as allowed is called.
    async fn settled(
        &self,
        call: &Call<'_>,
        grant: &Grant,
        bytes: u64,
        current: &mut Current,
    ) -> Result<Charge, HostCallError> {
        let Tool { server, name, hints, .. } = call.tool;
        self.receives(server, *hints).await?;
        let charge = match self.toolbox.approvals().charge(call).await {
            Ok(charge) => charge,
            Err(refusal) => return Err(self.denied(server, call.tool, bytes, call.arguments, current, &refusal).await),
        };
        let Value::Object(arguments) = call.arguments else {
            return Err(refused("internal", "the arguments are gone"));
        };
        let allowed = self.caller.audit.allowed(self.call_of(server, name, bytes, current), arguments, grant).await;
        if let Err(error) = allowed {
            charge.give_back().await;
            return Err(error);
        }
        current.line.reached(Stage::Allowed);
        Ok(charge)
    }

    /// Records that a call is denied, and returns the error for the code.
    async fn denied(
        &self,
        server: &ServerName,
        tool: &Tool,
        bytes: u64,
        arguments: &Value,
        current: &mut Current,
        refusal: &Refusal,
    ) -> HostCallError {
        let call = self.call_of(server, &tool.name, bytes, current);
        if let Value::Object(arguments) = arguments {
            self.caller.audit.denied(call, arguments, refusal).await;
        }
        current.line.reached(Stage::Denied);
        refused(refusal.code(), &format!("{refusal}; {}", refusal.hint()))
    }

    fn call_of<'a>(&'a self, server: &'a ServerName, tool: &'a str, bytes: u64, current: &Current) -> CallOf<'a> {
        let Caller { user, execution, .. } = &self.caller;
        CallOf { user, execution, number: current.line.number(), server, tool, bytes }
    }

    fn in_progress(&self, number: u64) -> CallInProgress {
        let Caller { user, execution, audit, .. } = &self.caller;
        let (audit, user, execution) = (audit.clone(), user.clone(), execution.clone());
        CallInProgress { audit, user, execution, number, stage: Stage::Begun }
    }

    /// Awaits `work`, which may have to start the server. The first start of each server pauses the clock of the
    /// execution, because starting has its own time limit.
    async fn started<T>(&self, server: &ServerName, line: &mut Line, work: impl Future<Output = T>) -> T {
        tokio::pin!(work);
        // If the server is already running, the first poll completes the work.
        let now = std::future::poll_fn(|context| Poll::Ready(work.as_mut().poll(context)));
        if let Poll::Ready(done) = now.await {
            return done;
        }
        let is_starting = |status: &ServerStatus| status.name == *server && status.state == ServerState::Starting;
        if !self.toolbox.upstream().status(&self.caller.user).iter().any(is_starting) {
            return work.await;
        }
        let begun = Instant::now();
        let is_first = self.waited.lock().unwrap_or_else(PoisonError::into_inner).insert(server.clone());
        let pause = is_first.then(|| self.clock.pause());
        let done = telling(&self.toolbox, &self.caller.user, self.caller.events.as_ref(), work).await;
        drop(pause);
        line.waited(begun.elapsed());
        done
    }

    fn fits(&self, length: u64, hint: &str) -> Result<(), HostCallError> {
        let most = self.toolbox.caps().answer_bytes.min(MAX_CALL_BYTES);
        if length > most {
            let message = format!("the answer is {length} bytes long and at most {most} are passed on; {hint}");
            return Err(refused("too_large", &message));
        }
        Ok(())
    }
}

/// Whether the server certainly did not get the call.
fn has_not_arrived(error: &UpstreamError) -> bool {
    matches!(
        error,
        UpstreamError::UnknownServer { .. } | UpstreamError::Unavailable { .. } | UpstreamError::ToolNotFound { .. }
    )
}

#[async_trait]
impl HostCalls for Broker {
    async fn call(&self, method: String, params: Map<String, Value>) -> Result<Value, HostCallError> {
        match method.as_str() {
            TOOL => self.tool(params).await,
            SEARCH => self.search(params).await,
            ABSENT => Ok(self.absent(&params)),
            SAVE_SKILL => {
                if self.toolbox.approvals().flows().is_active() {
                    self.caller.sources.leaves_in(&Place::skills()).await?;
                }
                self.others.call(method, params).await
            }
            _ => self.others.call(method, params).await,
        }
    }
}
