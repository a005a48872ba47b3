//! Takes up changes of the policy while a server runs: in the settings file, and in Cedar files.

use super::{PolicyInForce, PolicyText};
use crate::output::plain;
use coracle_audit::{AuditLog, Entry, Event};
use coracle_config::Loaded;
use std::fs;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

/// How often the file is looked at.
const EVERY: Duration = Duration::from_secs(1);
/// Maximum length of a message in characters.
const MAX_MESSAGE: usize = 2_000;

/// What is known of a file: device, inode, length and time of the last change.
type Stamp = Option<(u64, u64, u64, i64, i64)>;

fn stamp(path: &Path) -> Stamp {
    let of = fs::metadata(path).ok()?;
    Some((of.dev(), of.ino(), of.len(), of.mtime(), of.mtime_nsec()))
}

/// The files that a policy is read from, as they were seen last.
#[derive(Debug, Default, PartialEq, Eq)]
struct Seen(Vec<(PathBuf, Stamp)>);

impl Seen {
    fn of(files: &[PathBuf]) -> Self {
        let mut all: Vec<PathBuf> = Vec::new();
        for path in files {
            all.push(path.clone());
            // The time of a folder does not change with the texts of its files.
            let Ok(entries) = fs::read_dir(path) else { continue };
            let mut inside: Vec<PathBuf> = entries.flatten().map(|entry| entry.path()).collect();
            inside.sort();
            all.append(&mut inside);
        }
        Self(all.into_iter().map(|path| (stamp(&path), path)).map(|(stamp, path)| (path, stamp)).collect())
    }
}

/// The files and folders that have the policy.
fn watched(loaded: &Loaded) -> Vec<PathBuf> {
    let settings = loaded.file.iter().map(|file| file.path.clone());
    settings.chain(loaded.settings.policy.files.iter().cloned()).collect()
}

/// Follows changes until it is dropped. A policy with an error changes nothing: it is reported, and the one that is in
/// force stays.
pub(crate) async fn follow(policy: Arc<PolicyInForce>, loaded: Loaded, audit: Arc<dyn AuditLog>) {
    let mut files = watched(&loaded);
    if files.is_empty() {
        return;
    }
    // What was read before the server started may have changed since.
    let mut seen = Seen::default();
    loop {
        let (of, policy) = (files.clone(), Arc::clone(&policy));
        let looked = tokio::task::spawn_blocking(move || {
            let now = Seen::of(&of);
            let taken = (now != seen).then(|| policy.take_up());
            // Also with an error: a file that is named and not there yet is waited for.
            let named = taken.as_ref().and_then(|_| policy.load().ok()).map(|loaded| watched(&loaded));
            (now, taken, named)
        });
        let Ok((now, taken, named)) = looked.await else { return };
        seen = now;
        files = named.unwrap_or(files);
        match taken {
            None | Some(Ok(None)) => {}
            Some(Ok(Some(text))) => {
                record(&*audit, &text).await;
                tracing::info!("the policy was changed");
            }
            Some(Err(error)) => {
                let message = plain(&format!("{error:#}").replace('\n', "; "), MAX_MESSAGE);
                eprintln!("warning: the policy stays as it was: {message}");
            }
        }
        tokio::time::sleep(EVERY).await;
    }
}

async fn record(audit: &dyn AuditLog, text: &PolicyText) {
    match audit.digest(text.bytes()).await {
        Ok(policy) => audit.append_later(Entry::of_operator(Event::PolicyReloaded { policy })),
        Err(error) => tracing::warn!(%error, "a change of the policy is not in the audit log"),
    }
}
