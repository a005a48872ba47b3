//! Adds the entry that starts `coracle mcp` to the settings of a client, after showing the change.

use super::client::Client;
use super::moving::Moving;
use super::undo::{Before, Undo};
use crate::frontend::FrontendArguments;
use crate::install_method::Method;
use crate::output::{counted, plain};
use crate::settings::load_for_servers;
use crate::status::{Mistake, Status};
use crate::workspace_folder;
use anyhow::Context;
use coracle_config::install::{Entry, InstallError, Target, install, put_back, take_out};
use coracle_config::{Loaded, Way};
use std::io::{IsTerminal, Write};
use std::path::{Path, PathBuf};

/// What to do with the client's servers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Servers {
    Ask,
    Move,
    Keep,
}

pub(super) fn run(
    client: Client,
    frontend: &FrontendArguments,
    servers: Servers,
    without_asking: bool,
    config: Option<&Path>,
) -> anyhow::Result<Status> {
    let file = client.file()?;
    let old = read(&file)?;
    let loaded = load_for_servers(config, Vec::new())?;
    let entry = entry(frontend, &loaded)?;
    let mut moving = Moving::of(client, &file, &loaded)?;
    let mut names = moving.names();
    let offered = !names.is_empty() && servers != Servers::Keep;
    let is_moved = match servers {
        Servers::Keep => false,
        Servers::Move => offered,
        Servers::Ask => offered && !without_asking && can_ask() && ask_to_move(client, &names)?,
    };
    if !is_moved {
        names.clear();
    }
    let not_understood = |error: InstallError| {
        let hint = format!("fix it, or add this by hand: {}", client.target().by_hand(&entry));
        Mistake::new(format!("{}: {error}", file.display()), Some(hint))
    };
    let change = |names: &[String]| {
        let (text, taken) = take_out(client.target(), old.as_deref().unwrap_or_default(), names)?;
        Ok::<_, InstallError>((install(client.target(), &text, &entry)?, taken))
    };
    let (mut new, mut taken) = change(&names).map_err(not_understood)?;
    if old.as_deref() == Some(new.as_str()) {
        eprintln!("{client} already starts coracle ({})", file.display());
        tell_of_the_rest(client, &moving, is_moved);
        return Ok(Status::Success);
    }
    print_change(client.target(), &file, &entry, &names)?;
    if !without_asking && !agreed(&file)? {
        eprintln!("nothing was changed");
        return Ok(Status::Failed);
    }
    let mut undo = Undo::read(client.name())?.unwrap_or_default();
    let candidate = if is_moved { moving.candidate(&loaded)? } else { None };
    let mut changed = vec![file.as_path()];
    if let Some(candidate) = &candidate {
        changed.extend([candidate.file(), candidate.variables_file()]);
    }
    undo.save(client.name(), &changed)?;
    if let Some(candidate) = &candidate {
        candidate.write()?;
    }
    if is_moved {
        let usable = moving.usable(config)?;
        if usable != names {
            (new, taken) = change(&usable).map_err(not_understood)?;
            names = usable;
        }
    }
    write(&file, new.as_bytes())?;
    undo.moved.extend(taken);
    undo.done(client.name())?;
    if is_moved {
        eprintln!("moved to Coracle: {}", plain(&names.join(", "), MAX_SHOWN));
    }
    eprintln!("done: restart {client} to load the tools of coracle");
    tell_of_the_rest(client, &moving, is_moved);
    eprintln!("`coracle mcp --uninstall {}` undoes all changes", client.name());
    Ok(Status::Success)
}

/// Maximum length of a printed list of names in characters.
const MAX_SHOWN: usize = 500;

/// Reports which servers the client still starts itself.
fn tell_of_the_rest(client: Client, moving: &Moving, is_moved: bool) {
    for reason in &moving.staying {
        eprintln!("{client} keeps {reason}");
    }
    let names = moving.names();
    if !is_moved && !names.is_empty() {
        eprintln!(
            "{client} still starts {} itself, with all their tools: {}\n`coracle mcp --install {} --move-servers` moves them to Coracle",
            counted(names.len(), "server"),
            plain(&names.join(", "), MAX_SHOWN),
            client.name()
        );
    }
}

fn can_ask() -> bool {
    std::io::stdin().is_terminal() && std::io::stderr().is_terminal()
}

fn ask_to_move(client: Client, names: &[String]) -> anyhow::Result<bool> {
    eprintln!("{client} starts {} itself: {}", counted(names.len(), "server"), plain(&names.join(", "), MAX_SHOWN));
    let question = "Move them to Coracle? Code can call their tools, and the client no longer loads them all";
    crate::output::agreed(question, "add --move-servers or --keep-servers")
}

/// Undoes the changes of `run`.
pub(super) fn undo(client: Client, without_asking: bool) -> anyhow::Result<Status> {
    let file = client.file()?;
    let old = read(&file)?;
    let undo = Undo::read(client.name())?;
    let mut exact: Vec<(PathBuf, Option<Vec<u8>>)> = Vec::new();
    let mut kept: Vec<PathBuf> = Vec::new();
    let mut new = None;
    if let Some(undo) = &undo {
        for (path, before) in undo.before(client.name())? {
            match before {
                Before::Exact(bytes) if path == file => new = Some(bytes),
                Before::Exact(bytes) => exact.push((path, bytes)),
                Before::Changed if path == file => {}
                Before::Changed => kept.push(path),
            }
        }
    }
    let new = match (new, &old) {
        (Some(bytes), _) => bytes,
        (None, None) => None,
        (None, Some(text)) => {
            // The file was changed since, so only Coracle's own changes are undone.
            let moved = undo.as_ref().map(|undo| undo.moved.clone()).unwrap_or_default();
            let edited = take_out(client.target(), text, &[coracle_config::install::NAME.to_owned()])
                .and_then(|(text, _)| put_back(client.target(), &text, &moved))
                .map_err(|error| Mistake::new(format!("{}: {error}", file.display()), Some("fix it, and try again")))?;
            Some(edited.into_bytes())
        }
    };
    if new.as_deref() == old.as_deref().map(str::as_bytes) && exact.is_empty() {
        eprintln!("{client} does not start coracle ({})", file.display());
        Undo::forget(client.name())?;
        return Ok(Status::Success);
    }
    let moved: Vec<String> = undo.iter().flat_map(|undo| undo.moved.keys().cloned()).collect();
    print_undo(&file, &moved)?;
    if !without_asking && !agreed(&file)? {
        eprintln!("nothing was changed");
        return Ok(Status::Failed);
    }
    exact.insert(0, (file, new));
    for (path, bytes) in exact {
        match bytes {
            Some(bytes) => write(&path, &bytes)?,
            None => match std::fs::remove_file(&path) {
                Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
                    return Err(error).with_context(|| format!("cannot remove {}", path.display()));
                }
                _ => {}
            },
        }
        eprintln!("put back {}", path.display());
    }
    for path in kept {
        eprintln!("{} was changed since and is left unchanged", path.display());
    }
    Undo::forget(client.name())?;
    eprintln!("restart {client}");
    Ok(Status::Success)
}

fn read(file: &Path) -> anyhow::Result<Option<String>> {
    match std::fs::read_to_string(file) {
        Ok(text) => Ok(Some(text)),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(error).with_context(|| format!("cannot read {}", file.display())),
    }
}

/// Entry that starts this program with the same settings.
fn entry(frontend: &FrontendArguments, loaded: &Loaded) -> anyhow::Result<Entry> {
    let program = std::env::current_exe().context("cannot find this program")?;
    let text = |path: &Path| {
        path.to_str().map(str::to_owned).ok_or_else(|| {
            Mistake::new(format!("{} is not valid UTF-8", path.display()), Some("move it to a path that is"))
        })
    };
    // A program in a cache may be gone tomorrow.
    let starter = Method::of(&program).starter();
    let mut arguments: Vec<String> = starter.iter().flat_map(|(_, words)| *words).map(ToString::to_string).collect();
    arguments.push("mcp".to_owned());
    // A client starts the program in a folder of its choice, where only the file in the data folder would be found.
    let elsewhere = loaded.file.as_ref().filter(|file| file.way != Way::DataFolder);
    if let Some(file) = elsewhere {
        let config = file.path.canonicalize().with_context(|| format!("--config {}", file.path.display()))?;
        arguments.extend(["--config".to_owned(), text(&config)?]);
    }
    if let Some(profile) = frontend.profile {
        arguments.extend(["--profile".to_owned(), profile.to_string()]);
    }
    if let Some(tools) = &frontend.tools {
        arguments.extend(["--tools".to_owned(), tools.join(",")]);
    }
    if let Some(folder) = &frontend.workspace {
        let checked = workspace_folder::checked(folder, frontend.expose_home)?;
        let folder = checked.canonicalize().with_context(|| format!("--workspace {}", folder.display()))?;
        arguments.extend(["--workspace".to_owned(), text(&folder)?]);
    }
    if frontend.expose_home {
        arguments.push(workspace_folder::EXPOSE.to_owned());
    }
    if frontend.require_full_isolation {
        arguments.push("--require-full-isolation".to_owned());
    }
    // A client starts the program in an environment of its choice.
    let home = std::env::var(coracle_config::HOME_VARIABLE).ok();
    let environment = home.map(|home| (coracle_config::HOME_VARIABLE.to_owned(), home)).into_iter().collect();
    let command = match starter {
        Some((command, _)) => command.to_owned(),
        None => text(&program)?,
    };
    Ok(Entry { command, arguments, environment })
}

/// Prints what is added, and which servers are removed. Existing content is not printed, because entries of other
/// servers may contain credentials.
fn print_change(target: Target, file: &Path, entry: &Entry, moved: &[String]) -> anyhow::Result<()> {
    let fresh = install(target, "", entry).context("cannot write the entry")?;
    let added = fresh.lines().map(|line| format!("+{line}\n"));
    let removed = moved.iter().map(|name| format!("-the server {}\n", plain(name, MAX_SHOWN)));
    print_lines(file, removed.chain(added))
}

/// Prints what is restored.
fn print_undo(file: &Path, moved: &[String]) -> anyhow::Result<()> {
    let back = moved.iter().map(|name| format!("+the server {}\n", plain(name, MAX_SHOWN)));
    print_lines(file, std::iter::once(format!("-the server {}\n", coracle_config::install::NAME)).chain(back))
}

fn print_lines(file: &Path, lines: impl Iterator<Item = String>) -> anyhow::Result<()> {
    let text: String = std::iter::once(format!("--- {0}\n+++ {0}\n", file.display())).chain(lines).collect();
    std::io::stdout().write_all(text.as_bytes()).context("cannot print the change")
}

fn agreed(file: &Path) -> anyhow::Result<bool> {
    if !std::io::stdin().is_terminal() {
        return Err(Mistake::new("cannot prompt: stdin is not a terminal", Some("add --yes to write it")).into());
    }
    eprint!("write {}? [y/N] ", file.display());
    let mut line = String::new();
    std::io::stdin().read_line(&mut line).context("cannot read the answer")?;
    Ok(matches!(line.trim().to_lowercase().as_str(), "y" | "yes"))
}

/// Writes a file atomically, with its previous permissions.
fn write(file: &Path, bytes: &[u8]) -> anyhow::Result<()> {
    // Files in a settings folder are often symbolic links.
    let file = file.canonicalize().unwrap_or_else(|_| file.to_owned());
    let folder = file.parent().context("the file has no folder")?;
    std::fs::create_dir_all(folder).with_context(|| format!("cannot create {}", folder.display()))?;
    let mut fresh =
        tempfile::NamedTempFile::new_in(folder).with_context(|| format!("cannot write to {}", folder.display()))?;
    fresh.write_all(bytes)?;
    if let Ok(metadata) = std::fs::metadata(&file) {
        fresh.as_file().set_permissions(metadata.permissions())?;
    }
    fresh.as_file().sync_all()?;
    fresh.persist(&file).with_context(|| format!("cannot write {}", file.display()))?;
    Ok(())
}
