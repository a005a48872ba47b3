//! The log of sessions, in memory.

use super::MemoryStore;
use crate::moment::kept;
use crate::{
    Checkpoint, Journal, KEPT_CHECKPOINTS, KEPT_RECORDINGS, LostTask, MAX_PAGE, NewTask, SessionRecord, StoreError,
    TaskEnd, TaskRecord, TaskState, bounds,
};
use async_trait::async_trait;
use coracle_types::{SessionId, UserId};
use serde_json::Value;
use std::collections::BTreeMap;
use std::sync::{MutexGuard, PoisonError};
use std::time::SystemTime;

/// The sessions of each user, by number.
pub(super) type Log = BTreeMap<UserId, BTreeMap<u64, Kept>>;

#[derive(Debug)]
pub(super) struct Kept {
    session: SessionRecord,
    tasks: BTreeMap<u64, (TaskRecord, Option<Value>)>,
    checkpoints: Vec<Checkpoint>,
}

impl Kept {
    /// Whether the session may have an interpreter: it was used since this time, or has a running task.
    fn is_live(&self, since: SystemTime) -> bool {
        let last = self.tasks.last_key_value().map(|(_, (task, _))| task);
        let is_used = self.session.last_used > since
            || last.is_some_and(|task| task.state == TaskState::Running || task.ended_at.is_some_and(|at| at > since));
        self.session.ended_at.is_none() && is_used
    }
}

impl MemoryStore {
    pub(super) fn log(&self) -> MutexGuard<'_, Log> {
        self.log.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn find<'a>(log: &'a Log, user: &UserId, id: &SessionId) -> Option<&'a Kept> {
    log.get(user)?.values().find(|kept| kept.session.id == *id)
}

fn find_mut<'a>(log: &'a mut Log, user: &UserId, id: &SessionId) -> Option<&'a mut Kept> {
    log.get_mut(user)?.values_mut().find(|kept| kept.session.id == *id)
}

fn open<'a>(log: &'a mut Log, user: &UserId, id: &SessionId) -> Result<&'a mut Kept, StoreError> {
    let found = find_mut(log, user, id).filter(|kept| kept.session.ended_at.is_none());
    found.ok_or_else(|| StoreError::NoSession { id: id.to_string() })
}

fn is_below<T>(before: Option<u64>) -> impl Fn(&(&u64, T)) -> bool {
    move |(number, _)| before.is_none_or(|before| **number < before)
}

#[async_trait]
impl Journal for MemoryStore {
    async fn open_session(
        &self,
        user: &UserId,
        new_id: &SessionId,
        label: Option<&str>,
        at: SystemTime,
    ) -> Result<SessionRecord, StoreError> {
        label.map_or(Ok(()), bounds::label)?;
        let mut log = self.log();
        let sessions = log.entry(user.clone()).or_default();
        let has_label =
            |kept: &&Kept| label.is_some() && kept.session.label.as_deref() == label && kept.session.ended_at.is_none();
        if let Some(found) = sessions.values().find(has_label) {
            return Ok(found.session.clone());
        }
        let number = sessions.last_key_value().map_or(0, |(number, _)| *number) + 1;
        let session = SessionRecord {
            id: new_id.clone(),
            number,
            label: label.map(str::to_owned),
            started_at: kept(at),
            last_used: kept(at),
            ended_at: None,
            tasks: 0,
        };
        let fresh = Kept { session: session.clone(), tasks: BTreeMap::new(), checkpoints: Vec::new() };
        sessions.insert(number, fresh);
        let most = self.kept();
        let old = at.checked_sub(most.live_for).unwrap_or(SystemTime::UNIX_EPOCH);
        while sessions.len() > most.sessions {
            let others = sessions.values().filter(|kept| kept.session.number != number && !kept.is_live(old));
            let oldest = others.min_by_key(|kept| (kept.session.last_used, kept.session.number));
            let Some(oldest) = oldest.map(|kept| kept.session.number) else { break };
            sessions.remove(&oldest);
        }
        Ok(session)
    }

    async fn session(&self, user: &UserId, id: &SessionId) -> Result<Option<SessionRecord>, StoreError> {
        Ok(find(&self.log(), user, id).map(|kept| kept.session.clone()))
    }

    async fn session_labelled(&self, user: &UserId, label: &str) -> Result<Option<SessionRecord>, StoreError> {
        let log = self.log();
        let sessions = log.get(user).into_iter().flat_map(BTreeMap::values).map(|kept| &kept.session);
        let labelled = sessions.filter(|session| session.label.as_deref() == Some(label));
        Ok(labelled.max_by_key(|session| (session.ended_at.is_none(), session.number)).cloned())
    }

    async fn sessions(
        &self,
        user: &UserId,
        limit: usize,
        before: Option<u64>,
    ) -> Result<Vec<SessionRecord>, StoreError> {
        let log = self.log();
        let sessions = log.get(user).into_iter().flatten().rev().filter(is_below(before));
        Ok(sessions.take(limit.min(MAX_PAGE)).map(|(_, kept)| kept.session.clone()).collect())
    }

    async fn end_session(&self, user: &UserId, id: &SessionId, at: SystemTime) -> Result<bool, StoreError> {
        let mut log = self.log();
        let Ok(found) = open(&mut log, user, id) else { return Ok(false) };
        found.session.ended_at = Some(kept(at));
        Ok(true)
    }

    async fn delete_session(&self, user: &UserId, id: &SessionId) -> Result<bool, StoreError> {
        let mut log = self.log();
        let Some(sessions) = log.get_mut(user) else { return Ok(false) };
        let is_idle = |kept: &Kept| kept.tasks.values().all(|(task, _)| task.state != TaskState::Running);
        let found =
            sessions.iter().find(|(_, kept)| kept.session.id == *id && is_idle(kept)).map(|(number, _)| *number);
        Ok(found.and_then(|number| sessions.remove(&number)).is_some())
    }

    async fn begin_task(&self, user: &UserId, session: &SessionId, task: &NewTask) -> Result<u64, StoreError> {
        bounds::task(task)?;
        let most = self.kept().tasks;
        let mut log = self.log();
        let found = open(&mut log, user, session)?;
        let begun = NewTask { started_at: kept(task.started_at), ..task.clone() };
        found.session.tasks += 1;
        found.session.last_used = begun.started_at;
        let number = found.session.tasks;
        let task = TaskRecord { number, begun, state: TaskState::Running, ended_at: None, outcome: None };
        found.tasks.insert(number, (task, None));
        found.tasks = found.tasks.split_off(&(number.saturating_sub(most) + 1));
        for (_, (_, recording)) in found.tasks.range_mut(..=number.saturating_sub(KEPT_RECORDINGS)) {
            *recording = None;
        }
        Ok(number)
    }

    async fn finish_task(
        &self,
        user: &UserId,
        session: &SessionId,
        number: u64,
        end: &TaskEnd,
    ) -> Result<(), StoreError> {
        bounds::task_end(end)?;
        let mut log = self.log();
        let found = find_mut(&mut log, user, session).and_then(|kept| kept.tasks.get_mut(&number));
        if let Some((task, recording)) = found.filter(|(task, _)| task.state == TaskState::Running) {
            task.state = end.state;
            task.ended_at = Some(kept(end.ended_at));
            task.outcome = Some(end.outcome.clone());
            recording.clone_from(&end.recording);
        }
        Ok(())
    }

    async fn tasks(
        &self,
        user: &UserId,
        session: &SessionId,
        limit: usize,
        before: Option<u64>,
    ) -> Result<Vec<TaskRecord>, StoreError> {
        let log = self.log();
        let tasks = find(&log, user, session).into_iter().flat_map(|kept| &kept.tasks).collect::<Vec<_>>();
        let below = tasks.into_iter().rev().filter(is_below(before));
        Ok(below.take(limit.min(MAX_PAGE)).map(|(_, (task, _))| task.clone()).collect())
    }

    async fn recording(&self, user: &UserId, session: &SessionId, number: u64) -> Result<Option<Value>, StoreError> {
        let log = self.log();
        let task = find(&log, user, session).and_then(|kept| kept.tasks.get(&number));
        Ok(task.and_then(|(_, recording)| recording.clone()))
    }

    async fn checkpoint(&self, user: &UserId, session: &SessionId, checkpoint: &Checkpoint) -> Result<(), StoreError> {
        bounds::checkpoint(checkpoint)?;
        let mut log = self.log();
        let checkpoints = &mut open(&mut log, user, session)?.checkpoints;
        checkpoints.push(Checkpoint { made_at: kept(checkpoint.made_at), ..checkpoint.clone() });
        if checkpoints.len() as u64 > KEPT_CHECKPOINTS {
            checkpoints.remove(0);
        }
        Ok(())
    }

    async fn last_checkpoint(&self, user: &UserId, session: &SessionId) -> Result<Option<Checkpoint>, StoreError> {
        Ok(find(&self.log(), user, session).and_then(|kept| kept.checkpoints.last().cloned()))
    }

    /// Does nothing: the log ends with the only process that could run anything.
    async fn interrupt_lost(&self) -> Result<Vec<LostTask>, StoreError> {
        Ok(Vec::new())
    }
}
