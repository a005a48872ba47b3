//! Who may see personal data: what goes to a model has tokens instead, and in the mode `strict`, so has what goes to code.

mod code_calls;
mod execution;
mod message;

pub(crate) use code_calls::{PiiCalls, failed};
pub(crate) use execution::{ForModel, unprotected};
pub(crate) use message::learn_message;
pub use message::tokenize_message;

use coracle_privacy::{PrivacyError, UserVault, Vaults};
use coracle_types::{PrivacyMode, ServerName, UserId};
use std::collections::BTreeMap;
use std::sync::{Arc, PoisonError, RwLock};

/// Where personal data is replaced by tokens.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PrivacyModes {
    /// For all servers without a mode of their own.
    pub general: PrivacyMode,
    /// For single servers.
    pub servers: BTreeMap<ServerName, PrivacyMode>,
    /// Whether a model may have tokens restored.
    pub restore_to_model: bool,
}

impl PrivacyModes {
    /// The strictest mode of all.
    fn strictest(&self) -> PrivacyMode {
        self.servers.values().copied().fold(self.general, PrivacyMode::max)
    }
}

/// The vaults of the users, and where they are used.
#[derive(Debug)]
pub struct Privacy {
    vaults: Arc<Vaults>,
    modes: PrivacyModes,
}

impl Privacy {
    /// Uses these vaults as these modes say.
    pub fn new(vaults: Arc<Vaults>, modes: PrivacyModes) -> Self {
        Self { vaults, modes }
    }

    /// The vaults.
    pub fn vaults(&self) -> &Arc<Vaults> {
        &self.vaults
    }

    /// Whether a model may see the data that tokens stand for.
    pub fn restores_to_model(&self) -> bool {
        self.modes.restore_to_model
    }

    /// Whether anything is replaced by tokens. If one server is private, everything that goes to a model is searched:
    /// nobody knows what code has kept in a file or a variable.
    pub fn is_on(&self) -> bool {
        self.modes.strictest() > PrivacyMode::Off
    }

    /// Whether code works on tokens. If one server is strict, code gets tokens from all servers: another one may return data
    /// that it was given instead of tokens, or that it keeps from earlier calls.
    pub(crate) fn is_strict(&self) -> bool {
        self.modes.strictest() == PrivacyMode::Strict
    }

    /// The vault of a user.
    pub async fn vault(&self, user: &UserId) -> Result<Arc<UserVault>, PrivacyError> {
        self.vaults.of(user).await
    }
}

/// The privacy of an engine, which may change while it runs. Cheap to clone.
#[derive(Clone, Debug, Default)]
pub(crate) struct CurrentPrivacy(Arc<RwLock<Option<Arc<Privacy>>>>);

impl CurrentPrivacy {
    pub(crate) fn set(&self, privacy: Privacy) {
        *self.0.write().unwrap_or_else(PoisonError::into_inner) = Some(Arc::new(privacy));
    }

    pub(crate) fn get(&self) -> Option<Arc<Privacy>> {
        self.0.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// The privacy, if anything is replaced by tokens.
    pub(crate) fn in_use(&self) -> Option<Arc<Privacy>> {
        self.get().filter(|privacy| privacy.is_on())
    }
}
