//! Limits of the proxy.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::Semaphore;

/// Limits of a proxy. All have defaults.
#[derive(Clone, Debug)]
pub struct Limits {
    /// Maximum size of the head of a request, in bytes.
    pub head_bytes: usize,
    /// Maximum number of header fields of a request.
    pub headers: usize,
    /// Maximum number of connections of one sandbox. Further ones wait.
    pub connections_per_sandbox: usize,
    /// Maximum number of connections of all sandboxes. One user gets at most a quarter of them.
    pub connections: usize,
    /// How long a connection waits for a free place among those of its user and of all.
    pub wait: Duration,
    /// How long a guest may take to send the head of a request, or a TLS or SOCKS handshake.
    pub head_time: Duration,
    /// How long a connection may stay without a byte in either direction, and each side without taking one.
    pub idle_time: Duration,
    /// How long resolving a name may take.
    pub dns_time: Duration,
    /// How long connecting may take, with TLS.
    pub connect_time: Duration,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            head_bytes: 32 * 1024,
            headers: 100,
            connections_per_sandbox: 64,
            connections: 256,
            wait: Duration::from_secs(30),
            head_time: Duration::from_secs(30),
            idle_time: Duration::from_mins(1),
            dns_time: Duration::from_secs(5),
            connect_time: Duration::from_secs(10),
        }
    }
}

/// Connections that one user may have at the same time, over all of their sandboxes. Clones share the limit.
#[derive(Clone, Debug)]
pub struct Share(pub(crate) Arc<Semaphore>);

impl Share {
    pub(crate) fn of(limits: &Limits) -> Self {
        Self(Arc::new(Semaphore::new((limits.connections / 4).max(1))))
    }
}
