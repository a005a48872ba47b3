//! Record of what `coracle mcp --install` changed, for `--uninstall`.
//!
//! `CORACLE_HOME/clients/CLIENT/` contains the original files and a digest of each one as Coracle left it. A file that
//! was not changed since is restored byte for byte. These files may contain credentials: only their owner can read
//! them, and they are not part of a backup.

use crate::variables;
use anyhow::Context;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use sha2::{Digest, Sha256};
use std::collections::BTreeMap;
use std::fs::{self, DirBuilder, OpenOptions};
use std::io::{ErrorKind, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

/// File with the list of changes.
const STATE: &str = "state.json";

/// Changes for one client.
#[derive(Debug, Default, Deserialize, Serialize)]
pub(super) struct Undo {
    files: Vec<Saved>,
    /// Servers that were moved to Coracle, by their names in the client's file.
    pub(super) moved: BTreeMap<String, Value>,
}

#[derive(Debug, Deserialize, Serialize)]
struct Saved {
    path: PathBuf,
    /// Whether the file existed before.
    existed: bool,
    /// Digest of the file as Coracle left it; `None` if it was changed between two of Coracle's changes.
    left: Option<String>,
}

/// How a file can be restored.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Before {
    /// Unchanged since, with the original content, or `None` if there was no file.
    Exact(Option<Vec<u8>>),
    /// Changed since.
    Changed,
}

fn folder(client: &str) -> anyhow::Result<PathBuf> {
    Ok(variables::home()?.join("clients").join(client))
}

impl Undo {
    /// Reads the record of a client; `None` if nothing was changed.
    pub(super) fn read(client: &str) -> anyhow::Result<Option<Self>> {
        let path = folder(client)?.join(STATE);
        match fs::read(&path) {
            Ok(bytes) => {
                let undo = serde_json::from_slice(&bytes);
                Ok(Some(undo.with_context(|| format!("{} is damaged: delete it", path.display()))?))
            }
            Err(error) if error.kind() == ErrorKind::NotFound => Ok(None),
            Err(error) => Err(error).with_context(|| format!("cannot read {}", path.display())),
        }
    }

    /// Saves files before they are changed. A file that is already saved keeps its first state.
    pub(super) fn save(&mut self, client: &str, paths: &[&Path]) -> anyhow::Result<()> {
        let folder = folder(client)?;
        DirBuilder::new()
            .recursive(true)
            .mode(0o700)
            .create(&folder)
            .with_context(|| format!("cannot create {}", folder.display()))?;
        for path in paths {
            let now = content(path)?;
            if let Some(known) = self.files.iter_mut().find(|known| known.path == **path) {
                if known.left != now.as_deref().map(digest) {
                    known.left = None;
                }
                continue;
            }
            let copy = folder.join(self.files.len().to_string());
            if let Some(bytes) = &now {
                private(&copy, bytes)?;
            }
            self.files.push(Saved { path: path.to_path_buf(), existed: now.is_some(), left: Some(String::new()) });
        }
        self.write(client)
    }

    /// Records how Coracle left the files.
    pub(super) fn done(&mut self, client: &str) -> anyhow::Result<()> {
        for saved in &mut self.files {
            if saved.left.is_some() {
                saved.left = content(&saved.path)?.as_deref().map(digest);
            }
        }
        self.write(client)
    }

    fn write(&self, client: &str) -> anyhow::Result<()> {
        private(
            &folder(client)?.join(STATE),
            &serde_json::to_vec_pretty(self).context("cannot write the list of changes")?,
        )
    }

    /// Returns each file and how it can be restored.
    pub(super) fn before(&self, client: &str) -> anyhow::Result<Vec<(PathBuf, Before)>> {
        let folder = folder(client)?;
        let mut all = Vec::new();
        for (number, saved) in self.files.iter().enumerate() {
            let is_ours = saved.left.is_some() && saved.left == content(&saved.path)?.as_deref().map(digest);
            let before = match (is_ours, saved.existed) {
                (false, _) => Before::Changed,
                (true, false) => Before::Exact(None),
                (true, true) => {
                    let copy = folder.join(number.to_string());
                    let bytes = fs::read(&copy).with_context(|| format!("cannot read {}", copy.display()))?;
                    Before::Exact(Some(bytes))
                }
            };
            all.push((saved.path.clone(), before));
        }
        Ok(all)
    }

    /// Deletes the record of a client.
    pub(super) fn forget(client: &str) -> anyhow::Result<()> {
        let folder = folder(client)?;
        match fs::remove_dir_all(&folder) {
            Err(error) if error.kind() != ErrorKind::NotFound => {
                Err(error).with_context(|| format!("cannot remove {}", folder.display()))
            }
            _ => Ok(()),
        }
    }
}

fn content(path: &Path) -> anyhow::Result<Option<Vec<u8>>> {
    match fs::read(path) {
        Ok(bytes) => Ok(Some(bytes)),
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(None),
        Err(error) => Err(error).with_context(|| format!("cannot read {}", path.display())),
    }
}

fn digest(bytes: &[u8]) -> String {
    hex::encode(Sha256::digest(bytes))
}

/// Writes a file atomically, readable only for its owner.
fn private(path: &Path, bytes: &[u8]) -> anyhow::Result<()> {
    let fresh = path.with_extension("new");
    let opened = OpenOptions::new().write(true).create(true).truncate(true).mode(0o600).open(&fresh);
    let written = opened.and_then(|mut file| {
        file.write_all(bytes)?;
        file.sync_all()
    });
    written.and_then(|()| fs::rename(&fresh, path)).with_context(|| format!("cannot write {}", path.display()))
}
