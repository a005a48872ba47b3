use crate::token_store::{MemoryTokens, TokenStore};
use serde_json::{Map, Value};
use std::fmt;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

/// A connection that nobody has used for so long is closed.
pub const DEFAULT_IDLE_TIMEOUT: Duration = Duration::from_mins(15);

/// How [`Upstream`](crate::Upstream) behaves towards all servers.
#[derive(Clone)]
pub struct Options {
    /// What servers are told about who is calling.
    pub client_name: String,
    /// Its version.
    pub client_version: String,
    /// A connection that nobody has used for so long is closed.
    pub idle_timeout: Duration,
    /// Where sign-ins are kept.
    pub tokens: Arc<dyn TokenStore>,
    /// A program that, started with [`WARDEN_ARGUMENT`](crate::WARDEN_ARGUMENT), runs [`warden_main`](crate::warden_main):
    /// it ends child processes that outlive this one. Without it they end when they find their input ended, if they look.
    pub warden: Option<PathBuf>,
    /// What servers of before 2026 are told that they may ask during a call: client capabilities in the protocol's
    /// shape, of which `elicitation`, `sampling` and `roots` count. Who can really be asked is up to each call.
    pub capabilities: Map<String, Value>,
    /// Which Coracles this one serves, the outermost first and this one last, each by something that tells it from
    /// others. Servers are told: one that finds itself among them is itself, and refuses.
    pub chain: Vec<String>,
    /// The socket of a [`Lender`](crate::Lender): if somebody listens there who has the operator's connection to a server, or
    /// a shared one, that is used. Else, and without this, a connection of one's own is made.
    pub lender: Option<PathBuf>,
}

/// The experimental capability of a client by which a Coracle tells whom it serves.
pub const CHAIN_CAPABILITY: &str = "coracle";
/// The environment variable by which programs are told the same.
pub const CHAIN_VARIABLE: &str = "CORACLE_CHAIN";

impl Default for Options {
    fn default() -> Self {
        Self {
            client_name: "coracle".to_owned(),
            client_version: env!("CARGO_PKG_VERSION").to_owned(),
            idle_timeout: DEFAULT_IDLE_TIMEOUT,
            tokens: Arc::new(MemoryTokens::default()),
            warden: None,
            capabilities: Map::new(),
            chain: Vec::new(),
            lender: None,
        }
    }
}

impl fmt::Debug for Options {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Options")
            .field("client_name", &self.client_name)
            .field("client_version", &self.client_version)
            .field("idle_timeout", &self.idle_timeout)
            .finish_non_exhaustive()
    }
}
