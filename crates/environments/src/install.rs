//! Installs packages into a folder, with `uv` if available, or else with `pip` from the interpreter or a separate venv.
//!
//! No code of a package runs: wheels are unpacked, and packages that must be built are refused unless that is allowed.

use crate::base::Base;
use crate::error::{PackageError, at};
use crate::progress::Progress;
use crate::requirement::Requirement;
use coracle_types::single_line;
use serde::Deserialize;
use std::collections::VecDeque;
use std::ffi::OsStr;
use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use tokio::io::{AsyncBufReadExt, AsyncRead, BufReader};
use tokio::process::{Child, Command};

/// Number of output lines that are printed when an installer fails.
const LAST_LINES: usize = 20;
const LINE: usize = 300;

/// Program that installs packages.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Installer {
    Uv(PathBuf),
    /// Interpreter with pip.
    Pip(PathBuf),
}

/// What to install, and where.
#[derive(Debug)]
pub(crate) struct Order<'a> {
    /// Interpreter.
    pub(crate) python: &'a Path,
    /// Requirements files.
    pub(crate) files: &'a [PathBuf],
    /// Folder for relative paths in the requirements files.
    pub(crate) folder: &'a Path,
    /// Target folder.
    pub(crate) packages: &'a Path,
    pub(crate) builds: Builds,
    /// Packages that the folder already has, whose versions are kept.
    pub(crate) base: Option<&'a Base>,
    /// File with the required versions of packages, if they are installed at all.
    pub(crate) constraints: Option<&'a Path>,
    /// Folder for temporary files.
    pub(crate) aside: &'a Path,
}

/// Whether packages may be built, which runs their build code on this machine, outside any sandbox.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Builds {
    /// Packages that must be built are refused.
    Refused,
    /// Packages may be built.
    Allowed,
}

impl Installer {
    /// Finds an installer. `aside` is a folder that it may use.
    pub(crate) async fn find(python: &Path, aside: &Path, progress: &Progress<'_>) -> Result<Self, PackageError> {
        let path = std::env::var_os("PATH").unwrap_or_default();
        if let Some(uv) = std::env::split_paths(&path).map(|folder| folder.join("uv")).find(|file| file.is_file()) {
            return Ok(Self::Uv(uv));
        }
        let has_pip = run(python, ["-I", "-m", "pip", "--version"], aside, progress).await;
        if has_pip.is_ok() {
            return Ok(Self::Pip(python.to_owned()));
        }
        let venv = aside.join("venv");
        let made =
            run(python, [OsStr::new("-I"), "-m".as_ref(), "venv".as_ref(), venv.as_ref()], aside, progress).await;
        match made {
            Ok(()) => Ok(Self::Pip(venv.join("bin").join("python3"))),
            Err(cause) => Err(PackageError::NoInstaller { python: python.to_owned(), cause: Box::new(cause) }),
        }
    }

    pub(crate) fn name(&self) -> &'static str {
        match self {
            Self::Uv(_) => "uv",
            Self::Pip(_) => "pip",
        }
    }

    /// Installs the packages. After a failure, the caller removes the folder.
    pub(crate) async fn install(&self, order: &Order<'_>, progress: &Progress<'_>) -> Result<(), PackageError> {
        if let (Self::Pip(python), Some(base)) = (self, order.base) {
            return add_by_pip(python, order, base, progress).await;
        }
        let mut arguments: Vec<&OsStr> = Vec::new();
        let program = match self {
            Self::Uv(uv) => {
                // Copies, so that changes in uv's cache do not affect the environment.
                for word in ["pip", "install", "--no-progress", "--link-mode", "copy", "--python"] {
                    arguments.push(word.as_ref());
                }
                arguments.push(order.python.as_ref());
                uv
            }
            Self::Pip(python) => {
                arguments.extend(PIP.iter().map(OsStr::new));
                python
            }
        };
        if order.builds == Builds::Refused {
            arguments.extend([OsStr::new("--only-binary"), OsStr::new(":all:")]);
        }
        if let Some(constraints) = order.constraints {
            arguments.extend([OsStr::new("-c"), constraints.as_ref()]);
        }
        for name in order.base.iter().flat_map(|base| &base.named) {
            arguments.extend([OsStr::new("--upgrade-package"), name.as_ref()]);
        }
        arguments.extend([OsStr::new("--target"), order.packages.as_ref()]);
        for file in order.files {
            arguments.extend([OsStr::new("-r"), file.as_ref()]);
        }
        run(program, arguments, order.folder, progress).await
    }
}

/// Adds packages with pip. `pip install --target` would reinstall everything, so a dry run lists the packages that are
/// missing, and only those are installed.
async fn add_by_pip(
    python: &Path,
    order: &Order<'_>,
    base: &Base,
    progress: &Progress<'_>,
) -> Result<(), PackageError> {
    let [constraints, report, missing] =
        ["constraints.txt", "report.json", "missing.txt"].map(|name| order.aside.join(name));
    fs::write(&constraints, base.constraints()).map_err(at(&constraints))?;
    let mut arguments: Vec<&OsStr> = PIP.iter().map(OsStr::new).collect();
    arguments.extend(["--dry-run", "--ignore-installed", "--quiet", "--report"].map(OsStr::new));
    arguments.extend([report.as_os_str(), "-c".as_ref(), constraints.as_os_str()]);
    if order.builds == Builds::Refused {
        arguments.extend([OsStr::new("--only-binary"), OsStr::new(":all:")]);
    }
    for file in order.files {
        arguments.extend([OsStr::new("-r"), file.as_ref()]);
    }
    run(python, arguments, order.folder, progress).await?;
    let text = fs::read(&report).map_err(at(&report))?;
    let report: Report = serde_json::from_slice(&text).map_err(PackageError::Report)?;
    let is_there = |one: &Reported| {
        base.packages.iter().any(|package| {
            package.version == one.metadata.version
                && Requirement::named(&package.name) == Requirement::named(&one.metadata.name)
        })
    };
    let has_other = |one: &Reported| {
        let name = Requirement::named(&one.metadata.name);
        base.packages.iter().any(|package| Requirement::named(&package.name) == name)
    };
    if report.install.iter().any(|one| !is_there(one) && has_other(one)) {
        return Err(PackageError::Conflict);
    }
    let wanted: Vec<String> = report.install.iter().filter(|one| !is_there(one)).map(Reported::line).collect();
    if wanted.is_empty() {
        return Ok(());
    }
    progress.expect(wanted.len());
    fs::write(&missing, wanted.join("\n") + "\n").map_err(at(&missing))?;
    let mut arguments: Vec<&OsStr> = PIP.iter().map(OsStr::new).collect();
    arguments.push("--no-deps".as_ref());
    if order.builds == Builds::Refused {
        arguments.extend([OsStr::new("--only-binary"), OsStr::new(":all:")]);
    }
    arguments.extend([OsStr::new("--target"), order.packages.as_ref(), "-r".as_ref(), missing.as_ref()]);
    run(python, arguments, order.folder, progress).await
}

/// Options of every call of pip.
const PIP: [&str; 10] = [
    "-I",
    "-m",
    "pip",
    "install",
    "--no-input",
    "--no-compile",
    "--disable-pip-version-check",
    "--no-warn-script-location",
    "--progress-bar",
    "off",
];

/// Report of `pip install --report`, as far as needed.
#[derive(Debug, Deserialize)]
struct Report {
    install: Vec<Reported>,
}

#[derive(Debug, Deserialize)]
struct Reported {
    metadata: Metadata,
    download_info: Download,
    #[serde(default)]
    is_direct: bool,
}

#[derive(Debug, Deserialize)]
struct Metadata {
    name: String,
    version: String,
}

#[derive(Debug, Deserialize)]
struct Download {
    url: String,
}

impl Reported {
    /// Formats a line of a requirements file.
    fn line(&self) -> String {
        let Metadata { name, version } = &self.metadata;
        if self.is_direct { format!("{name} @ {}", self.download_info.url) } else { format!("{name}=={version}") }
    }
}

/// Whether any version of a package exists, as a wheel or as source. Installs nothing; `None` if unknown.
pub(crate) async fn has_versions(
    installer: &Installer,
    package: &str,
    folder: &Path,
    progress: &Progress<'_>,
) -> Option<bool> {
    let Installer::Pip(python) = installer else { return None };
    let words = ["-I", "-m", "pip", "index", "versions", "--pre", "--disable-pip-version-check", "--", package];
    let asked = run(python, words, folder, progress).await;
    match asked {
        Ok(()) => Some(true),
        Err(error) if error.to_string().contains("No matching distribution found") => Some(false),
        Err(_) => None,
    }
}

/// Compiles modules, because sandboxes cannot store compiled ones: the listed files, or all.
pub(crate) async fn compile(
    python: &Path,
    packages: &Path,
    only: Option<&Path>,
    seen_at: &str,
    progress: &Progress<'_>,
) {
    let words =
        ["-I", "-S", "-m", "compileall", "-q", "-f", "-j", "0", "--invalidation-mode", "unchecked-hash", "-p", seen_at];
    let mut arguments: Vec<&OsStr> = words.iter().map(OsStr::new).collect();
    arguments.extend([OsStr::new("-s"), packages.as_ref()]);
    match only {
        Some(list) => arguments.extend([OsStr::new("-i"), list.as_ref()]),
        None => arguments.push(packages.as_ref()),
    }
    // Packages contain files for other versions of Python. Files that do not compile could not be imported either.
    if let Err(error) = run(python, arguments, packages, progress).await {
        tracing::debug!(%error, "some modules were not compiled");
    }
}

/// Removes what sandboxes do not need, and makes the rest readable for all users: as root, sandboxes run as another
/// user.
pub(crate) fn tidy(packages: &Path) -> Result<(), PackageError> {
    // Scripts of packages, which name an interpreter of this machine.
    for unwanted in ["bin", ".lock"] {
        let path = packages.join(unwanted);
        if path.is_dir() {
            fs::remove_dir_all(&path).map_err(at(&path))?;
        } else if path.exists() {
            fs::remove_file(&path).map_err(at(&path))?;
        }
    }
    open(packages)
}

fn open(folder: &Path) -> Result<(), PackageError> {
    fs::set_permissions(folder, Permissions::from_mode(0o755)).map_err(at(folder))?;
    for entry in fs::read_dir(folder).map_err(at(folder))? {
        let entry = entry.map_err(at(folder))?;
        let kind = entry.file_type().map_err(at(folder))?;
        if kind.is_dir() {
            open(&entry.path())?;
        } else if kind.is_file() {
            let mode = entry.metadata().map_err(at(folder))?.permissions().mode();
            // Clears set-user-ID bits, which no package needs.
            let wanted = if mode & 0o100 == 0 { 0o644 } else { 0o755 };
            fs::set_permissions(entry.path(), Permissions::from_mode(wanted)).map_err(at(folder))?;
        }
    }
    Ok(())
}

/// Kills a program and its descendants when dropped.
struct Group(Child);

impl Drop for Group {
    fn drop(&mut self) {
        let pid = self.0.id().and_then(|pid| i32::try_from(pid).ok()).and_then(rustix::process::Pid::from_raw);
        if let Some(pid) = pid {
            // Fails only if the process is gone.
            let _ = rustix::process::kill_process_group(pid, rustix::process::Signal::KILL);
        }
    }
}

/// Runs a program to its end. A failure includes its last output.
async fn run<S: AsRef<OsStr>>(
    program: &Path,
    arguments: impl IntoIterator<Item = S>,
    folder: &Path,
    progress: &Progress<'_>,
) -> Result<(), PackageError> {
    let failed = |act| move |error| PackageError::Program { act, program: program.to_owned(), error };
    let mut command = Command::new(program);
    command.args(arguments).current_dir(folder).stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    command.env_remove("PYTHONPATH").env_remove("PYTHONHOME").env("PYTHONUNBUFFERED", "1").process_group(0);
    let mut child = Group(command.spawn().map_err(failed("start"))?);
    let (stdout, stderr) = (child.0.stdout.take(), child.0.stderr.take());
    let mut last = VecDeque::new();
    let (heard, complained) = tokio::join!(hear(stdout, progress), hear(stderr, progress));
    // Standard error comes last, whenever it was written.
    for line in heard.into_iter().chain(complained) {
        last.push_back(line);
        if last.len() > LAST_LINES {
            last.pop_front();
        }
    }
    let status = child.0.wait().await.map_err(failed("wait for"))?;
    if status.success() {
        return Ok(());
    }
    let words: Vec<String> = last.into_iter().map(|line| format!("  {line}")).collect();
    Err(PackageError::Failed { program: program.to_owned(), status, output: words.join("\n") })
}

/// Returns the last lines of a stream.
async fn hear(stream: Option<impl AsyncRead + Unpin>, progress: &Progress<'_>) -> VecDeque<String> {
    let mut last = VecDeque::new();
    let Some(stream) = stream else { return last };
    let mut lines = BufReader::new(stream).lines();
    // Stops at output that is not text.
    while let Ok(Some(line)) = lines.next_line().await {
        if line.trim().is_empty() {
            continue;
        }
        progress.says(&line);
        last.push_back(single_line(&line, LINE));
        if last.len() > LAST_LINES {
            last.pop_front();
        }
    }
    last
}
