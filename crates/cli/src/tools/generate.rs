use super::{inventory, settings};
use crate::output::counted;
use crate::status::{Mistake, Status};
use crate::wiring::runtime;
use anyhow::{Context, bail};
use clap::Args;
use coracle_catalog::{ROOT, Tree};
use std::fs;
use std::path::{Path, PathBuf};

/// File that marks a folder as generated, so that it may be overwritten.
const MARK: &str = ".coracle-tools";
const MARK_TEXT: &str = "Written by `coracle tools generate`, which replaces servers, coracle, coracle.d.ts and \
                         node_modules/coracle here.\n";
/// Package that generated Python imports.
const PACKAGE: &str = "coracle";
/// Declarations of the module that generated TypeScript imports.
const DECLARATIONS: &str = "coracle.d.ts";
/// The module outside a sandbox, where Node, Deno and bundlers look for it.
const OUTSIDE: &str = "node_modules/coracle";
const OUTSIDE_MANIFEST: &str =
    "{\n  \"name\": \"coracle\",\n  \"private\": true,\n  \"type\": \"module\",\n  \"main\": \"index.js\"\n}\n";

#[derive(Debug, Args)]
#[command(after_help = AFTER_HELP)]
pub(super) struct GenerateArguments {
    /// Folder to write to. It must be new, empty or written by this command before.
    #[arg(value_name = "DIR")]
    folder: PathBuf,
}

const AFTER_HELP: &str = "\
The modules can be imported anywhere, but calls work only inside a sandbox; elsewhere they fail with an explanation.

Examples:
  coracle tools generate typings
  MYPYPATH=typings mypy --strict program.py    for tsc, set \"paths\": {\"servers/*\": [\"./typings/servers/*\"]}";

pub(super) fn run(arguments: &GenerateArguments, config: Option<&Path>) -> anyhow::Result<Status> {
    let folder = &arguments.folder;
    check(folder)?;
    let loaded = settings(config, None)?;
    if loaded.servers.is_empty() {
        return Ok(Status::Failed);
    }
    let inventory = runtime()?.block_on(inventory(&loaded))?;
    if inventory.catalog.is_empty() && !inventory.missing.is_empty() {
        return Ok(Status::Failed);
    }
    write(folder, &inventory.catalog.tree())?;
    let tools = counted(inventory.catalog.len(), "tool");
    let servers = counted(inventory.catalog.servers().len(), "server");
    eprintln!("wrote the modules of {tools} of {servers} to {}", folder.display());
    Ok(if inventory.missing.is_empty() { Status::Success } else { Status::Failed })
}

/// Checks that the folder does not contain other files, which must never be removed.
fn check(folder: &Path) -> anyhow::Result<()> {
    let mut entries = match fs::read_dir(folder) {
        Ok(entries) => entries,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(()),
        Err(error) => {
            return Err(Mistake::new(format!("cannot use {}: {error}", folder.display()), None::<&str>).into());
        }
    };
    if entries.next().is_none() || folder.join(MARK).is_file() {
        return Ok(());
    }
    let hint = "use a new or empty folder";
    Err(Mistake::new(format!("{} is not empty, and was not written by this command", folder.display()), Some(hint))
        .into())
}

/// Writes everything aside first, so that a failure leaves the old files unchanged.
fn write(folder: &Path, tree: &Tree) -> anyhow::Result<()> {
    fs::create_dir_all(folder).with_context(|| format!("cannot create {}", folder.display()))?;
    let aside = tempfile::Builder::new().prefix(".making-").tempdir_in(folder);
    let aside = aside.with_context(|| format!("cannot write in {}", folder.display()))?;
    let of_package = |(path, _): &&(&str, &str)| path.starts_with(&format!("{PACKAGE}/"));
    let package = coracle_guest::FILES.iter().filter(of_package).copied();
    let outside = [("package.json", OUTSIDE_MANIFEST), ("index.js", coracle_guest::TYPESCRIPT_OUTSIDE)];
    let outside = outside.map(|(name, text)| (format!("{OUTSIDE}/{name}"), text));
    let others = outside
        .iter()
        .map(|(path, text)| (path.as_str(), *text))
        .chain([(DECLARATIONS, coracle_guest::TYPESCRIPT_DECLARATIONS), (MARK, MARK_TEXT)]);
    for (path, text) in tree.files().chain(package).chain(others) {
        let file = aside.path().join(path);
        if let Some(parent) = file.parent() {
            fs::create_dir_all(parent).with_context(|| format!("cannot create {}", parent.display()))?;
        }
        fs::write(&file, text).with_context(|| format!("cannot write {}", file.display()))?;
    }
    // The mark comes first, because the following files are ours.
    for name in [MARK, ROOT, PACKAGE, DECLARATIONS, OUTSIDE] {
        let (made, place) = (aside.path().join(name), folder.join(name));
        if let Some(parent) = place.parent() {
            fs::create_dir_all(parent).with_context(|| format!("cannot create {}", parent.display()))?;
        }
        match fs::symlink_metadata(&place) {
            Ok(old) if old.is_dir() => fs::remove_dir_all(&place),
            Ok(_) => fs::remove_file(&place),
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(()),
            Err(error) => Err(error),
        }
        .with_context(|| format!("cannot replace {}", place.display()))?;
        if !made.exists() {
            bail!("{} was not generated", made.display());
        }
        fs::rename(&made, &place).with_context(|| format!("cannot write {}", place.display()))?;
    }
    Ok(())
}
