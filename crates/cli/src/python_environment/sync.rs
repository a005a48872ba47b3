use super::base::{Base, sources};
use super::install::{Builds, Changes, Installer, Order, compile, has_versions, tidy};
use super::installed::installed;
use super::progress::Progress;
use super::requirement::Requirement;
use super::{USUAL, said};
use crate::output::counted;
use crate::status::{Mistake, Status};
use crate::wiring::cancellable;
use anyhow::Context;
use clap::Args;
use coracle_config::Settings;
use coracle_store::{ChangingEnvironments, Environment, NewEnvironment, WantedPackages};
use std::fs;
use std::path::{Path, PathBuf};
use std::time::{SystemTime, UNIX_EPOCH};

#[derive(Debug, Args)]
pub(super) struct SyncArguments {
    /// Also install packages that must be built from source. This runs their build code outside any sandbox.
    #[arg(long)]
    allow_builds: bool,
}

/// Path of the packages in sandboxes, which appears in tracebacks.
const SEEN_AT: &str = "/environment";

/// Share of each step of the bar: finding an installer, installing, compiling, putting in place.
const STEPS: [u64; 4] = [5, 70, 20, 5];

/// Maximum length of a requirements file in bytes.
const MAX_REQUIREMENTS: u64 = 1 << 20;

pub(super) fn run(
    arguments: &SyncArguments,
    settings: &Settings,
    changing: &ChangingEnvironments<'_>,
    wanted: &WantedPackages,
    base: Option<&Base>,
) -> anyhow::Result<Status> {
    let builds = if arguments.allow_builds { Builds::Allowed } else { Builds::Refused };
    let made = cancellable(async {
        let new = changing.begin().map_err(said)?;
        let start = base.map_or(Start::Empty, Start::Copy);
        let environment = match fill(&new, settings, wanted, builds, start).await {
            Err(error) if error.is::<Changes>() => None,
            other => Some(other?),
        };
        let added = |base: &Base| Some(base.added(&environment.as_ref()?.packages)?.len());
        let added = base.and_then(added);
        match (base, environment, added) {
            (Some(_), _, Some(0)) | (None, None, _) => Ok(None),
            (None, Some(environment), _) | (_, Some(environment), Some(_)) => {
                changing.publish(new, environment).map(Some).map_err(said)
            }
            // An installed version must change, so everything is reinstalled, with the other versions unchanged if
            // possible.
            (Some(base), ..) => {
                drop(new);
                let mut new = changing.begin().map_err(said)?;
                let environment = match fill(&new, settings, wanted, builds, Start::Versions(base)).await {
                    Ok(environment) => environment,
                    Err(error) => {
                        tracing::debug!(error = %format!("{error:#}"), "other packages must change as well");
                        drop(new);
                        new = changing.begin().map_err(said)?;
                        fill(&new, settings, wanted, builds, Start::Empty).await?
                    }
                };
                changing.publish(new, environment).map(Some).map_err(said)
            }
        }
    })?;
    let Some(made) = made else {
        eprintln!("everything is already installed: the environment is unchanged");
        return Ok(Status::Success);
    };
    let packages = counted(made.packages.len(), "package");
    eprintln!("environment {}: {packages} for Python {}, by {}", made.version, made.python.version, made.made_by);
    eprintln!("new commands use it; restart running servers to use it");
    Ok(Status::Success)
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
    settings: &Settings,
    wanted: &WantedPackages,
    builds: Builds,
    start: Start<'_>,
) -> anyhow::Result<Environment> {
    let progress = Progress::new(&STEPS);
    progress.step("looking for an installer");
    let python = coracle_sandbox::interpreter(settings.execution.python.as_deref())?;
    let (files, requirements) = requirements(new.aside(), settings, wanted)?;
    let beside = settings.execution.requirements.as_deref().and_then(Path::parent).map(Path::to_owned);
    let folder = beside.unwrap_or_else(|| new.aside().to_owned());
    let installer = Installer::find(&python.path, new.aside(), &progress).await?;
    progress.step("installing");
    let (packages, aside) = (&new.packages, new.aside());
    let (base, constraints) = match start {
        Start::Empty => (None, None),
        Start::Copy(base) => {
            base.copy_to(packages)?;
            (Some(base), None)
        }
        Start::Versions(base) => {
            let path = aside.join("constraints.txt");
            fs::write(&path, base.constraints()).with_context(|| path.display().to_string())?;
            (None, Some(path))
        }
    };
    let constraints = constraints.as_deref();
    let order =
        Order { python: &python.path, files: &files, folder: &folder, packages, builds, base, constraints, aside };
    if let Err(error) = installer.install(&order, &progress).await {
        if error.is::<Changes>() {
            return Err(error);
        }
        return Err(refused(error, builds, &installer, aside, &progress).await);
    }
    progress.step("compiling");
    tidy(&new.packages)?;
    let list = only_new(&new.packages, base, aside)?;
    compile(&python.path, &new.packages, list.as_deref(), SEEN_AT, &progress).await?;
    progress.step("putting it in place");
    tidy(&new.packages)?;
    let made_at = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs());
    let packages = installed(&new.packages)?;
    Ok(Environment { version: 0, made_at, made_by: installer.name().to_owned(), python, requirements, packages })
}

/// Writes a list of the files to compile; `None` means all files.
fn only_new(packages: &Path, base: Option<&Base>, aside: &Path) -> anyhow::Result<Option<PathBuf>> {
    let Some(base) = base else { return Ok(None) };
    let now = installed(packages)?;
    let Some(files) = base.added(&now).and_then(|added| sources(packages, &added)) else { return Ok(None) };
    let list = aside.join("compile.txt");
    let lines: Vec<String> = files.iter().map(|file| file.display().to_string()).collect();
    fs::write(&list, lines.join("\n") + "\n").with_context(|| list.display().to_string())?;
    Ok(Some(list))
}

/// Explains why installing failed. The current environment is unchanged.
async fn refused(
    error: anyhow::Error,
    builds: Builds,
    installer: &Installer,
    folder: &Path,
    progress: &Progress,
) -> anyhow::Error {
    let why = "cannot install the packages; the environment is unchanged";
    let said = format!("{error:#}");
    let hint = match Trouble::of(&said) {
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
    match hint {
        Some(hint) => anyhow::anyhow!("{why}: {said}\nhint: {hint}"),
        None => anyhow::anyhow!("{why}: {said}"),
    }
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

/// Writes the requirements files for the installer, and returns them with what they request: the operator's file or the
/// default packages, and the added ones.
fn requirements(
    aside: &Path,
    settings: &Settings,
    wanted: &WantedPackages,
) -> anyhow::Result<(Vec<PathBuf>, Vec<String>)> {
    let mut files = Vec::new();
    let mut asked = Vec::new();
    let mut own = wanted.added.clone();
    if let Some(file) = &settings.execution.requirements {
        let text = read(file)?;
        let lines = text.lines().map(str::trim).filter(|line| !line.is_empty() && !line.starts_with('#'));
        asked.extend(lines.map(str::to_owned));
        files.push(std::path::absolute(file)?);
    } else {
        let given: Vec<String> = own.iter().map(|text| Requirement::named(text)).collect();
        let usual = USUAL.iter().map(|&name| name.to_owned());
        own.extend(usual.filter(|name| !given.contains(name) && !wanted.without.contains(name)));
    }
    asked.extend(own.iter().cloned());
    if !own.is_empty() {
        let path = aside.join("requirements.txt");
        fs::write(&path, own.join("\n") + "\n").with_context(|| path.display().to_string())?;
        files.push(path);
    }
    Ok((files, asked))
}

fn read(file: &Path) -> anyhow::Result<String> {
    let read = fs::metadata(file).and_then(|metadata| {
        if metadata.len() > MAX_REQUIREMENTS {
            return Err(std::io::ErrorKind::FileTooLarge.into());
        }
        fs::read_to_string(file)
    });
    read.map_err(|error| {
        let hint = "use a file for pip's -r; without this setting the default packages are installed";
        Mistake::new(format!("execution.requirements: {}: {error}", file.display()), Some(hint)).into()
    })
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
