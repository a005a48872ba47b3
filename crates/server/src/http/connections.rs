//! HTTP connections: their number, the minimum rate of clients, and the detection of disconnects.

mod disconnect;
mod pace;
mod table;

use super::auth_state::{AuthState, Peer};
use axum::Router;
use axum::body::Body;
use axum::http::{HeaderValue, Method, StatusCode, header};
use axum::response::{IntoResponse, Response};
pub(super) use disconnect::GoneGuard;
use futures::future::join_all;
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper_util::rt::{TokioIo, TokioTimer};
pub(crate) use pace::Answering;
use pace::{AnswerBody, PacedBody, PacedStream, TooSlow};
use std::convert::Infallible;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};
use table::{Lane, Table, Ticket};
use tokio::net::{TcpListener, TcpStream};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use tower_service::Service as _;

/// Default of `server.max_connections`.
pub(crate) const MAX_CONNECTIONS: usize = 4096;
/// Connections may use one in this many file descriptors. Sandboxes and files need some as well.
const DESCRIPTORS: u64 = 2;
/// Time limit for the head of a request.
const HEAD_TIME: Duration = Duration::from_secs(15);
/// Time limit for the head of a request on a connection that only serves probes.
const PROBE_TIME: Duration = Duration::from_secs(2);
/// Maximum length of the head of a request in bytes.
const MAX_HEAD: usize = 64 << 10;
/// Size of the send buffer of a connection in bytes.
const SEND_BUFFER: usize = 256 << 10;
/// Pause after a failed `accept`, for example because no descriptors are left.
const BREATH: Duration = Duration::from_millis(50);
/// Minimum interval between two log messages about a failed `accept`.
const LOGGED_EACH: Duration = Duration::from_secs(10);
/// Paths that respond regardless of the number of connections.
pub(crate) const PROBES: [&str; 3] = ["/health", "/livez", "/readyz"];

/// Everything that a connection needs to be served.
pub(crate) struct Served {
    pub(crate) router: Router,
    pub(crate) auth: Arc<AuthState>,
    pub(crate) max_connections: usize,
    pub(crate) answering: Answering,
}

/// Accepts connections on all listeners until `stop`, lets their requests finish, and closes them at `end`.
pub(crate) async fn serve(
    listeners: Vec<TcpListener>,
    served: Served,
    stop: CancellationToken,
    end: CancellationToken,
) {
    let table = Table::new(affordable(served.max_connections), served.auth.proxies());
    let open = TaskTracker::new();
    join_all(listeners.iter().map(|listener| accept(listener, &served, &table, &open, &stop, &end))).await;
    // From now on, connections are refused instead of waiting in the queue of the system.
    drop(listeners);
    open.close();
    open.wait().await;
}

async fn accept(
    listener: &TcpListener,
    served: &Served,
    table: &Table,
    open: &TaskTracker,
    stop: &CancellationToken,
    end: &CancellationToken,
) {
    let mut logged: Option<Instant> = None;
    loop {
        let accepted = tokio::select! {
            () = stop.cancelled() => return,
            accepted = listener.accept() => accepted,
        };
        let (stream, peer) = match accepted {
            Ok(accepted) => accepted,
            Err(error) => {
                // The next connection waits in the queue of the system. Descriptors of inactive clients are the
                // cheapest to free.
                let closed = table.relieve();
                if logged.is_none_or(|logged| logged.elapsed() > LOGGED_EACH) {
                    tracing::warn!(%error, closed, "cannot accept a connection: closing slow and idle ones");
                    logged = Some(Instant::now());
                }
                tokio::time::sleep(BREATH).await;
                continue;
            }
        };
        let ticket = Arc::new(table.admit(peer.ip()));
        let (router, auth) = (served.router.clone(), Arc::clone(&served.auth));
        let service = Service { router, auth, answering: served.answering.clone(), ticket, peer };
        open.spawn(connection(stream, service, stop.clone(), end.clone()));
    }
}

/// Returns the wanted number of connections, reduced to what the limit on descriptors permits.
fn affordable(wanted: usize) -> usize {
    let descriptors = rustix::process::getrlimit(rustix::process::Resource::Nofile).current;
    let most = descriptors.map_or(usize::MAX, |all| usize::try_from(all / DESCRIPTORS).unwrap_or(usize::MAX));
    if most < wanted {
        tracing::warn!(
            wanted,
            most,
            "the limit on open files allows fewer connections: raise it (ulimit -n, LimitNOFILE=) for more"
        );
    }
    wanted.min(most)
}

async fn connection(stream: TcpStream, service: Service, stop: CancellationToken, end: CancellationToken) {
    // Small responses are sent at once, and unread responses must not fill the memory of the system.
    let _ = stream.set_nodelay(true);
    let _ = rustix::net::sockopt::set_socket_send_buffer_size(&stream, SEND_BUFFER);
    let ticket = Arc::clone(&service.ticket);
    let head_time = match ticket.lane {
        Lane::Regular => HEAD_TIME,
        Lane::Aside => PROBE_TIME,
    };
    let mut http = http1::Builder::new();
    http.timer(TokioTimer::new()).header_read_timeout(head_time).max_buf_size(MAX_HEAD);
    let io = TokioIo::new(PacedStream::new(stream, ticket.record.clone()));
    let connection =
        http.serve_connection(io, hyper::service::service_fn(move |request| service.clone().answer(request)));
    tokio::pin!(connection);
    tokio::select! {
        served = connection.as_mut() => return told(served),
        () = ticket.close.cancelled() => return,
        () = stop.cancelled() => connection.as_mut().graceful_shutdown(),
    }
    tokio::select! {
        served = connection.as_mut() => told(served),
        () = ticket.close.cancelled() => {}
        () = end.cancelled() => {}
    }
}

fn told(served: hyper::Result<()>) {
    if let Err(error) = served {
        tracing::debug!(%error, "the connection ended with an error");
    }
}

/// Handles the requests of one connection.
#[derive(Clone)]
struct Service {
    router: Router,
    auth: Arc<AuthState>,
    answering: Answering,
    ticket: Arc<Ticket>,
    peer: SocketAddr,
}

impl Service {
    async fn answer(
        mut self,
        request: hyper::Request<Incoming>,
    ) -> Result<hyper::Response<AnswerBody<Body>>, Infallible> {
        // Event streams, which clients request with GET, are not waited for when the server stops.
        let answering = (request.method() != Method::GET).then(|| self.answering.begin());
        let ticket = Arc::clone(&self.ticket);
        let client = self.auth.client(self.peer.ip(), request.headers());
        let has_room = ticket.begin(client) && ticket.lane == Lane::Regular;
        let response = if has_room || PROBES.contains(&request.uri().path()) {
            let too_slow = TooSlow::default();
            let mut request = request.map(|body| PacedBody::new(body, too_slow.clone(), ticket.record.clone()));
            request.extensions_mut().insert(Peer(self.peer));
            let Ok(response) = self.router.call(request).await;
            if too_slow.is_so() { slow_body() } else { response }
        } else {
            full()
        };
        Ok(closing(response, ticket.lane).map(|body| AnswerBody::new(body, ticket, answering)))
    }
}

/// Connections that only serve probes are closed after one request.
fn closing(mut response: Response, lane: Lane) -> Response {
    if lane == Lane::Aside {
        response.headers_mut().insert(header::CONNECTION, HeaderValue::from_static("close"));
    }
    response
}

/// Response to a request whose body arrived too slowly, whatever the route returned.
pub(crate) fn slow_body() -> Response {
    let error = "the body of the request arrived too slowly: send at least 4 KiB per second";
    let body = axum::Json(serde_json::json!({ "error": error, "code": "slow_request" }));
    (StatusCode::REQUEST_TIMEOUT, [(header::CONNECTION, "close")], body).into_response()
}

fn full() -> Response {
    let error = "the server has no room for another connection from this client: close some, or try again later";
    let body = axum::Json(serde_json::json!({ "error": error, "code": "too_many_connections" }));
    let headers = [(header::CONNECTION, "close"), (header::RETRY_AFTER, "1")];
    (StatusCode::SERVICE_UNAVAILABLE, headers, body).into_response()
}
