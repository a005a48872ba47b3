//! Takes up changes of the policy while a server runs: of its files, and of its section of the settings.

use super::policy;
use crate::output::plain;
use coracle_audit::{AuditLog, Entry, Event};
use coracle_config::{LoadOptions, Loaded};
use coracle_engine::Toolbox;
use coracle_policy::{PolicyFile, policy_files};
use std::fs;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

/// How often the files are looked at.
const EVERY: Duration = Duration::from_secs(1);
/// Maximum length of a message in characters.
const MAX_MESSAGE: usize = 2_000;

/// What is known of a file: device, inode, length and time of the last change.
type Stamp = Option<(u64, u64, u64, i64, i64)>;

/// The files of a policy as they were seen last.
#[derive(Debug, PartialEq, Eq)]
struct Seen(Vec<(PathBuf, Stamp)>);

impl Seen {
    fn of(settings: Option<&Path>, files: &[PathBuf]) -> Self {
        let mut all: Vec<(PathBuf, Stamp)> = Vec::new();
        let mut add = |path: &Path| {
            let stamp = fs::metadata(path).ok();
            let stamp = stamp.map(|of| (of.dev(), of.ino(), of.len(), of.mtime(), of.mtime_nsec()));
            all.push((path.to_owned(), stamp));
        };
        settings.into_iter().chain(files.iter().map(PathBuf::as_path)).for_each(&mut add);
        for folder in files {
            let Ok(entries) = fs::read_dir(folder) else { continue };
            let mut names: Vec<PathBuf> = entries.flatten().map(|entry| entry.path()).collect();
            names.sort();
            names.iter().for_each(|path| add(path));
        }
        Self(all)
    }
}

/// What a policy is made from, to find out whether it has changed.
fn text(loaded: &Loaded) -> Vec<u8> {
    let files: Vec<(String, String)> = policy_files(&loaded.settings.policy.files)
        .map(|files| files.into_iter().map(|PolicyFile { path, text }| (path, text)).collect())
        .unwrap_or_default();
    serde_json::to_vec(&(&loaded.settings.policy, files)).unwrap_or_default()
}

/// Follows changes until it is dropped. A policy with a mistake changes nothing: it is reported, and the one that is in
/// force stays.
pub(crate) async fn follow(options: LoadOptions, loaded: Loaded, toolbox: Arc<Toolbox>, audit: Arc<dyn AuditLog>) {
    let watched =
        |loaded: &Loaded| (loaded.file.as_ref().map(|file| file.path.clone()), loaded.settings.policy.files.clone());
    let (mut settings, mut files) = watched(&loaded);
    let mut applied = text(&loaded);
    // What was read before the server started may have changed since.
    let mut seen = Seen(Vec::new());
    loop {
        let (of, named) = (settings.clone(), files.clone());
        let Ok(now) = tokio::task::spawn_blocking(move || Seen::of(of.as_deref(), &named)).await else { return };
        if now != seen {
            seen = now;
            match coracle_config::load(&options).map_err(anyhow::Error::from).and_then(|loaded| {
                let policy = policy(&loaded)?;
                Ok((loaded, policy))
            }) {
                Ok((loaded, policy)) => {
                    (settings, files) = watched(&loaded);
                    let read = text(&loaded);
                    if read != applied {
                        toolbox.approvals().replace_policy(policy);
                        record(&*audit, &read).await;
                        applied = read;
                        tracing::info!("the policy was changed");
                    }
                }
                Err(error) => {
                    let message = plain(&format!("{error:#}").replace('\n', "; "), MAX_MESSAGE);
                    eprintln!("warning: the policy stays as it was: {message}");
                }
            }
        }
        tokio::time::sleep(EVERY).await;
    }
}

async fn record(audit: &dyn AuditLog, text: &[u8]) {
    match audit.digest(text).await {
        Ok(policy) => audit.append_later(Entry::of_operator(Event::PolicyReloaded { policy })),
        Err(error) => tracing::warn!(%error, "a change of the policy is not in the audit log"),
    }
}
