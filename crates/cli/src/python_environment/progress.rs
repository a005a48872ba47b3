use crate::output::plain;
use indicatif::{ProgressBar, ProgressStyle};
use std::io::IsTerminal;
use std::sync::Mutex;
use std::sync::PoisonError;
use std::time::Duration;

/// Maximum length of a printed line in characters.
const SHOWN: usize = 60;
const TICK: Duration = Duration::from_millis(120);

/// Progress on standard error: a bar on a terminal, or else a line per step.
#[derive(Debug)]
pub(super) struct Progress {
    bar: ProgressBar,
    is_terminal: bool,
    place: Mutex<Place>,
}

#[derive(Debug, Default)]
struct Place {
    /// Share of each step.
    steps: Vec<u64>,
    /// Current step, counted from 1.
    step: usize,
    /// Number of packages to install, as far as known, and of those that are ready.
    packages: u64,
    ready: u64,
}

impl Place {
    /// Position of the bar.
    fn position(&self) -> u64 {
        let before: u64 = self.steps.iter().take(self.step.saturating_sub(1)).sum();
        let this = self.steps.get(self.step.saturating_sub(1)).copied().unwrap_or_default();
        before + (this * self.ready.min(self.packages)).checked_div(self.packages).unwrap_or_default()
    }

    /// Counts packages in the output of uv or pip.
    fn hear(&mut self, line: &str) {
        let line = line.trim_start();
        let counted = |rest: &str| rest.split(' ').next().and_then(|count| count.parse::<u64>().ok());
        if let Some(count) = line.strip_prefix("Resolved ").and_then(counted) {
            self.packages = count;
        } else if line.starts_with("Collecting ") {
            self.packages += 1;
        } else if line.starts_with("Downloaded ") || line.contains(".whl (") || line.starts_with("Processing ") {
            // Metadata is downloaded before the package, and uv reports each download twice.
            self.ready += u64::from(!line.contains(".metadata"));
        } else if line.starts_with("Prepared ") || line.starts_with("Installing collected packages") {
            self.ready = self.packages;
        }
    }
}

impl Progress {
    /// Creates a bar with the share of each step.
    pub(super) fn new(steps: &[u64]) -> Self {
        let bar = ProgressBar::new(steps.iter().sum());
        if let Ok(style) =
            ProgressStyle::with_template("{spinner} [{bar:24}] {percent:>3}% {elapsed:>4} {prefix}  {msg}")
        {
            bar.set_style(style.progress_chars("=> "));
        }
        bar.enable_steady_tick(TICK);
        let place = Mutex::new(Place { steps: steps.to_vec(), ..Place::default() });
        Self { bar, is_terminal: std::io::stderr().is_terminal(), place }
    }

    fn change(&self, change: impl FnOnce(&mut Place)) {
        let mut place = self.place.lock().unwrap_or_else(PoisonError::into_inner);
        change(&mut place);
        self.bar.set_position(place.position());
    }

    /// Starts the next step.
    pub(super) fn step(&self, what: &str) {
        self.change(|place| (place.step, place.packages, place.ready) = (place.step + 1, 0, 0));
        self.bar.set_prefix(what.to_owned());
        self.bar.set_message("");
        if !self.is_terminal {
            eprintln!("{what}");
        }
    }

    /// Sets the number of packages to install.
    pub(super) fn expect(&self, packages: usize) {
        self.change(|place| (place.packages, place.ready) = (packages as u64, 0));
    }

    /// Shows a line of the program's output.
    pub(super) fn says(&self, line: &str) {
        self.change(|place| place.hear(line));
        self.bar.set_message(plain(line, SHOWN));
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        self.bar.finish_and_clear();
    }
}

#[cfg(test)]
mod tests {
    use super::Place;

    #[test]
    fn the_bar_follows_the_output() {
        let mut place = Place { steps: vec![10, 80, 10], step: 2, ..Place::default() };
        let mut at = |line: &str| {
            place.hear(line);
            place.position()
        };
        assert_eq!(at("Resolved 4 packages in 1s"), 10);
        assert_eq!(at(" Downloading numpy (15.9MiB)"), 10);
        assert_eq!(at(" Downloaded numpy"), 30);
        assert_eq!(at("Downloading x-1.0-py3-none-any.whl.metadata (2 kB)"), 30);
        assert_eq!(at("Prepared 4 packages in 3s"), 90);
        assert_eq!(at(" Downloaded more"), 90, "never beyond the step");
    }
}
