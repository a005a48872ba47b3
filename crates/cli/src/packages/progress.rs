use crate::plain::plain;
use indicatif::{ProgressBar, ProgressStyle};
use std::io::IsTerminal;
use std::time::Duration;

/// So much of a line is shown.
const SHOWN: usize = 60;
const TICK: Duration = Duration::from_millis(120);

/// How far it is, on standard error: a bar on a terminal, a line for each step elsewhere.
#[derive(Debug)]
pub(super) struct Progress {
    bar: ProgressBar,
    is_terminal: bool,
}

impl Progress {
    pub(super) fn new(steps: u64) -> Self {
        let bar = ProgressBar::new(steps);
        if let Ok(style) = ProgressStyle::with_template("{spinner} {bar:20} {elapsed:>4} {prefix}  {msg}") {
            bar.set_style(style);
        }
        bar.enable_steady_tick(TICK);
        Self { bar, is_terminal: std::io::stderr().is_terminal() }
    }

    /// The next step begins.
    pub(super) fn step(&self, what: &str) {
        if !self.bar.prefix().is_empty() {
            self.bar.inc(1);
        }
        self.bar.set_prefix(what.to_owned());
        self.bar.set_message("");
        if !self.is_terminal {
            eprintln!("{what}");
        }
    }

    /// What a program says while it works.
    pub(super) fn says(&self, line: &str) {
        self.bar.set_message(plain(line, SHOWN));
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        self.bar.finish_and_clear();
    }
}
