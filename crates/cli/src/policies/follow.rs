//! Takes up changes of the policy in the settings file while a server runs.

use super::policy;
use crate::output::plain;
use coracle_audit::{AuditLog, Entry, Event};
use coracle_config::{LoadOptions, Loaded};
use coracle_engine::Toolbox;
use std::fs;
use std::os::unix::fs::MetadataExt as _;
use std::path::Path;
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

/// What a policy is made from, to find out whether it has changed.
fn text(loaded: &Loaded) -> Vec<u8> {
    let servers = loaded.settings.mcp_servers.iter();
    let labels: Vec<_> = servers.map(|(name, entry)| (name, &entry.labels)).collect();
    serde_json::to_vec(&(&loaded.settings.policy, labels)).unwrap_or_default()
}

/// Follows changes until it is dropped. A policy with a mistake changes nothing: it is reported, and the one that is in
/// force stays.
pub(crate) async fn follow(options: LoadOptions, loaded: Loaded, toolbox: Arc<Toolbox>, audit: Arc<dyn AuditLog>) {
    let Some(file) = loaded.file.as_ref().map(|file| file.path.clone()) else { return };
    let mut applied = text(&loaded);
    // What was read before the server started may have changed since.
    let mut seen = None;
    loop {
        let path = file.clone();
        let Ok(now) = tokio::task::spawn_blocking(move || Some(stamp(&path))).await else { return };
        if now != seen {
            seen = now;
            match coracle_config::load(&options).map_err(anyhow::Error::from).and_then(|loaded| {
                let policy = policy(&loaded)?;
                Ok((loaded, policy))
            }) {
                Ok((loaded, policy)) => {
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
