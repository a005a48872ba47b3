//! Installs the guest's files, compiled for the interpreter, so that a cold start need not compile anything.

use std::fs::{self, Permissions};
use std::hash::{DefaultHasher, Hash, Hasher};
use std::io;
use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

const COMPILE: &str = "import compileall, py_compile, sys; \
    compileall.compile_dir(sys.argv[1], quiet=2, stripdir=sys.argv[2], prependdir='/', \
    invalidation_mode=py_compile.PycInvalidationMode.UNCHECKED_HASH); \
    sys.path.append(sys.argv[1]); from coracle_guest import bundle, paths; bundle.write(sys.argv[1]); \
    paths.write(sys.argv[1])";

/// Returns the folder that becomes `/coracle`, and creates it if necessary. It is created in the folder of the instance
/// and then renamed, so that the next start removes it if this process dies midway.
pub(crate) fn install(home: &Path, run_dir: &Path, python: &Path) -> io::Result<PathBuf> {
    let cache = home.join("cache");
    let interpreter = fs::metadata(python)?;
    let mut hasher = DefaultHasher::new();
    (python, interpreter.mtime(), interpreter.size(), coracle_guest::DIGEST).hash(&mut hasher);
    let folder = cache.join(format!("guest-{:016x}", hasher.finish()));
    if folder.is_dir() {
        return Ok(folder);
    }
    // Renamed when it is complete, so that no one sees an incomplete folder.
    let aside = run_dir.join("guest");
    fs::create_dir_all(&cache)?;
    for folder in ["servers", "skills"] {
        fs::create_dir_all(aside.join(folder))?;
    }
    for (path, content) in coracle_guest::FILES {
        let file = aside.join(path);
        fs::create_dir_all(file.parent().unwrap_or(&aside))?;
        fs::write(file, content)?;
    }
    // Where the tree of a sandbox has this program, and the names that it is called by.
    fs::create_dir(aside.join(coracle_guest::PROGRAM_FOLDER))?;
    fs::write(aside.join(coracle_guest::PROGRAM), "")?;
    symlink(coracle_guest::PROGRAM_NAME, aside.join(coracle_guest::TOOL))?;
    fs::write(aside.join("confine.so"), coracle_guest::CONFINE)?;
    let compiled = Command::new(python)
        // Columns of our own code are never printed.
        .args(["-I", "-S", "-X", "no_debug_ranges", "-c", COMPILE])
        .args([&aside, &aside])
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        // In a separate process group, because Ctrl-C must not leave uncompiled files behind permanently.
        .process_group(0)
        .status();
    if !compiled.is_ok_and(|status| status.success()) {
        // Only starts are slower: an interpreter that cannot do this is reported when it is started.
        tracing::debug!("cannot compile the guest's files");
    }
    open_to_sandboxes(&aside)?;
    match fs::rename(&aside, &folder) {
        Ok(()) => Ok(folder),
        // Another process was faster.
        Err(_) if folder.is_dir() => fs::remove_dir_all(&aside).map(|()| folder),
        Err(error) => Err(error),
    }
}

const COMPILE_ONLY: &str = "import compileall, py_compile, sys; \
    compileall.compile_dir(sys.argv[1], quiet=2, stripdir=sys.argv[1], prependdir='/coracle', \
    invalidation_mode=py_compile.PycInvalidationMode.UNCHECKED_HASH)";

/// Returns a folder with the guest's packages for containers, and creates it if necessary. An image may have another
/// Python than this machine. If it is the same, nothing need be compiled in a container.
pub(crate) fn install_for_containers(home: &Path, run_dir: &Path) -> io::Result<PathBuf> {
    let cache = home.join("cache");
    let folder = cache.join(format!("container-{}", coracle_guest::DIGEST));
    if folder.is_dir() {
        return Ok(folder);
    }
    let aside = run_dir.join("guest");
    fs::create_dir_all(&cache)?;
    for (path, content) in coracle_guest::FILES {
        let file = aside.join(path);
        fs::create_dir_all(file.parent().unwrap_or(&aside))?;
        fs::write(file, content)?;
    }
    if let Ok(python) = crate::python::find(None) {
        let compiled = Command::new(python.path)
            .args(["-I", "-S", "-X", "no_debug_ranges", "-c", COMPILE_ONLY])
            .arg(&aside)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .process_group(0)
            .status();
        if !compiled.is_ok_and(|status| status.success()) {
            tracing::debug!("cannot compile the guest's files");
        }
    }
    open_to_sandboxes(&aside)?;
    match fs::rename(&aside, &folder) {
        Ok(()) => Ok(folder),
        // Another process was faster.
        Err(_) if folder.is_dir() => fs::remove_dir_all(&aside).map(|()| folder),
        Err(error) => Err(error),
    }
}

/// Makes files readable: when Coracle runs as root, sandboxes read them as another user, whatever the umask.
fn open_to_sandboxes(folder: &Path) -> io::Result<()> {
    fs::set_permissions(folder, Permissions::from_mode(0o755))?;
    for entry in fs::read_dir(folder)? {
        let entry = entry?;
        if entry.file_type()?.is_dir() {
            open_to_sandboxes(&entry.path())?;
        } else if !entry.file_type()?.is_symlink() {
            fs::set_permissions(entry.path(), Permissions::from_mode(0o644))?;
        }
    }
    Ok(())
}
