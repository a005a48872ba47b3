//! Metrics for operators.

use coracle_types::{Execution, ToolCall};
use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::encoding::text::encode;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::Histogram;
use prometheus_client::registry::Registry;
use std::fmt;

#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
struct Ended {
    language: String,
    outcome: String,
}

#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
struct Called {
    server: String,
    outcome: String,
}

/// Bucket limits in seconds, from the fastest sandbox to the longest default time limit.
const BUCKETS: [f64; 12] = [0.001, 0.002, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 1.0, 5.0, 30.0, 120.0];

pub(crate) struct Metrics {
    registry: Registry,
    executions: Family<Ended, Counter>,
    seconds: Histogram,
    calls: Family<Called, Counter>,
    under_way: Gauge,
    sessions: Gauge,
    limited: Counter,
}

impl Default for Metrics {
    fn default() -> Self {
        let mut registry = Registry::with_prefix("coracle");
        let executions = Family::default();
        let seconds = Histogram::new(BUCKETS);
        let (calls, under_way, sessions) = (Family::default(), Gauge::default(), Gauge::default());
        registry.register("executions", "Executions that have ended", executions.clone());
        registry.register("execution_seconds", "Duration of executions", seconds.clone());
        registry.register("tool_calls", "Tool calls to MCP servers", calls.clone());
        registry.register("executions_under_way", "Running executions", under_way.clone());
        registry.register("live_sessions", "Live session interpreters", sessions.clone());
        let limited = Counter::default();
        registry.register("requests_limited", "Requests refused by the rate limit", limited.clone());
        Self { registry, executions, seconds, calls, under_way, sessions, limited }
    }
}

impl Metrics {
    /// Counts one more running execution until the guard is dropped.
    pub(crate) fn begin(&self) -> UnderWay {
        self.under_way.inc();
        UnderWay(self.under_way.clone())
    }

    /// Counts a request that the rate limit refused.
    pub(crate) fn limited(&self) {
        self.limited.inc();
    }

    pub(crate) fn under_way(&self) -> i64 {
        self.under_way.get()
    }

    pub(crate) fn ended(&self, execution: &Execution) {
        let outcome = match &execution.failure {
            None => "success".to_owned(),
            Some(failure) => failure.error_code.to_string(),
        };
        self.executions.get_or_create(&Ended { language: execution.language.to_string(), outcome }).inc();
        self.seconds.observe(execution.execution_time_ms / 1e3);
        for call in &execution.calls {
            self.called(call);
        }
    }

    fn called(&self, call: &ToolCall) {
        let outcome = if call.ok { "ok" } else { "error" };
        // The name of an unknown server comes from hostile code and must not become a label.
        let is_known = call.code.as_deref() != Some("unknown_server");
        let server = if is_known { call.server.clone() } else { String::new() };
        self.calls.get_or_create(&Called { server, outcome: outcome.to_owned() }).inc();
    }

    /// Counts a call that the gateway forwarded.
    pub(crate) fn passed_on(&self, server: &str, ok: bool) {
        let outcome = if ok { "ok" } else { "error" };
        self.calls.get_or_create(&Called { server: server.to_owned(), outcome: outcome.to_owned() }).inc();
    }

    pub(crate) fn text(&self, sessions: usize) -> String {
        self.sessions.set(i64::try_from(sessions).unwrap_or(i64::MAX));
        let mut text = String::new();
        // Writing to a string cannot fail.
        let _ = encode(&mut text, &self.registry);
        text
    }
}

impl fmt::Debug for Metrics {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Metrics").finish_non_exhaustive()
    }
}

/// Guard of a running execution.
#[derive(Debug)]
pub(crate) struct UnderWay(Gauge);

impl Drop for UnderWay {
    fn drop(&mut self) {
        self.0.dec();
    }
}
