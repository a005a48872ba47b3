//! Code shared by `coracle mcp` and `coracle up`: a long-running engine and its front end.

use crate::audit::Audit;
use crate::backends::{Containers, Sandboxes, backend_with_first};
use crate::python_environment::packages;
use crate::settings::flag;
use crate::status::Mistake;
use crate::wiring::{Purpose, check, engine, folders, store, toolbox, toolbox_if_any};
use crate::workspace_folder;
use clap::Args;
use coracle_config::{Flag, Loaded};
use coracle_engine::{Engine, Toolbox};
use coracle_sandbox::ForkedLauncher;
use coracle_server::{Frontend, FrontendOptions, Profile};
use coracle_store::Store;
use coracle_upstream::QuestionKind;
use serde_json::{Map, Value};
use std::path::PathBuf;
use std::str::FromStr;
use std::sync::Arc;

/// Number of prepared sandboxes.
pub(crate) const POOL: usize = 4;

#[derive(Debug, Args)]
pub(crate) struct FrontendArguments {
    /// Tools to offer to clients: code (three small tools), direct (all tools of all servers) or full (all of Coracle's
    /// own tools) [default: code].
    #[arg(long, value_name = "PROFILE", value_parser = Profile::from_str)]
    pub(crate) profile: Option<Profile>,

    /// Coracle tools to offer instead of those of the profile, separated by commas.
    #[arg(long, value_name = "NAME,…", value_delimiter = ',')]
    pub(crate) tools: Option<Vec<String>>,

    /// Folder to use as /workspace instead of the user's own workspace.
    #[arg(long, value_name = "DIR")]
    pub(crate) workspace: Option<PathBuf>,

    /// Allow a home folder or / as --workspace. Code can then read and change everything in it except Coracle's data
    /// folder.
    #[arg(long, requires = "workspace")]
    pub(crate) expose_home: bool,

    /// Refuse to run unless Landlock, a memory cgroup and a private /proc are available.
    #[arg(long)]
    pub(crate) require_full_isolation: bool,
}

impl FrontendArguments {
    /// Flags that are part of the settings.
    pub(crate) fn flags(&self) -> Vec<Flag> {
        let full = self.require_full_isolation.then_some(true);
        let flags = [
            flag("execution.require_full_isolation", "--require-full-isolation", full),
            flag("server.profile", "--profile", self.profile),
        ];
        flags.into_iter().flatten().collect()
    }
}

/// Capabilities that servers see during a forwarded call. Whether a client answers is up to the client.
fn clients_may_be_asked() -> Map<String, Value> {
    let kinds = [QuestionKind::Elicitation, QuestionKind::Sampling, QuestionKind::Roots];
    kinds.iter().map(|kind| (kind.capability().to_owned(), Value::Object(Map::new()))).collect()
}

/// Whether servers can be added while the front end runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ServerSet {
    Fixed,
    Changeable,
}

/// Everything that a server runs.
pub(crate) struct Serving {
    pub(crate) frontend: Frontend,
    pub(crate) engine: Engine,
    pub(crate) toolbox: Option<Arc<Toolbox>>,
    pub(crate) store: Arc<dyn Store>,
    pub(crate) audit: Audit,
}

impl Serving {
    /// Starts the engine and the front end of a program with this name. The first sandboxes come from `launcher`, if there is one. Must be called
    /// within a runtime.
    pub(crate) async fn start(
        arguments: &FrontendArguments,
        loaded: &Loaded,
        launcher: Option<ForkedLauncher>,
        servers: ServerSet,
        program: &'static str,
    ) -> anyhow::Result<Self> {
        let settings = &loaded.settings;
        check(loaded)?;
        crate::recursion::check(loaded)?;
        let workspace = match arguments.workspace.as_ref().or(loaded.workspace.as_ref()) {
            None => None,
            Some(folder) => {
                let checked = workspace_folder::checked(folder, arguments.expose_home)?;
                let found = checked.canonicalize().map_err(|error| {
                    let message = format!("--workspace {}: {error}", folder.display());
                    Mistake::new(message, Some("use a folder that exists"))
                })?;
                Some(found)
            }
        };
        let sandboxes = Sandboxes {
            pool: POOL,
            preload: true,
            require_full_isolation: settings.execution.require_full_isolation,
            limits: settings.limits(),
            python: settings.execution.python.clone(),
            folders: folders(settings)?,
            packages: packages(settings)?,
            containers: Containers::wanted(settings),
        };
        let profile = settings.server.profile.parse().unwrap_or_default();
        let may_ask = if profile == Profile::Direct { clients_may_be_asked() } else { Map::new() };
        let backend = backend_with_first(&sandboxes, launcher)?;
        let store = store().await?;
        let toolbox = match servers {
            ServerSet::Fixed => toolbox_if_any(loaded, &store, may_ask, Purpose::Own)?,
            ServerSet::Changeable => Some(toolbox(loaded, Arc::clone(&store), may_ask, Purpose::Own)?),
        };
        let audit = Audit::new(loaded, Some(&store))?;
        audit.begin(program, loaded).await;
        let engine = engine(settings, audit.log(), backend, Arc::clone(&store), toolbox.clone())?;
        let options = FrontendOptions {
            profile,
            tools: arguments.tools.clone().or_else(|| settings.server.tools.clone()),
            workspace,
            settings: settings.clone(),
            identity: Some(crate::recursion::identity(loaded)?),
        };
        let frontend = Frontend::new(engine.clone(), options).map_err(|missing| {
            let known = coracle_server::tool_names().join(", ");
            let error = anyhow::anyhow!("--tools: there is no tool {}", missing.join(", "));
            Mistake::new(error, Some(format!("there are: {known}")))
        })?;
        Ok(Self { frontend, engine, toolbox, store, audit })
    }

    /// Ends sandboxes and servers, and waits for their end.
    pub(crate) async fn end(self) {
        self.engine.shutdown().await;
        if let Some(toolbox) = self.toolbox {
            toolbox.upstream().shutdown().await;
        }
        self.audit.end().await;
    }
}
