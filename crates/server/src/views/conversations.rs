use crate::timestamp::Timestamp;
use coracle_runs::{ConversationSummary, RunSummary};
use coracle_store::RunState;
use serde::Serialize;
use serde_json::{Map, Value};
use utoipa::ToSchema;

/// Conversation with the agent
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = Conversation)]
pub(crate) struct ConversationView {
    /// Conversation ID
    id: String,
    /// Title; null if none is set
    title: Option<String>,
    /// Beginning of the first message; null if there is none, or if the conversation has a title
    preview: Option<String>,
    /// Data of the client that created the conversation
    #[schema(value_type = Object)]
    metadata: Map<String, Value>,
    /// Creation time
    #[schema(value_type = String, format = DateTime)]
    created_at: Timestamp,
    /// Time of the last message or run
    #[schema(value_type = String, format = DateTime)]
    changed_at: Timestamp,
    /// ID of the run that is under way; null if there is none
    running: Option<String>,
}

impl From<ConversationSummary> for ConversationView {
    fn from(summary: ConversationSummary) -> Self {
        let ConversationSummary { record, preview, running } = summary;
        Self {
            id: record.id.to_string(),
            title: record.title,
            preview,
            metadata: record.metadata,
            created_at: record.created_at.into(),
            changed_at: record.changed_at.into(),
            running: running.map(String::from),
        }
    }
}

/// Run of the agent
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = Run)]
pub(crate) struct RunView {
    /// Run ID, which is also the ID of the response in `/v1/responses`
    id: String,
    /// Conversation ID; null if the run does not belong to a conversation
    conversation_id: Option<String>,
    /// Full name of the model
    model: String,
    /// Run state: `running`, `completed`, `incomplete` (a limit was reached), `failed` or `cancelled`
    state: &'static str,
    /// Whether the run was started in the background
    background: bool,
    /// Start time
    #[schema(value_type = String, format = DateTime)]
    created_at: Timestamp,
    /// End time; null while the run is under way
    #[schema(value_type = Option<String>, format = DateTime)]
    ended_at: Option<Timestamp>,
    /// Stable code for why the run ended, such as `done`, `steps` or `cancelled`; null while the run is under way
    ended: Option<String>,
    /// Human-readable reason why the run did not complete; null if it did, or while it is under way
    message: Option<String>,
    /// Number of input tokens of all steps; null while the run is under way
    input_tokens: Option<u64>,
    /// Number of output tokens of all steps; null while the run is under way
    output_tokens: Option<u64>,
}

impl From<RunSummary> for RunView {
    fn from(run: RunSummary) -> Self {
        Self {
            id: run.id.to_string(),
            conversation_id: run.conversation.map(String::from),
            model: run.model,
            state: run.state.as_str(),
            background: run.is_background,
            created_at: run.created_at.into(),
            ended_at: run.ended_at.map(Timestamp::from),
            ended: run.ended,
            message: run.message.filter(|_| run.state != RunState::Completed),
            input_tokens: run.usage.map(|usage| usage.input_tokens),
            output_tokens: run.usage.map(|usage| usage.output_tokens),
        }
    }
}
