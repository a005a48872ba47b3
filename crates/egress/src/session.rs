//! The requests of one connection, one after the other.

use std::io;
use std::sync::Arc;

use http::Method;
use tokio::time::{Instant, timeout_at};

use crate::access::Access;
use crate::client::Client;
use crate::decide::{Refusal, RefusalKind, Scheme};
use crate::exchange::exchange;
use crate::guest::Guest;
use crate::head::{Head, take_head};
use crate::reply::{self, After};
use crate::target::{self, Target, TargetError};
use crate::tunnel::{Inside, Tunnel};

/// The requests of one connection.
pub(crate) struct Session {
    client: Client,
    mode: Mode,
    /// Whether the guest was told something that it must be able to read before the connection ends.
    was_told: bool,
}

/// What the guest takes this connection for.
enum Mode {
    /// A proxy.
    Forward,
    /// The host itself.
    Host(Scheme, Tunnel),
}

impl Session {
    /// A session with a guest that knows it talks to a proxy.
    pub(crate) fn forward(access: Arc<Access>, guest: Guest) -> Self {
        Self { client: Client { access, guest, upstream: None }, mode: Mode::Forward, was_told: false }
    }

    /// A session with a guest that talks to a host through a tunnel.
    pub(crate) fn inside(access: Arc<Access>, inside: Inside) -> Self {
        let Inside { guest, scheme, tunnel } = inside;
        Self { client: Client { access, guest, upstream: None }, mode: Mode::Host(scheme, tunnel), was_told: false }
    }

    /// Serves all requests. Returns the head of a CONNECT to a proxy: what follows is a tunnel.
    pub(crate) async fn run(mut self) -> Option<(Head, Guest)> {
        let mut is_first = true;
        while let Some(head) = self.head(is_first).await {
            is_first = false;
            if head.method == Method::CONNECT && matches!(self.mode, Mode::Forward) {
                return Some((head, self.client.guest));
            }
            match self.request(head).await {
                Ok(After::Keep) => {}
                Ok(After::Close) => {
                    self.client.guest.close().await;
                    return None;
                }
                Err(error) => {
                    tracing::debug!(%error, "connection from a sandbox ended");
                    return None;
                }
            }
        }
        if self.was_told {
            self.client.guest.close().await;
        }
        None
    }

    /// The next head. `None` if the connection has ended, or has to.
    async fn head(&mut self, is_first: bool) -> Option<Head> {
        let limits = &self.client.access.proxy.limits;
        if self.client.guest.reader.buffer.is_empty() {
            let wait = self.client.guest.reader.fill_within(if is_first { limits.head_time } else { limits.idle_time });
            tokio::select! {
                result = wait => result.ok()?,
                () = self.client.access.needed.notified(), if !is_first => return None,
            }
        }
        let deadline = Instant::now() + limits.head_time;
        let error = loop {
            match take_head(&mut self.client.guest.reader.buffer, limits.head_bytes, limits.headers) {
                Ok(Some(head)) => return Some(head),
                Err(error) => break error,
                Ok(None) => {}
            }
            match timeout_at(deadline, self.client.guest.reader.fill()).await {
                Ok(Ok(0) | Err(_)) => return None,
                Ok(Ok(_)) => {}
                Err(_) => {
                    let refusal =
                        Refusal::new(RefusalKind::Limit, "the request", "has a head that does not end in time");
                    self.end_with(&refusal).await;
                    return None;
                }
            }
        };
        self.end_with(&Refusal::new(RefusalKind::Protocol, "the request", error.to_string())).await;
        None
    }

    async fn end_with(&mut self, refusal: &Refusal) {
        self.client.access.refused(refusal);
        self.was_told = true;
        if let Err(error) = reply::refuse(&mut self.client.guest.writer, refusal, After::Close, true).await {
            tracing::debug!(%error, "cannot answer a sandbox");
        }
    }

    async fn request(&mut self, head: Head) -> io::Result<After> {
        match self.target(&head) {
            Ok(target) => exchange(&mut self.client, head, target).await,
            Err(error) => {
                let mut refusal = Refusal::new(error.kind(), "the request", error.to_string());
                refusal.hint = error.hint().map(str::to_owned);
                self.client.refuse(&head, &refusal).await
            }
        }
    }

    /// Where a request goes. The Host header, the tunnel and the address must agree.
    fn target(&self, head: &Head) -> Result<Target, TargetError> {
        let target = match &self.mode {
            Mode::Forward => target::absolute(&head.target)?,
            Mode::Host(scheme, tunnel) => {
                let (path, query) = target::origin(&head.target)?;
                Target { scheme: *scheme, host: tunnel.host.clone(), port: tunnel.port, path, query }
            }
        };
        if let Some(value) = head.headers.get(http::header::HOST) {
            target::check_host(value.as_bytes(), &target.host, target.port, target.scheme)?;
        }
        Ok(target)
    }
}
