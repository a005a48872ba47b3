//! The calls of tools in one execution, as the host observed them.

use crate::audit::{CallInProgress, Stage};
use crate::listener::Listener;
use coracle_policy::arguments_preview;
use coracle_types::{Event, ToolCall};
use serde_json::{Map, Value};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

/// The calls of one execution, in the order in which they ended.
#[derive(Clone, Debug)]
pub(crate) struct Ledger {
    calls: Arc<Mutex<Vec<ToolCall>>>,
    last_number: Arc<AtomicU64>,
    /// Begin of the execution.
    began: Instant,
}

impl Default for Ledger {
    /// An empty ledger of an execution that begins now.
    fn default() -> Self {
        Self { calls: Arc::default(), last_number: Arc::default(), began: Instant::now() }
    }
}

impl Ledger {
    /// Begins a call, which is recorded when it ends or is dropped.
    pub(crate) fn begin(&self, number: u64, server: &str, tool: &str, bytes_in: u64) -> Line {
        let begun = Instant::now();
        let call = ToolCall {
            server: shortened(server),
            tool: shortened(tool),
            ok: false,
            code: Some("cancelled".to_owned()),
            began_ms: Some(begun.duration_since(self.began).as_millis() as u64),
            ms: 0,
            bytes_in,
            bytes_out: 0,
            start_ms: None,
            replayed: false,
            planned: false,
        };
        let listener = Listener::default();
        Line { ledger: self.clone(), number, begun, call: Some(call), listener, audited: None }
    }

    /// Numbers new calls after those of an earlier attempt.
    pub(crate) fn continue_after(&self, number: u64) {
        self.last_number.fetch_max(number, Ordering::Relaxed);
    }

    /// Number of a new call.
    pub(crate) fn next_number(&self) -> u64 {
        self.last_number.fetch_add(1, Ordering::Relaxed) + 1
    }

    /// Takes all records; the ledger is empty afterwards.
    pub(crate) fn take(&self) -> Vec<ToolCall> {
        std::mem::take(&mut *self.calls.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

/// Maximum length of a recorded name, which comes from hostile code.
const MAX_NAME_CHARS: usize = 200;

fn shortened(name: &str) -> String {
    name.chars().take(MAX_NAME_CHARS).collect()
}

/// A call in progress. If it is dropped without an outcome, it is recorded as cancelled.
#[derive(Debug)]
pub(crate) struct Line {
    ledger: Ledger,
    number: u64,
    begun: Instant,
    call: Option<ToolCall>,
    /// Learns of the end of the call.
    listener: Listener,
    /// Records the end of the call in the audit log.
    audited: Option<CallInProgress>,
}

impl Line {
    /// Number of the call in its execution.
    pub(crate) fn number(&self) -> u64 {
        self.number
    }

    /// Has the end of the call recorded in the audit log.
    pub(crate) fn audit(&mut self, call: CallInProgress) {
        self.audited = Some(call);
    }

    /// Notes what was decided about the call.
    pub(crate) fn reached(&mut self, stage: Stage) {
        if let Some(audited) = &mut self.audited {
            audited.stage = stage;
        }
    }

    /// Reports to the listener that the call begins. It is then told of the end, too.
    pub(crate) async fn announce(&mut self, listener: &Listener, arguments: &Map<String, Value>) {
        let Some(call) = self.call.as_ref().filter(|_| listener.is_present()) else { return };
        let (server, tool) = (call.server.clone(), call.tool.clone());
        let began_ms = call.began_ms.unwrap_or_default();
        let arguments = arguments_preview(arguments);
        listener.tell(Event::CallBegan { number: self.number, server, tool, arguments, began_ms }).await;
        self.listener = listener.clone();
    }

    pub(crate) fn answered(mut self, bytes_out: u64) {
        if let Some(call) = &mut self.call {
            (call.ok, call.code, call.bytes_out) = (true, None, bytes_out);
        }
    }

    /// Records that an earlier attempt made the call.
    pub(crate) fn replayed(&mut self) {
        if let Some(call) = &mut self.call {
            call.replayed = true;
        }
    }

    /// Records that the call is part of a plan, and is not made.
    pub(crate) fn planned(&mut self) {
        if let Some(call) = &mut self.call {
            call.planned = true;
        }
    }

    /// Records that the call had to wait until its server had started.
    pub(crate) fn waited(&mut self, time: Duration) {
        if let Some(call) = &mut self.call {
            call.start_ms = Some(call.start_ms.unwrap_or_default() + time.as_millis() as u64);
        }
    }

    pub(crate) fn failed(mut self, code: &str) {
        if let Some(call) = &mut self.call {
            call.code = Some(code.to_owned());
        }
    }
}

impl Drop for Line {
    fn drop(&mut self) {
        let Some(mut call) = self.call.take() else { return };
        call.ms = self.begun.elapsed().as_millis() as u64;
        let ToolCall { server, tool, ok, code, began_ms: _, ms, bytes_in, bytes_out, start_ms, replayed, planned } =
            &call;
        let code = code.as_deref().unwrap_or_default();
        tracing::info!(%server, %tool, ok, code, ms, bytes_in, bytes_out, start_ms, replayed, planned, "tool call");
        if let Some(audited) = &self.audited {
            audited.ended(&call);
        }
        if self.listener.is_present() {
            self.listener.tell_later(Event::CallEnded { number: self.number, call: call.clone() });
        }
        if call.planned {
            return;
        }
        self.ledger.calls.lock().unwrap_or_else(PoisonError::into_inner).push(call);
    }
}
