//! Lists of conversations and of their runs, and what can be done with them while a run is under way.

use crate::error::RunError;
use crate::item::StoredItem;
use crate::service::{RunService, damaged, random};
use crate::wire::items::text_of;
use crate::wire::response;
use coracle_agent::NotSteered;
use coracle_models::{Item, Part, Usage};
use coracle_store::{ConversationRecord, ItemPage, ItemsOf, RunRecord, RunState};
use coracle_types::{ConversationId, RunId, UserId};
use serde_json::Map;
use std::time::SystemTime;

/// Maximum length of the preview of a conversation, in characters.
const MAX_PREVIEW: usize = 120;
/// Number of items at the beginning of a conversation among which its first message is looked for.
const FIRST_ITEMS: usize = 5;

/// A conversation in a list.
#[derive(Clone, Debug, PartialEq)]
pub struct ConversationSummary {
    /// The conversation.
    pub record: ConversationRecord,
    /// The beginning of the first message, if the conversation has no title.
    pub preview: Option<String>,
    /// The run that is under way in it.
    pub running: Option<RunId>,
}

/// A run in a list.
#[derive(Clone, Debug, PartialEq)]
pub struct RunSummary {
    /// The run ID.
    pub id: RunId,
    /// The conversation that the run belongs to.
    pub conversation: Option<ConversationId>,
    /// Full name of the model.
    pub model: String,
    /// The state.
    pub state: RunState,
    /// Whether the run was started in the background.
    pub is_background: bool,
    /// When the run began.
    pub created_at: SystemTime,
    /// When the run ended, if it has.
    pub ended_at: Option<SystemTime>,
    /// Why the run ended, as a stable code.
    pub ended: Option<String>,
    /// The reason for people, if the run did not complete.
    pub message: Option<String>,
    /// The tokens of all steps, once the run has ended.
    pub usage: Option<Usage>,
}

impl RunService {
    /// Creates an empty conversation.
    pub async fn add_conversation(
        &self,
        user: &UserId,
        title: Option<String>,
    ) -> Result<ConversationSummary, RunError> {
        let now = SystemTime::now();
        let id = ConversationId::from_random(random()?);
        let record = ConversationRecord { id, title, metadata: Map::new(), created_at: now, changed_at: now };
        self.inner.store.create_conversation(user, &record, &[]).await?;
        Ok(ConversationSummary { record, preview: None, running: None })
    }

    /// Conversations of a user, last changed first: those that contain a text, if one is given. Only those after
    /// `before` in this order, if it is given.
    pub async fn list_conversations(
        &self,
        user: &UserId,
        text: Option<&str>,
        limit: usize,
        before: Option<&ConversationId>,
    ) -> Result<Vec<ConversationSummary>, RunError> {
        let store = &self.inner.store;
        let records = match text {
            Some(text) => store.search_conversations(user, text, limit, before).await?,
            None => store.conversations(user, limit, before).await?,
        };
        let mut summaries = Vec::with_capacity(records.len());
        for record in records {
            summaries.push(self.summary(user, record).await?);
        }
        Ok(summaries)
    }

    /// One conversation.
    pub async fn find_conversation(
        &self,
        user: &UserId,
        id: &ConversationId,
    ) -> Result<Option<ConversationSummary>, RunError> {
        match self.inner.store.conversation(user, id).await? {
            Some(record) => Ok(Some(self.summary(user, record).await?)),
            None => Ok(None),
        }
    }

    pub(crate) async fn summary(
        &self,
        user: &UserId,
        record: ConversationRecord,
    ) -> Result<ConversationSummary, RunError> {
        let preview = if record.title.is_none() { self.preview(user, &record.id).await? } else { None };
        let running = self.live_in(user, &record.id).map(|run| run.id.clone());
        Ok(ConversationSummary { record, preview, running })
    }

    async fn preview(&self, user: &UserId, id: &ConversationId) -> Result<Option<String>, RunError> {
        let page = ItemPage { limit: Some(FIRST_ITEMS), ..ItemPage::ALL };
        let items = self.inner.store.items(user, ItemsOf::Conversation(id), page).await?;
        let text = items.iter().find_map(|item| match StoredItem::of(item)? {
            StoredItem::Item(Item::User { parts }) => Some(text_of(&parts)),
            _ => None,
        });
        // One line, without what would confuse a terminal.
        let line = |text: String| {
            let words: Vec<&str> = text.split(|c: char| c.is_whitespace() || c.is_control()).collect();
            let words = words.into_iter().filter(|word| !word.is_empty()).collect::<Vec<_>>().join(" ");
            words.chars().take(MAX_PREVIEW).collect::<String>()
        };
        Ok(text.map(line).filter(|line| !line.is_empty()))
    }

    /// Sets or removes the title of a conversation.
    pub async fn rename_conversation(
        &self,
        user: &UserId,
        id: &ConversationId,
        title: Option<&str>,
    ) -> Result<Option<ConversationSummary>, RunError> {
        self.inner.store.rename_conversation(user, id, title).await?;
        self.find_conversation(user, id).await
    }

    /// The runs of a conversation, newest first.
    pub async fn runs_of(
        &self,
        user: &UserId,
        id: &ConversationId,
        limit: usize,
        before: Option<&RunId>,
    ) -> Result<Option<Vec<RunSummary>>, RunError> {
        let store = &self.inner.store;
        if store.conversation(user, id).await?.is_none() {
            return Ok(None);
        }
        let records = store.conversation_runs(user, id, limit, before).await?;
        records.iter().map(summary_of).collect::<Result<_, _>>().map(Some)
    }

    /// The runs of a user, newest first.
    pub async fn list_runs(
        &self,
        user: &UserId,
        limit: usize,
        before: Option<&RunId>,
    ) -> Result<Vec<RunSummary>, RunError> {
        self.inner.store.runs(user, limit, before).await?.iter().map(summary_of).collect()
    }

    /// Gives the run that is under way in a conversation a message, which the model gets before its next answer.
    pub async fn steer(&self, user: &UserId, id: &ConversationId, parts: Vec<Part>) -> Result<RunId, RunError> {
        let Some(run) = self.live_in(user, id) else {
            return Err(match self.inner.store.conversation(user, id).await? {
                Some(_) => RunError::NotRunning,
                None => RunError::Missing { what: format!("conversation `{id}`") },
            });
        };
        match run.steer(parts) {
            Ok(()) => Ok(run.id.clone()),
            Err(NotSteered::Ended) => Err(RunError::NotRunning),
            Err(NotSteered::TooMany) => Err(RunError::TooManyMessages),
        }
    }

    /// The run that is under way in a conversation in this process.
    pub fn running_in(&self, user: &UserId, id: &ConversationId) -> Option<RunId> {
        self.live_in(user, id).map(|run| run.id.clone())
    }

    /// Stops the run that is under way in a conversation and returns it, once it has ended. `None` if there is none.
    pub async fn stop_in(&self, user: &UserId, id: &ConversationId) -> Result<Option<RunSummary>, RunError> {
        let store = &self.inner.store;
        if store.conversation(user, id).await?.is_none() {
            return Err(RunError::Missing { what: format!("conversation `{id}`") });
        }
        let Some(run) = self.live_in(user, id) else { return Ok(None) };
        self.stop(user, &run.id).await?;
        store.run(user, &run.id).await?.as_ref().map(summary_of).transpose()
    }
}

fn summary_of(record: &RunRecord) -> Result<RunSummary, RunError> {
    let (spec, outcome) = response::read(record).map_err(|error| damaged(&record.id, &error))?;
    let (ended, message, usage) = match outcome {
        Some(outcome) => (Some(outcome.ended), outcome.message, Some(outcome.usage)),
        None => (None, None, None),
    };
    Ok(RunSummary {
        id: record.id.clone(),
        conversation: record.conversation.clone(),
        model: spec.model,
        state: record.state,
        is_background: record.is_background,
        created_at: record.created_at,
        ended_at: record.ended_at,
        ended,
        message,
        usage,
    })
}
