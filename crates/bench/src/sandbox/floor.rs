//! The floor: a Python program that stays alive, so that its runs alternate with the others.

use crate::peers::Interpreter;
use anyhow::Context;
use serde::de::DeserializeOwned;
use std::process::Stdio;
use std::time::Duration;
use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::process::{Child, ChildStderr, ChildStdin, ChildStdout, Command};

const PROGRAM: &str = include_str!("floor.py");

/// Time limit for a response, besides the duration of the order itself.
const ANSWERS_WITHIN: Duration = Duration::from_secs(30);

#[derive(Debug)]
pub(super) struct Floor {
    /// Ends when dropped.
    _child: Child,
    orders: ChildStdin,
    answers: BufReader<ChildStdout>,
    complaints: ChildStderr,
}

impl Floor {
    pub(super) fn start(interpreter: &Interpreter) -> anyhow::Result<Self> {
        let mut command = Command::new(&interpreter.path);
        command.args(["-I", "-c", PROGRAM]).kill_on_drop(true);
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().with_context(|| format!("cannot start {}", interpreter.path.display()))?;
        let orders = child.stdin.take().context("no standard input")?;
        let answers = BufReader::new(child.stdout.take().context("no standard output")?);
        let complaints = child.stderr.take().context("no standard error")?;
        Ok(Self { _child: child, orders, answers, complaints })
    }

    /// Durations of this many runs in milliseconds.
    pub(super) async fn time(&mut self, runs: usize) -> anyhow::Result<Vec<f64>> {
        self.order(&format!("time {runs}\n"), ANSWERS_WITHIN).await
    }

    /// Runs per second at this concurrency.
    pub(super) async fn rate(&mut self, at_once: usize, window: Duration) -> anyhow::Result<f64> {
        self.order(&format!("rate {at_once} {}\n", window.as_secs_f64()), ANSWERS_WITHIN + window).await
    }

    async fn order<T: DeserializeOwned>(&mut self, order: &str, within: Duration) -> anyhow::Result<T> {
        let mut line = String::new();
        let answered = async {
            self.orders.write_all(order.as_bytes()).await?;
            self.answers.read_line(&mut line).await
        };
        let read = tokio::time::timeout(within, answered).await.context("the floor program does not respond")?;
        if !matches!(read, Ok(1..)) {
            let mut words = String::new();
            let _ = tokio::time::timeout(Duration::from_secs(1), self.complaints.read_to_string(&mut words)).await;
            anyhow::bail!("{}", words.lines().last().unwrap_or("the floor program ended without a message"));
        }
        serde_json::from_str(&line).context("cannot read the response of the floor program")
    }
}
