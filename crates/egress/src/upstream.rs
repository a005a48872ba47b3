//! Connections to the hosts that were allowed.

use std::io;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http_body_util::combinators::UnsyncBoxBody;
use hyper::client::conn::http1::{Builder, SendRequest};
use hyper_util::rt::TokioIo;
use rustls::pki_types::ServerName;
use tokio::net::TcpStream;
use tokio::time::timeout;
use tokio_rustls::TlsConnector;
use tokio_util::task::AbortOnDropHandle;

use crate::access::Access;
use crate::decide::{Refusal, RefusalKind, Scheme};
use crate::guest::Duplex;
use crate::host::Host;

/// Addresses of one name that are tried.
const MAX_ADDRESSES: usize = 8;
/// Buffer for the head of a response and for pieces of its body.
const BUFFER: usize = 64 * 1024;

/// How long a connection may take to be ready for the next request, before a new one is opened instead.
const READY_TIME: Duration = Duration::from_millis(100);

/// The body of a request on its way to a host.
pub(crate) type Sent = UnsyncBoxBody<Bytes, io::Error>;

/// A connection that speaks HTTP.
pub(crate) struct Connection {
    pub(crate) sender: SendRequest<Sent>,
    scheme: Scheme,
    host: Host,
    port: u16,
    /// Drives the connection, and ends with it.
    _driver: AbortOnDropHandle<()>,
}

/// Looks up a name and returns the addresses to which a connection may go.
pub(crate) async fn addresses(
    access: &Access,
    host: &Host,
    port: u16,
    subject: &str,
) -> Result<Vec<SocketAddr>, Refusal> {
    let failed = |reason: String| Refusal::new(RefusalKind::Upstream, subject, reason);
    let found: Vec<IpAddr> = match timeout(access.proxy.limits.dns_time, access.proxy.resolver.resolve(host)).await {
        Err(_) => return Err(failed(format!("cannot be sent: looking up {host} takes too long"))),
        Ok(Err(error)) => return Err(failed(format!("cannot be sent: {host} cannot be looked up: {error}"))),
        Ok(Ok(found)) => found,
    };
    if found.is_empty() {
        return Err(failed(format!("cannot be sent: {host} has no addresses")));
    }
    let private = &access.grant.private_addresses;
    let mut allowed: Vec<SocketAddr> = Vec::new();
    for address in found.into_iter().filter(|address| private.allows(host, *address)) {
        let address = SocketAddr::new(address.to_canonical(), port);
        if !allowed.contains(&address) && allowed.len() < MAX_ADDRESSES {
            allowed.push(address);
        }
    }
    if allowed.is_empty() {
        let reason = "leads only to addresses that are not public";
        return Err(Refusal::new(RefusalKind::Address, subject, reason).with_hint(format!(
            "network.private_addresses: [{:?}], or the network if it is link-local or reserved",
            host.as_str()
        )));
    }
    Ok(allowed)
}

/// Connects to the first of the addresses that answers. They are those that were checked: nothing is looked up here.
pub(crate) async fn connect(access: &Access, addresses: &[SocketAddr], subject: &str) -> Result<TcpStream, Refusal> {
    let failed = |reason: String| Refusal::new(RefusalKind::Upstream, subject, format!("cannot be sent: {reason}"));
    let try_all = async {
        let mut last = io::Error::from(io::ErrorKind::AddrNotAvailable);
        for address in addresses {
            match TcpStream::connect(address).await {
                Ok(stream) => return Ok(stream),
                Err(error) => last = error,
            }
        }
        Err(last)
    };
    let stream = match timeout(access.proxy.limits.connect_time, try_all).await {
        Err(_) => return Err(failed("connecting takes too long".to_owned())),
        Ok(Err(error)) => return Err(failed(error.to_string())),
        Ok(Ok(stream)) => stream,
    };
    stream.set_nodelay(true).map_err(|error| failed(error.to_string()))?;
    Ok(stream)
}

impl Connection {
    /// Opens a connection for HTTP requests.
    pub(crate) async fn open(
        access: &Access,
        scheme: Scheme,
        host: &Host,
        port: u16,
        subject: &str,
    ) -> Result<Self, Refusal> {
        let failed = |reason: String| Refusal::new(RefusalKind::Upstream, subject, format!("cannot be sent: {reason}"));
        let stream = connect(access, &addresses(access, host, port, subject).await?, subject).await?;
        let stream: Box<dyn Duplex> = if scheme == Scheme::Http {
            Box::new(stream)
        } else {
            let name = ServerName::try_from(host.as_str().to_owned()).map_err(|error| failed(error.to_string()))?;
            let connecting = TlsConnector::from(Arc::clone(&access.proxy.tls)).connect(name, stream);
            match timeout(access.proxy.limits.connect_time, connecting).await {
                Err(_) => return Err(failed("the TLS handshake takes too long".to_owned())),
                Ok(Err(error)) => return Err(failed(format!("the TLS handshake fails: {error}"))),
                Ok(Ok(stream)) => Box::new(stream),
            }
        };
        let handshake = Builder::new().max_buf_size(BUFFER).handshake::<_, Sent>(TokioIo::new(stream)).await;
        let (sender, connection) = handshake.map_err(|error| failed(error.to_string()))?;
        let driver = tokio::spawn(async move {
            if let Err(error) = connection.await {
                tracing::debug!(%error, "connection to a host ended");
            }
        });
        Ok(Self { sender, scheme, host: host.clone(), port, _driver: AbortOnDropHandle::new(driver) })
    }

    /// Whether it can take a request for this host now.
    pub(crate) async fn serves(&mut self, scheme: Scheme, host: &Host, port: u16) -> bool {
        let is_same = self.scheme == scheme && self.host == *host && self.port == port;
        is_same && matches!(timeout(READY_TIME, self.sender.ready()).await, Ok(Ok(())))
    }
}
