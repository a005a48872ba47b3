//! What `bench tools` prints: the JSON of `--json`, and a table.

use super::plan::{
    AT_ONCE, DIRECT, DIRECT_32, HOST, IN_PROCESS, MCP_FIRST, MCP_FIRST_50, MCP_HTTP, MCP_HTTP_HASTY, MCP_STDIO,
    MCP_STDIO_HASTY, NAP, NAP_32, PLAIN_HTTP, PLAIN_HTTP_HASTY, PLAIN_STDIO, PLAIN_STDIO_HASTY, Plan, SESSION_HTTP,
    SESSION_HTTP_HASTY, Times,
};
use crate::bench::report::{align, plain, rounded};
use crate::timing::{median, quantile};
use serde::Serialize;
use std::collections::BTreeMap;
use std::fmt::Write;

/// All numbers of one run.
#[derive(Clone, Debug, Default, Serialize)]
pub(super) struct Report {
    pub(super) rows: Vec<Row>,
    /// What follows from them, as far as they are there.
    pub(super) figures: Figures,
    /// Why something is missing.
    pub(super) skipped: BTreeMap<String, String>,
}

/// Calls, over and over.
#[derive(Clone, Debug, Serialize)]
pub(super) struct Row {
    pub(super) name: &'static str,
    pub(super) at_once: usize,
    /// Of single calls, as the caller sees them; nothing where only all of them together could be timed.
    pub(super) p50_us: Option<f64>,
    pub(super) p99_us: Option<f64>,
    /// The time of all calls, divided by their number; the median of the rounds.
    #[serde(serialize_with = "rounded")]
    pub(super) per_call_us: f64,
    pub(super) calls: usize,
    /// For people.
    #[serde(skip)]
    how: &'static str,
}

impl Row {
    pub(super) fn new(plan: &Plan, calls: usize, rounds: &[Times]) -> Self {
        let mut each: Vec<f64> = rounds.iter().flat_map(|times| times.each.iter().copied()).collect();
        let mut totals: Vec<f64> = rounds.iter().map(|times| times.total).collect();
        let mut part = |part| (!each.is_empty()).then(|| (quantile(&mut each, part) * 10.0).round() / 10.0);
        #[expect(clippy::cast_precision_loss, reason = "nobody makes 2^52 calls")]
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

/// What the rows are there to tell.
#[derive(Clone, Debug, Default, Serialize)]
pub(super) struct Figures {
    /// From the code in the sandbox to a tool that does nothing and back: the median.
    pub(super) round_trip_us: Option<f64>,
    /// What of it the broker adds to a call that the host answers at once: the difference of two medians.
    pub(super) in_broker_us: Option<f64>,
    /// How many times the time of the Python client a row takes, by time per call.
    pub(super) of_direct: BTreeMap<&'static str, f64>,
    /// How many times faster 32 naps at once are than one after the other.
    pub(super) at_once_faster: Option<f64>,
    /// What `execute_code` of `pass` takes longer than nothing, by the same client: the difference of two medians.
    pub(super) over_stdio_ms: Option<f64>,
    pub(super) over_http_ms: Option<f64>,
    /// The same where each call follows at once on the one before.
    pub(super) hasty_over_stdio_ms: Option<f64>,
    pub(super) hasty_over_http_ms: Option<f64>,
    /// How many times the time of a call without a session one in a live session takes, by the medians.
    pub(super) session_of_fresh: Option<f64>,
    pub(super) hasty_session_of_fresh: Option<f64>,
    /// The first call to a server that was just started and has listed its tools: the median.
    pub(super) first_ms: Option<f64>,
    pub(super) first_with_servers_ms: Option<f64>,
}

impl Report {
    /// To be called when all rows are there.
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
            let _ = writeln!(text, "naps: {AT_ONCE} at once are {times:.1} × faster than one after the other");
        }
        if let (Some(stdio), Some(http)) = (self.figures.over_stdio_ms, self.figures.over_http_ms) {
            let _ = writeln!(
                text,
                "clients: execute_code of `pass` takes {stdio:.2} ms more than a tool that does nothing over stdio, \
                 {http:.2} ms over HTTP"
            );
        }
        if let (Some(stdio), Some(http)) = (self.figures.hasty_over_stdio_ms, self.figures.hasty_over_http_ms) {
            let _ =
                writeln!(text, "without a rest between the calls: {stdio:.2} ms over stdio, {http:.2} ms over HTTP");
        }
        if let (Some(rested), Some(hasty)) = (self.figures.session_of_fresh, self.figures.hasty_session_of_fresh) {
            let _ = writeln!(
                text,
                "sessions: a call in a live session takes {rested:.2} × the time of one without, {hasty:.2} × without a rest"
            );
        }
        if let (Some(alone), Some(many)) = (self.figures.first_ms, self.figures.first_with_servers_ms) {
            let _ = writeln!(
                text,
                "first call: {alone:.1} ms after the tools of a server that was just started are listed, {many:.1} ms with \
                 50 servers in its settings"
            );
        }
        for (name, reason) in &self.skipped {
            let _ = writeln!(text, "skipped {name}: {reason}");
        }
        text + HOW
    }
}

const HOW: &str = "\
Rows take turns in rounds. p50 and p99 are single calls as the calling code sees them, µs/call is the time of all calls\n\
of a round divided by their number: the median of the rounds. × direct compares µs/call with the Python client's, with\n\
as many calls at once. In the broker is the difference of the medians of in_process and host. Before each call of the\n\
rows of clients nobody calls for 10 ms, unless they are hasty.\n";
