//! `coracle sessions`: lists, shows, exports and replays sessions.

use crate::audit::Audit;
use crate::backends::{Containers, Sandboxes, backend};
use crate::output::{columns, counted, json, plain, plain_lines};
use crate::python_environment::packages;
use crate::settings::load;
use crate::signals::Signals;
use crate::status::{Mistake, Status};
use crate::variables;
use crate::wiring::{Purpose, cancellable, check, engine, folders, store, toolbox_if_any, workspaces};
use anyhow::Context;
use clap::{Args, Subcommand};
use coracle_accounts::user_name;
use coracle_engine::{History, Replay, ReplayFiles};
use coracle_server::SessionView;
use coracle_store::{Home, MemoryStore, SessionRecord, Store, TaskRecord, TaskState};
use coracle_types::UserId;
use serde_json::{Map, Value, json};
use std::fmt::Write as _;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::SystemTime;
use tokio_util::sync::CancellationToken;

/// Maximum length of a text in a list, in characters.
const MAX_SHOWN: usize = 80;
/// Maximum number of tasks that are printed.
const SHOWN_TASKS: usize = 50;

#[derive(Debug, Args)]
#[command(after_help = AFTER_HELP)]
pub(crate) struct SessionsArguments {
    /// User who owns the sessions.
    #[arg(long, value_name = "USER", global = true, default_value = "local", value_parser = |name: &str| user_name(name).map_err(|error| error.to_string()))]
    user: UserId,

    #[command(subcommand)]
    command: SessionsCommand,
}

const AFTER_HELP: &str = "\
A session can be given by name, ID or number.

Examples:
  coracle exec --session analysis -c 'x = 1'   run code in a session
  coracle sessions list                        list all sessions
  coracle sessions resume analysis             print a summary for continuing the work
  coracle sessions replay analysis             check whether the code still gives the same results
  coracle sessions remove analysis             delete the session and its log

`coracle exec` keeps the files of a session, but not its variables: the interpreter ends with the command. Sessions of a
server (`coracle mcp`, `coracle up`) keep variables, too.";

#[derive(Debug, Subcommand)]
enum SessionsCommand {
    /// List all sessions, newest first.
    List {
        /// Print JSON instead of a table.
        #[arg(long)]
        json: bool,
    },
    /// Print the tasks of a session.
    Show(One),
    /// Print a summary for continuing a session: last checkpoint, state files, variables and tasks.
    Resume(One),
    /// Export a session as JSON.
    Export {
        /// Session name, ID or number.
        session: String,

        /// File to write to instead of standard output.
        #[arg(long, short = 'o', value_name = "FILE")]
        output: Option<PathBuf>,
    },
    /// Run the code of a session again, in an empty workspace and with the recorded tool results, and print the
    /// differences.
    Replay {
        #[command(flatten)]
        one: One,

        /// Replay in a copy of the current workspace, for a session that read files created before it.
        #[arg(long)]
        with_files: bool,
    },
    /// End a session: no more code can run in it, and its name can be reused. The log is kept.
    End(One),
    /// Delete a session and its log. Files in the workspace are kept.
    Remove(One),
}

#[derive(Debug, Args)]
struct One {
    /// Session name, ID or number.
    session: String,

    /// Print JSON instead of text.
    #[arg(long)]
    json: bool,
}

pub(crate) fn run(arguments: &SessionsArguments, config: Option<&Path>) -> anyhow::Result<Status> {
    let user = &arguments.user;
    match &arguments.command {
        SessionsCommand::Replay { one, with_files } => {
            let files = if *with_files { ReplayFiles::Copied } else { ReplayFiles::Nothing };
            replay(user, one, files, config)
        }
        other => cancellable(read(user, other, config)),
    }
}

async fn read(user: &UserId, command: &SessionsCommand, config: Option<&Path>) -> anyhow::Result<Status> {
    let loaded = load(config, Vec::new())?;
    // Listing nothing must not create a database.
    let is_there = Home::new(variables::home()?).database().exists();
    let store: Arc<dyn Store> = if is_there { store().await? } else { Arc::new(MemoryStore::new()) };
    let history = History::new(store, workspaces(&loaded.settings)?);
    match command {
        SessionsCommand::List { json } => list(&history, user, *json).await?,
        SessionsCommand::Show(one) => {
            let session = found(&history, user, &one.session).await?;
            show(&history, user, &session, one.json).await?;
        }
        SessionsCommand::Resume(one) => {
            let session = found(&history, user, &one.session).await?;
            let text = history.resume(user, &session).await?;
            if one.json {
                print(&json(&json!({ "session_id": session.id, "label": session.label, "text": text }))?)?;
            } else {
                print(&plain_lines(&text))?;
            }
        }
        SessionsCommand::Export { session, output } => {
            let session = found(&history, user, session).await?;
            let text = json(&history.export(user, &session).await?)?;
            match output {
                None => print(&text)?,
                Some(path) => std::fs::write(path, text).with_context(|| format!("cannot write {}", path.display()))?,
            }
        }
        SessionsCommand::End(one) => {
            let session = found(&history, user, &one.session).await?;
            let ended = history.end(user, &session).await?;
            if one.json {
                print(&json(&json!({ "session_id": session.id, "ended": ended }))?)?;
            } else if ended {
                eprintln!("session {} has ended; its log is kept", plain(&one.session, MAX_SHOWN));
            } else {
                eprintln!("session {} has already ended", plain(&one.session, MAX_SHOWN));
            }
        }
        SessionsCommand::Remove(one) => {
            let session = found(&history, user, &one.session).await?;
            if !history.remove(user, &session).await? {
                let message = format!("session {} is in use: a task is running in it", plain(&one.session, MAX_SHOWN));
                return Err(Mistake::new(message, Some("cancel the task, or wait for it to end")).into());
            }
            if one.json {
                print(&json(&json!({ "session_id": session.id, "removed": true }))?)?;
            } else {
                eprintln!("removed session {} and its log", plain(&one.session, MAX_SHOWN));
            }
        }
        SessionsCommand::Replay { .. } => {}
    }
    Ok(Status::Success)
}

async fn found(history: &History, user: &UserId, handle: &str) -> anyhow::Result<SessionRecord> {
    let found = history.session(user, handle).await?;
    found.ok_or_else(|| {
        let message = format!("{user} has no session {:?}", plain(handle, MAX_SHOWN));
        Mistake::new(message, Some("`coracle sessions list` lists the sessions")).into()
    })
}

fn print(text: &str) -> anyhow::Result<()> {
    let mut stdout = std::io::stdout();
    stdout.write_all(text.as_bytes())?;
    Ok(stdout.flush()?)
}

fn stamp(time: SystemTime) -> String {
    humantime::format_rfc3339_seconds(time).to_string()
}

async fn list(history: &History, user: &UserId, as_json: bool) -> anyhow::Result<()> {
    let mut sessions: Vec<SessionRecord> = Vec::new();
    loop {
        let page = history.sessions(user, usize::MAX, sessions.last().map(|session| session.number)).await?;
        if page.is_empty() {
            break;
        }
        sessions.extend(page);
    }
    if as_json {
        return print(&json(&sessions.iter().map(SessionView::from).collect::<Vec<_>>())?);
    }
    if sessions.is_empty() {
        eprintln!("{user} has no sessions: coracle exec --session NAME starts one");
    }
    let rows = sessions.iter().map(|session| {
        [
            format!("{:03}", session.number),
            session.label.as_deref().map_or_else(|| "-".to_owned(), |label| plain(label, MAX_SHOWN)),
            session.id.to_string(),
            counted(usize::try_from(session.tasks).unwrap_or(usize::MAX), "task"),
            stamp(session.last_used),
            session.ended_at.map_or_else(String::new, |_| "ended".to_owned()),
        ]
    });
    print(&columns(rows))
}

async fn show(history: &History, user: &UserId, session: &SessionRecord, as_json: bool) -> anyhow::Result<()> {
    if as_json {
        let mut whole = history.export(user, session).await?;
        // Results of tools are only part of the export.
        for task in whole.get_mut("tasks").and_then(Value::as_array_mut).into_iter().flatten() {
            task.as_object_mut().map(|task| task.remove("recorded"));
        }
        return print(&json(&whole)?);
    }
    let tasks = history.tasks(user, session, SHOWN_TASKS).await?;
    let name = session.label.as_deref().map(|label| format!("{} ", plain(label, MAX_SHOWN))).unwrap_or_default();
    let ended = session.ended_at.map(|at| format!(", ended {}", stamp(at))).unwrap_or_default();
    let mut text = format!("{name}{} started {}{ended}\n", session.id, stamp(session.started_at));
    if let Some(point) = history.checkpoint(user, session).await? {
        let context = plain(&point.context.to_string(), 4 * MAX_SHOWN);
        let step = plain(&point.step, MAX_SHOWN);
        let at = stamp(point.made_at);
        let _ = writeln!(text, "checkpoint {step} by task {:03}, {at}: {context}", point.last_task);
    }
    let more = session.tasks.saturating_sub(tasks.len() as u64);
    if more > 0 {
        let _ = writeln!(text, "… {} before these", counted(usize::try_from(more).unwrap_or(usize::MAX), "task"));
    }
    text.push_str(&columns(tasks.iter().map(row)));
    print(&text)
}

fn row(task: &TaskRecord) -> [String; 5] {
    let field = |name: &str| task.outcome.as_ref().and_then(|outcome| outcome.get(name));
    let came = match task.state {
        TaskState::Running | TaskState::Interrupted => task.state.as_str().to_owned(),
        TaskState::Done => match field("error_code").and_then(Value::as_str) {
            Some(code) => code.to_owned(),
            None => "ok".to_owned(),
        },
    };
    let result = match field("result") {
        None | Some(Value::Null) => field("error").and_then(Value::as_str).unwrap_or_default().to_owned(),
        Some(Value::String(text)) => text.clone(),
        Some(other) => other.to_string(),
    };
    let about = task.begun.description.as_deref().unwrap_or(&task.begun.code);
    [
        format!("{:03}", task.number),
        stamp(task.begun.started_at),
        plain(&came, MAX_SHOWN),
        plain(about, MAX_SHOWN),
        plain(&result, MAX_SHOWN),
    ]
}

fn replay(user: &UserId, one: &One, files: ReplayFiles, config: Option<&Path>) -> anyhow::Result<Status> {
    let loaded = load(config, Vec::new())?;
    check(&loaded)?;
    let runtime =
        tokio::runtime::Builder::new_multi_thread().enable_all().build().context("cannot start the runtime")?;
    runtime.block_on(async {
        let cancel = CancellationToken::new();
        tokio::spawn(Signals::listen().context("cannot listen for signals")?.cancel(cancel.clone()));
        let settings = &loaded.settings;
        let store = store().await?;
        let history = History::new(Arc::clone(&store), workspaces(settings)?);
        let session = found(&history, user, &one.session).await?;
        let sandboxes = Sandboxes {
            pool: 0,
            preload: false,
            require_full_isolation: settings.execution.require_full_isolation,
            limits: settings.limits(),
            python: settings.execution.python.clone(),
            folders: folders(settings)?,
            packages: packages(settings)?,
            containers: Containers::wanted(settings),
        };
        let toolbox = toolbox_if_any(&loaded, &store, Map::new(), Purpose::Command)?;
        let audit = Audit::new(&loaded, Some(&store))?;
        let engine = engine(settings, audit.log(), backend(&sandboxes)?, store, toolbox.clone())?;
        let replayed = engine.replay(user, &session, files, &settings.limits(), &cancel).await;
        engine.shutdown().await;
        if let Some(toolbox) = toolbox {
            toolbox.upstream().shutdown().await;
        }
        let replayed = replayed?;
        if !replayed.all_files {
            eprintln!("warning: some files of the workspace could not be copied");
        }
        print(&if one.json { json(&replayed)? } else { told(&replayed) })?;
        if cancel.is_cancelled() {
            return Ok(Status::Cancelled);
        }
        Ok(if replayed.is_same() { Status::Success } else { Status::Failed })
    })
}

fn told(replay: &Replay) -> String {
    let mut text = String::new();
    for task in &replay.tasks {
        let outcome = match (&task.skipped, task.differences.as_slice()) {
            (Some(why), _) => format!("skipped: {why}"),
            (None, []) => "same".to_owned(),
            (None, _) => "differs".to_owned(),
        };
        let _ = writeln!(text, "task {:03}  {outcome}", task.number);
        for difference in &task.differences {
            let (then, now) = (plain(&difference.then, 400), plain(&difference.now, 400));
            let _ = writeln!(text, "  {}\n    then  {then}\n    now   {now}", difference.what);
        }
    }
    if replay.tasks.is_empty() {
        text.push_str("nothing was run in this session\n");
    }
    text
}
