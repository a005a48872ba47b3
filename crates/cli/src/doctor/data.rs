//! Checks the data folder: whether it can be written and has room, and whether the database and the master key are
//! usable.

use super::report::{Check, Outcome};
use crate::variables;
use coracle_config::{KEY_COMMAND_VARIABLE, KEY_VARIABLE};
use coracle_store::{Home, KeySource, SqliteStore, Store, StoreError};
use std::path::Path;

/// Less free space than this is reported.
const LITTLE: u64 = 256 << 20;

pub(super) async fn examine() -> Vec<Check> {
    let home = match variables::home() {
        Ok(home) => Home::new(home),
        Err(error) => return vec![Check::new("data folder", Outcome::Failed, format!("{error:#}"))],
    };
    let mut checks = vec![room(home.root())];
    checks.extend(store(&home).await);
    checks
}

fn room(root: &Path) -> Check {
    let name = root.display();
    // The folder is created when something is first stored.
    let there = root.ancestors().find(|folder| folder.is_dir()).unwrap_or(root);
    match tempfile::tempfile_in(there).and_then(|_| Ok(rustix::fs::statvfs(there)?)) {
        Err(error) => Check::new("data folder", Outcome::Failed, format!("cannot write to {name}: {error}"))
            .with_fix(vec!["make it writable, or set CORACLE_HOME to another folder".to_owned()]),
        Ok(found) => {
            let free = found.f_bavail.saturating_mul(found.f_frsize);
            let detail = format!("{name}, {} MB free", free / 1_000_000);
            if free < LITTLE {
                Check::new("data folder", Outcome::Weak, detail).with_fix(vec!["free some disk space".to_owned()])
            } else {
                Check::new("data folder", Outcome::Ok, detail)
            }
        }
    }
}

async fn store(home: &Home) -> Vec<Check> {
    let name = home.database().display().to_string();
    if !home.database().exists() {
        return vec![Check::new("database", Outcome::Absent, format!("{name}: none yet"))];
    }
    let source = match variables::key_source() {
        Ok(source) => source,
        Err(error) => return vec![Check::new("master key", Outcome::Failed, format!("{error:#}"))],
    };
    let examined = async {
        home.look()?;
        let store = SqliteStore::open(home, source.clone()).await?;
        store.examine().await?;
        let ready = store.ready().await;
        store.close().await;
        Ok::<_, StoreError>(ready)
    };
    let sound = || Check::new("database", Outcome::Ok, format!("{name}: intact and writable"));
    match examined.await {
        Ok(Err(error @ StoreError::Key(_))) => vec![sound(), failed("master key", &error)],
        Err(error) | Ok(Err(error)) => vec![failed("database", &error)],
        Ok(Ok(())) => vec![sound(), key(home, &source)],
    }
}

fn failed(name: &str, error: &StoreError) -> Check {
    Check::new(name, Outcome::Failed, error.to_string()).with_fix(error.hint().into_iter().collect())
}

/// Checks the master key: either nothing is encrypted yet, or everything can be decrypted.
fn key(home: &Home, source: &KeySource) -> Check {
    let path = home.master_key();
    let elsewhere = match source {
        KeySource::File => None,
        KeySource::Given(_) => Some(KEY_VARIABLE),
        KeySource::Command(_) => Some(KEY_COMMAND_VARIABLE),
    };
    if let Some(variable) = elsewhere {
        Check::new("master key", Outcome::Ok, format!("from {variable}: decrypts everything that is stored"))
    } else if path.exists() {
        Check::new("master key", Outcome::Ok, format!("{}: decrypts everything that is stored", path.display()))
    } else {
        Check::new("master key", Outcome::Absent, "none yet: it is created with the first secret")
    }
}
