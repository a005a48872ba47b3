//! `coracle audit`: shows, checks and exports the audit log.

mod show;

use crate::output::plain;
use crate::settings::load;
use crate::status::{Mistake, Status};
use crate::variables;
use crate::wiring::{cancellable, lasting_store};
use anyhow::Context;
use clap::{Args, Subcommand};
use coracle_audit::{
    AuditError, AuditLog, Durability, Entry, Event, FileLog, FileLogConfig, Filter, Mark, NoLog, StoreSource,
};
use coracle_config::{AuditSync, Loaded};
use coracle_store::{Home, Store};
use show::ShowArguments;
use std::fs::OpenOptions;
use std::io::{BufWriter, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

/// Maximum length of a printed text.
const MAX_TEXT: usize = 1_000;
const DAY: Duration = Duration::from_hours(24);

#[derive(Debug, Args)]
#[command(after_help = AFTER_HELP)]
pub(crate) struct AuditArguments {
    #[command(subcommand)]
    command: AuditCommand,
}

const AFTER_HELP: &str = "\
Examples:
  coracle audit show --user ann --limit 20   show the last 20 records of a user
  coracle audit show --kind call --since 1h  show the calls of the last hour
  coracle audit verify                       check that nothing was changed or removed
  coracle audit head                         print the position of the last record, to keep it elsewhere
  coracle audit export --output audit.jsonl  write all records to a file, as JSON lines";

#[derive(Debug, Subcommand)]
enum AuditCommand {
    /// Show the last records.
    Show(ShowArguments),
    /// Check the log: every record, their order, and that the end is not missing.
    Verify(VerifyArguments),
    /// Print all records as JSON lines.
    Export(ExportArguments),
    /// Print the position of the last record. Kept outside of the data folder, it shows later that the log still has it.
    Head,
    /// Set a damaged or missing log aside and begin a new one. Until then, no tool can be called.
    Restart,
}

#[derive(Debug, Args)]
struct VerifyArguments {
    /// Position that the log must contain, as `coracle audit head` printed it; can be repeated.
    #[arg(long, value_name = "SEQ:MAC")]
    expect: Vec<Mark>,
}

#[derive(Debug, Args)]
struct ExportArguments {
    /// File to write to instead of standard output. Only its owner may read it.
    #[arg(long, short = 'o', value_name = "FILE")]
    output: Option<PathBuf>,

    /// User whose records to export.
    #[arg(long, value_name = "NAME")]
    user: Option<String>,
}

pub(crate) fn run(arguments: AuditArguments, config: Option<&Path>) -> anyhow::Result<Status> {
    let loaded = load(config, Vec::new())?;
    let log = file_log(&loaded, None)?;
    cancellable(async move {
        match arguments.command {
            AuditCommand::Show(arguments) => show::run(&arguments, &log).await,
            AuditCommand::Verify(arguments) => verify(&arguments, &log).await,
            AuditCommand::Export(arguments) => export(arguments, &log).await,
            AuditCommand::Head => head(&log).await,
            AuditCommand::Restart => restart(&log).await,
        }
    })
}

/// The log of the data folder, with the store that remembers it, if that is open already.
fn file_log(loaded: &Loaded, store: Option<&Arc<dyn Store>>) -> anyhow::Result<FileLog> {
    let settings = &loaded.settings.audit;
    let store = if let Some(store) = store {
        StoreSource::from(Arc::clone(store))
    } else {
        let open = || -> Pin<Box<dyn Future<Output = _> + Send>> { Box::pin(lasting_store()) };
        StoreSource::new(Box::new(open))
    };
    Ok(FileLog::new(FileLogConfig {
        durability: match settings.sync {
            AuditSync::Interval => Durability::Interval,
            AuditSync::Always => Durability::Always,
        },
        keep: Some(DAY.saturating_mul(u32::try_from(settings.keep_days).unwrap_or(u32::MAX))),
        key: variables::key_source()?,
        ..FileLogConfig::new(Home::new(variables::home()?), store)
    }))
}

/// The audit log of a program.
#[derive(Clone, Debug)]
pub(crate) struct Audit {
    files: Option<FileLog>,
}

impl Audit {
    /// The log that the settings ask for. Without `store`, one is opened when it is needed.
    pub(crate) fn new(loaded: &Loaded, store: Option<&Arc<dyn Store>>) -> anyhow::Result<Self> {
        let files = loaded.settings.audit.enabled.then(|| file_log(loaded, store)).transpose()?;
        Ok(Self { files })
    }

    /// No log, for checks that call no tools.
    pub(crate) fn off() -> Self {
        Self { files: None }
    }

    /// The log, which records nothing if it is disabled.
    pub(crate) fn log(&self) -> Arc<dyn AuditLog> {
        match &self.files {
            Some(files) => Arc::new(files.clone()),
            None => Arc::new(NoLog),
        }
    }

    /// Records that a program that keeps running has loaded its settings. A log that cannot be written is reported; the
    /// calls that depend on it are refused.
    pub(crate) async fn begin(&self, program: &'static str, loaded: &Loaded) {
        let Some(files) = &self.files else { return };
        let begun = async {
            let settings = coracle_types::sorted_json(&loaded.settings).unwrap_or_default();
            let settings = files.digest(&settings).await?;
            let version = env!("CARGO_PKG_VERSION");
            files.append(Entry::of_operator(Event::SettingsLoaded { program, version, settings })).await?;
            files.anchor().await
        };
        if let Err(error) = begun.await {
            eprintln!(
                "warning: tools cannot be called: {}\n  hint: {}",
                plain(&error.to_string(), MAX_TEXT),
                error.hint()
            );
        }
    }

    /// Writes what is left, and has the store remember where the log ends.
    pub(crate) async fn end(&self) {
        let Some(files) = &self.files else { return };
        if let Err(error) = files.anchor().await {
            tracing::warn!(%error, "the end of the audit log is not remembered");
        }
    }

    /// Has the store remember where the log ends, every now and then.
    pub(crate) async fn keep_anchored(&self) {
        let Some(files) = &self.files else { return };
        loop {
            tokio::time::sleep(ANCHORED_EACH).await;
            if let Err(error) = files.anchor().await {
                tracing::warn!(%error, "the end of the audit log is not remembered");
            }
        }
    }
}

/// Interval at which the store remembers where the log ends.
const ANCHORED_EACH: Duration = Duration::from_mins(5);

/// Adds a hint to an error of the log.
#[expect(clippy::needless_pass_by_value, reason = "the signature that map_err needs")]
fn told(error: AuditError) -> anyhow::Error {
    let hint = error.hint();
    anyhow::anyhow!("{error}\nhint: {hint}")
}

async fn verify(arguments: &VerifyArguments, log: &FileLog) -> anyhow::Result<Status> {
    let report = log.verify(&arguments.expect).await.map_err(told)?;
    for note in &report.notes {
        eprintln!("note: {}", plain(note, MAX_TEXT));
    }
    if let Some(problem) = &report.problem {
        let record = problem.record.map(|record| format!("record {record}: ")).unwrap_or_default();
        eprintln!("error: {record}{} ({})", plain(&problem.what, MAX_TEXT), plain(&problem.place, MAX_TEXT));
        eprintln!("{} records before it are intact", report.records);
        return Ok(Status::Failed);
    }
    match report.last {
        Some(last) => println!("{} records are intact, from {} to {}", report.records, report.first, last.seq()),
        None => println!("there are no records"),
    }
    Ok(Status::Success)
}

async fn head(log: &FileLog) -> anyhow::Result<Status> {
    let Some(mark) = log.head().await.map_err(told)? else {
        return Err(Mistake::new("there is no audit log yet", Some("it is created with the first record")).into());
    };
    println!("{mark}");
    Ok(Status::Success)
}

async fn export(arguments: ExportArguments, log: &FileLog) -> anyhow::Result<Status> {
    let filter = Filter { user: arguments.user, ..Filter::default() };
    let name = arguments.output.as_ref().map_or("standard output".to_owned(), |path| path.display().to_string());
    let output: Box<dyn Write + Send> = match &arguments.output {
        Some(path) => {
            let opened = OpenOptions::new().write(true).create(true).truncate(true).mode(0o600).open(path);
            Box::new(opened.with_context(|| format!("cannot write {name}"))?)
        }
        None => Box::new(std::io::stdout()),
    };
    let mut output = BufWriter::new(output);
    let (sender, receiver) = std::sync::mpsc::channel();
    let written = log
        .each_line(filter, move |line| {
            let written = output.write_all(line).and_then(|()| output.write_all(b"\n")).and_then(|()| output.flush());
            if let Err(error) = written {
                let _ = sender.send(error.kind());
                return Err(error);
            }
            Ok(())
        })
        .await;
    // What fails here is the output, and not the log.
    if let Ok(kind) = receiver.try_recv() {
        return Err(anyhow::Error::new(std::io::Error::from(kind)).context(format!("cannot write {name}")));
    }
    match written {
        Ok(()) | Err(AuditError::NotCreated { .. }) => Ok(Status::Success),
        Err(error) => Err(told(error)),
    }
}

async fn restart(log: &FileLog) -> anyhow::Result<Status> {
    match log.restart().await.map_err(told)? {
        Some(aside) => eprintln!("the audit log was moved to {}, and a new one begun", aside.display()),
        None => eprintln!("a new audit log was begun"),
    }
    Ok(Status::Success)
}
