//! What an execution left in `/artifacts`.
//!
//! The sandbox writes into a folder of its own; if it is not empty at the end it is moved to the user's artifacts, where
//! it stays, named after the execution or session. The files are hostile: names are checked and no link is followed.

use coracle_types::Artifact;
use rustix::fs::{Mode, OFlags, ResolveFlags};
use std::fs;
use std::io::{self, Read as _};
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

/// No larger file is read whole.
const MAX_READ: u64 = 16 << 20;

/// Before the folder and the path of an artifact in its address.
const SCHEME: &str = "coracle://artifacts/";

/// Why an artifact was not given.
#[derive(Debug, thiserror::Error)]
pub enum ArtifactError {
    /// No such address.
    #[error("there is no artifact {uri}")]
    Missing {
        /// As it was asked for.
        uri: String,
    },
    /// Too large to be handed out in one piece.
    #[error("the artifact {uri} has {bytes} bytes: at most {MAX_READ} are handed out")]
    TooLarge {
        /// As it was asked for.
        uri: String,
        /// Its size.
        bytes: u64,
    },
    /// It cannot be read.
    #[error("the artifact {uri} cannot be read: {reason}")]
    Unreadable {
        /// As it was asked for.
        uri: String,
        /// What the system says.
        reason: String,
    },
}

impl ArtifactError {
    /// For programs.
    pub fn code(&self) -> &'static str {
        match self {
            Self::Missing { .. } => "not_found",
            Self::TooLarge { .. } => "too_large",
            Self::Unreadable { .. } => "unreadable",
        }
    }

    pub(crate) fn unreadable(uri: &str, error: &io::Error) -> Self {
        Self::Unreadable { uri: shown(uri), reason: error.to_string() }
    }
}

fn shown(uri: &str) -> String {
    uri.chars().take(300).collect()
}

/// The artifact with this address. The files are hostile: no link is followed.
pub(crate) fn read(kept: &Path, uri: &str) -> Result<(Artifact, Vec<u8>), ArtifactError> {
    let missing = || ArtifactError::Missing { uri: shown(uri) };
    let path = uri.strip_prefix(SCHEME).and_then(percent_decoded).ok_or_else(missing)?;
    let (folder, name) = path.split_once('/').ok_or_else(missing)?;
    let open = || -> io::Result<fs::File> {
        let root = rustix::fs::open(kept, OFlags::DIRECTORY | OFlags::CLOEXEC, Mode::empty())?;
        let beneath = ResolveFlags::BENEATH | ResolveFlags::NO_SYMLINKS | ResolveFlags::NO_MAGICLINKS;
        // A pipe must not make us wait.
        let flags = OFlags::RDONLY | OFlags::NONBLOCK | OFlags::NOCTTY | OFlags::CLOEXEC;
        Ok(rustix::fs::openat2(&root, &path, flags, Mode::empty(), beneath)?.into())
    };
    let file = open().map_err(|_| missing())?;
    let metadata = file.metadata().map_err(|error| ArtifactError::unreadable(uri, &error))?;
    if !metadata.is_file() {
        return Err(missing());
    }
    if metadata.len() > MAX_READ {
        return Err(ArtifactError::TooLarge { uri: shown(uri), bytes: metadata.len() });
    }
    let mut bytes = Vec::new();
    file.take(MAX_READ).read_to_end(&mut bytes).map_err(|error| ArtifactError::unreadable(uri, &error))?;
    Ok((describe(folder, name, bytes.len() as u64), bytes))
}

/// The newest ones, from the newest folders.
pub(crate) fn newest(kept: &Path) -> Vec<Artifact> {
    let mut folders: Vec<(SystemTime, String)> = fs::read_dir(kept)
        .into_iter()
        .flatten()
        .flatten()
        .filter_map(|entry| Some((entry.metadata().ok()?.modified().ok()?, entry.file_name().into_string().ok()?)))
        .collect();
    folders.sort_by(|one, other| other.cmp(one));
    let mut artifacts = Vec::new();
    for (_, folder) in folders {
        let mut found = Vec::new();
        list(&kept.join(&folder), Path::new(""), SystemTime::UNIX_EPOCH, &mut found);
        found.sort();
        artifacts.extend(found.into_iter().map(|(path, bytes)| describe(&folder, &path, bytes)));
        if artifacts.len() >= MAX_LISTED {
            break;
        }
    }
    artifacts.truncate(MAX_LISTED);
    artifacts
}

fn percent_decoded(text: &str) -> Option<String> {
    let mut bytes = Vec::new();
    let mut rest = text.bytes();
    while let Some(byte) = rest.next() {
        if byte == b'%' {
            let digits = [rest.next()?, rest.next()?];
            bytes.push(u8::from_str_radix(std::str::from_utf8(&digits).ok()?, 16).ok()?);
        } else {
            bytes.push(byte);
        }
    }
    String::from_utf8(bytes).ok().filter(|path| !path.contains('\0'))
}

fn describe(folder: &str, name: &str, bytes: u64) -> Artifact {
    Artifact {
        name: name.to_owned(),
        path: format!("/artifacts/{name}"),
        mime: mime(name).to_owned(),
        bytes,
        uri: format!("{SCHEME}{folder}/{}", percent_encoded(name)),
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
