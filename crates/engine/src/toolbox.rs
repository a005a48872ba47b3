//! Tools of all users: the definitions that servers have listed, which are stored between runs, and the observed shapes
//! of their results.
//!
//! A server whose tools are stored is not started just to list them again. A call always uses the definition that the
//! server lists now, which determines how arguments are validated and whether approval is required.

mod anticipation;
mod at_hand;
mod caps;
mod discovery;
mod embeddings;
mod glimpse;
mod inventory;
mod known;
mod mentions;
mod names;

use crate::answer::Answer;
use crate::host_calls::{HostCallError, quoted, refused, upstream_failed};
use crate::servers::Servers;
use crate::sources::{SourceTracker, TrackedWorkspace, sources_unknown};
pub use caps::CallCaps;
use coracle_catalog::{Shape, Uses, Validator};
use coracle_policy::{Approvals, Policy, Refusal};
use coracle_store::{ListedTools, Owner, Place, PlacedSource, Store, StoreError};
use coracle_types::{Decision, ExecutionId, Schema, ServerName, ServerSpec, Tool, ToolHints, UserId, sorted_json};
use coracle_upstream::{Change, Changed, ToolList, UpstreamError};
pub use discovery::{FoundTool, ToolSearch, described};
pub use embeddings::EmbedderConfig;
use embeddings::Embeddings;
pub use inventory::{Inventory, Listing};
use known::Known;
use names::NamesByWire;
pub use names::without_effect;
use serde_json::{Map, Value};
use sha2::{Digest, Sha256};
use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::path::PathBuf;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock};
use std::time::{Duration, Instant, SystemTime};
use tokio::sync::broadcast::error::RecvError;

/// Maximum number of similar names suggested for an unknown tool.
const NEAREST: usize = 3;

/// Maximum number of characters of an unknown name that are compared with known names.
const MAX_COMPARED_CHARS: usize = 200;

/// Maximum time that a listing waits for a server that has not listed its tools yet.
const PATIENCE: Duration = Duration::from_secs(30);

/// Minimum time that a listing waits for a server, even after `PATIENCE` has elapsed.
const A_MOMENT: Duration = Duration::from_millis(50);

/// Maximum number of attempts to merge and store a shape when there are concurrent writes.
const TRIES: usize = 5;

/// Configuration of a [`Toolbox`].
#[derive(Clone, Debug)]
pub struct ToolboxConfig {
    /// Folder for generated modules.
    pub cache: PathBuf,
    /// Folder with additional descriptions of tools.
    pub registry: Option<PathBuf>,
    /// Embedder to use instead of the catalogue's built-in table.
    pub embedder: Option<EmbedderConfig>,
    /// Limits on calls.
    pub caps: CallCaps,
    /// Configured servers that cannot be used, each with the reason and the fix.
    pub unusable: Vec<(ServerName, String)>,
}

/// All tools of all users, and the means to call them.
#[derive(Debug)]
pub struct Toolbox {
    config: ToolboxConfig,
    upstream: Arc<dyn Servers>,
    store: Arc<dyn Store>,
    approvals: Approvals,
    known: Mutex<HashMap<(Owner, ServerName), Known>>,
    /// Time of the first call of `patience` for each server that had not listed its tools in this process.
    asked: Mutex<HashMap<(Owner, ServerName), Instant>>,
    /// What the configuration says about servers, besides how to reach them. Replaced as a whole.
    configured: RwLock<Arc<Configured>>,
    /// Patterns of policy rules that were already reported because they match no tool.
    reported: Mutex<HashSet<String>>,
    /// Value of `generation` when the policy rules were last checked.
    checked: AtomicU64,
    /// Number of changes to `known`.
    generation: AtomicU64,
    inventories: Mutex<HashMap<UserId, (u64, Arc<Inventory>)>>,
    /// Number of successful calls of each tool, for users who have searched.
    uses: Mutex<HashMap<UserId, Arc<Uses>>>,
    embeddings: Option<Arc<Embeddings>>,
}

/// What the configuration says about servers, besides how to reach them.
#[derive(Debug)]
struct Configured {
    /// Spellings of server names that policy rules may use.
    names: NamesByWire,
    /// Servers that cannot be used, each with the reason and the fix.
    unusable: Vec<(ServerName, String)>,
}

impl Configured {
    fn new(servers: &[Arc<ServerSpec>], unusable: Vec<(ServerName, String)>) -> RwLock<Arc<Self>> {
        let names = names::of_servers(servers.iter().map(|spec| spec.name.as_str()));
        RwLock::new(Arc::new(Self { names, unusable }))
    }
}

impl Toolbox {
    /// Creates a toolbox without starting any server. Must be called within a Tokio runtime.
    pub fn new(
        config: ToolboxConfig,
        upstream: impl Servers + 'static,
        store: Arc<dyn Store>,
        policy: impl Into<Policy>,
    ) -> Arc<Self> {
        let approvals = Approvals::new(policy.into(), Arc::clone(&store));
        let mut changes = upstream.changes();
        let configured = Configured::new(&upstream.servers(), config.unusable.clone());
        let toolbox = Arc::new(Self {
            embeddings: config.embedder.clone().map(Embeddings::new),
            config,
            upstream: Arc::new(upstream),
            store,
            approvals,
            known: Mutex::default(),
            asked: Mutex::default(),
            configured,
            reported: Mutex::default(),
            checked: AtomicU64::new(u64::MAX),
            generation: AtomicU64::new(0),
            inventories: Mutex::default(),
            uses: Mutex::default(),
        });
        let weak = Arc::downgrade(&toolbox);
        tokio::spawn(async move {
            loop {
                let change = changes.recv().await;
                let (Some(toolbox), false) = (weak.upgrade(), matches!(change, Err(RecvError::Closed))) else { return };
                // Missed changes are detected at the next call.
                if let Ok(change) = change {
                    toolbox.list_again(change).await;
                }
            }
        });
        toolbox
    }

    /// Returns whether there are neither servers nor descriptions of tools.
    pub fn is_empty(&self) -> bool {
        self.config.registry.is_none() && self.configured().unusable.is_empty() && self.upstream.servers().is_empty()
    }

    /// Returns the connections to the servers.
    pub fn upstream(&self) -> &dyn Servers {
        self.upstream.as_ref()
    }

    /// Replaces the servers, and those that cannot be used. Servers that have not changed stay connected. Does nothing if
    /// the tools are not those of MCP servers. The caller replaces the policy before, so that no new server is ever called
    /// under an old one.
    pub fn reconfigure(&self, servers: Vec<ServerSpec>, unusable: Vec<(ServerName, String)>) {
        let Some(upstream) = self.upstream.passes_on() else { return };
        let changed = upstream.replace_servers(servers);
        let configured = Configured::new(&upstream.servers(), unusable);
        std::mem::swap(
            &mut *self.configured.write().unwrap_or_else(PoisonError::into_inner),
            &mut *configured.write().unwrap_or_else(PoisonError::into_inner),
        );
        self.known().retain(|(_, server), _| !changed.contains(server));
        self.asked.lock().unwrap_or_else(PoisonError::into_inner).retain(|(_, server), _| !changed.contains(server));
        self.changed();
        upstream.announce_servers(&changed);
    }

    fn configured(&self) -> Arc<Configured> {
        Arc::clone(&self.configured.read().unwrap_or_else(PoisonError::into_inner))
    }

    /// Connects to a server if necessary, and updates the known tools of that server.
    pub async fn refresh(&self, user: &UserId, server: &ServerName) -> Result<Arc<ToolList>, UpstreamError> {
        let list = self.upstream.tools(user, server).await?;
        if let Some(owner) = self.owner(user, server) {
            self.take_in(&owner, server, &list).await;
        }
        Ok(list)
    }

    /// Loads the tools that a server last listed under its current settings, without starting the server.
    pub async fn last_listed(&self, user: &UserId, server: &ServerName) -> Result<Option<ListedTools>, StoreError> {
        let Some(spec) = self.spec(server) else { return Ok(None) };
        let listed = self.store.tools(&Owner::of(spec.scope, user), server).await?;
        Ok(listed.filter(|listed| listed.fingerprint == fingerprint(&spec)))
    }

    /// Rules, people and their answers.
    pub fn approvals(&self) -> &Approvals {
        &self.approvals
    }

    /// The servers that the values of tokens came from.
    pub(crate) async fn value_sources(
        &self,
        user: &UserId,
        tokens: &BTreeSet<String>,
    ) -> Result<BTreeMap<String, BTreeSet<ServerName>>, HostCallError> {
        self.store.value_sources(user, tokens).await.map_err(|error| sources_unknown(&error))
    }

    /// Notes that the values of tokens came from a server.
    pub(crate) async fn add_value_sources(
        &self,
        user: &UserId,
        tokens: &BTreeSet<String>,
        server: &ServerName,
    ) -> Result<(), HostCallError> {
        if tokens.is_empty() {
            return Ok(());
        }
        self.store.add_value_sources(user, tokens, server).await.map_err(|error| sources_unknown(&error))
    }

    pub(crate) async fn carry(&self, user: &UserId, from: &Place, to: &Place) -> Result<(), StoreError> {
        self.store.copy_sources(user, from, to).await
    }

    pub(crate) async fn note_source(
        &self,
        user: &UserId,
        place: &Place,
        server: &ServerName,
    ) -> Result<(), StoreError> {
        let labels = self.approvals.flows().labels().of_tool(server, ToolHints::default());
        let (place, server, seen_at) = (place.clone(), server.clone(), SystemTime::now());
        let source = PlacedSource { place, server, labels, execution: None, seen_at };
        self.store.add_sources(user, &[source]).await
    }

    /// The sources of an execution in these places.
    pub(crate) fn tracker(
        &self,
        user: &UserId,
        execution: &ExecutionId,
        places: Vec<Place>,
        workspace: Option<TrackedWorkspace>,
    ) -> Arc<SourceTracker> {
        let store = Arc::clone(&self.store);
        Arc::new(SourceTracker::new(store, user.clone(), execution.clone(), places, workspace))
    }

    pub(crate) fn caps(&self) -> CallCaps {
        self.config.caps
    }

    /// Rejects, without starting the server, calls that cannot succeed: a policy rule that denies a call is final.
    ///
    /// If the definition of the tool is known, `arguments` are validated, and the definition that they match is
    /// returned.
    pub(crate) fn refused_early(
        &self,
        user: &UserId,
        server: &ServerName,
        name: &str,
        arguments: Option<&Map<String, Value>>,
    ) -> Result<Option<Arc<Tool>>, HostCallError> {
        let Some(owner) = self.owner(user, server) else { return Ok(None) };
        let remembered = {
            let mut known = self.known();
            known.get_mut(&(owner, server.clone())).and_then(|known| {
                let tool = known.remembered(name)?;
                Some((known.validator(&tool), tool))
            })
        };
        let names = self.names(user, server, name);
        let denied = |tool: &Tool| {
            let verdict = self.approvals.policy().decide(tool, &names);
            let refusal = Refusal::Denied { reason: verdict.reason, allow_line: verdict.allow_line };
            (verdict.decision == Decision::Deny)
                .then(|| refused(refusal.code(), &format!("{refusal}; {}", refusal.hint())))
        };
        let Some((validator, tool)) = remembered else {
            return denied(&named(server, name)).map_or(Ok(None), Err);
        };
        if let Some(refusal) = denied(&tool) {
            return Err(refusal);
        }
        match arguments.map(|arguments| validator.check(arguments)) {
            Some(Err(error)) => {
                let hint = error.hint().map(|hint| format!("; {hint}")).unwrap_or_default();
                Err(refused(error.code(), &format!("{error}{hint}")))
            }
            Some(Ok(())) => Ok(Some(tool)),
            None => Ok(None),
        }
    }

    /// Returns the tool as its server lists it now, with the validator of its arguments. Connects to the server if
    /// necessary.
    pub(crate) async fn tool(
        &self,
        user: &UserId,
        server: &ServerName,
        name: &str,
    ) -> Result<(Arc<Tool>, Arc<Validator>), HostCallError> {
        let list = match self.upstream.tools(user, server).await {
            Err(UpstreamError::UnknownServer { .. }) => return Err(self.no_server(server.as_str())),
            other => other.map_err(|error| upstream_failed(&error))?,
        };
        let Some(owner) = self.owner(user, server) else { return Err(self.no_server(server.as_str())) };
        self.saw(&owner, server, &list).await;
        let Some(tool) = list.get(name) else {
            return Err(refused("tool_not_found", &no_tool(list.tools.iter().map(|tool| tool.name.as_str()), name)));
        };
        let mut known = self.known();
        let validator = known.entry((owner, server.clone())).or_default().validator(tool);
        Ok((Arc::clone(tool), validator))
    }

    /// Returns the error for an unknown or unusable server.
    pub(crate) fn no_server(&self, name: &str) -> HostCallError {
        if let Some((server, reason)) = self.configured().unusable.iter().find(|(server, _)| server.as_str() == name) {
            return refused("unavailable", &format!("server {server} cannot be used: {reason}"));
        }
        let servers = self.upstream.servers();
        let servers: Vec<&str> = servers.iter().map(|spec| spec.name.as_str()).collect();
        refused("unknown_server", &format!("there is no server {}; there are: {}", quoted(name), servers.join(", ")))
    }

    /// Returns the configured servers that cannot be used, each with the reason.
    pub fn unusable(&self) -> Vec<(ServerName, String)> {
        self.configured().unusable.clone()
    }

    /// Returns whether a server is configured but cannot be used.
    pub fn is_unusable(&self, server: &ServerName) -> bool {
        self.configured().unusable.iter().any(|(name, _)| name == server)
    }

    /// Returns how long a caller should wait for a server that it does not specifically need.
    ///
    /// Until the server has listed its tools in this process, the time is counted from the first request, so that later
    /// callers wait only for the remainder.
    pub fn patience(&self, user: &UserId, server: &ServerName) -> Duration {
        let Some(owner) = self.owner(user, server) else { return Duration::ZERO };
        let key = (owner, server.clone());
        if self.known().get(&key).is_some_and(Known::is_live) {
            return PATIENCE;
        }
        let mut asked = self.asked.lock().unwrap_or_else(PoisonError::into_inner);
        let since = *asked.entry(key).or_insert_with(Instant::now);
        PATIENCE.saturating_sub(since.elapsed()).max(A_MOMENT)
    }

    /// Records the shape of an answer if the tool does not declare an output schema.
    pub(crate) fn observe(&self, user: &UserId, tool: &Tool, answer: &Answer) {
        if tool.output_schema.is_some() || !answer.media.is_empty() || answer.value.is_null() {
            return;
        }
        let Some(owner) = self.owner(user, &tool.server) else { return };
        let shape = Shape::observe(&answer.value);
        let mut known = self.known();
        if known.entry((owner, tool.server.clone())).or_default().learn(&tool.name, &shape) {
            self.changed();
        }
    }

    /// The shape of the results of a tool, as far as it was learned.
    pub(crate) fn shape(&self, user: &UserId, server: &ServerName, tool: &str) -> Option<Shape> {
        let owner = self.owner(user, server)?;
        self.known().get(&(owner, server.clone()))?.shape(tool)
    }

    /// Stores newly learned shapes for later runs.
    pub(crate) async fn keep(&self) {
        let fresh: Vec<_> = self.known().iter_mut().map(|(key, known)| (key.clone(), known.take_fresh())).collect();
        for ((owner, server), shapes) in fresh {
            for (tool, shape) in shapes {
                if let Err(error) = self.keep_shape(&owner, &server, &tool, shape).await {
                    tracing::warn!(%server, %error, "what was learned about a tool is not kept");
                }
            }
        }
    }

    async fn keep_shape(
        &self,
        owner: &Owner,
        server: &ServerName,
        tool: &str,
        mut shape: Shape,
    ) -> Result<(), StoreError> {
        let mut last = Ok(());
        for _ in 0..TRIES {
            let stored = self.store.shape(owner, server, tool).await?;
            let version = stored.as_ref().map_or(0, |stored| stored.version);
            let before = stored.and_then(|stored| serde_json::from_value::<Shape>(stored.value).ok());
            if let Some(mut before) = before {
                if !before.merge(&shape) {
                    return Ok(());
                }
                shape = before;
            }
            let value = serde_json::to_value(&shape).unwrap_or_default();
            match self.store.put_shape(owner, server, tool, &value, version).await {
                Err(error @ StoreError::Conflict { .. }) => last = Err(error),
                other => return other.map(drop),
            }
        }
        last
    }

    async fn list_again(&self, change: Change) {
        if change.what != Changed::Tools {
            return;
        }
        let user = match &change.owner {
            coracle_upstream::Owner::User(user) => user.clone(),
            coracle_upstream::Owner::Everyone => UserId::local(),
        };
        // A server that was removed or configured anew is not started for this.
        let Some(owner) = self.owner(&user, &change.server) else { return };
        if !self.known().contains_key(&(owner.clone(), change.server.clone())) {
            return;
        }
        match self.upstream.tools(&user, &change.server).await {
            Ok(list) => self.saw(&owner, &change.server, &list).await,
            Err(error) => {
                tracing::warn!(server = %change.server, %error, "its tools have changed and cannot be listed");
            }
        }
    }

    /// Updates the known tools of a server from a new list. If they have changed, logs the warnings of the list.
    async fn saw(&self, owner: &Owner, server: &ServerName, list: &Arc<ToolList>) {
        if self.take_in(owner, server, list).await {
            for warning in &list.warnings {
                tracing::warn!(%server, tool = %warning.tool, kept = warning.kept, "{}", warning.problem);
            }
            self.report_rules();
        }
    }

    /// Updates and stores the known tools of a server; returns whether they have changed.
    async fn take_in(&self, owner: &Owner, server: &ServerName, list: &Arc<ToolList>) -> bool {
        let tools = {
            let mut known = self.known();
            if !known.entry((owner.clone(), server.clone())).or_default().see(list) {
                return false;
            }
            list.tools.clone()
        };
        self.changed();
        if let Some(spec) = self.spec(server) {
            let listed = ListedTools { fingerprint: fingerprint(&spec), tools, listed_at: SystemTime::now() };
            if let Err(error) = self.store.put_tools(owner, server, &listed).await {
                tracing::warn!(%server, %error, "its list of tools is not kept");
            }
        }
        true
    }

    fn known(&self) -> MutexGuard<'_, HashMap<(Owner, ServerName), Known>> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn changed(&self) {
        self.generation.fetch_add(1, Ordering::Relaxed);
    }

    fn spec(&self, server: &ServerName) -> Option<Arc<ServerSpec>> {
        self.upstream.server(server)
    }

    fn owner(&self, user: &UserId, server: &ServerName) -> Option<Owner> {
        self.spec(server).map(|spec| Owner::of(spec.scope, user))
    }
}

/// Returns a digest of the transport and scope of a server. It is a digest because the transport may contain
/// credentials.
pub fn fingerprint(spec: &ServerSpec) -> String {
    digest(&(&spec.transport, spec.scope))
}

/// Returns the SHA-256 of the JSON form of a value, with sorted keys, in hexadecimal.
pub fn digest(value: &impl serde::Serialize) -> String {
    hex::encode(Sha256::digest(sorted_json(value).unwrap_or_default()))
}

/// Creates a tool of which only the server and the name are known.
fn named(server: &ServerName, name: &str) -> Tool {
    Tool {
        server: server.clone(),
        name: name.to_owned(),
        title: None,
        description: String::new(),
        input_schema: Schema::default(),
        output_schema: None,
        category: None,
        hints: ToolHints::default(),
    }
}

/// Returns the error message for a tool that the server does not have. It omits the server and the requested name.
fn no_tool<'a>(names: impl Iterator<Item = &'a str>, name: &str) -> String {
    let name: String = name.chars().take(MAX_COMPARED_CHARS).collect();
    let mut names: Vec<(f64, &str)> = names.map(|known| (strsim::jaro_winkler(known, &name), known)).collect();
    names.sort_by(|(one, _), (other, _)| other.total_cmp(one));
    let near: Vec<String> = names.iter().take(NEAREST).map(|(_, name)| quoted(name)).collect();
    if near.is_empty() {
        return "the server has no tools".to_owned();
    }
    format!("the server has no such tool; the nearest are {}", near.join(", "))
}
