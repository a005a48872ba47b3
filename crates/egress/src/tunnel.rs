//! Tunnels: by CONNECT, or after a SOCKS handshake.

use std::net::SocketAddr;

use tokio::io::AsyncWriteExt as _;
use tokio::time::timeout;
use tokio_rustls::TlsAcceptor;

use crate::access::Access;
use crate::decide::{Attempt, Refusal, RefusalKind, Scheme, subject};
use crate::guest::Guest;
use crate::head::{Framing, Head};
use crate::hello::{ACCESS_DENIED, HANDSHAKE, HelloError, check_hello};
use crate::host::Host;
use crate::relay::relay;
use crate::reply::{self, After};
use crate::target::{self, TargetError};
use crate::ticket::Ticket;
use crate::upstream;

/// Method of tunnels in decisions and messages.
pub(crate) const CONNECT: &str = "CONNECT";

/// Where a tunnel leads.
#[derive(Clone)]
pub(crate) struct Tunnel {
    pub(crate) host: Host,
    pub(crate) port: u16,
}

/// A tunnel whose requests are read: what the guest sends from now on is for the host.
pub(crate) struct Inside {
    pub(crate) guest: Guest,
    pub(crate) scheme: Scheme,
    pub(crate) tunnel: Tunnel,
}

/// A tunnel that has been allowed.
pub(crate) struct Opened {
    ticket: Ticket,
    addresses: Vec<SocketAddr>,
}

/// Answers a CONNECT.
pub(crate) async fn connect(access: &Access, mut guest: Guest, head: &Head) -> Option<Inside> {
    match admitted(access, head).await {
        Err(refusal) => {
            access.refused(&refusal);
            if reply::refuse(&mut guest.writer, &refusal, After::Close, true).await.is_ok() {
                guest.close().await;
            }
            None
        }
        Ok((tunnel, opened)) => {
            let is_told = guest.writer.write(b"HTTP/1.1 200 Connection established\r\n\r\n").await.is_ok();
            let is_told = is_told && guest.writer.flush().await.is_ok();
            match opened {
                Some(opened) if is_told => {
                    pass_through(access, guest, &tunnel, opened).await;
                    None
                }
                Some(opened) => {
                    opened.ticket.failed("the sandbox closed the connection");
                    None
                }
                None if is_told => intercept(access, guest, tunnel).await,
                None => None,
            }
        }
    }
}

/// Decides about a CONNECT. A tunnel that will be read is not opened yet: its requests are decided about.
async fn admitted(access: &Access, head: &Head) -> Result<(Tunnel, Option<Opened>), Refusal> {
    let subject = "the request";
    if head.framing != Framing::Empty {
        return Err(Refusal::new(RefusalKind::Protocol, subject, "is a CONNECT with a body"));
    }
    let wrong = |error: TargetError| {
        let mut refusal = Refusal::new(error.kind(), subject, error.to_string());
        refusal.hint = error.hint().map(str::to_owned);
        refusal
    };
    let (host, port) = target::connect(&head.target).map_err(wrong)?;
    if let Some(value) = head.headers.get(http::header::HOST) {
        check_connect_host(value.as_bytes(), &host, port).map_err(wrong)?;
    }
    let tunnel = Tunnel { host, port };
    tunnel.check_reach(access)?;
    let opened = if tunnel.is_read(access) { None } else { Some(tunnel.open(access).await?) };
    Ok((tunnel, opened))
}

/// Programs send the Host of a CONNECT with and without its port.
fn check_connect_host(value: &[u8], host: &Host, port: u16) -> Result<(), TargetError> {
    let text = str::from_utf8(value).map_err(|_| TargetError::HostDiffers)?;
    let (named, named_port) = target::authority(text)?;
    let is_same = named == *host && named_port.is_none_or(|named| named == port);
    if is_same { Ok(()) } else { Err(TargetError::HostDiffers) }
}

impl Tunnel {
    pub(crate) fn subject(&self) -> String {
        subject(CONNECT, &self.host, self.port, "")
    }

    /// Fails if no rule allows any request there.
    pub(crate) fn check_reach(&self, access: &Access) -> Result<(), Refusal> {
        access.grant.rules.reaches(&self.host, self.port).map_err(|source| {
            Refusal::new(RefusalKind::Rule, self.subject(), format!("is not allowed by any rule of {source}"))
                .with_hint(format!("{source}: [\"{}:{}\"]", self.host, self.port))
        })
    }

    /// Whether the requests in it are read.
    pub(crate) fn is_read(&self, access: &Access) -> bool {
        let Self { host, port } = self;
        access.grant.rules.is_restricted(host, *port) || access.grant.credentials.is_bound(host, *port)
    }

    /// Asks about a tunnel that will not be read, and looks up its host.
    pub(crate) async fn open(&self, access: &Access) -> Result<Opened, Refusal> {
        let ticket = access
            .decided(Attempt {
                id: access.next_attempt(),
                scheme: Scheme::Tunnel,
                method: CONNECT.to_owned(),
                host: self.host.clone(),
                port: self.port,
                path: String::new(),
                query: None,
                body_bytes: None,
                credentials: Vec::new(),
            })
            .await?;
        match upstream::addresses(access, &self.host, self.port, &self.subject()).await {
            Ok(addresses) => Ok(Opened { ticket, addresses }),
            Err(refusal) => {
                ticket.failed(&refusal.reason);
                Err(refusal)
            }
        }
    }
}

/// Refuses what is in a tunnel. Nothing but an alert can be said to a TLS client.
async fn refuse(access: &Access, mut guest: Guest, refusal: &Refusal) {
    access.refused(refusal);
    let is_tls = guest.reader.buffer.first() == Some(&HANDSHAKE);
    if is_tls && guest.writer.write(ACCESS_DENIED).await.is_ok() && guest.writer.flush().await.is_ok() {
        guest.close().await;
    }
}

async fn checked(access: &Access, guest: &mut Guest, tunnel: &Tunnel) -> Result<(), Refusal> {
    let checked = check_hello(&mut guest.reader, &tunnel.host, access.proxy.limits.head_time).await;
    checked.map_err(|error| match error {
        HelloError::NotTls(reason) => Refusal::new(RefusalKind::Protocol, tunnel.subject(), reason),
        HelloError::Names(reason) => Refusal::new(RefusalKind::Names, tunnel.subject(), reason),
    })
}

/// Passes a tunnel through unread, if its TLS handshake names its host.
pub(crate) async fn pass_through(access: &Access, mut guest: Guest, tunnel: &Tunnel, opened: Opened) {
    let Opened { ticket, addresses } = opened;
    let connected = match checked(access, &mut guest, tunnel).await {
        Ok(()) => upstream::connect(access, &addresses, &tunnel.subject()).await,
        Err(refusal) => Err(refusal),
    };
    match connected {
        Ok(mut stream) => {
            let result = relay(guest.into_stream(), &mut stream, &ticket, access.proxy.limits.idle_time).await;
            match result {
                Ok(()) => ticket.succeeded(),
                Err(error) => ticket.failed(&format!("the tunnel broke: {error}")),
            }
            // The host learns of the end now, not when its packets are refused.
            if let Err(error) = stream.shutdown().await {
                tracing::debug!(%error, "the host had already ended the tunnel");
            }
        }
        Err(refusal) => {
            ticket.failed(&refusal.reason);
            refuse(access, guest, &refusal).await;
        }
    }
}

/// Speaks TLS as the host, so that the requests in the tunnel can be read.
pub(crate) async fn intercept(access: &Access, mut guest: Guest, tunnel: Tunnel) -> Option<Inside> {
    if let Err(refusal) = checked(access, &mut guest, &tunnel).await {
        refuse(access, guest, &refusal).await;
        return None;
    }
    let config = match access.authority.server(&tunnel.host) {
        Ok(config) => config,
        Err(error) => {
            let reason = format!("cannot be read: {error}");
            refuse(access, guest, &Refusal::new(RefusalKind::Limit, tunnel.subject(), reason)).await;
            return None;
        }
    };
    let limits = &access.proxy.limits;
    let failure = match timeout(limits.head_time, TlsAcceptor::from(config).accept(guest.into_stream())).await {
        Ok(Ok(stream)) => {
            let guest = Guest::new(stream, limits.idle_time);
            return Some(Inside { guest, scheme: Scheme::Https, tunnel });
        }
        Ok(Err(error)) => format!("fails in the TLS handshake: {error}"),
        Err(_) => "does not end the TLS handshake in time".to_owned(),
    };
    access.refused(&Refusal::new(RefusalKind::Protocol, tunnel.subject(), failure).with_hint(
        "requests to this host are read: programs must trust the certificate of the sandbox (SSL_CERT_FILE and others)",
    ));
    None
}
