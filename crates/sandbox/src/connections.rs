use std::io;
use std::time::Duration;
use tokio::net::{TcpListener, TcpStream};
use tokio_util::sync::CancellationToken;

/// How long to wait after the host has run out of descriptors or memory for a connection.
const PAUSE: Duration = Duration::from_millis(20);

/// The connections that one sandbox opens to [`PROXY`](crate::PROXY).
///
/// The listener was created inside the sandbox, in its own network namespace, so that every connection is one of this
/// sandbox. It keeps the namespace alive, and so does every accepted connection: drop them when the sandbox has ended.
#[derive(Debug)]
pub struct Connections {
    listener: Option<TcpListener>,
    ended: CancellationToken,
}

impl Connections {
    /// Accepts connections from `listener` until `ended` is cancelled.
    pub fn new(listener: TcpListener, ended: CancellationToken) -> Self {
        Self { listener: Some(listener), ended }
    }

    /// The next connection. `None` once the sandbox has ended. Cancel-safe: no connection is lost.
    pub async fn accept(&mut self) -> Option<TcpStream> {
        loop {
            let listener = self.listener.as_ref()?;
            let accepted = tokio::select! {
                biased;
                () = self.ended.cancelled() => None,
                accepted = listener.accept() => Some(accepted),
            };
            match accepted {
                Some(Ok((stream, _))) => return Some(stream),
                // The code has closed it meanwhile.
                Some(Err(error)) if error.kind() == io::ErrorKind::ConnectionAborted => {}
                Some(Err(error)) => {
                    tracing::warn!(%error, "cannot accept a connection of a sandbox");
                    tokio::time::sleep(PAUSE).await;
                }
                None => {
                    // Lets go of the network namespace.
                    self.listener = None;
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::Connections;
    use std::net::Ipv4Addr;
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
    use tokio::net::{TcpListener, TcpStream};
    use tokio_util::sync::CancellationToken;

    #[tokio::test]
    async fn connections_end_with_the_sandbox() {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.unwrap();
        let address = listener.local_addr().unwrap();
        let ended = CancellationToken::new();
        let mut connections = Connections::new(listener, ended.clone());
        let mut client = TcpStream::connect(address).await.unwrap();
        client.write_all(b"word").await.unwrap();
        let mut word = [0; 4];
        connections.accept().await.unwrap().read_exact(&mut word).await.unwrap();
        assert_eq!(&word, b"word");
        ended.cancel();
        assert!(connections.accept().await.is_none());
        assert!(connections.accept().await.is_none(), "it stays ended");
        assert!(TcpStream::connect(address).await.is_err(), "the listener is closed");
    }
}
