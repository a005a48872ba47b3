//! Connections: how many, how slow they may be, and who notices when one is gone.

use super::desk::Peer;
use super::sessions::InUse;
use axum::Router;
use bytes::Bytes;
use http_body::{Body, Frame, SizeHint};
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper_util::rt::{TokioIo, TokioTimer};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;
use tokio::net::TcpListener;
use tokio::sync::Semaphore;
use tokio_util::sync::{CancellationToken, DropGuard};
use tokio_util::task::TaskTracker;
use tower_service::Service as _;

/// So many at once; more wait to be accepted.
const MAX_CONNECTIONS: usize = 4096;
/// A connection that has not sent the head of a request by then is closed.
const HEAD_TIME: Duration = Duration::from_secs(15);
/// The largest head of a request.
const MAX_HEAD: usize = 64 << 10;
/// After an error of the system, such as no descriptors being left.
const BREATH: Duration = Duration::from_millis(100);

/// Accepts until `stop`, lets connections finish what they are at, and closes them at `end`.
pub(crate) async fn serve(
    listener: TcpListener,
    router: Router,
    stop: CancellationToken,
    end: CancellationToken,
) -> std::io::Result<()> {
    let free = Arc::new(Semaphore::new(MAX_CONNECTIONS));
    let open = TaskTracker::new();
    loop {
        let accepted = tokio::select! {
            () = stop.cancelled() => break,
            accepted = async {
                let permit = Arc::clone(&free).acquire_owned().await;
                (permit, listener.accept().await)
            } => accepted,
        };
        let (permit, (stream, peer)) = match accepted {
            (Ok(permit), Ok(accepted)) => (permit, accepted),
            (_, Err(error)) => {
                tracing::warn!(%error, "a connection cannot be accepted");
                tokio::time::sleep(BREATH).await;
                continue;
            }
            (Err(_), _) => break,
        };
        // Small answers must not wait for more.
        let _ = stream.set_nodelay(true);
        let (router, stop, end) = (router.clone(), stop.clone(), end.clone());
        open.spawn(async move {
            let _permit = permit;
            let mut http = http1::Builder::new();
            http.timer(TokioTimer::new()).header_read_timeout(HEAD_TIME).max_buf_size(MAX_HEAD);
            let service = hyper::service::service_fn(move |mut request: hyper::Request<Incoming>| {
                request.extensions_mut().insert(Peer(peer));
                router.clone().call(request)
            });
            let connection = http.serve_connection(TokioIo::new(stream), service);
            tokio::pin!(connection);
            tokio::select! {
                served = connection.as_mut() => return told(served),
                () = stop.cancelled() => connection.as_mut().graceful_shutdown(),
            }
            tokio::select! {
                served = connection.as_mut() => told(served),
                () = end.cancelled() => {}
            }
        });
    }
    open.close();
    open.wait().await;
    Ok(())
}

fn told(served: hyper::Result<()>) {
    if let Err(error) = served {
        tracing::debug!(%error, "a connection has ended");
    }
}

/// Cancelled when the client of a request is gone: its connection, or the stream of its answer.
#[derive(Clone, Debug, Default)]
pub(crate) struct Gone(pub(crate) CancellationToken);

impl Gone {
    pub(crate) fn guard(&self) -> GoneGuard {
        GoneGuard(self.0.clone().drop_guard())
    }
}

/// Whoever drops this has lost the client.
pub(crate) struct GoneGuard(DropGuard);

impl GoneGuard {
    /// From now on the client is there as long as the body is.
    pub(crate) fn around<B: Body<Data = Bytes> + Send + 'static>(self, body: B, in_use: Option<InUse>) -> Watched<B> {
        Watched { body: Box::pin(body), _guard: self.0, _in_use: in_use }
    }
}

/// A body, and with it the knowledge that somebody reads it.
pub(crate) struct Watched<B> {
    body: Pin<Box<B>>,
    _guard: DropGuard,
    _in_use: Option<InUse>,
}

impl<B: Body<Data = Bytes>> Body for Watched<B> {
    type Data = Bytes;
    type Error = B::Error;

    fn poll_frame(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, B::Error>>> {
        self.body.as_mut().poll_frame(context)
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}
