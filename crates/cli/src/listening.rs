//! Addresses that `coracle up` listens on.

use crate::status::Mistake;
use coracle_config::{Loaded, Origin};
use std::net::{IpAddr, SocketAddr};
use tokio::net::TcpListener;

/// Maximum number of addresses.
const MAX_ADDRESSES: usize = 64;

/// Addresses of the settings: `server.listen`, or else `server.host` with `server.port`. The flags for a single address
/// take precedence over a list that comes from elsewhere.
pub(crate) fn addresses(loaded: &Loaded) -> anyhow::Result<Vec<SocketAddr>> {
    let server = &loaded.settings.server;
    let port = u16::try_from(server.port).unwrap_or_default();
    let is_flag = |key: &str| matches!(loaded.origins.get(key), Some(Origin::Flag { .. }));
    let one_by_flag = (is_flag("server.host") || is_flag("server.port")) && !is_flag("server.listen");
    if server.listen.is_empty() || one_by_flag {
        let host = ip(&server.host).ok_or_else(|| {
            let hint = Some("use an address such as 127.0.0.1 or ::1");
            Mistake::new(format!("server.host: {:?} is not an IP address", server.host), hint)
        })?;
        return Ok(vec![SocketAddr::new(host, port)]);
    }
    if server.listen.len() > MAX_ADDRESSES {
        let message = format!("server.listen: more than {MAX_ADDRESSES} addresses");
        return Err(Mistake::new(message, None::<&str>).into());
    }
    let read = |text: &String| {
        address(text.trim(), ip(&server.host), port).ok_or_else(|| {
            let hint = "use addresses such as 127.0.0.1:8989, [::1]:8989 or 127.0.0.1";
            Mistake::new(format!("server.listen: {text:?} is not an IP address with a port"), Some(hint)).into()
        })
    };
    server.listen.iter().map(read).collect()
}

/// An address, with the default for the part that is missing.
fn address(text: &str, host: Option<IpAddr>, port: u16) -> Option<SocketAddr> {
    if let Ok(port) = text.parse() {
        return Some(SocketAddr::new(host?, port));
    }
    if let Some(host) = ip(text) {
        return Some(SocketAddr::new(host, port));
    }
    let (host, port) = text.rsplit_once(':')?;
    // Without brackets, the last group of an IPv6 address would be taken for a port.
    let host = ip(host).filter(|ip| ip.is_ipv4() || host.starts_with('['))?;
    Some(SocketAddr::new(host, port.parse().ok()?))
}

fn ip(text: &str) -> Option<IpAddr> {
    match text {
        "localhost" => Some(IpAddr::from([127, 0, 0, 1])),
        text => match text.strip_prefix('[') {
            Some(rest) => rest.strip_suffix(']')?.parse().ok(),
            None => text.parse().ok(),
        },
    }
}

/// An address of this machine by which a server that listens on `address` can be reached.
pub(crate) fn reachable(address: SocketAddr) -> SocketAddr {
    let host = match address.ip() {
        IpAddr::V4(host) if host.is_unspecified() => IpAddr::from([127, 0, 0, 1]),
        IpAddr::V6(host) if host.is_unspecified() => IpAddr::V6(std::net::Ipv6Addr::LOCALHOST),
        host => host,
    };
    SocketAddr::new(host, address.port())
}

/// Opens the listening sockets. If one cannot be opened, none is.
pub(crate) async fn listen(addresses: &[SocketAddr]) -> anyhow::Result<Vec<TcpListener>> {
    let mut listeners = Vec::new();
    for address in addresses {
        let listener = TcpListener::bind(address).await.map_err(|error| {
            let hint = match error.kind() {
                std::io::ErrorKind::AddrInUse => {
                    "another program, perhaps another coracle, uses this port: choose one with --port or --listen"
                }
                _ => "give another --host, --port or --listen",
            };
            Mistake::new(format!("cannot listen on {address}: {error}"), Some(hint))
        })?;
        listeners.push(listener);
    }
    Ok(listeners)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_may_leave_out_a_part() {
        let read = |text| address(text, ip("127.0.0.1"), 8989).map(|address| address.to_string());
        for (text, expected) in [
            ("10.0.0.1:80", "10.0.0.1:80"),
            ("10.0.0.1", "10.0.0.1:8989"),
            ("9000", "127.0.0.1:9000"),
            ("localhost:0", "127.0.0.1:0"),
            ("::1", "[::1]:8989"),
            ("[::1]", "[::1]:8989"),
            ("[::1]:80", "[::1]:80"),
            ("0.0.0.0:80", "0.0.0.0:80"),
        ] {
            assert_eq!(read(text).as_deref(), Some(expected), "{text}");
        }
        for bad in ["", "example.com:80", "1.2.3.4:x", "1.2.3.4:70000", ":80", "http://1.2.3.4", "[1.2.3.4", "70000"] {
            assert_eq!(read(bad), None, "{bad}");
        }
    }
}
