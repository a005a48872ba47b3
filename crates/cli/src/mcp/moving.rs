//! Decides which servers of a client are moved to Coracle: those that Coracle already has or can import.

use super::client::Client;
use crate::output::plain;
use crate::servers::Candidate;
use crate::settings::{file_to_edit, load_for_servers, variables};
use anyhow::Context;
use coracle_config::edit::Existing;
use coracle_config::import::{Found, ImportOptions, System, scan_client};
use coracle_config::{Loaded, install};
use std::path::Path;

/// Maximum length of a reason in characters.
const MAX_REASON: usize = 300;

/// Servers in a client's file.
pub(super) struct Moving {
    /// Servers that Coracle has, with the same settings.
    there: Vec<Found>,
    /// Servers that Coracle can import.
    new: Vec<Found>,
    /// Servers that stay, each with the reason.
    pub(super) staying: Vec<String>,
}

impl Moving {
    /// Reads the client's file; empty for clients whose servers Coracle cannot read.
    pub(super) fn of(client: Client, file: &Path, loaded: &Loaded) -> anyhow::Result<Self> {
        let mut moving = Self { there: Vec::new(), new: Vec::new(), staying: Vec::new() };
        let Some(importable) = client.target().client() else { return Ok(moving) };
        let options = ImportOptions {
            home: std::env::home_dir().context("cannot find the home folder: set HOME")?,
            folder: None,
            env: variables(),
            system: System::current(),
        };
        for found in scan_client(importable, &options).found {
            // Servers of one project stay with it.
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

    /// Names in the client's file.
    pub(super) fn names(&self) -> Vec<String> {
        self.there.iter().chain(&self.new).map(|found| found.original_name.clone()).collect()
    }

    /// Changes to Coracle's own settings.
    pub(super) fn candidate(&self, loaded: &Loaded) -> anyhow::Result<Option<Candidate>> {
        if self.new.is_empty() {
            return Ok(None);
        }
        let mut candidate = Candidate::read(file_to_edit(loaded)?)?;
        for found in &self.new {
            candidate
                .add(&found.name, &found.entry, &found.credentials, Existing::Keep)
                .map_err(|error| anyhow::anyhow!("cannot import {}: {error}", found.name))?;
        }
        Ok(Some(candidate))
    }

    /// Names of the servers that Coracle can use now that they are in its settings. The others stay with the client.
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
