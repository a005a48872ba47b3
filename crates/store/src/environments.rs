use crate::Home;
use coracle_types::PythonInterpreter;
use serde::{Deserialize, Serialize};
use std::fs::{self, File, OpenOptions, TryLockError};
use std::io::{self, Write};
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use tempfile::TempDir;

/// The managed Python environments in the data folder.
///
/// ```text
/// CORACLE_HOME/environments/
///   .lock                 held while an environment is created or removed
///   packages.json         packages that were added, and default packages that were removed
///   current -> 2          the environment that sandboxes use; replaced by a rename
///   2/environment.json    its description
///   2/packages/           its packages, which sandboxes see
///   2/.in-use             every process whose sandboxes use it holds a shared lock on this
///   .new-…/               an environment that is being created; may be removed under the lock
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Environments {
    folder: PathBuf,
}

/// The description of an environment.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Environment {
    /// The version, which increases.
    pub version: u32,
    /// When the environment was created, in seconds since 1970.
    pub made_at: u64,
    /// The tool that created it, for example `uv` or `pip`.
    pub made_by: String,
    /// The interpreter that the environment is for.
    pub python: PythonInterpreter,
    /// The requested packages.
    pub requirements: Vec<String>,
    /// The installed packages.
    pub packages: Vec<Package>,
}

/// An installed package.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Package {
    /// The name of the package.
    pub name: String,
    /// The installed version.
    pub version: String,
}

/// Changes that people made to the default packages or to those of a file.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct WantedPackages {
    /// Added packages, as written.
    pub added: Vec<String>,
    /// Names of default packages that were removed.
    pub without: Vec<String>,
}

/// Why an environment cannot be read, created or removed.
#[derive(Debug, thiserror::Error)]
pub enum EnvironmentError {
    /// A file or folder cannot be accessed.
    #[error("{path:?}: {error}")]
    Io {
        /// The file or folder.
        path: PathBuf,
        /// The error of the system.
        error: io::Error,
    },
    /// A file is invalid.
    #[error("{path:?} is damaged: {reason}")]
    Damaged {
        /// The file.
        path: PathBuf,
        /// The reason.
        reason: String,
    },
    /// Another process is creating or removing an environment.
    #[error("the environments are being changed by another process")]
    Busy,
    /// Sandboxes use the environment.
    #[error("environment {0} is in use")]
    InUse(u32),
    /// The environment does not exist.
    #[error("there is no environment {0}")]
    Missing(u32),
}

/// An environment that cannot be removed while this is held.
#[derive(Debug)]
pub struct UsedEnvironment {
    /// The description.
    pub environment: Environment,
    /// The folder of the packages.
    pub packages: PathBuf,
    _lock: File,
}

/// The maximum size of the description of an environment.
const MAX_DESCRIPTION: u64 = 4 << 20;

/// The number of older environments that are kept.
const KEPT: usize = 1;

const DESCRIPTION: &str = "environment.json";
const PACKAGES: &str = "packages";
const IN_USE: &str = ".in-use";
const CURRENT: &str = "current";
const WANTED: &str = "packages.json";
/// The prefix of folders of environments that are being created or removed.
const NEW: &str = ".new-";
const OLD: &str = ".old-";

fn at(path: &Path) -> impl FnOnce(io::Error) -> EnvironmentError {
    let path = path.to_owned();
    |error| EnvironmentError::Io { path, error }
}

fn read_json<T: serde::de::DeserializeOwned>(path: &Path) -> Result<Option<T>, EnvironmentError> {
    match fs::metadata(path) {
        Ok(metadata) if metadata.len() > MAX_DESCRIPTION => {
            return Err(EnvironmentError::Damaged { path: path.to_owned(), reason: "it is too long".to_owned() });
        }
        Ok(_) => {}
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(at(path)(error)),
    }
    let bytes = fs::read(path).map_err(at(path))?;
    let read = serde_json::from_slice(&bytes);
    read.map(Some).map_err(|error| EnvironmentError::Damaged { path: path.to_owned(), reason: error.to_string() })
}

/// Writes a file atomically and durably.
fn write_json(folder: &Path, name: &str, value: &impl Serialize) -> Result<(), EnvironmentError> {
    let path = folder.join(name);
    let write = || {
        let mut file = tempfile::Builder::new().prefix(NEW).tempfile_in(folder)?;
        file.write_all(&serde_json::to_vec_pretty(value)?)?;
        file.as_file().sync_all()?;
        file.persist(&path).map_err(|error| error.error)?;
        File::open(folder)?.sync_all()
    };
    write().map_err(at(&path))
}

impl Environments {
    /// The environments of a data folder. Does not create anything.
    pub fn of(home: &Home) -> Self {
        Self { folder: home.root().join("environments") }
    }

    /// The folder of all environments.
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    fn of_version(&self, version: u32) -> PathBuf {
        self.folder.join(version.to_string())
    }

    fn current_version(&self) -> Result<Option<u32>, EnvironmentError> {
        let link = self.folder.join(CURRENT);
        match fs::read_link(&link) {
            Ok(target) => {
                let version = target.to_str().and_then(|name| name.parse().ok());
                version.map(Some).ok_or_else(|| EnvironmentError::Damaged {
                    path: link,
                    reason: format!("it leads to {}", target.display()),
                })
            }
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(at(&link)(error)),
        }
    }

    fn read(&self, version: u32) -> Result<Environment, EnvironmentError> {
        read_json(&self.of_version(version).join(DESCRIPTION))?.ok_or(EnvironmentError::Missing(version))
    }

    /// The environment that sandboxes use, if there is one.
    pub fn current(&self) -> Result<Option<Environment>, EnvironmentError> {
        self.current_version()?.map(|version| self.read(version)).transpose()
    }

    /// Like [`Self::current`], for use by sandboxes: it is not removed while this is held.
    pub fn use_current(&self) -> Result<Option<UsedEnvironment>, EnvironmentError> {
        loop {
            let Some(version) = self.current_version()? else { return Ok(None) };
            let folder = self.of_version(version);
            let path = folder.join(IN_USE);
            let held = OpenOptions::new().read(true).open(&path).and_then(|lock| lock.lock_shared().map(|()| lock));
            if self.current_version()? != Some(version) {
                // The environment was replaced meanwhile, and perhaps removed.
                continue;
            }
            let lock = held.map_err(at(&path))?;
            let environment = self.read(version)?;
            return Ok(Some(UsedEnvironment { environment, packages: folder.join(PACKAGES), _lock: lock }));
        }
    }

    /// All environments, newest first.
    pub fn all(&self) -> Result<Vec<Environment>, EnvironmentError> {
        self.versions()?.into_iter().rev().map(|version| self.read(version)).collect()
    }

    fn versions(&self) -> Result<Vec<u32>, EnvironmentError> {
        let entries = match fs::read_dir(&self.folder) {
            Ok(entries) => entries,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
            Err(error) => return Err(at(&self.folder)(error)),
        };
        let mut versions: Vec<u32> =
            entries.flatten().filter_map(|entry| entry.file_name().to_str()?.parse().ok()).collect();
        versions.sort_unstable();
        Ok(versions)
    }

    /// The changes that people made.
    pub fn wanted(&self) -> Result<WantedPackages, EnvironmentError> {
        Ok(read_json(&self.folder.join(WANTED))?.unwrap_or_default())
    }

    /// Locks the environments for a change, and removes unfinished ones.
    pub fn change(&self) -> Result<ChangingEnvironments<'_>, EnvironmentError> {
        fs::create_dir_all(&self.folder).map_err(at(&self.folder))?;
        let path = self.folder.join(".lock");
        let opened = OpenOptions::new().write(true).create(true).truncate(false).open(&path);
        let lock = opened.map_err(at(&path))?;
        match lock.try_lock() {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => return Err(EnvironmentError::Busy),
            Err(TryLockError::Error(error)) => return Err(at(&path)(error)),
        }
        for entry in fs::read_dir(&self.folder).map_err(at(&self.folder))?.flatten() {
            let name = entry.file_name();
            if name.to_str().is_some_and(|name| name.starts_with(NEW) || name.starts_with(OLD)) {
                let path = entry.path();
                if path.is_dir() && !path.is_symlink() { fs::remove_dir_all(&path) } else { fs::remove_file(&path) }
                    .map_err(at(&path))?;
            }
        }
        Ok(ChangingEnvironments { all: self, lock })
    }
}

/// The environments, locked for a change.
#[derive(Debug)]
pub struct ChangingEnvironments<'a> {
    all: &'a Environments,
    lock: File,
}

impl Drop for ChangingEnvironments<'_> {
    fn drop(&mut self) {
        // A process that is being started may have a copy of the file for a moment, which would keep the lock.
        let _ = self.lock.unlock();
    }
}

/// An environment that is being created. Dropping it removes it.
#[derive(Debug)]
pub struct NewEnvironment {
    folder: TempDir,
    /// The folder for the packages.
    pub packages: PathBuf,
}

impl NewEnvironment {
    /// A folder for temporary files.
    pub fn aside(&self) -> &Path {
        self.folder.path()
    }
}

impl ChangingEnvironments<'_> {
    /// Begins to create an environment.
    pub fn begin(&self) -> Result<NewEnvironment, EnvironmentError> {
        let made = tempfile::Builder::new().prefix(NEW).tempdir_in(&self.all.folder);
        let folder = made.map_err(at(&self.all.folder))?;
        let packages = folder.path().join(PACKAGES);
        fs::create_dir(&packages).map_err(at(&packages))?;
        Ok(NewEnvironment { folder, packages })
    }

    /// Makes the environment the current one, under the next version, and returns its description. Removes everything in
    /// its folder besides the packages, and older environments that no sandbox uses, except the previous one.
    pub fn publish(&self, new: NewEnvironment, mut environment: Environment) -> Result<Environment, EnvironmentError> {
        let versions = self.all.versions()?;
        environment.version = versions.last().copied().max(self.all.current_version()?).unwrap_or(0) + 1;
        let folder = new.folder.path();
        for entry in fs::read_dir(folder).map_err(at(folder))?.flatten() {
            let path = entry.path();
            if path != new.packages {
                if path.is_dir() && !path.is_symlink() { fs::remove_dir_all(&path) } else { fs::remove_file(&path) }
                    .map_err(at(&path))?;
            }
        }
        let in_use = folder.join(IN_USE);
        File::create(&in_use).map_err(at(&in_use))?;
        write_json(folder, DESCRIPTION, &environment)?;
        let settle = || {
            // Installers do not sync the files that they write.
            rustix::fs::syncfs(File::open(folder)?)?;
            let place = self.all.of_version(environment.version);
            fs::rename(folder, &place)?;
            File::open(&self.all.folder)?.sync_all()?;
            let link = self.all.folder.join(format!("{NEW}{CURRENT}"));
            symlink(environment.version.to_string(), &link)?;
            fs::rename(&link, self.all.folder.join(CURRENT))?;
            File::open(&self.all.folder)?.sync_all()
        };
        settle().map_err(at(folder))?;
        // The folder was renamed, so it must not be removed on drop.
        let _ = new.folder.keep();
        for version in versions.iter().rev().skip(KEPT) {
            match self.remove(*version) {
                Ok(()) | Err(EnvironmentError::InUse(_)) => {}
                Err(error) => tracing::warn!(%error, version, "cannot remove an old environment"),
            }
        }
        Ok(environment)
    }

    /// Removes an environment that is not current and that no sandbox uses.
    pub fn remove(&self, version: u32) -> Result<(), EnvironmentError> {
        let place = self.all.of_version(version);
        if !place.is_dir() {
            return Err(EnvironmentError::Missing(version));
        }
        if self.all.current_version()? == Some(version) {
            return Err(EnvironmentError::InUse(version));
        }
        let lock = File::open(place.join(IN_USE));
        if let Ok(Err(TryLockError::WouldBlock)) = lock.as_ref().map(File::try_lock) {
            return Err(EnvironmentError::InUse(version));
        }
        let old = self.all.folder.join(format!("{OLD}{version}"));
        fs::rename(&place, &old).map_err(at(&place))?;
        fs::remove_dir_all(&old).map_err(at(&old))
    }

    /// Stores the changes that people made.
    pub fn want(&self, wanted: &WantedPackages) -> Result<(), EnvironmentError> {
        write_json(&self.all.folder, WANTED, wanted)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn home() -> (TempDir, Environments) {
        let folder = TempDir::new().unwrap();
        let environments = Environments::of(&Home::new(folder.path()));
        (folder, environments)
    }

    fn description() -> Environment {
        let python = PythonInterpreter {
            path: "/usr/bin/python3.11".into(),
            version: "3.11.2".to_owned(),
            abi: ".so".to_owned(),
            bytes: 1,
            modified: 2,
        };
        let packages = vec![Package { name: "six".to_owned(), version: "1.0".to_owned() }];
        let requirements = vec!["six".to_owned()];
        Environment { version: 0, made_at: 3, made_by: "pip".to_owned(), python, requirements, packages }
    }

    fn make(environments: &Environments) -> u32 {
        let changing = environments.change().unwrap();
        let new = changing.begin().unwrap();
        fs::write(new.packages.join("six.py"), "").unwrap();
        fs::create_dir(new.aside().join("venv")).unwrap();
        changing.publish(new, description()).unwrap().version
    }

    #[test]
    fn the_newest_is_current_and_the_one_before_it_is_kept() {
        let (_home, environments) = home();
        assert_eq!((environments.current().unwrap(), environments.all().unwrap()), (None, Vec::new()));
        for version in 1..=3 {
            assert_eq!(make(&environments), version);
            assert_eq!(environments.current().unwrap(), Some(Environment { version, ..description() }));
        }
        let versions: Vec<u32> = environments.all().unwrap().iter().map(|environment| environment.version).collect();
        assert_eq!(versions, [3, 2]);
        let used = environments.use_current().unwrap().unwrap();
        assert!(used.packages.join("six.py").is_file());
        assert!(!used.packages.parent().unwrap().join("venv").exists());
        let changing = environments.change().unwrap();
        assert!(matches!(changing.remove(3), Err(EnvironmentError::InUse(3))));
        changing.remove(2).unwrap();
        assert!(matches!(changing.remove(2), Err(EnvironmentError::Missing(2))));
    }

    #[test]
    fn an_environment_in_use_is_not_removed() {
        let (_home, environments) = home();
        make(&environments);
        let used = environments.use_current().unwrap().unwrap();
        for _ in 0..3 {
            make(&environments);
        }
        assert!(used.packages.join("six.py").is_file());
        assert!(matches!(environments.change().unwrap().remove(1), Err(EnvironmentError::InUse(1))));
        drop(used);
        make(&environments);
        assert!(!environments.of_version(1).exists());
    }

    #[test]
    fn an_unfinished_environment_changes_nothing_and_is_removed() {
        let (_home, environments) = home();
        make(&environments);
        let changing = environments.change().unwrap();
        assert!(matches!(environments.change(), Err(EnvironmentError::Busy)));
        let new = changing.begin().unwrap();
        let left = new.folder.keep();
        drop(changing);
        assert_eq!(environments.current().unwrap().unwrap().version, 1);
        assert!(left.exists());
        drop(environments.change().unwrap());
        assert!(!left.exists());
        assert_eq!(make(&environments), 2);
    }

    #[test]
    fn requested_packages_are_kept() {
        let (_home, environments) = home();
        assert_eq!(environments.wanted().unwrap(), WantedPackages::default());
        let wanted = WantedPackages { added: vec!["rich>=13".to_owned()], without: vec!["plotly".to_owned()] };
        environments.change().unwrap().want(&wanted).unwrap();
        assert_eq!(environments.wanted().unwrap(), wanted);
        fs::write(environments.folder().join(WANTED), "[").unwrap();
        assert!(matches!(environments.wanted(), Err(EnvironmentError::Damaged { .. })));
    }
}
