mod accounts;
mod approvals;
mod artifacts;
mod conversations;
mod executions;
mod journal;
mod limit_use;
mod plans;
mod provenance;
mod runs;
mod token_use;
mod token_vault;

use crate::moment::kept;
use crate::{
    ApprovalRecord, Day, DerivedKey, ExecutionRecord, Kept, KeyError, ListedTools, MAX_ARGUMENT_DECISIONS, Owner,
    PlanRecord, Shape, Store, StoreError, ToolDecision, bounds, sign_in_secret,
};
use async_trait::async_trait;
use coracle_types::{ExecutionId, Secret, ServerName, UserId};
use executions::Executions;
use serde_json::Value;
use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

/// A [`Store`] in memory, for tests, and for programs that must leave nothing behind.
#[derive(Debug, Default)]
pub struct MemoryStore {
    state: Mutex<State>,
    log: Mutex<journal::Log>,
    runs: Mutex<runs::AllRuns>,
    accounts: Mutex<accounts::State>,
    /// Stands for the master key. Created when it is needed.
    key: Mutex<Option<DerivedKey>>,
    kept: Mutex<Kept>,
}

#[derive(Debug, Default)]
struct State {
    tools: BTreeMap<(Owner, ServerName), ListedTools>,
    shapes: BTreeMap<(Owner, ServerName, String), Shape>,
    /// By user, server, tool and digest of arguments.
    decisions: BTreeMap<(UserId, ServerName, String, Option<String>), ToolDecision>,
    secrets: BTreeMap<(Owner, String), Secret>,
    artifacts: artifacts::Shelves,
    executions: BTreeMap<UserId, Executions>,
    /// Those that ended last first.
    approvals: BTreeMap<UserId, Vec<ApprovalRecord>>,
    tokens: BTreeMap<UserId, BTreeMap<Day, u64>>,
    limits: limit_use::Used,
    vaults: token_vault::Vaults,
    provenance: BTreeMap<UserId, provenance::Known>,
    /// The newest first.
    plans: BTreeMap<UserId, Vec<PlanRecord>>,
}

impl MemoryStore {
    /// An empty store.
    pub fn new() -> Self {
        Self::default()
    }

    fn kept(&self) -> Kept {
        *self.kept.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[async_trait]
impl Store for MemoryStore {
    async fn put_tools(&self, owner: &Owner, server: &ServerName, listed: &ListedTools) -> Result<(), StoreError> {
        bounds::tools(listed)?;
        let listed = ListedTools { listed_at: kept(listed.listed_at), ..listed.clone() };
        self.state().tools.insert((owner.clone(), server.clone()), listed);
        Ok(())
    }

    async fn tools(&self, owner: &Owner, server: &ServerName) -> Result<Option<ListedTools>, StoreError> {
        Ok(self.state().tools.get(&(owner.clone(), server.clone())).cloned())
    }

    async fn shape(&self, owner: &Owner, server: &ServerName, tool: &str) -> Result<Option<Shape>, StoreError> {
        Ok(self.state().shapes.get(&(owner.clone(), server.clone(), tool.to_owned())).cloned())
    }

    async fn put_shape(
        &self,
        owner: &Owner,
        server: &ServerName,
        tool: &str,
        shape: &Value,
        expected: u64,
    ) -> Result<u64, StoreError> {
        bounds::shape(tool, shape)?;
        let mut state = self.state();
        let key = (owner.clone(), server.clone(), tool.to_owned());
        let current = state.shapes.get(&key).map_or(0, |shape| shape.version);
        if current != expected {
            return Err(StoreError::Conflict { what: format!("the shape of {server}.{tool}"), expected });
        }
        state.shapes.insert(key, Shape { value: shape.clone(), version: expected + 1 });
        Ok(expected + 1)
    }

    async fn shapes(&self, owner: &Owner, server: &ServerName) -> Result<Vec<(String, Shape)>, StoreError> {
        let state = self.state();
        let of_server = state.shapes.iter().filter(|((whose, of, _), _)| whose == owner && of == server);
        Ok(of_server.map(|((_, _, tool), shape)| (tool.clone(), shape.clone())).collect())
    }

    async fn remember(&self, user: &UserId, decision: &ToolDecision) -> Result<(), StoreError> {
        bounds::decision(decision)?;
        let decided = ToolDecision { decided_at: kept(decision.decided_at), ..decision.clone() };
        let decisions = &mut self.state().decisions;
        if decided.arguments.is_none() {
            decisions.retain(|key, _| !is_about(key, user, &decided.server, &decided.tool));
        }
        let key = (user.clone(), decided.server.clone(), decided.tool.clone(), decided.arguments.clone());
        decisions.insert(key, decided);
        let bound = decisions.iter().filter(|(key, decided)| {
            decided.arguments.is_some() && is_about(key, user, &decision.server, &decision.tool)
        });
        let mut bound: Vec<_> = bound.map(|(key, decided)| (decided.decided_at, key.clone())).collect();
        bound.sort_by(|one, other| other.cmp(one));
        for (_, oldest) in bound.into_iter().skip(MAX_ARGUMENT_DECISIONS) {
            decisions.remove(&oldest);
        }
        Ok(())
    }

    async fn decision(
        &self,
        user: &UserId,
        server: &ServerName,
        tool: &str,
    ) -> Result<Option<ToolDecision>, StoreError> {
        Ok(self.state().decisions.get(&(user.clone(), server.clone(), tool.to_owned(), None)).cloned())
    }

    async fn decisions_about(
        &self,
        user: &UserId,
        server: &ServerName,
        tool: &str,
    ) -> Result<Vec<ToolDecision>, StoreError> {
        let state = self.state();
        let about = state.decisions.iter().filter(|(key, _)| is_about(key, user, server, tool));
        Ok(about.map(|(_, decision)| decision.clone()).collect())
    }

    async fn decisions(&self, user: &UserId) -> Result<Vec<ToolDecision>, StoreError> {
        let state = self.state();
        let of_user = state.decisions.iter().filter(|((whose, ..), _)| whose == user);
        Ok(of_user.map(|(_, decision)| decision.clone()).collect())
    }

    async fn forget(&self, user: &UserId, server: &ServerName, tool: &str) -> Result<bool, StoreError> {
        let decisions = &mut self.state().decisions;
        let before = decisions.len();
        decisions.retain(|key, _| !is_about(key, user, server, tool));
        Ok(decisions.len() < before)
    }

    async fn forget_arguments(
        &self,
        user: &UserId,
        server: &ServerName,
        tool: &str,
        arguments: &str,
    ) -> Result<bool, StoreError> {
        let key = (user.clone(), server.clone(), tool.to_owned(), Some(arguments.to_owned()));
        Ok(self.state().decisions.remove(&key).is_some())
    }

    async fn forget_server(&self, server: &ServerName) -> Result<(), StoreError> {
        let mut state = self.state();
        state.tools.retain(|(_, of), _| of != server);
        state.shapes.retain(|(_, of, _), _| of != server);
        state.decisions.retain(|(_, of, ..), _| of != server);
        state.provenance.values_mut().for_each(|known| known.forget_server(server));
        let sign_in = sign_in_secret(server);
        state.secrets.retain(|(_, name), _| *name != sign_in);
        Ok(())
    }

    async fn delete_user(&self, user: &UserId) -> Result<bool, StoreError> {
        self.delete_user_data(user).await?;
        Ok(self.delete_account(user))
    }

    async fn delete_user_data(&self, user: &UserId) -> Result<(), StoreError> {
        let owner = Owner::User(user.clone());
        {
            let mut state = self.state();
            state.tools.retain(|(whose, _), _| *whose != owner);
            state.shapes.retain(|(whose, ..), _| *whose != owner);
            state.decisions.retain(|(whose, ..), _| whose != user);
            state.secrets.retain(|(whose, _), _| *whose != owner);
            state.artifacts.remove(user);
            state.executions.remove(user);
            state.approvals.remove(user);
            for approvals in state.approvals.values_mut() {
                approvals.retain(|record| record.caller.as_ref() != Some(user));
            }
            state.tokens.remove(user);
            state.limits.retain(|(_, of, _), _| of.as_ref() != Some(user));
            state.vaults.remove(user);
            state.provenance.remove(user);
            state.plans.remove(user);
        }
        self.log.lock().unwrap_or_else(PoisonError::into_inner).remove(user);
        self.all_runs().remove(user);
        Ok(())
    }

    async fn put_secret(&self, owner: &Owner, name: &str, secret: &Secret) -> Result<(), StoreError> {
        bounds::secret(name, secret)?;
        self.state().secrets.insert((owner.clone(), name.to_owned()), secret.clone());
        Ok(())
    }

    async fn secret(&self, owner: &Owner, name: &str) -> Result<Option<Secret>, StoreError> {
        Ok(self.state().secrets.get(&(owner.clone(), name.to_owned())).cloned())
    }

    async fn secret_names(&self, owner: &Owner) -> Result<Vec<String>, StoreError> {
        let state = self.state();
        Ok(state.secrets.keys().filter(|(whose, _)| whose == owner).map(|(_, name)| name.clone()).collect())
    }

    async fn delete_secret(&self, owner: &Owner, name: &str) -> Result<bool, StoreError> {
        Ok(self.state().secrets.remove(&(owner.clone(), name.to_owned())).is_some())
    }

    async fn derived_key(&self, purpose: &str) -> Result<DerivedKey, StoreError> {
        let mut key = self.key.lock().unwrap_or_else(PoisonError::into_inner);
        if key.is_none() {
            let failed =
                |error: getrandom::Error| KeyError::Unusable { path: "memory".into(), reason: error.to_string() };
            *key = Some(DerivedKey::random().map_err(failed)?);
        }
        let key = key.as_ref().map(|key| key.derive(purpose));
        key.ok_or_else(|| KeyError::Missing { path: "memory".into() }.into())
    }

    fn keep(&self, kept: Kept) {
        *self.kept.lock().unwrap_or_else(PoisonError::into_inner) = kept.sane();
    }

    async fn record(&self, record: &ExecutionRecord) -> Result<(), StoreError> {
        bounds::record(record)?;
        let most = self.kept().executions;
        self.state().executions.entry(record.user.clone()).or_default().put(record, most);
        Ok(())
    }

    async fn execution(&self, user: &UserId, id: &ExecutionId) -> Result<Option<ExecutionRecord>, StoreError> {
        Ok(self.state().executions.get(user).and_then(|executions| executions.get(id)))
    }

    async fn executions(
        &self,
        user: &UserId,
        limit: usize,
        before: Option<&ExecutionId>,
    ) -> Result<Vec<ExecutionRecord>, StoreError> {
        let state = self.state();
        Ok(state.executions.get(user).map(|executions| executions.page(limit, before)).unwrap_or_default())
    }
}

/// Whether a decision with this key is about a tool.
fn is_about(
    (whose, of, name, _): &(UserId, ServerName, String, Option<String>),
    user: &UserId,
    server: &ServerName,
    tool: &str,
) -> bool {
    whose == user && of == server && name == tool
}
