//! The executions of one user, in memory.

use crate::moment::kept;
use crate::{ExecutionRecord, MAX_PAGE, TaskState};
use coracle_types::{ExecutionId, UserId};
use std::collections::{BTreeMap, HashMap};
use std::ops::Bound;
use std::time::SystemTime;

#[derive(Debug, Default)]
pub(super) struct Executions {
    by_time: BTreeMap<(SystemTime, ExecutionId), ExecutionRecord>,
    begun: HashMap<ExecutionId, SystemTime>,
}

impl Executions {
    pub(super) fn put(&mut self, record: &ExecutionRecord, most: usize) {
        if record.state == TaskState::Running && self.begun.contains_key(&record.execution_id) {
            return;
        }
        let record = ExecutionRecord { started_at: kept(record.started_at), ..record.clone() };
        let (id, time) = (record.execution_id.clone(), record.started_at);
        if let Some(earlier) = self.begun.insert(id.clone(), time) {
            self.by_time.remove(&(earlier, id.clone()));
        }
        self.by_time.insert((time, id), record);
        while self.by_time.len() > most {
            if let Some(((_, oldest), _)) = self.by_time.pop_first() {
                self.begun.remove(&oldest);
            }
        }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.by_time.is_empty()
    }

    /// Assigns all executions to another user.
    pub(super) fn rename(&mut self, user: &UserId) {
        for record in self.by_time.values_mut() {
            record.user = user.clone();
        }
    }

    pub(super) fn get(&self, id: &ExecutionId) -> Option<ExecutionRecord> {
        let begun = *self.begun.get(id)?;
        self.by_time.get(&(begun, id.clone())).cloned()
    }

    /// A page of executions, newest first, after `before` if it is given.
    pub(super) fn page(&self, limit: usize, before: Option<&ExecutionId>) -> Vec<ExecutionRecord> {
        let end = match before {
            None => Bound::Unbounded,
            Some(id) => match self.begun.get(id) {
                Some(begun) => Bound::Excluded((*begun, id.clone())),
                None => return Vec::new(),
            },
        };
        let older = self.by_time.range((Bound::Unbounded, end)).rev().take(limit.min(MAX_PAGE));
        older.map(|(_, record)| record.clone()).collect()
    }
}
