use super::definitions;
use super::headed::Headed;
use super::run::{Client, Parked};
use super::tokens::count_tokens;
use crate::identity::Identity;
use crate::metrics::Metrics;
use crate::profile::Profile;
use axum::http::request::Parts;
use coracle_config::Settings;
use coracle_engine::{Engine, Inventory, Listing, Request, Toolbox};
use coracle_types::{Execution, UserId};
use rmcp::ErrorData;
use rmcp::model::Extensions;
use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use tokio_util::sync::CancellationToken;

/// What a face shows, and how code runs behind it.
#[derive(Clone, Debug, Default)]
pub struct FaceOptions {
    /// Which tools clients get to see.
    pub profile: Profile,
    /// Exactly these instead, if any are named.
    pub tools: Option<Vec<String>>,
    /// A folder to use as the workspace instead of the user's own.
    pub workspace: Option<PathBuf>,
    /// Limits and guardrails.
    pub settings: Settings,
    /// What tells this Coracle from others: a client that serves it already is itself.
    pub identity: Option<String>,
}

/// What all clients share. Cheap to clone.
#[derive(Clone)]
pub struct Face {
    pub(crate) engine: Engine,
    pub(crate) options: Arc<FaceOptions>,
    pub(crate) tools: Arc<[definitions::Definition]>,
    pub(crate) parked: Parked,
    pub(crate) headed: Headed,
    pub(crate) metrics: Arc<Metrics>,
    /// Cancelled when the one client of this face is gone; over HTTP each request knows that of its own.
    pub(crate) gone: Option<CancellationToken>,
    /// For whom everything is done: the one user, until somebody has signed in.
    user: UserId,
}

impl Face {
    /// A face of an engine. Must be called within a tokio runtime.
    ///
    /// # Errors
    /// The names among the wanted tools that there are not.
    pub fn new(engine: Engine, options: FaceOptions) -> Result<Self, Vec<String>> {
        let tools = definitions::chosen(options.profile, options.tools.as_deref())?;
        // Reading the vocabulary takes a moment, which the first client should not wait for.
        tokio::task::spawn_blocking(|| count_tokens("warm"));
        let (parked, headed, metrics, user) = (Parked::default(), Headed::default(), Arc::default(), UserId::local());
        Ok(Self { engine, options: Arc::new(options), tools: tools.into(), parked, headed, metrics, gone: None, user })
    }

    pub(crate) fn user(&self) -> UserId {
        self.user.clone()
    }

    /// The same for whoever asks: over HTTP that is who has signed in, and nobody else.
    pub(crate) fn of(&self, extensions: &Extensions) -> Result<Self, ErrorData> {
        let Some(request) = extensions.get::<Parts>() else { return Ok(self.clone()) };
        match request.extensions.get::<Identity>() {
            Some(caller) => Ok(self.of_user(&caller.user)),
            None => Err(ErrorData::invalid_request("authentication required", None)),
        }
    }

    /// The same for this user.
    pub(crate) fn of_user(&self, user: &UserId) -> Self {
        Self { user: user.clone(), ..self.clone() }
    }

    /// The folder to use instead of the caller's own workspace. It is for whoever works here without signing in: users who
    /// come later do not share it.
    pub(crate) fn workspace(&self) -> Option<&Path> {
        self.options.workspace.as_deref().filter(|_| self.user == UserId::local())
    }

    pub(super) fn client(&self) -> Client<'_> {
        Client { parked: &self.parked, gone: self.gone.as_ref() }
    }

    pub(crate) fn toolbox(&self) -> Option<&Arc<Toolbox>> {
        self.engine.toolbox()
    }

    /// What the user's code can call. A server that has never answered is waited for a little, and once; the one that is
    /// named as long as it takes.
    pub(crate) async fn inventory(&self, named: Option<&str>) -> Option<Arc<Inventory>> {
        let toolbox = self.toolbox()?;
        let inventory = toolbox.inventory(&self.user(), Listing::Around(named)).await;
        toolbox.begin_reading(&inventory).await;
        Some(inventory)
    }

    /// Runs code, and counts it.
    pub(crate) async fn execute(&self, request: Request) -> Execution {
        let under_way = self.metrics.begin();
        let execution = self.engine.execute(request).await;
        drop(under_way);
        self.metrics.ended(&execution);
        execution
    }

    /// Names of the tools that clients see, of Coracle's own.
    pub fn tools(&self) -> Vec<&'static str> {
        self.tools.iter().map(|definition| definition.name).collect()
    }

    /// What operators look at, in the text format of Prometheus.
    pub(crate) fn metrics(&self) -> String {
        self.metrics.text(self.engine.live_sessions())
    }

    /// Whether what is to be kept can be kept at this moment.
    pub(crate) async fn ready(&self) -> Result<(), coracle_store::StoreError> {
        self.engine.ready().await
    }

    /// Executions that are under way.
    pub(crate) fn under_way(&self) -> i64 {
        self.metrics.under_way()
    }
}

impl fmt::Debug for Face {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Face").field("options", &self.options).finish_non_exhaustive()
    }
}
