//! One HTTP request and its response.

mod request;
mod response;

use std::io;
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use bytes::Bytes;
use futures::stream::poll_fn;
use http::{Method, Request, Response};
use http_body::Frame;
use http_body_util::{BodyExt as _, Empty, StreamBody};
use hyper::body::Incoming;
use tokio::sync::mpsc;
use tokio::time::timeout;

use crate::access::Access;
use crate::body::{Body, BodyError};
use crate::client::Client;
use crate::decide::{Attempt, Refusal, RefusalKind, Scheme, subject};
use crate::guest::{Guest, Reader};
use crate::head::{Framing, Head};
use crate::reply::{self, After};
use crate::rules::Asked;
use crate::target::Target;
use crate::ticket::Ticket;
use crate::upstream::{Connection, Sent};
use response::Passing;

/// Why there is no complete response.
enum Failed {
    /// Nothing has been written to the guest. A clause that follows the request.
    Before(String),
    /// The response is cut off.
    Within(String),
}

/// Sends a request if it is allowed, and passes the response back.
pub(crate) async fn exchange(client: &mut Client, head: Head, target: Target) -> io::Result<After> {
    let access = Arc::clone(&client.access);
    let target = raised(&access, target);
    let ticket = match permitted(&access, &head, &target).await {
        Ok(ticket) => ticket,
        Err(refusal) => return client.refuse(&head, &refusal).await,
    };
    let mut kept = client.upstream.take();
    if let Some(connection) = &mut kept
        && !connection.serves(target.scheme, &target.host, target.port).await
    {
        kept = None;
    }
    let mut route =
        Route { access: &access, target: &target, ticket: &ticket, is_fresh: kept.is_none(), connection: kept };
    if let Err(refusal) = route.open().await {
        ticket.failed(&refusal.reason);
        return client.refuse(&head, &refusal).await;
    }

    let keep = client.after(&head);
    if head.wants_continue() && head.framing != Framing::Empty {
        client.guest.writer.write(b"HTTP/1.1 100 Continue\r\n\r\n").await?;
        client.guest.writer.flush().await?;
    }
    let idle = access.proxy.limits.idle_time;
    let uploaded = AtomicBool::new(false);
    let (sender, receiver) = mpsc::channel(1);
    let request = request::build(&access, &head, &target, sent_body(head.framing, receiver));
    let (answered, pumped) = {
        let Guest { reader, writer } = &mut client.guest;
        let mut pump = pin!(pump(Body::new(head.framing, idle), reader, sender, &ticket, idle, &uploaded));
        let mut answer = pin!(async {
            let request = request.map_err(|error| Failed::Before(format!("cannot be sent: {error}")))?;
            let response = route.send(request, idle).await?;
            let keep = if uploaded.load(Ordering::Relaxed) { keep } else { After::Close };
            let passing = Passing { access: &access, head: &head, target: &target, ticket: &ticket, keep };
            response::pass(&passing, response, writer).await
        });
        let mut pumped = None;
        loop {
            tokio::select! {
                result = &mut pump, if pumped.is_none() => pumped = Some(result),
                result = &mut answer => break (result, pumped),
            }
        }
    };
    let failed = match (answered, pumped) {
        (Ok(After::Keep), Some(Ok(()))) => {
            ticket.succeeded();
            client.upstream = route.connection;
            return Ok(After::Keep);
        }
        (Ok(_), _) => {
            ticket.succeeded();
            return Ok(After::Close);
        }
        (Err(Failed::Within(reason)), _) => {
            ticket.failed(&reason);
            return Err(io::Error::other(reason));
        }
        (Err(Failed::Before(_)), Some(Err(error))) => {
            Refusal::new(RefusalKind::Protocol, ticket.attempt.subject(), error.to_string())
        }
        (Err(Failed::Before(reason)), _) => Refusal::new(RefusalKind::Upstream, ticket.attempt.subject(), reason),
    };
    ticket.failed(&failed.reason);
    access.refused(&failed);
    reply::refuse(&mut client.guest.writer, &failed, After::Close, head.method != Method::HEAD).await?;
    Ok(After::Close)
}

/// A plain request for a host that has a credential goes by TLS: the credential must not be read on its way.
fn raised(access: &Access, mut target: Target) -> Target {
    if target.scheme == Scheme::Http
        && target.port == 80
        && let Some(port) = access.grant.credentials.raised_port(&target.host)
    {
        (target.scheme, target.port) = (Scheme::Https, port);
    }
    target
}

/// Applies the rules, then asks.
async fn permitted(access: &Access, head: &Head, target: &Target) -> Result<Ticket, Refusal> {
    let Target { scheme, host, port, path, query } = target;
    let method = head.method.as_str();
    let subject = subject(method, host, *port, path);
    if head.method == Method::CONNECT || head.method == Method::TRACE {
        return Err(Refusal::new(RefusalKind::Protocol, subject, "has a method that is not sent"));
    }
    if let Err(source) = access.grant.rules.allows(Asked { method, host, port: *port, path }) {
        return Err(Refusal::new(RefusalKind::Rule, subject, format!("is not allowed by any rule of {source}"))
            .with_hint(format!("{source}: [\"{method} {host}:{port}\"]")));
    }
    let body_bytes = match head.framing {
        Framing::Empty => Some(0),
        Framing::Length(length) => Some(length),
        Framing::Chunked => None,
    };
    access
        .decided(Attempt {
            id: access.next_attempt(),
            scheme: *scheme,
            method: method.to_owned(),
            host: host.clone(),
            port: *port,
            path: path.clone(),
            query: query.clone(),
            body_bytes,
            credentials: request::used(access, &head.method, target).map(|binding| binding.id.clone()).collect(),
        })
        .await
}

/// The way to the host of one request.
struct Route<'a> {
    access: &'a Access,
    target: &'a Target,
    ticket: &'a Ticket,
    /// Whether the connection was opened for this request.
    is_fresh: bool,
    connection: Option<Connection>,
}

impl Route<'_> {
    async fn open(&mut self) -> Result<(), Refusal> {
        if self.connection.is_none() {
            let Target { scheme, host, port, .. } = self.target;
            let subject = self.ticket.attempt.subject();
            self.connection = Some(Connection::open(self.access, *scheme, host, *port, &subject).await?);
            self.is_fresh = true;
        }
        Ok(())
    }

    /// Sends a request and waits for the head of the response.
    async fn send(&mut self, request: Request<Sent>, idle: Duration) -> Result<Response<Incoming>, Failed> {
        let mut request = request;
        loop {
            let Some(connection) = &mut self.connection else {
                return Err(Failed::Before("cannot be sent: there is no connection".to_owned()));
            };
            let sending = connection.sender.try_send_request(request);
            let mut error = match awaited(sending, self.ticket, idle).await {
                None => return Err(Failed::Before("got no response in time".to_owned())),
                Some(Ok(response)) => return Ok(response),
                Some(Err(error)) => error,
            };
            // The host may have closed a connection that was kept in this very moment.
            match error.take_message() {
                Some(unsent) if !self.is_fresh => request = unsent,
                _ => return Err(Failed::Before(format!("got no response: {}", causes(error.error())))),
            }
            self.connection = None;
            self.open().await.map_err(|refusal| Failed::Before(refusal.reason))?;
        }
    }
}

/// Waits for a result as long as bytes move.
async fn awaited<F: Future>(future: F, ticket: &Ticket, idle: Duration) -> Option<F::Output> {
    let mut future = pin!(future);
    loop {
        let before = ticket.bytes();
        match timeout(idle, &mut future).await {
            Ok(output) => return Some(output),
            Err(_) if ticket.bytes() != before => {}
            Err(_) => return None,
        }
    }
}

/// The body of a request as hyper takes it.
fn sent_body(framing: Framing, mut receiver: mpsc::Receiver<io::Result<Bytes>>) -> Sent {
    if framing == Framing::Empty {
        return Empty::new().map_err(|never| match never {}).boxed_unsync();
    }
    let pieces = poll_fn(move |cx| receiver.poll_recv(cx).map(|piece| piece.map(|piece| piece.map(Frame::data))));
    StreamBody::new(pieces).boxed_unsync()
}

/// Reads the body from the guest, piece by piece, as fast as the host takes it.
async fn pump(
    mut body: Body,
    reader: &mut Reader,
    sender: mpsc::Sender<io::Result<Bytes>>,
    ticket: &Ticket,
    idle: Duration,
    uploaded: &AtomicBool,
) -> Result<(), BodyError> {
    loop {
        let piece = match body.next(reader).await {
            Ok(None) => {
                uploaded.store(true, Ordering::Relaxed);
                return Ok(());
            }
            Ok(Some(piece)) => piece,
            Err(error) => {
                // Without this, what has been sent so far would look like all of it.
                let _ = sender.send(Err(io::Error::other("the body of the request is cut off"))).await;
                return Err(error);
            }
        };
        let length = piece.len() as u64;
        match timeout(idle, sender.send(Ok(piece))).await {
            Ok(Ok(())) => ticket.up.fetch_add(length, Ordering::Relaxed),
            Ok(Err(_)) => return Err(BodyError::Io(io::ErrorKind::BrokenPipe.into())),
            Err(_) => return Err(BodyError::Io(io::ErrorKind::TimedOut.into())),
        };
    }
}

/// An error with its causes: those of hyper say little without.
fn causes(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut source = error.source();
    while let Some(cause) = source {
        text = format!("{text}: {cause}");
        source = cause.source();
    }
    text
}
