use crate::call::CallContext;
use crate::connection::Lease;
use crate::error::UpstreamError;
use crate::login::SignInReturn;
use crate::options::Options;
use crate::shared::Shared;
use crate::slot::Slot;
use crate::status::{Change, Changed, Owner, ServerState, ServerStatus};
use crate::stdio::Warden;
use crate::tools::ToolList;
use coracle_types::{ServerName, ServerSpec, ToolResult, UserId};
use serde_json::{Map, Value};
use std::collections::{BTreeSet, HashMap};
use std::fmt;
use std::sync::atomic::AtomicBool;
use std::sync::{Arc, Mutex, PoisonError, RwLock};
use tokio::sync::broadcast;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

/// The number of changes that a slow listener may be behind. Beyond it, the listener learns that it missed some.
const KEPT_CHANGES: usize = 1024;

/// All upstream servers. Clones share the same connections, which end when the last clone is dropped.
#[derive(Clone)]
pub struct Upstream(Arc<Inner>);

struct Inner {
    /// Replaced as a whole, and held only to read or replace it.
    specs: RwLock<Arc<Specs>>,
    slots: Mutex<HashMap<(Owner, ServerName), Arc<Slot>>>,
    shared: Arc<Shared>,
}

/// The configured servers.
#[derive(Debug, Default)]
struct Specs {
    /// In the order of the configuration.
    all: Vec<Arc<ServerSpec>>,
    by_name: HashMap<ServerName, Arc<ServerSpec>>,
}

impl Specs {
    /// Servers of a new configuration. Those that have not changed stay the same objects.
    fn new(specs: Vec<ServerSpec>, before: &Self) -> Self {
        let kept = |spec: ServerSpec| match before.by_name.get(&spec.name) {
            Some(same) if **same == spec => Arc::clone(same),
            _ => Arc::new(spec),
        };
        let all: Vec<_> = specs.into_iter().map(kept).collect();
        let by_name = all.iter().map(|spec| (spec.name.clone(), Arc::clone(spec))).collect();
        Self { all, by_name }
    }

    fn has(&self, spec: &Arc<ServerSpec>) -> bool {
        self.by_name.get(&spec.name).is_some_and(|same| Arc::ptr_eq(same, spec))
    }
}

impl Upstream {
    /// Creates it with these servers, without starting any. Of two with the same name, the later one counts.
    pub fn new(specs: Vec<ServerSpec>, options: Options) -> Self {
        let shared = Shared {
            warden: Arc::new(Warden::new(options.warden.clone())),
            options,
            changes: broadcast::channel(KEPT_CHANGES).0,
            silent: AtomicBool::new(false),
            shutdown: CancellationToken::new(),
            tasks: TaskTracker::new(),
        };
        let specs = RwLock::new(Arc::new(Specs::new(specs, &Specs::default())));
        Self(Arc::new(Inner { specs, slots: Mutex::default(), shared: Arc::new(shared) }))
    }

    /// The servers, in the order of the configuration.
    pub fn servers(&self) -> Vec<Arc<ServerSpec>> {
        self.specs().all.clone()
    }

    /// The server with this name.
    pub fn server(&self, name: &ServerName) -> Option<Arc<ServerSpec>> {
        self.specs().by_name.get(name).map(Arc::clone)
    }

    /// Replaces the configuration, and returns the names of the servers that were added, removed or changed.
    ///
    /// Connections to removed and changed servers end, with the calls in progress. New servers are started when they
    /// are used.
    pub fn replace_servers(&self, specs: Vec<ServerSpec>) -> Vec<ServerName> {
        let (before, now) = {
            let mut current = self.0.specs.write().unwrap_or_else(PoisonError::into_inner);
            let now = Arc::new(Specs::new(specs, &current));
            (std::mem::replace(&mut *current, Arc::clone(&now)), now)
        };
        let ended: Vec<Arc<Slot>> = {
            let mut slots = self.0.slots.lock().unwrap_or_else(PoisonError::into_inner);
            slots.extract_if(|_, slot| !now.has(slot.spec())).map(|(_, slot)| slot).collect()
        };
        for slot in ended {
            slot.retire();
        }
        let gone = before.all.iter().filter(|spec| !now.has(spec));
        let new = now.all.iter().filter(|spec| !before.has(spec));
        let changed: BTreeSet<ServerName> = gone.chain(new).map(|spec| spec.name.clone()).collect();
        changed.into_iter().collect()
    }

    /// Tells listeners of [`Self::changes`] that all users have other tools than before.
    pub fn announce_servers(&self, servers: &[ServerName]) {
        for server in servers {
            for what in [Changed::Tools, Changed::Resources, Changed::Prompts] {
                // There may be no listeners.
                let _ = self.0.shared.changes.send(Change { owner: Owner::Everyone, server: server.clone(), what });
            }
        }
    }

    fn specs(&self) -> Arc<Specs> {
        Arc::clone(&self.0.specs.read().unwrap_or_else(PoisonError::into_inner))
    }

    /// The tools of a server. Connects to it if necessary.
    pub async fn tools(&self, user: &UserId, server: &ServerName) -> Result<Arc<ToolList>, UpstreamError> {
        let slot = self.slot(user, server)?;
        let lease = slot.lease().await?;
        lease.current_tools().await
    }

    /// Calls a tool by its name on the wire. Connects to the server if necessary.
    pub async fn call(
        &self,
        user: &UserId,
        server: &ServerName,
        tool: &str,
        arguments: Map<String, Value>,
        context: CallContext,
    ) -> Result<ToolResult, UpstreamError> {
        self.lease_for(user, server, &context).await?.call(tool, arguments, &context).await
    }

    /// The status of the servers for this user. Does not start any.
    pub fn status(&self, user: &UserId) -> Vec<ServerStatus> {
        let slots = self.0.slots.lock().unwrap_or_else(PoisonError::into_inner);
        let status = |spec: &Arc<ServerSpec>| {
            let name = spec.name.clone();
            match slots.get(&(Owner::of(user, spec.scope), name.clone())) {
                Some(slot) => slot.status(),
                None => ServerStatus { name, state: ServerState::Idle, tools: None, pid: None },
            }
        };
        self.specs().all.iter().map(status).collect()
    }

    /// Receives a change when a connected server offers something else than before.
    pub fn changes(&self) -> broadcast::Receiver<Change> {
        self.0.shared.changes.subscribe()
    }

    /// Tells listeners of [`Self::changes`] that a server which was asked for its tools before it had started now has
    /// them.
    pub fn announce(&self, user: &UserId, server: &ServerName) {
        if let Ok(spec) = self.spec(server) {
            let (owner, server) = (Owner::of(user, spec.scope), server.clone());
            // There may be no listeners.
            let _ = self.0.shared.changes.send(Change { owner, server, what: Changed::Tools });
        }
    }

    /// Signs in to a server with OAuth. `open` gets the URL that the person has to open in a browser, which then arrives
    /// at `place`.
    pub async fn login(
        &self,
        user: &UserId,
        server: &ServerName,
        place: SignInReturn,
        open: impl FnOnce(&str) + Send,
    ) -> Result<(), UpstreamError> {
        self.slot(user, server)?.login(place, open).await
    }

    /// Deletes a stored sign-in.
    pub async fn logout(&self, user: &UserId, server: &ServerName) -> Result<(), UpstreamError> {
        let spec = self.spec(server)?;
        let owner = Owner::of(user, spec.scope);
        let forgotten = self.0.shared.options.tokens.delete(&owner, server).await;
        forgotten.map_err(|error| UpstreamError::Login { server: server.clone(), reason: error.to_string() })?;
        self.slot(user, server)?.reset();
        Ok(())
    }

    /// Ends this user's connection to a server and forgets its failures. The next use makes a new one.
    pub fn restart(&self, user: &UserId, server: &ServerName) -> Result<(), UpstreamError> {
        self.slot(user, server)?.reset();
        Ok(())
    }

    /// Shuts down all connections and waits until they have ended. This cannot be undone.
    pub async fn shutdown(&self) {
        self.0.shared.shutdown.cancel();
        self.0.shared.tasks.close();
        self.0.shared.tasks.wait().await;
    }

    /// A lease of the connection. Waiting for it can be cancelled.
    pub(crate) async fn lease_for(
        &self,
        user: &UserId,
        server: &ServerName,
        context: &CallContext,
    ) -> Result<Lease, UpstreamError> {
        let slot = self.slot(user, server)?;
        // A cancelled request is not started, even if the connection is ready.
        if context.cancel.is_cancelled() {
            return Err(UpstreamError::Cancelled { server: server.clone() });
        }
        tokio::select! {
            biased;
            lease = slot.lease() => lease,
            () = context.cancel.cancelled() => Err(UpstreamError::Cancelled { server: server.clone() }),
        }
    }

    /// The chain of Coracles, with this one last.
    pub(crate) fn chain(&self) -> &[String] {
        &self.0.shared.options.chain
    }

    pub(crate) fn spec(&self, server: &ServerName) -> Result<Arc<ServerSpec>, UpstreamError> {
        self.server(server).ok_or_else(|| UpstreamError::UnknownServer { server: server.clone() })
    }

    pub(crate) fn slot(&self, user: &UserId, server: &ServerName) -> Result<Arc<Slot>, UpstreamError> {
        let mut slots = self.0.slots.lock().unwrap_or_else(PoisonError::into_inner);
        // Looked up under the lock: a server that has been replaced gets no new slot.
        let spec = self.spec(server)?;
        let owner = Owner::of(user, spec.scope);
        let slot = slots
            .entry((owner.clone(), server.clone()))
            .or_insert_with(|| Arc::new(Slot::new(owner, spec, Arc::clone(&self.0.shared))));
        Ok(Arc::clone(slot))
    }
}

impl fmt::Debug for Upstream {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Upstream").field("servers", &self.specs().all).finish_non_exhaustive()
    }
}

impl Drop for Inner {
    fn drop(&mut self) {
        self.shared.shutdown.cancel();
    }
}
