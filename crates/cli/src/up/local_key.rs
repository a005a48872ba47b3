//! The key that clients of the agent send to a server without users.

use crate::status::Mistake;
use anyhow::Context;
use coracle_types::Secret;
use std::fs::{File, OpenOptions};
use std::io::{ErrorKind, Read, Write};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::Path;

/// Name of the file in the data folder.
pub(super) const FILE: &str = "api_key";
/// Beginning of a key, so that people and scanners recognise it.
const PREFIX: &str = "coracle_local_";
/// Maximum size of the file in bytes.
const MAX_BYTES: u64 = 1024;

/// Reads the key from the data folder. If there is none, creates one that only this user can read.
pub(super) fn read_or_create(home: &Path) -> anyhow::Result<Secret> {
    let path = home.join(FILE);
    match OpenOptions::new().write(true).create_new(true).mode(0o600).open(&path) {
        Ok(file) => create(file).map_err(|error| {
            // An incomplete file would be refused at the next start.
            let _ = std::fs::remove_file(&path);
            error.context(format!("cannot write {}", path.display()))
        }),
        Err(error) if error.kind() == ErrorKind::AlreadyExists => read(&path),
        Err(error) => Err(error).with_context(|| format!("cannot create {}", path.display())),
    }
}

fn create(mut file: File) -> anyhow::Result<Secret> {
    let mut bytes = [0; 24];
    getrandom::fill(&mut bytes).map_err(|error| anyhow::anyhow!("no random numbers: {error}"))?;
    let key = bytes.iter().fold(PREFIX.to_owned(), |key, byte| key + &format!("{byte:02x}"));
    writeln!(file, "{key}")?;
    file.sync_all()?;
    Ok(Secret::new(key))
}

fn read(path: &Path) -> anyhow::Result<Secret> {
    let file = File::open(path).with_context(|| format!("cannot read {}", path.display()))?;
    let metadata = file.metadata().with_context(|| format!("cannot read {}", path.display()))?;
    if metadata.mode() & 0o077 != 0 {
        let message = format!("{} can be read by other users, so it is not a secret", path.display());
        return Err(Mistake::new(message, Some("delete it: the next start creates a new one")).into());
    }
    let mut key = String::new();
    file.take(MAX_BYTES).read_to_string(&mut key).with_context(|| format!("cannot read {}", path.display()))?;
    let key = key.trim();
    if !key.starts_with(PREFIX)
        || key.len() <= PREFIX.len() + 16
        || !key.chars().all(|c| c.is_ascii_alphanumeric() || c == '_')
    {
        let message = format!("{} does not contain a key of Coracle", path.display());
        return Err(Mistake::new(message, Some("delete it: the next start creates a new one")).into());
    }
    Ok(Secret::new(key))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs::Permissions;
    use std::os::unix::fs::PermissionsExt;

    #[test]
    fn a_key_is_created_once_and_private() {
        let home = tempfile::tempdir().unwrap();
        let key = read_or_create(home.path()).unwrap();
        assert_eq!(read_or_create(home.path()).unwrap(), key);
        let path = home.path().join(FILE);
        assert_eq!(std::fs::metadata(&path).unwrap().mode() & 0o777, 0o600);
        std::fs::set_permissions(&path, Permissions::from_mode(0o644)).unwrap();
        assert!(read_or_create(home.path()).unwrap_err().to_string().contains("other users"));
        std::fs::write(&path, "password").unwrap();
        std::fs::set_permissions(&path, Permissions::from_mode(0o600)).unwrap();
        assert!(read_or_create(home.path()).unwrap_err().to_string().contains("does not contain a key"));
    }
}
