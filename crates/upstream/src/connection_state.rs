//! The state that a transport and its connection share: why it ended, what has changed, and the requests in flight.

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

/// The maximum number of server questions whose parameters are kept until the library has parsed them.
const MAX_KEPT_QUESTIONS: usize = 64;
/// The method of log messages, which may belong to a call.
pub(crate) const LOG_MESSAGE: &str = "notifications/message";
/// The maximum number of resources of one server that can be watched.
pub(crate) const MAX_WATCHED: usize = 1000;

/// Why a connection ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Fault {
    /// The other side closed the connection.
    Ended(String),
    /// The other side broke the protocol.
    Protocol(String),
    /// The other side sent too much.
    TooLarge(String),
}

/// The state that a transport and its connection share.
#[derive(Default)]
pub(crate) struct ConnectionState {
    /// The first fault. Later ones are consequences of it.
    fault: OnceLock<Fault>,
    /// Cancelled when no more messages will arrive.
    pub(crate) ended: CancellationToken,
    /// Notified when the server announces a change.
    pub(crate) changed: Notify,
    pub(crate) tools_stale: AtomicBool,
    pub(crate) resources_changed: AtomicBool,
    pub(crate) prompts_changed: AtomicBool,
    resources: Mutex<Resources>,
    flights: Mutex<Flights>,
    /// Whether requests use a stored sign-in, which its owner may revoke.
    pub(crate) signed_in: AtomicBool,
    /// The HTTP status with which the server refused a message, or 0.
    pub(crate) refused: AtomicU16,
    /// The number of lines that were not messages, for the note in a time-out error.
    pub(crate) garbage: AtomicU64,
}

#[derive(Default)]
struct Resources {
    /// The number of watchers, by URI.
    watched: HashMap<String, usize>,
    /// The watched resources that have changed.
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
    /// The unparsed result, once it has arrived.
    result: Option<Value>,
}

/// The parts of a message that are kept unparsed, because the library's types drop unknown members.
#[derive(Deserialize)]
struct Envelope {
    id: Option<RequestId>,
    method: Option<String>,
    result: Option<Value>,
    params: Option<Value>,
}

impl ConnectionState {
    pub(crate) fn fail(&self, fault: Fault) {
        // Only the first fault is kept.
        let _ = self.fault.set(fault);
        self.ended.cancel();
    }

    pub(crate) fn fault(&self) -> Option<&Fault> {
        self.fault.get()
    }

    /// Registers a request before it is sent, so that its answer and its progress can be assigned to it.
    pub(crate) fn register(&self, id: RequestId, token: Option<ProgressToken>, flight: Arc<InFlight>) {
        let mut flights = self.flights();
        // The caller may have stopped waiting before the request was sent.
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
            // A slow listener misses reports.
            let _ = sender.try_send(report());
        }
    }

    /// Whether any request wants log messages.
    pub(crate) fn wants_logs(&self) -> bool {
        self.flights().by_id.values().any(|registered| registered.flight.log.is_some())
    }

    /// Passes a log message to the request on whose stream it arrived, or to the only request that wants messages.
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
            // A slow listener misses messages.
            let _ = sender.try_send(params);
        }
    }

    /// Inspects a message before the library does, and keeps the parts that the library would drop. `stream` is the
    /// request on whose stream it arrived. Returns false if the library need not see it.
    pub(crate) fn inspect(&self, message: &[u8], stream: Option<&RequestId>) -> bool {
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

    /// Takes the unparsed result of a request, if there is one.
    pub(crate) fn take_result(&self, id: &RequestId) -> Option<Value> {
        self.flights().by_id.get_mut(id).and_then(|registered| registered.result.take())
    }

    pub(crate) fn take_question(&self, id: &RequestId) -> Option<Value> {
        self.flights().questions.remove(id)
    }

    /// Answers a question of the server.
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

    /// The request whose caller is asked: over HTTP the one on whose stream the question arrived, or else the only one
    /// that can answer.
    fn asked(&self, origin: Option<&InboundStreamOrigin>) -> Result<Arc<InFlight>, Refusal> {
        let nobody = || Refusal::unsupported("no call is in progress whose caller can be asked");
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
                Err(Refusal::invalid("several calls are in progress, and it is unclear whose caller to ask"))
            }
        }
    }

    /// Counts a watcher of a resource. Returns true for the first.
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

    /// Removes a watcher of a resource. Returns true for the last.
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
        // Some servers report changes below the watched URI. The number of updates is limited to the number of
        // watchers.
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
