//! `coracle backup` and `coracle restore`: the data folder as one file, and back.

use crate::output::{counted, json, plain};
use crate::settings::load;
use crate::status::{Mistake, Status};
use crate::variables;
use crate::wiring::{cancellable, told, workspaces};
use clap::Args;
use coracle_store::{BackupError, Home, KeySource, SqliteStore};
use std::io::Write;
use std::path::{Path, PathBuf};

/// Maximum number of skipped files that are named.
const MAX_NAMED: usize = 10;
/// Maximum length of a printed path in characters.
const MAX_PATH: usize = 300;

#[derive(Debug, Args)]
pub(crate) struct BackupArguments {
    /// File to write: a tar archive that only you can read.
    #[arg(value_name = "FILE")]
    file: PathBuf,

    /// Include the master key, so that the archive alone restores everything. Without it, stored secrets and all
    /// settings files (.env, coracle.yaml) are encrypted in the archive, and restoring them requires the key.
    #[arg(long)]
    with_key: bool,

    /// Overwrite an existing file.
    #[arg(long)]
    force: bool,

    /// Print a summary as JSON.
    #[arg(long)]
    json: bool,
}

#[derive(Debug, Args)]
pub(crate) struct RestoreArguments {
    /// Archive written by `coracle backup`.
    #[arg(value_name = "FILE")]
    file: PathBuf,

    /// Master key file, for a backup made without --with-key [default: master.key in the data folder].
    #[arg(long, value_name = "FILE")]
    key: Option<PathBuf>,

    /// Restore even if the data folder already contains data. Existing data is moved aside, never deleted.
    #[arg(long)]
    force: bool,

    /// Print a summary as JSON.
    #[arg(long)]
    json: bool,
}

pub(crate) fn run(arguments: &BackupArguments, config: Option<&Path>) -> anyhow::Result<Status> {
    let loaded = load(config, Vec::new())?;
    let (home, workspaces) = (Home::new(variables::home()?), workspaces(&loaded.settings)?);
    if !home.database().exists() {
        let message = format!("there is no data in {}", home.root().display());
        return Err(Mistake::new(message, Some("set CORACLE_HOME to the data folder")).into());
    }
    let source = variables::key_source()?;
    if arguments.with_key && !matches!(source, KeySource::File) {
        let hint = "leave out --with-key, and keep the key or its command elsewhere";
        return Err(Mistake::new("the master key is not in the data folder", Some(hint)).into());
    }
    let done = cancellable(async {
        let store = SqliteStore::open(&home, source).await.map_err(told)?;
        let file = &arguments.file;
        let done = coracle_store::backup(&home, &store, &workspaces, file, arguments.with_key, arguments.force).await;
        store.close().await;
        done.map_err(explained)
    })?;
    if arguments.json {
        std::io::stdout().write_all(json(&done)?.as_bytes())?;
        return Ok(Status::Success);
    }
    let files = counted(usize::try_from(done.files).unwrap_or(usize::MAX), "file");
    eprintln!("{}: {files}, {} bytes", arguments.file.display(), done.bytes);
    for skipped in done.skipped.iter().take(MAX_NAMED) {
        eprintln!("warning: not in the backup: {}", plain(skipped, MAX_PATH));
    }
    if done.skipped.len() > MAX_NAMED {
        eprintln!("warning: and {} more", done.skipped.len() - MAX_NAMED);
    }
    if done.with_key {
        eprintln!("the backup contains the master key: anyone who has the file can read all credentials");
    } else if home.master_key().exists() {
        let key = home.master_key();
        eprintln!("the backup does not contain the master key: keep {} elsewhere, or use --with-key", key.display());
    }
    Ok(Status::Success)
}

pub(crate) fn restore(arguments: &RestoreArguments, config: Option<&Path>) -> anyhow::Result<Status> {
    let loaded = load(config, Vec::new())?;
    let (home, workspaces) = (Home::new(variables::home()?), workspaces(&loaded.settings)?);
    // Must not be dropped halfway: between two renames, nothing is in place.
    let runtime = crate::wiring::runtime()?;
    let key = arguments.key.as_deref();
    let source = variables::key_source()?;
    let restored = coracle_store::restore_with_key(&home, &workspaces, &arguments.file, key, &source, arguments.force);
    let restored = runtime.block_on(restored).map_err(explained)?;
    if arguments.json {
        std::io::stdout().write_all(json(&restored)?.as_bytes())?;
        return Ok(Status::Success);
    }
    let files = counted(usize::try_from(restored.files).unwrap_or(usize::MAX), "file");
    eprintln!("{}: {files} restored", home.root().display());
    for moved in &restored.moved_aside {
        eprintln!("the previous data is in {}", moved.display());
    }
    if !restored.sealed.is_empty() {
        let names = plain(&restored.sealed.join(", "), MAX_PATH);
        eprintln!("warning: cannot be decrypted without the master key: {names}");
        eprintln!(
            "hint: restore again with --key FILE --force, where FILE is the master.key of the original data folder"
        );
    }
    if !restored.with_key && !home.master_key().exists() {
        eprintln!(
            "the backup does not contain the master key: copy it to {} to decrypt the secrets",
            home.master_key().display()
        );
    }
    Ok(Status::Success)
}

fn explained(error: BackupError) -> anyhow::Error {
    let mistake =
        matches!(error, BackupError::Exists { .. } | BackupError::NoBackup { .. } | BackupError::Newer { .. });
    match (mistake, error.hint()) {
        (true, hint) => Mistake::new(error, hint).into(),
        (false, Some(hint)) => anyhow::anyhow!("{error}\nhint: {hint}"),
        (false, None) => error.into(),
    }
}
