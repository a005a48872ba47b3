//! Runs code, and shows what was run.

use super::extract::{Asked, At, Body, Caller, listed};
use super::problem::{ApiError, Refusals};
use crate::http::App;
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

/// Run this code.
#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
struct Wanted {
    /// The source.
    code: String,
    /// What it is written in: `python`, `typescript` or `bash`; Python if it is missing.
    #[serde(default)]
    language: Option<String>,
    /// Variables to set before it runs.
    #[serde(default)]
    #[schema(value_type = Option<Object>)]
    context_vars: Option<Map<String, Value>>,
    /// Its time in seconds.
    #[serde(default)]
    timeout_seconds: Option<f64>,
    /// Its memory in megabytes.
    #[serde(default)]
    #[schema(minimum = 1)]
    memory_mb: Option<i64>,
    /// A session, whose variables live on.
    #[serde(default)]
    session: Option<String>,
}

/// What came of an execution.
#[derive(Serialize, ToSchema)]
struct Ran {
    /// As `execute_code` answers it: `execution_id`, `session`, `language`, `success`, `result`, `output`, `stdout`,
    /// `stderr`, `exit_code`, `error`, `error_code`, `traceback`, `hint`, `execution_time_ms`, `truncated`,
    /// `output_file`, `calls`, `artifacts`, `limits`.
    #[serde(flatten)]
    #[schema(value_type = Object)]
    execution: Execution,
}

/// Runs code to its end. Code that fails is an answer with `success: false`, not an error of this call.
#[utoipa::path(
    post, path = "/api/executions", operation_id = "execute", tag = "executions", request_body = Wanted,
    responses((status = 200, body = Object, description = "What came of it"), Refusals)
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
    // Nothing ran: it is the call that is wrong, not the code.
    match &execution.failure {
        Some(failure) if failure.error_code == ErrorCode::InvalidRequest => Err(ApiError::invalid(&failure.error)),
        _ => Ok(Json(Ran { execution })),
    }
}

/// Which executions to list.
#[derive(Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
#[serde(deny_unknown_fields)]
struct Page {
    /// So many at most.
    #[param(minimum = 1, maximum = 100)]
    limit: Option<usize>,
    /// Those before this one.
    before: Option<String>,
}

/// What was run.
#[derive(Serialize, ToSchema)]
struct Past {
    /// Names it.
    execution_id: String,
    /// The session it ran in.
    session: Option<String>,
    /// When, in milliseconds since 1970.
    started_at_ms: u64,
    /// What it is written in.
    language: String,
    /// The source.
    code: String,
    /// `running`; `done`, well or not; or `interrupted`: its client or its server was gone before it came to its end.
    state: &'static str,
    /// The result, in the shape of the response to `POST /api/executions`. Null while it runs; if it was interrupted,
    /// perhaps only `success`, `error` and `error_code`.
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

/// What the caller has run, the newest first.
#[utoipa::path(
    get, path = "/api/executions", operation_id = "list_executions", tag = "executions", params(Page),
    responses((status = 200, body = [Past], description = "A page of them"), Refusals)
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

/// One execution of the caller.
#[utoipa::path(
    get, path = "/api/executions/{id}", operation_id = "show_execution", tag = "executions", params(("id" = String, Path, description = "Its id")),
    responses((status = 200, body = Past, description = "It"), Refusals)
)]
async fn show(State(app): State<App>, Caller(user): Caller, At(id): At<String>) -> Result<Json<Past>, ApiError> {
    let missing = || ApiError::missing("there is no such execution");
    let id = ExecutionId::new(&id).map_err(|_| missing())?;
    let found = app.face.engine.execution(&user, &id).await;
    let found = found.map_err(|error| ApiError::internal("read an execution", error))?;
    found.map(|record| Json(record.into())).ok_or_else(missing)
}
