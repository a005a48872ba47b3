//! `coracle self`: the version, where its files are, and how to remove them.

use crate::install_method::{Method, for_shell};
use crate::output::{columns, json, plain};
use crate::settings::load_for_servers;
use crate::status::Status;
use crate::workspaces::size;
use crate::{mcp, variables, wiring};
use anyhow::Context;
use clap::Args;
use coracle_config::{Loaded, Origin};
use serde::Serialize;
use std::collections::BTreeSet;
use std::fs;
use std::io::Write as _;
use std::path::{Path, PathBuf};

#[derive(Debug, Args)]
#[command(after_help = AFTER_HELP)]
pub(crate) struct SelfArguments {
    /// Print JSON instead of text.
    #[arg(long)]
    json: bool,
}

const AFTER_HELP: &str = "\
This command changes nothing: it prints the commands that remove Coracle from this machine, in the order to run them.

Examples:
  coracle self                  show version, files and the commands for removing Coracle
  coracle self --json           the same for scripts";

/// The commit that `cargo xtask dist` builds from.
const COMMIT: Option<&str> = option_env!("CORACLE_BUILD_COMMIT");

/// A path in the table is no longer than this.
const MAX_PATH: usize = 4_000;

#[derive(Serialize)]
struct Report {
    version: &'static str,
    build: Build,
    program: PathBuf,
    installation: Installation,
    data: Vec<Folder>,
    settings: BTreeSet<PathBuf>,
    clients: Vec<&'static str>,
    remove: Vec<String>,
}

#[derive(Serialize)]
struct Build {
    profile: &'static str,
    target: String,
    commit: Option<&'static str>,
}

#[derive(Serialize)]
struct Installation {
    method: &'static str,
    #[serde(skip)]
    description: &'static str,
}

#[derive(Serialize)]
struct Folder {
    path: PathBuf,
    exists: bool,
    bytes: u64,
}

pub(crate) fn run(arguments: &SelfArguments, config: Option<&Path>) -> anyhow::Result<Status> {
    // Coracle can be removed even if its settings are damaged.
    let loaded = load_for_servers(config, Vec::new())
        .inspect_err(|error| eprintln!("warning: {}", plain(&format!("{error:#}"), MAX_PATH)))
        .ok();
    let report = Report::new(loaded.as_ref())?;
    let text = if arguments.json { json(&report)? } else { report.text() };
    std::io::stdout().write_all(text.as_bytes())?;
    Ok(Status::Success)
}

impl Report {
    fn new(loaded: Option<&Loaded>) -> anyhow::Result<Self> {
        let program = std::env::current_exe().context("find this program")?;
        let method = Method::of(&program);
        let home = variables::home()?;
        let mut data = vec![Folder::look(home.clone())];
        if let Some(loaded) = loaded {
            let workspaces = wiring::workspaces(&loaded.settings)?;
            if !workspaces.starts_with(&home) {
                data.push(Folder::look(workspaces));
            }
        }
        let clients = mcp::connected_clients()?;
        let mut remove: Vec<String> =
            clients.iter().map(|client| format!("coracle mcp --uninstall {client}")).collect();
        remove.extend(
            data.iter().filter(|folder| folder.exists).map(|folder| format!("rm -rf {}", for_shell(&folder.path))),
        );
        remove.push(method.removal(&program));
        Ok(Self {
            version: env!("CARGO_PKG_VERSION"),
            build: Build {
                profile: if cfg!(debug_assertions) { "debug" } else { "release" },
                target: target(),
                commit: COMMIT,
            },
            program,
            installation: Installation { method: method.name(), description: method.description() },
            data,
            settings: loaded.map(settings).unwrap_or_default(),
            clients,
            remove,
        })
    }

    fn text(&self) -> String {
        let path = |path: &Path| plain(&path.display().to_string(), MAX_PATH);
        let mut rows = vec![
            ("version", self.version.to_owned()),
            ("build", format!("{}, {}", self.build.profile, self.build.target)),
        ];
        if let Some(commit) = self.build.commit {
            rows.push(("commit", commit.to_owned()));
        }
        rows.push(("program", format!("{} ({})", path(&self.program), self.installation.description)));
        for folder in &self.data {
            let size = if folder.exists { size(folder.bytes) } else { "not created yet".to_owned() };
            rows.push(("data", format!("{} ({size})", path(&folder.path))));
        }
        rows.extend(self.settings.iter().map(|file| ("settings", path(file))));
        if !self.clients.is_empty() {
            rows.push(("clients", self.clients.join(", ")));
        }
        let table = columns(rows.into_iter().map(|(name, value)| [name.to_owned(), value]));
        let commands: Vec<String> = self.remove.iter().map(|line| format!("  {}\n", plain(line, MAX_PATH))).collect();
        format!("{table}\nTo remove Coracle and its data:\n{}", commands.concat())
    }
}

impl Folder {
    fn look(path: PathBuf) -> Self {
        Self { exists: path.exists(), bytes: bytes_below(&path), path }
    }
}

/// The sizes of all files that can be read, without following links.
fn bytes_below(folder: &Path) -> u64 {
    let mut bytes = 0;
    let mut folders = vec![folder.to_owned()];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
            let Ok(metadata) = entry.metadata() else { continue };
            if metadata.is_dir() {
                folders.push(entry.path());
            } else {
                bytes += metadata.len();
            }
        }
    }
    bytes
}

/// The files that some setting came from.
fn settings(loaded: &Loaded) -> BTreeSet<PathBuf> {
    let of_origins = loaded.origins.values().filter_map(|origin| match origin {
        Origin::File { path, .. } | Origin::DotEnv { path, .. } => Some(path),
        Origin::Default | Origin::Env { .. } | Origin::Flag { .. } => None,
    });
    of_origins.chain(loaded.file.iter().map(|file| &file.path)).cloned().collect()
}

fn target() -> String {
    let libc = if cfg!(target_env = "musl") { "musl" } else { "gnu" };
    format!("{}-{}-{libc}", std::env::consts::ARCH, std::env::consts::OS)
}
