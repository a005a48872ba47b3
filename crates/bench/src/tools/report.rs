//! Output of `bench tools`: JSON and a table.

use super::plan::{
    AT_ONCE, DIRECT, DIRECT_32, HOST, IN_PROCESS, MCP_FIRST, MCP_FIRST_50, MCP_HTTP, MCP_HTTP_HASTY, MCP_STDIO,
    MCP_STDIO_HASTY, NAP, NAP_32, PLAIN_HTTP, PLAIN_HTTP_HASTY, PLAIN_STDIO, PLAIN_STDIO_HASTY, PRIVATE, Plan,
    SESSION_HTTP, SESSION_HTTP_HASTY, Times,
};
use crate::tables::{align, plain, rounded};
use crate::timing::{median, quantile};
use serde::Serialize;
use std::collections::BTreeMap;
use std::fmt::Write;

/// Results of one run.
#[derive(Clone, Debug, Default, Serialize)]
pub(super) struct Report {
    pub(super) rows: Vec<Row>,
    /// Figures derived from the rows that are available.
    pub(super) figures: Figures,
    /// Reasons for missing results.
    pub(super) skipped: BTreeMap<String, String>,
}

/// Times of calls.
#[derive(Clone, Debug, Serialize)]
pub(super) struct Row {
    pub(super) name: &'static str,
    pub(super) at_once: usize,
    /// Durations of single calls for the caller; `None` if only all calls together can be measured.
    pub(super) p50_us: Option<f64>,
    pub(super) p99_us: Option<f64>,
    /// Total time divided by the number of calls; the median of the rounds.
    #[serde(serialize_with = "rounded")]
    pub(super) per_call_us: f64,
    pub(super) calls: usize,
    /// Description for the table.
    #[serde(skip)]
    how: &'static str,
}

impl Row {
    pub(super) fn new(plan: &Plan, calls: usize, rounds: &[Times]) -> Self {
        let mut each: Vec<f64> = rounds.iter().flat_map(|times| times.each.iter().copied()).collect();
        let mut totals: Vec<f64> = rounds.iter().map(|times| times.total).collect();
        let mut part = |part| (!each.is_empty()).then(|| (quantile(&mut each, part) * 10.0).round() / 10.0);
        #[expect(clippy::cast_precision_loss, reason = "counts stay far below 2^52")]
        let per_call_us = median(&mut totals) / calls as f64;
        Self {
            name: plan.name,
            at_once: plan.at_once,
            p50_us: part(0.5),
            p99_us: part(0.99),
            per_call_us,
            calls: calls * rounds.len(),
            how: plan.how,
        }
    }
}

/// Figures derived from the rows.
#[derive(Clone, Debug, Default, Serialize)]
pub(super) struct Figures {
    /// Median time from code in the sandbox to a no-op tool and back.
    pub(super) round_trip_us: Option<f64>,
    /// Part of it that the broker adds to a call that the host answers directly: the difference of two medians.
    pub(super) in_broker_us: Option<f64>,
    /// Time per call relative to the Python client.
    pub(super) of_direct: BTreeMap<&'static str, f64>,
    /// Speed-up of 32 concurrent naps over sequential ones.
    pub(super) at_once_faster: Option<f64>,
    /// Time that `execute_code` of `pass` takes longer than a no-op tool, with the same client: the difference of two
    /// medians.
    pub(super) over_stdio_ms: Option<f64>,
    pub(super) over_http_ms: Option<f64>,
    /// The same without a pause between calls.
    pub(super) hasty_over_stdio_ms: Option<f64>,
    pub(super) hasty_over_http_ms: Option<f64>,
    /// Time of a call in a live session relative to one without a session, by medians.
    pub(super) session_of_fresh: Option<f64>,
    pub(super) hasty_session_of_fresh: Option<f64>,
    /// Median time of the first call to a server that was just started and has listed its tools.
    pub(super) first_ms: Option<f64>,
    pub(super) first_with_servers_ms: Option<f64>,
    /// Median time in a privacy mode relative to the same without one.
    pub(super) private_of_off: BTreeMap<&'static str, f64>,
}

impl Report {
    /// Computes the figures. Must be called when all rows are available.
    pub(super) fn conclude(&mut self) {
        let per_call = |name| self.row(name).map(|row| row.per_call_us);
        let p50 = |name| self.row(name).and_then(|row| row.p50_us);
        let ratio = |one: Option<f64>, other: Option<f64>| Some((one? / other? * 100.0).round() / 100.0);
        let more = |one: Option<f64>, other: Option<f64>| Some(((one? - other?) / 10.0).round() / 100.0);
        let of_direct = self.rows.iter().filter(|row| row.name.starts_with("stdio")).filter_map(|row| {
            let direct = if row.at_once == 1 { DIRECT } else { DIRECT_32 };
            Some((row.name, ratio(Some(row.per_call_us), per_call(direct))?))
        });
        self.figures = Figures {
            round_trip_us: p50(IN_PROCESS),
            in_broker_us: p50(IN_PROCESS).zip(p50(HOST)).map(|(all, way)| ((all - way) * 10.0).round() / 10.0),
            of_direct: of_direct.collect(),
            at_once_faster: ratio(per_call(NAP), per_call(NAP_32)),
            over_stdio_ms: more(p50(MCP_STDIO), p50(PLAIN_STDIO)),
            over_http_ms: more(p50(MCP_HTTP), p50(PLAIN_HTTP)),
            hasty_over_stdio_ms: more(p50(MCP_STDIO_HASTY), p50(PLAIN_STDIO_HASTY)),
            hasty_over_http_ms: more(p50(MCP_HTTP_HASTY), p50(PLAIN_HTTP_HASTY)),
            session_of_fresh: ratio(p50(SESSION_HTTP), p50(MCP_HTTP)),
            hasty_session_of_fresh: ratio(p50(SESSION_HTTP_HASTY), p50(MCP_HTTP_HASTY)),
            first_ms: more(p50(MCP_FIRST), Some(0.0)),
            first_with_servers_ms: more(p50(MCP_FIRST_50), Some(0.0)),
            private_of_off: PRIVATE
                .into_iter()
                .filter_map(|(private, off)| Some((private, ratio(p50(private), p50(off))?)))
                .collect(),
        };
    }

    fn row(&self, name: &str) -> Option<&Row> {
        self.rows.iter().find(|row| row.name == name)
    }

    pub(super) fn render(&self) -> String {
        let mut table = plain(["calls of tools", "at once", "p50 µs", "p99 µs", "µs/call", "× direct", "calls", ""]);
        let shown = |value: Option<f64>| value.map_or("–".to_owned(), |value| format!("{value:.0}"));
        for row in &self.rows {
            let ratio = self.figures.of_direct.get(row.name).map_or("–".to_owned(), |ratio| format!("{ratio:.2}"));
            let per_call = shown(Some(row.per_call_us));
            let (at_once, calls) = (row.at_once.to_string(), row.calls.to_string());
            let cells =
                [row.name, &at_once, &shown(row.p50_us), &shown(row.p99_us), &per_call, &ratio, &calls, row.how];
            table.add_row(cells);
        }
        align(&mut table, 1..=6);
        let mut text = format!("{table}\n\n");
        if let (Some(all), Some(part)) = (self.figures.round_trip_us, self.figures.in_broker_us) {
            let _ = writeln!(
                text,
                "broker: {all:.0} µs from the code to a no-op tool and back, {part:.0} µs of it in the broker"
            );
        }
        if let Some(times) = self.figures.at_once_faster {
            let _ = writeln!(text, "naps: {AT_ONCE} in parallel are {times:.1} × faster than one after another");
        }
        if let (Some(stdio), Some(http)) = (self.figures.over_stdio_ms, self.figures.over_http_ms) {
            let _ = writeln!(
                text,
                "clients: execute_code of `pass` takes {stdio:.2} ms longer than a no-op tool over stdio, \
                 {http:.2} ms over HTTP"
            );
        }
        if let (Some(stdio), Some(http)) = (self.figures.hasty_over_stdio_ms, self.figures.hasty_over_http_ms) {
            let _ = writeln!(text, "without a pause between calls: {stdio:.2} ms over stdio, {http:.2} ms over HTTP");
        }
        if let (Some(rested), Some(hasty)) = (self.figures.session_of_fresh, self.figures.hasty_session_of_fresh) {
            let _ = writeln!(
                text,
                "sessions: a call in a live session takes {rested:.2} × the time of one without, {hasty:.2} × without a pause"
            );
        }
        if let (Some(alone), Some(many)) = (self.figures.first_ms, self.figures.first_with_servers_ms) {
            let _ = writeln!(
                text,
                "first call: {alone:.1} ms after the tools of a server that was just started are listed, {many:.1} ms with \
                 50 servers in its settings"
            );
        }
        for (private, off) in PRIVATE {
            if let Some(times) = self.figures.private_of_off.get(private) {
                let _ = writeln!(text, "privacy: {private} takes {times:.2} × the time of {off}");
            }
        }
        for (name, reason) in &self.skipped {
            let _ = writeln!(text, "skipped {name}: {reason}");
        }
        text + HOW
    }
}

const HOW: &str = "\
Rows take turns in rounds. p50 and p99 are single calls, as measured by the calling code. µs/call is the time of all\n\
calls of a round divided by their number (median of the rounds). × direct compares µs/call with the Python client at the\n\
same concurrency. The time in the broker is the difference between the medians of in_process and host. Rows of clients\n\
pause for 10 ms before each call, except the hasty ones.\n";
