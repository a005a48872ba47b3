//! The calls of tools in one execution, as the host observed them.

use coracle_types::ToolCall;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

/// The calls of one execution, in the order in which they ended.
#[derive(Clone, Debug, Default)]
pub(crate) struct Ledger(Arc<Mutex<Vec<ToolCall>>>);

impl Ledger {
    /// Begins a call, which is recorded when it ends or is dropped.
    pub(crate) fn begin(&self, server: &str, tool: &str, bytes_in: u64) -> Line {
        let call = ToolCall {
            server: shortened(server),
            tool: shortened(tool),
            ok: false,
            code: Some("cancelled".to_owned()),
            ms: 0,
            bytes_in,
            bytes_out: 0,
            start_ms: None,
        };
        Line { ledger: self.clone(), begun: Instant::now(), call: Some(call) }
    }

    /// Takes all records; the ledger is empty afterwards.
    pub(crate) fn take(&self) -> Vec<ToolCall> {
        std::mem::take(&mut *self.0.lock().unwrap_or_else(PoisonError::into_inner))
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
    begun: Instant,
    call: Option<ToolCall>,
}

impl Line {
    pub(crate) fn answered(mut self, bytes_out: u64) {
        if let Some(call) = &mut self.call {
            (call.ok, call.code, call.bytes_out) = (true, None, bytes_out);
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
        let ToolCall { server, tool, ok, code, ms, bytes_in, bytes_out, start_ms } = &call;
        let code = code.as_deref().unwrap_or_default();
        tracing::info!(%server, %tool, ok, code, ms, bytes_in, bytes_out, start_ms, "tool call");
        self.ledger.0.lock().unwrap_or_else(PoisonError::into_inner).push(call);
    }
}
