use super::candidate::Candidate;
use super::list::{transport, transport_line};
use crate::output::{counted, plain};
use crate::settings::{file_to_edit, load_for_servers, variables};
use crate::status::{Mistake, Status};
use anyhow::Context;
use clap::Args;
use coracle_config::Loaded;
use coracle_config::edit::Existing;
use coracle_config::import::{Client, Found, ImportOptions, Imported, System, scan, scan_client, scan_file};
use std::collections::{BTreeMap, BTreeSet};
use std::convert::Infallible;
use std::fmt::Write as _;
use std::io::{IsTerminal, Write};
use std::path::{Path, PathBuf};

/// Maximum length of a text from a client's file, in characters.
const MAX_TEXT: usize = 300;

#[derive(Debug, Args)]
#[command(after_help = AFTER_HELP)]
pub(super) struct ImportArguments {
    /// Client to import from (claude-desktop, claude-code, cursor or vscode), or a settings file of one of them
    /// [default: all clients].
    #[arg(long, value_name = "CLIENT|FILE", value_parser = source)]
    from: Option<Source>,

    /// Import all servers that can be imported, without asking.
    #[arg(long, short = 'y')]
    yes: bool,
}

const AFTER_HELP: &str = "\
The files of the other clients are not changed. Credentials are stored in .env in the data folder, which only you can
read; the settings file refers to them by name.

Examples:
  coracle servers import                       show the servers found, and ask which to import
  coracle servers import --from cursor --yes   import all servers of one client
  coracle servers import --from mcp.json       import servers from one file";

/// Place to import from.
#[derive(Clone, Debug)]
enum Source {
    Client(Client),
    File(PathBuf),
}

#[expect(clippy::unnecessary_wraps, reason = "clap requires a fallible parser")]
fn source(text: &str) -> Result<Source, Infallible> {
    Ok(match text {
        "claude-desktop" => Source::Client(Client::ClaudeDesktop),
        "claude-code" => Source::Client(Client::ClaudeCode),
        "cursor" => Source::Client(Client::Cursor),
        "vscode" => Source::Client(Client::VsCode),
        file => Source::File(PathBuf::from(file)),
    })
}

/// Found server, with the reason if it is not imported.
struct Offer {
    found: Found,
    skipped: Option<String>,
}

pub(super) fn run(arguments: &ImportArguments, config: Option<&Path>) -> anyhow::Result<Status> {
    let loaded = load_for_servers(config, Vec::new())?;
    let imported = look(arguments.from.as_ref())?;
    for file in &imported.unreadable {
        eprintln!("warning: cannot read {}: {}", file.path.display(), plain(&file.reason, MAX_TEXT));
    }
    if imported.found.is_empty() {
        if let (Some(Source::File(_)), Some(file)) = (&arguments.from, imported.unreadable.first()) {
            let hint = "use a file, or claude-desktop, claude-code, cursor or vscode";
            return Err(Mistake::new(format!("cannot read {}", file.path.display()), Some(hint)).into());
        }
        eprintln!("no servers of other clients were found");
        return Ok(Status::Success);
    }
    let mut candidate = Candidate::read(file_to_edit(&loaded)?)?;
    let mut taken_names: BTreeSet<String> = BTreeSet::new();
    let offers: Vec<Offer> = imported
        .found
        .into_iter()
        .map(|found| {
            let skipped = why_not(&found, &loaded, &taken_names);
            taken_names.insert(found.name.to_string());
            Offer { found, skipped }
        })
        .collect();
    std::io::stdout().write_all(render(&offers).as_bytes())?;
    let numbered: Vec<&Found> =
        offers.iter().filter(|offer| offer.skipped.is_none()).map(|offer| &offer.found).collect();
    if numbered.is_empty() {
        eprintln!("there is nothing to import");
        return Ok(Status::Success);
    }
    let chosen: Vec<&Found> = if arguments.yes {
        numbered
    } else if std::io::stdin().is_terminal() && std::io::stderr().is_terminal() {
        ask(&numbered, candidate.file())?
    } else {
        eprintln!("nothing was changed: cannot prompt, because stdin is not a terminal; --yes imports without asking");
        return Ok(Status::Failed);
    };
    if chosen.is_empty() {
        eprintln!("nothing was changed");
        return Ok(Status::Success);
    }
    take_over(&chosen, &mut candidate)
}

fn look(from: Option<&Source>) -> anyhow::Result<Imported> {
    let options = ImportOptions {
        home: std::env::home_dir().context("cannot find the home folder: set HOME")?,
        folder: Some(std::env::current_dir().context("cannot find the current folder")?),
        env: variables(),
        system: System::current(),
    };
    Ok(match from {
        None => scan(&options),
        Some(Source::Client(client)) => scan_client(*client, &options),
        Some(Source::File(path)) => scan_file(client_of(path), path, &options),
    })
}

/// Client that a file belongs to, by its name. Unknown files are read like those of VS Code, which has the most
/// variants.
fn client_of(path: &Path) -> Client {
    let name = path.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
    let below = |folder: &str| path.components().any(|part| part.as_os_str() == folder);
    match name.as_str() {
        ".claude.json" | ".mcp.json" => Client::ClaudeCode,
        "claude_desktop_config.json" => Client::ClaudeDesktop,
        _ if below(".cursor") => Client::Cursor,
        _ => Client::VsCode,
    }
}

fn why_not(found: &Found, loaded: &Loaded, taken: &BTreeSet<String>) -> Option<String> {
    if let Some(problem) = &found.problem {
        return Some(format!("cannot be imported: {problem}"));
    }
    if crate::recursion::is_coracle(&found.entry, loaded) {
        return Some("it is Coracle itself".to_owned());
    }
    if found.duplicate || taken.contains(found.name.as_str()) {
        return Some("duplicate".to_owned());
    }
    match loaded.settings.mcp_servers.get(found.name.as_str()) {
        Some(entry) if *entry == found.entry => Some("already configured".to_owned()),
        Some(_) => Some("a different server with this name is already configured".to_owned()),
        None => None,
    }
}

fn render(offers: &[Offer]) -> String {
    let mut text = String::new();
    let mut number = 0;
    for Offer { found, skipped } in offers {
        let mark = if skipped.is_none() {
            number += 1;
            format!("{number})")
        } else {
            "-".to_owned()
        };
        let _ = writeln!(text, "{mark} {}: {}", found.name, transport_line(&transport(&found.entry)));
        let _ = writeln!(text, "   from {}, {}", found.client, found.path.display());
        if let Some(project) = &found.project {
            let _ = writeln!(text, "   for the project {}", plain(&project.display().to_string(), MAX_TEXT));
        }
        for note in &found.notes {
            let _ = writeln!(text, "   note: {}", plain(note, MAX_TEXT));
        }
        if let Some(reason) = skipped {
            let _ = writeln!(text, "   skipped: {}", plain(reason, MAX_TEXT));
        }
    }
    text
}

/// Asks which servers to import.
fn ask<'a>(offered: &[&'a Found], file: &Path) -> anyhow::Result<Vec<&'a Found>> {
    loop {
        eprint!(
            "Add {} to {}? [y] yes, all   [n] no   or numbers such as 1,3: ",
            if offered.len() == 1 { "it".to_owned() } else { format!("these {}", offered.len()) },
            file.display()
        );
        std::io::stderr().flush()?;
        let mut line = String::new();
        let length = std::io::stdin().read_line(&mut line).context("cannot read the answer")?;
        let answer = line.trim().to_lowercase();
        match answer.as_str() {
            _ if length == 0 => return Ok(Vec::new()),
            "y" | "yes" => return Ok(offered.to_vec()),
            "n" | "no" => return Ok(Vec::new()),
            _ => {}
        }
        match picked(&answer, offered.len()) {
            Some(numbers) => {
                return Ok(numbers.into_iter().filter_map(|number| offered.get(number - 1).copied()).collect());
            }
            None => eprintln!("please answer y, n, or numbers from 1 to {}", offered.len()),
        }
    }
}

/// Parses numbers from 1 to `most`, separated by commas or spaces.
fn picked(answer: &str, most: usize) -> Option<BTreeSet<usize>> {
    let words = answer.split([',', ' ']).filter(|word| !word.is_empty());
    let numbers: Option<BTreeSet<usize>> =
        words.map(|word| word.parse().ok().filter(|number| (1..=most).contains(number))).collect();
    numbers.filter(|numbers| !numbers.is_empty())
}

fn take_over(chosen: &[&Found], candidate: &mut Candidate) -> anyhow::Result<Status> {
    let mut added = 0;
    let mut variables = BTreeMap::new();
    let mut status = Status::Success;
    for found in chosen {
        match candidate.add(&found.name, &found.entry, &found.credentials, Existing::Keep) {
            Ok(()) => {
                added += 1;
                variables.extend(found.credentials.iter());
            }
            Err(error) => {
                eprintln!("error: cannot import {}: {error}\n  hint: {}", found.name, error.hint());
                status = Status::Failed;
            }
        }
    }
    if added > 0 {
        candidate.write()?;
        eprintln!("added {} to {}", counted(added, "server"), candidate.file().display());
        if !variables.is_empty() {
            let count = counted(variables.len(), "credential");
            eprintln!("{count} stored in {}, which only you can read", candidate.variables_file().display());
        }
        eprintln!("try them with `coracle servers test`");
    }
    Ok(status)
}

#[cfg(test)]
mod tests {
    use super::picked;

    #[test]
    fn only_valid_numbers_are_accepted() {
        let numbers = |answer| picked(answer, 3).map(|numbers| numbers.into_iter().collect::<Vec<_>>());
        assert_eq!(numbers("1,3"), Some(vec![1, 3]));
        assert_eq!(numbers("2 2, 1"), Some(vec![1, 2]));
        for bad in ["", "0", "4", "1,x", "-1", "all"] {
            assert_eq!(numbers(bad), None, "{bad}");
        }
    }
}
