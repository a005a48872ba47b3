//! Creates an environment: chooses an installer, installs, compiles, and puts the result in place.

use crate::base::{Base, sources};
use crate::error::{PackageError, at};
use crate::install::{Builds, Installer, Order, compile, has_versions, tidy};
use crate::installed::installed;
use crate::progress::{Event, Progress};
use crate::requirement::{Requirement, USUAL};
use coracle_store::{ChangingEnvironments, Environment, NewEnvironment, WantedPackages};
use std::fs;
use std::path::{Path, PathBuf};
use std::time::{SystemTime, UNIX_EPOCH};

/// Path of the packages in sandboxes, which appears in tracebacks.
const SEEN_AT: &str = "/environment";

/// Share of each step in percent: finding an installer, installing, compiling, putting in place.
const STEPS: [u64; 4] = [5, 70, 20, 5];

/// Maximum length of a requirements file in bytes.
const MAX_REQUIREMENTS: u64 = 1 << 20;

/// What all attempts to create an environment share.
#[derive(Clone, Copy)]
pub(crate) struct Options<'a> {
    /// Configured interpreter.
    pub(crate) python: Option<&'a Path>,
    /// Configured requirements file.
    pub(crate) requirements: Option<&'a Path>,
    pub(crate) builds: Builds,
    pub(crate) report: &'a dyn Fn(Event<'_>),
}

/// Creates an environment, and makes it the current one. Returns `None` if `base` already has everything.
pub(crate) async fn make(
    options: Options<'_>,
    changing: &ChangingEnvironments<'_>,
    wanted: &WantedPackages,
    base: Option<&Base>,
) -> Result<Option<Environment>, PackageError> {
    let new = changing.begin()?;
    let start = base.map_or(Start::Empty, Start::Copy);
    let environment = match fill(&new, options, wanted, start).await {
        Err(PackageError::Conflict) => None,
        other => Some(other?),
    };
    let added = |base: &Base| Some(base.added(&environment.as_ref()?.packages)?.len());
    let added = base.and_then(added);
    match (base, environment, added) {
        (Some(_), _, Some(0)) | (None, None, _) => Ok(None),
        (None, Some(environment), _) | (_, Some(environment), Some(_)) => Ok(Some(changing.publish(new, environment)?)),
        // An installed version must change, so everything is reinstalled, with the other versions unchanged if
        // possible.
        (Some(base), ..) => {
            drop(new);
            let mut new = changing.begin()?;
            let environment = match fill(&new, options, wanted, Start::Versions(base)).await {
                Ok(environment) => environment,
                Err(error) => {
                    tracing::debug!(%error, "other packages must change as well");
                    drop(new);
                    new = changing.begin()?;
                    fill(&new, options, wanted, Start::Empty).await?
                }
            };
            Ok(Some(changing.publish(new, environment)?))
        }
    }
}

/// Starting point of a new environment.
#[derive(Clone, Copy, Debug)]
enum Start<'a> {
    Empty,
    /// Copy of the installed packages.
    Copy(&'a Base),
    /// Empty, but with the installed versions as constraints.
    Versions(&'a Base),
}

/// Fills a new environment.
async fn fill(
    new: &NewEnvironment,
    options: Options<'_>,
    wanted: &WantedPackages,
    start: Start<'_>,
) -> Result<Environment, PackageError> {
    let progress = Progress::new(&STEPS, options.report);
    progress.step("looking for an installer");
    let python = coracle_sandbox::interpreter(options.python)?;
    let (files, requirements) = requirements(new.aside(), options.requirements, wanted)?;
    let beside = options.requirements.and_then(Path::parent).map(Path::to_owned);
    let folder = beside.unwrap_or_else(|| new.aside().to_owned());
    let installer = Installer::find(&python.path, new.aside(), &progress).await?;
    progress.step("installing");
    let (packages, aside, builds) = (&new.packages, new.aside(), options.builds);
    let (base, constraints) = match start {
        Start::Empty => (None, None),
        Start::Copy(base) => {
            base.copy_to(packages)?;
            (Some(base), None)
        }
        Start::Versions(base) => {
            let path = aside.join("constraints.txt");
            fs::write(&path, base.constraints()).map_err(at(&path))?;
            (None, Some(path))
        }
    };
    let constraints = constraints.as_deref();
    let order =
        Order { python: &python.path, files: &files, folder: &folder, packages, builds, base, constraints, aside };
    match installer.install(&order, &progress).await {
        Ok(()) => {}
        Err(PackageError::Conflict) => return Err(PackageError::Conflict),
        Err(cause) => return Err(refused(cause, builds, &installer, aside, &progress).await),
    }
    progress.step("compiling");
    tidy(&new.packages)?;
    let list = only_new(&new.packages, base, aside)?;
    compile(&python.path, &new.packages, list.as_deref(), SEEN_AT, &progress).await;
    progress.step("putting it in place");
    tidy(&new.packages)?;
    let made_at = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs());
    let packages = installed(&new.packages)?;
    Ok(Environment { version: 0, made_at, made_by: installer.name().to_owned(), python, requirements, packages })
}

/// Writes a list of the files to compile; `None` means all files.
fn only_new(packages: &Path, base: Option<&Base>, aside: &Path) -> Result<Option<PathBuf>, PackageError> {
    let Some(base) = base else { return Ok(None) };
    let now = installed(packages)?;
    let Some(files) = base.added(&now).and_then(|added| sources(packages, &added)) else { return Ok(None) };
    let list = aside.join("compile.txt");
    let lines: Vec<String> = files.iter().map(|file| file.display().to_string()).collect();
    fs::write(&list, lines.join("\n") + "\n").map_err(at(&list))?;
    Ok(Some(list))
}

/// Explains why installing failed. The current environment is unchanged.
async fn refused(
    cause: PackageError,
    builds: Builds,
    installer: &Installer,
    folder: &Path,
    progress: &Progress<'_>,
) -> PackageError {
    let hint = match Trouble::of(&cause.to_string()) {
        Trouble::Network => Some(NETWORK),
        Trouble::Build if builds == Builds::Refused => Some(BUILD),
        Trouble::Missing(package) if builds == Builds::Refused => {
            // A package that only exists as source is reported in the same way as one that does not exist.
            match has_versions(installer, &package, folder, progress).await {
                Some(true) => Some(BUILD),
                _ => Some(NAME),
            }
        }
        Trouble::Missing(_) => Some(NAME),
        Trouble::Build | Trouble::Other => None,
    };
    PackageError::Refused { cause: Box::new(cause), hint }
}

const NETWORK: &str = "cannot reach the package index: check the network, and HTTPS_PROXY, SSL_CERT_FILE and the \
    installer's own settings (UV_INDEX_URL, PIP_INDEX_URL)";
const BUILD: &str = "a package has no wheel for this Python: another version may have one; --allow-builds builds \
    it here, which runs its authors' code outside of any sandbox";
const NAME: &str = "check the name and the version of the package";

/// Cause of a failed installation, from the installer's output.
#[derive(Debug, PartialEq, Eq)]
enum Trouble {
    Network,
    /// A package must be built.
    Build,
    /// A package was not found.
    Missing(String),
    Other,
}

impl Trouble {
    fn of(said: &str) -> Self {
        let lower = said.to_lowercase();
        let says = |words: &[&str]| words.iter().any(|words| lower.contains(words));
        if says(&[
            "dns error",
            "name resolution",
            "error sending request",
            "failed to fetch",
            "newconnectionerror",
            "connection refused",
            "connecttimeout",
            "network is unreachable",
            "certificate verify failed",
            "invalid peer certificate",
            "proxyerror",
            "network was disabled",
        ]) {
            return Self::Network;
        }
        if says(&[
            "no usable wheels",
            "no wheels",
            "building source distributions",
            "building from source",
            "source distributions is disabled",
            "--only-binary",
            "--no-build",
            "no-build",
        ]) {
            return Self::Build;
        }
        if let Some((_, rest)) = said.rsplit_once("No matching distribution found for ") {
            let name = Requirement::named(rest);
            if !name.is_empty() {
                return Self::Missing(name);
            }
        }
        if says(&["not found in the package registry", "not found in the provided package locations", "no version of"])
        {
            return Self::Missing(String::new());
        }
        Self::Other
    }
}

/// Writes the requirements files for the installer, and returns them with what they request: the operator's file or
/// the default packages, and the added ones.
fn requirements(
    aside: &Path,
    file: Option<&Path>,
    wanted: &WantedPackages,
) -> Result<(Vec<PathBuf>, Vec<String>), PackageError> {
    let mut files = Vec::new();
    let mut asked = Vec::new();
    let mut own = wanted.added.clone();
    if let Some(file) = file {
        let text = read(file)?;
        let lines = text.lines().map(str::trim).filter(|line| !line.is_empty() && !line.starts_with('#'));
        asked.extend(lines.map(str::to_owned));
        files.push(std::path::absolute(file).map_err(at(file))?);
    } else {
        let given: Vec<String> = own.iter().map(|text| Requirement::named(text)).collect();
        let usual = USUAL.iter().map(|&name| name.to_owned());
        own.extend(usual.filter(|name| !given.contains(name) && !wanted.without.contains(name)));
    }
    asked.extend(own.iter().cloned());
    if !own.is_empty() {
        let path = aside.join("requirements.txt");
        fs::write(&path, own.join("\n") + "\n").map_err(at(&path))?;
        files.push(path);
    }
    Ok((files, asked))
}
/// Reads the requirements file of the settings.
fn read(file: &Path) -> Result<String, PackageError> {
    let read = fs::metadata(file).and_then(|metadata| {
        if metadata.len() > MAX_REQUIREMENTS {
            return Err(std::io::ErrorKind::FileTooLarge.into());
        }
        fs::read_to_string(file)
    });
    read.map_err(|error| PackageError::RequirementsFile { path: file.to_owned(), error })
}

#[cfg(test)]
mod tests {
    use super::Trouble;

    #[test]
    fn allow_builds_is_only_suggested_if_a_build_is_needed() {
        for (said, trouble) in [
            ("Because foo has no usable wheels and building from source is disabled", Trouble::Build),
            ("error sending request for url (https://…)\n dns error", Trouble::Network),
            ("ERROR: No matching distribution found for foo>=2 (from x)", Trouble::Missing("foo".to_owned())),
            ("Because nope was not found in the package registry", Trouble::Missing(String::new())),
            ("No space left on device", Trouble::Other),
        ] {
            assert_eq!(Trouble::of(said), trouble, "{said}");
        }
    }
}
