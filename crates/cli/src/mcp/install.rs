//! Writes the entry that starts `coracle mcp` into the settings of a client, and shows the change first.

use crate::face::FaceArguments;
use crate::status::{Mistake, Status};
use anyhow::Context;
use coracle_config::install::{Entry, Target, install};
use std::fmt;
use std::io::{IsTerminal, Write};
use std::path::Path;
use std::str::FromStr;

/// Whose settings.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Client(Target);

impl FromStr for Client {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let target = match text {
            "claude" | "claude-code" => Target::ClaudeCode,
            "claude-desktop" => Target::ClaudeDesktop,
            "cursor" => Target::Cursor,
            "vscode" => Target::VsCode,
            "codex" => Target::Codex,
            _ => return Err("there are claude, claude-desktop, cursor, vscode and codex".to_owned()),
        };
        Ok(Self(target))
    }
}

impl fmt::Display for Client {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self.0 {
            Target::ClaudeCode => "Claude Code",
            Target::ClaudeDesktop => "Claude Desktop",
            Target::Cursor => "Cursor",
            Target::VsCode => "VS Code",
            Target::Codex => "Codex",
        })
    }
}

pub(super) fn run(
    client: Client,
    face: &FaceArguments,
    without_asking: bool,
    config: Option<&Path>,
) -> anyhow::Result<Status> {
    let file = client
        .0
        .file(&crate::settings::variables())
        .ok_or_else(|| Mistake::new("it is not known where your settings are", Some("set HOME to your home folder")))?;
    let old = match std::fs::read_to_string(&file) {
        Ok(text) => Some(text),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => None,
        Err(error) => return Err(error).with_context(|| format!("read {}", file.display())),
    };
    let entry = entry(face, config)?;
    let new = install(client.0, old.as_deref().unwrap_or_default(), &entry).map_err(|error| {
        let hint = format!("mend it, or add this by hand: {}", client.0.by_hand(&entry));
        Mistake::new(format!("{}: {error}", file.display()), Some(hint))
    })?;
    if old.as_deref() == Some(new.as_str()) {
        eprintln!("{client} starts coracle already ({})", file.display());
        return Ok(Status::Success);
    }
    print_change(&file, old.as_deref().unwrap_or_default(), &new)?;
    if !without_asking && !agreed(&file)? {
        eprintln!("nothing was changed");
        return Ok(Status::Failed);
    }
    write(&file, &new)?;
    eprintln!("written; restart {client}, and it has the tools of coracle");
    Ok(Status::Success)
}

/// This program, as it was started, with the same settings.
fn entry(face: &FaceArguments, config: Option<&Path>) -> anyhow::Result<Entry> {
    let program = std::env::current_exe().context("find this program")?;
    let text = |path: &Path| {
        path.to_str()
            .map(str::to_owned)
            .ok_or_else(|| Mistake::new(format!("{} is no text", path.display()), Some("move it to a path that is")))
    };
    let mut arguments = vec!["mcp".to_owned()];
    if let Some(config) = config {
        let config = config.canonicalize().with_context(|| format!("--config {}", config.display()))?;
        arguments.extend(["--config".to_owned(), text(&config)?]);
    }
    if let Some(profile) = face.profile {
        arguments.extend(["--profile".to_owned(), profile.to_string()]);
    }
    if let Some(tools) = &face.tools {
        arguments.extend(["--tools".to_owned(), tools.join(",")]);
    }
    if let Some(folder) = &face.workspace {
        let folder = folder.canonicalize().with_context(|| format!("--workspace {}", folder.display()))?;
        arguments.extend(["--workspace".to_owned(), text(&folder)?]);
    }
    if face.require_full_isolation {
        arguments.push("--require-full-isolation".to_owned());
    }
    // A client starts it in an environment of its own making.
    let home = std::env::var(coracle_config::HOME_VARIABLE).ok();
    let environment = home.map(|home| (coracle_config::HOME_VARIABLE.to_owned(), home)).into_iter().collect();
    Ok(Entry { command: text(&program)?, arguments, environment })
}

/// The lines that go and come, with a few around them.
fn print_change(file: &Path, old: &str, new: &str) -> anyhow::Result<()> {
    const AROUND: usize = 2;
    let (old, new): (Vec<&str>, Vec<&str>) = (old.lines().collect(), new.lines().collect());
    let same_before = old.iter().zip(&new).take_while(|(one, other)| one == other).count();
    let rest = old.len().min(new.len()) - same_before;
    let same_after = old.iter().rev().zip(new.iter().rev()).take(rest).take_while(|(one, other)| one == other).count();
    let mut text = format!("--- {0}\n+++ {0}\n", file.display());
    let mut add = |mark: char, line: &str| {
        text.push(mark);
        text.push_str(line);
        text.push('\n');
    };
    for line in &new[same_before.saturating_sub(AROUND)..same_before] {
        add(' ', line);
    }
    for line in &old[same_before..old.len() - same_after] {
        add('-', line);
    }
    for line in &new[same_before..new.len() - same_after] {
        add('+', line);
    }
    for line in new[new.len() - same_after..].iter().take(AROUND) {
        add(' ', line);
    }
    std::io::stdout().write_all(text.as_bytes()).context("print the change")
}

fn agreed(file: &Path) -> anyhow::Result<bool> {
    if !std::io::stdin().is_terminal() {
        return Err(Mistake::new("nobody can be asked", Some("add --yes to write it")).into());
    }
    eprint!("write {}? [y/N] ", file.display());
    let mut line = String::new();
    std::io::stdin().read_line(&mut line).context("read the answer")?;
    Ok(matches!(line.trim().to_lowercase().as_str(), "y" | "yes"))
}

/// Whole or not at all, with the rights that it had.
fn write(file: &Path, text: &str) -> anyhow::Result<()> {
    // A settings folder is often full of links.
    let file = file.canonicalize().unwrap_or_else(|_| file.to_owned());
    let folder = file.parent().context("the file has no folder")?;
    std::fs::create_dir_all(folder).with_context(|| format!("make {}", folder.display()))?;
    let mut fresh =
        tempfile::NamedTempFile::new_in(folder).with_context(|| format!("write to {}", folder.display()))?;
    fresh.write_all(text.as_bytes())?;
    if let Ok(metadata) = std::fs::metadata(&file) {
        fresh.as_file().set_permissions(metadata.permissions())?;
    }
    fresh.as_file().sync_all()?;
    fresh.persist(&file).with_context(|| format!("write {}", file.display()))?;
    Ok(())
}
