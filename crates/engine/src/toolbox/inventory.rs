use super::at_hand::AtHand;
use super::known::Known;
use super::mentions::{Mention, Mentions};
use super::{Toolbox, fingerprint};
use coracle_catalog::{Catalog, Modules, Registry, RegistryWords, ServerTools, Shape, remove_trees};
use coracle_store::Owner;
use coracle_types::{ServerName, ServerSpec, UserId};
use coracle_upstream::ServerState;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock, PoisonError};
use std::time::{Duration, SystemTime};
use tokio::task::JoinHandle;
use tokio::time::Instant;

/// Maximum time to wait for a server that has never listed its tools and is not clearly named by the code.
const LOOKING_AROUND: Duration = Duration::from_secs(3);

/// Maximum number of tools for which all modules are written before code runs, whichever servers it names.
const AT_ONCE: usize = 1_000;

/// Time after which unused modules are removed.
const KEPT_FOR: Duration = Duration::from_hours(24);

/// Selects which of the servers that have never listed their tools to wait for.
#[derive(Clone, Copy, Debug)]
pub enum Listing<'a> {
    /// Servers that the code names. If it mentions servers or tools but names none, all servers for a short time.
    For(&'a str),
    /// All servers, each within its own time limit.
    All,
    /// All servers for a short time.
    Soon,
    /// All servers for up to [`Toolbox::patience`], and the server with this name within its own time limit. For
    /// callers that can ask again.
    Around(Option<&'a str>),
}

/// Tools that one user can call.
#[derive(Debug)]
pub struct Inventory {
    /// Catalogue of all known tools.
    pub catalog: Arc<Catalog>,
    /// Modules of the tools, initialized before code runs.
    modules: OnceLock<Modules>,
    /// Whether a background thread is writing the remaining modules.
    is_being_written: AtomicBool,
    /// Whether all modules are written and recorded for the next run.
    is_settled: AtomicBool,
    /// Servers whose tools are not known, each with the reason.
    pub missing: Vec<(ServerName, String)>,
    /// Descriptions from the registry folder.
    pub registry: RegistryWords,
}

impl Inventory {
    /// Returns the folder for `/coracle/servers`; `None` if no modules have been written yet, if there are
    /// no tools, or if writing failed.
    pub fn modules(&self) -> Option<PathBuf> {
        let folder = self.modules.get()?.folder().join(coracle_catalog::ROOT);
        folder.is_dir().then_some(folder)
    }

    /// Returns whether all modules are written.
    fn is_settled(&self) -> bool {
        self.is_settled.load(Ordering::Relaxed) && self.modules.get().is_some_and(Modules::is_complete)
    }

    /// Writes the modules that the code may use. In a large catalogue, the modules of other servers are written in the
    /// background.
    fn write_modules(self: &Arc<Self>, cache: &Path, code: &str, at_hand: &AtHand) {
        if self.catalog.servers().is_empty() {
            return;
        }
        let modules = self.modules.get_or_init(|| {
            let modules = Modules::new(cache, &self.catalog);
            // The modification time protects the folder from `remove_old`.
            let _ = std::fs::File::open(modules.folder()).and_then(|folder| folder.set_modified(SystemTime::now()));
            remove_old(cache);
            modules
        });
        if modules.is_complete() {
            return self.settle(modules, at_hand);
        }
        let mentions = Mentions::new(code);
        let named: Vec<&str> = self
            .catalog
            .servers()
            .iter()
            .map(|server| server.name.as_str())
            .filter(|name| mentions.of(name) != Mention::None)
            .collect();
        // Code that mentions tools but names no server may use any of them.
        let looks_around = mentions.any() && named.is_empty();
        let written = if looks_around || self.catalog.len() <= AT_ONCE {
            modules.complete(&self.catalog)
        } else {
            self.write_rest(modules, at_hand);
            modules.write(&self.catalog, |name| named.contains(&name))
        };
        if let Err(error) = written {
            tracing::error!(%error, "the modules of tools cannot be written");
        }
        if modules.is_complete() {
            self.settle(modules, at_hand);
        }
    }

    fn settle(&self, modules: &Modules, at_hand: &AtHand) {
        at_hand.put(modules.folder());
        self.is_settled.store(true, Ordering::Relaxed);
    }

    fn write_rest(self: &Arc<Self>, modules: &Modules, at_hand: &AtHand) {
        if self.is_being_written.swap(true, Ordering::Relaxed) {
            return;
        }
        let (inventory, modules, at_hand) = (Arc::clone(self), modules.clone(), at_hand.clone());
        std::thread::spawn(move || match modules.complete(&inventory.catalog) {
            Ok(()) => inventory.settle(&modules, &at_hand),
            Err(error) => {
                tracing::error!(%error, "the modules of tools cannot be written");
                inventory.is_being_written.store(false, Ordering::Relaxed);
            }
        });
    }

    /// Returns the servers without known tools that the code clearly names.
    pub(crate) fn missing_in(&self, code: &str) -> impl Iterator<Item = &(ServerName, String)> {
        let mentions = Mentions::new(code);
        self.missing.iter().filter(move |(server, _)| mentions.of(server.as_str()) == Mention::Clear)
    }
}

impl Toolbox {
    /// Returns the tools that a user can call now. [`Listing::For`] also writes the modules that the code may use.
    pub async fn inventory(self: &Arc<Self>, user: &UserId, listing: Listing<'_>) -> Arc<Inventory> {
        let inventory = self.stock(user, listing).await;
        if let Listing::For(code) = listing
            && !inventory.is_settled()
        {
            let (inventory, cache, code) = (Arc::clone(&inventory), self.config.cache.clone(), code.to_owned());
            let at_hand = self.at_hand(user);
            let written = tokio::task::spawn_blocking(move || inventory.write_modules(&cache, &code, &at_hand)).await;
            if let Err(error) = written {
                tracing::error!(%error, "the modules of tools cannot be written");
            }
        }
        inventory
    }

    async fn stock(self: &Arc<Self>, user: &UserId, listing: Listing<'_>) -> Arc<Inventory> {
        self.restore(user).await;
        let mut missing = self.list(user, listing).await;
        missing.extend(self.unusable());
        let generation = self.generation.load(Ordering::Relaxed);
        if let Some((of, inventory)) = self.inventories.lock().unwrap_or_else(PoisonError::into_inner).get(user)
            && *of == generation
            && inventory.missing == missing
        {
            return Arc::clone(inventory);
        }
        self.report_rules();
        let inventory = Arc::new(self.take_stock(user, missing).await);
        self.inventories
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .insert(user.clone(), (generation, Arc::clone(&inventory)));
        inventory
    }

    /// Loads the tools and shapes that earlier runs have stored for all servers.
    pub(super) async fn restore(&self, user: &UserId) {
        for spec in self.upstream.servers() {
            self.restore_server(user, &spec).await;
        }
    }

    /// Loads the tools and shapes that earlier runs have stored for one server.
    pub(crate) async fn recall(&self, user: &UserId, server: &ServerName) {
        if let Some(spec) = self.spec(server) {
            self.restore_server(user, &spec).await;
        }
    }

    async fn restore_server(&self, user: &UserId, spec: &ServerSpec) {
        let owner = Owner::of(spec.scope, user);
        let key = (owner.clone(), spec.name.clone());
        if self.known().contains_key(&key) {
            return;
        }
        match self.remembered(&owner, spec).await {
            Ok(known) => {
                self.known().entry(key).or_insert(known);
                self.changed();
            }
            Err(error) => tracing::warn!(server = %spec.name, %error, "what was known of it cannot be read"),
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

    /// Requests the tools of servers that have never listed them. Returns the servers that still have not, with the
    /// reason.
    async fn list(self: &Arc<Self>, user: &UserId, listing: Listing<'_>) -> Vec<(ServerName, String)> {
        let unknown: Vec<Arc<ServerSpec>> = {
            let known = self.known();
            let is_known = |spec: &ServerSpec| {
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
            Listing::All | Listing::Soon | Listing::Around(_) => "",
        });
        let mut all = self.upstream.servers().into_iter();
        let is_one_clear = all.any(|spec| mentions.of(spec.name.as_str()) == Mention::Clear);
        let patience = |server: &ServerName| match listing {
            Listing::Around(named) if named != Some(server.as_str()) => Some(self.patience(user, server)),
            _ => patience(server, listing, &mentions, is_one_clear),
        };
        let asked = unknown.into_iter().map(|spec| (spec.name.clone(), patience(&spec.name)));
        // Concurrent, each in its own task: a server that is too slow this time continues to start for the next
        // listing.
        let asked: Vec<(ServerName, Option<Duration>, Option<Asked>)> = asked
            .map(|(server, patience)| {
                let task = (patience != Some(Duration::ZERO)).then(|| self.ask_for_tools(user, &server));
                (server, patience, task)
            })
            .collect();
        let begun = Instant::now();
        let mut missing = Vec::new();
        for (server, patience, task) in asked {
            let not_asked =
                || "it had no reason to start yet; its tools are listed when code or a search names it".to_owned();
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
                Err(_) => {
                    let reason = self.last_failure(user, &server);
                    let starting = || "it is still starting; try again in some seconds".to_owned();
                    missing.push((server, reason.unwrap_or_else(starting)));
                }
            }
        }
        missing
    }

    /// Returns why the last start of a server failed.
    fn last_failure(&self, user: &UserId, server: &ServerName) -> Option<String> {
        let status = self.upstream.status(user).into_iter().find(|status| status.name == *server)?;
        match status.state {
            ServerState::Failed { reason, .. } => Some(format!("it could not be started: {reason}")),
            _ => None,
        }
    }

    /// Requests the tools of a server in the background, for later listings.
    pub(crate) fn list_in_background(self: &Arc<Self>, user: &UserId, server: &ServerName) {
        if !self.is_unusable(server) {
            drop(self.ask_for_tools(user, server));
        }
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
            let of = |spec: Arc<ServerSpec>| {
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
        let before = self.inventories.lock().unwrap_or_else(PoisonError::into_inner).get(user).cloned();
        let (registry, reasons) = (self.config.registry.clone(), missing.clone());
        let made = tokio::task::spawn_blocking(move || {
            let registry = registry.map(|folder| describe(&folder, &mut servers, &reasons)).unwrap_or_default();
            let catalog = match &before {
                Some((_, before)) => Catalog::after(servers, &before.catalog),
                None => Catalog::new(servers),
            };
            (catalog, registry)
        });
        let (catalog, registry) = made.await.unwrap_or_else(|_| (Catalog::new(Vec::new()), RegistryWords::default()));
        Inventory {
            catalog: Arc::new(catalog),
            modules: OnceLock::new(),
            is_being_written: AtomicBool::new(false),
            is_settled: AtomicBool::new(false),
            missing,
            registry,
        }
    }
}

type Asked = JoinHandle<Result<(), String>>;

/// Returns how long to wait for a server; `None` means its own time limit.
fn patience(
    server: &ServerName,
    listing: Listing<'_>,
    mentions: &Mentions<'_>,
    is_one_clear: bool,
) -> Option<Duration> {
    match listing {
        Listing::All | Listing::Around(_) => return None,
        Listing::Soon => return Some(LOOKING_AROUND),
        Listing::For(_) => {}
    }
    match mentions.of(server.as_str()) {
        Mention::Clear => None,
        Mention::Loose => Some(LOOKING_AROUND),
        // Code that clearly names some servers does not wait for the others.
        Mention::None if mentions.any() && !is_one_clear => Some(LOOKING_AROUND),
        Mention::None => Some(Duration::ZERO),
    }
}

/// Adds the descriptions from a registry folder to the tools.
fn describe(folder: &Path, servers: &mut Vec<ServerTools>, missing: &[(ServerName, String)]) -> RegistryWords {
    let registry = Registry::read(folder);
    for warning in registry.warnings() {
        tracing::warn!("left out of the registry of tools: {warning}");
    }
    let reason =
        |name: &ServerName| missing.iter().find(|(server, _)| server == name).map(|(_, reason)| reason.clone());
    registry.describe(servers, reason)
}

/// Removes modules that have not been used for [`KEPT_FOR`].
fn remove_old(cache: &Path) {
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
}

fn is_recent(modified: SystemTime) -> bool {
    modified.elapsed().is_ok_and(|age| age < KEPT_FOR) || modified > SystemTime::now()
}
