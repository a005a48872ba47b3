//! Output of `bench sandbox`: JSON and tables.

use crate::tables::{align, plain, rounded, thousandths};
use comfy_table::Table;
use serde::{Serialize, Serializer};
use std::collections::BTreeMap;
use std::fmt::Write;

/// Results of one run. Parts that were not requested are empty.
#[derive(Clone, Debug, Default, Serialize)]
pub(super) struct Report {
    pub(super) rows: Vec<Row>,
    /// Executions per second by concurrency, including refilling the pool.
    #[serde(serialize_with = "rounded_values")]
    pub(super) per_second: BTreeMap<usize, f64>,
    /// Runs per second of the floor by concurrency.
    #[serde(serialize_with = "rounded_values")]
    pub(super) floor_per_second: BTreeMap<usize, f64>,
    /// MiB per sandbox: `prepared_N` for N prepared sandboxes, `session_N` for N live sessions.
    #[serde(serialize_with = "rounded_values")]
    pub(super) pss_mib: BTreeMap<String, f64>,
    /// Reasons for missing results.
    pub(super) skipped: BTreeMap<String, String>,
}

/// Times of running `pass`.
#[derive(Clone, Debug, Serialize)]
pub(super) struct Row {
    pub(super) name: String,
    #[serde(serialize_with = "rounded")]
    pub(super) p50_ms: f64,
    #[serde(serialize_with = "rounded")]
    pub(super) p99_ms: f64,
    pub(super) runs: usize,
    /// Description for the table.
    #[serde(skip)]
    pub(super) how: String,
}

fn rounded_values<K: Serialize, S: Serializer>(values: &BTreeMap<K, f64>, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.collect_map(values.iter().map(|(key, value)| (key, thousandths(*value))))
}

impl Report {
    pub(super) fn skip(&mut self, name: &str, reason: &anyhow::Error) {
        self.skipped.insert(name.to_owned(), format!("{reason:#}"));
    }

    fn floor(&self) -> Option<f64> {
        self.rows.iter().find(|row| row.name == "floor").map(|row| row.p50_ms)
    }

    pub(super) fn render(&self) -> String {
        let mut text = String::new();
        if !self.rows.is_empty() {
            let _ = writeln!(text, "{}\n", self.starts());
        }
        if !self.per_second.is_empty() {
            let _ = writeln!(text, "{}\n", self.rates());
        }
        if !self.pss_mib.is_empty() {
            let _ = writeln!(text, "{}\n", self.memory());
        }
        for (name, reason) in &self.skipped {
            let _ = writeln!(text, "skipped {name}: {reason}");
        }
        text.push_str(if self.rows.is_empty() { "" } else { HOW_STARTS });
        text.push_str(if self.per_second.is_empty() { "" } else { HOW_RATES });
        text.push_str(if self.pss_mib.is_empty() { "" } else { HOW_MEMORY });
        text
    }

    fn starts(&self) -> Table {
        let mut table = plain(["start of `pass`", "p50 ms", "p99 ms", "× floor", "runs", ""]);
        for row in &self.rows {
            let ratio = self.floor().map_or("–".to_owned(), |floor| format!("{:.2}", row.p50_ms / floor));
            let (p50, p99) = (format!("{:.2}", row.p50_ms), format!("{:.2}", row.p99_ms));
            table.add_row([row.name.clone(), p50, p99, ratio, row.runs.to_string(), row.how.clone()]);
        }
        align(&mut table, 1..=4);
        table
    }

    fn rates(&self) -> Table {
        let mut table = plain(["at once", "executions/s", "floor/s"]);
        for (at_once, rate) in &self.per_second {
            let floor = self.floor_per_second.get(at_once).map_or(String::new(), |rate| format!("{rate:.0}"));
            table.add_row([at_once.to_string(), format!("{rate:.0}"), floor]);
        }
        align(&mut table, 0..=2);
        table
    }

    fn memory(&self) -> Table {
        let mut table = plain(["memory", "MiB each"]);
        for (name, mib) in &self.pss_mib {
            table.add_row([name.clone(), format!("{mib:.2}")]);
        }
        align(&mut table, 1..=1);
        table
    }
}

const HOW_STARTS: &str = "\
Starts: rows take turns in blocks, and are timed from request to response. Before each run in a new sandbox, the pool is\n\
full again and the machine has been idle for 5 ms. The session and the floor continue as soon as the previous run has\n\
been cleaned up, which is not timed. Programs are timed from start to end.\n";
const HOW_RATES: &str = "\
Executions per second: counted after the prepared sandboxes are used up, so creating sandboxes is included; medians of\n\
the rounds.\n";
const HOW_MEMORY: &str = "\
Memory: PSS of the launcher, the zygote and all processes below, divided by the number of sandboxes, without the server's\n\
own process and the kernel's memory for namespaces and mounts. Each session has run a small program.\n";
