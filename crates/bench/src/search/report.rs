//! Output of `bench search`: JSON and a table.

use crate::tables::{align, plain, rounded};
use crate::timing::{milliseconds, quantile};
use serde::Serialize;
use std::fmt::Write as _;
use std::time::Duration;

/// Ranks at which recall is measured.
const CUTS: [usize; 3] = [1, 5, 10];

#[derive(Debug, Default, Serialize)]
pub(super) struct Report {
    pub(super) rows: Vec<Row>,
}

/// Results of one catalog.
#[derive(Debug, Serialize)]
pub(super) struct Row {
    name: String,
    tools: usize,
    queries: usize,
    /// Times for reading the definitions, and until search by words and by meaning is ready.
    #[serde(serialize_with = "rounded")]
    listed_ms: f64,
    #[serde(serialize_with = "rounded")]
    ready_ms: f64,
    #[serde(serialize_with = "rounded")]
    whole_ms: f64,
    #[serde(serialize_with = "rounded")]
    index_mib: f64,
    #[serde(serialize_with = "rounded")]
    p50_ms: f64,
    #[serde(serialize_with = "rounded")]
    p99_ms: f64,
    /// Recall among the first 1, 5 and 10 results, and the mean reciprocal rank.
    recall: [f64; 3],
    mrr: f64,
    #[serde(skip)]
    times: Vec<f64>,
}

impl Row {
    pub(super) fn new(name: String, tools: usize, queries: usize, times: [Duration; 3], index_bytes: u64) -> Self {
        let [listed_ms, ready_ms, whole_ms] = times.map(milliseconds);
        #[expect(clippy::cast_precision_loss, reason = "no machine has 2^52 bytes")]
        let index_mib = index_bytes as f64 / f64::from(1 << 20);
        Self {
            name,
            tools,
            queries,
            listed_ms,
            ready_ms,
            whole_ms,
            index_mib,
            p50_ms: 0.0,
            p99_ms: 0.0,
            recall: [0.0; 3],
            mrr: 0.0,
            times: Vec::new(),
        }
    }

    pub(super) fn took(&mut self, time: Duration) {
        self.times.push(milliseconds(time));
    }

    /// Records the results of a query, best first, and the expected ones.
    #[expect(clippy::cast_precision_loss, reason = "places and counts are small")]
    pub(super) fn found(&mut self, found: &[&str], relevant: &[String]) {
        let places: Vec<usize> = relevant.iter().filter_map(|id| found.iter().position(|found| found == id)).collect();
        for (recall, cut) in self.recall.iter_mut().zip(CUTS) {
            let right = places.iter().filter(|place| **place < cut).count();
            *recall += right as f64 / relevant.len().max(1) as f64;
        }
        self.mrr += places.iter().min().map_or(0.0, |place| 1.0 / (place + 1) as f64);
    }

    #[expect(clippy::cast_precision_loss, reason = "counts are small")]
    pub(super) fn conclude(&mut self) {
        let count = self.queries.max(1) as f64;
        self.recall = self.recall.map(|sum| sum / count);
        self.mrr /= count;
        self.p50_ms = quantile(&mut self.times, 0.5);
        self.p99_ms = quantile(&mut self.times, 0.99);
    }
}

impl Report {
    pub(super) fn render(&self) -> String {
        let headings =
            ["catalog", "tools", "queries", "read ms", "words ms", "meanings ms", "index MiB", "p50 ms", "p99 ms"];
        let mut table = plain(headings);
        for row in &self.rows {
            let whole = |value: f64| format!("{value:.0}");
            let cells = [
                row.name.clone(),
                row.tools.to_string(),
                row.queries.to_string(),
                whole(row.listed_ms),
                whole(row.ready_ms),
                whole(row.whole_ms),
                format!("{:.1}", row.index_mib),
                format!("{:.3}", row.p50_ms),
                format!("{:.3}", row.p99_ms),
            ];
            table.add_row(cells);
        }
        align(&mut table, 1..=8);
        let mut text = format!("{table}\n\n{HOW}\n");
        for row in &self.rows {
            let [one, five, ten] = row.recall;
            let _ = writeln!(
                text,
                "{}\nrecall@1 {one:.3}  recall@5 {five:.3}  recall@10 {ten:.3}  MRR {:.3}  ({} queries, {} tools)",
                row.name, row.mrr, row.queries, row.tools
            );
        }
        text
    }
}

const HOW: &str = "\
Words: time from the definitions to an index for search by words. Meanings: time until search by meaning is ready too.\n\
The size of the index is the growth of the process. Queries run one after another, for 50 tools each.\n";
