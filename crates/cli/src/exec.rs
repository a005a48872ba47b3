//! `coracle exec`: one piece of code in one fresh sandbox.

use crate::packages::packages;
use crate::settings::flag;
use crate::signals::Signals;
use crate::status::Status;
use crate::terminal::Terminal;
use crate::wiring::{Sandboxes, check, engine, folders, has_tools, native_for_one, store, toolbox_if_any};
use anyhow::Context;
use clap::Args;
use coracle_config::Loaded;
use coracle_engine::Request;
use coracle_sandbox::ForkedLauncher;
use coracle_store::{MemoryStore, Store};
use coracle_types::{Event, Execution, Language, OutputStream, SessionId, UserId};
use serde_json::Map;
use std::io::{Read, Write};
use std::path::{Path, PathBuf};
use std::str::FromStr;
use std::sync::Arc;
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;

/// Output that waits to be written; when it is full the code waits.
const EVENTS_AHEAD: usize = 64;

#[derive(Debug, Args)]
pub(crate) struct ExecArguments {
    /// The code itself.
    #[arg(short = 'c', long = "code", value_name = "CODE", conflicts_with = "file")]
    code: Option<String>,

    /// A file with the code; without it and without -c, standard input.
    #[arg(value_name = "FILE")]
    file: Option<PathBuf>,

    /// What the code is written in: python, bash or typescript. Without it, by the file's ending, else python.
    #[arg(long, short = 'l', value_name = "LANGUAGE", value_parser = Language::from_str)]
    lang: Option<Language>,

    /// How long the code may run.
    #[arg(long, value_name = "SECONDS", value_parser = seconds)]
    timeout: Option<u64>,

    /// How much memory it may use.
    #[arg(long, value_name = "MB")]
    memory: Option<u64>,

    /// A folder to use as /workspace instead of the user's own.
    #[arg(long, value_name = "DIR")]
    workspace: Option<PathBuf>,

    /// The session it belongs to, by name or id: written into its log. The interpreter ends with this command; files stay.
    #[arg(long, value_name = "NAME", value_parser = |name: &str| SessionId::new(name))]
    session: Option<SessionId>,

    /// Print the whole result as one line of JSON instead of streaming.
    #[arg(long)]
    json: bool,

    /// Refuse to run without Landlock, a cgroup for memory, and a /proc of its own.
    #[arg(long)]
    require_full_isolation: bool,
}

/// Seconds with a fraction, as milliseconds.
fn seconds(text: &str) -> Result<u64, String> {
    let seconds: f64 = text.parse().map_err(|_| format!("{text:?} is not a number of seconds"))?;
    if seconds.is_finite() && seconds > 0.0 && seconds <= 86_400.0 {
        Ok(((seconds * 1e3).round() as u64).max(1))
    } else {
        Err("give more than 0 and at most 86400 seconds".to_owned())
    }
}

/// A launcher that is at work before anybody knows for what. If it comes to nothing, it ends with this process.
pub(crate) struct Ahead(std::io::Result<ForkedLauncher>);

impl Ahead {
    /// Before there is a thread, and before this process knows a secret of the settings.
    pub(crate) fn new() -> Self {
        Self(coracle_sandbox::fork_launcher())
    }
}

pub(crate) fn run(arguments: ExecArguments, config: Option<&Path>, ahead: Option<Ahead>) -> anyhow::Result<Status> {
    let code = match read_code(&arguments) {
        Ok(code) => code,
        Err(error) => {
            eprintln!("error: {error:#}");
            return Ok(Status::Usage);
        }
    };
    let launcher = ahead.unwrap_or_else(Ahead::new).0.context("start the launcher")?;
    let loaded = match settings(&arguments, config) {
        Ok(loaded) => loaded,
        Err(error) => {
            eprintln!("error: {error:#}");
            return Ok(Status::Usage);
        }
    };
    // One thread is enough for one execution, and starts sooner.
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().context("start the runtime")?;
    let status = runtime.block_on(execute(arguments, code, launcher, loaded));
    if matches!(status, Ok(Status::Success)) {
        // Nothing that is left has anything to say. Else there may be something to clear away.
        runtime.shutdown_background();
    }
    status
}

/// What the flags say is part of the settings.
fn settings(arguments: &ExecArguments, config: Option<&Path>) -> anyhow::Result<Loaded> {
    let full = arguments.require_full_isolation.then_some(true);
    let flags = [flag("execution.require_full_isolation", "--require-full-isolation", full)];
    let loaded = crate::settings::load(config, flags.into_iter().flatten().collect())?;
    check(&loaded.settings)?;
    crate::settings::warn_of_not_followed(&loaded);
    Ok(loaded)
}

async fn execute(
    arguments: ExecArguments,
    code: String,
    launcher: ForkedLauncher,
    loaded: Loaded,
) -> anyhow::Result<Status> {
    let settings = &loaded.settings;
    let mut limits = settings.execution.limits.to_limits();
    limits.wall_ms = arguments.timeout.unwrap_or(limits.wall_ms);
    limits.memory_mb = arguments.memory.unwrap_or(limits.memory_mb);
    let limits = settings.within_guardrails(limits);
    let sandboxes = Sandboxes {
        pool: 0,
        preload: false,
        require_full_isolation: settings.execution.require_full_isolation,
        limits: limits.clone(),
        python: settings.execution.python.clone(),
        folders: folders(settings)?,
        packages: packages(settings)?,
    };
    // Before anything is started that a signal could leave behind.
    let cancel = CancellationToken::new();
    tokio::spawn(Signals::listen().context("listen for signals")?.cancel(cancel.clone()));
    crate::settings::announce(&loaded);
    // Opening the store takes longer than a small program: one that nothing is kept of goes without.
    let is_kept = arguments.session.is_some() || has_tools(&loaded);
    let store: Arc<dyn Store> = if is_kept { store().await? } else { Arc::new(MemoryStore::new()) };
    let toolbox = toolbox_if_any(&loaded, &store, Map::new())?;
    let engine = engine(settings, native_for_one(&sandboxes, launcher)?, store, toolbox.clone())?;
    let mut request = Request::new(UserId::local(), language(&arguments), code);
    request.session = arguments.session;
    let own_workspace = arguments.workspace.is_none();
    request.workspace = arguments.workspace;
    request.limits = limits;
    request.cancel = cancel;
    request.approver = Arc::new(Terminal::default());
    let (events, listener) = mpsc::channel(EVENTS_AHEAD);
    let streaming = (!arguments.json).then(|| {
        request.events = Some(events);
        tokio::spawn(stream(listener))
    });
    let execution = engine.execute(request).await;
    engine.settled().await;
    if !execution.success {
        // Whatever went wrong may be the launcher itself.
        engine.shutdown().await;
    }
    // Else the sandbox is gone, and the launcher clears its place away when it finds this process gone.
    let told = async {
        match streaming {
            Some(streaming) => {
                streaming.await.context("write the output")??;
                report(&execution, own_workspace)
            }
            None => report_as_json(&execution),
        }
    };
    // Nobody waits for the result until a slow server has ended, and none is left because nobody reads the result.
    let told = told.await;
    if let Some(toolbox) = toolbox {
        toolbox.upstream().shutdown().await;
    }
    told.map(|()| Status::of(&execution))
}

fn report_as_json(execution: &Execution) -> anyhow::Result<()> {
    let mut line = serde_json::to_string(execution).context("write the result")?;
    line.push('\n');
    let mut stdout = std::io::stdout();
    stdout.write_all(line.as_bytes())?;
    Ok(stdout.flush()?)
}

fn language(arguments: &ExecArguments) -> Language {
    let by_ending = || match arguments.file.as_deref()?.extension()?.to_str()? {
        "sh" | "bash" => Some(Language::Bash),
        "ts" | "mts" | "js" | "mjs" => Some(Language::TypeScript),
        _ => None,
    };
    arguments.lang.or_else(by_ending).unwrap_or_default()
}

fn read_code(arguments: &ExecArguments) -> anyhow::Result<String> {
    if let Some(code) = &arguments.code {
        return Ok(code.clone());
    }
    let most = coracle_engine::MAX_CODE_BYTES;
    // One byte more tells that there is more.
    let look_at = most as u64 + 1;
    let mut bytes = Vec::new();
    let name = if let Some(file) = arguments.file.as_deref().filter(|file| file.as_os_str() != "-") {
        let name = file.display().to_string();
        let opened = std::fs::File::open(file).with_context(|| format!("cannot open {name}"))?;
        opened.take(look_at).read_to_end(&mut bytes).with_context(|| format!("cannot read {name}"))?;
        name
    } else {
        std::io::stdin().lock().take(look_at).read_to_end(&mut bytes).context("cannot read standard input")?;
        "standard input".to_owned()
    };
    if bytes.len() > most {
        anyhow::bail!(
            "{name} is longer than the {most} bytes that code may have: put data into a file in the workspace"
        );
    }
    String::from_utf8(bytes).with_context(|| format!("{name} is not UTF-8"))
}

/// Writes output as it comes, on a thread of its own: whoever reads it may be slow. Without output there is no thread.
async fn stream(mut listener: mpsc::Receiver<Event>) -> std::io::Result<()> {
    let Some(first) = listener.recv().await else { return Ok(()) };
    tokio::task::spawn_blocking(move || write_from(first, listener)).await?
}

/// Holds no lock between two pieces: the log goes to standard error too, and whoever writes to it would wait for the end
/// of the output, which may be waiting for them.
fn write_from(first: Event, mut listener: mpsc::Receiver<Event>) -> std::io::Result<()> {
    let (mut stdout, mut stderr) = (std::io::stdout(), std::io::stderr());
    let mut event = Some(first);
    while let Some(Event::Output { stream, bytes }) = event {
        match stream {
            OutputStream::Stdout => stdout.write_all(&bytes).and_then(|()| stdout.flush())?,
            OutputStream::Stderr => stderr.write_all(&bytes)?,
        }
        event = listener.blocking_recv();
    }
    Ok(())
}

/// For who expected the code to see the folder that they are in.
const NOT_HERE: &str =
    "the code sees its own workspace and not this folder: --workspace . makes this folder the workspace";

/// As Python says it, or TypeScript.
fn is_missing_file(error: &str) -> bool {
    error.starts_with("FileNotFoundError") || error.ends_with("(os error 2)")
}

/// What streaming did not show: the value, the failure, where the rest is.
fn report(execution: &Execution, own_workspace: bool) -> anyhow::Result<()> {
    if let Some(result) = &execution.result {
        let text = match result {
            serde_json::Value::String(text) => text.clone(),
            other => serde_json::to_string_pretty(other).context("write the result")?,
        };
        writeln!(std::io::stdout(), "{text}")?;
    }
    for artifact in &execution.artifacts {
        eprintln!("artifact: {} ({}, {} bytes)", artifact.path, artifact.mime, artifact.bytes);
    }
    for warning in &execution.warnings {
        eprintln!("warning: {warning}");
    }
    if let Some(failure) = &execution.failure {
        match &failure.traceback {
            Some(traceback) => eprintln!("{}", traceback.trim_end()),
            None => eprintln!("error: {}", failure.error),
        }
        if let Some(hint) = &failure.hint {
            eprintln!("hint: {hint}");
        } else if own_workspace && is_missing_file(&failure.error) {
            eprintln!("hint: {NOT_HERE}");
        }
    }
    Ok(())
}
