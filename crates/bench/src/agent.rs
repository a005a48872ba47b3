//! `coracle bench agent`: a separate server with many conversations at once, beside the model server alone.
//!
//! The model is scripted, so that the difference between the rows is Coracle's part. Each answer is asked for as a stream,
//! and the time is that to the first piece of text. There are two loads: conversations that are under way at once, each at
//! its own pace, with answers that are written as slowly as those of a real model; and a burst, in which all of them ask
//! in the same instant and get the whole answer at once. The last part stops runs.

mod stopping;

use crate::bar::bar;
use crate::outcome::Outcome;
use crate::server::Serving;
use crate::tables::{align, plain};
use crate::timing::{milliseconds, quantile};
use anyhow::{Context, bail, ensure};
use clap::Args;
use coracle_scripted_model::{Library, Repeat, ScriptedModel, Step, Text, serve};
use futures::StreamExt as _;
use indicatif::ProgressBar;
use serde::Serialize;
use serde_json::{Value, json};
use std::fmt::Write as _;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;
use stopping::StopRow;
use tokio::net::TcpListener;
use tokio::sync::{Barrier, Semaphore};
use tokio::task::JoinSet;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

/// Time limit for an answer.
const ANSWERED_WITHIN: Duration = Duration::from_mins(1);
/// Conversations that are stored at once.
const STORED_AT_ONCE: usize = 16;
/// The text of the model.
const TEXT: &str = "The answer of the model.";
/// A slow answer: the script, the number of its pieces, and the pause before each.
const SLOW: &str = "[script:slow]";
const PIECES: u64 = 40;
const PIECE_MS: u64 = 25;
/// Maximum rest of a conversation before it asks again. The length of a rest is random.
const MAX_REST_MS: u64 = 1_000;

#[derive(Debug, Args)]
pub(crate) struct AgentArguments {
    /// Number of conversations at once.
    #[arg(long, value_name = "N", default_value_t = 100, value_parser = clap::value_parser!(u32).range(1..=1_000))]
    at_once: u32,

    /// Number of questions of each conversation.
    #[arg(long, value_name = "N", default_value_t = 20, value_parser = clap::value_parser!(u32).range(1..=1_000))]
    rounds: u32,

    /// Number of idle listeners in the second part.
    #[arg(long, value_name = "N", default_value_t = 1_000, value_parser = clap::value_parser!(u32).range(0..=3_000))]
    listeners: u32,

    /// Number of conversations to store in the third part.
    #[arg(long, value_name = "N", default_value_t = 10_000, value_parser = clap::value_parser!(u32).range(0..=1_000_000))]
    stored: u32,

    /// Number of runs to stop at each moment in the fourth part.
    #[arg(long, value_name = "N", default_value_t = 20, value_parser = clap::value_parser!(u32).range(0..=1_000))]
    stops: u32,

    /// Print one line of JSON instead of tables.
    #[arg(long)]
    json: bool,
}

/// Results.
#[derive(Debug, Serialize)]
struct Report {
    at_once: u32,
    rows: Vec<Row>,
    /// Memory of the server before and after conversations were stored.
    memory_mib: Option<(f64, f64)>,
    stored: u32,
    /// Times from the request to stop a run until it is final.
    stops: Vec<StopRow>,
}

/// Times to the first text.
#[derive(Debug, Serialize)]
struct Row {
    name: String,
    answers: usize,
    p50_ms: f64,
    p99_ms: f64,
}

pub(crate) async fn run(arguments: AgentArguments) -> anyhow::Result<Outcome> {
    let folder =
        tempfile::Builder::new().prefix("coracle-bench-").tempdir().context("cannot create a temporary folder")?;
    let progress = bar();
    let report = measure(&arguments, folder.path(), &progress).await?;
    progress.finish_and_clear();
    let text = if arguments.json {
        serde_json::to_string(&report).context("cannot write the report")? + "\n"
    } else {
        report.render()
    };
    Ok(Outcome { text, is_good: true })
}

async fn measure(arguments: &AgentArguments, folder: &Path, progress: &ProgressBar) -> anyhow::Result<Report> {
    let stop = CancellationToken::new();
    let _stopped = stop.clone().drop_guard();
    // Conversations have several turns, which all have the same answer.
    let turns = usize::try_from(arguments.rounds.saturating_mul(2)).unwrap_or(usize::MAX).saturating_add(2);
    let waits = coracle_scripted_model::Script::new([vec![Step::gate("never")]]);
    let repeat = Some(Repeat { piece: format!("{TEXT} "), times: PIECES });
    let slow = Step::Text(Text { repeat, delay_ms: PIECE_MS, ..Text::default() });
    let slow = coracle_scripted_model::Script::new((0..turns).map(|_| vec![slow.clone()]));
    let library = Library::single((0..turns).map(|_| vec![Step::text(TEXT)])).with("waits", waits).with("slow", slow);
    let library = stopping::with_scripts(library);
    let model = ScriptedModel::new(library).context("cannot make the model")?;
    let listener = TcpListener::bind("127.0.0.1:0").await.context("cannot listen")?;
    let model_url = format!("http://{}/v1", listener.local_addr()?);
    tokio::spawn(serve(listener, model, stop.cancelled_owned()));
    let home = folder.join("home");
    std::fs::create_dir_all(&home).context("cannot create a data folder")?;
    // One address may have a quarter of the connections.
    let settings = format!(
        "server:\n  max_connections: 16384\n\
         agent:\n  default_model: lab/demo\n  providers:\n    lab: {{ url: '{model_url}', api: chat }}\n\
         mcpServers: {}\n",
        stopping::slow_server(folder)?
    );
    std::fs::write(home.join("coracle.yaml"), settings).context("cannot write settings")?;
    let server = Serving::start(&home).await?;
    let key = std::fs::read_to_string(home.join("api_key")).context("cannot read the key of the server")?;
    // The client requires it even without TLS. An error means that one is already installed.
    let _ = rustls::crypto::ring::default_provider().install_default();
    let client = reqwest::Client::builder().timeout(ANSWERED_WITHIN).no_proxy().build()?;
    let load = Arc::new(Load {
        client,
        model: model_url,
        server: format!("http://{}/v1", server.address),
        key: key.trim().to_owned(),
    });

    let mut report = Report {
        at_once: arguments.at_once,
        rows: Vec::new(),
        memory_mib: None,
        stored: arguments.stored,
        stops: Vec::new(),
    };
    for pace in [Pace::Own, Pace::Burst] {
        let shape = pace.name();
        progress.set_message(format!("{shape}: the model alone"));
        report.rows.push(load.rounds(format!("{shape}: the model alone"), arguments, Target::Model, pace).await?);
        progress.set_message(format!("{shape}: conversations"));
        report.rows.push(load.rounds(format!("{shape}: Coracle"), arguments, Target::Conversations, pace).await?);
        if arguments.listeners > 0 {
            progress.set_message("starting listeners");
            let listeners = load.listeners(arguments.listeners).await?;
            progress.set_message(format!("{shape}: beside listeners"));
            let name = format!("{shape}: Coracle, beside {} listeners", arguments.listeners);
            report.rows.push(load.rounds(name, arguments, Target::Conversations, pace).await?);
            drop(listeners);
        }
    }
    if arguments.stored > 0 {
        progress.set_message("storing conversations");
        let before = server.own_mib()?;
        load.store(arguments.stored).await?;
        report.memory_mib = Some((before, server.own_mib()?));
    }
    if arguments.stops > 0 {
        progress.set_message("stopping runs");
        report.stops = load.stops(arguments.stops).await?;
    }
    server.stop().await?;
    Ok(report)
}

/// What is asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Target {
    Model,
    Conversations,
}

/// When conversations ask.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Pace {
    /// Each at its own pace; the model answers slowly.
    Own,
    /// All in the same instant; the model answers at once.
    Burst,
}

impl Pace {
    fn name(self) -> &'static str {
        match self {
            Self::Own => "own pace",
            Self::Burst => "burst",
        }
    }

    fn question(self) -> &'static str {
        match self {
            Self::Own => SLOW,
            Self::Burst => "Hello",
        }
    }
}

/// A client of both servers.
struct Load {
    client: reqwest::Client,
    model: String,
    server: String,
    key: String,
}

impl Load {
    /// All conversations ask once per round.
    async fn rounds(
        self: &Arc<Self>,
        name: String,
        arguments: &AgentArguments,
        target: Target,
        pace: Pace,
    ) -> anyhow::Result<Row> {
        let barrier = Arc::new(Barrier::new(usize::try_from(arguments.at_once)?));
        let mut asking = JoinSet::new();
        for _ in 0..arguments.at_once {
            let (load, barrier, rounds) = (Arc::clone(self), Arc::clone(&barrier), arguments.rounds);
            asking.spawn(async move {
                let conversation = match target {
                    Target::Model => None,
                    Target::Conversations => Some(load.conversation().await?),
                };
                let mut times = Vec::new();
                // The first round opens connections.
                for round in 0..=rounds {
                    match pace {
                        Pace::Burst => {
                            barrier.wait().await;
                        }
                        Pace::Own => tokio::time::sleep(Duration::from_millis(fastrand::u64(..MAX_REST_MS))).await,
                    }
                    let time = load.first_text(conversation.as_deref(), pace).await?;
                    if round > 0 {
                        times.push(time);
                    }
                }
                anyhow::Ok(times)
            });
        }
        let mut times = Vec::new();
        while let Some(done) = asking.join_next().await {
            times.extend(done??);
        }
        let answers = times.len();
        let [p50_ms, p99_ms] = [0.5, 0.99].map(|part| quantile(&mut times, part));
        Ok(Row { name, answers, p50_ms, p99_ms })
    }

    async fn post(&self, path: &str, body: &Value) -> anyhow::Result<reqwest::Response> {
        let request = self.client.post(format!("{}{path}", self.server)).bearer_auth(&self.key).json(body);
        let answer = request.send().await?;
        if !answer.status().is_success() {
            bail!("{path}: {}: {}", answer.status(), answer.text().await.unwrap_or_default());
        }
        Ok(answer)
    }

    async fn conversation(&self) -> anyhow::Result<String> {
        let made: Value = self.post("/conversations", &json!({})).await?.json().await?;
        Ok(made["id"].as_str().context("the conversation has no ID")?.to_owned())
    }

    /// The time to the first text, in milliseconds. The rest of the answer is read, too.
    async fn first_text(&self, conversation: Option<&str>, pace: Pace) -> anyhow::Result<f64> {
        let begun = Instant::now();
        let answer = match conversation {
            None => {
                let body = json!({"model": "demo", "stream": true, "messages": [{"role": "user", "content": pace.question()}]});
                self.client.post(format!("{}/chat/completions", self.model)).json(&body).send().await?
            }
            Some(id) => {
                let body = json!({"input": pace.question(), "stream": true, "conversation": id});
                self.post("/responses", &body).await?
            }
        };
        let mut stream = answer.bytes_stream();
        let (mut first, mut seen) = (None, Vec::new());
        while let Some(bytes) = stream.next().await {
            seen.extend_from_slice(&bytes?);
            if first.is_none() && contains(&seen, TEXT.as_bytes()) {
                first = Some(milliseconds(begun.elapsed()));
            }
        }
        ensure!(conversation.is_none() || contains(&seen, b"response.completed"), "an answer is incomplete");
        first.context("an answer has no text")
    }

    /// Listeners of one run that waits for its model.
    async fn listeners(&self, count: u32) -> anyhow::Result<JoinSet<()>> {
        let begun = self.post("/responses", &json!({"input": "[script:waits]", "background": true})).await?;
        let begun: Value = begun.json().await?;
        let url = format!("{}/responses/{}?stream=true", self.server, begun["id"].as_str().context("no ID")?);
        let mut listeners = JoinSet::new();
        for _ in 0..count {
            let answer = self.client.get(&url).bearer_auth(&self.key).timeout(Duration::from_hours(1)).send().await?;
            ensure!(answer.status().is_success(), "cannot listen: {}", answer.status());
            let mut stream = answer.bytes_stream();
            stream.next().await.context("a listener hears nothing")??;
            listeners.spawn(async move { while let Some(Ok(_)) = stream.next().await {} });
        }
        Ok(listeners)
    }

    /// Stores conversations with an answer each.
    async fn store(self: &Arc<Self>, count: u32) -> anyhow::Result<()> {
        let turns = Arc::new(Semaphore::new(STORED_AT_ONCE));
        let mut storing = JoinSet::new();
        for _ in 0..count {
            let turn = Arc::clone(&turns).acquire_owned().await?;
            let load = Arc::clone(self);
            storing.spawn(async move {
                let _turn = turn;
                let id = load.conversation().await?;
                load.first_text(Some(&id), Pace::Burst).await.map(drop)
            });
            while let Some(done) = storing.try_join_next() {
                done??;
            }
        }
        while let Some(done) = storing.join_next().await {
            done??;
        }
        Ok(())
    }
}

fn contains(bytes: &[u8], needle: &[u8]) -> bool {
    bytes.windows(needle.len()).any(|window| window == needle)
}

impl Report {
    fn render(&self) -> String {
        let mut table = plain(["time to the first text", "answers", "p50 ms", "p99 ms", "over the model, p99 ms"]);
        let mut model = 0.0;
        for row in &self.rows {
            if row.name.ends_with("the model alone") {
                model = row.p99_ms;
            }
            table.add_row([
                row.name.clone(),
                row.answers.to_string(),
                format!("{:.1}", row.p50_ms),
                format!("{:.1}", row.p99_ms),
                format!("{:.1}", row.p99_ms - model),
            ]);
        }
        align(&mut table, 1..=4);
        let mut text = format!("{table}\n\n{} conversations at once.\n", self.at_once);
        if let Some((before, after)) = self.memory_mib {
            // Writing to a string cannot fail.
            let _ = writeln!(
                text,
                "Memory of the server: {before:.1} MiB, and {after:.1} MiB after {} conversations were stored.",
                self.stored
            );
        }
        if !self.stops.is_empty() {
            let mut table = plain(["time until a stopped run is final", "stops", "p50 ms", "p99 ms"]);
            for row in &self.stops {
                let figures = [row.p50_ms, row.p99_ms].map(|figure| format!("{figure:.1}"));
                table.add_row([row.name.to_owned(), row.stops.to_string()].into_iter().chain(figures));
            }
            align(&mut table, 1..=3);
            let _ = writeln!(text, "\n{table}");
        }
        text
    }
}
