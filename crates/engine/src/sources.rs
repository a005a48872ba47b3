//! Where the data that code works on came from: the servers that it has read from, itself or through its session, its
//! conversation or the files of its workspace.
//!
//! What is noted is on the disk before code gets the data, so nothing is forgotten if the process is killed. If it cannot
//! be noted or read, calls that depend on it are refused.

mod changes;

use crate::host_calls::{HostCallError, refused};
use coracle_policy::Sources;
use coracle_store::{Place, PlacedSource, Store, StoreError};
use coracle_types::{ExecutionId, ServerLabel, ServerName, UserId};
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::SystemTime;

/// The sources of one execution, or of one call of a client.
#[derive(Debug)]
pub(crate) struct SourceTracker {
    store: Arc<dyn Store>,
    user: UserId,
    execution: ExecutionId,
    /// Where the data stays: the session, the conversation, the client.
    places: Vec<Place>,
    workspace: Option<TrackedWorkspace>,
    /// What was read in this execution, and whether it is noted.
    own: Mutex<BTreeMap<ServerName, Own>>,
    /// Whether data of a place could not be noted in the others.
    is_incomplete: AtomicBool,
}

#[derive(Clone, Debug, Default)]
struct Own {
    labels: BTreeSet<ServerLabel>,
    is_noted: bool,
}

/// The files that code can change.
#[derive(Debug)]
pub(crate) struct TrackedWorkspace {
    /// The folder.
    pub(crate) folder: PathBuf,
    /// Its name.
    pub(crate) place: Place,
    /// Whether the log of a session is copied there: it has output.
    pub(crate) has_log: bool,
}

impl SourceTracker {
    pub(crate) fn new(
        store: Arc<dyn Store>,
        user: UserId,
        execution: ExecutionId,
        places: Vec<Place>,
        workspace: Option<TrackedWorkspace>,
    ) -> Self {
        let is_incomplete = AtomicBool::new(false);
        Self { store, user, execution, places, workspace, own: Mutex::default(), is_incomplete }
    }

    fn own(&self) -> MutexGuard<'_, BTreeMap<ServerName, Own>> {
        self.own.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The places whose data the code can use.
    fn read_places(&self) -> Vec<Place> {
        let mut places = self.places.clone();
        if let Some(workspace) = &self.workspace {
            // Skills are code and text that earlier executions may have written.
            places.extend([workspace.place.clone(), Place::skills()]);
        }
        places
    }

    /// Notes that data of one place can get into the others: code reads files, and its output gets into conversations.
    pub(crate) async fn begin(&self) {
        if let Err(error) = self.share().await {
            tracing::warn!(user = %self.user, %error, "cannot note where data came from");
            self.is_incomplete.store(true, Ordering::Relaxed);
        }
    }

    async fn share(&self) -> Result<(), StoreError> {
        let places = self.read_places();
        if places.len() < 2 {
            return Ok(());
        }
        let there = self.store.sources_in(&self.user, &places).await?;
        let has = |place: &Place, server: &ServerName| {
            there.iter().any(|source| source.place == *place && source.server == *server)
        };
        let mut missing = Vec::new();
        for source in &there {
            let targets = self.targets().filter(|(place, _)| !has(place, &source.server));
            missing.extend(targets.map(|(place, execution)| PlacedSource { place, execution, ..source.clone() }));
        }
        if missing.is_empty() { Ok(()) } else { self.store.add_sources(&self.user, &missing).await }
    }

    /// Where data of this execution gets: in the workspace, only if it changes something there.
    fn targets(&self) -> impl Iterator<Item = (Place, Option<ExecutionId>)> {
        let places = self.places.iter().map(|place| (place.clone(), None));
        let workspace = self
            .workspace
            .iter()
            .map(|workspace| (workspace.place.clone(), Some(self.execution.clone()).filter(|_| !workspace.has_log)));
        places.chain(workspace)
    }

    /// Notes, before it happens, that the code gets data of a server. On the disk only if `is_durable`: if no rule depends
    /// on it, it is remembered for this execution.
    pub(crate) async fn receives(
        &self,
        server: &ServerName,
        labels: BTreeSet<ServerLabel>,
        is_durable: bool,
    ) -> Result<(), HostCallError> {
        {
            let mut own = self.own();
            let known = own.entry(server.clone()).or_default();
            let is_new = !labels.is_subset(&known.labels);
            known.labels.extend(labels.iter().copied());
            if !is_durable || (known.is_noted && !is_new) {
                return Ok(());
            }
        }
        let source = |(place, execution)| PlacedSource {
            place,
            server: server.clone(),
            labels: labels.clone(),
            execution,
            seen_at: SystemTime::now(),
        };
        let sources: Vec<PlacedSource> = self.targets().map(source).collect();
        if !sources.is_empty() {
            self.store.add_sources(&self.user, &sources).await.map_err(|error| sources_unknown(&error))?;
        }
        self.own().entry(server.clone()).or_default().is_noted = true;
        Ok(())
    }

    /// Adds servers that something before has read from.
    pub(crate) fn has_read(&self, servers: impl IntoIterator<Item = (ServerName, BTreeSet<ServerLabel>)>) {
        let mut own = self.own();
        for (server, labels) in servers {
            own.entry(server).or_default().labels.extend(labels);
        }
    }

    /// All servers whose data the code may have.
    pub(crate) async fn all(&self) -> Result<Sources, HostCallError> {
        if self.is_incomplete.load(Ordering::Relaxed) {
            return Err(refused(CODE, "it is not known where the data of this execution came from"));
        }
        let mut sources = Sources::default();
        for (server, own) in &*self.own() {
            sources.add(server.clone(), own.labels.iter().copied());
        }
        let places = self.read_places();
        if !places.is_empty() {
            let there = self.store.sources_in(&self.user, &places).await.map_err(|error| sources_unknown(&error))?;
            for PlacedSource { server, labels, .. } in there {
                sources.add(server, labels);
            }
        }
        Ok(sources)
    }

    /// Notes that the code leaves something in a place that all of the user's code or clients can read.
    pub(crate) async fn leaves_in(&self, place: &Place) -> Result<(), HostCallError> {
        let all = self.all().await?;
        let source = |(server, labels): (&ServerName, &BTreeSet<ServerLabel>)| PlacedSource {
            place: place.clone(),
            server: server.clone(),
            labels: labels.clone(),
            execution: None,
            seen_at: SystemTime::now(),
        };
        let sources: Vec<PlacedSource> = all.iter().map(source).collect();
        if sources.is_empty() {
            return Ok(());
        }
        self.store.add_sources(&self.user, &sources).await.map_err(|error| sources_unknown(&error))
    }

    /// Decides at the end of the execution whether its data is in the workspace now. Until then, and if this is not called,
    /// it counts as being there.
    pub(crate) async fn settle(&self, began: SystemTime) {
        // What others have brought to the workspace meanwhile may have been read.
        self.begin().await;
        let Some(workspace) = self.workspace.as_ref().filter(|workspace| !workspace.has_log) else { return };
        let noted = self.store.sources_in(&self.user, std::slice::from_ref(&workspace.place)).await;
        let is_due =
            |noted: Vec<PlacedSource>| noted.iter().any(|source| source.execution.as_ref() == Some(&self.execution));
        if !noted.is_ok_and(is_due) {
            return;
        }
        let folder = workspace.folder.clone();
        let changed = tokio::task::spawn_blocking(move || changes::is_changed(&folder, began)).await;
        let kept = changed.unwrap_or(true);
        let settled = self.store.settle_sources(&self.user, &workspace.place, &self.execution, kept).await;
        if let Err(error) = settled {
            tracing::warn!(user = %self.user, %error, "data counts as being in the workspace");
        }
    }
}

/// Code of calls that are refused because it is not known where data came from.
const CODE: &str = "sources_unknown";

pub(crate) fn sources_unknown(error: &StoreError) -> HostCallError {
    let hint = error.hint().map(|hint| format!("; {hint}")).unwrap_or_default();
    let message = format!("the call was not made: flow rules depend on where data came from: {error}{hint}");
    HostCallError { retryable: true, ..refused(CODE, &message) }
}

/// The name of a folder that is used as a workspace: that of the user's own, if it is the same.
pub(crate) fn workspace_place(folder: &Path, own: &Path) -> Place {
    let real = |path: &Path| path.canonicalize().unwrap_or_else(|_| path.to_owned());
    let folder = real(folder);
    Place::workspace(Some(folder.as_path()).filter(|folder| real(own) != **folder))
}
