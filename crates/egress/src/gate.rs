//! The access of one sandbox, and the life of a connection from it.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;

use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpListener;
use tokio::sync::{Notify, OwnedSemaphorePermit, Semaphore};
use tokio::task::JoinSet;
use tokio::time::timeout;
use tokio_util::sync::CancellationToken;

use crate::access::{Access, Grant};
use crate::authority::{Authority, AuthorityError};
use crate::decide::{Decide, Refusal, RefusalKind};
use crate::guest::Guest;
use crate::limits::Share;
use crate::proxy::Proxy;
use crate::reply::{self, After};
use crate::session::Session;
use crate::{socks, tunnel};

/// The access of one sandbox. Clones are the same gate.
#[derive(Clone)]
pub struct Gate(Arc<Access>);

impl fmt::Debug for Gate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Gate").field("grant", &self.0.grant).finish_non_exhaustive()
    }
}

impl Gate {
    /// Opens a gate for a sandbox, with an authority of its own. Its connections count against `share`, that of the
    /// sandbox's user. When `cancel` is cancelled, all connections end.
    pub fn new(
        proxy: &Proxy,
        share: &Share,
        grant: Grant,
        decide: Arc<dyn Decide>,
        cancel: CancellationToken,
    ) -> Result<Self, AuthorityError> {
        Ok(Self::with_authority(proxy, share, grant, Arc::new(Authority::generate()?), decide, cancel))
    }

    /// Opens a gate for a sandbox that has had others, whose certificates its code trusts.
    pub fn with_authority(
        proxy: &Proxy,
        share: &Share,
        grant: Grant,
        authority: Arc<Authority>,
        decide: Arc<dyn Decide>,
        cancel: CancellationToken,
    ) -> Self {
        Self(Arc::new(Access {
            places: Arc::new(Semaphore::new(proxy.limits.connections_per_sandbox)),
            proxy: proxy.clone(),
            grant,
            authority,
            decide,
            cancel,
            share: share.clone(),
            needed: Notify::new(),
            attempts: AtomicU64::new(0),
        }))
    }

    /// The certificate that code in the sandbox must trust, if HTTPS requests to some hosts are read. It is the only one
    /// that those hosts show; the others show their own, so it must be added to the trusted ones, not replace them.
    pub fn certificate_pem(&self) -> Option<String> {
        let is_needed = self.0.grant.rules.has_restrictions() || !self.0.grant.credentials.is_empty();
        is_needed.then(|| self.0.authority.certificate_pem())
    }

    /// Serves all connections that a listener accepts, until the gate is cancelled. The listener is the identity of the
    /// sandbox: only that sandbox can reach it. Dropping the future ends all connections.
    pub async fn listen(&self, listener: TcpListener) {
        let mut connections = JoinSet::new();
        loop {
            let place = tokio::select! {
                () = self.0.cancel.cancelled() => return,
                place = self.0.place() => place,
            };
            let accepted = loop {
                tokio::select! {
                    () = self.0.cancel.cancelled() => return,
                    Some(_) = connections.join_next() => {}
                    accepted = listener.accept() => break accepted,
                }
            };
            match accepted {
                Ok((stream, _)) => {
                    if let Err(error) = stream.set_nodelay(true) {
                        tracing::debug!(%error, "cannot set an option of a connection from a sandbox");
                    }
                    let access = Arc::clone(&self.0);
                    connections.spawn(async move { serve(access, stream, place).await });
                }
                Err(error) => {
                    tracing::warn!(%error, "cannot accept a connection from a sandbox");
                    // Without a descriptor left, accepting fails until a connection has ended.
                    if connections.join_next().await.is_none() {
                        return;
                    }
                }
            }
        }
    }

    /// Serves one connection, for transports that have no listener. Returns when it has ended. Waits for a free place first.
    pub async fn serve<S>(&self, stream: S)
    where
        S: AsyncRead + AsyncWrite + Send + Unpin + 'static,
    {
        let place = tokio::select! {
            () = self.0.cancel.cancelled() => return,
            place = self.0.place() => place,
        };
        serve(Arc::clone(&self.0), stream, place).await;
    }
}

async fn serve<S>(access: Arc<Access>, stream: S, place: Option<OwnedSemaphorePermit>)
where
    S: AsyncRead + AsyncWrite + Send + Unpin + 'static,
{
    let guest = Guest::new(stream, access.proxy.limits.idle_time);
    tokio::select! {
        () = access.cancel.cancelled() => {}
        () = run(&access, guest) => {}
    }
    drop(place);
}

async fn run(access: &Arc<Access>, mut guest: Guest) {
    let both = async {
        let own = Arc::clone(&access.share.0).acquire_owned().await;
        (own, Arc::clone(&access.proxy.places).acquire_owned().await)
    };
    let Ok(_places) = timeout(access.proxy.limits.wait, both).await else {
        let refusal = Refusal::new(RefusalKind::Limit, "the connection", "found no free place: too many are open")
            .with_hint("close connections that are not needed, or try again later");
        access.refused(&refusal);
        if reply::refuse(&mut guest.writer, &refusal, After::Close, true).await.is_ok() {
            guest.close().await;
        }
        return;
    };
    // Nobody is told about a connection without a byte.
    if guest.reader.fill_within(access.proxy.limits.head_time).await.is_err() {
        return;
    }
    let inside = if guest.reader.buffer[0] == socks::VERSION {
        socks::serve(access, guest).await
    } else {
        match Session::forward(Arc::clone(access), guest).run().await {
            Some((head, guest)) => tunnel::connect(access, guest, &head).await,
            None => None,
        }
    };
    if let Some(inside) = inside {
        Session::inside(Arc::clone(access), inside).run().await;
    }
}
