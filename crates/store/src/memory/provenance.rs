use super::MemoryStore;
use crate::moment::kept;
use crate::provenance::{MAX_FLOW_APPROVALS, check_approval, check_count, check_sources};
use crate::{FlowApproval, KEPT_CLIENT_SOURCES, Place, PlacedSource, Provenance, StoreError};
use async_trait::async_trait;
use coracle_types::{ExecutionId, ServerName, UserId};
use std::collections::{BTreeMap, BTreeSet};
use std::time::SystemTime;

/// What is known of the data of one user.
#[derive(Debug, Default)]
pub(super) struct Known {
    sources: BTreeMap<(Place, ServerName, Option<ExecutionId>), PlacedSource>,
    values: BTreeMap<String, BTreeSet<ServerName>>,
    approvals: Vec<FlowApproval>,
}

impl Known {
    fn add(&mut self, source: PlacedSource) {
        let key = (source.place.clone(), source.server.clone(), source.execution.clone());
        match self.sources.get_mut(&key) {
            Some(known) => {
                known.labels.extend(source.labels);
                known.seen_at = known.seen_at.max(source.seen_at);
            }
            None => drop(self.sources.insert(key, source)),
        }
    }

    /// Forgets the approvals for the tools of a server.
    pub(super) fn forget_server(&mut self, server: &ServerName) {
        self.approvals.retain(|approval| approval.server != *server);
    }

    fn servers_in(&self, place: &Place) -> usize {
        self.sources.keys().filter(|(of, ..)| of == place).map(|(_, server, _)| server).collect::<BTreeSet<_>>().len()
    }
}

#[async_trait]
impl Provenance for MemoryStore {
    async fn add_sources(&self, user: &UserId, sources: &[PlacedSource]) -> Result<(), StoreError> {
        check_sources(sources)?;
        let mut state = self.state();
        let known = state.provenance.entry(user.clone()).or_default();
        let outdated = SystemTime::now().checked_sub(KEPT_CLIENT_SOURCES).unwrap_or(SystemTime::UNIX_EPOCH);
        known
            .sources
            .retain(|(place, ..), source| !place.as_str().starts_with("client:") || source.seen_at >= outdated);
        for source in sources {
            let is_new = !known.sources.keys().any(|(of, server, _)| *of == source.place && *server == source.server);
            check_count(known.servers_in(&source.place) + usize::from(is_new))?;
        }
        for source in sources {
            known.add(PlacedSource { seen_at: kept(source.seen_at), ..source.clone() });
        }
        Ok(())
    }

    async fn sources_in(&self, user: &UserId, places: &[Place]) -> Result<Vec<PlacedSource>, StoreError> {
        let state = self.state();
        let all = state.provenance.get(user).into_iter().flat_map(|known| known.sources.values());
        Ok(all.filter(|source| places.contains(&source.place)).cloned().collect())
    }

    async fn sources(&self, user: &UserId) -> Result<Vec<PlacedSource>, StoreError> {
        let state = self.state();
        Ok(state.provenance.get(user).into_iter().flat_map(|known| known.sources.values().cloned()).collect())
    }

    async fn settle_sources(
        &self,
        user: &UserId,
        place: &Place,
        execution: &ExecutionId,
        is_kept: bool,
    ) -> Result<(), StoreError> {
        let mut state = self.state();
        let Some(known) = state.provenance.get_mut(user) else { return Ok(()) };
        let is_of = |source: &PlacedSource| source.place == *place && source.execution.as_ref() == Some(execution);
        let settled: Vec<PlacedSource> = known.sources.values().filter(|source| is_of(source)).cloned().collect();
        known.sources.retain(|_, source| !is_of(source));
        if is_kept {
            for source in settled {
                known.add(PlacedSource { execution: None, ..source });
            }
        }
        Ok(())
    }

    async fn copy_sources(&self, user: &UserId, from: &Place, to: &Place) -> Result<(), StoreError> {
        let mut state = self.state();
        let Some(known) = state.provenance.get_mut(user) else { return Ok(()) };
        let copied: Vec<PlacedSource> =
            known.sources.values().filter(|source| source.place == *from).cloned().collect();
        for source in copied {
            known.add(PlacedSource { place: to.clone(), execution: None, ..source });
        }
        Ok(())
    }

    async fn forget_sources(&self, user: &UserId, place: Option<&Place>) -> Result<u64, StoreError> {
        let mut state = self.state();
        let Some(known) = state.provenance.get_mut(user) else { return Ok(0) };
        let before = known.sources.len();
        known.sources.retain(|(of, ..), _| place.is_some_and(|place| of != place));
        Ok((before - known.sources.len()) as u64)
    }

    async fn add_value_sources(
        &self,
        user: &UserId,
        tokens: &BTreeSet<String>,
        server: &ServerName,
    ) -> Result<(), StoreError> {
        let mut state = self.state();
        let known = state.provenance.entry(user.clone()).or_default();
        for token in tokens {
            known.values.entry(token.clone()).or_default().insert(server.clone());
        }
        Ok(())
    }

    async fn value_sources(
        &self,
        user: &UserId,
        tokens: &BTreeSet<String>,
    ) -> Result<BTreeMap<String, BTreeSet<ServerName>>, StoreError> {
        let state = self.state();
        let Some(known) = state.provenance.get(user) else { return Ok(BTreeMap::new()) };
        let found = tokens.iter().filter_map(|token| Some((token.clone(), known.values.get(token)?.clone())));
        Ok(found.collect())
    }

    async fn approve_flow(&self, user: &UserId, approval: &FlowApproval) -> Result<(), StoreError> {
        check_approval(approval)?;
        let mut state = self.state();
        let approvals = &mut state.provenance.entry(user.clone()).or_default().approvals;
        approvals.retain(|other| other.digest != approval.digest);
        approvals.insert(0, FlowApproval { approved_at: kept(approval.approved_at), ..approval.clone() });
        approvals.truncate(MAX_FLOW_APPROVALS);
        Ok(())
    }

    async fn flow_approvals(&self, user: &UserId) -> Result<Vec<FlowApproval>, StoreError> {
        Ok(self.state().provenance.get(user).map(|known| known.approvals.clone()).unwrap_or_default())
    }

    async fn forget_flow_approvals(&self, user: &UserId, server: &ServerName, tool: &str) -> Result<bool, StoreError> {
        let mut state = self.state();
        let Some(known) = state.provenance.get_mut(user) else { return Ok(false) };
        let before = known.approvals.len();
        known.approvals.retain(|approval| approval.server != *server || approval.tool != tool);
        Ok(known.approvals.len() < before)
    }
}
