//! The settings of a running server, which admins can change.

use crate::policies::{Held, PolicyInForce};
use crate::recursion;
use crate::servers::Candidate;
use crate::settings::file_to_edit;
use crate::wiring::{privacy_modes, unusable};
use coracle_config::edit::{EditError, Existing};
use coracle_config::import::extract_credentials_apart;
use coracle_config::{Loaded, McpServer, Origin};
use coracle_engine::{Engine, Privacy};
use coracle_server::{Configuration, ConfigurationError, NewServer};
use coracle_types::Decision;
use std::collections::BTreeMap;
use std::fmt;
use std::path::PathBuf;
use std::sync::{Arc, PoisonError, RwLock};

/// The settings of a running server, and what follows them.
pub(super) struct LiveSettings {
    /// Replaced as a whole, and held only to read or replace it.
    current: RwLock<Arc<Current>>,
    engine: Engine,
    /// Held during a change, so that none is lost, and so that the policy is the one of the last change.
    policy: Arc<PolicyInForce>,
}

/// The settings that apply.
#[derive(Debug)]
struct Current {
    loaded: Loaded,
    servers: Arc<BTreeMap<String, McpServer>>,
}

impl Current {
    fn new(loaded: Loaded) -> Self {
        let servers = Arc::new(loaded.settings.mcp_servers.clone());
        Self { loaded, servers }
    }
}

impl LiveSettings {
    pub(super) fn new(policy: Arc<PolicyInForce>, loaded: Loaded, engine: Engine) -> Self {
        let current = RwLock::new(Arc::new(Current::new(loaded)));
        Self { current, engine, policy }
    }

    fn current(&self) -> Arc<Current> {
        Arc::clone(&self.current.read().unwrap_or_else(PoisonError::into_inner))
    }

    /// Writes a change and applies it. If the settings are invalid with it, the files are as before.
    fn apply(
        &self,
        held: &mut Held<'_>,
        file: PathBuf,
        change: impl FnOnce(&mut Candidate) -> Result<(), ConfigurationError>,
    ) -> Result<(), ConfigurationError> {
        let before = Candidate::read(file.clone()).map_err(|error| not_writable(&error))?;
        let mut candidate = Candidate::read(file).map_err(|error| not_writable(&error))?;
        change(&mut candidate)?;
        candidate.write().map_err(|error| not_writable(&error))?;
        let loaded = match self.load(held) {
            Ok(loaded) => loaded,
            Err(error) => {
                before.write_all().map_err(|error| not_writable(&error))?;
                return Err(error);
            }
        };
        *self.current.write().unwrap_or_else(PoisonError::into_inner) = Arc::new(Current::new(loaded));
        Ok(())
    }

    /// Loads the settings, and applies them if they are valid.
    fn load(&self, held: &mut Held<'_>) -> Result<Loaded, ConfigurationError> {
        let loaded = coracle_config::load(held.options()).map_err(|error| ConfigurationError::Invalid {
            reason: format!("{error}; {}", error.hint().unwrap_or_default()),
        })?;
        recursion::check(&loaded).map_err(|error| invalid(&error))?;
        let new = held.read(&loaded).map_err(|error| invalid(&error))?;
        // First, so that no call to a new server is unprotected.
        if let Some(privacy) = self.engine.privacy() {
            let vaults = Arc::clone(privacy.vaults());
            self.engine.protect(Privacy::new(vaults, privacy_modes(&loaded.settings)));
        }
        held.reconfigure(new, loaded.servers.clone(), unusable(&loaded));
        Ok(loaded)
    }
}

impl Configuration for LiveSettings {
    fn servers(&self) -> Arc<BTreeMap<String, McpServer>> {
        Arc::clone(&self.current().servers)
    }

    fn is_in_file(&self, server: &str) -> bool {
        let current = self.current();
        matches!(current.loaded.origins.get(&format!("mcpServers.{server}")), Some(Origin::File { .. }))
    }

    fn allows_commands(&self) -> bool {
        self.current().loaded.settings.server.allow_command_servers
    }

    fn add_server(&self, new: NewServer) -> Result<(), ConfigurationError> {
        let mut held = self.policy.hold();
        let current = self.current();
        let NewServer { name, mut entry } = new;
        if current.servers.contains_key(name.as_str()) {
            return Err(ConfigurationError::Exists { name: name.to_string() });
        }
        let file = file_to_edit(&current.loaded).map_err(|error| not_writable(&error))?;
        if recursion::is_coracle(&entry, &current.loaded) {
            let reason = "this is Coracle itself: its tools would be its own".to_owned();
            return Err(ConfigurationError::Invalid { reason });
        }
        let credentials = extract_credentials_apart(&name, &mut entry, &|variable| held.options().sets(variable));
        self.apply(&mut held, file, |candidate| {
            candidate.add(&name, &entry, &credentials, Existing::Keep).map_err(not_edited)?;
            candidate.check(&name).map_err(|error| invalid(&error))
        })
    }

    fn remove_server(&self, name: &str) -> Result<(), ConfigurationError> {
        let mut held = self.policy.hold();
        let current = self.current();
        let Some(file) = origin(&current.loaded, &format!("mcpServers.{name}"))? else {
            return Err(ConfigurationError::NotFound { name: name.to_owned() });
        };
        self.apply(&mut held, file, |candidate| candidate.remove(name, &current.servers).map(drop).map_err(not_edited))
    }

    fn set_rule(&self, replaced: &[String], rule: Option<(&str, Decision)>) -> Result<(), ConfigurationError> {
        let mut held = self.policy.hold();
        let current = self.current();
        let mut file = None;
        for pattern in replaced {
            file = origin(&current.loaded, &format!("policy.tools.{pattern}"))?.or(file);
        }
        let file = match file {
            Some(file) => file,
            None => file_to_edit(&current.loaded).map_err(|error| not_writable(&error))?,
        };
        self.apply(&mut held, file, |candidate| candidate.set_rule(replaced, rule).map_err(not_edited))
    }
}

impl fmt::Debug for LiveSettings {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // The places include variables with credentials.
        f.debug_struct("LiveSettings").finish_non_exhaustive()
    }
}

/// The file that has this key; `None` if nothing has it. A key in a variable or a flag cannot be changed.
fn origin(loaded: &Loaded, key: &str) -> Result<Option<PathBuf>, ConfigurationError> {
    match loaded.origins.get(key) {
        None | Some(Origin::Default) => Ok(None),
        Some(Origin::File { path, .. }) => Ok(Some(path.clone())),
        Some(origin) => {
            let reason = format!("{key} comes from {origin}; change it there");
            Err(ConfigurationError::NotWritable { reason })
        }
    }
}

fn not_edited(error: EditError) -> ConfigurationError {
    let hint = error.hint();
    match error {
        EditError::Exists { name } => ConfigurationError::Exists { name },
        EditError::NotFound { name } => ConfigurationError::NotFound { name },
        EditError::Syntax { .. } | EditError::ByHand { .. } | EditError::File { .. } => {
            ConfigurationError::NotWritable { reason: format!("{error}; {hint}") }
        }
    }
}

fn not_writable(error: &anyhow::Error) -> ConfigurationError {
    ConfigurationError::NotWritable { reason: told(error) }
}

fn invalid(error: &anyhow::Error) -> ConfigurationError {
    ConfigurationError::Invalid { reason: told(error) }
}

/// An error with its hint, on one line.
fn told(error: &anyhow::Error) -> String {
    format!("{error:#}").replace("\nhint: ", "; ")
}
