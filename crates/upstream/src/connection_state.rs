//! What a transport and its connection share: why it ended, what has changed, and which requests are on their way.

mod in_flight;

pub(crate) use in_flight::InFlight;

use crate::call::Progress;
use crate::reverse::{Question, QuestionKind, Refusal};
use rmcp::model::{ProgressToken, RequestId};
use rmcp::service::InboundStreamOrigin;
use serde::Deserialize;
use serde_json::Value;
use std::collections::{BTreeSet, HashMap};
use std::sync::atomic::{AtomicBool, AtomicU16, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use tokio::sync::Notify;
use tokio_util::sync::CancellationToken;

/// Questions of a server that are kept as they came, until the library has looked at them.
const MAX_KEPT_QUESTIONS: usize = 64;
/// A notification that may belong to a call.
pub(crate) const LOG_MESSAGE: &str = "notifications/message";
/// Most resources of one server that can be watched.
pub(crate) const MAX_WATCHED: usize = 1000;

/// Why a connection ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Fault {
    /// It was closed from the other side.
    Ended(String),
    /// What came is no MCP.
    Protocol(String),
    /// What came is too much.
    TooLarge(String),
}

/// What transport and connection share.
#[derive(Default)]
pub(crate) struct ConnectionState {
    /// The first reason counts: what follows is its consequence.
    fault: OnceLock<Fault>,
    /// Cancelled as soon as nothing more will come.
    pub(crate) ended: CancellationToken,
    /// The server said that something has changed.
    pub(crate) changed: Notify,
    pub(crate) tools_stale: AtomicBool,
    pub(crate) resources_changed: AtomicBool,
    pub(crate) prompts_changed: AtomicBool,
    resources: Mutex<Resources>,
    flights: Mutex<Flights>,
    /// Requests are made with a stored sign-in, which its owner may withdraw.
    pub(crate) signed_in: AtomicBool,
    /// The status of HTTP by which the server refused a message, if it has.
    pub(crate) refused: AtomicU16,
    /// Lines that are no messages; for the note in a time-out.
    pub(crate) garbage: AtomicU64,
}

#[derive(Default)]
struct Resources {
    /// How many want to know when it changes.
    watched: HashMap<String, usize>,
    /// Those of them that have changed.
    updated: BTreeSet<String>,
}

#[derive(Default)]
struct Flights {
    by_id: HashMap<RequestId, Registered>,
    by_token: HashMap<ProgressToken, RequestId>,
    questions: HashMap<RequestId, Value>,
}

struct Registered {
    flight: Arc<InFlight>,
    /// The result as it came, once it has come.
    result: Option<Value>,
}

/// What of a message must be kept as it came: the library's types have no place for members that it does not know.
#[derive(Deserialize)]
struct Envelope {
    id: Option<RequestId>,
    method: Option<String>,
    result: Option<Value>,
    params: Option<Value>,
}

impl ConnectionState {
    pub(crate) fn fail(&self, fault: Fault) {
        // Only the first reason is kept.
        let _ = self.fault.set(fault);
        self.ended.cancel();
    }

    pub(crate) fn fault(&self) -> Option<&Fault> {
        self.fault.get()
    }

    /// Before a request leaves: what comes for it will find it.
    pub(crate) fn register(&self, id: RequestId, token: Option<ProgressToken>, flight: Arc<InFlight>) {
        let mut flights = self.flights();
        // Its caller may have gone before it left.
        if flight.over.is_cancelled() {
            return;
        }
        if let Some(token) = token {
            flights.by_token.insert(token, id.clone());
        }
        flights.by_id.insert(id, Registered { flight, result: None });
    }

    pub(crate) fn forget(&self, id: &RequestId, token: &ProgressToken) {
        let mut flights = self.flights();
        flights.by_token.remove(token);
        flights.by_id.remove(id);
    }

    pub(crate) fn is_in_flight(&self, id: &RequestId) -> bool {
        self.flights().by_id.contains_key(id)
    }

    pub(crate) fn report_progress(&self, token: &ProgressToken, report: impl FnOnce() -> Progress) {
        let flights = self.flights();
        let flight = flights.by_token.get(token).and_then(|id| flights.by_id.get(id));
        if let Some(sender) = flight.and_then(|registered| registered.flight.progress.as_ref()) {
            // A listener that is too slow misses some.
            let _ = sender.try_send(report());
        }
    }

    /// Whether anybody wants log messages.
    pub(crate) fn wants_logs(&self) -> bool {
        self.flights().by_id.values().any(|registered| registered.flight.log.is_some())
    }

    /// A log message, for the request on whose stream it came, or for the only one that wants to know.
    pub(crate) fn report_log(&self, of: Option<&RequestId>, params: Value) {
        let flights = self.flights();
        let mut wanting = flights
            .by_id
            .iter()
            .filter(|(id, registered)| registered.flight.log.is_some() && of.is_none_or(|of| of == *id))
            .map(|(_, registered)| &registered.flight);
        if let (Some(flight), None) = (wanting.next(), wanting.next())
            && let Some(sender) = &flight.log
        {
            // As with progress.
            let _ = sender.try_send(params);
        }
    }

    /// Looks at a message before the library does, and keeps what the library would lose. `stream` is the request on
    /// whose stream it came. False if the library need not see it.
    pub(crate) fn look_at(&self, message: &[u8], stream: Option<&RequestId>) -> bool {
        let Ok(envelope) = serde_json::from_slice::<Envelope>(message) else {
            return true;
        };
        let Some(id) = envelope.id else {
            let is_log = envelope.method.as_deref() == Some(LOG_MESSAGE) && stream.is_some();
            if is_log {
                self.report_log(stream, envelope.params.unwrap_or_default());
            }
            return !is_log;
        };
        let mut flights = self.flights();
        match (envelope.method, envelope.result, envelope.params) {
            (None, Some(result), _) => {
                if let Some(registered) = flights.by_id.get_mut(&id) {
                    registered.result = Some(result);
                }
            }
            (Some(method), _, Some(params))
                if QuestionKind::of(&method).is_some() && flights.questions.len() < MAX_KEPT_QUESTIONS =>
            {
                flights.questions.insert(id, params);
            }
            _ => {}
        }
        true
    }

    /// The result of a request as it came, if it was looked at.
    pub(crate) fn take_result(&self, id: &RequestId) -> Option<Value> {
        self.flights().by_id.get_mut(id).and_then(|registered| registered.result.take())
    }

    pub(crate) fn take_question(&self, id: &RequestId) -> Option<Value> {
        self.flights().questions.remove(id)
    }

    /// Lets somebody answer what the server asks.
    pub(crate) async fn answer(
        &self,
        question: Question,
        origin: Option<&InboundStreamOrigin>,
        withdrawn: CancellationToken,
    ) -> Result<Value, Refusal> {
        let flight = self.asked(origin)?;
        tokio::select! {
            biased;
            () = withdrawn.cancelled() => Err(Refusal::invalid("the question was withdrawn")),
            answer = flight.answer(question) => answer,
        }
    }

    /// Who is asked: over HTTP the request on whose stream the question came, else the only one that can be asked.
    fn asked(&self, origin: Option<&InboundStreamOrigin>) -> Result<Arc<InFlight>, Refusal> {
        let nobody = || Refusal::unsupported("no call is under way whose caller can be asked");
        let flights = self.flights();
        if let Some(InboundStreamOrigin::OutboundRequest(id)) = origin {
            let registered = flights.by_id.get(id).filter(|registered| registered.flight.reverse.is_some());
            return registered.map(|registered| Arc::clone(&registered.flight)).ok_or_else(nobody);
        }
        let mut able =
            flights.by_id.values().map(|registered| &registered.flight).filter(|flight| flight.reverse.is_some());
        match (able.next(), able.next()) {
            (Some(flight), None) => Ok(Arc::clone(flight)),
            (None, _) => Err(nobody()),
            (Some(_), Some(_)) => {
                Err(Refusal::invalid("several calls are under way, and it cannot be told whose caller is asked"))
            }
        }
    }

    /// Counts those who watch a resource; true for the first.
    pub(crate) fn watch(&self, uri: &str) -> Result<bool, String> {
        let mut resources = self.resources();
        if let Some(count) = resources.watched.get_mut(uri) {
            *count += 1;
            return Ok(false);
        }
        if resources.watched.len() >= MAX_WATCHED {
            return Err(format!("more than {MAX_WATCHED} of its resources are watched"));
        }
        resources.watched.insert(uri.to_owned(), 1);
        Ok(true)
    }

    /// True for the last who watched it.
    pub(crate) fn unwatch(&self, uri: &str) -> bool {
        let mut resources = self.resources();
        let Some(count) = resources.watched.get_mut(uri) else {
            return false;
        };
        *count -= 1;
        let is_last = *count == 0;
        if is_last {
            resources.watched.remove(uri);
            resources.updated.remove(uri);
        }
        is_last
    }

    pub(crate) fn watched(&self) -> Vec<String> {
        self.resources().watched.keys().cloned().collect()
    }

    pub(crate) fn report_update(&self, uri: &str) {
        let mut resources = self.resources();
        // Some servers tell of what is below the address that is watched. Never more than is watched is kept.
        if resources.watched.contains_key(uri) || resources.watched.keys().any(|watched| uri.starts_with(watched)) {
            if resources.updated.len() < MAX_WATCHED {
                resources.updated.insert(uri.to_owned());
            }
            self.changed.notify_one();
        }
    }

    pub(crate) fn take_updated(&self) -> BTreeSet<String> {
        std::mem::take(&mut self.resources().updated)
    }

    pub(crate) fn mark(&self, flag: &AtomicBool) {
        flag.store(true, Ordering::Release);
        self.changed.notify_one();
    }

    fn flights(&self) -> MutexGuard<'_, Flights> {
        self.flights.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn resources(&self) -> MutexGuard<'_, Resources> {
        self.resources.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
