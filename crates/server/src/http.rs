//! HTTP transport: `/mcp`, `/api`, `/v1`, the web page, sign-in pages, metrics and probes.

mod api;
mod auth_state;
mod authentication;
mod connections;
mod cors;
mod download;
mod error;
mod extract;
mod guard;
mod legacy_skills;
mod local_browser;
mod local_key;
mod oidc;
mod operator;
mod page;
mod pages;
mod parts;
mod priming;
mod problem;
mod protected_resource;
mod provider;
mod rate_limit;
mod reader;
mod sessions;
mod sign_in;
mod upload;
mod v1;

use crate::agent::AgentOptions;
use crate::approvals::OpenQuestions;
use crate::configuration::Configuration;
use crate::gone::Gone;
use crate::identity::Identity;
use crate::mcp::Frontend;
use crate::pending_sign_ins::PendingSignIns;
use crate::user_models::UserModels;
use crate::user_turns::UserTurns;
pub use api::openapi_document;
pub use auth_state::AuthOptions;
use auth_state::AuthState;
use authentication::RequiredScope;
use axum::Router;
use axum::body::Body;
use axum::extract::{DefaultBodyLimit, FromRef, Request, State};
use axum::http::{HeaderMap, Method, StatusCode, Uri, header};
use axum::middleware;
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use bytes::Bytes;
use connections::{Answering, GoneGuard, Served};
use coracle_models::{ChoiceError, ChosenModel, Directory};
use coracle_runs::RunService;
use coracle_store::KeyScope;
use coracle_types::UserId;
pub use cors::{CorsOrigins, OriginError};
use guard::Guard;
pub use parts::{Part, Parts};
use priming::Unprimed;
pub(crate) use problem::ApiError;
use rate_limit::RateLimit;
use rmcp::transport::StreamableHttpServerConfig;
use rmcp::transport::streamable_http_server::StreamableHttpService;
use rmcp::transport::streamable_http_server::session::SessionManager as _;
use rmcp::transport::streamable_http_server::session::local::LocalSessionManager;
use sessions::Sessions;
use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;
use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;
use tower_service::Service as _;

/// Maximum length of a request body in bytes.
const MAX_BODY: usize = 8 << 20;
/// Maximum time for a request body to arrive.
const BODY_TIME: Duration = Duration::from_mins(1);
/// Time for running executions to finish when the server stops. After that they are interrupted.
const DRAIN: Duration = Duration::from_secs(5);
/// Time for interrupted executions to end and for their responses to be written.
const ANSWERED: Duration = Duration::from_secs(10);

/// Time limit of a readiness probe.
const READY_TIME: Duration = Duration::from_secs(4);

/// Options of the HTTP server.
#[derive(Clone, Debug, Default)]
pub struct HttpOptions {
    /// Host names that this server accepts, besides those of the loopback interface.
    pub allowed_hosts: Vec<String>,
    /// Origins of pages that may call the server, besides its own.
    pub allowed_origins: Vec<String>,
    /// Origins of pages that may use the server with a key from a browser.
    pub cors_origins: CorsOrigins,
    /// The parts to serve.
    pub parts: Parts,
    /// Maximum number of connections [default: 4096].
    pub max_connections: Option<usize>,
    /// Maximum number of requests per minute for each key or user.
    pub requests_per_minute: Option<u32>,
    /// Authentication options. Without them, all requests are those of the local user.
    pub auth: Option<AuthOptions>,
    /// Models and limits of the agent.
    pub agent: AgentOptions,
    /// Settings that admins can change while the server runs.
    pub configuration: Option<Arc<dyn Configuration>>,
}

/// Maximum number of archives that are sent at once. Each one needs a thread for as long as its client reads.
const MAX_EXPORTS: usize = 8;
/// Maximum number of sessions that are replayed at once. Each one needs a sandbox.
const MAX_REPLAYS: usize = 4;
/// Header with the ID of an MCP session that a client started with `initialize`.
const SESSION: &str = "mcp-session-id";
/// Session ID that never exists.
const NO_SESSION: &str = "none";
/// Idle time after which a session is forgotten.
const SESSION_IDLE: Duration = Duration::from_hours(24);

type McpService = StreamableHttpService<Frontend, LocalSessionManager>;

#[derive(Clone)]
struct App {
    frontend: Frontend,
    mcp: McpService,
    manager: Arc<LocalSessionManager>,
    sessions: Sessions,
    auth: Arc<AuthState>,
    agent: Arc<AgentOptions>,
    user_models: UserModels,
    parts: Parts,
    continuations: Arc<v1::Continuations>,
    runs: RunService,
    questions: OpenQuestions,
    sign_ins: PendingSignIns,
    exports: UserTurns,
    replays: UserTurns,
    /// Held while data is deleted, because the whole database is then written anew.
    deleting: Arc<tokio::sync::Mutex<()>>,
    rate: RateLimit,
    configuration: Option<Arc<dyn Configuration>>,
    stop: CancellationToken,
}

impl FromRef<App> for Arc<AuthState> {
    fn from_ref(app: &App) -> Self {
        Self::clone(&app.auth)
    }
}

/// Serves on all listeners until `stop` is cancelled, and then gives running executions a few seconds to finish.
pub async fn serve_http(
    frontend: Frontend,
    listeners: Vec<TcpListener>,
    options: HttpOptions,
    stop: CancellationToken,
) -> std::io::Result<()> {
    let ports =
        listeners.iter().map(|listener| Ok(listener.local_addr()?.port())).collect::<std::io::Result<Vec<_>>>()?;
    let guard = Arc::new(Guard::new(&options, &ports));
    // Cancelled after draining, to end open streams.
    let end = CancellationToken::new();
    let mut config = StreamableHttpServerConfig::default()
        .with_cancellation_token(end.clone())
        .with_max_request_body_bytes(MAX_BODY)
        .with_json_response(true);
    // The guard has checked the host already, for all routes.
    config = config.disable_allowed_hosts();
    let clients = frontend.clone();
    let mut manager = LocalSessionManager::default();
    manager.session_config.keep_alive = Some(SESSION_IDLE);
    let manager = Arc::new(manager);
    let mcp = McpService::new(move || Ok(clients.clone()), Arc::clone(&manager), config);
    let auth = Arc::new(AuthState::new(&options.auth.unwrap_or_else(AuthOptions::local_only)));
    let patience = Duration::from_secs(frontend.options.settings.policy.approval_seconds);
    let questions = OpenQuestions::new(auth.people.clone(), patience, stop.clone());
    if let Some(toolbox) = frontend.toolbox() {
        toolbox.approvals().ask_groups_through(Arc::new(questions.clone()));
    }
    let agent = frontend.start_agent(options.agent, &auth.people, Some(questions.clone()), &stop);
    let app = App {
        frontend: frontend.clone(),
        mcp,
        manager,
        sessions: Sessions::default(),
        auth,
        agent: Arc::clone(&agent.models.options),
        user_models: agent.models.clone(),
        parts: options.parts,
        continuations: Arc::default(),
        runs: agent.runs.clone(),
        questions,
        sign_ins: PendingSignIns::default(),
        exports: UserTurns::at_most(MAX_EXPORTS),
        replays: UserTurns::at_most(MAX_REPLAYS),
        deleting: Arc::default(),
        rate: RateLimit::new(options.requests_per_minute, &frontend.metrics),
        configuration: options.configuration,
        stop: stop.clone(),
    };
    let guarded = routes(&app, &options.cors_origins)
        .layer(DefaultBodyLimit::max(MAX_BODY))
        .layer(middleware::from_fn_with_state(guard, guard::check));
    // Probes come from machines that know this one only by its address. They reveal nothing.
    let open = Router::new()
        .route("/health", get(health))
        .route("/livez", get(|| async { "ok" }))
        .route("/readyz", get(ready));
    let auth = Arc::clone(&app.auth);
    let router = guarded.merge(open).with_state(app);
    let max_connections = options.max_connections.unwrap_or(connections::MAX_CONNECTIONS);
    let answering = Answering::default();
    let served = connections::serve(
        listeners,
        Served { router, auth, max_connections, answering: answering.clone() },
        stop.clone(),
        end.clone(),
    );
    let drained = async {
        stop.cancelled().await;
        let calm = async {
            while frontend.under_way() > 0 {
                tokio::time::sleep(Duration::from_millis(20)).await;
            }
        };
        let _ = tokio::time::timeout(DRAIN, calm).await;
        let told = async {
            frontend.engine.interrupt().await;
            answering.settled().await;
        };
        if tokio::time::timeout(ANSWERED, told).await.is_err() {
            tracing::warn!("the server stops before all responses have been sent");
        }
        // Gives the last responses time to be written.
        tokio::time::sleep(Duration::from_millis(50)).await;
        end.cancel();
    };
    let tidied = async {
        // Runs are taken up first, so that none of them looks old.
        agent.take_up().await;
        agent.keep_tidy(&stop).await;
    };
    tokio::join!(served, drained, tidied);
    Ok(())
}

/// The routes of the parts that are served. Pages are for this server's own origin only.
fn routes(app: &App, cors_origins: &CorsOrigins) -> Router<App> {
    let required = |scope| RequiredScope::new(&app.auth, scope);
    let requires = |scope| middleware::from_fn_with_state(required(scope), authentication::require);
    let mut for_programs = Router::new();
    if app.parts.has(Part::Mcp) {
        for_programs = for_programs
            .merge(Router::new().route("/mcp", axum::routing::any(mcp_request)).layer(requires(KeyScope::Mcp)));
    }
    if app.parts.has(Part::Api) {
        for_programs = for_programs
            .merge(api::router(required(KeyScope::Api), &app.user_models, &app.rate))
            .merge(v1::router(required(KeyScope::Api), &app.user_models, &app.rate))
            .merge(legacy_skills::router().layer(requires(KeyScope::Api)));
    }
    if let Some(cors) = cors_origins.layer() {
        for_programs = for_programs.layer(cors);
    }
    let mut all = Router::new().route("/metrics", get(metrics)).layer(requires(KeyScope::Metrics)).merge(for_programs);
    if app.parts.has(Part::Mcp) {
        all = all.merge(protected_resource::router());
    }
    if app.parts.has(Part::Page) {
        all = all.merge(sign_in::router()).route("/", get(home)).merge(page::router()).merge(oidc::router());
    }
    all
}

async fn mcp_request(State(mut app): State<App>, caller: Identity, request: Request) -> Response {
    let (mut parts, body) = request.into_parts();
    let body = match tokio::time::timeout(BODY_TIME, axum::body::to_bytes(body, MAX_BODY)).await {
        Ok(Ok(body)) => body,
        Ok(Err(_)) => {
            let message = format!("the body cannot be read, or is longer than {MAX_BODY} bytes\n");
            return (StatusCode::PAYLOAD_TOO_LARGE, message).into_response();
        }
        Err(_) => return connections::slow_body(),
    };
    // Clients without an Accept header accept any response.
    if !parts.headers.contains_key(header::ACCEPT)
        || parts.headers.get(header::ACCEPT).is_some_and(|value| value == "*/*")
    {
        let both = axum::http::HeaderValue::from_static("application/json, text/event-stream");
        parts.headers.insert(header::ACCEPT, both);
    }
    let is_end = parts.method == Method::DELETE;
    let mut session = parts.headers.get(SESSION).and_then(|id| id.to_str().ok()).map(str::to_owned);
    if session.as_deref().is_some_and(|id| app.sessions.is_anothers(id, &caller.user)) {
        // Sessions of other users are treated like unknown ones.
        session = Some(NO_SESSION.to_owned());
        parts.headers.insert(SESSION, axum::http::HeaderValue::from_static(NO_SESSION));
    }
    let in_use = session.as_deref().and_then(|id| app.sessions.begin(id));
    let gone = Gone::default();
    parts.extensions.insert(gone.clone());
    // If the client disconnects before the response starts, this future is dropped.
    let guard = GoneGuard::of(&gone);
    // The revision that a session started with takes precedence over later headers.
    let of_session = session.as_deref().and_then(|id| app.sessions.is_primed(id));
    let is_primed = of_session.unwrap_or_else(|| priming::is_known(&parts.headers, &body));
    let is_json =
        parts.headers.get(header::CONTENT_TYPE).is_some_and(|kind| kind.as_bytes().starts_with(b"application/json"));
    let request = Request::from_parts(parts, http_body_util::Full::new(body.clone()));
    let response: Result<_, Infallible> = app.mcp.call(request).await;
    let Ok(response) = response;
    let (mut parts, answer) = response.into_parts();
    // The library also returns this status for messages that it cannot parse.
    if is_json && parts.status == StatusCode::UNSUPPORTED_MEDIA_TYPE {
        return unreadable(&body);
    }
    match (&session, parts.headers.get(SESSION).and_then(|id| id.to_str().ok())) {
        (Some(id), _) if is_end => app.sessions.remove(id),
        (None, Some(id)) => app.began(id, &caller.user, is_primed),
        _ => {}
    }
    // Some clients accept only this status for an ended session.
    if is_end && parts.status == StatusCode::ACCEPTED {
        parts.status = StatusCode::NO_CONTENT;
    }
    let is_stream =
        parts.headers.get(header::CONTENT_TYPE).is_some_and(|kind| kind.as_bytes().starts_with(b"text/event-stream"));
    let answer = guard.around(answer, in_use);
    let answer = if is_stream && !is_primed { Body::new(Unprimed::new(answer)) } else { Body::new(answer) };
    Response::from_parts(parts, answer)
}

impl App {
    fn models(&self) -> &Directory {
        &self.agent.models
    }

    /// Finds a model for a user.
    async fn model(&self, user: &UserId, name: Option<&str>) -> Result<Result<ChosenModel, ChoiceError>, ApiError> {
        Ok(self.user_models.find(user, name).await?)
    }

    /// Records a session that a client started with `initialize`.
    fn began(&self, id: &str, user: &UserId, is_primed: bool) {
        let Some(surplus) = self.sessions.add(id, user, is_primed) else { return };
        tracing::warn!(session = %surplus, "too many sessions: the least used one is closed");
        let manager = Arc::clone(&self.manager);
        tokio::spawn(async move {
            if let Err(error) = manager.close_session(&surplus).await {
                tracing::debug!(%error, "the session is already closed");
            }
        });
    }
}

/// Returns the JSON-RPC error for a message that cannot be parsed.
fn unreadable(body: &[u8]) -> Response {
    let (code, message) = match serde_json::from_slice::<serde::de::IgnoredAny>(body) {
        Err(error) => (-32_700, format!("the body is not valid JSON: {error}")),
        Ok(_) => (-32_600, "the body is not a valid JSON-RPC 2.0 message".to_owned()),
    };
    let error = serde_json::json!({ "jsonrpc": "2.0", "id": null, "error": { "code": code, "message": message } });
    (StatusCode::BAD_REQUEST, axum::Json(error)).into_response()
}

/// The web page for browsers. Programs get a description of the server, and so do browsers if there is no page, or no
/// API for it.
async fn home(State(app): State<App>, uri: Uri, headers: HeaderMap) -> Result<Response, ApiError> {
    let base = app.auth.base(&uri, &headers);
    let accepts = headers.get_all(header::ACCEPT).iter().filter_map(|value| value.to_str().ok());
    if accepts.into_iter().any(|value| value.contains("text/html")) {
        if app.parts.has(Part::Api)
            && let Some(document) = page::document(&headers)
        {
            return Ok(document);
        }
        let is_local_browser = app.auth.is_local_browser(&headers).await?;
        return Ok(pages::home(&base, &app.parts, is_local_browser, page::missing()));
    }
    let mut response = pages::home_text(&base, &app.parts).into_response();
    pages::private(response.headers_mut());
    Ok(response)
}

async fn metrics(State(app): State<App>) -> Response {
    let kind = [(header::CONTENT_TYPE, "application/openmetrics-text; version=1.0.0; charset=utf-8")];
    (kind, app.frontend.metrics()).into_response()
}

async fn health(State(app): State<App>) -> Response {
    let status = if app.stop.is_cancelled() { "stopping" } else { "ok" };
    axum::Json(serde_json::json!({ "status": status, "version": env!("CARGO_PKG_VERSION") })).into_response()
}

async fn ready(State(app): State<App>) -> Response {
    if app.stop.is_cancelled() {
        return (StatusCode::SERVICE_UNAVAILABLE, "stopping").into_response();
    }
    match tokio::time::timeout(READY_TIME, app.frontend.ready()).await {
        Ok(Ok(())) => Bytes::from_static(b"ok").into_response(),
        // Probes are not authenticated, so they get only the error code; the log has the details.
        Ok(Err(error)) => {
            tracing::warn!(%error, hint = error.hint(), "not ready");
            (StatusCode::SERVICE_UNAVAILABLE, error.code()).into_response()
        }
        Err(_) => (StatusCode::SERVICE_UNAVAILABLE, "store_busy").into_response(),
    }
}
