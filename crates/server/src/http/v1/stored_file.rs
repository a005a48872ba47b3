//! Uploaded files: where they are in the workspace, and what their names say about them.
//!
//! There is no index: the name of a file in the folder `uploads` consists of its ID and its own name, and the ID of the
//! time, a random number and the purpose. Code of the user can read the files, and also delete or change them.

use crate::http::problem::ApiError;
use crate::mcp::{Frontend, with_files};
use coracle_engine::{FileError, FileInfo, FileKind, Listed, WorkspaceFiles};
use serde_json::{Value, json};
use std::time::SystemTime;

/// The folder of uploaded files in the workspace.
pub(super) const FOLDER: &str = "uploads";
/// What IDs begin with.
const PREFIX: &str = "file-";
/// Length of an ID: prefix, seconds and random number in hexadecimal, and the purpose.
const ID_LENGTH: usize = PREFIX.len() + 8 + 16 + 1;
/// Maximum length of the name of a file, in bytes.
const MAX_NAME_BYTES: usize = 180;
/// Purposes, and the last letter of the IDs of their files.
const PURPOSES: [(&str, char); 6] =
    [("assistants", 'a'), ("batch", 'b'), ("evals", 'e'), ("fine-tune", 'f'), ("user_data", 'u'), ("vision", 'v')];

/// An uploaded file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct StoredFile {
    pub(super) id: String,
    pub(super) name: String,
    pub(super) purpose: &'static str,
    pub(super) bytes: u64,
    pub(super) created_at: u64,
}

/// The purpose with this name.
pub(super) fn purpose(name: &str) -> Option<&'static str> {
    PURPOSES.iter().find(|(known, _)| *known == name).map(|(known, _)| *known)
}

/// All purposes, for an error.
pub(super) fn purposes() -> String {
    PURPOSES.map(|(name, _)| name).join(", ")
}

impl StoredFile {
    /// A file that does not exist yet.
    pub(super) fn new(name: &str, purpose: &'static str) -> Result<Self, ApiError> {
        let seconds = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).map_or(0, |time| time.as_secs());
        let seconds = u32::try_from(seconds).unwrap_or(u32::MAX);
        let random = getrandom::u64().map_err(|error| ApiError::internal("name a file", error))?;
        let letter = PURPOSES.iter().find(|(known, _)| *known == purpose).map_or('u', |(_, letter)| *letter);
        let id = format!("{PREFIX}{seconds:08x}{random:016x}{letter}");
        Ok(Self { id, name: safe_name(name), purpose, bytes: 0, created_at: u64::from(seconds) })
    }

    /// The file behind an entry of the folder, if it is one.
    fn of(info: &FileInfo) -> Option<Self> {
        let entry = info.path.strip_prefix(FOLDER)?.strip_prefix('/')?;
        let (id, name) = (entry.get(..ID_LENGTH)?, entry.get(ID_LENGTH..)?.strip_prefix('-')?);
        let (digits, letter) = id.strip_prefix(PREFIX)?.split_at_checked(24)?;
        let is_file = info.kind == FileKind::File && digits.bytes().all(|byte| byte.is_ascii_hexdigit());
        let created_at = u64::from(u32::from_str_radix(digits.get(..8)?, 16).ok()?);
        let purpose = PURPOSES.iter().find(|(_, known)| letter.starts_with(*known))?.0;
        (is_file && !name.is_empty()).then(|| Self {
            id: id.to_owned(),
            name: name.to_owned(),
            purpose,
            bytes: info.bytes,
            created_at,
        })
    }

    /// The path relative to the workspace.
    pub(super) fn path(&self) -> String {
        format!("{FOLDER}/{}-{}", self.id, self.name)
    }

    /// The path as code sees it.
    pub(super) fn path_for_code(&self) -> String {
        WorkspaceFiles::seen_at(&self.path())
    }

    /// The file as clients see it.
    pub(super) fn view(&self) -> Value {
        json!({
            "id": self.id, "object": "file", "bytes": self.bytes, "created_at": self.created_at, "expires_at": null,
            "filename": self.name, "purpose": self.purpose, "status": "processed", "status_details": null,
        })
    }
}

/// The uploaded files of a user, oldest first, and whether there are more.
pub(super) async fn all(frontend: &Frontend) -> Result<(Vec<StoredFile>, bool), ApiError> {
    let listed = with_files(frontend, |files| match files.list(FOLDER, Listed::Here) {
        Err(FileError::Missing { .. }) => Ok((Vec::new(), false)),
        other => other.map(|list| (list.files, list.truncated)),
    });
    let (entries, truncated) = listed.await?;
    Ok((entries.iter().filter_map(StoredFile::of).collect(), truncated))
}

/// An uploaded file of a user.
pub(super) async fn find(frontend: &Frontend, id: &str) -> Result<StoredFile, ApiError> {
    let (files, _) = all(frontend).await?;
    files.into_iter().find(|file| file.id == id).ok_or_else(|| {
        let shown: String = id.chars().take(80).collect();
        ApiError::missing(format!("file `{shown}` not found"))
    })
}

/// A name that fits into a folder. Names come from clients.
fn safe_name(name: &str) -> String {
    let last = name.rsplit(['/', '\\']).next().unwrap_or_default();
    let plain: String = last.chars().filter(|c| !c.is_control() && !coracle_types::is_hidden(*c)).collect();
    let plain = plain.trim().trim_start_matches('.');
    if plain.is_empty() {
        return "file".to_owned();
    }
    if plain.len() <= MAX_NAME_BYTES {
        return plain.to_owned();
    }
    // The extension says what is in the file.
    let ending = plain.rsplit_once('.').map_or("", |(_, ending)| ending);
    let ending = if ending.len() <= 16 && !ending.is_empty() { format!(".{ending}") } else { String::new() };
    let rest = plain.floor_char_boundary(MAX_NAME_BYTES - ending.len());
    format!("{}{ending}", &plain[..rest])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_clients_stay_in_the_folder() {
        for (name, expected) in [
            ("data.csv", "data.csv"),
            ("../../etc/passwd", "passwd"),
            ("C:\\files\\a b.txt", "a b.txt"),
            ("..", "file"),
            (".bashrc", "bashrc"),
            ("", "file"),
            ("a\u{202e}\n.png", "a.png"),
        ] {
            assert_eq!(safe_name(name), expected);
        }
        let long = safe_name(&format!("{}.csv", "ü".repeat(200)));
        assert!(long.len() <= MAX_NAME_BYTES && long.ends_with("ü.csv"), "{long}");
    }

    #[test]
    fn a_purpose_is_part_of_the_id() {
        for (name, letter) in PURPOSES {
            let file = StoredFile::new("a.csv", purpose(name).unwrap()).unwrap();
            assert!(file.id.len() == ID_LENGTH && file.id.ends_with(letter), "{file:?}");
            assert_eq!(file.path_for_code(), format!("/workspace/uploads/{}-a.csv", file.id));
        }
        assert_eq!(purpose("world domination"), None);
    }
}
