use crate::output::plain;
use coracle_environments::Event;
use indicatif::{ProgressBar, ProgressStyle};
use std::io::IsTerminal;
use std::time::Duration;

/// Maximum length of a printed line in characters.
const SHOWN: usize = 60;
const TICK: Duration = Duration::from_millis(120);

/// Progress on standard error: a bar on a terminal, or else a line per step.
#[derive(Debug)]
pub(super) struct Bar {
    bar: ProgressBar,
    is_terminal: bool,
}

impl Bar {
    pub(super) fn new() -> Self {
        let bar = ProgressBar::new(100);
        if let Ok(style) =
            ProgressStyle::with_template("{spinner} [{bar:24}] {percent:>3}% {elapsed:>4} {prefix}  {msg}")
        {
            bar.set_style(style.progress_chars("=> "));
        }
        Self { bar, is_terminal: std::io::stderr().is_terminal() }
    }

    pub(super) fn show(&self, event: Event<'_>) {
        match event {
            Event::Begun => {
                self.bar.reset();
                self.bar.enable_steady_tick(TICK);
            }
            Event::Step(what) => {
                self.bar.set_prefix(what.to_owned());
                self.bar.set_message("");
                if !self.is_terminal {
                    eprintln!("{what}");
                }
            }
            Event::Percent(done) => self.bar.set_position(done),
            Event::Line(line) => self.bar.set_message(plain(line, SHOWN)),
        }
    }
}

impl Drop for Bar {
    fn drop(&mut self) {
        self.bar.finish_and_clear();
    }
}
