//! `coracle users list`: all users, with the size of their workspaces.

use super::told;
use crate::output::{columns, json, plain};
use crate::wiring::workspaces;
use clap::Args;
use coracle_accounts::People;
use coracle_config::Loaded;
use coracle_server::AccountView;
use coracle_store::User;
use serde::Serialize;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

/// Maximum length of a printed name in characters.
const MAX_NAME: usize = 40;

#[derive(Debug, Args)]
pub(super) struct ListArguments {
    /// Print JSON instead of a table.
    #[arg(long)]
    json: bool,
}

/// Size of a workspace.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Usage {
    pub(super) files: u64,
    pub(super) bytes: u64,
}

/// Counts files without following links. Folders that cannot be read do not count.
pub(super) fn usage(folder: &Path) -> Usage {
    let mut usage = Usage::default();
    let mut folders: Vec<PathBuf> = vec![folder.to_owned()];
    while let Some(folder) = folders.pop() {
        let Ok(entries) = std::fs::read_dir(&folder) else { continue };
        for entry in entries.flatten() {
            // Type of the entry itself, without following links.
            let Ok(kind) = entry.file_type() else { continue };
            if kind.is_dir() {
                folders.push(entry.path());
            } else if kind.is_file() {
                usage.files += 1;
                usage.bytes += entry.metadata().map_or(0, |metadata| metadata.len());
            }
        }
    }
    usage
}

pub(super) async fn run(arguments: &ListArguments, people: &People, loaded: &Loaded) -> anyhow::Result<()> {
    let users = people.all().await.map_err(told)?;
    let folder = workspaces(&loaded.settings)?;
    let now = SystemTime::now();
    let with_usage = users.iter().map(|user| {
        let own = folder.join(user.id.as_str());
        // A link in place of a workspace does not count.
        let is_real = own.symlink_metadata().is_ok_and(|metadata| metadata.is_dir());
        (user, if is_real { usage(&own) } else { Usage::default() })
    });
    if arguments.json {
        let rows: Vec<Row> = with_usage.map(|(user, usage)| row(user, usage)).collect();
        print!("{}", json(&rows)?);
        return Ok(());
    }
    if users.is_empty() {
        eprintln!(
            "there are no users: everything belongs to the local user. coracle users add NAME --admin adds the first one"
        );
        return Ok(());
    }
    let head = ["NAME", "ROLE", "STATE", "LAST SEEN", "FILES", "SIZE", "CALLED"].map(str::to_owned);
    let rows = with_usage.map(|(user, usage)| {
        [
            user.id.to_string(),
            user.role.as_str().to_owned(),
            state(user).to_owned(),
            user.last_seen.map_or_else(|| "never".to_owned(), |seen| ago(seen, now)),
            usage.files.to_string(),
            size(usage.bytes),
            user.display_name.as_deref().map(|name| plain(name, MAX_NAME)).unwrap_or_default(),
        ]
    });
    print!("{}", columns(std::iter::once(head).chain(rows)));
    Ok(())
}

/// An account with the size of its workspace.
#[derive(Serialize)]
struct Row {
    #[serde(flatten)]
    account: AccountView,
    workspace: WorkspaceSize,
}

#[derive(Serialize)]
struct WorkspaceSize {
    files: u64,
    bytes: u64,
}

fn row(user: &User, usage: Usage) -> Row {
    Row { account: user.into(), workspace: WorkspaceSize { files: usage.files, bytes: usage.bytes } }
}

fn state(user: &User) -> &'static str {
    match (user.disabled, &user.password, &user.foreign) {
        (true, ..) => "disabled",
        (_, None, None) => "no password",
        _ => "active",
    }
}

/// Formats the time since a moment, rounded.
pub(super) fn ago(time: SystemTime, now: SystemTime) -> String {
    let seconds = now.duration_since(time).map_or(0, |since| since.as_secs());
    match seconds {
        0..120 => "just now".to_owned(),
        120..7_200 => format!("{} min ago", seconds / 60),
        7_200..172_800 => format!("{} h ago", seconds / 3_600),
        _ => format!("{} days ago", seconds / 86_400),
    }
}

pub(super) fn size(bytes: u64) -> String {
    let (unit, name) = match bytes {
        0..1_024 => return format!("{bytes} B"),
        1_024..1_048_576 => (1 << 10, "KiB"),
        1_048_576..1_073_741_824 => (1 << 20, "MiB"),
        _ => (1 << 30, "GiB"),
    };
    let tenths = bytes.saturating_mul(10) / unit;
    format!("{}.{} {name}", tenths / 10, tenths % 10)
}

#[cfg(test)]
mod tests {
    use super::{Usage, ago, size, usage};
    use std::time::{Duration, UNIX_EPOCH};

    #[test]
    fn links_are_not_followed() {
        let folder = tempfile::tempdir().unwrap();
        let own = folder.path().join("ann");
        std::fs::create_dir_all(own.join("deep/er")).unwrap();
        std::fs::write(own.join("deep/er/file"), [0; 1000]).unwrap();
        std::fs::write(own.join("other"), [0; 24]).unwrap();
        std::fs::write(folder.path().join("bobs"), [0; 4096]).unwrap();
        std::os::unix::fs::symlink(folder.path(), own.join("up")).unwrap();
        std::os::unix::fs::symlink(folder.path().join("bobs"), own.join("file")).unwrap();
        assert_eq!(usage(&own), Usage { files: 2, bytes: 1024 });
        assert_eq!(usage(&own.join("none")), Usage::default());
    }

    #[test]
    fn times_and_sizes_are_rounded() {
        let later = |seconds| ago(UNIX_EPOCH, UNIX_EPOCH + Duration::from_secs(seconds));
        assert_eq!(
            [later(5), later(600), later(7_200), later(900_000)],
            ["just now", "10 min ago", "2 h ago", "10 days ago"]
        );
        assert_eq!([size(5), size(1_536), size(3 << 20), size(5 << 30)], ["5 B", "1.5 KiB", "3.0 MiB", "5.0 GiB"]);
    }
}
