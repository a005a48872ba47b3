//! The proxy through which sandboxed code reaches the network, host by host.
//!
//! A [`Proxy`] belongs to a server; a [`Gate`] is the access of one sandbox. The caller hands each connection that comes out
//! of a sandbox to its gate, which speaks HTTP/1.1 (absolute requests and CONNECT) and SOCKS5 with it. Start at `gate.rs`
//! for the life of a connection, at `exchange.rs` for that of a request, and at `tunnel.rs` for that of a tunnel.
//!
//! What must hold:
//! - Which sandbox a connection is from is known from the listener that accepted it. Nothing that a guest sends counts.
//! - A name is looked up only after the rules and [`Decide`] have allowed the request. A connection goes to the very address
//!   that was checked.
//! - Requests are parsed strictly and written anew: an upstream server never sees bytes of a head as a guest sent them.
//! - A tunnel that is not read has the host of its CONNECT in the TLS handshake. What a server behind an allowed address does
//!   with it, such as serving other hosts, is not seen.
//! - Secrets are added here, and removed from what comes back.
//! - Everything is bounded: see [`Limits`]. Bodies are streamed.

mod access;
mod address;
mod authority;
mod body;
mod client;
mod credential;
mod decide;
mod decoding;
mod exchange;
mod gate;
mod guest;
mod head;
mod hello;
mod host;
mod limits;
mod path;
mod proxy;
mod redact;
mod relay;
mod reply;
mod resolve;
mod rules;
mod session;
mod socks;
mod target;
mod ticket;
mod tunnel;
mod upstream;

pub use access::Grant;
pub use address::{PrivateAddressError, PrivateAddresses};
pub use authority::{Authority, AuthorityError};
pub use credential::{Credential, CredentialError, CredentialProblem, Credentials};
pub use decide::{Attempt, Decide, Decision, Outcome, Refusal, RefusalKind, Scheme};
pub use gate::Gate;
pub use host::{Host, HostError};
pub use limits::{Limits, Share};
pub use proxy::{Proxy, ProxyError};
pub use resolve::{Resolver, SystemResolver};
pub use rules::{Rule, RuleError, RuleProblem, Rules};
