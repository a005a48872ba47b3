//! `coracle users export`: everything that one user has, as one file.

use super::named;
use crate::status::Mistake;
use crate::wiring::workspaces;
use anyhow::Context;
use clap::Args;
use coracle_accounts::People;
use coracle_config::Loaded;
use coracle_engine::Belongings;
use coracle_server::export_user;
use std::io::{BufWriter, ErrorKind};
use std::path::{Path, PathBuf};

#[derive(Debug, Args)]
pub(super) struct ExportArguments {
    /// User name; `local` for the user of `coracle exec` and `coracle mcp`, and of `coracle up` without users.
    name: String,

    /// File to write: a tar archive that only you can read.
    #[arg(long, value_name = "FILE")]
    to: PathBuf,

    /// Overwrite an existing file.
    #[arg(long)]
    force: bool,
}

pub(super) async fn run(arguments: &ExportArguments, people: &People, loaded: &Loaded) -> anyhow::Result<()> {
    let name = named(&arguments.name)?;
    let belongings = Belongings::new(workspaces(&loaded.settings)?, people.shared_store());
    super::known(people, &belongings, &name).await?;
    let to = &arguments.to;
    if !arguments.force && to.symlink_metadata().is_ok() {
        return Err(exists(to));
    }
    let folder = to.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let failed = || format!("cannot write {}", to.display());
    // Only its owner can read it, and it is removed if it is not finished.
    let file = tempfile::Builder::new().prefix(".coracle-export-").tempfile_in(folder).with_context(failed)?;
    let writer = BufWriter::with_capacity(1 << 20, file.reopen().with_context(failed)?);
    let written = export_user(people.shared_store(), name.clone(), belongings.folder(&name), writer).await;
    written.with_context(|| format!("cannot export {name}"))?;
    file.as_file().sync_all().with_context(failed)?;
    let placed = if arguments.force { file.persist(to) } else { file.persist_noclobber(to) };
    placed.map_err(|error| match error.error.kind() {
        ErrorKind::AlreadyExists => exists(to),
        _ => anyhow::Error::new(error.error).context(failed()),
    })?;
    eprintln!("{}: everything that {name} has, without secrets", to.display());
    Ok(())
}

fn exists(to: &Path) -> anyhow::Error {
    Mistake::new(format!("{} already exists", to.display()), Some("choose another name, or add --force")).into()
}
