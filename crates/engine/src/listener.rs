//! The listener of an execution: it learns of calls, questions and artifacts while they happen.

use coracle_types::Event;
use tokio::runtime::Handle;
use tokio::sync::mpsc::{self, error::TrySendError};

/// The listener of an execution, if there is one.
#[derive(Clone, Debug, Default)]
pub(crate) struct Listener(Option<mpsc::Sender<Event>>);

impl Listener {
    pub(crate) fn new(events: Option<mpsc::Sender<Event>>) -> Self {
        Self(events)
    }

    /// Whether anyone listens. If not, events need not be created.
    pub(crate) fn is_present(&self) -> bool {
        self.0.as_ref().is_some_and(|events| !events.is_closed())
    }

    /// Reports an event. Waits for a slow listener, as output does.
    pub(crate) async fn tell(&self, event: Event) {
        if let Some(events) = &self.0 {
            // An execution does not end because nobody listens any more.
            let _ = events.send(event).await;
        }
    }

    /// Reports an event where nothing can wait. If the listener is slow, a task waits for it instead.
    pub(crate) fn tell_later(&self, event: Event) {
        let Some(events) = &self.0 else { return };
        if let Err(TrySendError::Full(event)) = events.try_send(event)
            && let Ok(runtime) = Handle::try_current()
        {
            let events = events.clone();
            runtime.spawn(async move { events.send(event).await });
        }
    }
}
