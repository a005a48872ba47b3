//! What stands between every transport and the MCP library: it passes answers on, deals with notifications itself, and
//! remembers why a connection ended.

use crate::call::Progress;
use crate::scrub::{MAX_REASON, shortened};
use rmcp::RoleClient;
use rmcp::model::{
    ClientRequest, ErrorCode, ErrorData, GetExtensions as _, GetMeta as _, JsonRpcMessage, ProgressToken, RequestId,
    ServerNotification,
};
use rmcp::service::{RxJsonRpcMessage, TxJsonRpcMessage};
use rmcp::transport::Transport;
use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::time::{Duration, Instant};
use tokio::sync::{Notify, mpsc};
use tokio_util::sync::CancellationToken;

/// Servers of before 2026 may not answer `server/discover` at all: so long is waited before `initialize` is sent.
const PROBE_TIMEOUT: Duration = Duration::from_secs(3);

/// So many messages that lead nowhere are read in a row before others get their turn.
const TURN: u32 = 64;

/// A server that asks for more than this within [`REQUEST_WINDOW`] is cut off: each request must be answered.
const MAX_REQUESTS: u32 = 1000;
const REQUEST_WINDOW: Duration = Duration::from_secs(1);

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
pub(crate) struct Desk {
    /// The first reason counts: what follows is its consequence.
    fault: OnceLock<Fault>,
    /// Cancelled as soon as nothing more will come.
    pub(crate) ended: CancellationToken,
    /// The server said that its tools have changed.
    pub(crate) tools_changed: Notify,
    pub(crate) tools_stale: AtomicBool,
    progress: Mutex<HashMap<ProgressToken, mpsc::Sender<Progress>>>,
    /// Lines that are no messages; for the note in a time-out.
    pub(crate) garbage: AtomicU64,
}

impl Desk {
    pub(crate) fn fail(&self, fault: Fault) {
        // Only the first reason is kept.
        let _ = self.fault.set(fault);
        self.ended.cancel();
    }

    pub(crate) fn fault(&self) -> Option<&Fault> {
        self.fault.get()
    }

    pub(crate) fn forget_progress(&self, token: &ProgressToken) {
        self.progress.lock().unwrap_or_else(PoisonError::into_inner).remove(token);
    }

    fn listen_for_progress(&self, token: ProgressToken, sender: mpsc::Sender<Progress>) {
        self.progress.lock().unwrap_or_else(PoisonError::into_inner).insert(token, sender);
    }

    fn report_progress(&self, token: &ProgressToken, report: impl FnOnce() -> Progress) {
        let progress = self.progress.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(sender) = progress.get(token) {
            // A listener that is too slow misses some.
            let _ = sender.try_send(report());
        }
    }
}

/// Travels with a request, never over the wire: where its progress goes. The token is known only when the request is
/// on its way, and this way nobody can be faster than the registration.
#[derive(Clone)]
pub(crate) struct ProgressSink(pub(crate) mpsc::Sender<Progress>);

/// Whether a probe that gets no answer is given up here. Over HTTP the library does it.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Silence {
    GivesUp,
    IsLeftAlone,
}

struct Probe {
    id: RequestId,
    until: tokio::time::Instant,
}

/// A transport whose messages have been looked at.
pub(crate) struct Screen<T> {
    inner: T,
    desk: Arc<Desk>,
    silence: Silence,
    probe: Option<Probe>,
    /// A probe that was given up: its answer may come late and must not be taken for another.
    late: Option<RequestId>,
    requests: (Instant, u32),
}

impl<T> Screen<T> {
    pub(crate) fn new(inner: T, desk: Arc<Desk>, silence: Silence) -> Self {
        Self { inner, desk, silence, probe: None, late: None, requests: (Instant::now(), 0) }
    }

    /// Whether the library should see this.
    fn admits(&mut self, message: &RxJsonRpcMessage<RoleClient>) -> bool {
        match message {
            JsonRpcMessage::Response(response) => self.admits_answer(Some(&response.id)),
            JsonRpcMessage::Error(error) => self.admits_answer(error.id.as_ref()),
            JsonRpcMessage::Request(_) => {
                let (since, count) = &mut self.requests;
                if since.elapsed() > REQUEST_WINDOW {
                    (*since, *count) = (Instant::now(), 0);
                }
                *count += 1;
                if *count > MAX_REQUESTS {
                    let reason = format!("it made more than {MAX_REQUESTS} requests of its own within a second");
                    self.desk.fail(Fault::Protocol(reason));
                }
                *count <= MAX_REQUESTS
            }
            JsonRpcMessage::Notification(notification) => self.admits_notification(&notification.notification),
        }
    }

    fn admits_answer(&mut self, id: Option<&RequestId>) -> bool {
        if id.is_some() && id == self.late.as_ref() {
            self.late = None;
            return false;
        }
        if id.is_none() || id == self.probe.as_ref().map(|probe| &probe.id) {
            self.probe = None;
        }
        true
    }

    fn admits_notification(&self, notification: &ServerNotification) -> bool {
        match notification {
            ServerNotification::ToolListChangedNotification(_) => {
                self.desk.tools_stale.store(true, Ordering::Release);
                self.desk.tools_changed.notify_one();
                false
            }
            ServerNotification::ProgressNotification(progress) => {
                let params = &progress.params;
                self.desk.report_progress(&params.progress_token, || Progress {
                    progress: params.progress,
                    total: params.total,
                    message: params.message.as_deref().map(|message| shortened(message, MAX_REASON)),
                });
                false
            }
            // The library needs these two to keep track of its own requests.
            ServerNotification::SubscriptionsAcknowledgedNotification(_)
            | ServerNotification::CancelledNotification(_) => true,
            _ => false,
        }
    }

    fn note_outgoing(&mut self, message: &mut TxJsonRpcMessage<RoleClient>) {
        let JsonRpcMessage::Request(request) = message else {
            return;
        };
        if let ClientRequest::DiscoverRequest(_) = &request.request
            && self.silence == Silence::GivesUp
        {
            let until = tokio::time::Instant::now() + PROBE_TIMEOUT;
            self.probe = Some(Probe { id: request.id.clone(), until });
        }
        let token = request.request.get_meta().get_progress_token();
        let sink = request.request.extensions_mut().remove::<ProgressSink>();
        if let (Some(ProgressSink(sender)), Some(token)) = (sink, token) {
            self.desk.listen_for_progress(token, sender);
        }
    }
}

impl<T: Transport<RoleClient>> Transport<RoleClient> for Screen<T> {
    type Error = T::Error;

    fn send(
        &mut self,
        mut item: TxJsonRpcMessage<RoleClient>,
    ) -> impl Future<Output = Result<(), Self::Error>> + Send + 'static {
        self.note_outgoing(&mut item);
        self.inner.send(item)
    }

    async fn receive(&mut self) -> Option<RxJsonRpcMessage<RoleClient>> {
        let mut in_a_row = 0;
        loop {
            let message = match &self.probe {
                None => self.inner.receive().await,
                Some(probe) => tokio::select! {
                    biased;
                    message = self.inner.receive() => message,
                    () = tokio::time::sleep_until(probe.until) => {
                        let id = probe.id.clone();
                        self.late = Some(id.clone());
                        self.probe = None;
                        let silence = ErrorData::new(ErrorCode::METHOD_NOT_FOUND, "no answer to the probe", None);
                        return Some(JsonRpcMessage::error(silence, Some(id)));
                    }
                },
            };
            let Some(message) = message else {
                self.desk.fail(Fault::Ended("the connection was closed".to_owned()));
                return None;
            };
            if self.admits(&message) {
                return Some(message);
            }
            if self.desk.ended.is_cancelled() {
                return None;
            }
            in_a_row += 1;
            if in_a_row % TURN == 0 {
                tokio::task::yield_now().await;
            }
        }
    }

    async fn close(&mut self) -> Result<(), Self::Error> {
        self.desk.fail(Fault::Ended("the connection was closed by Coracle".to_owned()));
        self.inner.close().await
    }
}
