//! Test cases with separate folders and a separate environment.

use coracle_config::{ConfigError, FILE_NAME, Flag, LoadOptions, Loaded, load};
use std::path::{Path, PathBuf};
use tempfile::TempDir;

/// The inputs of one load.
pub(crate) struct Case {
    root: TempDir,
    pub(crate) options: LoadOptions,
}

impl Case {
    /// Creates two empty folders and an empty environment.
    pub(crate) fn new() -> Self {
        let root = tempfile::tempdir().unwrap();
        let (folder, home) = (root.path().join("folder"), root.path().join("home"));
        std::fs::create_dir(&folder).unwrap();
        std::fs::create_dir(&home).unwrap();
        let options = LoadOptions { folder: Some(folder), home: Some(home), ..LoadOptions::default() };
        Self { root, options }
    }

    pub(crate) fn folder(&self) -> PathBuf {
        self.root.path().join("folder")
    }

    pub(crate) fn home(&self) -> PathBuf {
        self.root.path().join("home")
    }

    /// Writes a file in the current folder, or below the root of the case with `../`.
    pub(crate) fn put(self, name: &str, text: &str) -> Self {
        let path = self.folder().join(name);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, text).unwrap();
        self
    }

    /// Writes the settings file of the current folder.
    pub(crate) fn file(self, text: &str) -> Self {
        self.put(FILE_NAME, text)
    }

    pub(crate) fn dot_env(self, text: &str) -> Self {
        self.put(".env", text)
    }

    pub(crate) fn env(mut self, name: &str, value: &str) -> Self {
        self.options.env.insert(name.to_owned(), value.to_owned());
        self
    }

    pub(crate) fn flag(mut self, key: &str, value: &str) -> Self {
        let name = format!("--{}", key.rsplit('.').next().unwrap());
        self.options.flags.push(Flag { key: key.to_owned(), value: value.to_owned(), name });
        self
    }

    pub(crate) fn load(&self) -> Result<Loaded, ConfigError> {
        load(&self.options)
    }

    /// Removes the path of the case from a text.
    pub(crate) fn plain(&self, text: &impl ToString) -> String {
        text.to_string().replace(&root_text(self.root.path()), "ROOT")
    }

    /// The error, for a snapshot.
    pub(crate) fn error(&self) -> String {
        let error = self.load().unwrap_err();
        let hint = error.hint().map(|hint| format!("\nhint: {hint}")).unwrap_or_default();
        self.plain(&format!("{}: {error}{hint}", error.code()))
    }

    /// The warnings, for a snapshot.
    pub(crate) fn warnings(&self) -> Vec<String> {
        self.load().unwrap().warnings.iter().map(|warning| self.plain(warning)).collect()
    }
}

fn root_text(path: &Path) -> String {
    path.display().to_string()
}
