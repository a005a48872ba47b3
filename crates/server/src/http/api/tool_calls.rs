//! Calls of single tools over `/api`, through the same broker as calls from code.

use super::servers::usable;
use crate::http::App;
use crate::http::extract::{At, Body};
use crate::http::problem::{ApiError, Problem, Refusals};
use crate::http::reader::Reader;
use crate::identity::Identity;
use axum::Json;
use axum::extract::State;
use axum::http::StatusCode;
use coracle_engine::{DirectCall, DirectError, HostCallError};
use coracle_policy::{Approver, NobodyToAsk};
use coracle_privacy::Item;
use coracle_store::{KeyScope, Place};
use coracle_upstream::CallContext;
use serde::Deserialize;
use serde_json::{Map, Value};
use std::sync::Arc;
use utoipa::ToSchema;
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

/// Maximum length of a server's error message in characters.
const MAX_MESSAGE: usize = 4_000;

pub(super) fn routes() -> OpenApiRouter<App> {
    OpenApiRouter::new().routes(routes!(call))
}

/// Call of a tool
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
struct WantedCall {
    /// Arguments of the tool; none by default
    #[serde(default)]
    #[schema(value_type = Object)]
    arguments: Map<String, Value>,
}

/// Call a tool
///
/// Calls one tool as code of the current user would. If the policy requires approval, the call waits for an answer on
/// `/api/approvals`, provided that the caller could give it: calls with an API key without the scope `approve`, or with
/// an access token, are refused instead. A tool that fails is reported with status 200 and `isError: true`. Where personal
/// data is hidden from models, API keys without the scope `approve` get tokens instead of it.
#[utoipa::path(
    post, path = "/api/tools/{server}/{tool}/call", operation_id = "call_tool", tag = "tools",
    params(
        ("server" = String, Path, description = "Server name"),
        ("tool" = String, Path, description = "Tool name"),
    ),
    request_body = WantedCall,
    responses(
        (status = 200, body = Object, description = "Result in the format of `tools/call` in MCP"),
        (status = 502, body = Problem, description = "Failed call: the server refused it, or gave no valid answer"),
        (status = 503, body = Problem, description = "Server not available"),
        (status = 504, body = Problem, description = "No answer from the server in time"),
        Refusals
    )
)]
async fn call(
    State(app): State<App>,
    caller: Identity,
    reader: Reader,
    At((server, tool)): At<(String, String)>,
    Body(body): Body<WantedCall>,
) -> Result<Json<Value>, ApiError> {
    let server = usable(&app, &server)?.1.name.clone();
    let approver: Arc<dyn Approver> =
        if caller.may(KeyScope::Approve) { app.questions.approver(&caller.user, None) } else { Arc::new(NobodyToAsk) };
    let context = CallContext::default();
    // Cancels the call if the client disconnects.
    let _cancel = context.cancel.clone().drop_guard();
    let call = DirectCall {
        user: caller.user,
        session: None,
        conversation: Some(Place::client("api")),
        server: server.clone(),
        tool,
        arguments: body.arguments,
        approver,
        context,
    };
    let under_way = app.frontend.metrics.begin();
    let answer = app.frontend.engine.call_tool(call).await;
    drop(under_way);
    app.frontend.metrics.passed_on(server.as_str(), answer.is_ok());
    match answer {
        Ok(mut answer) => {
            reader.protect_message(&app, &mut answer).await?;
            Ok(Json(answer))
        }
        Err(mut error) => {
            let (DirectError::Failed(HostCallError { message, .. }) | DirectError::Refused { message, .. }) =
                &mut error;
            reader.protect(&app, &mut [Item::Text(message)]).await?;
            Err(failed(error))
        }
    }
}

fn failed(error: DirectError) -> ApiError {
    let HostCallError { code, message, .. } = match error {
        DirectError::Failed(error) => error,
        DirectError::Refused { number, message, .. } => {
            let message = format!("the server refused the call ({number}): {}", shortened(&message));
            return ApiError::new(StatusCode::BAD_GATEWAY, "refused", message);
        }
    };
    let (status, code) = match code.as_str() {
        "denied_by_policy" => (StatusCode::FORBIDDEN, "denied_by_policy"),
        "denied_by_flow" => (StatusCode::FORBIDDEN, "denied_by_flow"),
        "denied_for_good" => (StatusCode::FORBIDDEN, "denied_for_good"),
        "denied_by_person" => (StatusCode::FORBIDDEN, "denied_by_person"),
        "denied_unasked" => (StatusCode::FORBIDDEN, "denied_unasked"),
        "denied_unanswered" => (StatusCode::FORBIDDEN, "denied_unanswered"),
        "denied_too_many" => (StatusCode::FORBIDDEN, "denied_too_many"),
        "unknown_server" | "server_not_found" | "tool_not_found" | "unknown_method" => {
            (StatusCode::NOT_FOUND, "not_found")
        }
        "too_large" => (StatusCode::PAYLOAD_TOO_LARGE, "too_large"),
        "timeout" => (StatusCode::GATEWAY_TIMEOUT, "timeout"),
        "unavailable" => (StatusCode::SERVICE_UNAVAILABLE, "unavailable"),
        "sources_unknown" => (StatusCode::SERVICE_UNAVAILABLE, "sources_unknown"),
        "unauthorized" | "login" => (StatusCode::SERVICE_UNAVAILABLE, "server_sign_in"),
        "shut_down" | "cancelled" => (StatusCode::SERVICE_UNAVAILABLE, "stopping"),
        _ => (StatusCode::BAD_GATEWAY, "server_failed"),
    };
    ApiError::new(status, code, shortened(&message))
}

fn shortened(text: &str) -> String {
    text.chars().take(MAX_MESSAGE).collect()
}
