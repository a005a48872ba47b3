//! What an execution left in `/artifacts`.
//!
//! The sandbox writes into a folder of its own; if it is not empty at the end it is moved to the user's artifacts, where
//! it stays, named after the execution or session. The files are hostile: names are checked and no link is followed.

use coracle_types::Artifact;
use std::fs;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

/// So many are listed; more are kept, not listed.
const MAX_LISTED: usize = 100;
/// Folders nested deeper are not looked into.
const MAX_DEPTH: usize = 8;

/// Where the artifacts of one sandbox are.
#[derive(Debug)]
pub(crate) struct ArtifactFolder {
    /// Given by the sandbox; goes with it.
    scratch: PathBuf,
    /// Where it was moved to, once there was something in it.
    kept: Option<PathBuf>,
    /// Where it will be moved to.
    target: PathBuf,
}

impl ArtifactFolder {
    pub(crate) fn new(scratch: PathBuf, target: PathBuf) -> Self {
        Self { scratch, kept: None, target }
    }

    /// What was written since; moves the folder to its place the first time there is something.
    pub(crate) fn collect(&mut self, since: SystemTime) -> io::Result<Vec<Artifact>> {
        if self.kept.is_none() {
            // An empty folder may be gone already, with its sandbox.
            if !fs::read_dir(&self.scratch).is_ok_and(|mut entries| entries.next().is_some()) {
                return Ok(Vec::new());
            }
            fs::rename(&self.scratch, &self.target)?;
            self.kept = Some(self.target.clone());
        }
        let folder = &self.target;
        let name = folder.file_name().unwrap_or_default().to_string_lossy();
        let mut found = Vec::new();
        list(folder, Path::new(""), since, &mut found);
        found.sort();
        found.truncate(MAX_LISTED);
        Ok(found.into_iter().map(|(path, bytes)| describe(&name, &path, bytes)).collect())
    }
}

fn list(folder: &Path, below: &Path, since: SystemTime, found: &mut Vec<(String, u64)>) {
    let since_seconds = since.duration_since(SystemTime::UNIX_EPOCH).map_or(0.0, |age| age.as_secs_f64());
    for entry in fs::read_dir(folder.join(below)).into_iter().flatten().flatten() {
        // A name that is no text cannot be asked for.
        let Ok(name) = entry.file_name().into_string() else { continue };
        let Ok(metadata) = entry.path().symlink_metadata() else { continue };
        let path = below.join(&name);
        if metadata.is_dir() && path.components().count() < MAX_DEPTH {
            list(folder, &path, since, found);
        } else if metadata.is_file() && found.len() < MAX_LISTED * 10 {
            #[expect(clippy::cast_precision_loss, reason = "times of this century fit")]
            let changed = metadata.ctime() as f64 + metadata.ctime_nsec() as f64 / 1e9;
            // The file system's clock ticks more coarsely than ours.
            if changed + 0.02 >= since_seconds
                && let Some(path) = path.to_str()
            {
                found.push((path.to_owned(), metadata.len()));
            }
        }
    }
}

fn describe(folder: &str, name: &str, bytes: u64) -> Artifact {
    Artifact {
        name: name.to_owned(),
        path: format!("/artifacts/{name}"),
        mime: mime(name).to_owned(),
        bytes,
        uri: format!("coracle://artifacts/{folder}/{}", percent_encoded(name)),
    }
}

fn percent_encoded(text: &str) -> String {
    let mut out = String::new();
    for byte in text.bytes() {
        if byte.is_ascii_alphanumeric() || b"-._~/".contains(&byte) {
            out.push(char::from(byte));
        } else {
            out.extend(['%', hex_digit(byte >> 4), hex_digit(byte & 15)]);
        }
    }
    out
}

fn hex_digit(nibble: u8) -> char {
    char::from_digit(u32::from(nibble), 16).unwrap_or('0').to_ascii_uppercase()
}

/// By the ending; what is not known is bytes.
fn mime(name: &str) -> &'static str {
    let ending =
        Path::new(name).extension().and_then(|ending| ending.to_str()).unwrap_or_default().to_ascii_lowercase();
    match ending.as_str() {
        "png" => "image/png",
        "jpg" | "jpeg" => "image/jpeg",
        "gif" => "image/gif",
        "svg" => "image/svg+xml",
        "webp" => "image/webp",
        "pdf" => "application/pdf",
        "json" => "application/json",
        "csv" => "text/csv",
        "html" | "htm" => "text/html",
        "md" => "text/markdown",
        "txt" | "log" | "py" | "sh" => "text/plain",
        "xlsx" => "application/vnd.openxmlformats-officedocument.spreadsheetml.sheet",
        "zip" => "application/zip",
        _ => "application/octet-stream",
    }
}
