//! Sources of folders with a `SKILL.md`, and their precedence.

use super::builtin;
use super::folder::{Origin, SkillFile, SkillFolder};
use super::{SkillError, blocking};
use std::collections::HashMap;
use std::fs;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

/// Maximum number of folders that are read in one source.
const MAX_FOLDERS: usize = 200;

/// Maximum length of the name of a folder.
const MAX_FOLDER_BYTES: usize = 100;

/// Path at which code sees the skills.
const SEEN_AT: &str = "/skills";

/// A folder that may contain skills.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SkillSource {
    /// Folder that contains the folders of skills.
    pub path: PathBuf,
    /// Origin of its skills.
    pub origin: Origin,
}

/// All sources, in order of precedence.
#[derive(Debug, Default)]
pub struct Library {
    sources: Vec<SkillSource>,
    /// Built-in skills that were read, by path. They do not change, and every prompt lists them.
    builtin: Mutex<HashMap<PathBuf, SkillFolder>>,
}

/// The skills that were found.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Shelved {
    /// Skills, sorted by name.
    pub skills: Vec<SkillFolder>,
    /// Why others were left out.
    pub warnings: Vec<String>,
}

/// A folder that may be a skill.
struct Candidate {
    path: PathBuf,
    folder: String,
    origin: Origin,
}

impl Library {
    /// A library of these sources, in this order, followed by the built-in skills, which are written below `cache`.
    pub fn new(mut sources: Vec<SkillSource>, cache: Option<&Path>) -> Arc<Self> {
        if let Some(cache) = cache {
            match builtin::install(cache) {
                Ok(path) => sources.push(SkillSource { path, origin: Origin::Builtin }),
                Err(error) => {
                    tracing::warn!(%error, folder = %cache.display(), "the skills that come with Coracle cannot be written");
                }
            }
        }
        Arc::new(Self { sources, builtin: Mutex::default() })
    }

    /// Reads all skills, as they are now.
    pub async fn read(self: &Arc<Self>) -> Shelved {
        let library = Arc::clone(self);
        tokio::task::spawn_blocking(move || library.read_now()).await.unwrap_or_default()
    }

    /// The same, blocking.
    pub fn read_now(&self) -> Shelved {
        let mut found = Shelved::default();
        for candidate in self.candidates(&mut found.warnings) {
            let Candidate { path, folder, origin } = candidate;
            let skill = match self.skill(&path, &folder, origin) {
                None => continue,
                Some(Ok(skill)) => skill,
                Some(Err(reason)) => {
                    found.warnings.push(format!("{}: the skill is left out: {reason}", path.display()));
                    continue;
                }
            };
            let same = |other: &&SkillFolder| other.name == skill.name || other.folder == skill.folder;
            match found.skills.iter().find(same) {
                None => found.skills.push(skill),
                Some(_) if origin == Origin::Builtin => {}
                Some(winner) => found.warnings.push(format!(
                    "{}: the skill {:?} is left out: there is one in {}, which goes first",
                    path.display(),
                    skill.name,
                    winner.path.display()
                )),
            }
        }
        found.skills.sort_by(|one, other| one.name.cmp(&other.name));
        found
    }

    fn skill(&self, path: &Path, folder: &str, origin: Origin) -> Option<Result<SkillFolder, String>> {
        if origin != Origin::Builtin {
            return SkillFolder::read(path, folder, origin);
        }
        let known = || self.builtin.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(skill) = known().get(path) {
            return Some(Ok(skill.clone()));
        }
        let read = SkillFolder::read(path, folder, origin);
        if let Some(Ok(skill)) = &read {
            known().insert(path.to_owned(), skill.clone());
        }
        read
    }

    /// The folders that are mounted into sandboxes, and where: one mount for each skill, because skills come from several
    /// sources, or a single one if there are only built-in skills. Every one-shot sandbox waits for this, so the built-in
    /// skills are not read again.
    pub fn mounts(&self) -> Vec<(PathBuf, PathBuf)> {
        let (ours, others): (Vec<_>, Vec<_>) = self.sources.iter().partition(|source| source.origin == Origin::Builtin);
        if others.iter().all(|source| !source.path.is_dir()) {
            return ours.into_iter().map(|source| (source.path.clone(), SEEN_AT.into())).collect();
        }
        let candidates = self.candidates(&mut Vec::new());
        let mut mounts: Vec<(PathBuf, PathBuf)> = Vec::new();
        let seen_at = |folder: &str| Path::new(SEEN_AT).join(folder);
        // Everything in the operator's folder is visible, and only skills in the others.
        let configured = candidates.into_iter().filter(|one| one.origin == Origin::Configured);
        mounts.extend(configured.map(|candidate| (candidate.path, seen_at(&candidate.folder))));
        for skill in self.read_now().skills {
            let target = seen_at(&skill.folder);
            if mounts.iter().all(|(_, there)| *there != target) {
                mounts.push((skill.path, target));
            }
        }
        mounts.truncate(MAX_FOLDERS);
        mounts
    }

    /// The body of a skill, or one of its files. The skill is found by its name or that of its folder.
    pub async fn get(self: &Arc<Self>, name: &str, path: Option<&str>) -> Result<SkillFile, SkillError> {
        let (library, name, path) = (Arc::clone(self), name.to_owned(), path.map(str::to_owned));
        blocking(move || library.find(&name)?.get(path.as_deref())).await
    }

    /// Finds a skill by its name or that of its folder.
    pub fn find(&self, name: &str) -> Result<SkillFolder, SkillError> {
        let Shelved { skills, .. } = self.read_now();
        let by_name = skills.iter().position(|skill| skill.name == name);
        let place = by_name.or_else(|| skills.iter().position(|skill| skill.folder == name));
        if let Some(skill) = place.and_then(|place| skills.get(place)) {
            return Ok(skill.clone());
        }
        let wanted: String = name.chars().take(MAX_FOLDER_BYTES).collect();
        let near = skills.iter().map(|skill| (strsim::jaro_winkler(&wanted, &skill.name), &skill.name));
        let best = near.filter(|(alike, _)| *alike > 0.7).max_by(|one, other| one.0.total_cmp(&other.0));
        Err(SkillError::Missing { name: wanted, near: best.map(|(_, name)| name.clone()) })
    }

    fn candidates(&self, warnings: &mut Vec<String>) -> Vec<Candidate> {
        let roots: Vec<PathBuf> = self.sources.iter().filter_map(|source| source.path.canonicalize().ok()).collect();
        let (mut found, mut seen) = (Vec::new(), Vec::new());
        for source in &self.sources {
            let Ok(root) = source.path.canonicalize() else { continue };
            // In the home folder, project and user are the same.
            if seen.contains(&root) {
                continue;
            }
            seen.push(root.clone());
            if source.origin == Origin::Project && (is_foreign(&root) || root.parent().is_some_and(is_foreign)) {
                warnings.push(format!("{}: it belongs to another user and is not read", source.path.display()));
                continue;
            }
            let mut names: Vec<String> = fs::read_dir(&root)
                .into_iter()
                .flatten()
                .flatten()
                .filter_map(|entry| entry.file_name().into_string().ok())
                .filter(|name| is_plain(name))
                .collect();
            names.sort();
            if names.len() > MAX_FOLDERS {
                let more = names.len() - MAX_FOLDERS;
                warnings.push(format!("{}: {more} entries are left out", source.path.display()));
                names.truncate(MAX_FOLDERS);
            }
            for folder in names {
                let Ok(path) = root.join(&folder).canonicalize() else { continue };
                if !path.is_dir() {
                    continue;
                }
                if !path.starts_with(&root) {
                    // A link to another source is found there.
                    if !roots.iter().any(|root| path.starts_with(root)) {
                        let link = root.join(&folder);
                        warnings.push(format!("{}: a link that leads elsewhere is not followed", link.display()));
                    }
                    continue;
                }
                if source.origin == Origin::Project && is_foreign(&path) {
                    warnings.push(format!("{}: it belongs to another user and is not read", path.display()));
                    continue;
                }
                found.push(Candidate { path, folder, origin: source.origin });
            }
        }
        found
    }
}

/// Whether a name can be part of a path in a sandbox, and is readable.
fn is_plain(name: &str) -> bool {
    !name.starts_with('.') && name.len() <= MAX_FOLDER_BYTES && !name.chars().any(coracle_types::is_hidden)
}

/// Whether users other than this one and root can write to it.
fn is_foreign(path: &Path) -> bool {
    let me = rustix::process::geteuid().as_raw();
    path.metadata().is_ok_and(|metadata| metadata.uid() != me && metadata.uid() != 0)
}

#[cfg(test)]
mod tests;
