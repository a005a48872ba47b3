//! Tells whoever listens to an execution which servers it waits for.

use crate::toolbox::Toolbox;
use coracle_types::{Event, UserId};
use coracle_upstream::ServerState;
use std::time::Duration;
use tokio::sync::mpsc;

/// A shorter wait is not worth a word.
const SHORTEST: Duration = Duration::from_millis(150);
/// How often it is looked which servers are still being started.
const LOOK: Duration = Duration::from_millis(250);

/// Does the work, and meanwhile tells which servers are being started.
pub(crate) async fn telling<T>(
    toolbox: &Toolbox,
    user: &UserId,
    events: Option<&mpsc::Sender<Event>>,
    work: impl Future<Output = T>,
) -> T {
    let Some(events) = events else { return work.await };
    tokio::pin!(work);
    let mut told = Vec::new();
    let mut pause = SHORTEST;
    loop {
        tokio::select! {
            biased;
            done = &mut work => {
                if !told.is_empty() {
                    // A listener that is too slow learns of it by what comes next.
                    let _ = events.try_send(Event::Waiting { servers: Vec::new() });
                }
                return done;
            }
            () = tokio::time::sleep(pause) => {}
        }
        pause = LOOK;
        let starting: Vec<String> = toolbox
            .upstream()
            .status(user)
            .into_iter()
            .filter(|status| status.state == ServerState::Starting)
            .map(|status| status.name.to_string())
            .collect();
        if starting != told && events.try_send(Event::Waiting { servers: starting.clone() }).is_ok() {
            told = starting;
        }
    }
}
