//! Loads settings from files, variables and flags.

use crate::dotenv::DotEnv;
use crate::earlier;
use crate::environment::{self, CONFIG_VARIABLE, HOME_VARIABLE, KEY_COMMAND_VARIABLE, KEY_VARIABLE};
use crate::gather::{Flag, Gathered};
use crate::keys::{APPROVERS, FLOWS, KEYS, PROVIDERS, SERVERS, TOOLS};
use crate::problem::{ConfigError, Problem, Reason, Warning};
use crate::provider_names::{AZURE, needs_url};
use crate::providers;
use crate::reader::{MAX_FILE_BYTES, is_foreign, read_text};
use crate::server_sandbox::Starter;
use crate::servers::{self, ServerProblem};
use crate::settings::setting;
use crate::value::Base;
use crate::yaml::Node;
use crate::{NetworkCredential, Origin, Provider, Settings, network};
use coracle_types::{LIMITS, LimitError, ServerSpec};
use serde_json::{Map, Value};
use std::collections::BTreeMap;
use std::fmt;
use std::path::{Path, PathBuf};

/// The name of the settings file.
pub const FILE_NAME: &str = "coracle.yaml";

/// Where to look for settings.
#[derive(Clone, Default)]
pub struct LoadOptions {
    /// A file that was named on the command line.
    pub file: Option<PathBuf>,
    /// The environment.
    pub env: BTreeMap<String, String>,
    /// The current folder: its `coracle.yaml`, or the `config.yaml` of an earlier tool, and its `.env` are read. Paths
    /// in the environment are relative to it.
    pub folder: Option<PathBuf>,
    /// The data folder: its `coracle.yaml` and `.env` are read.
    pub home: Option<PathBuf>,
    /// The running program, which starts servers in sandboxes.
    pub program: Option<PathBuf>,
    /// Flags of the command line, the last one being the strongest.
    pub flags: Vec<Flag>,
}

/// Prints only the names of the environment, whose values may be credentials.
impl fmt::Debug for LoadOptions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { file, env, folder, home, program, flags } = self;
        let names: Vec<&String> = env.keys().collect();
        let mut shown = f.debug_struct("LoadOptions");
        shown.field("file", file).field("env", &names).field("folder", folder).field("home", home);
        shown.field("program", program).field("flags", flags).finish()
    }
}

impl LoadOptions {
    /// Whether the environment or a `.env` sets a variable.
    pub fn sets(&self, variable: &str) -> bool {
        let in_file = |dot_env: &DotEnv| dot_env.variables.contains_key(variable);
        self.env.contains_key(variable) || dot_envs(self, &mut Vec::new()).iter().any(in_file)
    }
}

/// The settings file that was read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SourceFile {
    /// The path of the file.
    pub path: PathBuf,
    /// How it was found.
    pub way: Way,
}

/// How a settings file was found. Only [`Way::CurrentFolder`] reads a file that the user did not choose.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Way {
    /// Named on the command line.
    Flag,
    /// Named by `CORACLE_CONFIG`.
    Variable,
    /// Found in the current folder.
    CurrentFolder,
    /// Found in the data folder.
    DataFolder,
}

/// The loaded configuration.
#[derive(Clone, Debug)]
pub struct Loaded {
    /// The settings.
    pub settings: Settings,
    /// The origins of values, by key. A key without an origin has its default. Entries of `policy.tools`,
    /// `policy.approvers`, `policy.flows` and `mcpServers` have separate origins: `policy.tools.PATTERN`,
    /// `policy.flows[NUMBER]`, `mcpServers.NAME`. So have the keys of entries of `policy.rules` and `policy.limits`, by
    /// number from 0: `policy.rules.0`, `policy.rules.0.require`, and those of
    /// `agent.providers`: `agent.providers.NAME.KEY`, or `agent.providers.NAME` if the entry is empty.
    pub origins: BTreeMap<String, Origin>,
    /// The settings file, if there is one.
    pub file: Option<SourceFile>,
    /// The usable servers, with all variables expanded, by name.
    pub servers: Vec<ServerSpec>,
    /// The unusable servers, with the reasons.
    pub server_problems: Vec<ServerProblem>,
    /// The usable model providers, with all variables expanded, by name. That of `agent.azure_openai` is `azure`.
    pub providers: BTreeMap<String, Provider>,
    /// The credentials for hosts, with all variables expanded, in the order of `network.credentials`.
    pub network_credentials: Vec<NetworkCredential>,
    /// Things that were probably not intended.
    pub warnings: Vec<Warning>,
    /// The workspace of the local user, if settings of an earlier tool define it.
    pub workspace: Option<PathBuf>,
}

impl Loaded {
    /// The model to use if a request names none.
    pub fn default_model(&self) -> Option<String> {
        let agent = &self.settings.agent;
        let set = agent.default_model.as_deref().map(str::trim).filter(|model| !model.is_empty());
        let azure = || {
            let deployment = agent.azure_openai.deployment.as_deref().filter(|_| self.providers.contains_key(AZURE))?;
            Some(format!("{AZURE}/{deployment}"))
        };
        set.map(str::to_owned).or_else(azure)
    }
}

/// Loads everything. Flags take precedence over the environment, then `.env` of the current folder, then that of the
/// data folder, then the settings file, then defaults.
pub fn load(options: &LoadOptions) -> Result<Loaded, ConfigError> {
    let mut gathered = Gathered::default();
    let user_home = options.env.get("HOME").filter(|home| !home.is_empty()).map(PathBuf::from);
    let base = |folder: Option<&Path>| Base { folder: folder.map(Path::to_owned), user_home: user_home.clone() };

    let found = find_file(options, &mut gathered.warnings)?;
    if let Some((file, text)) = &found {
        let root = Node::parse(text).map_err(|error| ConfigError::Syntax {
            path: file.path.clone(),
            line: error.place.line,
            column: error.place.column,
            message: error.message,
        })?;
        let folder = file.path.parent().filter(|parent| !parent.as_os_str().is_empty());
        gathered.file(&file.path, &root, &base(folder.or(options.folder.as_deref())));
        if earlier::is_theirs(&file.path, &root) {
            earlier::forgive(&mut gathered);
        }
    }

    let dot_envs = dot_envs(options, &mut gathered.warnings);
    for dot_env in &dot_envs {
        let lookup = |name: &str| dot_env.variables.get(name).map(|(value, _)| value.as_str());
        gathered.variables(lookup, |name| dot_env.origin(name), &base(dot_env.path.parent()));
        strays(dot_env.variables.keys(), |name| dot_env.origin(name), &mut gathered);
    }
    let here = base(options.folder.as_deref());
    let from_environment = |name: &str| Origin::Env { name: name.to_owned() };
    gathered.variables(|name| options.env.get(name).map(String::as_str), from_environment, &here);
    strays(options.env.keys(), from_environment, &mut gathered);
    gathered.flags(&options.flags, &here);

    gathered.complete_providers();
    let mut problems = std::mem::take(&mut gathered.problems);
    let (mut settings, mut origins) = assemble(&gathered, &mut problems);
    if !problems.is_empty() {
        return Err(ConfigError::Invalid(problems));
    }
    let workspace = earlier::settle(&mut settings, &mut origins, &mut gathered.warnings);
    let variable = |name: &str| {
        let from_file =
            || dot_envs.iter().rev().find_map(|dot_env| dot_env.variables.get(name)).map(|(value, _)| value);
        options.env.get(name).or_else(from_file).map(String::as_str)
    };
    let network_credentials = network::resolve_all(&settings, &origins, &variable, &mut problems);
    if !problems.is_empty() {
        return Err(ConfigError::Invalid(problems));
    }
    let starter = Starter { program: options.program.as_deref(), home: options.home.as_deref() };
    let (servers, server_problems) =
        servers::resolve_all(&gathered.servers, &variable, &starter, &mut gathered.warnings);
    let providers =
        providers::resolve_all(&gathered.providers, &settings.agent, &origins, &variable, &mut gathered.warnings);
    let file = found.map(|(file, _)| file);
    let warnings = gathered.warnings;
    Ok(Loaded {
        settings,
        origins,
        file,
        servers,
        server_problems,
        providers,
        network_credentials,
        warnings,
        workspace,
    })
}

fn find_file(options: &LoadOptions, warnings: &mut Vec<Warning>) -> Result<Option<(SourceFile, String)>, ConfigError> {
    let named = options.env.get(CONFIG_VARIABLE).filter(|name| !name.is_empty()).map(PathBuf::from);
    let here = |path: &PathBuf| options.folder.as_deref().map_or_else(|| path.clone(), |folder| folder.join(path));
    let in_folder = |folder: &Option<PathBuf>, name: &str| folder.as_ref().map(|folder| folder.join(name));
    let candidates = [
        (options.file.as_ref().map(here), Way::Flag),
        (named.as_ref().map(here), Way::Variable),
        (in_folder(&options.folder, FILE_NAME), Way::CurrentFolder),
        (in_folder(&options.folder, earlier::FILE_NAME), Way::CurrentFolder),
        (in_folder(&options.home, FILE_NAME), Way::DataFolder),
    ];
    for (path, way) in candidates {
        let Some(path) = path else { continue };
        // A file with this name usually belongs to another program.
        if way == Way::CurrentFolder && path.ends_with(earlier::FILE_NAME) {
            let text = read_text(&path, MAX_FILE_BYTES).ok().flatten();
            if !text.and_then(|text| Node::parse(&text).ok()).is_some_and(|root| earlier::is_theirs(&path, &root)) {
                continue;
            }
        }
        if way == Way::CurrentFolder && is_foreign(&path) {
            let message = format!(
                "{} belongs to another user and is not read: name it with --config if you trust it",
                path.display()
            );
            warnings.push(Warning { origin: Origin::Default, message });
            continue;
        }
        match read_text(&path, MAX_FILE_BYTES) {
            Ok(Some(text)) => return Ok(Some((SourceFile { path, way }, text))),
            Ok(None) if matches!(way, Way::CurrentFolder | Way::DataFolder) => {}
            Ok(None) => return Err(ConfigError::Unreadable { path, reason: "there is no such file".to_owned() }),
            Err(reason) => return Err(ConfigError::Unreadable { path, reason }),
        }
    }
    Ok(None)
}

/// The `.env` of the data folder, then the stronger one of the current folder.
fn dot_envs(options: &LoadOptions, warnings: &mut Vec<Warning>) -> Vec<DotEnv> {
    let mut folders: Vec<&PathBuf> = options.home.iter().chain(&options.folder).collect();
    folders.dedup();
    folders.into_iter().map(|folder| DotEnv::of_folder(folder, warnings)).collect()
}

/// Variables that have no effect in `.env`: what they say is needed before it is read, or must not be beside the data.
const ONLY_OF_PROCESS: [&str; 4] = [HOME_VARIABLE, CONFIG_VARIABLE, KEY_VARIABLE, KEY_COMMAND_VARIABLE];

fn strays<'a>(names: impl Iterator<Item = &'a String>, origin: impl Fn(&str) -> Origin, gathered: &mut Gathered) {
    for name in names {
        let origin = origin(name);
        if matches!(origin, Origin::DotEnv { .. }) && ONLY_OF_PROCESS.contains(&name.as_str()) {
            let message = format!("{name} has an effect only in the environment, not in .env");
            gathered.warnings.push(Warning { origin, message });
        } else if let Some(stray) = environment::stray(name) {
            if stray.protects {
                let reason = Reason::UnknownKey { suggestion: stray.meant, known: Vec::new() };
                gathered.problems.push(Problem { origin, key: name.clone(), reason });
                continue;
            }
            let message = match stray.meant {
                Some(meant) => format!("{name} is not a setting: did you mean {meant}?"),
                None => format!("{name} is not a setting"),
            };
            gathered.warnings.push(Warning { origin, message });
        }
    }
}

/// Writes the collected values over the defaults.
fn assemble(gathered: &Gathered, problems: &mut Vec<Problem>) -> (Settings, BTreeMap<String, Origin>) {
    let mut origins = BTreeMap::new();
    let mut root = Map::new();
    for key in KEYS {
        let Some((value, origin)) = gathered.values.get(key.path) else { continue };
        insert(&mut root, key.path, value.clone());
        origins.insert(key.path.to_owned(), origin.clone());
    }
    origins.extend(gathered.entries.iter().map(|(key, origin)| (key.clone(), origin.clone())));
    for (path, gathered) in [(TOOLS, &gathered.tools), (APPROVERS, &gathered.approvers)] {
        let mut by_pattern = Map::new();
        for (pattern, (value, origin)) in gathered {
            by_pattern.insert(pattern.clone(), value.clone());
            origins.insert(format!("{path}.{pattern}"), origin.clone());
        }
        insert(&mut root, path, Value::Object(by_pattern));
    }
    for (number, (_, origin)) in gathered.flows.iter().enumerate() {
        origins.insert(format!("{FLOWS}[{number}]"), origin.clone());
    }
    insert(&mut root, FLOWS, gathered.flows.iter().map(|(rule, _)| Value::from(rule.as_str())).collect());
    let mut providers = Map::new();
    for (name, provider) in &gathered.providers {
        let fields = provider.fields.iter().map(|(field, found)| ((*field).to_owned(), found.value.clone()));
        providers.insert(name.clone(), Value::Object(fields.collect()));
        for (field, found) in &provider.fields {
            origins.insert(format!("{PROVIDERS}.{name}.{field}"), found.origin.clone());
        }
        if provider.fields.is_empty() {
            origins.insert(format!("{PROVIDERS}.{name}"), provider.origin.clone());
        }
    }
    insert(&mut root, PROVIDERS, Value::Object(providers));
    // All values were checked before. If one was not, report that without revealing it.
    let mut settings: Settings = serde_json::from_value(Value::Object(root)).unwrap_or_else(|_| {
        let reason = Reason::Unparsable { message: "a value has an unexpected shape".to_owned() };
        problems.push(Problem { origin: Origin::Default, key: "(all)".to_owned(), reason });
        Settings::default()
    });
    for (name, server) in &gathered.servers {
        settings.mcp_servers.insert(name.clone(), server.entry.clone());
        origins.insert(format!("{SERVERS}.{name}"), server.origin.clone());
    }
    for (name, provider) in &gathered.providers {
        if !provider.fields.contains_key("url") && needs_url(name, &settings.agent) {
            let (origin, key) = (provider.origin.clone(), format!("{PROVIDERS}.{name}"));
            problems.push(Problem { origin, key, reason: Reason::Missing { name: "url" } });
        }
    }
    if let Err(error) = settings.execution.limits.to_limits().check() {
        let key = limit_key(&error);
        let origin = origins.get(&key).cloned().unwrap_or_default();
        let reason = Reason::OutOfRange {
            value: error.value.to_string(),
            least: error.least.to_string(),
            most: error.most.to_string(),
        };
        problems.push(Problem { origin, key, reason });
    }
    (settings, origins)
}

fn limit_key(error: &LimitError) -> String {
    let name = LIMITS.iter().find(|limit| limit.name == error.name).map_or(error.name, setting);
    format!("execution.limits.{name}")
}

/// Inserts a value below as many maps as its path has dots.
fn insert(root: &mut Map<String, Value>, path: &str, value: Value) {
    match path.split_once('.') {
        None => {
            root.insert(path.to_owned(), value);
        }
        Some((section, rest)) => {
            let inner = root.entry(section).or_insert_with(|| Value::Object(Map::new()));
            if let Value::Object(inner) = inner {
                insert(inner, rest, value);
            }
        }
    }
}
