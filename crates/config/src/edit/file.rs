use crate::edit::EditError;
use crate::reader::{MAX_FILE_BYTES, read_text};
use std::io::Write;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

/// Reads the text of a file, which is empty if there is no such file.
pub fn read(path: &Path) -> Result<String, EditError> {
    let failed = |reason| EditError::File { act: "read", path: path.to_owned(), reason };
    read_text(path, MAX_FILE_BYTES).map(Option::unwrap_or_default).map_err(failed)
}

/// Writes a file atomically. A new file is readable only by its owner; an existing one keeps its mode and owner.
pub fn write(path: &Path, text: &str) -> Result<(), EditError> {
    replace(path, text).map_err(|error| EditError::File {
        act: "write",
        path: path.to_owned(),
        reason: error.to_string(),
    })
}

fn replace(path: &Path, text: &str) -> std::io::Result<()> {
    // If the path is a link, its target is replaced and not the link.
    let target = std::fs::canonicalize(path).unwrap_or_else(|_| path.to_owned());
    let folder = target.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    std::fs::create_dir_all(folder)?;
    let mut file = tempfile::Builder::new().prefix(".coracle-").tempfile_in(folder)?;
    file.write_all(text.as_bytes())?;
    if let Ok(old) = target.metadata() {
        let new = file.as_file().metadata()?;
        if (old.uid(), old.gid()) != (new.uid(), new.gid()) {
            let owner = (rustix::fs::Uid::from_raw(old.uid()), rustix::fs::Gid::from_raw(old.gid()));
            rustix::fs::fchown(file.as_file(), Some(owner.0), Some(owner.1))?;
        }
        file.as_file().set_permissions(old.permissions())?;
    }
    file.as_file().sync_all()?;
    file.persist(&target)?;
    Ok(())
}
