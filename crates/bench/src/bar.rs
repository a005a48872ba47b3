use indicatif::{ProgressBar, ProgressStyle};

/// Progress bar on standard error, if that is a terminal.
pub(crate) fn bar() -> ProgressBar {
    let bar = ProgressBar::new(0);
    if let Ok(style) = ProgressStyle::with_template("{bar:30} {pos}/{len} {msg}") {
        bar.set_style(style);
    }
    bar
}
