//! `/api/executions`: running code and reading past executions.

use crate::http::App;
use crate::http::extract::{Asked, At, Body, Caller, listed};
use crate::http::problem::{ApiError, Refusals};
use crate::http::reader::Reader;
use crate::mcp::CodeRequest;
use crate::timestamp::Timestamp;
use axum::Json;
use axum::extract::State;
use coracle_engine::Access;
use coracle_policy::Interface;
use coracle_privacy::Item;
use coracle_store::ExecutionRecord;
use coracle_types::{ErrorCode, Execution, ExecutionId};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use utoipa::{IntoParams, ToSchema};
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

pub(super) fn routes() -> OpenApiRouter<App> {
    OpenApiRouter::new().routes(routes!(execute, list)).routes(routes!(show))
}

/// Execution result
#[derive(Serialize, ToSchema)]
struct Ran {
    /// Result in the format of the `execute_code` tool: `execution_id`, `session`, `language`, `success`, `result`,
    /// `output`, `stdout`, `stderr`, `exit_code`, `error`, `error_code`, `traceback`, `hint`, `execution_time_ms`,
    /// `truncated`, `output_file`, `calls`, `artifacts`, `limits`.
    #[serde(flatten)]
    #[schema(value_type = Object)]
    execution: Execution,
}

/// Treatment of calls that need an approval.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, ToSchema)]
#[serde(rename_all = "lowercase")]
enum OnQuestion {
    /// They are refused.
    #[default]
    Refuse,
    /// They wait for an answer on `/api/approvals`.
    Wait,
}

/// Query parameters for running code.
#[derive(Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
#[serde(deny_unknown_fields)]
struct Running {
    /// Treatment of tool calls that need an approval: they are refused (`refuse`, the default), or wait for an answer
    /// on `/api/approvals` (`wait`)
    #[serde(default)]
    #[param(inline, required = false)]
    approvals: OnQuestion,
    /// Whether calls of tools that are not marked as read-only are refused
    #[serde(default)]
    #[param(inline, required = false)]
    read_only: bool,
    /// Whether the execution is listed. Programs that run code for purposes of their own, such as the preview of a
    /// document, may leave it out of the list, which requires `read_only`. The audit log has it in any case.
    #[serde(default = "listed_by_default")]
    #[param(inline, required = false, default = true)]
    listed: bool,
}

fn listed_by_default() -> bool {
    true
}

/// Run code and wait for it to finish
///
/// Code that fails is reported with status 200 and `success: false`. The clock of the code stops while a call waits for
/// an approval.
#[utoipa::path(
    post, path = "/api/executions", operation_id = "execute", tag = "executions", params(Running),
    request_body = CodeRequest,
    responses(
        (status = 200, body = Object, description = "Execution result; `success` is `false` if the code failed"),
        Refusals
    )
)]
async fn execute(
    State(app): State<App>,
    Caller(user): Caller,
    Asked(running): Asked<Running>,
    Body(wanted): Body<CodeRequest>,
) -> Result<Json<Ran>, ApiError> {
    if !running.listed && !running.read_only {
        return Err(ApiError::invalid("an execution that is not listed must be read-only: pass read_only=true, too"));
    }
    let mut request = wanted.into_request(&app.frontend.of_user(&user)).await.map_err(ApiError::invalid)?;
    request.interface = Interface::Api;
    if running.read_only {
        request.access = Access::ReadOnly;
    }
    request.is_listed = running.listed;
    if running.approvals == OnQuestion::Wait {
        request.approver = app.questions.approver(&user, None);
    }
    let execution = app.frontend.execute(request).await;
    // Nothing ran: the request is invalid, not the code.
    match &execution.failure {
        Some(failure) if failure.error_code == ErrorCode::InvalidRequest => Err(ApiError::invalid(&failure.error)),
        _ => Ok(Json(Ran { execution })),
    }
}

/// Query parameters for listing executions.
#[derive(Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
#[serde(deny_unknown_fields)]
struct Page {
    /// Maximum number of executions to return; defaults to 50
    #[param(minimum = 1, maximum = 100)]
    limit: Option<usize>,
    /// Return executions older than this ID. Pass the last ID of the previous page.
    before: Option<String>,
}

/// Execution record
#[derive(Serialize, ToSchema)]
struct Past {
    /// Execution ID
    execution_id: String,
    /// ID of the session that the code ran in; null if it ran without a session
    session_id: Option<String>,
    /// Start time
    #[schema(value_type = String, format = DateTime)]
    started_at: Timestamp,
    /// Programming language of the code
    language: String,
    /// Source code
    code: String,
    /// Execution state: `running`, `done` (successful or failed), or `interrupted` (the client disconnected or the
    /// server stopped before the code finished)
    state: &'static str,
    /// Execution result, in the format of the response to `POST /api/executions`. Null while the code is running; an
    /// interrupted execution may have only `success`, `error` and `error_code`.
    #[schema(value_type = Option<Object>)]
    outcome: Value,
}

impl Past {
    /// Adds what comes from people, code and servers.
    fn add_texts<'a>(&'a mut self, texts: &mut Vec<Item<'a>>) {
        texts.extend([Item::Text(&mut self.code), Item::Json(&mut self.outcome)]);
    }
}

impl From<ExecutionRecord> for Past {
    fn from(record: ExecutionRecord) -> Self {
        Self {
            execution_id: record.execution_id.as_str().to_owned(),
            session_id: record.session.map(|session| session.as_str().to_owned()),
            started_at: record.started_at.into(),
            language: record.language.as_str().to_owned(),
            code: record.code,
            state: record.state.as_str(),
            outcome: record.outcome,
        }
    }
}

/// List executions
///
/// Returns the current user's executions, newest first. Where personal data is hidden from models, API keys without the scope
/// `approve` get tokens instead of it.
#[utoipa::path(
    get, path = "/api/executions", operation_id = "list_executions", tag = "executions", params(Page),
    responses((status = 200, body = [Past], description = "Executions, newest first"), Refusals)
)]
async fn list(State(app): State<App>, reader: Reader, Asked(page): Asked<Page>) -> Result<Json<Vec<Past>>, ApiError> {
    let before = match page.before {
        None => None,
        Some(id) => Some(ExecutionId::new(&id).map_err(|error| ApiError::invalid(error.to_string()))?),
    };
    let limit = listed(page.limit)?;
    let page = app.frontend.engine.executions(&reader.user, limit, before.as_ref()).await;
    let page = page.map_err(|error| ApiError::internal("list executions", error))?;
    let mut page: Vec<Past> = page.into_iter().map(Past::from).collect();
    let mut texts = Vec::new();
    for past in &mut page {
        past.add_texts(&mut texts);
    }
    reader.protect(&app, &mut texts).await?;
    Ok(Json(page))
}

/// Get an execution
///
/// Where personal data is hidden from models, API keys without the scope `approve` get tokens instead of it.
#[utoipa::path(
    get, path = "/api/executions/{id}", operation_id = "show_execution", tag = "executions",
    params(("id" = String, Path, description = "Execution ID")),
    responses((status = 200, body = Past, description = "Execution with its code and result"), Refusals)
)]
async fn show(State(app): State<App>, reader: Reader, At(id): At<String>) -> Result<Json<Past>, ApiError> {
    let missing = || ApiError::missing("there is no such execution");
    let id = ExecutionId::new(&id).map_err(|_| missing())?;
    let found = app.frontend.engine.execution(&reader.user, &id).await;
    let found = found.map_err(|error| ApiError::internal("read an execution", error))?;
    let mut past: Past = found.ok_or_else(missing)?.into();
    let mut texts = Vec::new();
    past.add_texts(&mut texts);
    reader.protect(&app, &mut texts).await?;
    Ok(Json(past))
}
