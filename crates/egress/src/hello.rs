//! The first message of a TLS connection.

use std::time::Duration;

use rustls::server::Acceptor;
use tokio::time::timeout;

use crate::guest::Reader;
use crate::host::{Host, quoted};

/// First byte of a TLS connection: a handshake record.
pub(crate) const HANDSHAKE: u8 = 0x16;
/// Largest first message. With post-quantum key shares, it has about 2,000 bytes.
const MAX_HELLO: usize = 32 * 1024;
/// Alert of TLS: fatal, access denied.
pub(crate) const ACCESS_DENIED: &[u8] = &[21, 3, 3, 0, 2, 2, 49];

/// Why a TLS connection is refused: a clause that follows the attempt.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum HelloError {
    /// The bytes are no TLS.
    NotTls(&'static str),
    /// The names differ.
    Names(String),
}

/// Reads the first message and leaves it in the buffer. Fails if it does not name `host`.
pub(crate) async fn check_hello(reader: &mut Reader, host: &Host, time: Duration) -> Result<(), HelloError> {
    match timeout(time, named(reader)).await {
        Err(_) => Err(HelloError::NotTls("did not start TLS in time")),
        Ok(Err(error)) => Err(error),
        Ok(Ok(None)) => Err(HelloError::Names(
            "does not name the host in the TLS handshake (SNI), which the proxy compares with the host of the tunnel"
                .to_owned(),
        )),
        Ok(Ok(Some(name))) => match Host::parse(&name) {
            Ok(named) if named == *host => Ok(()),
            _ => Err(HelloError::Names(format!("names another host in the TLS handshake (SNI): {}", quoted(&name)))),
        },
    }
}

/// The name that the first message has.
async fn named(reader: &mut Reader) -> Result<Option<String>, HelloError> {
    const ENDED: HelloError = HelloError::NotTls("ended before TLS started");
    let mut acceptor = Acceptor::default();
    let mut fed = 0;
    loop {
        if fed == reader.buffer.len() && reader.fill().await.map_err(|_| ENDED)? == 0 {
            return Err(ENDED);
        }
        if reader.buffer[0] != HANDSHAKE {
            return Err(HelloError::NotTls("is not TLS, and other protocols are not tunneled"));
        }
        while fed < reader.buffer.len() {
            match acceptor.read_tls(&mut &reader.buffer[fed..]) {
                Ok(0) | Err(_) => return Err(HelloError::NotTls("starts with an invalid TLS message")),
                Ok(read) => fed += read,
            }
            match acceptor.accept() {
                Ok(Some(accepted)) => return Ok(accepted.client_hello().server_name().map(str::to_owned)),
                Ok(None) => {}
                Err(_) => return Err(HelloError::NotTls("starts with an invalid TLS message")),
            }
        }
        if fed > MAX_HELLO {
            return Err(HelloError::NotTls("starts with a TLS message that is too large"));
        }
    }
}
