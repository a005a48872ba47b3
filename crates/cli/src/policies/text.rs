use anyhow::Context as _;
use coracle_config::Loaded;
use coracle_types::sorted_json;

/// What a policy is made from, to find out whether it has changed.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct PolicyText {
    bytes: Vec<u8>,
}

impl PolicyText {
    pub(crate) fn of(loaded: &Loaded) -> anyhow::Result<Self> {
        let servers = loaded.settings.mcp_servers.iter();
        let labels: Vec<_> = servers.map(|(name, entry)| (name, &entry.labels)).collect();
        let bytes =
            sorted_json(&(&loaded.settings.policy, labels)).context("cannot write the policy as JSON")?;
        Ok(Self { bytes })
    }

    /// All of it, in a form that is the same for equal policies.
    pub(super) fn bytes(&self) -> &[u8] {
        &self.bytes
    }
}
