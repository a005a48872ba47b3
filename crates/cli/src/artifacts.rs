//! `coracle artifacts`: the files that code wrote to `/artifacts`.

use crate::backends::{Sandboxes, native};
use crate::output::{columns, json, plain};
use crate::settings::load;
use crate::status::{Mistake, Status};
use crate::variables;
use crate::wiring::{cancellable, store, workspaces};
use anyhow::Context;
use clap::{Args, Subcommand};
use coracle_config::Loaded;
use coracle_engine::{ArtifactError, ArtifactRecord, ArtifactVersion, Engine, EngineConfig};
use coracle_sandbox::Packages;
use coracle_server::Timestamp;
use coracle_store::{Home, MemoryStore, Store};
use coracle_types::{ArtifactId, UserId};
use serde_json::{Value, json};
use std::fs::File;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::time::Duration;

/// Maximum length of a printed name in characters.
const MAX_NAME: usize = 200;

#[derive(Debug, Args)]
#[command(after_help = AFTER_HELP)]
pub(crate) struct ArtifactsArguments {
    /// User who owns the artifacts.
    #[arg(long, value_name = "USER", global = true, default_value = "local", value_parser = |name: &str| UserId::new(name))]
    user: UserId,

    #[command(subcommand)]
    command: ArtifactsCommand,
}

const AFTER_HELP: &str = "\
An artifact is a file that code wrote to /artifacts. Writing the same name again creates a new version.

Examples:
  coracle artifacts list                  list all artifacts, newest first
  coracle artifacts open plot.png         open the newest version in the desktop viewer
  coracle artifacts save plot.png         copy it to the current folder
  coracle artifacts save plot.png -o -    write it to standard output";

#[derive(Debug, Subcommand)]
enum ArtifactsCommand {
    /// List all artifacts, newest first.
    List {
        /// Print JSON instead of a table.
        #[arg(long)]
        json: bool,
    },
    /// Open an image, PDF or text file in the desktop viewer, and print its path.
    #[command(disable_version_flag = true)]
    Open(One),
    /// Copy an artifact to the current folder or to --output.
    #[command(disable_version_flag = true)]
    Save {
        #[command(flatten)]
        one: One,

        /// File or folder to write to; `-` means standard output.
        #[arg(long, short = 'o', value_name = "PATH")]
        output: Option<PathBuf>,

        /// Overwrite an existing file.
        #[arg(long)]
        force: bool,
    },
}

#[derive(Debug, Args)]
struct One {
    /// Artifact name, as printed by `coracle artifacts list`, or artifact ID.
    #[arg(value_name = "NAME")]
    name: String,

    /// Version number [default: the newest].
    #[arg(long, value_name = "N")]
    version: Option<u64>,
}

pub(crate) fn run(arguments: &ArtifactsArguments, config: Option<&Path>) -> anyhow::Result<Status> {
    let loaded = load(config, Vec::new())?;
    let user = &arguments.user;
    cancellable(async {
        let kept = Kept::open(&loaded, user).await?;
        match &arguments.command {
            ArtifactsCommand::List { json } => kept.list(*json).await,
            ArtifactsCommand::Open(one) => kept.show(one).await,
            ArtifactsCommand::Save { one, output, force } => kept.save(one, output.as_deref(), *force).await,
        }
    })
}

/// The artifacts of one user.
struct Kept {
    engine: Engine,
    user: UserId,
    folder: PathBuf,
}

impl Kept {
    /// Opens the artifacts with an engine that starts no sandbox.
    async fn open(loaded: &Loaded, user: &UserId) -> anyhow::Result<Self> {
        let settings = &loaded.settings;
        // Listing nothing must not create a database.
        let is_there = Home::new(variables::home()?).database().exists();
        let store: Arc<dyn Store> = if is_there { store().await? } else { Arc::new(MemoryStore::new()) };
        let sandboxes = Sandboxes {
            pool: 0,
            preload: false,
            require_full_isolation: false,
            limits: settings.limits(),
            python: settings.execution.python.clone(),
            folders: Vec::new(),
            packages: Packages::default(),
            containers: None,
        };
        let config = EngineConfig { workspaces: workspaces(settings)?, session_idle: Duration::from_mins(1) };
        let engine = Engine::new(config, native(&sandboxes)?, store, None);
        let folder = workspaces(settings)?.join(user.as_str()).join("artifacts");
        Ok(Self { engine, user: user.clone(), folder })
    }

    async fn all(&self) -> anyhow::Result<Vec<ArtifactRecord>> {
        let mut all: Vec<ArtifactRecord> = Vec::new();
        loop {
            let page = self.engine.artifacts(&self.user, usize::MAX, all.last().map(|last| &last.id)).await?;
            if page.is_empty() {
                return Ok(all);
            }
            all.extend(page);
        }
    }

    async fn list(&self, as_json: bool) -> anyhow::Result<Status> {
        let all = self.all().await?;
        let newest = all.iter().filter_map(|record| Some((record, record.versions.first()?)));
        let text = if as_json {
            json(&newest.map(|(record, version)| self.described(record, version)).collect::<Vec<_>>())?
        } else {
            if all.is_empty() {
                eprintln!("{} has no artifacts: they are files that code writes to /artifacts", self.user);
            }
            columns(newest.map(|(record, version)| {
                [
                    plain(&record.name, MAX_NAME),
                    format!("version {}", version.version),
                    format!("{} bytes", version.bytes),
                    version.mime.clone(),
                    humantime::format_rfc3339_seconds(version.created_at).to_string(),
                ]
            }))
        };
        std::io::stdout().write_all(text.as_bytes())?;
        Ok(Status::Success)
    }

    fn described(&self, record: &ArtifactRecord, version: &ArtifactVersion) -> Value {
        json!({
            "id": record.id, "name": record.name, "version": version.version, "versions": record.count,
            "mime": version.mime, "bytes": version.bytes, "sha256": version.sha256,
            "created_at": Timestamp::from(version.created_at),
            "execution_id": version.execution_id, "session_id": version.session,
            "file": self.file(record, version),
        })
    }

    /// Path of a version on the host.
    fn file(&self, record: &ArtifactRecord, version: &ArtifactVersion) -> PathBuf {
        self.folder.join(version.execution_id.as_str()).join(&record.name)
    }

    /// Finds a version of an artifact and opens its content without following links.
    async fn find(&self, one: &One) -> anyhow::Result<(ArtifactRecord, ArtifactVersion, File)> {
        let wanted = one.name.trim_start_matches("/artifacts/");
        let id = match ArtifactId::new(wanted).ok().filter(|id| id.as_str().starts_with("art-")) {
            Some(id) => Some(id),
            None => self.all().await?.into_iter().find(|record| record.name == wanted).map(|record| record.id),
        };
        let missing = || {
            let version = one.version.map(|number| format!(" with version {number}")).unwrap_or_default();
            let message = format!("{} has no artifact {:?}{version}", self.user, plain(wanted, MAX_NAME));
            Mistake::new(message, Some("`coracle artifacts list` lists the artifacts"))
        };
        let opened = self.engine.open_artifact(&self.user, &id.ok_or_else(missing)?, one.version).await;
        opened.map_err(|error| match error {
            ArtifactError::Missing { .. } => missing().into(),
            error => error.into(),
        })
    }

    async fn show(&self, one: &One) -> anyhow::Result<Status> {
        let (record, version, _) = self.find(one).await?;
        let file = self.file(&record, &version);
        if !opens_safely(&record.name, &version.mime) {
            let message =
                format!("{} is not opened: {} files can run code", plain(&record.name, MAX_NAME), version.mime);
            let hint = format!(
                "`coracle artifacts save` copies it; it is in {}",
                plain(&file.display().to_string(), MAX_NAME * 10)
            );
            return Err(Mistake::new(message, Some(hint)).into());
        }
        println!("{}", plain(&file.display().to_string(), MAX_NAME * 10));
        let opener = if cfg!(target_os = "macos") { "open" } else { "xdg-open" };
        let mut command = Command::new(opener);
        command.arg(&file).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        match command.status() {
            Ok(status) if status.success() => Ok(Status::Success),
            Ok(_) | Err(_) => {
                eprintln!("{opener} cannot open it here: the line above is the path of the file");
                Ok(Status::Failed)
            }
        }
    }

    async fn save(&self, one: &One, output: Option<&Path>, force: bool) -> anyhow::Result<Status> {
        let (record, _, mut file) = self.find(one).await?;
        if output.is_some_and(|output| output.as_os_str() == "-") {
            std::io::copy(&mut file, &mut std::io::stdout())?;
            return Ok(Status::Success);
        }
        let name = Path::new(&record.name).file_name().context("the artifact has no name")?;
        let target = match output {
            None => PathBuf::from(name),
            Some(folder) if folder.is_dir() => folder.join(name),
            Some(file) => file.to_owned(),
        };
        let shown = plain(&target.display().to_string(), MAX_NAME * 10);
        let folder = target.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
        let mut fresh = tempfile::NamedTempFile::new_in(folder).with_context(|| format!("cannot write {shown}"))?;
        let bytes = std::io::copy(&mut file, &mut fresh).with_context(|| format!("cannot write {shown}"))?;
        if force {
            fresh.persist(&target).with_context(|| format!("cannot write {shown}"))?;
        } else if let Err(error) = fresh.persist_noclobber(&target) {
            if error.error.kind() == std::io::ErrorKind::AlreadyExists {
                let hint = "use --force to replace it, or --output to write to another file";
                return Err(Mistake::new(format!("{shown} already exists"), Some(hint)).into());
            }
            return Err(error.error).with_context(|| format!("cannot write {shown}"));
        }
        eprintln!("saved {shown} ({bytes} bytes)");
        Ok(Status::Success)
    }
}

/// Whether a viewer can open a file without running code. Viewers choose by file name, and the name comes from code, so
/// it must match the content.
fn opens_safely(name: &str, mime: &str) -> bool {
    let ending = Path::new(name).extension().and_then(|ending| ending.to_str()).unwrap_or_default().to_lowercase();
    matches!(
        (mime, ending.as_str()),
        ("image/png", "png")
            | ("image/jpeg", "jpg" | "jpeg")
            | ("image/gif", "gif")
            | ("image/webp", "webp")
            | ("application/pdf", "pdf")
            | ("text/plain", "txt" | "log")
            | ("text/csv", "csv")
            | ("application/json", "json")
            | ("text/markdown", "md")
    )
}

#[cfg(test)]
mod tests {
    use super::opens_safely;

    #[test]
    fn only_inert_files_are_opened() {
        for (name, mime) in [("a.png", "image/png"), ("b/C.JPG", "image/jpeg"), ("t.csv", "text/csv")] {
            assert!(opens_safely(name, mime), "{name}");
        }
        for (name, mime) in [
            ("a.html", "text/html"),
            ("a.svg", "image/svg+xml"),
            ("a.desktop", "text/plain"),
            ("a.png", "text/html"),
            ("a", "text/plain"),
            ("a.sh", "text/plain"),
        ] {
            assert!(!opens_safely(name, mime), "{name}");
        }
    }
}
