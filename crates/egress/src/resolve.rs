//! From names to addresses.

use std::fmt;
use std::io;
use std::net::{IpAddr, SocketAddr};

use async_trait::async_trait;

use crate::host::Host;

/// Looks up names. The proxy asks only about names that the rules allow, and connects to what it gets after checking it.
#[async_trait]
pub trait Resolver: Send + Sync + fmt::Debug {
    /// The addresses of a host. Their number and their kind are not trusted.
    async fn resolve(&self, host: &Host) -> io::Result<Vec<IpAddr>>;
}

/// Resolver of the operating system.
#[derive(Clone, Copy, Debug, Default)]
pub struct SystemResolver;

#[async_trait]
impl Resolver for SystemResolver {
    async fn resolve(&self, host: &Host) -> io::Result<Vec<IpAddr>> {
        // The dot at the end keeps the search domains of this machine out of it. Names without a dot are of this machine or
        // its network, which need them.
        let name = if host.as_str().contains('.') { format!("{host}.") } else { host.to_string() };
        Ok(tokio::net::lookup_host((name, 0)).await?.map(|address: SocketAddr| address.ip()).collect())
    }
}
