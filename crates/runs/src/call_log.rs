//! The calls of code in a run, in the store.

use crate::journal::subject;
use crate::surroundings::RunTools;
use async_trait::async_trait;
use coracle_engine::{CallAnswer, CallLog, CallLogError, EarlierCall, LoggedCall};
use coracle_store::{RunCall, StoreError};
use coracle_types::UserId;
use serde::Serialize;
use serde_json::Value;

/// Records the calls of one execution of a run.
#[derive(Debug)]
pub struct StoreCallLog {
    tools: RunTools,
    user: UserId,
    subject: String,
    earlier: Vec<EarlierCall>,
}

impl StoreCallLog {
    /// The log of the execution that a call of the model has started, with the calls of earlier attempts.
    pub async fn open(tools: &RunTools, user: &UserId, call_id: &str) -> Result<Self, StoreError> {
        let subject = subject(call_id);
        let recorded = tools.store.calls(user, &tools.run, &subject).await?;
        let earlier = recorded.into_iter().map(earlier).collect::<Result<_, _>>()?;
        Ok(Self { tools: tools.clone(), user: user.clone(), subject, earlier })
    }
}

#[async_trait]
impl CallLog for StoreCallLog {
    async fn began(&self, call: &LoggedCall) -> Result<(), CallLogError> {
        let call_json = json(call)?;
        let run = self.tools.owner.read().await;
        Ok(self.tools.store.begin_call(&self.user, &run, &self.subject, call.number, &call_json).await?)
    }

    async fn ended(&self, call: &LoggedCall, answer: &CallAnswer) -> Result<(), CallLogError> {
        let (call_json, answer) = (json(call)?, json(answer)?);
        let run = self.tools.owner.read().await;
        let store = &self.tools.store;
        Ok(store.end_call(&self.user, &run, &self.subject, call.number, &call_json, &answer).await?)
    }

    fn earlier(&self) -> Vec<EarlierCall> {
        self.earlier.clone()
    }
}

fn json(value: &impl Serialize) -> Result<Value, CallLogError> {
    serde_json::to_value(value).map_err(|error| CallLogError::Failed { reason: error.to_string() })
}

fn earlier(recorded: RunCall) -> Result<EarlierCall, StoreError> {
    let damaged =
        |error: serde_json::Error| StoreError::Damaged { what: "call of a run".to_owned(), reason: error.to_string() };
    Ok(EarlierCall {
        call: serde_json::from_value(recorded.call).map_err(damaged)?,
        answer: recorded.answer.map(serde_json::from_value).transpose().map_err(damaged)?,
    })
}
