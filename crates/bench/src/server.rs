//! `coracle bench server`: a separate server with many users, each with an API key and a live session, and many
//! concurrent executions over HTTP.

use crate::bar::bar;
use crate::outcome::Outcome;
use crate::peers::{self, Peer};
use crate::process_tree::{descendants, pss_kib};
use crate::program::Program;
use crate::tables::{align, plain};
use crate::timing::{milliseconds, quantile};
use anyhow::{Context, bail, ensure};
use clap::Args;
use coracle_accounts::{KeyMaker, People};
use coracle_config::{BENCH_IMAGE_VARIABLE, CONFIG_VARIABLE, HOME_VARIABLE};
use coracle_store::{Home, KeyScope, KeySource, Role, SqliteStore, User};
use coracle_types::{Secret, UserId};
use indicatif::ProgressBar;
use serde::Serialize;
use serde_json::{Value, json};
use std::fmt::Write as _;
use std::path::Path;
use std::process::Stdio;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, SystemTime};
use tokio::io::{AsyncBufReadExt, BufReader};
use tokio::process::{Child, Command};
use tokio::task::JoinSet;
use tokio::time::Instant;

/// Program that each user runs in their session: some work, and proof that the interpreter is the same as before.
const PROGRAM: &str = "seen = globals().get('seen', 0) + 1\nwork = sum(n * n for n in range(2_000))\nseen";

/// Time limit for the server to start.
const STARTED_WITHIN: Duration = Duration::from_mins(1);
/// Time limit for a response.
const ANSWERED_WITHIN: Duration = Duration::from_mins(1);
/// Number of memory measurements.
const WEIGHED: u32 = 10;
/// Time limit for a peer.
const PEER_WITHIN: Duration = Duration::from_secs(20);

#[derive(Debug, Args)]
pub(crate) struct ServerArguments {
    /// Number of users, each with a live session.
    #[arg(long, value_name = "N", default_value_t = 200, value_parser = clap::value_parser!(u32).range(1..=10_000))]
    users: u32,

    /// Number of concurrent executions.
    #[arg(long, value_name = "N", default_value_t = 50, value_parser = clap::value_parser!(u32).range(1..=1_000))]
    at_once: u32,

    /// Duration of the measurement in seconds.
    #[arg(long, value_name = "SECONDS", default_value_t = 300, value_parser = clap::value_parser!(u32).range(1..=86_400))]
    seconds: u32,

    /// Container image for docker. It must contain python3 and is never pulled [default: the first local image with
    /// python3].
    #[arg(long, value_name = "NAME", env = BENCH_IMAGE_VARIABLE, hide_env_values = true)]
    image: Option<String>,

    /// Print one line of JSON instead of tables.
    #[arg(long)]
    json: bool,
}

/// Results.
#[derive(Debug, Serialize)]
struct Report {
    users: u32,
    at_once: u32,
    seconds: f64,
    rows: Vec<Row>,
    /// Memory of the server and all processes below over time, starting when all sessions are alive.
    memory_mib: Vec<f64>,
    live_sessions: u64,
    errors: Vec<String>,
    skipped: Vec<String>,
}

#[derive(Debug, Serialize)]
struct Row {
    name: &'static str,
    executions: usize,
    failed: usize,
    per_second: f64,
    p50_ms: f64,
    p99_ms: f64,
    max_ms: f64,
}

impl Row {
    fn of(name: &'static str, mut times: Vec<f64>, failed: usize, seconds: f64) -> Self {
        let executions = times.len();
        #[expect(clippy::cast_precision_loss, reason = "counts stay far below 2^52")]
        let per_second = executions as f64 / seconds;
        let [p50_ms, p99_ms, max_ms] = [0.5, 0.99, 1.0].map(|part| quantile(&mut times, part));
        Self { name, executions, failed, per_second, p50_ms, p99_ms, max_ms }
    }
}

pub(crate) async fn run(arguments: ServerArguments) -> anyhow::Result<Outcome> {
    let folder =
        tempfile::Builder::new().prefix("coracle-bench-").tempdir().context("cannot create a temporary folder")?;
    let progress = bar();
    let report = measure(&arguments, folder.path(), &progress).await?;
    progress.finish_and_clear();
    // The exit status reports errors as well.
    let is_good = report.errors.is_empty();
    let text = if arguments.json {
        serde_json::to_string(&report).context("cannot write the report")? + "\n"
    } else {
        report.render()
    };
    Ok(Outcome { text, is_good })
}

async fn measure(arguments: &ServerArguments, folder: &Path, progress: &ProgressBar) -> anyhow::Result<Report> {
    let home = folder.join("home");
    progress.set_message("creating users and keys");
    let keys = people(&home, arguments.users).await?;
    let server = Serving::start(&home).await?;
    // The client requires it even without TLS. An error means that one is already installed.
    let _ = rustls::crypto::ring::default_provider().install_default();
    let load = Arc::new(Load {
        url: format!("http://{}/api/executions", server.address),
        client: reqwest::Client::builder().timeout(ANSWERED_WITHIN).build().context("cannot create a client")?,
        keys: keys.into_iter().map(|key| (key, AtomicUsize::new(0))).collect(),
        next: AtomicUsize::new(0),
        times: Mutex::default(),
        errors: Mutex::default(),
    });
    progress.set_message(format!("starting {} sessions", arguments.users));
    load.each_once(arguments.at_once).await;
    if let Some(error) = load.errors().first() {
        bail!("cannot start a session: {error}");
    }
    load.times().clear();
    let mut report = Report {
        users: arguments.users,
        at_once: arguments.at_once,
        seconds: 0.0,
        rows: Vec::new(),
        memory_mib: vec![server.mib()?],
        live_sessions: 0,
        errors: Vec::new(),
        skipped: Vec::new(),
    };
    let begun = Instant::now();
    let time = Duration::from_secs(u64::from(arguments.seconds));
    let mut workers = JoinSet::new();
    for _ in 0..arguments.at_once {
        let load = Arc::clone(&load);
        workers.spawn(async move {
            while begun.elapsed() < time {
                load.next_one().await;
            }
        });
    }
    for tenth in 1..=WEIGHED {
        tokio::time::sleep_until(begun + time * tenth / WEIGHED).await;
        report.memory_mib.push(server.mib()?);
        progress.set_message(format!("{} executions, {} failed", load.times().len(), load.errors().len()));
    }
    while workers.join_next().await.is_some() {}
    report.seconds = begun.elapsed().as_secs_f64();
    report.live_sessions = server.live_sessions(&load).await?;
    let (times, errors) = (std::mem::take(&mut *load.times()), std::mem::take(&mut *load.errors()));
    report.rows.push(Row::of("coracle", times, errors.len(), report.seconds));
    report.errors = errors;
    report.errors.truncate(5);
    server.stop().await?;
    progress.set_message("docker exec: one container per user");
    match docker(arguments).await {
        Ok(row) => report.rows.push(row),
        Err(reason) => report.skipped.push(format!("docker exec: {reason:#}")),
    }
    Ok(report)
}

/// Creates users with an API key each.
async fn people(home: &Path, users: u32) -> anyhow::Result<Vec<Secret>> {
    let store = SqliteStore::open(&Home::new(home), KeySource::File).await.context("cannot create a store")?;
    let store = Arc::new(store);
    let people = People::new(Arc::clone(&store) as _);
    let mut keys = Vec::new();
    for number in 0..users {
        let name = UserId::new(format!("user-{number}")).context("cannot name a user")?;
        people.add(User::new(name.clone(), Role::User, SystemTime::now()), None).await.context("cannot add a user")?;
        let scopes = [KeyScope::Api, KeyScope::Metrics].into();
        let (_, key) =
            people.add_key(&name, "bench", scopes, None, KeyMaker::Person).await.context("cannot add a key")?;
        keys.push(key);
    }
    store.close().await;
    Ok(keys)
}

/// `coracle up`, stopped when dropped.
pub(crate) struct Serving {
    child: Child,
    pub(crate) address: String,
}

impl Serving {
    pub(crate) async fn start(home: &Path) -> anyhow::Result<Self> {
        let program = std::env::current_exe().context("cannot find this program")?;
        let mut child = Command::new(program)
            .args(["up", "--port", "0"])
            .current_dir(home)
            .env(HOME_VARIABLE, home)
            .env_remove(CONFIG_VARIABLE)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            .kill_on_drop(true)
            .spawn()
            .context("cannot start a server")?;
        let stderr = child.stderr.take().context("the server has no standard error")?;
        let mut lines = BufReader::new(stderr).lines();
        let listening = async {
            let mut said = String::new();
            while let Some(line) = lines.next_line().await? {
                if let Some((_, rest)) = line.split_once("http://") {
                    return Ok(rest.split(['/', ' ']).next().unwrap_or_default().to_owned());
                }
                said = line;
            }
            bail!("the server ended: {said}")
        };
        let address = tokio::time::timeout(STARTED_WITHIN, listening).await.context("the server did not start")??;
        tokio::spawn(async move { while let Ok(Some(_)) = lines.next_line().await {} });
        Ok(Self { child, address })
    }

    /// Memory of the server alone.
    pub(crate) fn own_mib(&self) -> anyhow::Result<f64> {
        let id = self.child.id().context("the server has ended")?;
        #[expect(clippy::cast_precision_loss, reason = "no machine has 2^52 bytes")]
        let mib = pss_kib(id).context("cannot measure the server")? as f64 / 1024.0;
        Ok(mib)
    }

    /// Memory of the server and all processes below.
    fn mib(&self) -> anyhow::Result<f64> {
        let id = self.child.id().context("the server has ended")?;
        let own = pss_kib(id).context("cannot measure the server")?;
        // Some processes may end meanwhile.
        let below: u64 = descendants(id).into_iter().filter_map(|pid| pss_kib(pid).ok()).sum();
        #[expect(clippy::cast_precision_loss, reason = "no machine has 2^52 bytes")]
        let mib = (own + below) as f64 / 1024.0;
        Ok(mib)
    }

    async fn live_sessions(&self, load: &Load) -> anyhow::Result<u64> {
        let url = format!("http://{}/metrics", self.address);
        let text = load.as_first(load.client.get(url)).send().await?.text().await?;
        let line = text.lines().find(|line| line.starts_with("coracle_live_sessions "));
        line.and_then(|line| line.rsplit(' ').next()?.parse().ok()).context("the metrics do not include live sessions")
    }

    pub(crate) async fn stop(mut self) -> anyhow::Result<()> {
        let id = self.child.id().and_then(|id| rustix::process::Pid::from_raw(id.cast_signed()));
        rustix::process::kill_process(id.context("the server has ended")?, rustix::process::Signal::TERM)?;
        self.child.wait().await.context("cannot wait for the server")?;
        Ok(())
    }
}

/// Users and their results.
struct Load {
    url: String,
    client: reqwest::Client,
    /// Keys, with the number of executions of their owner.
    keys: Vec<(Secret, AtomicUsize)>,
    next: AtomicUsize,
    times: Mutex<Vec<f64>>,
    errors: Mutex<Vec<String>>,
}

impl Load {
    fn times(&self) -> std::sync::MutexGuard<'_, Vec<f64>> {
        self.times.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn errors(&self) -> std::sync::MutexGuard<'_, Vec<String>> {
        self.errors.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn as_first(&self, request: reqwest::RequestBuilder) -> reqwest::RequestBuilder {
        match self.keys.first() {
            Some((key, _)) => request.bearer_auth(key.expose()),
            None => request,
        }
    }

    /// Executes once for each user.
    async fn each_once(self: &Arc<Self>, at_once: u32) {
        let mut workers = JoinSet::new();
        for _ in 0..at_once {
            let load = Arc::clone(self);
            workers.spawn(async move {
                while load.next.load(Ordering::SeqCst) < load.keys.len() {
                    load.next_one().await;
                }
            });
        }
        while workers.join_next().await.is_some() {}
    }

    /// Executes for the next user.
    async fn next_one(&self) {
        let (key, count) = &self.keys[self.next.fetch_add(1, Ordering::SeqCst) % self.keys.len()];
        // The session must have seen every execution that was answered before this request.
        let answered = count.load(Ordering::SeqCst);
        let begun = Instant::now();
        match self.execute(key).await {
            Ok(seen) => {
                count.fetch_add(1, Ordering::SeqCst);
                self.times().push(milliseconds(begun.elapsed()));
                if seen.is_none_or(|seen| seen <= answered) {
                    self.errors().push(format!(
                        "a session was lost: it has seen {seen:?} executions after {answered} responses"
                    ));
                }
            }
            Err(error) => self.errors().push(format!("{error:#}")),
        }
    }

    async fn execute(&self, key: &Secret) -> anyhow::Result<Option<usize>> {
        let body = json!({ "code": PROGRAM, "session": "bench" });
        let answer = self.client.post(&self.url).bearer_auth(key.expose()).json(&body).send().await?;
        let status = answer.status();
        let answer: Value = answer.json().await?;
        ensure!(status.is_success() && answer["success"] == true, "{status}: {answer}");
        ensure!(answer["session_restarted"] != true, "a session was restarted");
        Ok(answer["result"].as_u64().and_then(|seen| usize::try_from(seen).ok()))
    }
}

/// Measures the same concurrency without Coracle: one container per user, and `docker exec`.
async fn docker(arguments: &ServerArguments) -> anyhow::Result<Row> {
    let containers = peers::containers(arguments.at_once, arguments.image.as_deref()).await?;
    let (times, failed) = (Arc::new(Mutex::new(Vec::new())), Arc::new(AtomicUsize::new(0)));
    let begun = Instant::now();
    let mut workers = JoinSet::new();
    for Peer { program, .. } in &containers {
        let (program, times, failed): (Program, _, _) = (program.clone(), Arc::clone(&times), Arc::clone(&failed));
        workers.spawn(async move {
            while begun.elapsed() < PEER_WITHIN {
                match program.time().await {
                    Ok(time) => times.lock().unwrap_or_else(PoisonError::into_inner).push(time),
                    Err(_) => {
                        failed.fetch_add(1, Ordering::SeqCst);
                    }
                }
            }
        });
    }
    while workers.join_next().await.is_some() {}
    let seconds = begun.elapsed().as_secs_f64();
    let times = std::mem::take(&mut *times.lock().unwrap_or_else(PoisonError::into_inner));
    Ok(Row::of("docker exec", times, failed.load(Ordering::SeqCst), seconds))
}

impl Report {
    fn render(&self) -> String {
        let mut table = plain(["", "executions", "failed", "a second", "p50 ms", "p99 ms", "max ms"]);
        for row in &self.rows {
            table.add_row([
                row.name.to_owned(),
                row.executions.to_string(),
                row.failed.to_string(),
                format!("{:.0}", row.per_second),
                format!("{:.1}", row.p50_ms),
                format!("{:.1}", row.p99_ms),
                format!("{:.1}", row.max_ms),
            ]);
        }
        align(&mut table, 1..=6);
        let mut text = format!("{table}\n");
        let memory: Vec<String> = self.memory_mib.iter().map(|mib| format!("{mib:.0}")).collect();
        let _ = writeln!(
            text,
            "\n{} users with a live session each ({} live at the end), {} concurrent executions, for {:.0} s.\n\
             Memory of the server and all sandboxes in MiB, over time: {}",
            self.users,
            self.live_sessions,
            self.at_once,
            self.seconds,
            memory.join(" ")
        );
        for error in &self.errors {
            let _ = writeln!(text, "error: {error}");
        }
        for skipped in &self.skipped {
            let _ = writeln!(text, "skipped {skipped}");
        }
        text
    }
}
