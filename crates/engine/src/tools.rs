//! The tools that code and clients can call, if the engine has a toolbox.

use crate::audit::Audit;
use crate::broker::{Broker, Caller};
use crate::call_log::CallLog;
use crate::clock::Clock;
use crate::host_calls::{HostCallError, HostCalls, NoCalls};
use crate::ids::new_execution_id;
use crate::ledger::Ledger;
use crate::privacy::{CurrentPrivacy, ForModel};
use crate::recording::Recording;
use crate::request::{DirectCall, DirectError, DirectRequest, Request};
use crate::sources::{SourceTracker, TrackedWorkspace};
use crate::toolbox::{Inventory, Listing, Toolbox};
use crate::waiting::telling;
use coracle_guardrails::Access;
use coracle_policy::{Approver, ExecutionFacts, Interface, NobodyToAsk, Reason};
use coracle_store::{ExecutionRecord, Place};
use coracle_types::{ExecutionId, Mode, SessionId, UserId};
use coracle_upstream::UpstreamError;
use serde_json::{Map, Value};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, SystemTime};
use tokio_util::sync::CancellationToken;

/// The clock of a direct call never runs out: the time limit of its server applies.
const NO_LIMIT: Duration = Duration::from_hours(24);

/// The toolbox of an engine, if it has one. Cheap to clone.
#[derive(Clone, Debug)]
pub(crate) struct Tools {
    toolbox: Option<Arc<Toolbox>>,
    audit: Audit,
    privacy: CurrentPrivacy,
}

/// The tools that one piece of code uses.
#[derive(Debug, Default)]
pub(crate) struct Known {
    /// Modules of an earlier run with the same imports. If there are any, no inventory is needed.
    pub(crate) modules: Option<PathBuf>,
    pub(crate) inventory: Option<Arc<Inventory>>,
}

/// The execution that makes calls.
#[derive(Clone, Copy)]
pub(crate) struct CallsOf<'a> {
    pub(crate) execution: &'a ExecutionId,
    pub(crate) clock: &'a Clock,
    pub(crate) ledger: &'a Ledger,
    pub(crate) log: Option<&'a Arc<dyn CallLog>>,
    /// Set if a model listens.
    pub(crate) for_model: Option<&'a ForModel>,
    /// The servers that the code has read from.
    pub(crate) sources: Option<&'a Arc<SourceTracker>>,
}

/// What answers the calls of one execution.
pub(crate) struct Answering {
    pub(crate) calls: Arc<dyn HostCalls>,
    /// What decides about calls of tools, if there are any.
    pub(crate) broker: Option<Arc<Broker>>,
}

impl Tools {
    pub(crate) fn new(toolbox: Option<Arc<Toolbox>>, privacy: CurrentPrivacy) -> Self {
        Self { toolbox, audit: Audit::default(), privacy }
    }

    /// The audit log.
    pub(crate) fn audit(&self) -> &Audit {
        &self.audit
    }

    pub(crate) fn toolbox(&self) -> Option<&Arc<Toolbox>> {
        self.toolbox.as_ref()
    }

    /// Why the operator's policy does not let a request run, if it does not.
    pub(crate) fn denied(&self, request: &Request) -> Option<Reason> {
        self.toolbox.as_ref()?.approvals().policy().denies_execution(&ExecutionFacts {
            user: &request.user,
            session: request.session.as_ref(),
            language: request.language,
            bytes: request.code.len(),
            conversation: request.conversation.as_ref().map(Place::as_str),
            interface: request.interface,
            at: SystemTime::now(),
        })
    }

    /// The tools of a user.
    pub(crate) async fn inventory(&self, user: &UserId, listing: Listing<'_>) -> Option<Arc<Inventory>> {
        Some(self.toolbox.as_ref()?.inventory(user, listing).await)
    }

    /// The tools that the code of a request uses. Waits for servers that have never listed their tools, until the request
    /// is cancelled; that time does not count towards the time limit of the code.
    pub(crate) async fn known(&self, request: &Request) -> Known {
        let Some(toolbox) = &self.toolbox else { return Known::default() };
        let modules = toolbox.modules_at_hand(&request.user, &request.code).await;
        if modules.is_some() {
            return Known { modules, inventory: None };
        }
        let listing = toolbox.inventory(&request.user, Listing::For(&request.code));
        let inventory = tokio::select! {
            biased;
            () = request.cancel.cancelled() => None,
            inventory = telling(toolbox, &request.user, request.events.as_ref(), listing) => Some(inventory),
        };
        Known { modules: None, inventory }
    }

    /// The handler for the calls of one execution: tool calls go through a broker, all others to `others`.
    pub(crate) fn answering(
        &self,
        request: &Request,
        calls_of: CallsOf<'_>,
        inventory: Option<&Arc<Inventory>>,
        others: Arc<dyn HostCalls>,
    ) -> Answering {
        let CallsOf { execution, clock, ledger, log, for_model, sources } = calls_of;
        let recording =
            log.map(|log| Arc::new(Recording::new(Arc::clone(log), ledger.clone(), request.cancel.clone())));
        let recorded = |calls: Arc<dyn HostCalls>| match &recording {
            Some(recording) => recording.around(calls),
            None => calls,
        };
        let Some(toolbox) = &self.toolbox else { return Answering { calls: recorded(others), broker: None } };
        if request.mode == Mode::Plan && request.planner.is_none() {
            return Answering { calls: Arc::new(NoCalls), broker: None };
        }
        let caller = Caller {
            user: request.user.clone(),
            session: request.session.clone(),
            conversation: request.conversation.clone(),
            execution: execution.clone(),
            approver: Arc::clone(&request.approver),
            cancel: request.cancel.clone(),
            audit: self.audit.clone(),
            events: request.events.clone(),
            for_model: for_model.cloned(),
            privacy: self.privacy.in_use(),
            detection: self.privacy.get(),
            sources: match sources {
                Some(sources) => Arc::clone(sources),
                None => toolbox.tracker(&request.user, execution, Vec::new(), None),
            },
            access: request.access,
            interface: request.interface,
        };
        let broker = Broker::new(Arc::clone(toolbox), caller, clock.clone(), ledger.clone(), others);
        let broker = broker.knowing(inventory).recorded(recording.clone()).planned_by(request.planner.clone());
        let broker = Arc::new(broker);
        Answering { calls: recorded(Arc::<Broker>::clone(&broker)), broker: Some(broker) }
    }

    /// The sources of an execution that is about to run, with what its places have.
    pub(crate) async fn track(
        &self,
        request: &Request,
        execution: &ExecutionId,
        workspace: TrackedWorkspace,
    ) -> Option<Arc<SourceTracker>> {
        let toolbox = self.toolbox.as_ref()?;
        let places = request.session.iter().map(Place::session).chain(request.conversation.clone()).collect();
        let sources = toolbox.tracker(&request.user, execution, places, Some(workspace));
        if toolbox.approvals().flows().is_active() {
            sources.begin().await;
        }
        Some(sources)
    }

    /// Whether code that leaves artifacts may tell of them: where their data came from must be noted before.
    pub(crate) async fn leaves_artifacts(&self, sources: &SourceTracker) -> Result<(), HostCallError> {
        match &self.toolbox {
            Some(toolbox) if toolbox.approvals().flows().is_active() => sources.leaves_in(&Place::artifacts()).await,
            _ => Ok(()),
        }
    }

    /// Decides where the data of an execution is now that it has ended.
    pub(crate) async fn settle(&self, sources: &SourceTracker, began: SystemTime) {
        if self.toolbox.as_ref().is_some_and(|toolbox| toolbox.approvals().flows().is_active()) {
            sources.settle(began).await;
        }
    }

    /// Cleans up after an execution: drops the approvals that were given for it alone, and stores what its calls have
    /// shown about the tools.
    pub(crate) async fn after(&self, request: &Request, record: &ExecutionRecord) {
        let Some(toolbox) = &self.toolbox else { return };
        if request.session.is_none() {
            toolbox.approvals().end_execution(&request.user, &record.execution_id);
        }
        toolbox.keep().await;
        toolbox.used(record);
    }

    /// Calls one tool for a client, through the same broker as calls from code.
    pub(crate) async fn call(&self, call: DirectCall) -> Result<Value, DirectError> {
        let Some(toolbox) = &self.toolbox else { return Err(NoCalls::refusal(&call.tool).into()) };
        let client = Client {
            user: call.user,
            session: call.session,
            conversation: call.conversation,
            approver: call.approver,
            interface: call.interface,
            cancel: call.context.cancel.clone(),
        };
        let broker = self.broker_for(toolbox, client).await;
        Box::pin(broker.pass_on(&call.server, &call.tool, call.arguments, call.context)).await
    }

    /// Makes a request of a client that is no call of a tool.
    pub(crate) async fn request<R>(
        &self,
        request: DirectRequest,
        make: impl FnOnce(Map<String, Value>) -> R,
    ) -> Result<Value, DirectError>
    where
        R: Future<Output = Result<Value, UpstreamError>>,
    {
        let Some(toolbox) = &self.toolbox else { return Err(NoCalls::refusal(request.method).into()) };
        let DirectRequest { user, conversation, server, method, arguments, interface, cancel } = request;
        let approver = Arc::new(NobodyToAsk);
        let broker =
            self.broker_for(toolbox, Client { user, session: None, conversation, approver, interface, cancel }).await;
        Box::pin(broker.pass_on_request(&server, method, arguments, make)).await
    }

    /// A broker for one request of a client. The session and the conversation get the data of its answer.
    async fn broker_for(&self, toolbox: &Arc<Toolbox>, client: Client) -> Broker {
        let execution = new_execution_id();
        let places = client.session.iter().map(Place::session).chain(client.conversation.clone()).collect();
        let sources = toolbox.tracker(&client.user, &execution, places, None);
        if toolbox.approvals().flows().is_active() {
            sources.begin().await;
        }
        let caller = Caller {
            user: client.user,
            session: client.session,
            conversation: client.conversation,
            execution,
            approver: client.approver,
            cancel: client.cancel,
            audit: self.audit.clone(),
            events: None,
            for_model: None,
            privacy: self.privacy.in_use(),
            detection: self.privacy.get(),
            sources,
            access: Access::Any,
            interface: client.interface,
        };
        Broker::new(Arc::clone(toolbox), caller, Clock::new(NO_LIMIT), Ledger::default(), Arc::new(NoCalls))
    }
}

/// Who makes a request that is not made by code.
struct Client {
    user: UserId,
    session: Option<SessionId>,
    conversation: Option<Place>,
    approver: Arc<dyn Approver>,
    interface: Interface,
    cancel: CancellationToken,
}
