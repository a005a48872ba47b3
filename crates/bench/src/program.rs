//! Runs other programs.

use crate::timing::timed;
use anyhow::Context;
use std::path::PathBuf;
use std::process::{Output, Stdio};
use std::time::Duration;
use tokio::process::Command;

/// Time limit of a program.
const WITHIN: Duration = Duration::from_mins(1);

/// Command line.
#[derive(Clone, Debug)]
pub(crate) struct Program {
    pub(crate) line: Vec<std::ffi::OsString>,
}

impl Program {
    pub(crate) fn new<T: Into<std::ffi::OsString>>(line: impl IntoIterator<Item = T>) -> Self {
        Self { line: line.into_iter().map(Into::into).collect() }
    }

    /// Uses the command line of a command, without its environment.
    pub(crate) fn of(command: &std::process::Command) -> Self {
        Self::new(std::iter::once(command.get_program()).chain(command.get_args()))
    }

    /// Runs the program. A failure includes its last output.
    pub(crate) async fn output(&self) -> anyhow::Result<Output> {
        self.output_within(WITHIN).await
    }

    /// Runs the program with another time limit.
    pub(crate) async fn output_within(&self, within: Duration) -> anyhow::Result<Output> {
        let (name, arguments) = self.line.split_first().context("no program")?;
        let mut command = Command::new(name);
        let name = name.display();
        command.args(arguments).stdin(Stdio::null()).kill_on_drop(true);
        let output = tokio::time::timeout(within, command.output()).await;
        let output = output.with_context(|| format!("{name} took longer than {within:?}"))?;
        let output = output.with_context(|| format!("cannot start {name}"))?;
        if output.status.success() {
            return Ok(output);
        }
        let words = String::from_utf8_lossy(&output.stderr);
        let last = words.lines().rev().find(|line| !line.trim().is_empty()).unwrap_or("no output");
        anyhow::bail!("{name} failed ({}): {}", output.status, last.trim())
    }

    /// Returns the duration of the program in milliseconds.
    pub(crate) async fn time(&self) -> anyhow::Result<f64> {
        let (time, output) = timed(self.output()).await;
        output.map(|_| time)
    }
}

/// Finds a program on `PATH`.
pub(crate) fn find(name: &str) -> Option<PathBuf> {
    let path = std::env::var_os("PATH")?;
    std::env::split_paths(&path).map(|folder| folder.join(name)).find(|candidate| candidate.is_file())
}
