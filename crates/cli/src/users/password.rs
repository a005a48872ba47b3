//! Passwords, read from the terminal without being shown, or from standard input.

use super::rule;
use crate::status::Mistake;
use anyhow::Context;
use coracle_types::Secret;
use rustix::termios::{LocalModes, OptionalActions, Termios, tcgetattr, tcsetattr};
use std::fs::{File, OpenOptions};
use std::io::{BufRead, BufReader, Read, Write};

/// A longer line is no password.
const MAX_LINE: u64 = 4096;

/// The first line of standard input.
pub(super) fn from_stdin() -> anyhow::Result<Secret> {
    line(std::io::stdin().lock()).context("read a password from standard input")
}

/// What somebody types at the terminal, twice.
pub(super) fn asked() -> anyhow::Result<Secret> {
    let terminal = OpenOptions::new().read(true).write(true).open("/dev/tty").map_err(|error| {
        let hint = Some("give it on standard input with --password-stdin");
        Mistake::new(format!("there is no terminal to ask for a password: {error}"), hint)
    })?;
    let mut quiet = Quiet::new(terminal)?;
    let first = quiet.ask(&format!("New password ({}): ", rule()))?;
    let second = quiet.ask("Once more: ")?;
    if first != second {
        return Err(Mistake::new("the two passwords differ; nothing was changed", None::<&str>).into());
    }
    Ok(first)
}

fn line(from: impl Read) -> anyhow::Result<Secret> {
    let mut text = String::new();
    BufReader::new(from.take(MAX_LINE)).read_line(&mut text)?;
    Ok(Secret::new(text.trim_end_matches(['\n', '\r'])))
}

/// A terminal that shows nothing of what is typed, until it is dropped.
struct Quiet {
    terminal: File,
    before: Termios,
}

impl Quiet {
    fn new(terminal: File) -> anyhow::Result<Self> {
        let before = tcgetattr(&terminal).context("ask the terminal")?;
        let mut quiet = before.clone();
        quiet.local_modes.remove(LocalModes::ECHO);
        tcsetattr(&terminal, OptionalActions::Flush, &quiet).context("make the terminal quiet")?;
        Ok(Self { terminal, before })
    }

    fn ask(&mut self, question: &str) -> anyhow::Result<Secret> {
        self.terminal.write_all(question.as_bytes()).context("ask at the terminal")?;
        // A terminal gives whole lines.
        let answer = line(&self.terminal).context("read from the terminal")?;
        self.terminal.write_all(b"\n").context("ask at the terminal")?;
        Ok(answer)
    }
}

impl Drop for Quiet {
    fn drop(&mut self) {
        if let Err(error) = tcsetattr(&self.terminal, OptionalActions::Flush, &self.before) {
            tracing::warn!(%error, "the terminal stays quiet: `stty echo` mends it");
        }
    }
}
