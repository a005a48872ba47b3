//! Settings of earlier tools: the file `config.yaml`, and variables without our prefix.
//!
//! Unknown settings in their file, and settings that cannot be followed, are ignored with a warning. In our own file
//! they are errors.

use crate::gather::Gathered;
use crate::problem::{Reason, Warning};
use crate::yaml::{Content, Node};
use crate::{Origin, SandboxType, Settings};
use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

/// The name of their settings file. Many other programs use the same name.
pub(crate) const FILE_NAME: &str = "config.yaml";

/// Sections and names that only their file has. One of them is enough to recognise it.
const MARKS: [(&str, &[&str]); 2] = [
    (
        "execution",
        &["workspace_dir", "servers_dir", "skills_dir", "sandbox_type", "sandbox_image", "allow_network_access"],
    ),
    ("guardrails", &["strict_mode", "security_checks", "max_execution_time", "max_memory_mb"]),
];

/// Folders that they create in a workspace.
const THEIR_FOLDERS: [&str; 5] = ["client", "servers", "skills", "sessions", "state"];

/// The workspace of the local user, in our folder of workspaces.
const OUR_FOLDER: &str = "local";

/// Whether a file with this name and content is one of theirs.
pub(crate) fn is_theirs(path: &Path, root: &Node) -> bool {
    let Content::Map(sections) = &root.content else { return false };
    let is_marked = |(section, marks): &(&str, &[&str])| {
        let found = sections.iter().find(|(name, _)| name.text == *section).map(|(_, node)| &node.content);
        matches!(found, Some(Content::Map(entries)) if entries.iter().any(|(name, _)| marks.contains(&name.text.as_str())))
    };
    path.file_name().is_some_and(|name| name == FILE_NAME) && MARKS.iter().any(is_marked)
}

/// Turns problems about unknown keys in their file into warnings.
pub(crate) fn forgive(gathered: &mut Gathered) {
    let problems = std::mem::take(&mut gathered.problems);
    let (unknown, others) = problems.into_iter().partition(|one| matches!(one.reason, Reason::UnknownKey { .. }));
    gathered.problems = others;
    for problem in unknown {
        let message = format!("`{}` is not a setting of Coracle, and is ignored", problem.key);
        gathered.warnings.push(Warning { origin: problem.origin, message });
    }
}

/// Whether a value comes from their file, or from a variable without our prefix.
fn is_earlier(origin: &Origin) -> bool {
    match origin {
        Origin::File { path, .. } => path.file_name().is_some_and(|name| name == FILE_NAME),
        Origin::Env { name } | Origin::DotEnv { name, .. } => !name.starts_with("CORACLE_"),
        Origin::Default | Origin::Flag { .. } => false,
    }
}

/// Handles settings of theirs that mean something else here or cannot be followed. Returns the folder that was itself
/// the workspace, if there is one.
pub(crate) fn settle(
    settings: &mut Settings,
    origins: &mut BTreeMap<String, Origin>,
    warnings: &mut Vec<Warning>,
) -> Option<PathBuf> {
    let execution = &mut settings.execution;
    let mut take = |key: &str| match origins.get(key) {
        Some(origin) if is_earlier(origin) => origins.remove(key),
        _ => None,
    };
    let mut say = |origin: Origin, message: String| warnings.push(Warning { origin, message });
    if !matches!(execution.sandbox_type, SandboxType::Native | SandboxType::Docker)
        && let Some(origin) = take("execution.sandbox_type")
    {
        execution.sandbox_type = SandboxType::Native;
        say(origin, "sandboxes of this type are not available: code runs in `native` ones".to_owned());
    }
    if execution.allow_network_access
        && let Some(origin) = take("execution.allow_network_access")
    {
        execution.allow_network_access = false;
        say(origin, "sandboxes have no network: the setting is ignored".to_owned());
    }
    for (key, folder) in [("skills_dir", &mut execution.skills_dir), ("tools_dir", &mut execution.tools_dir)] {
        if let Some(missing) = folder.as_ref().filter(|folder| !folder.exists())
            && let Some(origin) = take(&format!("execution.{key}"))
        {
            say(origin, format!("`execution.{key}` is ignored: there is no folder {}", missing.display()));
            *folder = None;
        }
    }
    let folder = execution.workspace_dir.as_ref().filter(|folder| is_workspace(folder))?.clone();
    let origin = take("execution.workspace_dir")?;
    execution.workspace_dir = None;
    let message = format!(
        "{} is a workspace itself, not a folder of workspaces: it is used as /workspace (as with --workspace), and users \
         who sign in have theirs in the data folder",
        folder.display()
    );
    say(origin, message);
    Some(folder)
}

/// Whether a folder holds the files of a workspace, rather than folders of users.
fn is_workspace(folder: &Path) -> bool {
    let entries: Vec<fs::DirEntry> = fs::read_dir(folder).into_iter().flatten().flatten().collect();
    let is_folder = |entry: &fs::DirEntry| entry.file_type().is_ok_and(|kind| kind.is_dir());
    let is_theirs = |entry: &fs::DirEntry| {
        let name = entry.file_name();
        let name = name.to_str().unwrap_or_default();
        if is_folder(entry) { THEIR_FOLDERS.contains(&name) } else { !name.starts_with('.') }
    };
    entries.iter().any(is_theirs) && !entries.iter().any(|entry| is_folder(entry) && entry.file_name() == OUR_FOLDER)
}
