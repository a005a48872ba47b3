//! SOCKS5, by name only.

use std::io;

use crate::access::Access;
use crate::decide::{Refusal, RefusalKind, Scheme};
use crate::guest::Guest;
use crate::hello::HANDSHAKE;
use crate::host::Host;
use crate::tunnel::{self, Inside, Tunnel};

/// First byte of a SOCKS5 connection.
pub(crate) const VERSION: u8 = 5;

const NO_AUTHENTICATION: u8 = 0;
const NO_METHOD: u8 = 0xff;
const CONNECT: u8 = 1;
const IPV4: u8 = 1;
const NAME: u8 = 3;
const IPV6: u8 = 4;

/// Codes of answers.
const SUCCEEDED: u8 = 0;
const FAILED: u8 = 1;
const NOT_ALLOWED: u8 = 2;
const NO_COMMAND: u8 = 7;
const NO_ADDRESS_TYPE: u8 = 8;

/// Why there is no tunnel.
enum Stop {
    Refused(u8, Refusal),
    /// The guest has gone, or is too slow.
    Io(io::Error),
}

impl From<io::Error> for Stop {
    fn from(error: io::Error) -> Self {
        Self::Io(error)
    }
}

/// Serves a SOCKS5 connection. Returns the tunnel if requests in it must be read.
pub(crate) async fn serve(access: &Access, mut guest: Guest) -> Option<Inside> {
    let tunnel = match negotiate(access, &mut guest).await {
        Ok(tunnel) => tunnel,
        Err(Stop::Refused(code, refusal)) => {
            access.refused(&refusal);
            if answer(&mut guest, code).await.is_ok() {
                guest.close().await;
            }
            return None;
        }
        Err(Stop::Io(error)) => {
            tracing::debug!(%error, "SOCKS connection from a sandbox ended");
            return None;
        }
    };
    if guest.reader.buffer.is_empty() && guest.reader.fill_within(access.proxy.limits.head_time).await.is_err() {
        return None;
    }
    let is_tls = guest.reader.buffer[0] == HANDSHAKE;
    if !is_tls && tunnel.port != 443 {
        // What is no HTTP either is rejected there.
        return Some(Inside { guest, scheme: Scheme::Http, tunnel });
    }
    if tunnel.is_read(access) {
        return tunnel::intercept(access, guest, tunnel).await;
    }
    match tunnel.open(access).await {
        Ok(opened) => tunnel::pass_through(access, guest, &tunnel, opened).await,
        Err(refusal) => access.refused(&refusal),
    }
    None
}

/// The handshake. Its answer comes before anything has been looked up: only then does the guest say what it wants there.
async fn negotiate(access: &Access, guest: &mut Guest) -> Result<Tunnel, Stop> {
    let time = access.proxy.limits.head_time;
    let wrong = |code: u8, kind: RefusalKind, reason: String| {
        Stop::Refused(code, Refusal::new(kind, "the SOCKS request", reason))
    };
    let greeting = guest.reader.take(2, time).await?;
    let methods = guest.reader.take(usize::from(greeting[1]), time).await?;
    if !methods.contains(&NO_AUTHENTICATION) {
        guest.writer.write(&[VERSION, NO_METHOD]).await?;
        guest.writer.flush().await?;
        return Err(io::Error::from(io::ErrorKind::PermissionDenied).into());
    }
    guest.writer.write(&[VERSION, NO_AUTHENTICATION]).await?;
    guest.writer.flush().await?;

    let request = guest.reader.take(4, time).await?;
    let [version, command, _, kind] = [request[0], request[1], request[2], request[3]];
    if version != VERSION {
        return Err(wrong(FAILED, RefusalKind::Protocol, "is not SOCKS version 5".to_owned()));
    }
    match kind {
        NAME => {}
        IPV4 | IPV6 => {
            return Err(Stop::Refused(
                NO_ADDRESS_TYPE,
                Refusal::new(RefusalKind::Host, "the SOCKS request", "has an IP address; only host names are allowed")
                    .with_hint("let the proxy look up names: socks5h:// instead of socks5://"),
            ));
        }
        _ => return Err(wrong(NO_ADDRESS_TYPE, RefusalKind::Protocol, "has an unknown type of address".to_owned())),
    }
    let length = guest.reader.take(1, time).await?[0];
    let name = guest.reader.take(usize::from(length), time).await?;
    let port = guest.reader.take(2, time).await?;
    let port = u16::from_be_bytes([port[0], port[1]]);
    if command != CONNECT {
        return Err(wrong(NO_COMMAND, RefusalKind::Protocol, "has a command other than CONNECT".to_owned()));
    }
    let name = str::from_utf8(&name)
        .map_err(|_| wrong(NOT_ALLOWED, RefusalKind::Host, "has a host name that is not text".to_owned()))?;
    let host =
        Host::parse(name).map_err(|error| wrong(NOT_ALLOWED, RefusalKind::Host, format!("names no host: {error}")))?;
    if port == 0 {
        return Err(wrong(NOT_ALLOWED, RefusalKind::Protocol, "has the port 0".to_owned()));
    }
    let tunnel = Tunnel { host, port };
    tunnel.check_reach(access).map_err(|refusal| Stop::Refused(NOT_ALLOWED, refusal))?;
    answer(guest, SUCCEEDED).await?;
    Ok(tunnel)
}

async fn answer(guest: &mut Guest, code: u8) -> io::Result<()> {
    guest.writer.write(&[VERSION, code, 0, IPV4, 0, 0, 0, 0, 0, 0]).await?;
    guest.writer.flush().await
}
