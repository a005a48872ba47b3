//! Connects settings, store, servers, backend and engine.

use crate::failures::{Memory, Remembering};
use crate::flows::{WORD_LABEL, flows, flows_without_server, spellings};
use crate::oauth_tokens::StoredTokens;
use crate::output::plain;
use crate::recursion;
use crate::signals::Signals;
use crate::status::{Cancelled, Mistake};
use crate::variables;
use anyhow::{Context, bail};
use coracle_agent::{EmbedderSettings, RemoteEmbedder};
use coracle_audit::AuditLog;
use coracle_config::{Approvers, Loaded, McpServer, SandboxType, ServerFault, ServerProblem, Settings, is_foreign};
use coracle_engine::{
    CallCaps, EmbedderConfig, Engine, EngineConfig, Guardrails, Library, Origin, PlanSettings, Privacy, PrivacyModes,
    SkillSource, ToolEffect, Toolbox, ToolboxConfig,
};
use coracle_policy::{ApproverLine, ApproverRule, ApproverRules, Groups, Rule, Rules, Spellings};
use coracle_privacy::{CustomPattern, Detector, DetectorSettings, Kind, Matcher, Vaults};
use coracle_sandbox::Backend;
use coracle_store::{Home, Kept, KeyError, SqliteStore, Store, StoreError};
use coracle_types::ServerName;
use coracle_upstream::{Options, Upstream};
use serde_json::{Map, Value};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

/// Idle time after which the interpreter of a session ends.
const SESSION_IDLE: Duration = Duration::from_mins(30);

/// Maximum length of the reason why a server cannot be used, in characters.
const MAX_REASON: usize = 500;

/// Confidence of what the operator's own patterns find, in percent.
const CUSTOM_CONFIDENCE: u8 = 100;

/// Maximum length of a message in characters.
const MAX_MESSAGE: usize = 1_000;

/// Paths of the operator's skills and modules in the sandbox.
const SKILLS: &str = "/skills";
const TOOLS: &str = "/tools";
/// Paths of the modules that the operator wrote for the packages `skills` and `servers`. `paths.py` of the guest has
/// the same.
const WRITTEN: [&str; 2] = ["/modules/skills", "/modules/servers"];

/// Purpose of the connections to servers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Purpose {
    /// Serving clients, signing in, or listing: servers belong to this process.
    Own,
    /// One command: servers of a running `coracle up` are shared if they are identical, and a server that failed
    /// recently is not started.
    Command,
    /// One command with its own servers.
    CommandAlone,
    /// Testing whether servers start: each one is started, whatever happened before.
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

    /// Socket for sharing servers, if they may be shared.
    fn lender(self) -> Option<PathBuf> {
        let home = variables::home().ok().filter(|_| self == Self::Command)?;
        Some(Home::new(home).servers_socket())
    }
}

/// Folders that the settings mount in sandboxes.
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
            let hint = format!("this folder is {seen_at} in sandboxes: create it, or remove the setting");
            Mistake::new(format!("execution.{key}: {}: {error}", folder.display()), Some(hint))
        })?;
        if seen_at == TOOLS {
            folders.push((found, seen_at.into()));
        }
    }
    // The library includes the contents of `skills_dir`.
    folders.extend(library(settings)?.mounts());
    for (folder, seen_at) in [&execution.skills_dir, &execution.servers_dir].into_iter().zip(WRITTEN) {
        let written = folder.as_ref().filter(|folder| has_modules(folder));
        folders.extend(written.and_then(|folder| folder.canonicalize().ok()).map(|folder| (folder, seen_at.into())));
    }
    Ok(folders)
}

/// Whether a folder contains Python modules written by hand: `NAME.py`, or a folder with such files. Generated modules
/// do not count.
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

/// Folders that may contain folders with a `SKILL.md`, in order of precedence.
const PROJECT_SKILLS: [&str; 2] = [".agents/skills", ".claude/skills"];

/// Skills of the operator, the current folder and the user, and the built-in ones.
pub(crate) fn library(settings: &Settings) -> anyhow::Result<Arc<Library>> {
    let source = |origin: Origin| move |path: PathBuf| SkillSource { path, origin };
    let configured = settings.execution.skills_dir.iter().cloned().map(source(Origin::Configured));
    let here = std::env::current_dir().ok().into_iter().flat_map(|folder| PROJECT_SKILLS.map(|name| folder.join(name)));
    let own = std::env::home_dir().into_iter().flat_map(|folder| PROJECT_SKILLS.map(|name| folder.join(name)));
    let sources = configured.chain(here.map(source(Origin::Project))).chain(own.map(source(Origin::User)));
    Ok(Library::new(sources.collect(), Some(&variables::home()?.join("cache").join("skills"))))
}

/// Rejects settings that this version cannot follow, because ignoring them would not be what was asked for.
pub(crate) fn check(loaded: &Loaded) -> anyhow::Result<()> {
    let execution = &loaded.settings.execution;
    if !matches!(execution.sandbox_type, SandboxType::Native | SandboxType::Docker) {
        bail!("execution.sandbox_type: only `native` and `docker` can be used in this version");
    }
    if execution.allow_network_access {
        bail!("execution.allow_network_access: sandboxes of this version have no network");
    }
    Ok(())
}

/// Creates a runtime for commands that do one thing at a time.
pub(crate) fn runtime() -> anyhow::Result<tokio::runtime::Runtime> {
    tokio::runtime::Builder::new_current_thread().enable_all().build().context("cannot start the runtime")
}

/// Runs a command that can be cancelled with a signal. Its work is then dropped and ends.
pub(crate) fn cancellable<T>(work: impl Future<Output = anyhow::Result<T>>) -> anyhow::Result<T> {
    let runtime = runtime()?;
    let outcome = runtime.block_on(async {
        let mut signals = Signals::listen().context("cannot listen for signals")?;
        tokio::select! {
            outcome = work => outcome,
            () = signals.next() => Err(Cancelled.into()),
        }
    });
    if outcome.as_ref().is_err_and(anyhow::Error::is::<Cancelled>) {
        // Does not wait for pending name lookups.
        runtime.shutdown_background();
    }
    outcome
}

/// Opens the store in the data folder.
pub(crate) async fn store() -> anyhow::Result<Arc<dyn Store>> {
    let store = SqliteStore::open(&Home::new(variables::home()?), variables::key_source()?).await;
    Ok(Arc::new(store.map_err(told)?))
}

/// Opens the store for the engine, when it is first needed.
pub(crate) async fn lasting_store() -> Result<Arc<dyn Store>, StoreError> {
    let home = variables::home().map_err(|error| StoreError::home(variables::HOME, error))?;
    let key = variables::key_source().map_err(|error| KeyError::Command { reason: format!("{error:#}") })?;
    Ok(Arc::new(SqliteStore::open(&Home::new(home), key).await?))
}

/// Opens the store for a server. A damaged one is rejected before anything is written to it.
pub(crate) async fn sound_store() -> anyhow::Result<Arc<dyn Store>> {
    let store = SqliteStore::open(&Home::new(variables::home()?), variables::key_source()?).await.map_err(told)?;
    store.examine().await.map_err(told)?;
    Ok(Arc::new(store))
}

/// Adds a hint to a store error.
pub(crate) fn told(error: StoreError) -> anyhow::Error {
    match error.hint() {
        Some(hint) => anyhow::anyhow!("{error}\nhint: {hint}"),
        None => error.into(),
    }
}

/// Connections to the servers with these client capabilities. Starts none of them.
pub(crate) fn upstream(
    loaded: &Loaded,
    store: &Arc<dyn Store>,
    may_ask: Map<String, Value>,
    purpose: Purpose,
) -> Upstream {
    let options = Options {
        lender: purpose.lender(),
        chain: recursion::chain(loaded).unwrap_or_default(),
        tokens: Arc::new(StoredTokens(Arc::clone(store))),
        warden: std::env::current_exe().ok(),
        capabilities: may_ask,
        ..Options::default()
    };
    Upstream::new(loaded.servers.clone(), options)
}

/// Tools of all configured servers with these client capabilities. Starts none of them.
pub(crate) fn toolbox(
    loaded: &Loaded,
    store: Arc<dyn Store>,
    may_ask: Map<String, Value>,
    purpose: Purpose,
) -> anyhow::Result<Arc<Toolbox>> {
    let settings = &loaded.settings;
    let (rules, flows) = (rules(loaded)?, flows(loaded)?);
    for warning in rules_without_server(loaded, &rules).into_iter().chain(flows_without_server(&flows)) {
        eprintln!("warning: {}", plain(&warning, MAX_MESSAGE));
    }
    // Modules written by hand are imported from that folder, and nothing is written to it.
    let cache = match settings.execution.servers_dir.as_ref().filter(|folder| !has_modules(folder)) {
        Some(folder) => folder.clone(),
        None => variables::home()?.join("cache").join("servers"),
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
    let toolbox = match purpose.memory() {
        None => Toolbox::new(config, upstream, store, rules),
        Some(memory) => Toolbox::new(config, Remembering::new(upstream, memory)?, store, rules),
    };
    toolbox.approvals().replace_flows(flows);
    Ok(toolbox)
}

/// Policy rules of the settings.
pub(crate) fn rules(loaded: &Loaded) -> anyhow::Result<Rules> {
    let rules = loaded.settings.policy.tools.iter().map(|(pattern, decision)| {
        let origin = loaded.origins.get(&format!("policy.tools.{pattern}")).cloned().unwrap_or_default();
        Rule { pattern: pattern.clone(), decision: *decision, origin: origin.to_string() }
    });
    Ok(Rules::new(rules.collect()).context("policy.tools")?.with_approvers(approvers(loaded)?))
}

/// Groups that have to approve calls.
fn approvers(loaded: &Loaded) -> anyhow::Result<ApproverRules> {
    let policy = &loaded.settings.policy;
    let groups = Groups::new(&policy.groups).context("policy.groups")?;
    let lines = policy.approvers.iter().map(|(pattern, Approvers { groups, count })| {
        let origin = loaded.origins.get(&format!("policy.approvers.{pattern}")).cloned().unwrap_or_default();
        let rule = ApproverRule { groups: groups.clone(), count: *count };
        ApproverLine { pattern: pattern.clone(), rule, origin: origin.to_string() }
    });
    ApproverRules::new(lines.collect(), groups)
        .map_err(|error| Mistake::new(format!("policy.approvers: {error}"), error.hint()).into())
}

/// Messages about rules for servers that are not configured. Disabled servers count as configured.
pub(crate) fn rules_without_server(loaded: &Loaded, rules: &Rules) -> Vec<String> {
    let servers: Vec<Arc<Spellings>> = spellings(loaded).into_values().collect();
    let told = |rule: &Rule| {
        let (origin, pattern) = (&rule.origin, &rule.pattern);
        format!("{origin}: the policy rule {pattern:?} has no effect: no server of that name is configured")
    };
    rules.without_server(&servers).into_iter().map(told).collect()
}

/// Embedder of the settings. One that cannot be used is ignored, and tools are found without it.
fn embedder(settings: &Settings) -> anyhow::Result<Option<EmbedderConfig>> {
    let set = &settings.search.embedder;
    // Without an address, the embedder uses the chat's resource. The key of the chat is sent to no other address.
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
            let cache = variables::home()?.join("cache").join("embeddings");
            Some(EmbedderConfig { embedder: Arc::new(embedder), cache })
        }
        Err(error) => {
            tracing::warn!(%error, "ignoring search.embedder");
            None
        }
    })
}

/// Tools, if there is a server or a folder that describes tools.
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

/// Servers that are configured but cannot be used, each with the reason and the fix.
pub(crate) fn unusable(loaded: &Loaded) -> Vec<(ServerName, String)> {
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

/// Folder that describes tools: the configured one, or `tools_registry` in the current folder if it is not another
/// user's.
fn registry(settings: &Settings) -> Option<PathBuf> {
    let beside = || Some(PathBuf::from("tools_registry")).filter(|folder| folder.is_dir() && !is_foreign(folder));
    settings.search.registry_dir.clone().or_else(beside)
}

/// Folder of the users' workspaces.
pub(crate) fn workspaces(settings: &Settings) -> anyhow::Result<PathBuf> {
    Ok(match &settings.execution.workspace_dir {
        Some(folder) => folder.clone(),
        None => variables::home()?.join("workspaces"),
    })
}

/// What the settings say about plans.
fn plans(loaded: &Settings) -> anyhow::Result<PlanSettings> {
    let set = &loaded.plan;
    let lists = [
        ("read_only", &set.read_only, ToolEffect::Reads),
        ("varying", &set.varying, ToolEffect::Varies),
        ("writing", &set.writing, ToolEffect::Writes),
    ];
    let tools = lists.into_iter().flat_map(|(key, patterns, effect)| {
        patterns.iter().map(move |pattern| (pattern.clone(), effect, format!("plan.{key}")))
    });
    let kept_for = Duration::from_hours(set.keep_hours);
    PlanSettings::new(tools, set.previews.iter().cloned(), Some(kept_for)).context("plan")
}

/// The checks of code before it runs.
pub(crate) fn guardrails(settings: &Settings) -> Guardrails {
    let settings = &settings.guardrails;
    Guardrails {
        is_enabled: settings.enabled && settings.security_checks,
        is_strict: settings.strict_mode,
        allow: settings.allow.clone(),
        deny_imports: settings.deny_imports.clone(),
    }
}

/// Creates an engine on a backend, with tools if there are any. What it does is recorded in the audit log.
pub(crate) fn engine(
    settings: &Settings,
    audit: Arc<dyn AuditLog>,
    backend: Arc<dyn Backend>,
    store: Arc<dyn Store>,
    toolbox: Option<Arc<Toolbox>>,
) -> anyhow::Result<Engine> {
    let config = EngineConfig { workspaces: workspaces(settings)?, session_idle: SESSION_IDLE };
    let vaults = Arc::clone(&store);
    let engine = Engine::new(config, backend, store, toolbox)
        .with_audit(audit)
        .with_library(library(settings)?)
        .with_guardrails(guardrails(settings))
        .with_plans(plans(settings)?)
        .with_trial_limits(settings.limits());
    engine.limit_artifacts(settings.artifacts.max_mb.saturating_mul(1_000_000));
    let whole = |number: u64| usize::try_from(number).unwrap_or(usize::MAX);
    let (history, default) = (&settings.history, Kept::default());
    let (executions, sessions) = (whole(history.executions), whole(history.sessions));
    let kept = Kept { executions, sessions, tasks: history.tasks, ..default };
    engine.limit_history(kept, whole(history.live_sessions));
    engine.hide(&variables::home()?);
    engine.protect(privacy(settings, vaults)?);
    Ok(engine)
}

/// What the settings say about personal data. A mistake in them is an error, because less would be protected.
pub(crate) fn privacy(settings: &Settings, store: Arc<dyn Store>) -> anyhow::Result<Privacy> {
    let keep = settings.privacy.keep_days.map(|days| Duration::from_hours(24 * days));
    let vaults = Vaults::new(store, detector(settings)?, keep);
    Ok(Privacy::new(Arc::new(vaults), privacy_modes(settings)))
}

/// Where personal data is replaced by tokens. Servers that are switched off do not count.
pub(crate) fn privacy_modes(settings: &Settings) -> PrivacyModes {
    let general = settings.privacy.mode;
    let used = settings.mcp_servers.iter().filter(|(_, entry)| !entry.disabled);
    let of_server = |(name, entry): (&String, &McpServer)| {
        Some((ServerName::new(name.as_str()).ok()?, entry.privacy_mode(general)))
    };
    let restore_to_model = settings.privacy.restore_to_model;
    PrivacyModes { general, servers: used.filter_map(of_server).collect(), restore_to_model }
}

/// What finds personal data.
pub(crate) fn detector(settings: &Settings) -> anyhow::Result<Detector> {
    let set = &settings.privacy;
    let kind = |key: &str, label: &String| {
        let known = || Kind::table().iter().map(|info| info.label).collect::<Vec<_>>().join(", ");
        let unknown = || {
            let message = format!("privacy.kinds.{key}: there is no kind {label:?}");
            Mistake::new(anyhow::anyhow!(message), Some(format!("there are: {}", known())))
        };
        Kind::from_label(&label.to_uppercase()).ok_or_else(unknown)
    };
    let mut wanted = DetectorSettings::default();
    wanted.enable = set.kinds.enable.iter().map(|label| kind("enable", label)).collect::<Result<_, _>>()?;
    wanted.disable = set.kinds.disable.iter().map(|label| kind("disable", label)).collect::<Result<_, _>>()?;
    let custom = |label: &str, matcher| CustomPattern {
        label: label.to_owned(),
        matcher,
        context: Vec::new(),
        confidence: CUSTOM_CONFIDENCE,
    };
    wanted.custom = set.patterns.iter().map(|(label, regex)| custom(label, Matcher::Regex(regex.clone()))).collect();
    if !set.words.is_empty() {
        wanted.custom.push(custom(WORD_LABEL, Matcher::Words(set.words.clone())));
    }
    Detector::new(wanted).context("privacy")
}
