//! A folder of settings, a home and a data folder of its own, and the program run in it.

#[path = "installed.rs"]
mod built;

use crate::harness::{Coracle, everybody};
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;

/// What every credential of these tests has in it: it is never printed.
pub(crate) const CANARY: &str = "canary";

/// Where one test runs the program.
pub(crate) struct Place {
    coracle: Coracle,
    variables: Vec<(String, String)>,
}

/// What it said.
#[derive(Debug)]
pub(crate) struct Said {
    pub(crate) code: Option<i32>,
    pub(crate) stdout: String,
    pub(crate) stderr: String,
}

impl Place {
    pub(crate) fn new() -> Self {
        let coracle = Coracle::new(everybody()[0]);
        let place = Self { coracle, variables: Vec::new() };
        place.put_below(&place.user(), ".keep", "");
        place
    }

    /// The current folder.
    pub(crate) fn folder(&self) -> PathBuf {
        self.coracle.workspace()
    }

    /// The data folder.
    pub(crate) fn home(&self) -> PathBuf {
        self.coracle.home()
    }

    /// The home folder of the person.
    pub(crate) fn user(&self) -> PathBuf {
        self.folder().parent().unwrap().join("user")
    }

    /// A file in the current folder.
    pub(crate) fn put(&self, name: &str, text: &str) -> PathBuf {
        self.put_below(&self.folder(), name, text)
    }

    pub(crate) fn put_below(&self, folder: &Path, name: &str, text: &str) -> PathBuf {
        let path = folder.join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(&path, text).unwrap();
        for made in path.ancestors().take_while(|made| *made != self.folder().parent().unwrap()) {
            self.coracle.own(made);
        }
        path
    }

    pub(crate) fn set(&mut self, name: &str, value: &str) {
        self.variables.push((name.to_owned(), value.to_owned()));
    }

    /// The program in the current folder, ready for arguments.
    pub(crate) fn command(&self) -> Command {
        let mut command = self.coracle.command();
        command.current_dir(self.folder()).env("HOME", self.user());
        for name in
            ["CORACLE_CONFIG", "CORACLE_LOG", "XDG_CONFIG_HOME", "CLAUDE_CONFIG_DIR", "DISPLAY", "WAYLAND_DISPLAY"]
        {
            command.env_remove(name);
        }
        command.envs(self.variables.clone());
        command
    }

    /// Runs it to its end.
    pub(crate) fn run(&self, arguments: &[&str]) -> Said {
        let output = self.command().args(arguments).output().unwrap();
        let text = |bytes| String::from_utf8(bytes).unwrap();
        let said = Said { code: output.status.code(), stdout: text(output.stdout), stderr: text(output.stderr) };
        assert!(!said.stdout.contains(CANARY) && !said.stderr.contains(CANARY), "{arguments:?}: {said:?}");
        said
    }

    /// The same for what must succeed; its standard output.
    pub(crate) fn output(&self, arguments: &[&str]) -> String {
        let said = self.run(arguments);
        assert_eq!(said.code, Some(0), "{arguments:?}: {said:?}");
        said.stdout
    }

    /// A text without the folders of this test.
    pub(crate) fn redacted(&self, text: &str) -> String {
        text.replace(self.folder().parent().unwrap().to_str().unwrap(), "ROOT")
    }
}

/// What others may do with a file.
pub(crate) fn mode(path: &Path) -> u32 {
    fs::metadata(path).unwrap().permissions().mode() & 0o777
}

/// A part of the folder of real servers; a test without it fails and says how to get it.
pub(crate) fn installed(part: &str) -> String {
    built::installed(part).to_str().unwrap().to_owned()
}
