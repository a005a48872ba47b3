//! Accounts in memory.

use super::MemoryStore;
use crate::accounts::{check_hash, check_key, check_user};
use crate::moment::kept;
use crate::{
    Accounts, ApiKey, Belongings, BrowserSession, ForeignIdentity, Owner, Renamed, Role, SignInLink, StoreError,
    TokenDigest, User,
};
use async_trait::async_trait;
use coracle_types::{Secret, UserId};
use std::collections::BTreeMap;
use std::sync::{MutexGuard, PoisonError};
use std::time::SystemTime;

#[derive(Debug, Default)]
pub(super) struct State {
    users: BTreeMap<UserId, User>,
    keys: BTreeMap<TokenDigest, ApiKey>,
    sessions: BTreeMap<TokenDigest, BrowserSession>,
    links: BTreeMap<TokenDigest, SignInLink>,
}

impl State {
    fn may_sign_in(&self, user: &UserId) -> bool {
        self.users.get(user).is_some_and(|user| !user.disabled)
    }

    fn sign_out(&mut self, user: &UserId) {
        self.sessions.retain(|_, session| session.user != *user);
        self.links.retain(|_, link| link.user != *user);
    }

    fn change(&mut self, id: &UserId, change: impl FnOnce(&mut User)) -> bool {
        self.users.get_mut(id).map(change).is_some()
    }
}

impl MemoryStore {
    fn accounts(&self) -> MutexGuard<'_, State> {
        self.accounts.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn delete_account(&self, user: &UserId) -> bool {
        let mut state = self.accounts();
        state.sign_out(user);
        state.keys.retain(|_, key| key.user != *user);
        state.users.remove(user).is_some()
    }
}

/// Changes the keys of the matching entries.
fn rekey<K: Clone + Ord, V>(entries: &mut BTreeMap<K, V>, is_meant: impl Fn(&K) -> bool, change: impl Fn(&mut K)) {
    let keys: Vec<K> = entries.keys().filter(|key| is_meant(key)).cloned().collect();
    for mut key in keys {
        if let Some(value) = entries.remove(&key) {
            change(&mut key);
            entries.insert(key, value);
        }
    }
}

#[async_trait]
impl Accounts for MemoryStore {
    async fn add_user(&self, user: &User) -> Result<bool, StoreError> {
        check_user(user)?;
        let mut state = self.accounts();
        let is_known = |other: &User| user.foreign.is_some() && other.foreign == user.foreign;
        if state.users.contains_key(&user.id) || state.users.values().any(is_known) {
            return Ok(false);
        }
        let (created_at, last_seen) = (kept(user.created_at), user.last_seen.map(kept));
        state.users.insert(user.id.clone(), User { created_at, last_seen, ..user.clone() });
        Ok(true)
    }

    async fn user(&self, id: &UserId) -> Result<Option<User>, StoreError> {
        Ok(self.accounts().users.get(id).cloned())
    }

    async fn user_of(&self, foreign: &ForeignIdentity) -> Result<Option<User>, StoreError> {
        Ok(self.accounts().users.values().find(|user| user.foreign.as_ref() == Some(foreign)).cloned())
    }

    async fn users(&self) -> Result<Vec<User>, StoreError> {
        Ok(self.accounts().users.values().cloned().collect())
    }

    async fn has_users(&self) -> Result<bool, StoreError> {
        Ok(!self.accounts().users.is_empty())
    }

    async fn has_data(&self, id: &UserId) -> Result<bool, StoreError> {
        let state = self.state();
        let owner = Owner::User(id.clone());
        let in_state = state.executions.get(id).is_some_and(|executions| !executions.is_empty())
            || state.decisions.keys().any(|(user, ..)| user == id)
            || state.approvals.contains_key(id)
            || state.secrets.keys().any(|(whose, _)| *whose == owner)
            || state.vaults.contains_key(id)
            || state.plans.get(id).is_some_and(|plans| !plans.is_empty())
            || state.artifacts.get(id).is_some_and(|shelves| !shelves.is_empty());
        let in_log = self.log().get(id).is_some_and(|sessions| !sessions.is_empty());
        Ok(in_state || in_log || self.all_runs().get(id).is_some_and(|runs| !runs.is_empty()))
    }

    async fn rename_user(&self, from: &UserId, to: &UserId, belongings: Belongings) -> Result<Renamed, StoreError> {
        let (from_data, to_data) = (self.has_data(from).await?, self.has_data(to).await?);
        let mut accounts = self.accounts();
        let (from_account, to_account) = (accounts.users.contains_key(from), accounts.users.contains_key(to));
        if !from_account && !from_data {
            return Ok(Renamed::Unknown);
        }
        if (from_account && to_account) || to_data {
            return Ok(Renamed::Taken);
        }
        accounts.sign_out(from);
        if let Some(user) = accounts.users.remove(from) {
            accounts.users.insert(to.clone(), User { id: to.clone(), ..user });
        }
        for key in accounts.keys.values_mut().filter(|key| key.user == *from) {
            key.user = to.clone();
        }
        drop(accounts);
        let mut state = self.state();
        let (old, new) = (Owner::User(from.clone()), Owner::User(to.clone()));
        rekey(&mut state.tools, |(owner, _)| *owner == old, |(owner, _)| *owner = new.clone());
        rekey(&mut state.shapes, |(owner, ..)| *owner == old, |(owner, ..)| *owner = new.clone());
        rekey(&mut state.decisions, |(user, ..)| user == from, |(user, ..)| *user = to.clone());
        if belongings == Belongings::All {
            rekey(&mut state.secrets, |(owner, _)| *owner == old, |(owner, _)| *owner = new.clone());
            if let Some(vault) = state.vaults.remove(from) {
                state.vaults.insert(to.clone(), vault);
            }
        }
        if let Some(mut executions) = state.executions.remove(from) {
            executions.rename(to);
            state.executions.insert(to.clone(), executions);
        }
        if let Some(mut approvals) = state.approvals.remove(from) {
            for record in &mut approvals {
                record.user = to.clone();
            }
            state.approvals.insert(to.clone(), approvals);
        }
        rekey(&mut state.provenance, |user| user == from, |user| *user = to.clone());
        if let Some(mut plans) = state.plans.remove(from) {
            for record in &mut plans {
                record.user = to.clone();
            }
            state.plans.insert(to.clone(), plans);
        }
        for record in state.approvals.values_mut().flatten() {
            if record.caller.as_ref() == Some(from) {
                record.caller = Some(to.clone());
            }
        }
        rekey(&mut state.tokens, |user| user == from, |user| *user = to.clone());
        let is_theirs = |(_, of, _): &(String, Option<UserId>, String)| of.as_ref() == Some(from);
        rekey(&mut state.limits, is_theirs, |(_, of, _)| *of = Some(to.clone()));
        rekey(&mut state.artifacts, |user| user == from, |user| *user = to.clone());
        drop(state);
        rekey(&mut self.log(), |user| user == from, |user| *user = to.clone());
        rekey(&mut self.all_runs(), |user| user == from, |user| *user = to.clone());
        Ok(Renamed::Done)
    }

    async fn set_password(&self, id: &UserId, hash: Option<&Secret>) -> Result<bool, StoreError> {
        hash.map_or(Ok(()), check_hash)?;
        let mut state = self.accounts();
        state.sign_out(id);
        Ok(state.change(id, |user| user.password = hash.cloned()))
    }

    async fn set_disabled(&self, id: &UserId, disabled: bool) -> Result<bool, StoreError> {
        let mut state = self.accounts();
        if disabled {
            state.sign_out(id);
        }
        Ok(state.change(id, |user| user.disabled = disabled))
    }

    async fn set_role(&self, id: &UserId, role: Role) -> Result<bool, StoreError> {
        Ok(self.accounts().change(id, |user| user.role = role))
    }

    async fn user_seen(&self, id: &UserId, at: SystemTime) -> Result<(), StoreError> {
        self.accounts().change(id, |user| user.last_seen = Some(kept(at)));
        Ok(())
    }

    async fn add_key(&self, key: &ApiKey) -> Result<bool, StoreError> {
        check_key(key)?;
        let mut state = self.accounts();
        let is_taken = state.keys.values().any(|other| other.id == key.id || other.digest == key.digest);
        let is_maker = |other: &ApiKey| {
            Some(&other.id) == key.made_by.as_ref() && other.user == key.user && other.revoked_at.is_none()
        };
        let has_maker = key.made_by.is_none() || state.keys.values().any(is_maker);
        if is_taken || !has_maker || !state.users.contains_key(&key.user) {
            return Ok(false);
        }
        let key = ApiKey {
            created_at: kept(key.created_at),
            expires_at: key.expires_at.map(kept),
            last_used: key.last_used.map(kept),
            revoked_at: key.revoked_at.map(kept),
            ..key.clone()
        };
        state.keys.insert(key.digest.clone(), key);
        Ok(true)
    }

    async fn key(&self, digest: &TokenDigest) -> Result<Option<ApiKey>, StoreError> {
        Ok(self.accounts().keys.get(digest).cloned())
    }

    async fn keys(&self, user: &UserId) -> Result<Vec<ApiKey>, StoreError> {
        let state = self.accounts();
        let mut keys: Vec<ApiKey> = state.keys.values().filter(|key| key.user == *user).cloned().collect();
        keys.sort_by(|a, b| (a.created_at, &a.id).cmp(&(b.created_at, &b.id)));
        Ok(keys)
    }

    async fn revoke_key(&self, user: Option<&UserId>, id: &str, at: SystemTime) -> Result<bool, StoreError> {
        let mut state = self.accounts();
        let is_meant =
            |key: &&mut ApiKey| key.id == id && key.revoked_at.is_none() && user.is_none_or(|user| *user == key.user);
        let Some(found) = state.keys.values_mut().find(is_meant) else { return Ok(false) };
        found.revoked_at = Some(kept(at));
        let mut fallen = vec![id.to_owned()];
        while let Some(maker) = fallen.pop() {
            for key in state.keys.values_mut().filter(|key| key.made_by.as_ref() == Some(&maker)) {
                fallen.push(key.id.clone());
                key.revoked_at.get_or_insert(kept(at));
            }
        }
        Ok(true)
    }

    async fn key_used(&self, digest: &TokenDigest, at: SystemTime) -> Result<(), StoreError> {
        if let Some(key) = self.accounts().keys.get_mut(digest) {
            key.last_used = Some(kept(at));
        }
        Ok(())
    }

    async fn add_browser_session(&self, session: &BrowserSession) -> Result<bool, StoreError> {
        let mut state = self.accounts();
        if !state.may_sign_in(&session.user) {
            return Ok(false);
        }
        let session = BrowserSession {
            created_at: kept(session.created_at),
            expires_at: kept(session.expires_at),
            last_seen: kept(session.last_seen),
            ..session.clone()
        };
        state.sessions.insert(session.digest.clone(), session);
        Ok(true)
    }

    async fn browser_session(&self, digest: &TokenDigest) -> Result<Option<BrowserSession>, StoreError> {
        Ok(self.accounts().sessions.get(digest).cloned())
    }

    async fn browser_session_seen(&self, digest: &TokenDigest, at: SystemTime) -> Result<(), StoreError> {
        if let Some(session) = self.accounts().sessions.get_mut(digest) {
            session.last_seen = kept(at);
        }
        Ok(())
    }

    async fn end_browser_session(&self, digest: &TokenDigest) -> Result<bool, StoreError> {
        Ok(self.accounts().sessions.remove(digest).is_some())
    }

    async fn add_link(&self, link: &SignInLink) -> Result<bool, StoreError> {
        let mut state = self.accounts();
        if !state.may_sign_in(&link.user) {
            return Ok(false);
        }
        state.links.insert(link.digest.clone(), SignInLink { expires_at: kept(link.expires_at), ..link.clone() });
        Ok(true)
    }

    async fn use_link(&self, digest: &TokenDigest, now: SystemTime) -> Result<Option<UserId>, StoreError> {
        let used = self.accounts().links.remove(digest);
        Ok(used.filter(|link| link.expires_at > kept(now)).map(|link| link.user))
    }

    async fn forget_expired(&self, now: SystemTime) -> Result<(), StoreError> {
        let mut state = self.accounts();
        state.sessions.retain(|_, session| session.expires_at > kept(now));
        state.links.retain(|_, link| link.expires_at > kept(now));
        Ok(())
    }
}
