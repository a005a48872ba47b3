//! A log of calls in memory, whose process can die or whose disk can fail at any write.

use async_trait::async_trait;
use coracle_engine::{CallAnswer, CallLog, CallLogError, EarlierCall, LoggedCall};
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use tokio_util::sync::CancellationToken;

/// What survives the process.
#[derive(Clone, Debug, Default)]
pub(crate) struct Disk(Arc<Mutex<BTreeMap<u64, EarlierCall>>>);

impl Disk {
    /// All calls, as the next attempt sees them.
    pub(crate) fn calls(&self) -> Vec<EarlierCall> {
        self.0.lock().unwrap().values().cloned().collect()
    }

    /// Changes the answer of a call.
    pub(crate) fn set_answer(&self, number: u64, answer: CallAnswer) {
        self.0.lock().unwrap().get_mut(&number).unwrap().answer = Some(answer);
    }

    /// The log of the next attempt.
    pub(crate) fn log(&self) -> MemoryCallLog {
        MemoryCallLog { earlier: self.calls(), disk: self.clone(), fails: None, dies: None }
    }

    fn write(&self, call: &LoggedCall, answer: Option<&CallAnswer>) {
        let entry = EarlierCall { call: call.clone(), answer: answer.cloned() };
        self.0.lock().unwrap().insert(call.number, entry);
    }
}

/// A write to the log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Write {
    Began,
    Ended,
}

#[derive(Debug)]
pub(crate) struct MemoryCallLog {
    disk: Disk,
    earlier: Vec<EarlierCall>,
    fails: Option<Write>,
    dies: Option<(Write, u64, CancellationToken)>,
}

impl MemoryCallLog {
    /// All writes of this kind fail.
    pub(crate) fn failing(mut self, write: Write) -> Self {
        self.fails = Some(write);
        self
    }

    /// The process dies: a beginning of this call is written and an end is not, the execution is cancelled, and nothing
    /// further is written.
    pub(crate) fn dying(mut self, write: Write, number: u64, cancel: &CancellationToken) -> Self {
        self.dies = Some((write, number, cancel.clone()));
        self
    }

    async fn happens(&self, write: Write, call: &LoggedCall) -> Result<(), CallLogError> {
        if self.fails == Some(write) {
            return Err(CallLogError::Failed { reason: "the disk is full".to_owned() });
        }
        if let Some((at, number, cancel)) = &self.dies
            && (*at, *number) == (write, call.number)
        {
            cancel.cancel();
            if write == Write::Ended {
                std::future::pending::<()>().await;
            }
        }
        Ok(())
    }
}

#[async_trait]
impl CallLog for MemoryCallLog {
    async fn began(&self, call: &LoggedCall) -> Result<(), CallLogError> {
        self.happens(Write::Began, call).await?;
        self.disk.write(call, None);
        Ok(())
    }

    async fn ended(&self, call: &LoggedCall, answer: &CallAnswer) -> Result<(), CallLogError> {
        self.happens(Write::Ended, call).await?;
        self.disk.write(call, Some(answer));
        Ok(())
    }

    fn earlier(&self) -> Vec<EarlierCall> {
        self.earlier.clone()
    }
}

#[tokio::test]
async fn the_log_in_memory_fulfils_the_contract() {
    let disks: Mutex<BTreeMap<u64, Disk>> = Mutex::default();
    let open = |execution: u64| {
        let log: Arc<dyn CallLog> = Arc::new(disks.lock().unwrap().entry(execution).or_default().log());
        std::future::ready(log)
    };
    coracle_testing::call_log_contract::holds(open).await;
}
