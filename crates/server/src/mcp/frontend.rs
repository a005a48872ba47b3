use super::definitions;
use super::headed::Headed;
use super::run::{Client, Parked};
use super::token_count::count_tokens;
use crate::agent_runtime::AgentRuntime;
use crate::identity::Identity;
use crate::metrics::Metrics;
use crate::profile::Profile;
use axum::http::HeaderMap;
use axum::http::request::Parts;
use coracle_config::Settings;
use coracle_engine::{Engine, Inventory, Listing, Output, Request, Toolbox};
use coracle_store::Place;
use coracle_types::{Execution, UserId};
use rmcp::ErrorData;
use rmcp::model::Extensions;
use sha2::{Digest as _, Sha256};
use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};
use tokio_util::sync::CancellationToken;

/// The header with the session of the protocol.
const SESSION: &str = "mcp-session-id";
/// The number of bytes of its digest that name the client. The session itself is not stored.
const DIGEST_BYTES: usize = 16;

/// Options of a [`Frontend`].
#[derive(Clone, Debug, Default)]
pub struct FrontendOptions {
    /// Set of tools that is offered to clients.
    pub profile: Profile,
    /// Coracle tools to offer instead of those of the profile.
    pub tools: Option<Vec<String>>,
    /// A folder to use as the workspace instead of the user's own.
    pub workspace: Option<PathBuf>,
    /// Limits and guardrails.
    pub settings: Settings,
    /// Identifies this instance of Coracle, so that a client that is itself a part of it is recognised.
    pub identity: Option<String>,
}

/// State shared by all clients. Cheap to clone.
#[derive(Clone)]
pub struct Frontend {
    pub(crate) engine: Engine,
    pub(crate) options: Arc<FrontendOptions>,
    pub(crate) tools: Arc<[definitions::Definition]>,
    pub(crate) parked: Parked,
    pub(crate) headed: Headed,
    pub(crate) metrics: Arc<Metrics>,
    /// Cancelled when the client on stdio has disconnected. Over HTTP, each request has its own token.
    pub(crate) gone: Option<CancellationToken>,
    /// The client that a request came from: what it got before may be in what it sends.
    pub(crate) client_place: Place,
    /// The agent, once it was started.
    pub(crate) agent: Arc<OnceLock<AgentRuntime>>,
    /// Owner of everything that this front end does: the local user, unless [`Self::of`] selects another.
    user: UserId,
}

impl Frontend {
    /// Creates a front end for an engine. Must be called within a Tokio runtime.
    ///
    /// # Errors
    /// Returns the requested tool names that do not exist.
    pub fn new(engine: Engine, options: FrontendOptions) -> Result<Self, Vec<String>> {
        let tools = definitions::chosen(options.profile, options.tools.as_deref())?;
        // Loads the vocabulary ahead of the first request, because that takes a moment.
        tokio::task::spawn_blocking(|| count_tokens("warm"));
        Ok(Self {
            engine,
            options: Arc::new(options),
            tools: tools.into(),
            parked: Parked::default(),
            headed: Headed::default(),
            metrics: Arc::default(),
            gone: None,
            client_place: Place::client("api"),
            agent: Arc::default(),
            user: UserId::local(),
        })
    }

    pub(crate) fn user(&self) -> UserId {
        self.user.clone()
    }

    /// Returns a clone for the caller of a request. Over HTTP, the caller must be authenticated.
    pub(crate) fn of(&self, extensions: &Extensions) -> Result<Self, ErrorData> {
        let Some(request) = extensions.get::<Parts>() else { return Ok(self.clone()) };
        match request.extensions.get::<Identity>() {
            Some(caller) => Ok(Self { client_place: client_place(&request.headers), ..self.of_user(&caller.user) }),
            None => Err(ErrorData::invalid_request("authentication required", None)),
        }
    }

    /// Returns a clone for this user.
    pub(crate) fn of_user(&self, user: &UserId) -> Self {
        Self { user: user.clone(), ..self.clone() }
    }

    /// Folder to use instead of the caller's own workspace. Applies only to the local user: users who sign in never
    /// share it.
    pub(crate) fn workspace(&self) -> Option<&Path> {
        self.options.workspace.as_deref().filter(|_| self.user == UserId::local())
    }

    pub(super) fn client(&self) -> Client<'_> {
        Client { parked: &self.parked, gone: self.gone.as_ref() }
    }

    pub(crate) fn toolbox(&self) -> Option<&Arc<Toolbox>> {
        self.engine.toolbox()
    }

    /// Lists the tools that the user's code can call. Waits briefly, and only once, for servers that have never
    /// answered, and without a limit for the named server.
    pub(crate) async fn inventory(&self, named: Option<&str>) -> Option<Arc<Inventory>> {
        let toolbox = self.toolbox()?;
        let inventory = toolbox.inventory(&self.user(), Listing::Around(named)).await;
        toolbox.begin_reading(&inventory).await;
        Some(inventory)
    }

    /// Runs code and updates the metrics.
    pub(crate) async fn execute(&self, request: Request) -> Execution {
        self.execute_with_output(request).await.0
    }

    /// The same, with all output of the code.
    pub(crate) async fn execute_with_output(&self, request: Request) -> (Execution, Output) {
        let under_way = self.metrics.begin();
        let (execution, output) = self.engine.execute_with_output(request).await;
        drop(under_way);
        self.metrics.ended(&execution);
        (execution, output)
    }

    /// Names of Coracle's own tools that clients see.
    pub fn tools(&self) -> Vec<&'static str> {
        self.tools.iter().map(|definition| definition.name).collect()
    }

    /// Metrics in the text format of Prometheus.
    pub(crate) fn metrics(&self) -> String {
        self.metrics.text(self.engine.live_sessions())
    }

    /// Checks whether the store can be written.
    pub(crate) async fn ready(&self) -> Result<(), coracle_store::StoreError> {
        self.engine.ready().await
    }

    /// Number of running executions.
    pub(crate) fn under_way(&self) -> i64 {
        self.metrics.under_way()
    }
}

/// A client that has just connected, and has got nothing yet.
pub fn new_client() -> Place {
    // Without random numbers, it counts as the same as others. No sandbox starts then either.
    Place::client(&format!("{:016x}", getrandom::u64().unwrap_or_default()))
}

/// The client of an MCP request over HTTP. All clients without a session of the protocol count as one.
fn client_place(headers: &HeaderMap) -> Place {
    match headers.get(SESSION) {
        Some(session) => Place::client(&hex::encode(&Sha256::digest(session.as_bytes())[..DIGEST_BYTES])),
        None => Place::client("mcp"),
    }
}

impl fmt::Debug for Frontend {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Frontend").field("options", &self.options).finish_non_exhaustive()
    }
}
