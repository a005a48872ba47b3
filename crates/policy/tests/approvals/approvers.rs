use async_trait::async_trait;
use coracle_policy::{Answer, Approver, Question};
use std::sync::{Mutex, MutexGuard};
use tokio::sync::{Notify, oneshot};

/// A person with a approver on which questions lie until they are answered or withdrawn.
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

    /// How many questions have ever come.
    pub(crate) fn seen(&self) -> usize {
        *self.seen.lock().unwrap()
    }

    /// The questions that lie there, as soon as there are so many.
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

/// Takes the question back when nobody waits for its answer any more.
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

/// Always says the same.
#[derive(Debug)]
pub(crate) struct Says(pub(crate) Answer);

#[async_trait]
impl Approver for Says {
    async fn ask(&self, _: Question) -> Answer {
        self.0
    }
}

/// Must not be asked.
#[derive(Debug)]
pub(crate) struct Unasked;

#[async_trait]
impl Approver for Unasked {
    async fn ask(&self, question: Question) -> Answer {
        panic!("nobody was to be asked: {question:?}")
    }
}
