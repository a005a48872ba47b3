//! `/api/servers/{name}/sign-in`: signs users in to MCP servers with OAuth, in their browser.

use super::servers::{connections, usable};
use crate::http::extract::{Asked, At};
use crate::http::problem::{ApiError, Problem, Refusals};
use crate::http::{App, pages};
use crate::identity::Identity;
use crate::pending_sign_ins::PendingSignIn;
use axum::Json;
use axum::extract::State;
use axum::http::{HeaderMap, StatusCode, Uri};
use axum::response::Response;
use coracle_upstream::SignInReturn;
use serde::{Deserialize, Serialize};
use std::sync::{Mutex, PoisonError};
use tokio::sync::oneshot;
use url::Url;
use utoipa::{IntoParams, ToSchema};
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

/// Path that browsers are redirected to.
const CALLBACK: &str = "/api/oauth/callback";

pub(super) fn routes() -> OpenApiRouter<App> {
    OpenApiRouter::new().routes(routes!(begin, end)).routes(routes!(callback))
}

/// Address of a sign-in
#[derive(Debug, Serialize, ToSchema)]
struct SignInAddress {
    /// Address to open in a browser in which you are signed in to this server; valid for 5 minutes
    url: String,
}

/// Sign in to an MCP server
///
/// Returns an address at which the current user signs in with OAuth. The browser then comes back to this server, which
/// stores the credentials encrypted. All users share the sign-in to a server with the scope `shared`: that requires the
/// role `admin`, and an API key also needs the scope `admin`.
#[utoipa::path(
    post, path = "/api/servers/{name}/sign-in", operation_id = "sign_in_to_server", tag = "servers",
    params(("name" = String, Path, description = "Server name")),
    responses(
        (status = 200, body = SignInAddress, description = "Address to open in a browser"),
        (status = 409, body = Problem, description = "Server runs in the process of the embedding program"),
        (status = 502, body = Problem, description = "Server does not say where to sign in"),
        Refusals
    )
)]
async fn begin(
    State(app): State<App>,
    caller: Identity,
    At(name): At<String>,
    uri: Uri,
    headers: HeaderMap,
) -> Result<Json<SignInAddress>, ApiError> {
    let (toolbox, spec) = usable(&app, &name)?;
    let upstream = connections(toolbox, &spec, &caller)?.clone();
    let (arrival, arrived) = oneshot::channel();
    let (told, outcome) = oneshot::channel();
    let (address, known) = oneshot::channel();
    let place = SignInReturn::Address { address: format!("{}{CALLBACK}", app.auth.base(&uri, &headers)), arrived };
    let (user, server, pending) = (caller.user, spec.name.clone(), app.sign_ins.clone());
    tokio::spawn(async move {
        let begun = Mutex::new(Some(address));
        let mut state = None;
        let open = |url: &str| {
            let sign_in = PendingSignIn { user: user.clone(), server: server.clone(), arrival, outcome };
            let url = Url::parse(url).ok().filter(|url| matches!(url.scheme(), "https" | "http"));
            let Some((url, its_state)) = url.and_then(|url| state_of(&url).map(|state| (url, state))) else { return };
            if pending.add(its_state.clone(), sign_in) {
                state = Some(its_state);
                tell(&begun, Ok(url.to_string()));
            }
        };
        let result = upstream.login(&user, &server, place, open).await.map_err(|error| error.to_string());
        match &result {
            Ok(()) => tracing::info!(%user, %server, "signed in to a server"),
            Err(error) => tracing::info!(%user, %server, error, "a sign-in to a server failed"),
        }
        if let Some(state) = state {
            pending.forget(&state);
        }
        tell(&begun, result.clone().map(|()| String::new()));
        let _ = told.send(result);
    });
    match known.await {
        Ok(Ok(url)) => Ok(Json(SignInAddress { url })),
        Ok(Err(reason)) => Err(ApiError::new(StatusCode::BAD_GATEWAY, "no_sign_in", reason)),
        Err(error) => Err(ApiError::internal("begin a sign-in", error)),
    }
}

/// The address at which a sign-in continues, or the reason why it cannot begin. The first is told.
type Begun = Mutex<Option<oneshot::Sender<Result<String, String>>>>;

fn tell(begun: &Begun, address: Result<String, String>) {
    if let Some(sender) = begun.lock().unwrap_or_else(PoisonError::into_inner).take() {
        let _ = sender.send(address);
    }
}

/// The `state` in an address.
fn state_of(url: &Url) -> Option<String> {
    url.query_pairs().find(|(name, _)| name == "state").map(|(_, state)| state.into_owned())
}

/// Sign out of an MCP server
///
/// Deletes the credentials that this server has stored for the current user, or for all users if the scope of the MCP
/// server is `shared`.
#[utoipa::path(
    delete, path = "/api/servers/{name}/sign-in", operation_id = "sign_out_of_server", tag = "servers",
    params(("name" = String, Path, description = "Server name")),
    responses(
        (status = 204, description = "Credentials deleted"),
        (status = 409, body = Problem, description = "Server runs in the process of the embedding program"),
        Refusals
    )
)]
async fn end(State(app): State<App>, caller: Identity, At(name): At<String>) -> Result<StatusCode, ApiError> {
    let (toolbox, spec) = usable(&app, &name)?;
    let upstream = connections(toolbox, &spec, &caller)?;
    upstream.logout(&caller.user, &spec.name).await.map_err(|error| ApiError::internal("sign out", error))?;
    tracing::info!(user = %caller.user, server = %spec.name, "signed out of a server");
    Ok(StatusCode::NO_CONTENT)
}

/// Query parameters of an authorization response.
#[derive(Debug, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
struct Arrival {
    /// State of the sign-in
    state: Option<String>,
}

/// Complete a sign-in to an MCP server
///
/// Browsers are redirected here with an authorization code. Only the user who began the sign-in can complete it.
#[utoipa::path(
    get, path = "/api/oauth/callback", operation_id = "complete_sign_in", tag = "servers", params(Arrival),
    responses(
        (status = 200, content_type = "text/html", description = "Page that says that the user is signed in"),
        (status = 409, content_type = "text/html", description = "Page that says why the user is not"),
        Refusals
    )
)]
async fn callback(
    State(app): State<App>,
    caller: Identity,
    Asked(Arrival { state }): Asked<Arrival>,
    uri: Uri,
    headers: HeaderMap,
) -> Response {
    let Some(sign_in) = state.and_then(|state| app.sign_ins.take(&state, &caller.user)) else {
        let problem = "This sign-in is not known, has expired, or was begun by somebody else.";
        return pages::not_signed_in_to_server(problem);
    };
    let query = uri.query().unwrap_or_default();
    let _ = sign_in.arrival.send(format!("{}{CALLBACK}?{query}", app.auth.base(&uri, &headers)));
    match sign_in.outcome.await {
        Ok(Ok(())) => pages::signed_in_to(sign_in.server.as_str()),
        Ok(Err(reason)) => pages::not_signed_in_to_server(&reason),
        Err(_) => pages::not_signed_in_to_server("The sign-in was cancelled."),
    }
}
