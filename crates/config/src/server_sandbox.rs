//! Servers in sandboxes: the program of such a server is this program, with a hidden command that starts the other one
//! in a sandbox and passes its streams on. So nothing else needs to know.

use coracle_types::{Secret, ServerName};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

/// The hidden command.
pub const SERVER_COMMAND: &str = "server-in-sandbox";

/// The name of the program if it is not known, as in tests.
const DEFAULT_PROGRAM: &str = "coracle";

/// The program that starts servers in sandboxes, and its data folder.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Starter<'a> {
    pub(crate) program: Option<&'a Path>,
    pub(crate) home: Option<&'a Path>,
}

/// A program and what it gets in its sandbox, with all variables expanded.
pub(crate) struct Sandboxed<'a> {
    pub(crate) name: &'a ServerName,
    pub(crate) command: String,
    pub(crate) args: Vec<Secret>,
    pub(crate) env: &'a BTreeMap<String, Secret>,
    pub(crate) cwd: Option<&'a Path>,
    pub(crate) read: Vec<PathBuf>,
    pub(crate) write: Vec<PathBuf>,
}

impl Starter<'_> {
    /// The program and the arguments that start a server in a sandbox. Values of variables are not among them, because
    /// every user of the machine can see arguments.
    pub(crate) fn command(&self, server: Sandboxed<'_>) -> (String, Vec<Secret>) {
        let Sandboxed { name, command, args, env, cwd, read, write } = server;
        let shown = |path: &Path| path.display().to_string();
        let mut words = vec![SERVER_COMMAND.to_owned(), "--name".to_owned(), name.to_string()];
        let folders = [("--home", self.home), ("--directory", cwd)];
        let folders = folders.into_iter().filter_map(|(flag, path)| Some((flag, path?)));
        let folders = folders.chain(read.iter().map(|path| ("--read", path.as_path())));
        for (flag, path) in folders.chain(write.iter().map(|path| ("--write", path.as_path()))) {
            words.extend([flag.to_owned(), shown(path)]);
        }
        for variable in env.keys() {
            words.extend(["--variable".to_owned(), variable.clone()]);
        }
        words.extend(["--".to_owned(), command]);
        let program = self.program.map_or_else(|| DEFAULT_PROGRAM.to_owned(), shown);
        (program, words.into_iter().map(Secret::new).chain(args).collect())
    }
}
