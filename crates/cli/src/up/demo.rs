//! `coracle up --demo`: a guided tour with scripted words, real code, and a data folder that is deleted at the end.

use super::{Kind, UpArguments, local_key, serve};
use crate::listening::addresses;
use crate::models::Local;
use crate::settings::{load_from, variables};
use crate::signals::Signals;
use crate::status::{Mistake, Status};
use crate::users::told;
use crate::variables::{HOME, LOG, PYTHON, home, names_home, use_throwaway_home};
use crate::wiring::{check, store};
use anyhow::Context;
use coracle_accounts::People;
use coracle_config::{CONFIG_VARIABLE, FILE_NAME, LoadOptions, Loaded};
use coracle_scripted_model::{Library, ScriptedModel};
use coracle_server::DemoServer;
use coracle_store::Home;
use serde_json::{Map, Value, json};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::time::Duration;
use tokio::runtime::Runtime;
use tokio_util::sync::CancellationToken;

/// What the model says.
const TOUR: &str = include_str!("demo/tour.yaml");
/// Name of the model.
const MODEL: &str = "demo/tour";
/// The first thing to ask.
const TASK: &str = "Which customers spent the most?";
/// Other things to ask.
const TASKS: [&str; 3] = ["Draw the orders per month", "Cancel order 1007", "What can the code reach?"];
/// Prefix of the data folder's name.
const PREFIX: &str = "coracle-demo-";
/// Variables that have an effect on the demo. All other settings are its own.
const KEPT_VARIABLES: [&str; 4] = ["HOME", "PATH", LOG, PYTHON];
/// How often the removal of the data folder is tried, and the pause between attempts: processes that end may still
/// remove their own files.
const ATTEMPTS: u32 = 50;
const PAUSE: Duration = Duration::from_millis(20);

/// A demo that is being served.
pub(super) struct Demo {
    folder: PathBuf,
}

pub(super) fn run(arguments: &UpArguments, config: Option<&Path>, runtime: &Runtime) -> anyhow::Result<Status> {
    check_arguments(arguments, config)?;
    runtime.block_on(check_users())?;
    let folder = tempfile::Builder::new().prefix(PREFIX).tempdir().context("cannot create a temporary folder")?;
    use_throwaway_home(folder.path())?;
    let served = runtime.block_on(serve_in(arguments, folder.path()));
    let removed = remove(&folder.keep());
    let status = served?;
    removed?;
    Ok(status)
}

async fn serve_in(arguments: &UpArguments, folder: &Path) -> anyhow::Result<Status> {
    let stop = CancellationToken::new();
    let signals = Signals::listen().context("cannot listen for signals")?;
    let leftover = folder.to_owned();
    // The second signal ends this process at once.
    tokio::spawn(signals.cancel_and(stop.clone(), move || drop(remove(&leftover))));
    let model = ScriptedModel::new(Library::parse(TOUR)?)?.start().await.context("cannot start the scripted model")?;
    let loaded = settings(arguments, folder, &model.url())?;
    let demo = Demo { folder: folder.to_owned() };
    serve(arguments, &loaded, &Local::default(), Kind::Demo(&demo), stop).await
}

/// Rejects flags and variables that contradict a demo.
fn check_arguments(arguments: &UpArguments, config: Option<&Path>) -> anyhow::Result<()> {
    let has_variable = |name: &str| std::env::var_os(name).is_some_and(|value| !value.is_empty());
    let wrong = |message: String, hint: &str| Err(Mistake::new(message, Some(hint)).into());
    if names_home() {
        return wrong(format!("--demo uses a throwaway data folder, but {HOME} names one"), "unset it for the demo");
    }
    if config.is_some() || has_variable(CONFIG_VARIABLE) {
        let hint = format!("omit --config, and unset {CONFIG_VARIABLE}");
        return wrong("--demo has settings of its own".to_owned(), &hint);
    }
    if arguments.frontend.workspace.is_some() {
        return wrong("--demo has a workspace of its own".to_owned(), "omit --workspace");
    }
    Ok(())
}

/// Rejects a demo where users exist: they expect to sign in to what listens here.
async fn check_users() -> anyhow::Result<()> {
    let home = Home::new(home()?);
    // Without a database there are no users, and the demo must not create one.
    if !home.database().exists() || !People::new(store().await?).are_any().await.map_err(told)? {
        return Ok(());
    }
    let hint = Some("the demo needs no sign-in and is for trying Coracle out: run it as another user, or elsewhere");
    Err(Mistake::new("--demo is not available, because this Coracle has users", hint).into())
}

/// Writes and loads the settings of the demo.
fn settings(arguments: &UpArguments, folder: &Path, model: &str) -> anyhow::Result<Loaded> {
    let program = std::env::current_exe().context("cannot find this program")?;
    let program = program.to_str().context("the path of this program is not valid Unicode")?.replace("${", "$${");
    let server = |server: DemoServer| {
        let entry = json!({ "command": program, "args": ["mcp-demo", server.as_str()] });
        (server.as_str().to_owned(), entry)
    };
    let servers: Map<String, Value> = DemoServer::ALL.into_iter().map(server).collect();
    let settings = json!({
        "agent": {
            "default_model": MODEL,
            "find_local_servers": false,
            "providers": { "demo": { "url": model, "api": "chat" } },
        },
        "policy": { "tools": { "shop.cancel_order": "deny" } },
        "mcpServers": servers,
    });
    let file = folder.join(FILE_NAME);
    // JSON is also YAML.
    std::fs::write(&file, format!("{settings:#}\n")).with_context(|| format!("cannot write {}", file.display()))?;
    let mut env = variables();
    env.retain(|name, _| KEPT_VARIABLES.contains(&name.as_str()));
    let flags = arguments.flags();
    let home = Some(folder.to_owned());
    let options = LoadOptions { file: Some(file), env, home, flags, ..LoadOptions::default() };
    let loaded = load_from(&options)?;
    check(&loaded)?;
    if let Some(address) = addresses(&loaded)?.into_iter().find(|address| !address.ip().is_loopback()) {
        let hint = Some("the demo needs no sign-in: use an address such as 127.0.0.1");
        return Err(Mistake::new(format!("--demo listens on loopback addresses only, not on {address}"), hint).into());
    }
    Ok(loaded)
}

impl Demo {
    /// Lines that explain the demo and how to use it.
    pub(super) fn lines(&self, address: SocketAddr) -> Vec<String> {
        let (folder, key) = (self.folder.display(), self.folder.join(local_key::FILE));
        let body = json!({
            "coracle": { "activity": "text" },
            "messages": [{ "role": "user", "content": TASK }],
            "model": MODEL,
        });
        let curl = format!(
            "curl http://{address}/v1/chat/completions -H \"Authorization: Bearer $(cat '{}')\" \
             -H 'Content-Type: application/json' -d '{body}'",
            key.display()
        );
        vec![
            "demo      the words are scripted and no model is asked; the code, the sandbox and the tool calls are real"
                .to_owned(),
            format!("          everything is in {folder} and is deleted at the end (Ctrl-C)"),
            format!("try       {curl}"),
            format!("or        CORACLE_HOME='{folder}' coracle --config '{folder}/{FILE_NAME}' task '{TASK}'"),
            format!("then      '{}'", TASKS.join("', '")),
        ]
    }
}

/// Removes the data folder.
fn remove(folder: &Path) -> anyhow::Result<()> {
    for attempt in 1.. {
        match std::fs::remove_dir_all(folder) {
            Ok(()) => break,
            Err(error) if error.kind() == std::io::ErrorKind::NotFound && !folder.exists() => break,
            Err(error) if attempt >= ATTEMPTS => {
                return Err(error).with_context(|| format!("cannot remove {}", folder.display()));
            }
            Err(_) => std::thread::sleep(PAUSE),
        }
    }
    Ok(())
}
