//! Progress notifications for a call, if the client wants them.

use coracle_types::{Event, ToolCall};
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
        self.use_token(context.meta.get_progress_token());
    }

    fn use_token(&mut self, token: Option<ProgressToken>) {
        if token.is_none() {
            // Otherwise the code would wait until its events are read.
            self.source = Source::Nothing;
        }
        self.token = token;
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
                            Some(event) => {
                                if let Some(line) = message(&event) {
                                    self.line = line;
                                }
                            }
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

/// Returns what a notification says about an event.
fn message(event: &Event) -> Option<String> {
    let text = match event {
        Event::Output { bytes, .. } => return last_line(bytes),
        Event::Waiting { servers } if servers.is_empty() => return None,
        Event::Waiting { servers } => format!("waiting for {} to start", servers.join(", ")),
        Event::CallBegan { server, tool, .. } => format!("calling {server}.{tool}"),
        Event::Asked { server, tool, .. } => format!("waiting for approval of {server}.{tool}"),
        Event::Sandbox(_) | Event::Answered { .. } => return None,
        Event::CallEnded { call, .. } => {
            let ToolCall { server, tool, code, ms, .. } = call;
            match code {
                None => format!("{server}.{tool} answered after {ms} ms"),
                Some(code) => format!("{server}.{tool} failed after {ms} ms: {code}"),
            }
        }
        Event::Artifact(artifact) => format!("saved {}", artifact.path),
    };
    Some(shown(&text))
}

/// Returns the last line that is not blank, without control characters.
fn last_line(bytes: &[u8]) -> Option<String> {
    let end = bytes.len().min(64 << 10);
    let text = String::from_utf8_lossy(bytes.get(bytes.len() - end..)?);
    let line = text.lines().rev().find(|line| !line.trim().is_empty())?;
    Some(shown(line))
}

/// Shortens a text that contains untrusted parts, and removes control characters.
fn shown(text: &str) -> String {
    text.chars().filter(|c| !coracle_types::is_hidden(*c)).take(MAX_CHARS).collect()
}

#[cfg(test)]
mod tests {
    use super::{MAX_CHARS, Progress, Source, last_line, message};
    use coracle_types::{Event, ToolCall};
    use rmcp::model::{NumberOrString, ProgressToken};
    use tokio::sync::mpsc;

    #[test]
    fn the_last_line_is_reported() {
        assert_eq!(last_line(b"one\ntwo\n\n"), Some("two".to_owned()));
        assert_eq!(last_line(b"\x1b[31mred"), Some("[31mred".to_owned()));
        assert_eq!(last_line(b"  \n"), None);
        assert_eq!(last_line(&b"x".repeat(1 << 20)).unwrap().len(), 200);
    }

    #[tokio::test]
    async fn code_does_not_wait_for_a_request_without_a_progress_token() {
        let token = || Some(ProgressToken(NumberOrString::Number(7)));
        let (sender, events) = mpsc::channel::<Event>(1);
        let mut progress = Progress::new(token(), Source::Output(events));
        progress.use_token(token());
        assert!(!sender.is_closed());
        progress.use_token(None);
        assert!(sender.is_closed());
    }

    #[test]
    fn calls_are_reported_on_one_short_line() {
        let began = |tool: &str| {
            let (server, arguments) = ("git".to_owned(), "{}".to_owned());
            message(&Event::CallBegan { number: 1, server, tool: tool.to_owned(), arguments, began_ms: 0 })
        };
        assert_eq!(began("log").unwrap(), "calling git.log");
        assert_eq!(began("l\u{1b}[2Ko\ng").unwrap(), "calling git.l[2Kog");
        assert_eq!(began(&"x".repeat(1 << 16)).unwrap().len(), MAX_CHARS);
        let ended = |code: Option<&str>| {
            let (server, tool, code) = ("git".to_owned(), "log".to_owned(), code.map(str::to_owned));
            let call = ToolCall {
                server,
                tool,
                ok: code.is_none(),
                code,
                began_ms: Some(3),
                ms: 12,
                bytes_in: 2,
                bytes_out: 3,
                start_ms: None,
                replayed: false,
                planned: false,
            };
            message(&Event::CallEnded { number: 1, call }).unwrap()
        };
        assert_eq!(ended(None), "git.log answered after 12 ms");
        assert_eq!(ended(Some("timeout")), "git.log failed after 12 ms: timeout");
    }
}
