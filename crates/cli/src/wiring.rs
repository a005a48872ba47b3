//! Joins settings, store, servers, backend and engine.

use crate::environment;
use crate::failures::{Memory, Remembering};
use crate::itself;
use crate::plain::plain;
use crate::signals::Signals;
use crate::status::{Cancelled, Mistake};
use crate::tokens::StoredTokens;
use anyhow::{Context, bail};
use coracle_agent::{EmbedderSettings, RemoteEmbedder};
use coracle_catalog::server_names;
use coracle_config::{Loaded, SandboxType, ServerFault, ServerProblem, Settings, is_foreign};
use coracle_engine::{
    CallCaps, EmbedderConfig, Engine, EngineConfig, Library, Origin, SkillSource, Toolbox, ToolboxConfig,
};
use coracle_policy::{Naming, Rule, Rules, Spellings};
use coracle_sandbox::{ForkedLauncher, NativeBackend, NativeConfig, Packages};
use coracle_store::{Home, Kept, KeySource, SqliteStore, Store, StoreError};
use coracle_types::{Limits, ServerName};
use coracle_upstream::{Options, Upstream};
use serde_json::{Map, Value};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

/// An interpreter of a session that nobody uses ends after this time.
const SESSION_IDLE: Duration = Duration::from_mins(30);

/// The reason why a server cannot be used takes no more characters.
const MAX_REASON: usize = 500;

/// A message is no longer than this.
const MAX_MESSAGE: usize = 1_000;

/// Where code finds the operator's skills and modules.
const SKILLS: &str = "/skills";
const TOOLS: &str = "/tools";
/// Where code finds modules that the operator wrote for the packages `skills` and `servers`; `paths.py` of the guest knows
/// the same.
const WRITTEN: [&str; 2] = ["/modules/skills", "/modules/servers"];

/// What servers are needed for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Purpose {
    /// To serve clients for long, to sign in, or to see what is known: what is started is this process's own.
    Own,
    /// One command: those of a running `coracle up` are used if they are the same, and a server that failed a short while
    /// ago is not tried.
    Command,
    /// One command that wants servers of its own.
    CommandAlone,
    /// To find out whether they can be started: each is, whatever happened before.
    Test,
}

impl Purpose {
    fn memory(self) -> Option<Memory> {
        match self {
            Self::Own => None,
            Self::Command | Self::CommandAlone => Some(Memory::Used),
            Self::Test => Some(Memory::Renewed),
        }
    }

    /// Where connections are borrowed, if they are.
    fn lender(self) -> Option<PathBuf> {
        let home = environment::home().ok().filter(|_| self == Self::Command)?;
        Some(Home::new(home).servers_socket())
    }
}

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
    for (folder, seen_at) in [&execution.skills_dir, &execution.servers_dir].into_iter().zip(WRITTEN) {
        let written = folder.as_ref().filter(|folder| has_modules(folder));
        folders.extend(written.and_then(|folder| folder.canonicalize().ok()).map(|folder| (folder, seen_at.into())));
    }
    Ok(folders)
}

/// Whether somebody has put Python modules into a folder: `NAME.py`, or a folder with such files. Trees of modules that we
/// have generated are neither.
fn has_modules(folder: &Path) -> bool {
    let is_name = |name: &str| {
        name.starts_with(|c: char| c.is_alphabetic() || c == '_')
            && name.chars().all(|c| c.is_alphanumeric() || c == '_')
    };
    let is_module = |path: &Path| {
        path.extension().is_some_and(|ending| ending == "py")
            && path.file_stem().and_then(|stem| stem.to_str()).is_some_and(is_name)
    };
    let entries = |folder: &Path| std::fs::read_dir(folder).into_iter().flatten().flatten().map(|entry| entry.path());
    entries(folder).any(|path| {
        let is_package = || path.file_name().and_then(|name| name.to_str()).is_some_and(is_name);
        if path.is_dir() { is_package() && entries(&path).any(|path| is_module(&path)) } else { is_module(&path) }
    })
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
pub(crate) fn check(loaded: &Loaded) -> anyhow::Result<()> {
    let execution = &loaded.settings.execution;
    if loaded.settings.guardrails.strict_mode {
        let origin = loaded.origins.get("guardrails.strict_mode").cloned().unwrap_or_default();
        let message = format!("{origin}: `guardrails.strict_mode` has no effect in this version, so no code is run");
        return Err(Mistake::new(plain(&message, MAX_MESSAGE), Some("set it to false, or remove it")).into());
    }
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

/// The same for the engine, which opens it when it needs it.
pub(crate) async fn lasting_store() -> Result<Arc<dyn Store>, StoreError> {
    let home = environment::home().map_err(|error| StoreError::home(environment::HOME, error))?;
    Ok(Arc::new(SqliteStore::open(&Home::new(home), KeySource::File).await?))
}

/// The same, for whoever serves others from it: one that is damaged is refused before anything is written to it.
pub(crate) async fn sound_store() -> anyhow::Result<Arc<dyn Store>> {
    let store = SqliteStore::open(&Home::new(environment::home()?), KeySource::File).await.map_err(told)?;
    store.examine().await.map_err(told)?;
    Ok(Arc::new(store))
}

/// What is wrong with the store, and what mends it.
pub(crate) fn told(error: StoreError) -> anyhow::Error {
    match error.hint() {
        Some(hint) => anyhow::anyhow!("{error}\nhint: {hint}"),
        None => error.into(),
    }
}

/// The connections to these servers, which may ask so much; starts none.
pub(crate) fn upstream(
    loaded: &Loaded,
    store: &Arc<dyn Store>,
    may_ask: Map<String, Value>,
    purpose: Purpose,
) -> Upstream {
    let options = Options {
        lender: purpose.lender(),
        chain: itself::chain(loaded).unwrap_or_default(),
        tokens: Arc::new(StoredTokens(Arc::clone(store))),
        warden: std::env::current_exe().ok(),
        capabilities: may_ask,
        ..Options::default()
    };
    Upstream::new(loaded.servers.clone(), options)
}

/// The tools of all configured servers, which may ask so much (client capabilities of the protocol); starts none of them.
pub(crate) fn toolbox(
    loaded: &Loaded,
    store: Arc<dyn Store>,
    may_ask: Map<String, Value>,
    purpose: Purpose,
) -> anyhow::Result<Arc<Toolbox>> {
    let settings = &loaded.settings;
    let rules = rules(loaded)?;
    for warning in rules_without_server(loaded, &rules) {
        eprintln!("warning: {}", plain(&warning, MAX_MESSAGE));
    }
    // What somebody wrote by hand is imported from there, and nothing is written beside it.
    let cache = match settings.execution.servers_dir.as_ref().filter(|folder| !has_modules(folder)) {
        Some(folder) => folder.clone(),
        None => environment::home()?.join("cache").join("servers"),
    };
    let calls = &settings.calls;
    let caps = CallCaps {
        argument_bytes: calls.max_argument_bytes,
        answer_bytes: calls.max_result_bytes,
        at_once: usize::try_from(calls.concurrency).unwrap_or(usize::MAX),
    };
    let upstream = upstream(loaded, &store, may_ask, purpose);
    let config = ToolboxConfig {
        cache,
        registry: registry(settings),
        embedder: embedder(settings)?,
        caps,
        unusable: unusable(loaded),
    };
    Ok(match purpose.memory() {
        None => Toolbox::new(config, upstream, store, rules),
        Some(memory) => Toolbox::new(config, Remembering::new(upstream, memory)?, store, rules),
    })
}

/// The policy rules of the settings.
pub(crate) fn rules(loaded: &Loaded) -> anyhow::Result<Rules> {
    let rules = loaded.settings.policy.tools.iter().map(|(pattern, decision)| {
        let origin = loaded.origins.get(&format!("policy.tools.{pattern}")).cloned().unwrap_or_default();
        Rule { pattern: pattern.clone(), decision: *decision, origin: origin.to_string() }
    });
    Rules::new(rules.collect()).context("policy.tools")
}

/// What is said of rules that name a server which is not configured. One that is switched off is.
pub(crate) fn rules_without_server(loaded: &Loaded, rules: &Rules) -> Vec<String> {
    let names = server_names(loaded.settings.mcp_servers.keys().map(String::as_str));
    let names = names.iter().map(|name| Naming { wire: name.wire, plain: &name.plain, identifier: &name.identifier });
    let servers: Vec<Arc<Spellings>> = Spellings::of_all(names).into_values().collect();
    let told = |rule: &Rule| {
        let (origin, pattern) = (&rule.origin, &rule.pattern);
        format!("{origin}: the policy rule {pattern:?} has no effect: no server of that name is configured")
    };
    rules.without_server(&servers).into_iter().map(told).collect()
}

/// The embedder of the settings. One that cannot be used hinders nobody: tools are then found without it.
fn embedder(settings: &Settings) -> anyhow::Result<Option<EmbedderConfig>> {
    let set = &settings.search.embedder;
    // A model without an address is one of the resource that the chat uses. Its key goes to no other address.
    let chat = &settings.agent.azure_openai;
    let Some(url) = set.url.clone().or_else(|| chat.endpoint.clone().filter(|_| set.model.is_some())) else {
        return Ok(None);
    };
    let same = |endpoint: &String| endpoint.trim_end_matches('/') == url.trim_end_matches('/');
    let chat = chat.endpoint.as_ref().is_some_and(same).then_some(chat);
    let made = RemoteEmbedder::new(&EmbedderSettings {
        model: set.model.clone().unwrap_or_default(),
        api_key: set.api_key.clone().or_else(|| chat.and_then(|chat| chat.api_key.clone())),
        api_version: set.api_version.clone().or_else(|| chat.and_then(|chat| chat.api_version.clone())),
        url,
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
    purpose: Purpose,
) -> anyhow::Result<Option<Arc<Toolbox>>> {
    if !has_tools(loaded) {
        return Ok(None);
    }
    toolbox(loaded, Arc::clone(store), may_ask, purpose).map(Some)
}

/// Servers that are configured and cannot be used, each with the reason and the fix.
fn unusable(loaded: &Loaded) -> Vec<(ServerName, String)> {
    let named = |problem: &ServerProblem| match &problem.fault {
        ServerFault::Name { suggestion } => ServerName::new(suggestion.as_str()).ok(),
        _ => ServerName::new(problem.name.as_str()).ok(),
    };
    let reason = |problem: &ServerProblem| match &problem.fault {
        ServerFault::Name { .. } => format!("its name in the settings, {:?}, is not valid", problem.name),
        fault => fault.to_string(),
    };
    let told = |problem: &ServerProblem| {
        let text = plain(&format!("{}; {}", reason(problem), problem.fault.hint()), MAX_REASON);
        Some((named(problem)?, text))
    };
    loaded.server_problems.iter().filter_map(told).collect()
}

/// Whether there is a server, usable or not, or a folder that describes tools.
pub(crate) fn has_tools(loaded: &Loaded) -> bool {
    !loaded.servers.is_empty() || !loaded.server_problems.is_empty() || registry(&loaded.settings).is_some()
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

/// The same for a server whose launcher was forked at its start: that makes the first sandboxes, unless they are to have
/// modules that only a zygote imports in advance.
pub(crate) fn native_with_first(
    sandboxes: &Sandboxes,
    launcher: Option<ForkedLauncher>,
) -> anyhow::Result<Arc<NativeBackend>> {
    let Some(launcher) = launcher.filter(|_| sandboxes.packages.preload.is_empty()) else { return native(sandboxes) };
    let backend = NativeBackend::with_first(native_config(sandboxes)?, launcher);
    let backend = Arc::new(backend.with_packages(sandboxes.packages.clone()));
    let preparing = Arc::clone(&backend);
    tokio::spawn(async move { preparing.prepare().await });
    Ok(backend)
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
    let whole = |number: u64| usize::try_from(number).unwrap_or(usize::MAX);
    let (history, default) = (&settings.history, Kept::default());
    let (executions, sessions) = (whole(history.executions), whole(history.sessions));
    let kept = Kept { executions, sessions, tasks: history.tasks, ..default };
    engine.limit_history(kept, whole(history.live_sessions));
    engine.hide(&environment::home()?);
    Ok(engine)
}
