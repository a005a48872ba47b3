//! Progress notifications for a call, if the client wants them.

use coracle_types::Event;
use rmcp::model::{ProgressNotificationParam, ProgressToken};
use rmcp::service::{Peer, RequestContext, RoleServer};
use std::time::Duration;
use tokio::sync::mpsc;
use tokio::time::{Instant, sleep_until};

/// Minimum interval between two notifications.
const SHORTEST: Duration = Duration::from_millis(100);
/// Interval of notifications while nothing is printed.
const LONGEST: Duration = Duration::from_secs(5);
/// Maximum length of a message in characters.
const MAX_CHARS: usize = 200;
/// Maximum number of events that wait to be reported.
const QUEUE: usize = 64;

enum Source {
    /// No progress is reported.
    Nothing,
    /// Output of code.
    Output(mpsc::Receiver<Event>),
}

pub(crate) struct Progress {
    token: Option<ProgressToken>,
    source: Source,
    begun: Instant,
    next: Instant,
    count: f64,
    line: String,
}

impl Progress {
    fn new(token: Option<ProgressToken>, source: Source) -> Self {
        let begun = Instant::now();
        Self { token, source, begun, next: begun + SHORTEST, count: 0.0, line: String::new() }
    }

    /// Progress of code, with a sender for its events.
    pub(crate) fn of_code(context: &RequestContext<RoleServer>) -> (Self, Option<mpsc::Sender<Event>>) {
        let Some(token) = context.meta.get_progress_token() else {
            return (Self::none(), None);
        };
        let (sender, events) = mpsc::channel(QUEUE);
        (Self::new(Some(token), Source::Output(events)), Some(sender))
    }

    /// No progress, for calls that report it themselves.
    pub(crate) fn none() -> Self {
        Self::new(None, Source::Nothing)
    }

    /// Uses the progress token of another request from now on.
    pub(crate) fn follow(&mut self, context: &RequestContext<RoleServer>) {
        self.token = context.meta.get_progress_token();
    }

    /// Sends at most one notification. Never returns if there is nothing to report.
    pub(crate) async fn report(&mut self, peer: &Peer<RoleServer>) {
        let Some(token) = self.token.clone() else { return std::future::pending().await };
        let param = match &mut self.source {
            Source::Nothing => return std::future::pending().await,
            Source::Output(events) => {
                // Reads events until the next notification is due; the last line counts.
                loop {
                    let due = if self.line.is_empty() { self.next + LONGEST - SHORTEST } else { self.next };
                    tokio::select! {
                        event = events.recv() => match event {
                            Some(Event::Output { bytes, .. }) => {
                                if let Some(line) = last_line(&bytes) {
                                    self.line = line;
                                }
                            }
                            Some(Event::Waiting { servers }) if !servers.is_empty() => {
                                self.line = format!("waiting for {} to start", servers.join(", "));
                            }
                            Some(Event::Waiting { .. }) => {}
                            None => return std::future::pending().await,
                        },
                        () = sleep_until(due) => break,
                    }
                }
                let line = std::mem::take(&mut self.line);
                let line =
                    if line.is_empty() { format!("running for {} s", self.begun.elapsed().as_secs()) } else { line };
                self.count += 1.0;
                let mut param = ProgressNotificationParam::new(token, self.count);
                param.message = Some(line);
                param
            }
        };
        self.next = Instant::now() + SHORTEST;
        if let Err(error) = peer.notify_progress(param).await {
            tracing::debug!(%error, "cannot send a progress notification");
        }
    }
}

/// Returns the last line that is not blank, without control characters.
fn last_line(bytes: &[u8]) -> Option<String> {
    let end = bytes.len().min(64 << 10);
    let text = String::from_utf8_lossy(bytes.get(bytes.len() - end..)?);
    let line = text.lines().rev().find(|line| !line.trim().is_empty())?;
    Some(line.chars().filter(|c| !coracle_types::is_hidden(*c)).take(MAX_CHARS).collect())
}

#[cfg(test)]
mod tests {
    use super::last_line;

    #[test]
    fn the_last_line_is_reported() {
        assert_eq!(last_line(b"one\ntwo\n\n"), Some("two".to_owned()));
        assert_eq!(last_line(b"\x1b[31mred"), Some("[31mred".to_owned()));
        assert_eq!(last_line(b"  \n"), None);
        assert_eq!(last_line(&b"x".repeat(1 << 20)).unwrap().len(), 200);
    }
}
