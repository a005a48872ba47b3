//! The network of an execution.

use super::Executor;
use super::facts::Facts;
use crate::broker::{Broker, NetworkCalls};
use crate::network::Passage;
use crate::request::Request;
use crate::run::{CallCount, Ran};
use crate::sessions::Live;
use crate::verdict::invalid;
use coracle_egress::{Decide, Gate};
use coracle_sandbox::Network;
use coracle_types::{Failure, Mode};
use std::path::Path;
use std::sync::Arc;

/// The network of an execution that runs.
pub(super) struct Connected {
    pub(super) passage: Passage,
    calls: Arc<NetworkCalls>,
}

impl Connected {
    /// Ends all connections, and returns warnings about what was refused.
    pub(super) async fn end(self) -> Vec<String> {
        self.passage.close().await;
        self.calls.end()
    }
}

impl Executor {
    /// Opens a sandbox. It can have a network if the code of the user may reach anything, even if this request does not.
    pub(super) async fn open(&self, request: &Request, workspace: &Path, facts: &Facts) -> Result<Live, Ran> {
        let is_connected = self.parts.tools.toolbox().is_some() && self.parts.network.of(&request.user).is_some();
        let network = if is_connected { Network::Proxy } else { Network::Off };
        self.parts.sandboxes.open(request, workspace, facts.servers(), &facts.clock, network).await
    }

    /// Gives an execution the network, if it may reach anything. While a plan is made, nothing can be reached: what a
    /// request changes cannot be planned.
    pub(super) fn connected(
        &self,
        live: &Live,
        request: &Request,
        broker: Option<Arc<Broker>>,
        count: &CallCount,
    ) -> Result<Option<Connected>, Failure> {
        let (Some(doorway), Some(broker)) = (&live.doorway, broker) else { return Ok(None) };
        let Some(network) = self.parts.network.of(&request.user).filter(|_| request.mode == Mode::Run) else {
            return Ok(None);
        };
        let grant = network
            .grant(&request.user, request.network.as_deref())
            .map_err(|error| Failure { hint: Some(error.hint().to_owned()), ..invalid(error.to_string()) })?;
        let Some(grant) = grant else { return Ok(None) };
        let calls = Arc::new(NetworkCalls::new(broker, count.clone(), request.limits.calls));
        let decide: Arc<dyn Decide> = Arc::<NetworkCalls>::clone(&calls);
        let share = network.share(&request.user);
        let passage = doorway
            .open(|authority, cancel| Gate::with_authority(network.proxy(), &share, grant, authority, decide, cancel));
        Ok(Some(Connected { passage, calls }))
    }
}
