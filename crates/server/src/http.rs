//! HTTP: `/mcp`, and what operators look at.

mod api;
mod connections;
mod desk;
mod door;
mod extract;
mod guard;
mod oidc;
mod old_skills;
mod pages;
mod priming;
mod problem;
mod provider;
mod refusal;
mod resource;
mod sessions;
mod sign_in;

use crate::gone::Gone;
use crate::identity::Identity;
use crate::mcp::Face;
pub use api::openapi_document;
use axum::Router;
use axum::body::Body;
use axum::extract::{FromRef, Request, State};
use axum::http::{HeaderMap, Method, StatusCode, Uri, header};
use axum::middleware;
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use bytes::Bytes;
use connections::{Answering, GoneGuard, Served};
use coracle_store::KeyScope;
use coracle_types::UserId;
pub use desk::AuthOptions;
use desk::Desk;
use door::Door;
use guard::Guard;
use priming::Unprimed;
pub(crate) use problem::ApiError;
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

/// No body of a request is longer.
const MAX_BODY: usize = 8 << 20;
/// A request whose body takes longer to come is given up.
const BODY_TIME: Duration = Duration::from_mins(1);
/// Running executions get so long to end by themselves when the server is to stop. Then they are interrupted.
const DRAIN: Duration = Duration::from_secs(5);
/// Interrupted executions end, and their answers are written, within this time.
const ANSWERED: Duration = Duration::from_secs(10);

/// Whoever asks whether we are ready has an answer by then.
const READY_TIME: Duration = Duration::from_secs(4);

/// How HTTP is served.
#[derive(Clone, Debug, Default)]
pub struct HttpOptions {
    /// Host names under which this server may be addressed, besides those of the loopback interface.
    pub allowed_hosts: Vec<String>,
    /// Pages of these origins may call it, besides its own.
    pub allowed_origins: Vec<String>,
    /// The most connections at once [default: 4096].
    pub max_connections: Option<usize>,
    /// How people sign in; without it there is the one user of this machine.
    pub auth: Option<AuthOptions>,
}

/// The header that names the session of a client that has begun with `initialize`.
const SESSION: &str = "mcp-session-id";
/// No session has this id.
const NO_SESSION: &str = "none";
/// A session that nobody has used for so long is forgotten.
const SESSION_IDLE: Duration = Duration::from_hours(24);

type McpService = StreamableHttpService<Face, LocalSessionManager>;

#[derive(Clone)]
struct App {
    face: Face,
    mcp: McpService,
    manager: Arc<LocalSessionManager>,
    sessions: Sessions,
    desk: Arc<Desk>,
    stop: CancellationToken,
}

impl FromRef<App> for Arc<Desk> {
    fn from_ref(app: &App) -> Self {
        Self::clone(&app.desk)
    }
}

/// Serves until `stop` is cancelled; then lets running executions end, for a few seconds.
pub async fn serve_http(
    face: Face,
    listener: TcpListener,
    options: HttpOptions,
    stop: CancellationToken,
) -> std::io::Result<()> {
    let port = listener.local_addr()?.port();
    let guard = Arc::new(Guard::new(&options, port));
    // Cancelled when draining is over: it ends what still streams.
    let end = CancellationToken::new();
    let mut config = StreamableHttpServerConfig::default()
        .with_cancellation_token(end.clone())
        .with_max_request_body_bytes(MAX_BODY)
        .with_json_response(true);
    // The guard has looked already, at all routes.
    config = config.disable_allowed_hosts();
    let clients = face.clone();
    let mut manager = LocalSessionManager::default();
    manager.session_config.keep_alive = Some(SESSION_IDLE);
    let manager = Arc::new(manager);
    let mcp = McpService::new(move || Ok(clients.clone()), Arc::clone(&manager), config);
    let desk = Arc::new(Desk::new(&options.auth.unwrap_or_else(AuthOptions::nobody)));
    let app = App { face: face.clone(), mcp, manager, sessions: Sessions::default(), desk, stop: stop.clone() };
    let door = |scope| middleware::from_fn_with_state(Door::new(&app.desk, scope), door::require);
    let guarded: Router<App> = Router::new()
        .merge(Router::new().route("/mcp", axum::routing::any(mcp_request)).layer(door(KeyScope::Mcp)))
        .merge(Router::new().route("/metrics", get(metrics)).layer(door(KeyScope::Metrics)))
        .merge(api::router(Door::new(&app.desk, KeyScope::Api)))
        .merge(old_skills::router().layer(door(KeyScope::Api)))
        .merge(sign_in::router())
        .route("/", get(home))
        .merge(oidc::router())
        .merge(resource::router())
        .layer(middleware::from_fn_with_state(guard, guard::check));
    // Probes come from machines that know this one by its address only, and learn nothing.
    let open = Router::new()
        .route("/health", get(health))
        .route("/livez", get(|| async { "ok" }))
        .route("/readyz", get(ready));
    let desk = Arc::clone(&app.desk);
    let router = guarded.merge(open).with_state(app);
    let max_connections = options.max_connections.unwrap_or(connections::MAX_CONNECTIONS);
    let answering = Answering::default();
    let served = connections::serve(
        listener,
        Served { router, desk, max_connections, answering: answering.clone() },
        stop.clone(),
        end.clone(),
    );
    let drained = async {
        stop.cancelled().await;
        let calm = async {
            while face.under_way() > 0 {
                tokio::time::sleep(Duration::from_millis(20)).await;
            }
        };
        let _ = tokio::time::timeout(DRAIN, calm).await;
        let told = async {
            face.engine.interrupt().await;
            answering.settled().await;
        };
        if tokio::time::timeout(ANSWERED, told).await.is_err() {
            tracing::warn!("the server stops before all clients have their answers");
        }
        // What was handed over last is still written.
        tokio::time::sleep(Duration::from_millis(50)).await;
        end.cancel();
    };
    let (served, ()) = tokio::join!(served, drained);
    served
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
    // Clients of the plainest kind say nothing, and take what comes.
    if !parts.headers.contains_key(header::ACCEPT)
        || parts.headers.get(header::ACCEPT).is_some_and(|value| value == "*/*")
    {
        let both = axum::http::HeaderValue::from_static("application/json, text/event-stream");
        parts.headers.insert(header::ACCEPT, both);
    }
    let is_end = parts.method == Method::DELETE;
    let mut session = parts.headers.get(SESSION).and_then(|id| id.to_str().ok()).map(str::to_owned);
    if session.as_deref().is_some_and(|id| app.sessions.is_anothers(id, &caller.user)) {
        // Answered as one that there is not.
        session = Some(NO_SESSION.to_owned());
        parts.headers.insert(SESSION, axum::http::HeaderValue::from_static(NO_SESSION));
    }
    let in_use = session.as_deref().and_then(|id| app.sessions.begin(id));
    let gone = Gone::default();
    parts.extensions.insert(gone.clone());
    // If the client goes away while it waits for the head of the answer, this future is dropped.
    let guard = GoneGuard::of(&gone);
    // What a session has begun with counts, whatever a later request says.
    let of_session = session.as_deref().and_then(|id| app.sessions.is_primed(id));
    let is_primed = of_session.unwrap_or_else(|| priming::is_known(&parts.headers, &body));
    let is_json =
        parts.headers.get(header::CONTENT_TYPE).is_some_and(|kind| kind.as_bytes().starts_with(b"application/json"));
    let request = Request::from_parts(parts, http_body_util::Full::new(body.clone()));
    let response: Result<_, Infallible> = app.mcp.call(request).await;
    let Ok(response) = response;
    let (mut parts, answer) = response.into_parts();
    // The library says this of what it cannot read, too.
    if is_json && parts.status == StatusCode::UNSUPPORTED_MEDIA_TYPE {
        return unreadable(&body);
    }
    match (&session, parts.headers.get(SESSION).and_then(|id| id.to_str().ok())) {
        (Some(id), _) if is_end => app.sessions.remove(id),
        (None, Some(id)) => app.began(id, &caller.user, is_primed),
        _ => {}
    }
    // Clients take any other success for a session that could not be ended, and complain.
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
    /// A client has begun with `initialize`.
    fn began(&self, id: &str, user: &UserId, is_primed: bool) {
        let Some(surplus) = self.sessions.add(id, user, is_primed) else { return };
        tracing::warn!(session = %surplus, "too many clients: the one that was needed least is forgotten");
        let manager = Arc::clone(&self.manager);
        tokio::spawn(async move {
            if let Err(error) = manager.close_session(&surplus).await {
                tracing::debug!(%error, "a session is closed already");
            }
        });
    }
}

/// What is wrong with a message that is none.
fn unreadable(body: &[u8]) -> Response {
    let (code, message) = match serde_json::from_slice::<serde::de::IgnoredAny>(body) {
        Err(error) => (-32_700, format!("the body is no JSON: {error}")),
        Ok(_) => (-32_600, "the body is not a valid JSON-RPC 2.0 message of MCP".to_owned()),
    };
    let error = serde_json::json!({ "jsonrpc": "2.0", "id": null, "error": { "code": code, "message": message } });
    (StatusCode::BAD_REQUEST, axum::Json(error)).into_response()
}

/// What this is, and where to go.
async fn home(State(app): State<App>, uri: Uri, headers: HeaderMap) -> Response {
    let base = app.desk.base(&uri, &headers);
    let accepts = headers.get_all(header::ACCEPT).iter().filter_map(|value| value.to_str().ok());
    if accepts.into_iter().any(|value| value.contains("text/html")) {
        return pages::home(&base);
    }
    let mut response = pages::home_text(&base).into_response();
    pages::private(response.headers_mut());
    response
}

async fn metrics(State(app): State<App>) -> Response {
    let kind = [(header::CONTENT_TYPE, "application/openmetrics-text; version=1.0.0; charset=utf-8")];
    (kind, app.face.metrics()).into_response()
}

async fn health(State(app): State<App>) -> Response {
    let status = if app.stop.is_cancelled() { "stopping" } else { "ok" };
    axum::Json(serde_json::json!({ "status": status, "version": env!("CARGO_PKG_VERSION") })).into_response()
}

async fn ready(State(app): State<App>) -> Response {
    if app.stop.is_cancelled() {
        return (StatusCode::SERVICE_UNAVAILABLE, "stopping").into_response();
    }
    match tokio::time::timeout(READY_TIME, app.face.ready()).await {
        Ok(Ok(())) => Bytes::from_static(b"ok").into_response(),
        // Whoever asks is a stranger: they learn what kind of fault it is, and the log says where.
        Ok(Err(error)) => {
            tracing::warn!(%error, hint = error.hint(), "not ready");
            (StatusCode::SERVICE_UNAVAILABLE, error.code()).into_response()
        }
        Err(_) => (StatusCode::SERVICE_UNAVAILABLE, "store_busy").into_response(),
    }
}
