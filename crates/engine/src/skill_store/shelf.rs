//! One user's code skills on disk.
//!
//! `skill-versions/NAME/000001.json` is one version, with metadata and code in one file, and is authoritative.
//! `skills/NAME.py` or `.ts` is generated from the newest version, for sandboxes to import, and is repaired by the first
//! access after a crash. Files are never changed in place: they are written under another name, synced, and renamed.
//! Writers hold a lock, also across processes; readers need none.
//!
//! Trust boundary: sandboxes see `skills` read-only, and nothing else. The code is hostile and never run here.

use super::error::SkillError;
use super::name::SkillName;
use super::{CodeSkill, SkillLanguage};
use rustix::fs::{FlockOperation, Mode};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io::{self, Read as _, Write as _};
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};

/// Maximum number of skills of a user.
const MAX_SKILLS: usize = 200;

/// Maximum number of versions of a skill; older ones are deleted.
const MAX_VERSIONS: usize = 50;

/// Maximum size of all versions of all skills of a user.
const MAX_TOTAL_BYTES: u64 = 64 << 20;

/// Maximum size of the file of a version: code, example and texts, with room for their escapes.
const MAX_FILE_BYTES: u64 = 4 << 20;

/// Makes `skills` a regular package, which takes precedence over a folder of that name in the workspace.
const PACKAGE: &str = "\"\"\"Code that was saved with `save_skill`: `from skills.NAME import function`.\"\"\"\n";

const NEW: &str = ".new-";
const GONE: &str = ".gone-";
const LOCK: &str = ".lock";

/// A version as it is stored.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Kept {
    #[serde(flatten)]
    pub(crate) skill: CodeSkill,
    pub(crate) code: String,
}

/// The skills of one user.
#[derive(Clone, Debug)]
pub(crate) struct Shelf {
    importable: PathBuf,
    versions: PathBuf,
}

/// The lock that is held during a change.
struct Turn {
    _lock: File,
}

impl Shelf {
    /// The shelf in a user's folder.
    pub(crate) fn new(base: &Path) -> Self {
        Self { importable: base.join("skills"), versions: base.join("skill-versions") }
    }

    /// The folder that sandboxes see as `/coracle/skills`.
    pub(crate) fn importable(&self) -> &Path {
        &self.importable
    }

    /// Creates the folders if they are missing, and repairs what a crash has left.
    pub(crate) fn prepare(&self) -> Result<(), SkillError> {
        for (folder, mode) in [(&self.importable, 0o755), (&self.versions, 0o700)] {
            if !folder.is_dir() {
                let parent = folder.parent().unwrap_or(folder);
                DirBuilder::new().recursive(true).mode(0o700).create(parent).map_err(failed("make", parent))?;
                match DirBuilder::new().mode(mode).create(folder) {
                    Err(error) if error.kind() != io::ErrorKind::AlreadyExists => {
                        return Err(failed("make", folder)(error));
                    }
                    // If Coracle runs as root, sandboxes read these as another user, whatever the umask is.
                    _ => rustix::fs::chmod(folder, Mode::from_raw_mode(mode))
                        .map_err(|errno| failed("make", folder)(errno.into()))?,
                }
            }
        }
        if !self.is_settled()? {
            let turn = self.turn()?;
            self.settle(&turn)?;
        }
        Ok(())
    }

    /// Whether nothing was ever saved here, so that nothing needs repair. Cheap enough for an async caller.
    pub(crate) fn is_bare(&self) -> bool {
        let only_lock = |names: Vec<String>| names.iter().all(|name| name == LOCK);
        let has_folders = self.versions.is_dir() && self.importable.join("__init__.py").is_file();
        has_folders && entries(&self.versions).is_ok_and(only_lock)
    }

    fn turn(&self) -> Result<Turn, SkillError> {
        let path = self.versions.join(LOCK);
        let lock = OpenOptions::new().create(true).truncate(false).write(true).mode(0o600).open(&path);
        let lock = lock.map_err(failed("open", &path))?;
        rustix::fs::flock(&lock, FlockOperation::LockExclusive).map_err(|errno| failed("lock", &path)(errno.into()))?;
        Ok(Turn { _lock: lock })
    }

    fn is_settled(&self) -> Result<bool, SkillError> {
        if !self.importable.join("__init__.py").is_file() {
            return Ok(false);
        }
        for entry in entries(&self.versions)? {
            if entry.starts_with(NEW) || entry.starts_with(GONE) {
                return Ok(false);
            }
        }
        Ok(self.all()?.iter().all(|kept| self.is_importable(kept)))
    }

    fn settle(&self, _turn: &Turn) -> Result<(), SkillError> {
        let package = self.importable.join("__init__.py");
        if !package.is_file() {
            self.put(&self.importable, "__init__.py", PACKAGE.as_bytes(), 0o644)?;
        }
        for entry in entries(&self.versions)? {
            let path = self.versions.join(&entry);
            if let Some(name) = entry.strip_prefix(GONE) {
                self.finish_removing(name.split('.').next().unwrap_or_default(), &path)?;
            } else if entry.starts_with(NEW) {
                fs::remove_file(&path).map_err(failed("remove", &path))?;
            }
        }
        for kept in self.all()? {
            if !self.is_importable(&kept) {
                self.publish(&kept)?;
            }
        }
        Ok(())
    }

    fn is_importable(&self, kept: &Kept) -> bool {
        let file = self.file(&kept.skill.name, kept.skill.language);
        let other = self.file(&kept.skill.name, kept.skill.language.other());
        read(&file).is_ok_and(|code| code == kept.code.as_bytes()) && !other.exists()
    }

    fn file(&self, name: &SkillName, language: SkillLanguage) -> PathBuf {
        self.importable.join(format!("{name}.{}", language.ending()))
    }

    /// Generates the file that is imported from a version.
    fn publish(&self, kept: &Kept) -> Result<(), SkillError> {
        let CodeSkill { name, language, .. } = &kept.skill;
        self.put(&self.importable, &format!("{name}.{}", language.ending()), kept.code.as_bytes(), 0o644)?;
        let other = self.file(name, language.other());
        match fs::remove_file(&other) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => Err(failed("remove", &other)(error)),
            Ok(()) => sync_folder(&self.importable),
            Err(_) => Ok(()),
        }
    }

    /// Writes a file beside the versions, syncs it, and renames it into its folder.
    fn put(&self, folder: &Path, name: &str, bytes: &[u8], mode: u32) -> Result<(), SkillError> {
        let target = folder.join(name);
        let aside = tempfile::Builder::new().prefix(NEW).tempfile_in(&self.versions);
        let mut aside = aside.map_err(failed("write in", &self.versions))?;
        let written = (|| {
            aside.write_all(bytes)?;
            rustix::fs::fchmod(aside.as_file(), Mode::from_raw_mode(mode))?;
            aside.as_file().sync_all()
        })();
        written.map_err(failed("write", &target))?;
        aside.persist(&target).map_err(|error| failed("write", &target)(error.error))?;
        sync_folder(folder)
    }

    /// Adds a version, which becomes the one that is imported. It is on disk when this returns.
    pub(crate) fn save(&self, mut kept: Kept) -> Result<CodeSkill, SkillError> {
        self.prepare()?;
        let turn = self.turn()?;
        self.settle(&turn)?;
        let names = self.names()?;
        let name = kept.skill.name.clone();
        if let Some(other) =
            names.iter().find(|other| **other != name && other.as_str().eq_ignore_ascii_case(name.as_str()))
        {
            return Err(SkillError::Taken { name, other: other.clone() });
        }
        let is_new = !names.contains(&name);
        if is_new && names.len() >= MAX_SKILLS {
            return Err(SkillError::TooMany(MAX_SKILLS));
        }
        let folder = self.versions.join(name.as_str());
        if is_new {
            DirBuilder::new().recursive(true).mode(0o700).create(&folder).map_err(failed("make", &folder))?;
            sync_folder(&self.versions)?;
        }
        let earlier = numbers(&folder)?;
        if let Some(last) = earlier.keys().next_back() {
            kept.skill.version = last + 1;
            kept.skill.created_at = self.version(&name, Some(*last))?.skill.created_at;
        } else {
            kept.skill.version = 1;
        }
        let bytes = serde_json::to_vec_pretty(&kept).map_err(|error| failed("write", &folder)(error.into()))?;
        if bytes.len() as u64 > MAX_FILE_BYTES || self.total_bytes()? + bytes.len() as u64 > MAX_TOTAL_BYTES {
            return Err(SkillError::Full(MAX_TOTAL_BYTES));
        }
        self.put(&folder, &format!("{:06}.json", kept.skill.version), &bytes, 0o600)?;
        self.publish(&kept)?;
        let surplus = (earlier.len() + 1).saturating_sub(MAX_VERSIONS);
        for file in earlier.values().take(surplus) {
            // If this fails, the next save tries again.
            let _ = fs::remove_file(file);
        }
        Ok(kept.skill)
    }

    /// Removes a skill with all its versions.
    pub(crate) fn remove(&self, name: &SkillName) -> Result<(), SkillError> {
        self.prepare()?;
        let turn = self.turn()?;
        self.settle(&turn)?;
        let folder = self.versions.join(name.as_str());
        if !folder.is_dir() || numbers(&folder)?.is_empty() {
            return Err(self.missing(name));
        }
        let gone = self.versions.join(format!("{GONE}{name}"));
        fs::rename(&folder, &gone).map_err(failed("remove", &folder))?;
        sync_folder(&self.versions)?;
        self.finish_removing(name.as_str(), &gone)
    }

    /// Completes a removal: first the file to import, then the versions.
    fn finish_removing(&self, name: &str, gone: &Path) -> Result<(), SkillError> {
        if let Ok(name) = SkillName::new(name)
            && !self.versions.join(name.as_str()).is_dir()
        {
            for language in [SkillLanguage::Python, SkillLanguage::Typescript] {
                let file = self.file(&name, language);
                match fs::remove_file(&file) {
                    Err(error) if error.kind() != io::ErrorKind::NotFound => {
                        return Err(failed("remove", &file)(error));
                    }
                    _ => {}
                }
            }
            sync_folder(&self.importable)?;
        }
        fs::remove_dir_all(gone).map_err(failed("remove", gone))
    }

    /// A version, by default the newest.
    pub(crate) fn version(&self, name: &SkillName, version: Option<u32>) -> Result<Kept, SkillError> {
        let numbers = numbers(&self.versions.join(name.as_str()))?;
        let found = match version {
            Some(version) => numbers.get_key_value(&version),
            None => numbers.last_key_value(),
        };
        let Some((number, path)) = found else {
            return Err(match (version, numbers.keys().next(), numbers.keys().next_back()) {
                (Some(version), Some(first), Some(last)) => {
                    SkillError::NoVersion { name: name.clone(), version, first: *first, last: *last }
                }
                _ => self.missing(name),
            });
        };
        let bytes = read(path).map_err(failed("read", path))?;
        let kept: Kept = serde_json::from_slice(&bytes).map_err(|error| failed("read", path)(error.into()))?;
        if kept.skill.name != *name || kept.skill.version != *number {
            return Err(failed("read", path)(io::Error::other("it is not what its name says")));
        }
        Ok(kept)
    }

    /// The numbers of the versions that are kept.
    pub(crate) fn versions_of(&self, name: &SkillName) -> Result<Vec<u32>, SkillError> {
        Ok(numbers(&self.versions.join(name.as_str()))?.into_keys().collect())
    }

    /// The newest version of every skill, sorted by name. Skills that cannot be read are left out, with a warning.
    pub(crate) fn all(&self) -> Result<Vec<Kept>, SkillError> {
        let mut all = Vec::new();
        for name in self.names()? {
            match self.version(&name, None) {
                Ok(kept) => all.push(kept),
                Err(SkillError::Missing { .. }) => {}
                Err(error) => tracing::warn!(%error, skill = %name, "a skill is left out"),
            }
        }
        Ok(all)
    }

    fn names(&self) -> Result<Vec<SkillName>, SkillError> {
        let mut names: Vec<SkillName> =
            entries(&self.versions)?.iter().filter_map(|entry| SkillName::new(entry).ok()).collect();
        names.sort();
        Ok(names)
    }

    fn total_bytes(&self) -> Result<u64, SkillError> {
        let mut total = 0;
        for name in self.names()? {
            for path in numbers(&self.versions.join(name.as_str()))?.values() {
                total += fs::symlink_metadata(path).map_or(0, |metadata| metadata.len());
            }
        }
        Ok(total)
    }

    fn missing(&self, name: &SkillName) -> SkillError {
        let names = self.names().unwrap_or_default();
        let near = names.iter().map(|other| (strsim::jaro_winkler(name.as_str(), other.as_str()), other));
        let best = near.filter(|(alike, _)| *alike > 0.7).max_by(|one, other| one.0.total_cmp(&other.0));
        SkillError::Missing { name: name.as_str().to_owned(), near: best.map(|(_, other)| other.as_str().to_owned()) }
    }
}

/// The versions in a folder, by number; none if there is no folder.
fn numbers(folder: &Path) -> Result<BTreeMap<u32, PathBuf>, SkillError> {
    let files = entries(folder)?.into_iter().filter_map(|entry| {
        let number: u32 = entry.strip_suffix(".json")?.parse().ok()?;
        Some((number, folder.join(entry)))
    });
    Ok(files.collect())
}

/// Names of the entries of a folder; none if there is no folder.
fn entries(folder: &Path) -> Result<Vec<String>, SkillError> {
    let listed = match fs::read_dir(folder) {
        Ok(listed) => listed,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        Err(error) => return Err(failed("list", folder)(error)),
    };
    Ok(listed.flatten().filter_map(|entry| entry.file_name().into_string().ok()).collect())
}

/// Reads a file of limited size. Links are not followed.
fn read(path: &Path) -> io::Result<Vec<u8>> {
    let flags = rustix::fs::OFlags::NOFOLLOW | rustix::fs::OFlags::NONBLOCK;
    let file = OpenOptions::new().read(true).custom_flags(flags.bits().cast_signed()).open(path)?;
    let mut bytes = Vec::new();
    file.take(MAX_FILE_BYTES + 1).read_to_end(&mut bytes)?;
    if bytes.len() as u64 > MAX_FILE_BYTES { Err(io::ErrorKind::FileTooLarge.into()) } else { Ok(bytes) }
}

fn sync_folder(folder: &Path) -> Result<(), SkillError> {
    File::open(folder).and_then(|folder| folder.sync_all()).map_err(failed("write", folder))
}

fn failed(action: &'static str, path: &Path) -> impl Fn(io::Error) -> SkillError {
    let path = path.to_owned();
    move |source| SkillError::Files { action, path: path.clone(), reason: source.to_string() }
}

#[cfg(test)]
mod tests;
