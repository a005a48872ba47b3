//! Output of `bench tokens`: JSON and tables.

use super::agent::Outcome;
use super::discovery::Discovery;
use super::own::Own;
use super::task::Task;
use crate::tables::{align, plain, rounded};
use serde::Serialize;
use std::collections::BTreeMap;
use std::fmt::Write;

/// Thresholds of a heavy task: number of direct calls, and bytes through the context.
const HEAVY_CALLS: usize = 5;
const HEAVY_BYTES: usize = 10 << 10;

/// Results of one run. Parts that were not requested are missing.
#[derive(Clone, Debug, Default, Serialize)]
pub(super) struct Report {
    pub(super) own: Option<Own>,
    pub(super) set: Option<Discovery>,
    tasks: Vec<Row>,
    figures: Option<Figures>,
    /// Reasons for missing results.
    skipped: BTreeMap<String, String>,
}

/// One task, done in three ways.
#[derive(Clone, Debug, Serialize)]
struct Row {
    name: String,
    title: String,
    /// Number of direct calls, and the bytes of their arguments and results.
    calls: usize,
    bytes: usize,
    heavy: bool,
    direct: Cost,
    deferred: Cost,
    code: Cost,
    /// Fraction of the tokens that code saves; negative if it needs more.
    #[serde(serialize_with = "rounded")]
    saved: f64,
    #[serde(serialize_with = "rounded")]
    saved_of_deferred: f64,
    /// Code needs fewer tokens than direct calls as soon as all definitions together have more tokens than this.
    break_even: usize,
    /// Problems of the results.
    faults: BTreeMap<&'static str, String>,
}

/// Cost of one way.
#[derive(Clone, Copy, Debug, Serialize)]
struct Cost {
    #[serde(rename = "in")]
    tokens_in: usize,
    out: usize,
    /// Part of `in`: definitions that are there from the start or come with a search.
    definitions: usize,
    round_trips: usize,
    #[serde(serialize_with = "rounded")]
    ms: f64,
    equal: bool,
}

impl Cost {
    fn of(outcome: &Outcome, task: &Task) -> Self {
        Self {
            tokens_in: outcome.tokens_in(),
            out: outcome.tokens_out(),
            definitions: outcome.definitions(),
            round_trips: outcome.round_trips,
            ms: outcome.ms,
            equal: outcome.fault(task).is_none(),
        }
    }

    fn total(&self) -> usize {
        self.tokens_in + self.out
    }
}

/// Figures of all rows.
#[derive(Clone, Debug, Serialize)]
struct Figures {
    /// Tokens of all definitions, and of those of the profile `code` with its instructions.
    definitions: usize,
    code_definitions: usize,
    /// Number of tasks with the expected result in all three ways.
    equal: usize,
    heavy: Heavy,
    light: Light,
}

/// Heavy tasks: fraction of tokens saved, from the geometric mean of the remaining fractions.
#[derive(Clone, Copy, Debug, Serialize)]
struct Heavy {
    tasks: usize,
    #[serde(serialize_with = "rounded")]
    saved: f64,
    #[serde(serialize_with = "rounded")]
    saved_of_deferred: f64,
    /// The same if definitions for direct calls were free.
    #[serde(serialize_with = "rounded")]
    saved_without_definitions: f64,
}

/// Other tasks: the largest number of additional tokens with code; negative if code always needs fewer.
#[derive(Clone, Debug, Serialize)]
struct Light {
    tasks: usize,
    worst: i64,
    worst_task: String,
    worst_of_deferred: i64,
    worst_of_deferred_task: String,
    /// Code needs fewer tokens in all of them as soon as all definitions together have more tokens than this.
    break_even: usize,
}

impl Row {
    fn of(task: &Task, [direct, deferred, code]: [&Outcome; 3]) -> Self {
        let faults = [("direct", direct), ("deferred", deferred), ("code", code)];
        let faults = faults.into_iter().filter_map(|(way, outcome)| Some((way, outcome.fault(task)?)));
        let (calls, bytes) = (direct.calls, direct.bytes);
        let faults = faults.collect();
        let [direct, deferred, code] = [direct, deferred, code].map(|outcome| Cost::of(outcome, task));
        Self {
            name: task.name.clone(),
            title: task.title.clone(),
            calls,
            bytes,
            heavy: calls >= HEAVY_CALLS || bytes >= HEAVY_BYTES,
            saved: 1.0 - ratio(code.total(), direct.total()),
            saved_of_deferred: 1.0 - ratio(code.total(), deferred.total()),
            break_even: (code.total() + direct.definitions).saturating_sub(direct.total()),
            direct,
            deferred,
            code,
            faults,
        }
    }

    fn is_equal(&self) -> bool {
        self.direct.equal && self.deferred.equal && self.code.equal
    }
}

#[expect(clippy::cast_precision_loss, reason = "counts stay far below 2^52")]
fn ratio(one: usize, other: usize) -> f64 {
    one as f64 / other.max(1) as f64
}

/// Difference; negative if `one` is smaller.
fn more(one: usize, other: usize) -> i64 {
    i64::try_from(one).unwrap_or(i64::MAX) - i64::try_from(other).unwrap_or(i64::MAX)
}

/// Saved fraction; zero without rows.
#[expect(clippy::cast_precision_loss, reason = "counts stay far below 2^52")]
fn saved(rows: &[&Row], left: impl Fn(&Row) -> f64) -> f64 {
    if rows.is_empty() {
        return 0.0;
    }
    let sum: f64 = rows.iter().map(|row| left(row).ln()).sum();
    1.0 - (sum / rows.len() as f64).exp()
}

impl Figures {
    fn of(rows: &[Row]) -> Option<Self> {
        let first = rows.first()?;
        let (heavy, light): (Vec<&Row>, Vec<&Row>) = rows.iter().partition(|row| row.heavy);
        let worst = |than: fn(&Row) -> usize| {
            let over = light.iter().map(|row| (more(row.code.total(), than(row)), row.name.clone()));
            over.max().unwrap_or_default()
        };
        let (over_direct, over_deferred) = (worst(|row| row.direct.total()), worst(|row| row.deferred.total()));
        Some(Self {
            definitions: first.direct.definitions,
            code_definitions: first.code.definitions,
            equal: rows.iter().filter(|row| row.is_equal()).count(),
            heavy: Heavy {
                tasks: heavy.len(),
                saved: saved(&heavy, |row| ratio(row.code.total(), row.direct.total())),
                saved_of_deferred: saved(&heavy, |row| ratio(row.code.total(), row.deferred.total())),
                saved_without_definitions: saved(&heavy, |row| {
                    ratio(row.code.total(), row.direct.total() - row.direct.definitions)
                }),
            },
            light: Light {
                tasks: light.len(),
                worst: over_direct.0,
                worst_task: over_direct.1,
                worst_of_deferred: over_deferred.0,
                worst_of_deferred_task: over_deferred.1,
                break_even: light.iter().map(|row| row.break_even).max().unwrap_or_default(),
            },
        })
    }
}

impl Report {
    pub(super) fn skip(&mut self, name: &str, reason: &str) {
        self.skipped.insert(name.to_owned(), reason.to_owned());
    }

    /// Adds the outcomes of all tasks, for each way.
    pub(super) fn take_in(&mut self, tasks: &[Task], ways: &[Vec<Outcome>]) {
        if let [direct, deferred, code] = ways {
            let outcomes = direct.iter().zip(deferred).zip(code);
            let rows = tasks.iter().zip(outcomes);
            self.tasks =
                rows.map(|(task, ((direct, deferred), code))| Row::of(task, [direct, deferred, code])).collect();
        }
        self.figures = Figures::of(&self.tasks);
    }

    /// Whether all tasks had the expected result.
    pub(super) fn is_equal(&self) -> bool {
        self.tasks.iter().all(Row::is_equal)
    }

    pub(super) fn render(&self) -> String {
        let mut text = String::new();
        if let Some(own) = &self.own {
            own_servers(&mut text, own);
        }
        if let Some(found) = &self.set {
            let _ = writeln!(text, "set: {}\n", sentence(found));
        }
        if let Some(figures) = &self.figures {
            let _ = writeln!(text, "{}\n", self.table());
            sums(&mut text, figures, self.tasks.len());
        }
        for row in &self.tasks {
            for (way, fault) in &row.faults {
                let _ = writeln!(text, "not equal: {} ({way}): {fault}", row.name);
            }
        }
        for (name, reason) in &self.skipped {
            let _ = writeln!(text, "skipped {name}: {reason}");
        }
        text.push_str(if self.figures.is_some() { HOW } else { "" });
        text
    }

    fn table(&self) -> comfy_table::Table {
        let header = [
            "task",
            "calls",
            "KB",
            "direct in + out",
            "deferred in + out",
            "code in + out",
            "round trips",
            "ms",
            "equal",
            "saved",
            "of deferred",
            "pays from",
        ];
        let mut table = plain(header);
        for row in &self.tasks {
            let ways = [row.direct, row.deferred, row.code];
            let tokens = |cost: Cost| format!("{} + {}", cost.tokens_in, cost.out);
            let joined = |part: fn(Cost) -> String| ways.map(part).join(" / ");
            table.add_row([
                row.name.clone(),
                row.calls.to_string(),
                format!("{:.1}", ratio(row.bytes, 1 << 10)),
                tokens(row.direct),
                tokens(row.deferred),
                tokens(row.code),
                joined(|cost| cost.round_trips.to_string()),
                joined(|cost| format!("{:.0}", cost.ms)),
                if row.is_equal() { "yes" } else { "NO" }.to_owned(),
                percent(row.saved),
                percent(row.saved_of_deferred),
                row.break_even.to_string(),
            ]);
        }
        align(&mut table, 1..=11);
        table
    }
}

fn percent(part: f64) -> String {
    format!("{:.1} %", part * 100.0)
}

fn sentence(found: &Discovery) -> String {
    format!(
        "a complete discovery (search, one definition, one import) among {} tools: {} tokens at the median, {} at p90, {} at \
         most, of {} searches; all definitions: {} tokens",
        found.tools, found.median, found.p90, found.most, found.searches, found.definitions
    )
}

fn own_servers(text: &mut String, own: &Own) {
    let mut table = plain(["your servers", "tools", "tokens of definitions"]);
    for server in &own.servers {
        table.add_row([server.server.clone(), server.tools.to_string(), server.tokens.to_string()]);
    }
    table.add_row(["all".to_owned(), own.tools.to_string(), own.tokens.to_string()]);
    table.add_row(["profile code".to_owned(), "3".to_owned(), own.code_tokens.to_string()]);
    align(&mut table, 1..=2);
    let _ = writeln!(text, "{table}\n");
    if let Some(found) = &own.discovery {
        let _ = writeln!(text, "{}\n", sentence(found));
    }
    for server in &own.missing {
        let _ = writeln!(text, "not counted: the tools of {server} are not known");
    }
}

fn sums(text: &mut String, figures: &Figures, tasks: usize) {
    let Figures { heavy, light, .. } = figures;
    let _ = writeln!(
        text,
        "definitions: {} tokens of all servers, {} of the profile code",
        figures.definitions, figures.code_definitions
    );
    let _ = writeln!(text, "equal: {} of {tasks} tasks had the same correct result in all three ways", figures.equal);
    if heavy.tasks > 0 {
        let _ = writeln!(
            text,
            "heavy ({} tasks of {HEAVY_CALLS} or more calls or {} KB or more): code saves {} of direct, {} of deferred, {} \
             of direct if its definitions cost nothing (geometric means)",
            heavy.tasks,
            HEAVY_BYTES >> 10,
            percent(heavy.saved),
            percent(heavy.saved_of_deferred),
            percent(heavy.saved_without_definitions)
        );
    }
    if light.tasks > 0 {
        let _ = writeln!(
            text,
            "light (the other {}): at worst code takes {:+} tokens against direct ({}) and {:+} against deferred ({}); it is \
             cheaper than direct in all of them from {} tokens of definitions on",
            light.tasks,
            light.worst,
            light.worst_task,
            light.worst_of_deferred,
            light.worst_of_deferred_task,
            light.break_even
        );
    }
}

const HOW: &str = "\
Tokens of o200k, each counted once: in is what enters the context (question, definitions as name, description and input\n\
schema, answers of tools), out is what the model writes (calls, code, answer). A conversation is really sent again at each\n\
round trip, which is not counted. direct: all definitions, every result. deferred: one search tool, what it finds, the\n\
definitions of what is used, every result. code: three tools, search, definitions, programs with their looks and mistakes.\n\
Round trips and ms (without the model) in the same order. pays from: with more tokens of definitions than this, code is\n\
cheaper than direct.\n";

#[cfg(test)]
mod tests {
    use super::{Cost, Figures, Row};
    use std::collections::BTreeMap;

    fn cost(tokens_in: usize, out: usize, definitions: usize) -> Cost {
        Cost { tokens_in, out, definitions, round_trips: 1, ms: 1.0, equal: true }
    }

    fn row(name: &str, heavy: bool, direct: Cost, deferred: Cost, code: Cost) -> Row {
        Row {
            name: name.to_owned(),
            title: String::new(),
            calls: 1,
            bytes: 1,
            heavy,
            direct,
            deferred,
            code,
            saved: 0.0,
            saved_of_deferred: 0.0,
            break_even: 7,
            faults: BTreeMap::new(),
        }
    }

    #[test]
    fn figures_are_geometric_means_and_worst_cases() {
        let rows = [
            row("a", true, cost(900, 100, 500), cost(400, 100, 50), cost(90, 10, 40)),
            row("b", true, cost(90_000, 10_000, 500), cost(400, 100, 50), cost(90, 10, 40)),
            row("c", false, cost(900, 100, 500), cost(90, 10, 50), cost(280, 20, 40)),
        ];
        let figures = Figures::of(&rows).unwrap();
        // The geometric mean of 1/10 and 1/1000 is 1/100.
        assert!((figures.heavy.saved - 0.99).abs() < 1e-9, "{figures:?}");
        assert!((figures.heavy.saved_of_deferred - 0.8).abs() < 1e-9, "{figures:?}");
        assert_eq!((figures.light.worst, figures.light.worst_of_deferred), (-700, 200));
        assert_eq!((figures.equal, figures.light.break_even), (3, 7));
        assert!(Figures::of(&[]).is_none());
    }
}
