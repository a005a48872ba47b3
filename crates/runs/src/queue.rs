//! Messages that wait for the runs of a conversation, and the runs that are started with them. When a run has completed,
//! the next message starts another one, whether or not anybody looks at the conversation.

use crate::error::RunError;
use crate::service::{RunService, random};
use crate::spec::RunSpec;
use crate::wire::response;
use coracle_models::{Item, Part};
use coracle_store::{QueueRecord, RunState, StoreError};
use coracle_types::{ConversationId, RunId, UserId};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// Maximum number of messages in a queue.
pub const MAX_QUEUED: usize = 100;
/// Number of attempts to write a queue that others write, too.
const ATTEMPTS: u32 = 50;
/// Number of attempts to start a run in a conversation that is busy only for a moment.
const STARTS: u32 = 3;
/// Time between them.
const PAUSE: Duration = Duration::from_millis(50);

/// The messages that wait in a conversation.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Queue {
    /// The messages, the next one first.
    pub messages: Vec<QueuedMessage>,
    /// Whether the messages wait until a person resumes the queue.
    #[serde(default)]
    pub is_held: bool,
    /// Why the next message could not be sent.
    #[serde(default)]
    pub problem: Option<String>,
}

/// A message that waits for its run.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct QueuedMessage {
    /// The ID, unique in the queue.
    pub id: String,
    /// The text, which may be empty if there are files.
    pub text: String,
    /// Uploaded files that the message is about.
    #[serde(default)]
    pub files: Vec<QueuedFile>,
    /// What the model is told about the files, and their images.
    #[serde(default)]
    pub parts: Vec<Part>,
    /// The request for the run.
    pub spec: RunSpec,
    /// When the message was added, in milliseconds since 1970.
    pub added_ms: u64,
    /// The run that is being started with the message. If the process is killed meanwhile, the next one can tell whether it
    /// was started.
    #[serde(default)]
    starting: Option<RunId>,
}

/// An uploaded file of a message.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct QueuedFile {
    /// ID of the upload.
    pub id: String,
    /// The name.
    pub name: String,
    /// Size in bytes.
    pub bytes: u64,
    /// Whether the model gets the file as an image.
    pub is_shown: bool,
}

/// A message to be added.
#[derive(Clone, Debug)]
pub struct NewMessage {
    /// The text.
    pub text: String,
    /// Uploaded files.
    pub files: Vec<QueuedFile>,
    /// What the model is told about the files.
    pub parts: Vec<Part>,
    /// The request for the run.
    pub spec: RunSpec,
    /// Whether the message is sent before all others.
    pub is_first: bool,
}

/// A change to a queue.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum QueueChange {
    /// Replaces the text of a message.
    Edit {
        /// The message.
        id: String,
        /// The new text.
        text: String,
    },
    /// Removes a message.
    Remove {
        /// The message.
        id: String,
    },
    /// Sorts the messages. Those that are not named stay behind the others, in their order.
    Order(Vec<String>),
    /// Holds the queue, or lets it go on.
    Hold(bool),
    /// Removes all messages.
    Clear,
}

impl Queue {
    /// The messages that can still be changed: not those whose run is being started.
    pub fn waiting(&self) -> impl Iterator<Item = &QueuedMessage> {
        self.messages.iter().filter(|message| message.starting.is_none())
    }

    fn waiting_mut(&mut self, id: &str) -> Result<&mut QueuedMessage, RunError> {
        let found = self.messages.iter_mut().find(|message| message.id == id && message.starting.is_none());
        found.ok_or_else(|| missing_message(id))
    }

    fn add(&mut self, message: QueuedMessage, is_first: bool) -> Result<(), RunError> {
        if self.messages.len() >= MAX_QUEUED {
            return Err(RunError::invalid("text", format!("the queue is full: it has {MAX_QUEUED} messages")));
        }
        if self.messages.is_empty() {
            (self.is_held, self.problem) = (false, None);
        }
        let place = if is_first {
            self.messages.iter().filter(|one| one.starting.is_some()).count()
        } else {
            self.messages.len()
        };
        self.messages.insert(place, message);
        Ok(())
    }

    fn apply(&mut self, change: &QueueChange) -> Result<(), RunError> {
        match change {
            QueueChange::Edit { id, text } => {
                let message = self.waiting_mut(id)?;
                if text.trim().is_empty() && message.files.is_empty() {
                    return Err(RunError::invalid("text", "is empty"));
                }
                message.text.clone_from(text);
            }
            QueueChange::Remove { id } => {
                self.waiting_mut(id)?;
                self.messages.retain(|message| message.id != *id);
            }
            QueueChange::Order(ids) => {
                for id in ids {
                    self.waiting_mut(id)?;
                }
                // Messages whose run is being started are not named, and stay in front.
                let place = |message: &QueuedMessage| match &message.starting {
                    Some(_) => 0,
                    None => ids.iter().position(|id| *id == message.id).map_or(usize::MAX, |place| place + 1),
                };
                self.messages.sort_by_key(place);
            }
            QueueChange::Hold(is_held) => {
                self.is_held = *is_held;
                if !is_held {
                    self.problem = None;
                }
            }
            QueueChange::Clear => self.messages.retain(|message| message.starting.is_some()),
        }
        Ok(())
    }

    /// The next message, if it may be sent now.
    fn next(&self) -> Option<&QueuedMessage> {
        self.messages.first().filter(|message| !self.is_held && message.starting.is_none())
    }

    /// The queue as it is stored; `None` if it is empty.
    fn stored(&self) -> Result<Option<Value>, RunError> {
        let value = (!self.messages.is_empty()).then(|| serde_json::to_value(self)).transpose();
        value.map_err(|error| RunError::invalid("text", error.to_string()))
    }
}

impl RunService {
    /// The queue of a conversation; `None` if there is no such conversation.
    pub async fn queue(&self, user: &UserId, id: &ConversationId) -> Result<Option<Queue>, RunError> {
        let record = self.inner.store.queue(user, id).await?;
        record.map(|record| read(id, &record)).transpose()
    }

    /// Adds a message, and sends it at once if nothing is under way.
    pub async fn enqueue(&self, user: &UserId, id: &ConversationId, new: NewMessage) -> Result<Queue, RunError> {
        let NewMessage { text, files, parts, spec, is_first } = new;
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        let message = QueuedMessage {
            id: format!("q_{:032x}", random()?),
            text,
            files,
            parts,
            spec,
            added_ms: u64::try_from(now.as_millis()).unwrap_or(u64::MAX),
            starting: None,
        };
        self.rewrite(user, id, |queue| queue.add(message.clone(), is_first)).await?;
        self.sent(user, id).await
    }

    /// Changes a queue, and sends its next message if it waits for nothing else.
    pub async fn change_queue(
        &self,
        user: &UserId,
        id: &ConversationId,
        change: &QueueChange,
    ) -> Result<Queue, RunError> {
        self.rewrite(user, id, |queue| queue.apply(change)).await?;
        self.sent(user, id).await
    }

    /// Sends the next message if nothing is under way, and returns what is left.
    async fn sent(&self, user: &UserId, id: &ConversationId) -> Result<Queue, RunError> {
        // A client that goes away must not leave a run half started.
        let (service, owner, conversation) = (self.clone(), user.clone(), id.clone());
        let sending = tokio::spawn(async move { service.send_next(&owner, &conversation).await });
        sending.await.unwrap_or(Ok(()))?;
        Ok(self.queue(user, id).await?.unwrap_or_default())
    }

    /// Reads, changes and writes a queue. The change is made again if somebody else has written in between.
    async fn rewrite<T>(
        &self,
        user: &UserId,
        id: &ConversationId,
        mut change: impl FnMut(&mut Queue) -> Result<T, RunError>,
    ) -> Result<T, RunError> {
        let store = &self.inner.store;
        let missing = || RunError::Missing { what: format!("conversation `{id}`") };
        for _ in 0..ATTEMPTS {
            let record = store.queue(user, id).await?.ok_or_else(missing)?;
            let before = read(id, &record)?;
            let mut queue = before.clone();
            let result = change(&mut queue)?;
            if queue == before {
                return Ok(result);
            }
            match store.put_queue(user, id, queue.stored()?.as_ref(), record.version).await {
                Ok(_) => return Ok(result),
                Err(StoreError::Conflict { .. }) => tokio::task::yield_now().await,
                Err(error) => return Err(error.into()),
            }
        }
        Err(RunError::Store(StoreError::Conflict { what: format!("the queue of {id}"), expected: 0 }))
    }

    /// Starts a run with the next message, unless one is under way or the queue is held.
    async fn send_next(&self, user: &UserId, id: &ConversationId) -> Result<(), RunError> {
        for attempt in 1..=STARTS {
            // What is under way sends the next message when it ends, and the next process when it starts.
            if self.live_in(user, id).is_some() || self.inner.stop.is_cancelled() {
                return Ok(());
            }
            let run = RunId::from_random(random()?);
            let claimed = self.rewrite(user, id, |queue| {
                let Some(next) = queue.next().map(|next| next.id.clone()) else { return Ok(None) };
                let message = queue.waiting_mut(&next)?;
                message.starting = Some(run.clone());
                Ok(Some(message.clone()))
            });
            let Some(message) = claimed.await? else { return Ok(()) };
            let text = (!message.text.trim().is_empty()).then(|| Part::text(message.text.clone()));
            let parts: Vec<Part> = text.into_iter().chain(message.parts.iter().cloned()).collect();
            let spec = RunSpec { conversation: Some(id.clone()), ..message.spec.clone() };
            let started = Box::pin(self.begin(run, user, spec, vec![Item::User { parts }], None)).await;
            let is_busy = matches!(started, Err(RunError::Busy));
            let settled = self.rewrite(user, id, |queue| {
                match &started {
                    Ok(_) => queue.messages.retain(|one| one.id != message.id),
                    Err(error) => {
                        let own = queue.messages.iter_mut().filter(|one| one.id == message.id);
                        own.for_each(|one| one.starting = None);
                        if !is_busy {
                            (queue.is_held, queue.problem) = (true, Some(error.to_string()));
                        }
                    }
                }
                Ok(())
            });
            settled.await?;
            match started {
                Ok(run) => tracing::info!(run = %run.id, %user, conversation = %id, "a queued message was sent"),
                Err(RunError::Busy) if attempt < STARTS => {
                    // The run in the way may have ended before the message could be sent again.
                    tokio::time::sleep(PAUSE).await;
                    continue;
                }
                Err(error) => tracing::warn!(%user, conversation = %id, %error, "a queued message was not sent"),
            }
            return Ok(());
        }
        Ok(())
    }

    /// What follows the end of a run: the next message, or a pause if the run did not complete.
    pub(crate) async fn after_run(&self, user: &UserId, conversation: &ConversationId, run: &RunId) {
        let result = async {
            if self.queue(user, conversation).await?.is_none_or(|queue| queue.messages.is_empty()) {
                return Ok(());
            }
            let Some(record) = self.inner.store.run(user, run).await? else { return Ok(()) };
            match record.state {
                RunState::Running => Ok(()),
                RunState::Completed => {
                    let ended = response::read(&record).ok().and_then(|(_, outcome)| outcome);
                    // A run whose client has to go on is continued by the client.
                    if ended.is_some_and(|outcome| outcome.ended == "done") {
                        self.send_next(user, conversation).await
                    } else {
                        Ok(())
                    }
                }
                RunState::Incomplete | RunState::Failed | RunState::Cancelled => self.hold(user, conversation).await,
            }
        };
        match result.await {
            // The conversation was deleted.
            Ok(()) | Err(RunError::Missing { .. }) => {}
            Err(error) => tracing::error!(%user, %conversation, %error, "cannot go on with the queue"),
        }
    }

    async fn hold(&self, user: &UserId, id: &ConversationId) -> Result<(), RunError> {
        self.rewrite(user, id, |queue| queue.apply(&QueueChange::Hold(true))).await
    }

    /// Goes on with the queues that a process before this one has left.
    pub(crate) async fn resume_queues(&self) -> Result<(), RunError> {
        for (user, id) in self.inner.store.queues().await? {
            if let Err(error) = self.resume_queue(&user, &id).await {
                tracing::error!(%user, conversation = %id, %error, "cannot go on with the queue");
            }
        }
        Ok(())
    }

    async fn resume_queue(&self, user: &UserId, id: &ConversationId) -> Result<(), RunError> {
        let store = &self.inner.store;
        let Some(queue) = self.queue(user, id).await? else { return Ok(()) };
        for message in &queue.messages {
            let Some(run) = &message.starting else { continue };
            // The run and its input are stored at once: the message was sent, or it was not.
            let is_sent = store.run(user, run).await?.is_some();
            self.rewrite(user, id, |queue| {
                if is_sent {
                    queue.messages.retain(|one| one.id != message.id);
                } else {
                    queue.messages.iter_mut().filter(|one| one.id == message.id).for_each(|one| one.starting = None);
                }
                Ok(())
            })
            .await?;
        }
        let last = store.conversation_runs(user, id, 1, None).await?.pop();
        match last.map(|run| run.state) {
            None | Some(RunState::Completed) => self.send_next(user, id).await,
            // It was taken up, and sends the next message when it ends.
            Some(RunState::Running) => Ok(()),
            Some(RunState::Incomplete | RunState::Failed | RunState::Cancelled) => self.hold(user, id).await,
        }
    }
}

fn read(id: &ConversationId, record: &QueueRecord) -> Result<Queue, RunError> {
    let Some(content) = &record.content else { return Ok(Queue::default()) };
    serde_json::from_value(content.clone()).map_err(|error| {
        RunError::Store(StoreError::Damaged { what: format!("queue of {id}"), reason: error.to_string() })
    })
}

fn missing_message(id: &str) -> RunError {
    let id: String = id.chars().take(80).collect();
    RunError::Missing { what: format!("queued message `{id}` (it may have been sent meanwhile)") }
}

#[cfg(test)]
mod tests;
