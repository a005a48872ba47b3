//! Joins settings, store, servers, backend and engine.

use crate::environment;
use crate::signals::Signals;
use crate::status::{Cancelled, Mistake};
use crate::tokens::StoredTokens;
use anyhow::{Context, bail};
use coracle_agent::{EmbedderSettings, RemoteEmbedder};
use coracle_config::{Loaded, SandboxType, Settings, is_foreign};
use coracle_engine::{
    CallCaps, EmbedderConfig, Engine, EngineConfig, Library, Origin, SkillSource, Toolbox, ToolboxConfig,
};
use coracle_policy::{Rule, Rules};
use coracle_sandbox::{ForkedLauncher, NativeBackend, NativeConfig, Packages};
use coracle_store::{Home, KeySource, SqliteStore, Store, StoreError};
use coracle_types::{Limits, ServerSpec};
use coracle_upstream::{Options, Upstream};
use serde_json::{Map, Value};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

/// An interpreter of a session that nobody uses ends after this time.
const SESSION_IDLE: Duration = Duration::from_mins(30);

/// Where code finds the operator's skills and modules.
const SKILLS: &str = "/skills";
const TOOLS: &str = "/tools";

/// How sandboxes are kept.
#[derive(Clone, Debug)]
pub(crate) struct Sandboxes {
    /// Prepared ones to keep.
    pub(crate) pool: usize,
    /// Import what a long-lived process wants imported.
    pub(crate) preload: bool,
    /// Refuse to run with less than full isolation.
    pub(crate) require_full_isolation: bool,
    /// What they are prepared with.
    pub(crate) limits: Limits,
    /// The interpreter, if one was asked for.
    pub(crate) python: Option<PathBuf>,
    /// Folders of the operator that code may read, and where it sees them.
    pub(crate) folders: Vec<(PathBuf, PathBuf)>,
    /// Python packages that code can import.
    pub(crate) packages: Packages,
}

/// What the settings make of `/skills` and `/tools`.
pub(crate) fn folders(settings: &Settings) -> anyhow::Result<Vec<(PathBuf, PathBuf)>> {
    let execution = &settings.execution;
    let named = [("skills_dir", &execution.skills_dir, SKILLS), ("tools_dir", &execution.tools_dir, TOOLS)];
    let mut folders = Vec::new();
    for (key, folder, seen_at) in named {
        let Some(folder) = folder else { continue };
        let found = folder
            .canonicalize()
            .and_then(|found| if found.is_dir() { Ok(found) } else { Err(std::io::ErrorKind::NotADirectory.into()) });
        let found = found.map_err(|error| {
            let hint = format!("code sees this folder as {seen_at}: make it, or take the setting away");
            Mistake::new(format!("execution.{key}: {}: {error}", folder.display()), Some(hint))
        })?;
        if seen_at == TOOLS {
            folders.push((found, seen_at.into()));
        }
    }
    // What is in `skills_dir` is among them.
    folders.extend(library(settings)?.mounts());
    Ok(folders)
}

/// Where folders with a `SKILL.md` are looked for; those that win come first.
const PROJECT_SKILLS: [&str; 2] = [".agents/skills", ".claude/skills"];

/// The skills of the operator, of this folder, of this person, and our own.
pub(crate) fn library(settings: &Settings) -> anyhow::Result<Arc<Library>> {
    let source = |origin: Origin| move |path: PathBuf| SkillSource { path, origin };
    let configured = settings.execution.skills_dir.iter().cloned().map(source(Origin::Configured));
    let here = std::env::current_dir().ok().into_iter().flat_map(|folder| PROJECT_SKILLS.map(|name| folder.join(name)));
    let own = std::env::home_dir().into_iter().flat_map(|folder| PROJECT_SKILLS.map(|name| folder.join(name)));
    let sources = configured.chain(here.map(source(Origin::Project))).chain(own.map(source(Origin::User)));
    Ok(Library::new(sources.collect(), Some(&environment::home()?.join("cache").join("skills"))))
}

/// Settings that this version cannot follow are refused: running without them would not be what was asked for.
pub(crate) fn check(settings: &Settings) -> anyhow::Result<()> {
    let execution = &settings.execution;
    if execution.sandbox_type != SandboxType::Native {
        bail!("execution.sandbox_type: only `native` can be used in this version");
    }
    if execution.allow_network_access {
        bail!("execution.allow_network_access: sandboxes of this version have no network");
    }
    Ok(())
}

/// What commands run in that do one thing after another.
pub(crate) fn runtime() -> anyhow::Result<tokio::runtime::Runtime> {
    tokio::runtime::Builder::new_current_thread().enable_all().build().context("start the runtime")
}

/// Runs a command that somebody may end from the keyboard: what it has begun is then dropped, and with that ended.
pub(crate) fn cancellable<T>(work: impl Future<Output = anyhow::Result<T>>) -> anyhow::Result<T> {
    let runtime = runtime()?;
    let outcome = runtime.block_on(async {
        let mut signals = Signals::listen().context("listen for signals")?;
        tokio::select! {
            outcome = work => outcome,
            () = signals.next() => Err(Cancelled.into()),
        }
    });
    if outcome.as_ref().is_err_and(anyhow::Error::is::<Cancelled>) {
        // Nobody waits for a name that is being looked up.
        runtime.shutdown_background();
    }
    outcome
}

/// The store in the data folder.
pub(crate) async fn store() -> anyhow::Result<Arc<dyn Store>> {
    let store = SqliteStore::open(&Home::new(environment::home()?), KeySource::File).await;
    Ok(Arc::new(store.map_err(told)?))
}

/// What is wrong with the store, and what mends it.
pub(crate) fn told(error: StoreError) -> anyhow::Error {
    match error.hint() {
        Some(hint) => anyhow::anyhow!("{error}\nhint: {hint}"),
        None => error.into(),
    }
}

/// The connections to these servers, which may ask so much; starts none.
pub(crate) fn upstream(servers: Vec<ServerSpec>, store: &Arc<dyn Store>, may_ask: Map<String, Value>) -> Upstream {
    let options = Options {
        tokens: Arc::new(StoredTokens(Arc::clone(store))),
        warden: std::env::current_exe().ok(),
        capabilities: may_ask,
        ..Options::default()
    };
    Upstream::new(servers, options)
}

/// The tools of all configured servers, which may ask so much (client capabilities of the protocol); starts none of them.
pub(crate) fn toolbox(
    loaded: &Loaded,
    store: Arc<dyn Store>,
    may_ask: Map<String, Value>,
) -> anyhow::Result<Arc<Toolbox>> {
    let settings = &loaded.settings;
    let rules = settings.policy.tools.iter().map(|(pattern, decision)| {
        let origin = loaded.origins.get(&format!("policy.tools.{pattern}")).cloned().unwrap_or_default();
        Rule { pattern: pattern.clone(), decision: *decision, origin: origin.to_string() }
    });
    let rules = Rules::new(rules.collect()).context("policy.tools")?;
    let cache = match &settings.execution.servers_dir {
        Some(folder) => folder.clone(),
        None => environment::home()?.join("cache").join("servers"),
    };
    let calls = &settings.calls;
    let caps = CallCaps {
        argument_bytes: calls.max_argument_bytes,
        answer_bytes: calls.max_result_bytes,
        at_once: usize::try_from(calls.concurrency).unwrap_or(usize::MAX),
    };
    let upstream = upstream(loaded.servers.clone(), &store, may_ask);
    let config = ToolboxConfig { cache, registry: registry(settings), embedder: embedder(settings)?, caps };
    Ok(Toolbox::new(config, upstream, store, rules))
}

/// The embedder of the settings. One that cannot be used hinders nobody: tools are then found without it.
fn embedder(settings: &Settings) -> anyhow::Result<Option<EmbedderConfig>> {
    let set = &settings.search.embedder;
    let Some(url) = set.url.clone() else { return Ok(None) };
    let made = RemoteEmbedder::new(&EmbedderSettings {
        url,
        model: set.model.clone().unwrap_or_default(),
        api_key: set.api_key.clone(),
        api_version: set.api_version.clone(),
        dimensions: set.dimensions.and_then(|length| usize::try_from(length).ok()),
    });
    Ok(match made {
        Ok(embedder) => {
            let cache = environment::home()?.join("cache").join("embeddings");
            Some(EmbedderConfig { embedder: Arc::new(embedder), cache })
        }
        Err(error) => {
            tracing::warn!(%error, "search.embedder is passed over");
            None
        }
    })
}

/// The same, if there is a server or a folder that describes tools.
pub(crate) fn toolbox_if_any(
    loaded: &Loaded,
    store: &Arc<dyn Store>,
    may_ask: Map<String, Value>,
) -> anyhow::Result<Option<Arc<Toolbox>>> {
    if !has_tools(loaded) {
        return Ok(None);
    }
    toolbox(loaded, Arc::clone(store), may_ask).map(Some)
}

/// Whether there is a server, or a folder that describes tools.
pub(crate) fn has_tools(loaded: &Loaded) -> bool {
    !loaded.servers.is_empty() || registry(&loaded.settings).is_some()
}

/// The folder that describes tools: the one that is set, or `tools_registry` beside us if it is there and nobody else's.
fn registry(settings: &Settings) -> Option<PathBuf> {
    let beside = || Some(PathBuf::from("tools_registry")).filter(|folder| folder.is_dir() && !is_foreign(folder));
    settings.search.registry_dir.clone().or_else(beside)
}

/// The native backend as the environment says.
pub(crate) fn native(sandboxes: &Sandboxes) -> anyhow::Result<Arc<NativeBackend>> {
    Ok(Arc::new(NativeBackend::new(native_config(sandboxes)?).with_packages(sandboxes.packages.clone())))
}

/// The same for one command, whose launcher was forked at its start.
pub(crate) fn native_for_one(sandboxes: &Sandboxes, launcher: ForkedLauncher) -> anyhow::Result<Arc<NativeBackend>> {
    let backend = NativeBackend::with_launcher(native_config(sandboxes)?, launcher);
    Ok(Arc::new(backend.with_packages(sandboxes.packages.clone())))
}

fn native_config(sandboxes: &Sandboxes) -> anyhow::Result<NativeConfig> {
    Ok(NativeConfig {
        home: environment::home()?,
        launcher: std::env::current_exe().context("find this program")?,
        python: sandboxes.python.clone(),
        pool: sandboxes.pool,
        preload: sandboxes.preload,
        require_full_isolation: sandboxes.require_full_isolation,
        folders: sandboxes.folders.clone(),
        limits: sandboxes.limits.clone(),
    })
}

/// Where users have their folders.
pub(crate) fn workspaces(settings: &Settings) -> anyhow::Result<PathBuf> {
    Ok(match &settings.execution.workspace_dir {
        Some(folder) => folder.clone(),
        None => environment::home()?.join("workspaces"),
    })
}

/// An engine on a backend, with tools if there are any.
pub(crate) fn engine(
    settings: &Settings,
    backend: Arc<NativeBackend>,
    store: Arc<dyn Store>,
    toolbox: Option<Arc<Toolbox>>,
) -> anyhow::Result<Engine> {
    let config = EngineConfig { workspaces: workspaces(settings)?, session_idle: SESSION_IDLE };
    let engine = Engine::new(config, backend, store, toolbox)
        .with_library(library(settings)?)
        .with_trial_limits(settings.limits());
    engine.limit_artifacts(settings.artifacts.max_mb.saturating_mul(1_000_000));
    Ok(engine)
}
