//! Spinner at a terminal while the command waits.

use indicatif::{ProgressBar, ProgressStyle};
use std::time::Duration;

/// Interval of the animation.
const TICK: Duration = Duration::from_millis(120);

/// Spinner while servers start.
#[derive(Default)]
pub(crate) struct Spinner(Option<ProgressBar>);

impl Spinner {
    /// Shows the servers that are starting; without any, the spinner stops.
    pub(crate) fn waits_for(&mut self, servers: &[String]) {
        if servers.is_empty() {
            return self.stop();
        }
        let spinner = self.0.get_or_insert_with(|| {
            let style = ProgressStyle::with_template("{spinner} {wide_msg} {elapsed}");
            let spinner = ProgressBar::new_spinner();
            let spinner = style.map_or_else(|_| spinner.clone(), |style| spinner.clone().with_style(style));
            spinner.enable_steady_tick(TICK);
            spinner
        });
        spinner.set_message(format!("waiting for {} to start", servers.join(", ")));
    }

    /// Removes the spinner from the screen.
    pub(crate) fn stop(&mut self) {
        if let Some(spinner) = self.0.take() {
            spinner.finish_and_clear();
        }
    }
}

impl Drop for Spinner {
    fn drop(&mut self) {
        self.stop();
    }
}
