use async_trait::async_trait;
use coracle_policy::{Answer, Approver, Question};
use std::sync::{Mutex, MutexGuard};
use tokio::sync::{Notify, oneshot};

/// An approver whose questions stay open until a test answers them or the caller withdraws them.
#[derive(Debug, Default)]
pub(crate) struct ManualApprover {
    open: Mutex<Vec<Open>>,
    seen: Mutex<usize>,
    changed: Notify,
}

#[derive(Debug)]
struct Open {
    question: Question,
    answer: oneshot::Sender<Answer>,
}

impl ManualApprover {
    fn open(&self) -> MutexGuard<'_, Vec<Open>> {
        self.open.lock().unwrap()
    }

    /// The number of questions so far.
    pub(crate) fn seen(&self) -> usize {
        *self.seen.lock().unwrap()
    }

    /// Waits until exactly `count` questions are open, and returns them.
    pub(crate) async fn questions(&self, count: usize) -> Vec<Question> {
        loop {
            let changed = self.changed.notified();
            {
                let open = self.open();
                if open.len() == count {
                    return open.iter().map(|open| open.question.clone()).collect();
                }
            }
            changed.await;
        }
    }

    /// Answers this question.
    pub(crate) fn answer(&self, question: &Question, answer: Answer) {
        let mut open = self.open();
        let at = open.iter().position(|open| open.question.id == question.id).unwrap();
        open.swap_remove(at).answer.send(answer).unwrap();
    }
}

/// Removes the question when the caller stops waiting for its answer.
struct Withdrawal<'a> {
    approver: &'a ManualApprover,
    question: Question,
}

impl Drop for Withdrawal<'_> {
    fn drop(&mut self) {
        self.approver.open().retain(|open| open.question.id != self.question.id);
        self.approver.changed.notify_waiters();
    }
}

#[async_trait]
impl Approver for ManualApprover {
    async fn ask(&self, question: Question) -> Answer {
        let (answer, answered) = oneshot::channel();
        self.open().push(Open { question: question.clone(), answer });
        *self.seen.lock().unwrap() += 1;
        self.changed.notify_waiters();
        let _withdrawal = Withdrawal { approver: self, question };
        answered.await.unwrap_or(Answer::Nobody)
    }
}

/// Always gives the same answer.
#[derive(Debug)]
pub(crate) struct Says(pub(crate) Answer);

#[async_trait]
impl Approver for Says {
    async fn ask(&self, _: Question) -> Answer {
        self.0
    }
}

/// An approver that must not be asked.
#[derive(Debug)]
pub(crate) struct Unasked;

#[async_trait]
impl Approver for Unasked {
    async fn ask(&self, question: Question) -> Answer {
        panic!("no question was expected: {question:?}")
    }
}
