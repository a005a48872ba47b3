//! Pending changes to the settings file and to the credentials that it refers to.

use super::not_changed;
use crate::status::Mistake;
use crate::variables;
use anyhow::Context;
use coracle_config::edit::{self, EditError, Existing};
use coracle_config::{LoadOptions, McpServer, ServerFault};
use coracle_types::{Decision, Secret, ServerName};
use std::collections::{BTreeMap, BTreeSet};
use std::fs::{self, DirBuilder, Permissions};
use std::os::unix::fs::{DirBuilderExt, PermissionsExt};
use std::path::{Path, PathBuf};

/// File with credentials in the data folder.
const VARIABLES: &str = ".env";
/// Readable and writable only for the owner.
const PRIVATE: u32 = 0o600;

/// Texts to be written: both or neither.
pub(crate) struct Candidate {
    file: PathBuf,
    text: String,
    variables_file: PathBuf,
    variables_text: String,
    new_variables: bool,
    old_variables: bool,
}

impl Candidate {
    /// Reads the current files.
    pub(crate) fn read(file: PathBuf) -> anyhow::Result<Self> {
        let variables_file = variables::home()?.join(VARIABLES);
        let read = |path: &Path| edit::read(path).map_err(|error| not_changed(&error));
        let (text, variables_text) = (read(&file)?, read(&variables_file)?);
        Ok(Self { file, text, variables_file, variables_text, new_variables: false, old_variables: false })
    }

    /// Adds a server and its credentials. Nothing changes if that fails.
    pub(crate) fn add(
        &mut self,
        name: &ServerName,
        entry: &McpServer,
        credentials: &BTreeMap<String, Secret>,
        existing: Existing,
    ) -> Result<(), EditError> {
        let text = edit::add_server(&self.text, name, entry, existing)?;
        self.variables_text = edit::add_variables(&self.variables_text, credentials)?;
        self.new_variables |= !credentials.is_empty();
        self.text = text;
        Ok(())
    }

    /// Removes a server, and the variables in the data folder's `.env` that only this server refers to, which it returns.
    /// Those that the rest of the settings refers to, or that are settings themselves, stay. The `.env` of a project is
    /// for other programs as well.
    pub(crate) fn remove(
        &mut self,
        name: &str,
        servers: &BTreeMap<String, McpServer>,
    ) -> Result<BTreeSet<String>, EditError> {
        let text = edit::remove_server(&self.text, name)?;
        let mut variables = servers.get(name).map(McpServer::variables).unwrap_or_default();
        for (_, other) in servers.iter().filter(|(other, _)| *other != name) {
            for used in other.variables() {
                variables.remove(&used);
            }
        }
        let is_in_rest = |name: &str| [format!("{name}}}"), format!("{name}:-")].iter().any(|end| text.contains(end));
        variables.retain(|name| !is_in_rest(name) && !coracle_config::is_setting(name));
        let variables_text = edit::remove_variables(&self.variables_text, &variables)?;
        self.old_variables |= variables_text != self.variables_text;
        (self.text, self.variables_text) = (text, variables_text);
        Ok(if self.old_variables { variables } else { BTreeSet::new() })
    }

    /// Replaces the rules with the patterns `replaced` by one, or by none.
    pub(crate) fn set_rule(&mut self, replaced: &[String], rule: Option<(&str, Decision)>) -> Result<(), EditError> {
        let mut text = self.text.clone();
        for pattern in replaced {
            text = edit::remove_policy(&text, pattern)?.unwrap_or(text);
        }
        if let Some((pattern, decision)) = rule {
            text = edit::set_policy(&text, pattern, decision)?;
        }
        self.text = text;
        Ok(())
    }

    /// Checks that a server could be used if all variables were set.
    pub(crate) fn check(&self, name: &ServerName) -> anyhow::Result<()> {
        let file = tempfile::NamedTempFile::new().context("cannot create a temporary file")?;
        fs::write(file.path(), &self.text).context("cannot write a temporary file")?;
        let options = LoadOptions { file: Some(file.path().to_owned()), ..LoadOptions::default() };
        let loaded = coracle_config::load(&options).map_err(|error| {
            let hint = error.hint();
            Mistake::new(error, hint)
        })?;
        let problem = loaded.server_problems.iter().find(|problem| problem.name == name.as_str());
        match problem.map(|problem| &problem.fault) {
            None | Some(ServerFault::MissingVariable { .. }) => Ok(()),
            Some(fault) => Err(Mistake::new(fault, Some(fault.hint())).into()),
        }
    }

    /// Writes new credentials before the settings file, which refers to them, and removes old ones after it.
    pub(crate) fn write(&self) -> anyhow::Result<()> {
        if self.new_variables {
            make_private_folder(&variables::home()?)?;
            if self.variables_file.exists() {
                let made = fs::set_permissions(&self.variables_file, Permissions::from_mode(PRIVATE));
                made.with_context(|| format!("cannot make {} private", self.variables_file.display()))?;
            }
            edit::write(&self.variables_file, &self.variables_text)?;
        }
        if let Some(folder) = self.file.parent() {
            make_private_folder(folder)?;
        }
        edit::write(&self.file, &self.text)?;
        if self.old_variables {
            edit::write(&self.variables_file, &self.variables_text)?;
        }
        Ok(())
    }

    /// Writes both files, whatever has changed.
    pub(crate) fn write_all(mut self) -> anyhow::Result<()> {
        (self.new_variables, self.old_variables) = (self.variables_file.exists(), false);
        self.write()
    }

    /// Path of the settings file.
    pub(crate) fn file(&self) -> &Path {
        &self.file
    }

    /// Path of the file with credentials.
    pub(crate) fn variables_file(&self) -> &Path {
        &self.variables_file
    }
}

/// Creates a folder for its owner only. An existing one keeps its permissions.
fn make_private_folder(folder: &Path) -> anyhow::Result<()> {
    let made = DirBuilder::new().recursive(true).mode(0o700).create(folder);
    made.with_context(|| format!("cannot create the folder {}", folder.display()))
}
