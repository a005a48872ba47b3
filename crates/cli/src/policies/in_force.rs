//! The policy that a running server has taken up, from a change of its files or by an admin.

use super::{PolicyText, policy_of};
use crate::flows::flows;
use coracle_config::{LoadOptions, Loaded};
use coracle_engine::Toolbox;
use coracle_policy::{Flows, Policy};
use coracle_types::{ServerName, ServerSpec};
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// The policy in force. Whoever replaces it holds the lock from before reading the settings until they apply, so that
/// settings which were read earlier never replace later ones.
pub(crate) struct PolicyInForce {
    toolbox: Arc<Toolbox>,
    /// Places that the settings are loaded from.
    options: LoadOptions,
    /// What the policy in force was made from.
    applied: Mutex<PolicyText>,
}

/// The right to replace the policy.
pub(crate) struct Held<'a> {
    policy: &'a PolicyInForce,
    applied: MutexGuard<'a, PolicyText>,
}

/// A whole policy that was read without an error.
pub(crate) struct NewPolicy {
    text: PolicyText,
    policy: Policy,
    flows: Flows,
}

impl PolicyInForce {
    /// The policy of the settings that a server has started with.
    pub(crate) fn new(options: LoadOptions, loaded: &Loaded, toolbox: Arc<Toolbox>) -> Arc<Self> {
        let applied = Mutex::new(PolicyText::of(loaded).unwrap_or_default());
        Arc::new(Self { toolbox, options, applied })
    }

    /// Waits until nobody else is replacing the policy.
    pub(crate) fn hold(&self) -> Held<'_> {
        Held { policy: self, applied: self.applied.lock().unwrap_or_else(PoisonError::into_inner) }
    }

    /// Reads the settings and takes up their policy, if it has changed. With an error in it, nothing changes. Returns what
    /// the new policy was made from.
    pub(super) fn take_up(&self) -> anyhow::Result<Option<PolicyText>> {
        self.take_up_from(|| self.load())
    }

    /// The settings as they are in the files now.
    pub(super) fn load(&self) -> anyhow::Result<Loaded> {
        Ok(coracle_config::load(&self.options)?)
    }

    /// The same, with a way to read the settings.
    fn take_up_from(&self, read: impl FnOnce() -> anyhow::Result<Loaded>) -> anyhow::Result<Option<PolicyText>> {
        let mut held = self.hold();
        let loaded = read()?;
        let new = held.read(&loaded)?;
        if *held.applied == new.text {
            return Ok(None);
        }
        let text = new.text.clone();
        held.replace(new);
        Ok(Some(text))
    }
}

impl Held<'_> {
    /// Reads the whole policy of settings that were loaded since the lock is held.
    #[expect(clippy::unused_self, reason = "only the holder of the lock may read")]
    pub(crate) fn read(&self, loaded: &Loaded) -> anyhow::Result<NewPolicy> {
        let text = PolicyText::of(loaded)?;
        let (policy, flows) = (policy_of(loaded, &text)?, flows(loaded)?);
        Ok(NewPolicy { text, policy, flows })
    }

    /// Takes up a policy, and then the servers that were configured with it.
    pub(crate) fn reconfigure(
        &mut self,
        new: NewPolicy,
        servers: Vec<ServerSpec>,
        unusable: Vec<(ServerName, String)>,
    ) {
        self.replace(new);
        self.policy.toolbox.reconfigure(servers, unusable);
    }

    /// Places that the settings are loaded from.
    pub(crate) fn options(&self) -> &LoadOptions {
        &self.policy.options
    }

    fn replace(&mut self, new: NewPolicy) {
        self.policy.toolbox.approvals().replace(new.policy, new.flows);
        *self.applied = new.text;
    }
}

impl fmt::Debug for PolicyInForce {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // The places include variables with credentials.
        f.debug_struct("PolicyInForce").finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests;
