//! Reports which servers an execution waits for.

use crate::toolbox::Toolbox;
use coracle_types::{Event, UserId};
use coracle_upstream::ServerState;
use std::time::Duration;
use tokio::sync::mpsc;

/// Minimum duration of a wait that is reported.
const SHORTEST: Duration = Duration::from_millis(150);
/// Interval at which the servers that are being started are checked.
const LOOK: Duration = Duration::from_millis(250);

/// Does the work, and reports in the meantime which servers are being started.
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
                    // A listener that is too slow learns it from the next event.
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
