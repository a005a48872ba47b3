use super::known::Known;
use super::mentions::{Mention, Mentions};
use super::{Toolbox, fingerprint};
use coracle_catalog::{Catalog, Registry, ServerTools, Shape, WriteError, remove_trees, write_tree};
use coracle_store::Owner;
use coracle_types::{ServerName, ServerSpec, UserId};
use std::path::{Path, PathBuf};
use std::sync::atomic::Ordering;
use std::sync::{Arc, PoisonError};
use std::time::{Duration, SystemTime};
use tokio::task::JoinHandle;
use tokio::time::Instant;

/// Code that looks around without naming a server waits no longer for one that has never listed its tools.
const LOOKING_AROUND: Duration = Duration::from_secs(3);

/// Modules that nobody has used for so long are removed.
const KEPT_FOR: Duration = Duration::from_hours(24);

/// For which servers to wait that have never listed their tools. Those that have are never waited for.
#[derive(Clone, Copy, Debug)]
pub enum Listing<'a> {
    /// For those that the code names; if it speaks of servers or tools and names none, a little for all.
    For(&'a str),
    /// For all, each within its own time.
    All,
    /// A little for all.
    Soon,
}

/// What one user can call.
#[derive(Debug)]
pub struct Inventory {
    /// All tools that are known.
    pub catalog: Catalog,
    /// Their modules, to be seen at `/coracle/servers`; none if there is not a single tool.
    pub modules: Option<PathBuf>,
    /// Servers that have not listed any, and why.
    pub missing: Vec<(ServerName, String)>,
}

impl Inventory {
    /// Servers without tools that this code means to use.
    pub(crate) fn missing_in(&self, code: &str) -> impl Iterator<Item = &(ServerName, String)> {
        let mentions = Mentions::new(code);
        self.missing.iter().filter(move |(server, _)| mentions.of(server.as_str()) == Mention::Clear)
    }
}

impl Toolbox {
    /// What a user can call now.
    pub async fn inventory(self: &Arc<Self>, user: &UserId, listing: Listing<'_>) -> Arc<Inventory> {
        self.restore(user).await;
        let missing = self.list(user, listing).await;
        let generation = self.generation.load(Ordering::Relaxed);
        if missing.is_empty()
            && let Some((of, inventory)) = self.inventories.lock().unwrap_or_else(PoisonError::into_inner).get(user)
            && *of == generation
            && inventory.missing.is_empty()
        {
            return Arc::clone(inventory);
        }
        let inventory = Arc::new(self.take_stock(user, missing).await);
        self.inventories
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .insert(user.clone(), (generation, Arc::clone(&inventory)));
        inventory
    }

    /// Reads what earlier runs knew.
    async fn restore(&self, user: &UserId) {
        for spec in self.upstream.servers() {
            let owner = Owner::of(spec.scope, user);
            let key = (owner.clone(), spec.name.clone());
            if self.known().contains_key(&key) {
                continue;
            }
            match self.remembered(&owner, spec).await {
                Ok(known) => {
                    self.known().entry(key).or_insert(known);
                    self.changed();
                }
                Err(error) => tracing::warn!(server = %spec.name, %error, "what was known of it cannot be read"),
            }
        }
    }

    async fn remembered(&self, owner: &Owner, spec: &ServerSpec) -> Result<Known, coracle_store::StoreError> {
        let listed = self.store.tools(owner, &spec.name).await?;
        let tools = listed.filter(|listed| listed.fingerprint == fingerprint(spec)).map(|listed| listed.tools);
        let shapes = self.store.shapes(owner, &spec.name).await?;
        let shapes = shapes
            .into_iter()
            .filter_map(|(tool, shape)| serde_json::from_value::<Shape>(shape.value).ok().map(|shape| (tool, shape)));
        Ok(Known::restored(tools, shapes))
    }

    /// Has servers list their tools that never have; which of them still have not, and why.
    async fn list(self: &Arc<Self>, user: &UserId, listing: Listing<'_>) -> Vec<(ServerName, String)> {
        let unknown: Vec<&ServerSpec> = {
            let known = self.known();
            let is_known = |spec: &&ServerSpec| {
                let key = (Owner::of(spec.scope, user), spec.name.clone());
                known.get(&key).is_some_and(|known| known.tools().is_some())
            };
            self.upstream.servers().into_iter().filter(|spec| !is_known(spec)).collect()
        };
        if unknown.is_empty() {
            return Vec::new();
        }
        let mentions = Mentions::new(match listing {
            Listing::For(code) => code,
            Listing::All | Listing::Soon => "",
        });
        let mut all = self.upstream.servers().into_iter();
        let is_one_clear = all.any(|spec| mentions.of(spec.name.as_str()) == Mention::Clear);
        let asked =
            unknown.into_iter().map(|spec| (spec.name.clone(), patience(&spec.name, listing, &mentions, is_one_clear)));
        // All at once, and each goes on by itself: who is too slow for this time is there the next time.
        let asked: Vec<(ServerName, Option<Duration>, Option<Asked>)> = asked
            .map(|(server, patience)| {
                let task = (patience != Some(Duration::ZERO)).then(|| self.ask_for_tools(user, &server));
                (server, patience, task)
            })
            .collect();
        let begun = Instant::now();
        let mut missing = Vec::new();
        for (server, patience, task) in asked {
            let not_asked = || "its tools have not been asked for yet".to_owned();
            let Some(task) = task else {
                missing.push((server, not_asked()));
                continue;
            };
            let outcome = match patience {
                None => Ok(task.await),
                Some(patience) => tokio::time::timeout_at(begun + patience, task).await,
            };
            match outcome {
                Ok(Ok(Ok(()))) => {}
                Ok(Ok(Err(reason))) => missing.push((server, reason)),
                Ok(Err(_)) => missing.push((server, not_asked())),
                Err(_) => missing.push((server, "it is still being started".to_owned())),
            }
        }
        missing
    }

    fn ask_for_tools(self: &Arc<Self>, user: &UserId, server: &ServerName) -> Asked {
        let (toolbox, user, server) = (Arc::clone(self), user.clone(), server.clone());
        tokio::spawn(async move {
            let list = toolbox.upstream.tools(&user, &server).await.map_err(|error| {
                let hint = error.hint().map(|hint| format!("; {hint}")).unwrap_or_default();
                format!("{error}{hint}")
            })?;
            if let Some(owner) = toolbox.owner(&user, &server) {
                toolbox.saw(&owner, &server, &list).await;
            }
            Ok(())
        })
    }

    async fn take_stock(&self, user: &UserId, missing: Vec<(ServerName, String)>) -> Inventory {
        let mut servers: Vec<ServerTools> = {
            let known = self.known();
            let of = |spec: &ServerSpec| {
                let known = known.get(&(Owner::of(spec.scope, user), spec.name.clone()))?;
                let (tools, shapes) = (known.tools()?.to_vec(), known.shapes());
                Some(ServerTools {
                    description: spec.description.clone(),
                    category: spec.category.clone(),
                    shapes,
                    ..ServerTools::new(spec.name.clone(), tools)
                })
            };
            self.upstream.servers().into_iter().filter_map(of).collect()
        };
        let cache = self.config.cache.clone();
        let before = self.inventories.lock().unwrap_or_else(PoisonError::into_inner).get(user).cloned();
        let (registry, reasons) = (self.config.registry.clone(), missing.clone());
        let made = tokio::task::spawn_blocking(move || {
            if let Some(folder) = registry {
                describe(&folder, &mut servers, &reasons);
            }
            let catalog = match &before {
                Some((_, before)) => Catalog::after(servers, &before.catalog),
                None => Catalog::new(servers),
            };
            let modules = (!catalog.servers().is_empty()).then(|| write_modules(&cache, &catalog));
            (catalog, modules)
        });
        let (catalog, modules) = made.await.unwrap_or_else(|_| (Catalog::new(Vec::new()), None));
        let modules = modules.and_then(|written| {
            written.map_err(|error| tracing::error!(%error, "the modules of tools cannot be written")).ok()
        });
        Inventory { catalog, modules, missing }
    }
}

type Asked = JoinHandle<Result<(), String>>;

/// How long to wait for a server; `None`: for as long as its own settings say.
fn patience(
    server: &ServerName,
    listing: Listing<'_>,
    mentions: &Mentions<'_>,
    is_one_clear: bool,
) -> Option<Duration> {
    match listing {
        Listing::All => return None,
        Listing::Soon => return Some(LOOKING_AROUND),
        Listing::For(_) => {}
    }
    match mentions.of(server.as_str()) {
        Mention::Clear => None,
        Mention::Loose => Some(LOOKING_AROUND),
        // Code that says which servers it uses waits for no others.
        Mention::None if mentions.any() && !is_one_clear => Some(LOOKING_AROUND),
        Mention::None => Some(Duration::ZERO),
    }
}

/// Adds what a folder says of tools.
fn describe(folder: &Path, servers: &mut Vec<ServerTools>, missing: &[(ServerName, String)]) {
    let registry = Registry::read(folder);
    for warning in registry.warnings() {
        tracing::warn!("left out of the registry of tools: {warning}");
    }
    let reason =
        |name: &ServerName| missing.iter().find(|(server, _)| server == name).map(|(_, reason)| reason.clone());
    registry.describe(servers, reason);
}

/// Gives the folder that is to be seen at `/coracle/servers`.
fn write_modules(cache: &Path, catalog: &Catalog) -> Result<PathBuf, WriteError> {
    let tree = catalog.tree();
    let folder = write_tree(cache, &tree)?;
    // Says that it is in use.
    let _ = std::fs::File::open(&folder).and_then(|folder| folder.set_modified(SystemTime::now()));
    let recent: Vec<PathBuf> = std::fs::read_dir(cache)
        .into_iter()
        .flatten()
        .flatten()
        .filter(|entry| entry.metadata().and_then(|metadata| metadata.modified()).is_ok_and(is_recent))
        .map(|entry| entry.path())
        .collect();
    let keep: Vec<&Path> = recent.iter().map(PathBuf::as_path).collect();
    if let Err(error) = remove_trees(cache, &keep) {
        tracing::warn!(%error, "old modules of tools are not removed");
    }
    Ok(folder.join(coracle_catalog::ROOT))
}

fn is_recent(modified: SystemTime) -> bool {
    modified.elapsed().is_ok_and(|age| age < KEPT_FOR) || modified > SystemTime::now()
}
