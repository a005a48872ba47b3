//! Table of start times: all rows run `pass` in turns, except two that run `import pandas`.

use super::containers::{Calls, Containers};
use super::coracle::{Bench, POOL, Server};
use super::floor::Floor;
use super::report::{Report, Row};
use super::{Scale, Wanted};
use crate::peers::{self, Peer};
use crate::program::Program;
use crate::timing;
use coracle_types::SessionId;
use indicatif::ProgressBar;

/// Row while it is measured.
struct Entry {
    name: &'static str,
    how: String,
    subject: Subject,
    /// Total number of runs.
    runs: usize,
    times: Vec<f64>,
}

enum Subject {
    Sandbox(Server),
    Session(Server, SessionId),
    /// Runs `import pandas`.
    Import(Server),
    Floor(Box<Floor>),
    Containers(Containers),
    Program(Program),
    Peer(Peer),
}

const PASS: &str = "pass";
const IMPORT: &str = "import pandas";

/// Number of prepared sandboxes of a server whose sandboxes import something.
const IMPORT_POOL: usize = 2;

/// Runs that do not count, because files and caches are cold.
const WARMING: usize = 3;

/// Rows whose runs take a tenth of a second or more, with the divisor for their number of runs.
const SLOW: [(&str, usize); 6] = [
    ("docker_first", 10),
    ("docker_run", 10),
    ("podman_run", 10),
    ("runsc", 10),
    ("docker_exec", 4),
    ("import_pandas", 10),
];
const FEWEST: usize = 5;

const PEERS: [&str; 5] = ["bwrap", "docker_run", "docker_exec", "podman_run", "runsc"];

impl Subject {
    async fn time(&mut self, runs: usize) -> anyhow::Result<Vec<f64>> {
        if let Self::Floor(floor) = self {
            return floor.time(runs).await;
        }
        let mut times = Vec::with_capacity(runs);
        for _ in 0..runs {
            times.push(match self {
                Self::Sandbox(server) => server.time(None, PASS).await?,
                Self::Session(server, session) => server.time(Some(session), PASS).await?,
                Self::Import(server) => server.time(None, IMPORT).await?,
                Self::Containers(containers) => containers.time(PASS).await?,
                Self::Program(program) | Self::Peer(Peer { program, .. }) => program.time().await?,
                Self::Floor(_) => 0.0,
            });
        }
        Ok(times)
    }
}

pub(super) async fn measure(
    bench: &Bench,
    scale: &Scale,
    wanted: &Wanted,
    progress: &ProgressBar,
    report: &mut Report,
) {
    let mut entries = entries(bench, scale, wanted, progress, report).await;
    let total: usize = entries.iter().map(|entry| entry.runs).sum();
    progress.set_length(total as u64);
    for round in 0..scale.rounds {
        // Each row takes its turn to be first.
        if !entries.is_empty() {
            entries.rotate_left(1);
        }
        let mut kept = Vec::with_capacity(entries.len());
        for mut entry in entries {
            progress.set_message(entry.name);
            let due = entry.runs * (round + 1) / scale.rounds - entry.runs * round / scale.rounds;
            match entry.subject.time(due).await {
                Ok(times) => {
                    entry.times.extend(times);
                    progress.inc(due as u64);
                    kept.push(entry);
                }
                Err(error) => report.skip(entry.name, &error),
            }
        }
        entries = kept;
    }
    let place = |name: &str| super::PARTS.iter().position(|part| *part == name);
    entries.sort_by_key(|entry| place(entry.name));
    for mut entry in entries {
        match &entry.subject {
            Subject::Import(server) => server.engine.shutdown().await,
            Subject::Containers(containers) => containers.stop().await,
            _ => {}
        }
        report.rows.push(Row {
            name: entry.name.to_owned(),
            p50_ms: timing::median(&mut entry.times),
            p99_ms: timing::quantile(&mut entry.times, 0.99),
            runs: entry.times.len(),
            how: entry.how,
        });
    }
}

async fn entries(
    bench: &Bench,
    scale: &Scale,
    wanted: &Wanted,
    progress: &ProgressBar,
    report: &mut Report,
) -> Vec<Entry> {
    let mut subjects: Vec<(&'static str, String, anyhow::Result<Subject>)> = Vec::new();
    let mut add = |name, how: String, subject| subjects.push((name, how, subject));
    let how = format!("through the engine; a prepared sandbox from a full pool of {POOL}");
    add("fresh", how, Ok(Subject::Sandbox(bench.pooled.clone())));
    let how = "the same with an empty pool: the sandbox is made on request by a warm zygote";
    add("on_demand", how.to_owned(), Ok(Subject::Sandbox(bench.on_demand.clone())));
    let session = SessionId::new("bench").map_err(anyhow::Error::from);
    let session = session.map(|session| Subject::Session(bench.pooled.clone(), session));
    add("session", "the same interpreter again".to_owned(), session);
    let cold = timing::cold_command(&bench.workspace, "pass").map_err(anyhow::Error::from);
    let cold = cold.map(|command| Subject::Program(Program::of(&command)));
    add("cold", "the whole of `coracle exec -c pass`".to_owned(), cold);
    let floor = Floor::start(&bench.interpreter).map(|floor| Subject::Floor(Box::new(floor)));
    add("floor", "a warmed Python forked into fresh namespaces, and nothing else".to_owned(), floor);
    subjects.retain(|(name, ..)| wanted.has(name));
    let imports: [(&str, &[&str], &str); 2] = [
        ("import_pandas", &[], "`import pandas` instead of `pass`, in a prepared sandbox"),
        ("import_pandas_preloaded", &["pandas"], "the same, with execution.preload: [pandas]"),
    ];
    for (name, preload, how) in imports.into_iter().filter(|(name, ..)| wanted.has(name)) {
        let server = Server::with_packages(&bench.setup, &bench.folder, IMPORT_POOL, preload).await;
        subjects.push((name, how.to_owned(), server.map(Subject::Import)));
    }
    let calls = [
        ("docker", Calls::Further, "sandbox_type: docker; a fork in the user's container, through the engine"),
        ("docker_first", Calls::First, "the same for a user who has no container yet"),
    ];
    for (name, calls, how) in calls.into_iter().filter(|(name, ..)| wanted.has(name)) {
        let containers =
            Containers::start(&bench.setup, &bench.folder.join(name), calls, wanted.image.as_deref()).await;
        subjects.push((name, how.to_owned(), containers.map(Subject::Containers)));
    }
    for name in PEERS.into_iter().filter(|name| wanted.has(name)) {
        progress.set_message(format!("looking for {name}"));
        let peer = peers::probe(name, &bench.interpreter, wanted.image.as_deref()).await;
        let how = peer.as_ref().map_or(String::new(), |peer| peer.how.clone());
        subjects.push((name, how, peer.map(Subject::Peer)));
    }
    let mut entries = Vec::new();
    for (name, how, subject) in subjects {
        let part = SLOW.iter().find(|(slow, _)| *slow == name).map_or(1, |(_, part)| *part);
        let runs = (scale.runs / part).max(FEWEST.min(scale.runs));
        let warmed = async {
            let mut subject = subject?;
            subject.time(WARMING).await?;
            anyhow::Ok(subject)
        };
        match warmed.await {
            Ok(subject) => entries.push(Entry { name, how, subject, runs, times: Vec::new() }),
            Err(error) => report.skip(name, &error),
        }
    }
    entries
}
