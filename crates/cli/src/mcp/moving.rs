//! Which servers of a client move to Coracle when it is connected: those that Coracle has already, or can take over.

use super::client::Client;
use crate::plain::plain;
use crate::servers::Candidate;
use crate::settings::{file_to_edit, load_for_servers, variables};
use anyhow::Context;
use coracle_config::edit::Existing;
use coracle_config::import::{Found, ImportOptions, System, scan_client};
use coracle_config::{Loaded, install};
use std::path::Path;

/// A reason is no longer than this.
const MAX_REASON: usize = 300;

/// The servers in a client's file.
pub(super) struct Moving {
    /// Coracle has them, with the same settings.
    there: Vec<Found>,
    /// Coracle can take them over.
    new: Vec<Found>,
    /// These stay, for these reasons.
    pub(super) staying: Vec<String>,
}

impl Moving {
    /// Looks into the file; none for clients whose servers Coracle does not read.
    pub(super) fn of(client: Client, file: &Path, loaded: &Loaded) -> anyhow::Result<Self> {
        let mut moving = Self { there: Vec::new(), new: Vec::new(), staying: Vec::new() };
        let Some(importable) = client.target().client() else { return Ok(moving) };
        let options = ImportOptions {
            home: std::env::home_dir().context("no home folder is known: set HOME")?,
            folder: None,
            env: variables(),
            system: System::current(),
        };
        for found in scan_client(importable, &options).found {
            // What belongs to one project stays with it.
            if found.path != file || found.original_name == install::NAME || found.project.is_some() {
                continue;
            }
            match (&found.problem, loaded.settings.mcp_servers.get(found.name.as_str())) {
                (Some(problem), _) => moving.stays(&found, problem),
                (None, Some(entry)) if *entry == found.entry => moving.there.push(found),
                (None, Some(_)) => moving.stays(&found, "Coracle has another server of this name"),
                (None, None) => moving.new.push(found),
            }
        }
        Ok(moving)
    }

    fn stays(&mut self, found: &Found, why: &str) {
        self.staying.push(plain(&format!("{}: {why}", found.original_name), MAX_REASON));
    }

    /// The names in the client's file.
    pub(super) fn names(&self) -> Vec<String> {
        self.there.iter().chain(&self.new).map(|found| found.original_name.clone()).collect()
    }

    /// What goes into Coracle's own settings.
    pub(super) fn candidate(&self, loaded: &Loaded) -> anyhow::Result<Option<Candidate>> {
        if self.new.is_empty() {
            return Ok(None);
        }
        let mut candidate = Candidate::read(file_to_edit(loaded)?)?;
        for found in &self.new {
            candidate
                .add(&found.name, &found.entry, &found.credentials, Existing::Keep)
                .map_err(|error| anyhow::anyhow!("{} cannot be taken over: {error}", found.name))?;
        }
        Ok(Some(candidate))
    }

    /// Those that Coracle can use, now that they are in its settings: the others stay with the client.
    pub(super) fn usable(&mut self, config: Option<&Path>) -> anyhow::Result<Vec<String>> {
        let loaded = load_for_servers(config, Vec::new())?;
        let problem = |found: &Found| loaded.server_problems.iter().find(|problem| problem.name == found.name.as_str());
        let mut names = Vec::new();
        for found in self.there.iter().chain(&self.new) {
            match problem(found) {
                None => names.push(found.original_name.clone()),
                Some(problem) => {
                    self.staying.push(plain(&format!("{}: {}", found.original_name, problem.fault), MAX_REASON));
                }
            }
        }
        Ok(names)
    }
}
