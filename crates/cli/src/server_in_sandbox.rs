//! `coracle server-in-sandbox`: starts the program of an MCP server in a sandbox and passes its streams on.
//!
//! The settings write this command (`server_sandbox.rs` of `coracle-config`), so that connections to servers need not
//! know whether a server is in a sandbox.

use crate::status::{Mistake, Status};
use crate::variables;
use crate::wiring::runtime;
use anyhow::Context;
use clap::Args;
use coracle_sandbox::{
    Access, Backend, Cause, Ended, ForkedLauncher, NativeBackend, NativeConfig, Network, Place, Program, Spec,
};
use coracle_types::{Limits, ServerName};
use std::fs;
use std::os::unix::fs::DirBuilderExt as _;
use std::path::PathBuf;

/// Folder of the workspaces of servers in the data folder.
const WORKSPACES: &str = "server-workspaces";

/// Working directory of a server whose settings name none.
const WORKSPACE: &str = "/workspace";

/// Limits of a server, which lives longer and does more than a program of a model.
const MEMORY_MB: u64 = 2_000;
const PROCESSES: u64 = 256;
const OPEN_FILES: u64 = 1_024;
const TMP_MB: u64 = 500;

#[derive(Debug, Args)]
pub(crate) struct ServerArguments {
    /// Name of the server in the settings.
    #[arg(long, value_name = "NAME", value_parser = |name: &str| ServerName::new(name))]
    name: ServerName,

    /// Data folder.
    #[arg(long, value_name = "DIR")]
    home: Option<PathBuf>,

    /// Working directory, in one of the folders below.
    #[arg(long, value_name = "DIR")]
    directory: Option<PathBuf>,

    /// Folder that the server may read; can be repeated.
    #[arg(long, value_name = "DIR")]
    read: Vec<PathBuf>,

    /// Folder that the server may read and write; can be repeated.
    #[arg(long, value_name = "DIR")]
    write: Vec<PathBuf>,

    /// Environment variable that the server gets; can be repeated.
    #[arg(long, value_name = "NAME")]
    variable: Vec<String>,

    /// Command that starts the server.
    #[arg(last = true, value_name = "COMMAND", required = true)]
    command: Vec<String>,
}

pub(crate) fn run(arguments: ServerArguments) -> anyhow::Result<Status> {
    // Before there are threads. Without it, only the start is slower.
    let forked = coracle_sandbox::fork_launcher().ok();
    let runtime = runtime()?;
    let name = arguments.name.clone();
    let ended = runtime.block_on(serve(arguments, forked));
    // A thread still waits for standard input.
    runtime.shutdown_background();
    let Ended { status, causes } = ended?;
    for cause in causes {
        eprintln!("server {name}: {}", told(&cause));
    }
    // The exact status says more than ours.
    if status == 0 { Ok(Status::Success) } else { std::process::exit(status) }
}

async fn serve(arguments: ServerArguments, forked: Option<ForkedLauncher>) -> anyhow::Result<Ended> {
    let ServerArguments { name, home, directory, read, write, variable, command } = arguments;
    let home = home.map_or_else(variables::home, Ok)?;
    let workspace = home.join(WORKSPACES).join(name.as_str());
    fs::DirBuilder::new()
        .recursive(true)
        .mode(0o700)
        .create(&workspace)
        .with_context(|| format!("cannot create the folder {}", workspace.display()))?;
    let limits = Limits {
        memory_mb: MEMORY_MB,
        processes: PROCESSES,
        open_files: OPEN_FILES,
        tmp_mb: TMP_MB,
        ..Limits::default()
    };
    let config = NativeConfig {
        home,
        launcher: std::env::current_exe().context("cannot find this program")?,
        python: variables::python(),
        pool: 0,
        preload: false,
        require_full_isolation: false,
        folders: Vec::new(),
        limits: limits.clone(),
    };
    let readable = read.into_iter().map(|path| Place { path, access: Access::Read });
    let writable = write.into_iter().map(|path| Place { path, access: Access::Write });
    let backend = match forked {
        Some(forked) => NativeBackend::with_launcher(config, forked),
        None => NativeBackend::new(config),
    };
    let backend = backend.with_places(readable.chain(writable).collect());
    let spec = Spec { workspace, servers: None, skills: None, limits, network: Network::Off };
    let opened = backend.open(spec).await.map_err(|error| {
        let hint = "check `sandbox_read` and `sandbox_write` of the server, and run `coracle doctor`";
        Mistake::new(format!("server {name} cannot be started in a sandbox: {error}"), Some(hint))
    })?;
    let found = |name: &String| Some((name.clone(), std::env::var(name).ok()?));
    let program = Program {
        arguments: command,
        environment: variable.iter().filter_map(found).collect(),
        directory: directory.unwrap_or_else(|| WORKSPACE.into()),
    };
    let (input, output, errors) = (tokio::io::stdin(), tokio::io::stdout(), tokio::io::stderr());
    let ended = opened.run_program(&program, input, output, errors).await.context("cannot pass on its streams");
    backend.shutdown().await;
    ended
}

fn told(cause: &Cause) -> String {
    match cause {
        Cause::Memory { .. } => format!("its sandbox has {MEMORY_MB} MB of memory, and it needed more"),
        Cause::Processes => format!("its sandbox may have {PROCESSES} processes, and it needed more"),
        Cause::Disk(what) => format!("it was ended because of its disk use: {what}"),
        Cause::Setup(reason) => format!("its sandbox could not be set up: {reason}"),
        Cause::Lost(reason) => format!("its sandbox was lost: {reason}"),
    }
}
