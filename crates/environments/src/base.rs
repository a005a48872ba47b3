//! Packages that a new environment takes over from the current one, so that adding a package installs only that
//! package.

use crate::error::{PackageError, at};
use crate::installed::installed;
use crate::requirement::Requirement;
use coracle_store::Package;
use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

/// Current environment, as far as a new one can build on it.
#[derive(Debug)]
pub(crate) struct Base {
    folder: PathBuf,
    pub(crate) packages: Vec<Package>,
    /// Requested packages, which get the newest version that fits.
    pub(crate) named: Vec<String>,
}

impl Base {
    /// Reads the packages in a folder.
    pub(crate) fn new(folder: PathBuf, named: Vec<String>) -> Result<Self, PackageError> {
        let packages = installed(&folder)?;
        Ok(Self { folder, packages, named })
    }

    /// Copies all files: with links, the installer could change what running servers use.
    pub(crate) fn copy_to(&self, target: &Path) -> Result<(), PackageError> {
        copy(&self.folder, target)
    }

    /// Installed versions, as constraints for an installer.
    pub(crate) fn constraints(&self) -> String {
        let stays = |package: &&Package| !self.named.contains(&Requirement::named(&package.name));
        let stay = self.packages.iter().filter(stays);
        let lines: Vec<String> = stay.map(|package| format!("{}=={}", package.name, package.version)).collect();
        lines.join("\n") + "\n"
    }

    /// Packages of the new environment that this one lacks; `None` if an existing package was removed or changed.
    pub(crate) fn added<'a>(&self, now: &'a [Package]) -> Option<Vec<&'a Package>> {
        let is_kept = |package: &Package| now.contains(package);
        self.packages
            .iter()
            .all(is_kept)
            .then(|| now.iter().filter(|package| !self.packages.contains(package)).collect())
    }
}

fn copy(from: &Path, to: &Path) -> Result<(), PackageError> {
    fs::create_dir_all(to).map_err(at(to))?;
    for entry in fs::read_dir(from).map_err(at(from))? {
        let entry = entry.map_err(at(from))?;
        let kind = entry.file_type().map_err(at(&entry.path()))?;
        let target = to.join(entry.file_name());
        if kind.is_dir() {
            copy(&entry.path(), &target)?;
        } else if kind.is_file() {
            fs::copy(entry.path(), &target).map_err(at(&target))?;
        }
    }
    Ok(())
}

/// Python files that these packages installed; `None` if one of them does not list its files.
pub(crate) fn sources(packages: &Path, added: &[&Package]) -> Option<BTreeSet<PathBuf>> {
    let mut files = BTreeSet::new();
    for package in added {
        let (name, version) = (spelled(&package.name), &package.version);
        let info = fs::read_dir(packages).ok()?.flatten().find(|entry| {
            let text = entry.file_name().to_string_lossy().into_owned();
            let stem = text.strip_suffix(".dist-info").and_then(|stem| stem.rsplit_once('-'));
            stem.is_some_and(|(of, number)| spelled(of) == name && number == version)
        })?;
        let record = fs::read_to_string(info.path().join("RECORD")).ok().filter(|text| !text.trim().is_empty())?;
        let names = record.lines().filter_map(|line| line.split(',').next());
        let sources = names.map(|name| name.trim_matches('"')).filter(|name| {
            let ending = Path::new(name).extension();
            ending.is_some_and(|ending| ending == "py")
        });
        files.extend(
            sources.filter(|name| !name.contains("..")).map(|name| packages.join(name)).filter(|path| path.is_file()),
        );
    }
    Some(files)
}

/// Normalizes the name of a package.
fn spelled(name: &str) -> String {
    name.chars().map(|c| if matches!(c, '-' | '.') { '_' } else { c.to_ascii_lowercase() }).collect()
}
