//! `/api/executions`: running code and reading past executions.

use crate::http::App;
use crate::http::extract::{Asked, At, Body, Caller, listed};
use crate::http::problem::{ApiError, Refusals};
use axum::Json;
use axum::extract::State;
use coracle_engine::Request;
use coracle_store::ExecutionRecord;
use coracle_types::{ErrorCode, Execution, ExecutionId, Language, SessionId};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use std::path::Path;
use utoipa::{IntoParams, ToSchema};
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

pub(super) fn routes() -> OpenApiRouter<App> {
    OpenApiRouter::new().routes(routes!(execute, list)).routes(routes!(show))
}

/// Code to execute, with its limits
#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
struct Wanted {
    /// Source code, at most 1 MiB
    code: String,
    /// Programming language: `python` (the default), `typescript` or `bash`
    #[serde(default)]
    language: Option<String>,
    /// Variables to set before the code runs, at most 4 MiB as JSON
    #[serde(default)]
    #[schema(value_type = Option<Object>)]
    context_vars: Option<Map<String, Value>>,
    /// Time limit in seconds, greater than 0 and at most 86400. Defaults to the configured limit and is capped by the
    /// guardrails.
    #[serde(default)]
    timeout_seconds: Option<f64>,
    /// Memory limit in megabytes. Defaults to the configured limit and is capped by the guardrails.
    #[serde(default)]
    #[schema(minimum = 1)]
    memory_mb: Option<i64>,
    /// Session to run in, by ID or name. Executions in a session share variables. An unused name starts a session with
    /// that name, `new` starts one without a name, and without this field the code runs outside any session.
    #[serde(default)]
    session: Option<String>,
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

/// Run code and wait for it to finish
///
/// Code that fails is reported with status 200 and `success: false`.
#[utoipa::path(
    post, path = "/api/executions", operation_id = "execute", tag = "executions", request_body = Wanted,
    responses(
        (status = 200, body = Object, description = "Execution result; `success` is `false` if the code failed"),
        Refusals
    )
)]
async fn execute(
    State(app): State<App>,
    Caller(user): Caller,
    Body(wanted): Body<Wanted>,
) -> Result<Json<Ran>, ApiError> {
    let language = match &wanted.language {
        None => Language::default(),
        Some(name) => name.parse::<Language>().map_err(|error| ApiError::invalid(error.to_string()))?,
    };
    let settings = &app.face.options.settings;
    let face = app.face.of_user(&user);
    let mut request = Request::new(user, language, wanted.code);
    request.workspace = face.workspace().map(Path::to_owned);
    request.limits = settings.limits();
    request.vars = wanted.context_vars.unwrap_or_default();
    request.session = match wanted.session.filter(|name| !name.is_empty()) {
        None => None,
        Some(name) => Some(SessionId::new(&name).map_err(|error| ApiError::invalid(error.to_string()))?),
    };
    if let Some(seconds) = wanted.timeout_seconds {
        request.limits.wall_ms = crate::mcp::milliseconds("timeout_seconds", seconds).map_err(ApiError::invalid)?;
    }
    if let Some(memory) = wanted.memory_mb {
        let memory = u64::try_from(memory).map_err(|_| ApiError::invalid("memory_mb must be more than 0"))?;
        request.limits.memory_mb = memory;
    }
    request.limits = settings.within_guardrails(request.limits);
    let execution = app.face.execute(request).await;
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
    session: Option<String>,
    /// Start time, in milliseconds since the Unix epoch
    started_at_ms: u64,
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

impl From<ExecutionRecord> for Past {
    fn from(record: ExecutionRecord) -> Self {
        Self {
            execution_id: record.execution_id.as_str().to_owned(),
            session: record.session.map(|session| session.as_str().to_owned()),
            started_at_ms: super::sessions::milliseconds(record.started_at),
            language: record.language.as_str().to_owned(),
            code: record.code,
            state: record.state.as_str(),
            outcome: record.outcome,
        }
    }
}

/// List executions
///
/// Returns the current user's executions, newest first.
#[utoipa::path(
    get, path = "/api/executions", operation_id = "list_executions", tag = "executions", params(Page),
    responses((status = 200, body = [Past], description = "Executions, newest first"), Refusals)
)]
async fn list(
    State(app): State<App>,
    Caller(user): Caller,
    Asked(page): Asked<Page>,
) -> Result<Json<Vec<Past>>, ApiError> {
    let before = match page.before {
        None => None,
        Some(id) => Some(ExecutionId::new(&id).map_err(|error| ApiError::invalid(error.to_string()))?),
    };
    let limit = listed(page.limit)?;
    let page = app.face.engine.executions(&user, limit, before.as_ref()).await;
    let page = page.map_err(|error| ApiError::internal("list executions", error))?;
    Ok(Json(page.into_iter().map(Past::from).collect()))
}

/// Get an execution
#[utoipa::path(
    get, path = "/api/executions/{id}", operation_id = "show_execution", tag = "executions",
    params(("id" = String, Path, description = "Execution ID")),
    responses((status = 200, body = Past, description = "Execution with its code and result"), Refusals)
)]
async fn show(State(app): State<App>, Caller(user): Caller, At(id): At<String>) -> Result<Json<Past>, ApiError> {
    let missing = || ApiError::missing("there is no such execution");
    let id = ExecutionId::new(&id).map_err(|_| missing())?;
    let found = app.face.engine.execution(&user, &id).await;
    let found = found.map_err(|error| ApiError::internal("read an execution", error))?;
    found.map(|record| Json(record.into())).ok_or_else(missing)
}
