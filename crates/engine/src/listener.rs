//! The listener of an execution: it learns of calls, questions and artifacts while they happen.

use crate::privacy::ForModel;
use coracle_types::Event;
use tokio::runtime::Handle;
use tokio::sync::mpsc::{self, error::TrySendError};

/// The listener of an execution, if there is one.
#[derive(Clone, Debug, Default)]
pub(crate) struct Listener {
    events: Option<mpsc::Sender<Event>>,
    /// Set if a model listens.
    for_model: Option<ForModel>,
}

impl Listener {
    pub(crate) fn new(events: Option<mpsc::Sender<Event>>, for_model: Option<ForModel>) -> Self {
        Self { events, for_model }
    }

    /// Whether anyone listens. If not, events need not be created.
    pub(crate) fn is_present(&self) -> bool {
        self.events.as_ref().is_some_and(|events| !events.is_closed())
    }

    /// Reports an event. Waits for a slow listener, as output does.
    pub(crate) async fn tell(&self, event: Event) {
        let Some(events) = &self.events else { return };
        let event = match &self.for_model {
            Some(for_model) => for_model.protect_event(event).await,
            None => Some(event),
        };
        if let Some(event) = event {
            // An execution does not end because nobody listens any more.
            let _ = events.send(event).await;
        }
    }

    /// Reports an event where nothing can wait. If the listener is slow, a task waits for it instead.
    pub(crate) fn tell_later(&self, event: Event) {
        let Some(events) = &self.events else { return };
        if self.for_model.is_some() {
            if let Ok(runtime) = Handle::try_current() {
                let listener = self.clone();
                runtime.spawn(async move { listener.tell(event).await });
            }
            return;
        }
        if let Err(TrySendError::Full(event)) = events.try_send(event)
            && let Ok(runtime) = Handle::try_current()
        {
            let events = events.clone();
            runtime.spawn(async move { events.send(event).await });
        }
    }
}
