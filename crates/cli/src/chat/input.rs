//! Reads messages from standard input.

use crate::signals::Signals;
use anyhow::Context as _;
use std::io::{BufRead as _, IsTerminal as _, Read as _};
use tokio::task::JoinHandle;

/// Maximum length of a message in bytes.
const MAX_MESSAGE_BYTES: usize = 1 << 20;

/// What was read.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Line {
    /// A message.
    Text(String),
    /// The input has ended.
    End,
    /// A signal ends the program.
    Killed,
}

/// Standard input, line by line. It is read only while a message is waited for, because questions about tool calls are
/// answered at the same terminal.
pub(super) struct Input {
    is_terminal: bool,
    /// A line that is being read. Reading cannot be stopped, so it goes on after Ctrl-C.
    reading: Option<JoinHandle<std::io::Result<Option<String>>>>,
}

impl Input {
    pub(super) fn new() -> Self {
        Self { is_terminal: std::io::stdin().is_terminal(), reading: None }
    }

    pub(super) fn is_terminal(&self) -> bool {
        self.is_terminal
    }

    /// Reads a message. At a terminal, Ctrl-C discards what was typed, and a second one in a row ends the program.
    pub(super) async fn line(&mut self, signals: &mut Signals) -> anyhow::Result<Line> {
        let mut text = String::new();
        let mut interrupted = false;
        loop {
            if self.is_terminal {
                eprint!("{}", if text.is_empty() { "> " } else { ". " });
            }
            let reading = self.reading.get_or_insert_with(|| tokio::task::spawn_blocking(read));
            let read = tokio::select! {
                read = reading => read,
                is_interrupt = signals.next_is_interrupt() => {
                    eprint!("\n");
                    if !is_interrupt || !self.is_terminal || interrupted {
                        return Ok(Line::Killed);
                    }
                    eprintln!("(Ctrl-C again or Ctrl-D to end)");
                    interrupted = true;
                    text.clear();
                    continue;
                }
            };
            self.reading = None;
            let read = read.context("cannot read standard input")?;
            let Some(line) = read.context("cannot read standard input")? else {
                if self.is_terminal {
                    eprint!("\n");
                }
                return Ok(if text.trim().is_empty() { Line::End } else { Line::Text(text) });
            };
            interrupted = false;
            anyhow::ensure!(
                text.len() + line.len() <= MAX_MESSAGE_BYTES,
                "a message is longer than {MAX_MESSAGE_BYTES} bytes"
            );
            let Some(part) = line.strip_suffix('\\') else {
                text.push_str(&line);
                return Ok(Line::Text(text));
            };
            text.push_str(part);
            text.push('\n');
        }
    }
}

/// Reads a line without its end; `None` at the end of the input.
fn read() -> std::io::Result<Option<String>> {
    let mut bytes = Vec::new();
    let most = MAX_MESSAGE_BYTES as u64 + 1;
    std::io::stdin().lock().take(most).read_until(b'\n', &mut bytes)?;
    if bytes.is_empty() {
        return Ok(None);
    }
    let text = String::from_utf8_lossy(&bytes);
    Ok(Some(text.trim_end_matches(['\n', '\r']).to_owned()))
}
