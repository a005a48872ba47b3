//! `coracle exec`: runs code in a fresh sandbox.

mod report;

use crate::audit::Audit;
use crate::backends::{Containers, Sandboxes, backend_for_one};
use crate::output::error_text;
use crate::python_environment::packages;
use crate::settings::flag;
use crate::signals::Signals;
use crate::spinner::Spinner;
use crate::status::Status;
use crate::terminal::Terminal;
use crate::wiring::{
    Purpose, check, engine, folders, has_tools, lasting_store, store, told, toolbox_if_any, workspaces,
};
use crate::workspace_folder;
use anyhow::Context;
use clap::Args;
use coracle_config::Loaded;
use coracle_engine::{Access, Audience, CallLogging, Engine, Lasting, Program, Request};
use coracle_sandbox::ForkedLauncher;
use coracle_store::{Home, MemoryStore, Store};
use coracle_types::{Event, ExecutionId, Language, Limits, MAX_SECONDS, Mode, OutputStream, SessionId, UserId};
use report::Places;
use rustix::process::{Resource, getrlimit};
use serde_json::Map;
use std::io::{IsTerminal, Read, Write};
use std::path::{Path, PathBuf};
use std::pin::Pin;
use std::str::FromStr;
use std::sync::Arc;
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;

/// Maximum number of events that wait to be written. If there are more, the code waits.
const EVENTS_AHEAD: usize = 64;

/// Stands for the ID of the execution that called a tool last.
const LAST: &str = "last";

/// Threads are checked only if the limit on processes is below this, because the check takes time.
const FEW_PROCESSES: u64 = 256;
/// Number of threads that a command may need besides its first.
const NEEDED_THREADS: usize = 8;

#[derive(Debug, Args)]
pub(crate) struct ExecArguments {
    /// Code to run, instead of a file or standard input.
    #[arg(short = 'c', long = "code", value_name = "CODE", conflicts_with = "file")]
    code: Option<String>,

    /// File with the code to run; standard input if omitted or `-`.
    #[arg(value_name = "FILE")]
    file: Option<PathBuf>,

    /// Language of the code: python, bash or typescript [default: by file extension, otherwise python].
    #[arg(long, short = 'l', value_name = "LANGUAGE", value_parser = Language::from_str)]
    lang: Option<Language>,

    /// Wall-clock time limit in seconds [default: the execution.limits.time setting].
    #[arg(long, value_name = "SECONDS", value_parser = seconds)]
    timeout: Option<u64>,

    /// Memory limit in MB (10^6 bytes) [default: the execution.limits.memory_mb setting].
    #[arg(long, value_name = "MB")]
    memory: Option<u64>,

    /// Folder to use as /workspace instead of the user's own workspace.
    #[arg(long, value_name = "DIR")]
    workspace: Option<PathBuf>,

    /// Allow a home folder or / as --workspace. Code can then read and change everything in it except Coracle's data
    /// folder.
    #[arg(long, requires = "workspace")]
    expose_home: bool,

    /// Session to record the run in, by name or ID; created if it does not exist. Files persist between commands,
    /// variables do not.
    #[arg(long, value_name = "NAME", value_parser = |name: &str| SessionId::new(name))]
    session: Option<SessionId>,

    /// Execution to resume, by ID, or `last` for the one that called a tool last: its code, or the given code, runs again, but tool calls that it made are answered from
    /// its log instead of being repeated. Standard input is not read, unless the file is `-`.
    #[arg(long, value_name = "ID", value_parser = |id: &str| ExecutionId::new(id))]
    resume: Option<ExecutionId>,

    /// Refuse calls of tools that are not marked as read-only.
    #[arg(long)]
    read_only: bool,

    /// Make only calls that read, and list everything else that the code would do. At a terminal, run it after approval.
    #[arg(long, conflicts_with = "resume")]
    plan: bool,

    /// Print the result as one line of JSON instead of streaming the output.
    #[arg(long)]
    json: bool,

    /// Start separate MCP servers for this command instead of reusing identical ones of a running `coracle up`.
    #[arg(long)]
    own_servers: bool,

    /// Refuse to run unless Landlock, a memory cgroup and a private /proc are available.
    #[arg(long)]
    require_full_isolation: bool,
}

/// Parses seconds with a fraction to milliseconds.
fn seconds(text: &str) -> Result<u64, String> {
    let seconds: f64 = text.parse().map_err(|_| format!("{text:?} is not a number of seconds"))?;
    Limits::wall_ms_of(seconds).ok_or_else(|| format!("must be greater than 0 and at most {MAX_SECONDS}"))
}

/// Launcher that starts before the command is known. If it is not needed, it ends with this process.
pub(crate) struct Ahead(std::io::Result<ForkedLauncher>);

impl Ahead {
    /// Forks the launcher. Must be called before there is a thread, and before this process knows secrets from the
    /// settings.
    pub(crate) fn new() -> Self {
        Self(coracle_sandbox::fork_launcher())
    }

    pub(crate) fn into_launcher(self) -> std::io::Result<ForkedLauncher> {
        self.0
    }
}

pub(crate) fn run(arguments: ExecArguments, config: Option<&Path>, ahead: Option<Ahead>) -> anyhow::Result<Status> {
    let is_recorded = arguments.resume.is_some() && arguments.code.is_none() && arguments.file.is_none();
    let code = match if is_recorded { Ok(None) } else { read_code(&arguments).map(Some) } {
        Ok(code) => code,
        Err(error) => {
            eprint!("{}", error_text(&error));
            return Ok(Status::Usage);
        }
    };
    let launcher = ahead.unwrap_or_else(Ahead::new).into_launcher().map_err(|error| {
        let hint =
            "the limit on processes may be reached: raise `ulimit -u`, or LimitNPROC= and TasksMax= of a systemd unit";
        anyhow::anyhow!("cannot start the sandbox launcher: {error}\nhint: {hint}")
    })?;
    let loaded = match settings(&arguments, config) {
        Ok(loaded) => loaded,
        Err(error) => {
            eprint!("{}", error_text(&error));
            return Ok(Status::Usage);
        }
    };
    // Work that does not fit the single thread below needs more threads, and panics if there are none.
    if getrlimit(Resource::Nproc).current.is_some_and(|most| most < FEW_PROCESSES) {
        crate::resources::threads("a sandbox", NEEDED_THREADS)?;
    }
    // One thread is enough for one execution, and starts faster.
    let runtime =
        tokio::runtime::Builder::new_current_thread().enable_all().build().context("cannot start the runtime")?;
    let status = runtime.block_on(execute(arguments, code, launcher, loaded));
    if matches!(status, Ok(Status::Success)) {
        // After a success nothing is left to do. Otherwise there may be something to clean up.
        runtime.shutdown_background();
    }
    status
}

/// Loads the settings with the flags of the command.
fn settings(arguments: &ExecArguments, config: Option<&Path>) -> anyhow::Result<Loaded> {
    let full = arguments.require_full_isolation.then_some(true);
    let flags = [flag("execution.require_full_isolation", "--require-full-isolation", full)];
    let loaded = crate::settings::load(config, flags.into_iter().flatten().collect())?;
    check(&loaded)?;
    crate::settings::warn_of_not_followed(&loaded);
    Ok(loaded)
}

async fn execute(
    arguments: ExecArguments,
    code: Option<String>,
    launcher: ForkedLauncher,
    loaded: Loaded,
) -> anyhow::Result<Status> {
    let settings = &loaded.settings;
    let named = arguments.workspace.as_deref().or(loaded.workspace.as_deref());
    let workspace = named.map(|folder| workspace_folder::checked(folder, arguments.expose_home)).transpose()?;
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
        containers: Containers::wanted(settings),
    };
    // Listens before anything is started that a signal could leave behind.
    let cancel = CancellationToken::new();
    tokio::spawn(Signals::listen().context("cannot listen for signals")?.cancel(cancel.clone()));
    crate::settings::announce(&loaded);
    // Opening the store takes longer than a small program, so a run that stores nothing does without.
    let uses_vault = code.as_ref().is_some_and(|code| code.contains("tokenize_pii") || code.contains(" pii"));
    let is_kept =
        arguments.session.is_some() || arguments.resume.is_some() || arguments.plan || has_tools(&loaded) || uses_vault;
    let store: Arc<dyn Store> = if is_kept {
        store().await?
    } else {
        // Files are still written to the data folder, so that must be usable.
        Home::new(crate::variables::home()?).look().map_err(told)?;
        Arc::new(MemoryStore::new())
    };
    let purpose = if arguments.own_servers { Purpose::CommandAlone } else { Purpose::Command };
    let toolbox = toolbox_if_any(&loaded, &store, Map::new(), purpose)?;
    let audit = Audit::new(&loaded, is_kept.then_some(&store))?;
    let engine = engine(settings, audit.log(), backend_for_one(&sandboxes, launcher)?, store, toolbox.clone())?;
    if !is_kept {
        let open = || -> Pin<Box<dyn Future<Output = _> + Send>> { Box::pin(lasting_store()) };
        engine.keep_artifacts_in(Lasting::new(Box::new(open)));
    }
    let mut request = match program(&engine, &arguments, code).await {
        Ok(request) => request,
        Err(error) => {
            eprint!("{}", error_text(&error));
            return Ok(Status::Usage);
        }
    };
    let artifacts = workspaces(settings)?.join(request.user.as_str()).join("artifacts");
    let places = Places { artifacts, own_workspace: workspace.is_none() };
    request.workspace = workspace;
    request.limits = limits;
    request.access = if arguments.read_only { Access::ReadOnly } else { Access::Any };
    request.mode = if arguments.plan { Mode::Plan } else { Mode::Run };
    request.cancel = cancel;
    request.approver = Arc::new(Terminal::default());
    request.audience = Audience::Person;
    let (events, listener) = mpsc::channel(EVENTS_AHEAD);
    // With --json nothing is streamed, but a terminal shows what the command waits for.
    let is_streamed = !arguments.json;
    // Moved, so that the stream ends when there are no more senders.
    request.events = Some(events).filter(|_| is_streamed || std::io::stderr().is_terminal());
    let streaming = tokio::spawn(stream(listener, is_streamed));
    let execution = engine.execute(request).await;
    engine.settled().await;
    if !execution.success {
        // The failure may be the launcher's.
        engine.shutdown().await;
    }
    // After a success the sandbox is gone, and the launcher removes its folder when this process has ended.
    let mut status = Status::of(&execution);
    let plan = execution.plan.clone().filter(|_| is_streamed);
    let told = async {
        streaming.await.context("cannot write the output")??;
        if is_streamed { report::print(execution, &places) } else { report::print_json(execution) }
    };
    // The result is printed before slow servers have ended, and servers are ended even if it cannot be printed.
    let mut told = told.await;
    if let (Some(plan), Ok(())) = (plan, &told) {
        match crate::plans::offer(&engine, plan).await {
            Ok(Some(ended)) => status = ended,
            Ok(None) => {}
            Err(error) => told = Err(error),
        }
    }
    if let Some(toolbox) = toolbox {
        toolbox.upstream().shutdown().await;
    }
    told.map(|()| status)
}

/// The code to run with its language, variables and session: as the command line gives them, or else as the execution
/// that is resumed had them.
async fn program(engine: &Engine, arguments: &ExecArguments, code: Option<String>) -> anyhow::Result<Request> {
    let user = UserId::local();
    let (own, session) = (language(arguments), arguments.session.clone());
    let Some(id) = &arguments.resume else {
        let mut request = Request::new(user, own.unwrap_or_default(), code.unwrap_or_default());
        request.session = session;
        request.call_log = CallLogging::Resumable;
        return Ok(request);
    };
    let last;
    let id = if id.as_str() == LAST {
        last = engine.last_resumable(&user).context("no execution that called a tool is kept")?;
        &last
    } else {
        id
    };
    let resumed = engine.resume(&user, id).await;
    let resumption = resumed.map_err(|error| anyhow::anyhow!("{error}\nhint: {}", error.hint()))?;
    let Program { language, code: earlier, vars, session: in_session } = resumption.program().clone();
    let mut request = Request::new(user, own.unwrap_or(language), code.unwrap_or(earlier));
    request.vars = vars.context("the variables of the execution were too large to be kept")?;
    request.session = session.or(in_session);
    request.call_log = CallLogging::Resuming(Arc::new(resumption));
    Ok(request)
}

fn language(arguments: &ExecArguments) -> Option<Language> {
    let by_ending = || match arguments.file.as_deref()?.extension()?.to_str()? {
        "sh" | "bash" => Some(Language::Bash),
        "ts" | "mts" | "js" | "mjs" => Some(Language::TypeScript),
        _ => None,
    };
    arguments.lang.or_else(by_ending)
}

fn read_code(arguments: &ExecArguments) -> anyhow::Result<String> {
    if let Some(code) = &arguments.code {
        return Ok(code.clone());
    }
    let most = coracle_engine::MAX_CODE_BYTES;
    // One more byte shows whether there is more.
    let look_at = most as u64 + 1;
    let mut bytes = Vec::new();
    let name = if let Some(file) = arguments.file.as_deref().filter(|file| file.as_os_str() != "-") {
        let name = file.display().to_string();
        let opened = std::fs::File::open(file).map_err(|error| not_opened(file, &error))?;
        opened.take(look_at).read_to_end(&mut bytes).with_context(|| format!("cannot read {name}"))?;
        name
    } else {
        if std::io::stdin().is_terminal() {
            eprintln!("reading code from standard input: Ctrl-D on an empty line runs it, Ctrl-C cancels");
        }
        std::io::stdin().lock().take(look_at).read_to_end(&mut bytes).context("cannot read standard input")?;
        "standard input".to_owned()
    };
    if bytes.len() > most {
        anyhow::bail!("{name} is longer than {most} bytes, the limit for code: put data into a file in the workspace");
    }
    String::from_utf8(bytes).with_context(|| format!("{name} is not UTF-8"))
}

fn not_opened(file: &Path, error: &std::io::Error) -> anyhow::Error {
    let message = format!("cannot open {}: {error}", file.display());
    if error.kind() == std::io::ErrorKind::NotFound && report::looks_like_code(file) {
        let quoted = file.display().to_string().replace('\'', r"'\''");
        return anyhow::anyhow!("{message}\nhint: code on the command line needs -c: coracle exec -c '{quoted}'");
    }
    anyhow::anyhow!(message)
}

/// Writes output as it arrives, on its own thread because the reader may be slow. Without output there is no thread.
async fn stream(mut listener: mpsc::Receiver<Event>, is_streamed: bool) -> std::io::Result<()> {
    let Some(first) = listener.recv().await else { return Ok(()) };
    tokio::task::spawn_blocking(move || write_from(first, listener, is_streamed)).await?
}

/// Writes events without holding a lock in between: the log also goes to standard error, and a thread that logs would
/// wait for the end of the output, which may be waiting for that thread.
fn write_from(first: Event, mut listener: mpsc::Receiver<Event>, is_streamed: bool) -> std::io::Result<()> {
    let (mut stdout, mut stderr) = (std::io::stdout(), std::io::stderr());
    let mut spinner = Spinner::default();
    let mut event = Some(first);
    while let Some(happened) = event {
        match happened {
            Event::Waiting { servers } => spinner.waits_for(&servers),
            Event::Output { .. } if !is_streamed => {}
            Event::Output { stream, bytes } => {
                spinner.stop();
                match stream {
                    OutputStream::Stdout => stdout.write_all(&bytes).and_then(|()| stdout.flush())?,
                    // The code has run, and its result is still to be written.
                    OutputStream::Stderr => drop(stderr.write_all(&bytes)),
                }
            }
            // The question has the terminal for itself.
            Event::Asked { .. } => spinner.stop(),
            // The result has calls and artifacts.
            Event::CallBegan { .. } | Event::Answered { .. } | Event::CallEnded { .. } | Event::Artifact(_) => {}
        }
        event = listener.blocking_recv();
    }
    Ok(())
}
