//! Finds the Python interpreter for sandboxes.

use coracle_types::PythonInterpreter;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::{env, fs};

/// Why there is no usable Python.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PythonError {
    /// No interpreter was found.
    #[error("no python3 was found: looked for {looked_for}")]
    Missing {
        /// The locations, in order.
        looked_for: String,
    },
    /// The interpreter is too old.
    #[error("{path} is Python {version}: 3.10 or later is needed")]
    TooOld {
        /// The path of the interpreter.
        path: String,
        /// Its version.
        version: String,
    },
    /// The interpreter does not start.
    #[error("{path} does not start: {reason}")]
    Broken {
        /// The path of the interpreter.
        path: String,
        /// The last line of its output.
        reason: String,
    },
    /// The interpreter, or something that it needs, is in a folder that a sandbox replaces.
    #[error("{path} cannot run in a sandbox: {needed} is below {replaced}, and sandboxes have their own {replaced}")]
    Replaced {
        /// The path of the interpreter.
        path: String,
        /// The file or folder that is not visible in a sandbox.
        needed: String,
        /// The folder that sandboxes have instead of the host's.
        replaced: &'static str,
    },
}

/// An interpreter and its folders.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Python {
    /// The path with symbolic links resolved, except for that of a virtual environment, whose location identifies it.
    pub(crate) path: PathBuf,
    /// The folders that it needs outside `/usr`.
    pub(crate) folders: Vec<PathBuf>,
}

const OLDEST_MINOR: u32 = 10;

/// Folders that a sandbox has instead of the host's, so that nothing below the host's is visible.
const REPLACED: [&str; 6] = ["/tmp", "/workspace", "/artifacts", "/coracle", "/dev", "/proc"];

/// Prints the version and prefixes of an interpreter. Runs on interpreters of any age.
const PROBE: &str = "import sys; print('%d.%d' % sys.version_info[:2]); print(sys.base_prefix); print(sys.base_exec_prefix); print(sys.prefix)";

/// The configured interpreter, or else the system's, or else the first on `PATH` that works.
pub(crate) fn find(wanted: Option<&Path>) -> Result<Python, PythonError> {
    if let Some(path) = wanted {
        let resolved = resolve(path).ok_or_else(|| PythonError::Missing { looked_for: path.display().to_string() })?;
        return inspect(&resolved);
    }
    let system = ["/usr/bin/python3", "/usr/local/bin/python3"].map(PathBuf::from);
    let path = env::var_os("PATH").unwrap_or_default();
    let on_path = env::split_paths(&path).map(|folder| folder.join("python3"));
    let mut looked_for: Vec<PathBuf> = Vec::new();
    let mut problem = None;
    for candidate in system.into_iter().chain(on_path) {
        if looked_for.contains(&candidate) {
            continue;
        }
        if candidate.is_file() {
            match inspect(&candidate) {
                Ok(python) => return Ok(python),
                Err(error) => problem = problem.or(Some(error)),
            }
        }
        looked_for.push(candidate);
    }
    let names: Vec<String> = looked_for.iter().map(|path| path.display().to_string()).collect();
    Err(problem.unwrap_or(PythonError::Missing { looked_for: names.join(", ") }))
}

/// Prints the parts of [`PythonInterpreter`] that the file itself does not show.
const ASK: &str =
    "import sys, _imp; print('%d.%d.%d' % sys.version_info[:3]); print((_imp.extension_suffixes() or [''])[0])";

/// The interpreter of sandboxes, for tools that install packages for it: the configured one, or the default. Starts it.
pub fn interpreter(wanted: Option<&Path>) -> Result<PythonInterpreter, PythonError> {
    ask(&find(wanted)?.path)
}

fn ask(path: &Path) -> Result<PythonInterpreter, PythonError> {
    let broken = |reason: String| PythonError::Broken { path: path.display().to_string(), reason };
    let (real, bytes, modified) = stat_program(path).map_err(|error| broken(error.to_string()))?;
    let asked = Command::new(path).args(["-I", "-S", "-c", ASK]).stdin(Stdio::null()).output();
    let output = asked.map_err(|error| broken(error.to_string()))?;
    let text = String::from_utf8_lossy(&output.stdout);
    match text.lines().collect::<Vec<_>>()[..] {
        [version, abi] if output.status.success() => {
            Ok(PythonInterpreter { path: real, version: version.to_owned(), abi: abi.to_owned(), bytes, modified })
        }
        _ => Err(broken("it does not print its version".to_owned())),
    }
}

fn stat_program(path: &Path) -> std::io::Result<(PathBuf, u64, i64)> {
    let real = fs::canonicalize(path)?;
    let metadata = fs::metadata(&real)?;
    Ok((real, metadata.len(), metadata.mtime()))
}

/// Checks whether packages for one interpreter fit the one of sandboxes. Returns the reason if not.
pub fn fits(made_for: &PythonInterpreter, wanted: Option<&Path>) -> Result<(), String> {
    find(wanted).map_err(|error| error.to_string()).and_then(|python| fit(made_for, &python.path))
}

/// Checks whether packages for one interpreter fit another. Returns the reason if not. Starts the interpreter only if
/// it is not identical.
pub(crate) fn fit(made_for: &PythonInterpreter, path: &Path) -> Result<(), String> {
    let same = (made_for.path.clone(), made_for.bytes, made_for.modified);
    if stat_program(path).is_ok_and(|seen| seen == same) {
        return Ok(());
    }
    let found = ask(path).map_err(|error| error.to_string())?;
    if found.abi == made_for.abi && !found.abi.is_empty() {
        return Ok(());
    }
    let made_for = format!("Python {} ({})", made_for.version, made_for.path.display());
    Err(format!("it was made for {made_for}, and sandboxes run Python {} ({})", found.version, path.display()))
}

/// Prints the suffix of extension modules, and the folders of the standard library.
const LIBRARY: &str = "import sysconfig; print(sysconfig.get_config_var('EXT_SUFFIX') or ''); \
    print(sysconfig.get_path('stdlib')); print(sysconfig.get_path('platstdlib'))";

/// The suffix of extension modules of an interpreter, and the folders of its standard library.
pub(crate) fn abi_and_folders(path: &Path) -> Result<(String, Vec<PathBuf>), PythonError> {
    let broken = |reason: String| PythonError::Broken { path: path.display().to_string(), reason };
    let told = Command::new(path).args(["-I", "-S", "-c", LIBRARY]).stdin(Stdio::null()).output();
    let told = told.map_err(|error| broken(error.to_string()))?;
    let text = String::from_utf8_lossy(&told.stdout);
    let mut lines = text.lines();
    let Some(abi) = lines.next().filter(|_| told.status.success()) else {
        return Err(broken(String::from_utf8_lossy(&told.stderr).lines().last().unwrap_or_default().to_owned()));
    };
    let mut folders: Vec<_> = lines.map(PathBuf::from).collect();
    folders.dedup();
    Ok((abi.to_owned(), folders))
}

/// Resolves a path, or a name on `PATH`.
fn resolve(wanted: &Path) -> Option<PathBuf> {
    if wanted.components().count() > 1 {
        return wanted.is_file().then(|| wanted.to_owned());
    }
    let path = env::var_os("PATH")?;
    env::split_paths(&path).map(|folder| folder.join(wanted)).find(|candidate| candidate.is_file())
}

/// Inspects an interpreter, and checks that sandboxes can see it.
fn inspect(candidate: &Path) -> Result<Python, PythonError> {
    let python = probe(candidate)?;
    let hidden = python.folders.iter().chain([&python.path]).find_map(|needed| {
        let replaced = REPLACED.into_iter().find(|replaced| needed.starts_with(replaced))?;
        Some((needed.display().to_string(), replaced))
    });
    match hidden {
        None => Ok(python),
        Some((needed, replaced)) => {
            Err(PythonError::Replaced { path: candidate.display().to_string(), needed, replaced })
        }
    }
}

fn probe(candidate: &Path) -> Result<Python, PythonError> {
    let name = || candidate.display().to_string();
    let broken = |reason: String| PythonError::Broken { path: name(), reason };
    let real = fs::canonicalize(candidate).map_err(|error| broken(error.to_string()))?;
    let environment = Environment::of(candidate);
    // The usual case needs no trial start: the name contains the version, and everything is below /usr.
    if let Some(minor) = real.to_str().and_then(|path| path.strip_prefix("/usr/bin/python3.")?.parse::<u32>().ok()) {
        return if minor >= OLDEST_MINOR {
            let own = environment.iter().map(|environment| environment.folder.clone());
            let folders = outside_usr(own.collect());
            Ok(Python { path: environment.map_or(real, |environment| environment.program), folders })
        } else {
            Err(PythonError::TooOld { path: name(), version: format!("3.{minor}") })
        };
    }
    let output = Command::new(candidate)
        .args(["-I", "-S", "-c", PROBE])
        .stdin(Stdio::null())
        .output()
        .map_err(|error| broken(error.to_string()))?;
    if !output.status.success() {
        let words = String::from_utf8_lossy(&output.stderr);
        return Err(broken(words.lines().last().unwrap_or("it exited without a message").to_owned()));
    }
    let text = String::from_utf8_lossy(&output.stdout);
    let mut lines = text.lines();
    let version = lines.next().unwrap_or_default().to_owned();
    if !version.starts_with(|first: char| first.is_ascii_digit()) {
        return Err(broken("it does not print its version".to_owned()));
    }
    let mut numbers = version.split('.').map(|number| number.parse::<u32>().unwrap_or(0));
    if (numbers.next(), numbers.next().unwrap_or(0)) < (Some(3), OLDEST_MINOR) {
        return Err(PythonError::TooOld { path: name(), version });
    }
    let mut prefixes: Vec<PathBuf> = lines.map(PathBuf::from).collect();
    // A shim is a script that finds the interpreter, which is below the prefix.
    let path = match prefixes.first().map(|prefix| prefix.join("bin").join(format!("python{version}"))) {
        Some(inside) if inside.is_file() && !starts_as_program(&real) => fs::canonicalize(&inside).unwrap_or(inside),
        _ => environment.as_ref().map_or(real, |environment| environment.program.clone()),
    };
    prefixes.extend(environment.map(|environment| environment.folder));
    Ok(Python { path, folders: outside_usr(prefixes) })
}

/// A virtual environment: a folder of packages with links to an interpreter elsewhere.
struct Environment {
    folder: PathBuf,
    /// The link, by which the interpreter must be started.
    program: PathBuf,
}

impl Environment {
    /// The environment that a program belongs to, by the file that every environment has.
    fn of(candidate: &Path) -> Option<Self> {
        let bin = fs::canonicalize(candidate.parent()?).ok()?;
        let folder = bin.parent().filter(|folder| folder.join("pyvenv.cfg").is_file())?.to_owned();
        Some(Self { folder, program: bin.join(candidate.file_name()?) })
    }
}

/// The folders that are not part of every sandbox, each once.
fn outside_usr(prefixes: Vec<PathBuf>) -> Vec<PathBuf> {
    let mut folders: Vec<PathBuf> = Vec::new();
    for prefix in prefixes {
        if !prefix.starts_with("/usr") && prefix != Path::new("/") && !folders.contains(&prefix) {
            folders.push(prefix);
        }
    }
    folders
}

fn starts_as_program(path: &Path) -> bool {
    let mut magic = [0; 4];
    fs::File::open(path).and_then(|mut file| std::io::Read::read_exact(&mut file, &mut magic)).is_ok()
        && magic == *b"\x7fELF"
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A folder that looks like a virtual environment of the system's Python.
    fn environment(folder: &Path) -> PathBuf {
        fs::create_dir_all(folder.join("bin")).unwrap();
        fs::write(folder.join("pyvenv.cfg"), "").unwrap();
        let program = folder.join("bin/python");
        std::os::unix::fs::symlink("/usr/bin/python3", &program).unwrap();
        program
    }

    #[test]
    fn an_interpreter_in_a_folder_that_sandboxes_replace_is_refused() {
        let place = tempfile::Builder::new().prefix("coracle-python-").tempdir_in("/tmp").unwrap();
        let program = environment(place.path());
        let expected = PythonError::Replaced {
            path: program.display().to_string(),
            needed: place.path().display().to_string(),
            replaced: "/tmp",
        };
        assert_eq!(find(Some(&program)), Err(expected));
        // A link to the system's interpreter is fine: only what it leads to is used.
        let link = place.path().join("python");
        std::os::unix::fs::symlink("/usr/bin/python3", &link).unwrap();
        assert_eq!(find(Some(&link)), find(Some(Path::new("/usr/bin/python3"))));
        // Control: the same environment elsewhere.
        let elsewhere = tempfile::tempdir_in("/var/tmp").unwrap();
        let program = environment(elsewhere.path());
        assert_eq!(find(Some(&program)).map(|python| python.path), Ok(program));
    }
}
