//! Every tool call of sandboxed code goes through here: it is looked up, checked, approved, made and recorded. So does
//! every search for tools (`search.rs`).
//!
//! Trust boundary: both the code and the server are hostile.

mod search;

use crate::answer::Answer;
use crate::clock::{Clock, Pause};
use crate::host_calls::{ABSENT, HostCallError, HostCalls, SEARCH, TOOL, refused, upstream_failed};
use crate::ledger::{Ledger, Line};
use crate::request::DirectError;
use crate::toolbox::{Inventory, Toolbox};
use crate::waiting::telling;
use async_trait::async_trait;
use coracle_policy::{Answer as Said, Approver, Call, Question};
use coracle_types::{Event, ExecutionId, MAX_CALL_BYTES, ServerName, SessionId, Tool, UserId};
use coracle_upstream::{CallContext, ServerState, ServerStatus, UpstreamError};
use serde_json::{Map, Value, json};
use std::collections::HashSet;
use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};
use std::task::Poll;
use std::time::Instant;
use tokio::sync::{OnceCell, Semaphore, mpsc};
use tokio_util::sync::CancellationToken;

/// Hint for an answer that is too large.
const LESS: &str = "ask the tool for less at once: a filter, a page, a range";

/// The execution, or the client, that calls are made for.
#[derive(Debug)]
pub(crate) struct Caller {
    pub(crate) user: UserId,
    pub(crate) session: Option<SessionId>,
    pub(crate) execution: ExecutionId,
    pub(crate) approver: Arc<dyn Approver>,
    pub(crate) cancel: CancellationToken,
    /// Is told which servers a call waits for.
    pub(crate) events: Option<mpsc::Sender<Event>>,
}

/// Whether arguments are checked before they are sent.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Arguments {
    /// Against the schema of the tool, so that code gets a readable error.
    Checked,
    /// Not at all: the server reports what is wrong with them.
    AsTheyAre,
}

/// Answers the calls of one execution.
#[derive(Debug)]
pub(crate) struct Broker {
    toolbox: Arc<Toolbox>,
    caller: Caller,
    approver: Unhurried,
    ledger: Ledger,
    /// Servers whose start this execution has waited for while its clock was stopped. The clock is not stopped for a second
    /// start: otherwise code could stop it forever with a server that keeps failing.
    waited: Mutex<HashSet<ServerName>>,
    under_way: Semaphore,
    /// The tools that the code can import, and the servers without tools.
    inventory: Option<Arc<Inventory>>,
    /// The tools that are searched, which are the same for the whole execution.
    searched: OnceCell<Arc<Inventory>>,
    /// Answers all calls that are not about tools.
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
        let approver = Unhurried { approver: Arc::clone(&caller.approver), clock };
        let under_way = Semaphore::new(toolbox.caps().at_once);
        let waited = Mutex::default();
        Self {
            toolbox,
            caller,
            approver,
            ledger,
            waited,
            under_way,
            inventory: None,
            searched: OnceCell::new(),
            others,
        }
    }

    /// Sets the tools that the code can call. They are also the ones that are searched, unless a server was missing.
    pub(crate) fn knowing(mut self, inventory: Option<&Arc<Inventory>>) -> Self {
        let is_unusable = |(server, _): &(ServerName, String)| self.toolbox.is_unusable(server);
        let whole = inventory.filter(|inventory| inventory.missing.iter().all(is_unusable));
        self.inventory = inventory.map(Arc::clone);
        self.searched = OnceCell::new_with(whole.map(Arc::clone));
        self
    }

    /// Why servers have no modules: one server, by its own name or that of its package, or all of them.
    fn absent(&self, params: &Map<String, Value>) -> Value {
        let named = params.get("server").and_then(Value::as_str).unwrap_or_default();
        let is_meant = |server: &ServerName| {
            named.is_empty() || named == server.as_str() || named == coracle_catalog::package_name(server.as_str())
        };
        let missing = self.inventory.as_ref().map_or(self.toolbox.unusable(), |inventory| &inventory.missing);
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
        let (server, tool, arguments) = (params.remove("server"), params.remove("tool"), params.remove("arguments"));
        let (Some(Value::String(server)), Some(Value::String(tool))) = (server, tool) else {
            return Err(refused("invalid_request", "a call of a tool names a server and a tool"));
        };
        let arguments = match arguments {
            None | Some(Value::Null) => Map::new(),
            Some(Value::Object(arguments)) => arguments,
            Some(_) => return Err(refused("invalid_request", "the arguments of a tool are an object")),
        };
        let bytes = json_length(&arguments);
        let mut line = self.ledger.begin(&server, &tool, bytes);
        match self.call(&server, &tool, arguments, bytes, &mut line).await {
            Ok((value, bytes)) => {
                line.answered(bytes);
                Ok(value)
            }
            Err(error) => {
                line.failed(&error.code);
                Err(error)
            }
        }
    }

    async fn call(
        &self,
        server: &str,
        tool: &str,
        arguments: Map<String, Value>,
        bytes: u64,
        line: &mut Line,
    ) -> Result<(Value, u64), HostCallError> {
        let user = &self.caller.user;
        let name = ServerName::new(server).map_err(|_| self.toolbox.no_server(server))?;
        let (tool, arguments) = self.admit(&name, tool, arguments, bytes, Arguments::Checked, line).await?;
        // Acquired after the approval, so that a call that waits for a person does not delay others. It fails only if the
        // semaphore is closed, which never happens.
        let _permit = self.under_way.acquire().await;
        let context = CallContext { cancel: self.caller.cancel.child_token(), ..CallContext::default() };
        // If this future is dropped, the server is told that the call is cancelled.
        let _told = context.cancel.clone().drop_guard();
        let result = self.toolbox.upstream().call(user, &name, &tool.name, arguments, context).await;
        let answer = result
            .map_err(|error| upstream_failed(&error))
            .and_then(|result| Answer::of(&tool, result).map_err(|complaint| refused("tool_error", &complaint)))?;
        self.toolbox.observe(user, &tool, &answer);
        let wire = answer.into_wire();
        let length = json_length(&wire);
        self.fits(length, LESS)?;
        Ok((wire, length))
    }

    /// Calls a tool for a client that does not write code; returns the answer unchanged.
    pub(crate) async fn pass_on(
        &self,
        server: &ServerName,
        tool: &str,
        arguments: Map<String, Value>,
        context: CallContext,
    ) -> Result<Value, DirectError> {
        let bytes = json_length(&arguments);
        let mut line = self.ledger.begin(server.as_str(), tool, bytes);
        let passed = async {
            let (tool, arguments) = self.admit(server, tool, arguments, bytes, Arguments::AsTheyAre, &mut line).await?;
            let Some(upstream) = self.toolbox.upstream().passes_on() else {
                return Err(refused("unavailable", "these tools can be called from code only").into());
            };
            let answer = upstream.call_raw(&self.caller.user, server, &tool.name, arguments, context).await;
            let answer = answer.map_err(|error| match error {
                UpstreamError::Refused { number, message, data, .. } => DirectError::Refused { number, message, data },
                other => upstream_failed(&other).into(),
            })?;
            let length = json_length(&answer);
            self.fits(length, LESS)?;
            Ok::<_, DirectError>((answer, length))
        };
        let (user, outcome) = (&self.caller.user, passed.await);
        match outcome {
            Ok((answer, length)) => {
                line.answered(length);
                tracing::info!(%user, %server, tool, bytes, length, "a call was passed on");
                Ok(answer)
            }
            Err(error) => {
                line.failed(error.code());
                tracing::info!(%user, %server, tool, bytes, code = error.code(), "a call was not passed on");
                Err(error)
            }
        }
    }

    /// Returns the tool if it exists and may be called with these arguments.
    async fn admit(
        &self,
        server: &ServerName,
        tool: &str,
        arguments: Map<String, Value>,
        bytes: u64,
        checks: Arguments,
        line: &mut Line,
    ) -> Result<(Arc<Tool>, Map<String, Value>), HostCallError> {
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
        let fitting = self.toolbox.refused_early(user, server, tool, checked)?;
        let (tool, validator) = self.started(server, line, self.toolbox.tool(user, server, tool)).await?;
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
        let question = Call {
            user,
            session: self.caller.session.as_ref(),
            execution: &self.caller.execution,
            tool: &tool,
            names: &names,
            arguments: &arguments,
        };
        let decided = self.toolbox.approvals().decide(question, &self.approver).await;
        decided.map_err(|refusal| refused(refusal.code(), &format!("{refusal}; {}", refusal.hint())))?;
        // The server may have been stopped while a person was deciding.
        self.started(server, line, self.toolbox.upstream().tools(user, server))
            .await
            .map_err(|error| upstream_failed(&error))?;
        let Value::Object(arguments) = arguments else { return Err(refused("internal", "the arguments are gone")) };
        Ok((tool, arguments))
    }

    /// Waits for work that may have to start the server. Starting has its own time limit, and does not count as time of the
    /// code.
    async fn started<T>(&self, server: &ServerName, line: &mut Line, work: impl Future<Output = T>) -> T {
        tokio::pin!(work);
        // If the server is running, the work is done at once.
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
        let pause = is_first.then(|| self.approver.clock.pause());
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

#[async_trait]
impl HostCalls for Broker {
    async fn call(&self, method: String, params: Map<String, Value>) -> Result<Value, HostCallError> {
        match method.as_str() {
            TOOL => self.tool(params).await,
            SEARCH => self.search(params).await,
            ABSENT => Ok(self.absent(&params)),
            _ => self.others.call(method, params).await,
        }
    }
}

/// Stops the clock of the execution while it asks.
struct Unhurried {
    approver: Arc<dyn Approver>,
    clock: Clock,
}

#[async_trait]
impl Approver for Unhurried {
    async fn ask(&self, question: Question) -> Said {
        let _pause: Pause = self.clock.pause();
        self.approver.ask(question).await
    }
}

impl fmt::Debug for Unhurried {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.approver.fmt(f)
    }
}

/// Length of a value as JSON, without writing it.
fn json_length(value: &impl serde::Serialize) -> u64 {
    struct Count(u64);
    impl std::io::Write for Count {
        fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
            self.0 += bytes.len() as u64;
            Ok(bytes.len())
        }

        fn flush(&mut self) -> std::io::Result<()> {
            Ok(())
        }
    }
    let mut count = Count(0);
    match serde_json::to_writer(&mut count, value) {
        Ok(()) => count.0,
        Err(_) => u64::MAX,
    }
}
