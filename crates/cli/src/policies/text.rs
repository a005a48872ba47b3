use crate::status::Mistake;
use anyhow::Context as _;
use coracle_config::Loaded;
use coracle_policy::{PolicyError, PolicyFile, policy_files};
use coracle_types::sorted_json;

/// What a policy is made from, to find out whether it has changed. Files are read once, so that the policy is made from the
/// same texts.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct PolicyText {
    files: Vec<PolicyFile>,
    bytes: Vec<u8>,
}

impl PolicyText {
    /// Reads the policy files of the settings.
    pub(crate) fn of(loaded: &Loaded) -> anyhow::Result<Self> {
        let policy = &loaded.settings.policy;
        let files =
            policy_files(&policy.files).map_err(|error| Mistake::new(PolicyError::from(error), None::<String>))?;
        let servers = loaded.settings.mcp_servers.iter();
        let labels: Vec<_> = servers.map(|(name, entry)| (name, &entry.labels)).collect();
        let texts: Vec<_> = files.iter().map(|PolicyFile { path, text }| (path, text)).collect();
        let bytes = sorted_json(&(policy, labels, texts)).context("cannot write the policy as JSON")?;
        Ok(Self { files, bytes })
    }

    /// The Cedar files.
    pub(super) fn files(&self) -> &[PolicyFile] {
        &self.files
    }

    /// All of it, in a form that is the same for equal policies.
    pub(super) fn bytes(&self) -> &[u8] {
        &self.bytes
    }
}
