use std::sync::{Mutex, PoisonError};

/// What happens while an environment is created.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Event<'a> {
    /// An attempt begins. There is another one if installed packages must change.
    Begun,
    /// A step begins.
    Step(&'a str),
    /// Share of the attempt that is done, in percent.
    Percent(u64),
    /// The installer printed this line, which is not escaped.
    Line(&'a str),
}

/// Progress of one attempt.
pub(crate) struct Progress<'a> {
    place: Mutex<Place>,
    report: &'a dyn Fn(Event<'_>),
}

#[derive(Debug, Default)]
struct Place {
    /// Share of each step in percent.
    steps: Vec<u64>,
    /// Current step, counted from 1.
    step: usize,
    /// Number of packages to install, as far as known, and of those that are ready.
    packages: u64,
    ready: u64,
}

impl Place {
    /// Percentage that is done.
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

impl<'a> Progress<'a> {
    /// Begins an attempt with the share of each step in percent.
    pub(crate) fn new(steps: &[u64], report: &'a dyn Fn(Event<'_>)) -> Self {
        report(Event::Begun);
        Self { place: Mutex::new(Place { steps: steps.to_vec(), ..Place::default() }), report }
    }

    fn change(&self, change: impl FnOnce(&mut Place)) {
        let mut place = self.place.lock().unwrap_or_else(PoisonError::into_inner);
        change(&mut place);
        (self.report)(Event::Percent(place.position()));
    }

    /// Starts the next step.
    pub(crate) fn step(&self, what: &str) {
        self.change(|place| (place.step, place.packages, place.ready) = (place.step + 1, 0, 0));
        (self.report)(Event::Step(what));
    }

    /// Sets the number of packages to install.
    pub(crate) fn expect(&self, packages: usize) {
        self.change(|place| (place.packages, place.ready) = (packages as u64, 0));
    }

    /// Takes in a line of the program's output.
    pub(crate) fn says(&self, line: &str) {
        self.change(|place| place.hear(line));
        (self.report)(Event::Line(line));
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
