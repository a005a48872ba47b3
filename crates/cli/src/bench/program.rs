//! Other programs, started and waited for.

use crate::timing::timed;
use anyhow::Context;
use std::path::PathBuf;
use std::process::{Output, Stdio};
use std::time::Duration;
use tokio::process::Command;

/// Nothing that is measured takes longer.
const WITHIN: Duration = Duration::from_mins(1);

/// A command line.
#[derive(Clone, Debug)]
pub(super) struct Program {
    pub(super) line: Vec<std::ffi::OsString>,
}

impl Program {
    pub(super) fn new<T: Into<std::ffi::OsString>>(line: impl IntoIterator<Item = T>) -> Self {
        Self { line: line.into_iter().map(Into::into).collect() }
    }

    /// The line of a command; not its environment.
    pub(super) fn of(command: &std::process::Command) -> Self {
        Self::new(std::iter::once(command.get_program()).chain(command.get_args()))
    }

    /// Runs it to its end; anything but success is an error with its last words.
    pub(super) async fn output(&self) -> anyhow::Result<Output> {
        self.output_within(WITHIN).await
    }

    /// The same for what may take longer, or must not.
    pub(super) async fn output_within(&self, within: Duration) -> anyhow::Result<Output> {
        let (name, arguments) = self.line.split_first().context("no program")?;
        let mut command = Command::new(name);
        let name = name.display();
        command.args(arguments).stdin(Stdio::null()).kill_on_drop(true);
        let output = tokio::time::timeout(within, command.output()).await;
        let output = output.with_context(|| format!("{name} took longer than {within:?}"))?;
        let output = output.with_context(|| format!("start {name}"))?;
        if output.status.success() {
            return Ok(output);
        }
        let words = String::from_utf8_lossy(&output.stderr);
        let last = words.lines().rev().find(|line| !line.trim().is_empty()).unwrap_or("it said nothing");
        anyhow::bail!("{name} failed ({}): {}", output.status, last.trim())
    }

    /// How long it takes from start to end, in milliseconds.
    pub(super) async fn time(&self) -> anyhow::Result<f64> {
        let (time, output) = timed(self.output()).await;
        output.map(|_| time)
    }
}

/// Where a program is on `PATH`.
pub(super) fn find(name: &str) -> Option<PathBuf> {
    let path = std::env::var_os("PATH")?;
    std::env::split_paths(&path).map(|folder| folder.join(name)).find(|candidate| candidate.is_file())
}
