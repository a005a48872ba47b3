//! The command's side: requests a connection, and uses it as a transport.

use super::{
    Answer, Ended, MAX_HANDSHAKE, Place, Settings, VERSION, Wish, is_private, is_socket, line, not_private, own_uid,
};
use crate::connection_state::{ConnectionState, Fault};
use crate::lines::{Line, Lines};
use crate::scrub::Scrubber;
use crate::stdio::{MAX_MESSAGE, message};
use coracle_types::ServerSpec;
use rmcp::RoleClient;
use rmcp::service::{RxJsonRpcMessage, TxJsonRpcMessage};
use rmcp::transport::Transport;
use serde::Deserialize as _;
use serde_json::Value;
use std::io;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;
use tokio::io::AsyncWriteExt as _;
use tokio::net::UnixStream;
use tokio::net::unix::{OwnedReadHalf, OwnedWriteHalf};
use tokio::sync::Mutex;

/// Maximum time until a running `coracle up` replies whether it lends a connection.
const ANSWERS_WITHIN: Duration = Duration::from_secs(5);

/// The reason of a connection that ended without a last line.
const LENDER_GONE: &str = "it was the connection of the running `coracle up`, which has ended";

/// Why no connection was lent.
#[derive(Debug, thiserror::Error)]
pub(crate) enum NotLent {
    /// No `coracle up` is running.
    #[error("no `coracle up` is running")]
    NobodyThere,
    /// The socket cannot be trusted.
    #[error("{0}")]
    Untrusted(String),
    /// The lender has different settings for this server, or cannot start it.
    #[error("{0}")]
    Refused(String),
    /// The lender does not answer.
    #[error("it does not answer")]
    Silent,
    #[error(transparent)]
    Broken(#[from] io::Error),
}

/// A stream on which MCP begins.
pub(crate) struct Loan {
    lines: Lines<OwnedReadHalf>,
    write: OwnedWriteHalf,
}

/// Requests the connection to a server. May take as long as the server needs to start.
pub(crate) async fn borrow(path: &Path, spec: &ServerSpec, chain: &[String]) -> Result<Loan, NotLent> {
    let (read, mut write) = connect(path).await?.into_split();
    let mut lines = Lines::new(read, MAX_HANDSHAKE);
    let wish = Wish { version: VERSION, server: spec.name.clone(), settings: Settings::of(spec, chain) };
    let first = async {
        write.write_all(&line(&wish)?).await?;
        answer(&mut lines).await
    };
    let mut told = tokio::time::timeout(ANSWERS_WITHIN, first).await.map_err(|_| NotLent::Silent)??;
    while let Answer::Wait = told {
        told = answer(&mut lines).await?;
    }
    match told {
        Answer::Refused { reason } => Err(NotLent::Refused(reason)),
        Answer::Wait | Answer::Lent => {
            lines.allow(MAX_MESSAGE);
            Ok(Loan { lines, write })
        }
    }
}

/// Connects to a socket that only this user can have created and that a process of this user listens on.
async fn connect(path: &Path) -> Result<UnixStream, NotLent> {
    let untrusted = |error: io::Error| match error.kind() {
        io::ErrorKind::NotFound => NotLent::NobodyThere,
        _ => NotLent::Untrusted(error.to_string()),
    };
    let place = Place::open(path).map_err(untrusted)?;
    match place.look()? {
        None => return Err(NotLent::NobodyThere),
        Some(found) if is_socket(&found) && is_private(&found) => {}
        Some(_) => return Err(untrusted(not_private(path))),
    }
    let stream = match UnixStream::connect(place.address()).await {
        Ok(stream) => stream,
        // Left behind by a lender that was killed.
        Err(error) if error.kind() == io::ErrorKind::ConnectionRefused => return Err(NotLent::NobodyThere),
        Err(error) => return Err(error.into()),
    };
    let uid = stream.peer_cred()?.uid();
    if uid != own_uid() {
        return Err(NotLent::Untrusted(format!("user {uid} listens on {}", path.display())));
    }
    Ok(stream)
}

async fn answer(lines: &mut Lines<OwnedReadHalf>) -> io::Result<Answer> {
    if lines.next().await? != Line::Whole {
        return Err(io::ErrorKind::UnexpectedEof.into());
    }
    let answer = serde_json::from_slice(lines.current())?;
    lines.clear();
    Ok(answer)
}

/// A lent connection as a transport.
pub(crate) struct Borrowed {
    lines: Lines<OwnedReadHalf>,
    write: Arc<Mutex<Option<OwnedWriteHalf>>>,
    state: Arc<ConnectionState>,
    scrubber: Arc<Scrubber>,
}

impl Borrowed {
    pub(crate) fn new(loan: Loan, state: Arc<ConnectionState>, scrubber: Arc<Scrubber>) -> Self {
        Self { lines: loan.lines, write: Arc::new(Mutex::new(Some(loan.write))), state, scrubber }
    }

    /// The message of one line. `None` if the connection has ended.
    fn take_line(&mut self) -> Option<RxJsonRpcMessage<RoleClient>> {
        let value: Option<Value> = serde_json::from_slice(self.lines.current()).ok();
        self.lines.clear();
        if let Some(ended) = value.as_ref().and_then(|value| Ended::deserialize(value).ok()) {
            self.state.fail(Fault::Ended(self.scrubber.clean(&ended.ended)));
            return None;
        }
        let message = value.and_then(|value| message(value, &self.state));
        if message.is_none() {
            self.state.fail(Fault::Protocol("the running `coracle up` sent a line that is not a message".to_owned()));
        }
        message
    }
}

impl Transport<RoleClient> for Borrowed {
    type Error = io::Error;

    fn send(
        &mut self,
        item: TxJsonRpcMessage<RoleClient>,
    ) -> impl Future<Output = Result<(), Self::Error>> + Send + 'static {
        let write = Arc::clone(&self.write);
        async move {
            let line = line(&item)?;
            let mut write = write.lock().await;
            let write = write.as_mut().ok_or(io::ErrorKind::NotConnected)?;
            match write.write_all(&line).await {
                // The last line, which is read afterwards, has the reason.
                Err(error) if matches!(error.kind(), io::ErrorKind::BrokenPipe | io::ErrorKind::ConnectionReset) => {
                    Ok(())
                }
                sent => sent,
            }
        }
    }

    async fn receive(&mut self) -> Option<RxJsonRpcMessage<RoleClient>> {
        match self.lines.next().await {
            Ok(Line::Whole) => return self.take_line(),
            Ok(Line::TooLong) => {
                let limit = MAX_MESSAGE / 1024 / 1024;
                self.state.fail(Fault::TooLarge(format!("a message of more than {limit} MiB")));
            }
            Ok(Line::End) | Err(_) => self.state.fail(Fault::Ended(LENDER_GONE.to_owned())),
        }
        None
    }

    async fn close(&mut self) -> Result<(), Self::Error> {
        // A pending write holds the lock, and ends when the stream is dropped.
        if let Ok(mut write) = self.write.try_lock() {
            drop(write.take());
        }
        Ok(())
    }
}
