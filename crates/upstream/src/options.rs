use crate::token_store::{MemoryTokens, TokenStore};
use serde_json::{Map, Value};
use std::fmt;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

/// The default time after which an unused connection is closed.
pub const DEFAULT_IDLE_TIMEOUT: Duration = Duration::from_mins(15);

/// Options that apply to all servers.
#[derive(Clone)]
pub struct Options {
    /// The client name that servers are told.
    pub client_name: String,
    /// The client version.
    pub client_version: String,
    /// The time after which an unused connection is closed.
    pub idle_timeout: Duration,
    /// The storage of sign-ins.
    pub tokens: Arc<dyn TokenStore>,
    /// A program that, started with [`WARDEN_ARGUMENT`](crate::WARDEN_ARGUMENT), runs
    /// [`warden_main`](crate::warden_main): it ends child processes that outlive this process. Without it, they end
    /// when they notice the end of their input, if they do.
    pub warden: Option<PathBuf>,
    /// The questions that servers from before 2026 may ask during a call: client capabilities in the protocol's shape,
    /// of which `elicitation`, `sampling` and `roots` count. Whether a question can be answered depends on each call.
    pub capabilities: Map<String, Value>,
    /// The IDs of the Coracles that this one serves, outermost first, with this one last. Servers are told: a Coracle
    /// that finds itself in the chain refuses to serve.
    pub chain: Vec<String>,
    /// The socket of a [`Lender`](crate::Lender). If it lends the operator's connection to a server, or a shared one,
    /// that is used. Otherwise, and without a socket, a separate connection is made.
    pub lender: Option<PathBuf>,
}

/// The experimental client capability that contains the chain of Coracles.
pub const CHAIN_CAPABILITY: &str = "coracle";
/// The environment variable that contains the chain of Coracles, for child processes.
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
