//! The program with its own current folder, home and data folder.

use crate::harness::{As, Coracle};
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Part of every credential in these tests, which must never be printed.
pub const CANARY: &str = "canary";

/// Folders in which a test runs the program.
pub struct Place {
    coracle: Coracle,
    variables: Vec<(String, String)>,
}

/// Output of a run.
#[derive(Debug)]
pub struct Said {
    /// Exit code.
    pub code: Option<i32>,
    /// Standard output.
    pub stdout: String,
    /// Standard error.
    pub stderr: String,
}

impl Default for Place {
    fn default() -> Self {
        Self::new()
    }
}

impl Place {
    /// Empty folders, for root if the tests run as root.
    pub fn new() -> Self {
        let coracle = Coracle::new(As::current());
        let place = Self { coracle, variables: Vec::new() };
        place.put_below(&place.user(), ".keep", "");
        place
    }

    /// Current folder.
    pub fn folder(&self) -> PathBuf {
        self.coracle.workspace()
    }

    /// Data folder.
    pub fn home(&self) -> PathBuf {
        self.coracle.home()
    }

    /// Home folder of the user.
    pub fn user(&self) -> PathBuf {
        self.folder().parent().unwrap().join("user")
    }

    /// Writes a file in the current folder.
    pub fn put(&self, name: &str, text: &str) -> PathBuf {
        self.put_below(&self.folder(), name, text)
    }

    /// Writes a file in a folder, which is created if it is missing.
    pub fn put_below(&self, folder: &Path, name: &str, text: &str) -> PathBuf {
        let path = folder.join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(&path, text).unwrap();
        for made in path.ancestors().take_while(|made| *made != self.folder().parent().unwrap()) {
            self.coracle.own(made);
        }
        path
    }

    /// Sets an environment variable for the program.
    pub fn set(&mut self, name: &str, value: &str) {
        self.variables.push((name.to_owned(), value.to_owned()));
    }

    /// The program in the current folder, ready for arguments.
    pub fn command(&self) -> Command {
        let mut command = self.coracle.command();
        command.current_dir(self.folder()).env("HOME", self.user());
        for name in [
            "CORACLE_AGENT_FIND_LOCAL_SERVERS",
            "CORACLE_CONFIG",
            "CORACLE_LOG",
            "XDG_CONFIG_HOME",
            "CLAUDE_CONFIG_DIR",
            "DISPLAY",
            "WAYLAND_DISPLAY",
        ] {
            command.env_remove(name);
        }
        command.envs(self.variables.clone());
        command
    }

    /// Runs the program.
    pub fn run(&self, arguments: &[&str]) -> Said {
        let output = self.command().args(arguments).output().unwrap();
        let text = |bytes| String::from_utf8(bytes).unwrap();
        let said = Said { code: output.status.code(), stdout: text(output.stdout), stderr: text(output.stderr) };
        assert!(!said.stdout.contains(CANARY) && !said.stderr.contains(CANARY), "{arguments:?}: {said:?}");
        said
    }

    /// Returns the standard output of a run that must succeed.
    pub fn output(&self, arguments: &[&str]) -> String {
        let said = self.run(arguments);
        assert_eq!(said.code, Some(0), "{arguments:?}: {said:?}");
        said.stdout
    }

    /// Replaces the folders of this test in a text.
    pub fn redacted(&self, text: &str) -> String {
        text.replace(self.folder().parent().unwrap().to_str().unwrap(), "ROOT")
    }
}

/// Permissions of a file.
pub fn mode(path: &Path) -> u32 {
    fs::metadata(path).unwrap().permissions().mode() & 0o777
}

/// Path of a part of the test servers. If it is missing, the test fails and says how to get it.
pub fn installed(part: &str) -> String {
    crate::installed::path(part).to_str().unwrap().to_owned()
}
