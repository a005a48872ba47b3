//! `/api/conversations/{id}/savings`: what code kept out of the context of the model.

use super::conversations::{conversation_id, missing};
use crate::http::App;
use crate::http::extract::{At, Caller};
use crate::http::problem::{ApiError, Refusals};
use axum::Json;
use axum::extract::State;
use coracle_runs::Savings;
use serde::Serialize;
use utoipa::ToSchema;
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

/// Usual number of bytes of a token.
const TOKEN_BYTES: u64 = 4;

pub(super) fn routes() -> OpenApiRouter<App> {
    OpenApiRouter::new().routes(routes!(show))
}

/// Results of tools that code in a conversation has called, and what the model got of them
#[derive(Debug, PartialEq, Eq, Serialize, ToSchema)]
#[schema(as = Savings)]
struct SavingsView {
    /// Number of executions that called tools
    executions: u64,
    /// Number of calls that were answered
    calls: u64,
    /// Size of the results of the calls in bytes
    result_bytes: u64,
    /// Size of what the model got from these executions, in bytes
    shown_bytes: u64,
    /// Size of the results that the model did not get, in bytes
    kept_bytes: u64,
    /// Estimated number of tokens that direct tool calls would have added to the context: `kept_bytes` at 4 bytes per
    /// token. Definitions of tools are not counted.
    estimated_tokens: u64,
}

impl From<Savings> for SavingsView {
    fn from(savings: Savings) -> Self {
        let Savings { executions, calls, result_bytes, shown_bytes, kept_bytes } = savings;
        let estimated_tokens = kept_bytes / TOKEN_BYTES;
        Self { executions, calls, result_bytes, shown_bytes, kept_bytes, estimated_tokens }
    }
}

/// Get the savings of a conversation
///
/// Returns how much of the results of tools stayed in the sandbox, which direct tool calls would have put into the context
/// of the model. Computed from the stored results of all executions in the conversation.
#[utoipa::path(
    get, path = "/api/conversations/{id}/savings", operation_id = "show_conversation_savings", tag = "conversations",
    params(("id" = String, Path, description = "Conversation ID")),
    responses((status = 200, body = SavingsView, description = "Sizes, and an estimate in tokens"), Refusals)
)]
async fn show(State(app): State<App>, Caller(user): Caller, At(id): At<String>) -> Result<Json<SavingsView>, ApiError> {
    let savings = app.runs.savings(&user, &conversation_id(&id)?).await?;
    savings.map(|savings| Json(savings.into())).ok_or_else(missing)
}
