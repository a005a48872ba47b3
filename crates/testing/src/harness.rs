//! Runs the real program as root and as an ordinary user.

use serde_json::Value;
use std::ffi::OsString;
use std::fs;
use std::io::Write;
use std::os::unix::fs::{MetadataExt, PermissionsExt, chown};
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::sync::OnceLock;
use std::time::Duration;
use tempfile::TempDir;

/// ID of an ordinary user, which need not exist.
const ORDINARY: u32 = 54_321;

/// Variable with the path of the program, for tests that are started again from elsewhere.
pub const PROGRAM: &str = "CORACLE_TEST_PROGRAM";

/// Content of the file of [`Coracle::beside`], which code must not see.
pub const CANARY_OF_THE_HOST: &str = "CANARY-OF-THE-HOST";

/// User that the program runs as.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum As {
    /// The current user, if that is root.
    Root,
    /// A user without privileges.
    Ordinary,
}

impl As {
    /// Root if the tests run as root.
    pub fn current() -> Self {
        if rustix::process::geteuid().is_root() { Self::Root } else { Self::Ordinary }
    }
}

/// Runs a test as root, or skips it if the tests do not run as root.
pub fn as_root(test: fn(As)) {
    match As::current() {
        As::Root => test(As::Root),
        As::Ordinary => crate::skip::skip("as root: the tests do not run as root"),
    }
}

/// Makes two tests of a function that takes the user: `name::as_root` and `name::as_ordinary_user`. Attributes before
/// the name apply to both.
#[macro_export]
macro_rules! each_user {
    ($(#[$attribute:meta])* $name:ident) => {
        mod $name {
            #[test]
            $(#[$attribute])*
            fn as_root() {
                $crate::harness::as_root(super::$name);
            }

            #[test]
            $(#[$attribute])*
            fn as_ordinary_user() {
                super::$name($crate::harness::As::Ordinary);
            }
        }
    };
}

/// The program with its own data folder and workspace.
pub struct Coracle {
    /// User that it runs as.
    pub who: As,
    folder: TempDir,
    /// Command line prefix.
    before: Vec<String>,
    program: &'static Path,
}

/// Path of the program in the build folder. Cargo tells it only to the program's own tests, and only when they are
/// compiled; it is beside the folder of the test programs.
pub fn built() -> PathBuf {
    if let Some(path) = std::env::var_os(PROGRAM) {
        return path.into();
    }
    // Tests run in `<target>/debug/deps`.
    let path = std::env::current_exe().unwrap().ancestors().nth(2).unwrap().join("coracle");
    assert!(path.exists(), "{} is missing: run `cargo build`, or set {PROGRAM} to its path", path.display());
    path
}

/// Path of the program where an ordinary user can run it.
pub fn program() -> &'static Path {
    static COPY: OnceLock<PathBuf> = OnceLock::new();
    COPY.get_or_init(|| for_everybody(&built(), "coracle"))
}

/// Copies a program to a place where an ordinary user can run it, shared by all tests of the same build. Copies of
/// older builds are removed.
pub fn for_everybody(program: &Path, name: &str) -> PathBuf {
    const PREFIX: &str = "coracle-tests-";
    let metadata = program.metadata().unwrap();
    let (built, owner) = (metadata.mtime_nsec() ^ metadata.mtime() << 32, rustix::process::geteuid().as_raw());
    let folder = std::env::temp_dir().join(format!("{PREFIX}{owner}-{name}-{built:x}-{:x}", metadata.ino()));
    for entry in fs::read_dir(std::env::temp_dir()).unwrap().flatten() {
        let is_old =
            |seen: fs::Metadata| seen.modified().unwrap().elapsed().is_ok_and(|age| age > Duration::from_hours(24));
        if entry.file_name().to_string_lossy().starts_with(PREFIX) && entry.metadata().is_ok_and(is_old) {
            let _ = fs::remove_dir_all(entry.path());
        }
    }
    if !folder.exists() {
        let fresh = TempDir::new().unwrap();
        fs::set_permissions(fresh.path(), fs::Permissions::from_mode(0o755)).unwrap();
        fs::copy(program, fresh.path().join(name)).unwrap();
        fs::set_permissions(fresh.path().join(name), fs::Permissions::from_mode(0o755)).unwrap();
        // Another test may have been faster.
        let _ = fs::rename(fresh.path(), &folder);
    }
    assert_eq!(folder.metadata().unwrap().uid(), owner, "{} belongs to another user", folder.display());
    folder.join(name)
}

/// Command line prefix for running as an ordinary user; empty if the current user is one.
pub fn as_ordinary() -> Vec<String> {
    if !rustix::process::geteuid().is_root() {
        return Vec::new();
    }
    let id = ORDINARY.to_string();
    ["setpriv", "--reuid", &id, "--regid", &id, "--clear-groups", "--inh-caps=-all", "--"].map(str::to_owned).to_vec()
}

impl Coracle {
    /// The program as this user, with an empty data folder and workspace.
    pub fn new(who: As) -> Self {
        Self::running(program(), who)
    }

    /// Another program, which every user can run, in place of `coracle`.
    pub fn running(program: &'static Path, who: As) -> Self {
        let folder = TempDir::new().unwrap();
        fs::set_permissions(folder.path(), fs::Permissions::from_mode(0o755)).unwrap();
        let coracle = Self { who, folder, before: Vec::new(), program };
        for name in ["home", "workspace"] {
            let path = coracle.folder.path().join(name);
            fs::create_dir(&path).unwrap();
            coracle.own(&path);
        }
        coracle
    }

    /// The program with a command line prefix.
    pub fn behind(who: As, before: &[&str]) -> Self {
        Self::new(who).with_prefix(before)
    }

    /// The same with a command line prefix.
    #[must_use]
    pub fn with_prefix(self, before: &[&str]) -> Self {
        Self { before: before.iter().map(|&word| word.to_owned()).collect(), ..self }
    }

    /// Gives a file or folder to the user of the program.
    pub fn own(&self, path: &Path) {
        if self.who == As::Ordinary && rustix::process::geteuid().is_root() {
            chown(path, Some(ORDINARY), Some(ORDINARY)).unwrap();
        }
    }

    /// Folder on the host, outside the workspace, that the same user can write, and a file in it.
    pub fn beside(&self) -> (PathBuf, PathBuf) {
        let folder = self.home().join("beside");
        fs::create_dir(&folder).unwrap();
        self.own(&folder);
        let canary = folder.join("canary");
        fs::write(&canary, CANARY_OF_THE_HOST).unwrap();
        self.own(&canary);
        (folder, canary)
    }

    /// Data folder.
    pub fn home(&self) -> PathBuf {
        self.folder.path().join("home")
    }

    /// Folder that the user may show to a sandbox.
    pub fn workspace(&self) -> PathBuf {
        self.folder.path().join("workspace")
    }

    /// The program, ready for arguments, with its own `CORACLE_HOME`.
    pub fn command(&self) -> Command {
        let mut line: Vec<OsString> = Vec::new();
        if self.who == As::Ordinary {
            line.extend(as_ordinary().into_iter().map(OsString::from));
        }
        line.extend(self.before.iter().map(OsString::from));
        line.push(self.program.into());
        let mut command = Command::new(&line[0]);
        command.args(&line[1..]);
        command.env("CORACLE_HOME", self.home()).current_dir("/").stdin(Stdio::null());
        // Model servers of the machine that runs the tests must not take part in them.
        command.env("CORACLE_AGENT_FIND_LOCAL_SERVERS", "false");
        command
    }

    /// Runs `coracle exec` with these arguments.
    pub fn exec(&self, arguments: &[&str]) -> Output {
        self.command().arg("exec").args(arguments).output().unwrap()
    }

    /// Runs `coracle exec --json` in the workspace, with the code on standard input.
    pub fn run(&self, language: &str, code: &str, more: &[&str]) -> Value {
        let mut command = self.command();
        command.args(["exec", "--json", "--lang", language, "--workspace"]).arg(self.workspace()).args(more);
        let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        child.stdin.take().unwrap().write_all(code.as_bytes()).unwrap();
        let output = child.wait_with_output().unwrap();
        serde_json::from_slice(&output.stdout).unwrap_or_else(|error| {
            panic!("no JSON ({error}): {output:?}");
        })
    }

    /// Returns the result of Python code that must succeed.
    pub fn python(&self, code: &str) -> Value {
        let execution = self.run("python", code, &[]);
        assert_eq!(execution["success"], true, "as {:?}: {execution:#}", self.who);
        execution["result"].clone()
    }
}
