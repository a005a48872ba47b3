use super::{AnswerError, Answered, OpenQuestion, OpenQuestions, PersonsAnswer};
use coracle_accounts::People;
use coracle_policy::{Approvals, Call, Circumstances, Grant, Policy, Refusal, Spellings, ToolNames};
use coracle_store::{ApprovalOutcome, MemoryStore, Store};
use coracle_types::{ExecutionId, Schema, ServerName, Tool, ToolHints, UserId};
use serde_json::json;
use std::sync::Arc;
use std::time::Duration;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

struct Place {
    store: Arc<dyn Store>,
    approvals: Arc<Approvals>,
    questions: OpenQuestions,
    stop: CancellationToken,
}

impl Place {
    fn new(patience: Duration) -> Self {
        let store: Arc<dyn Store> = Arc::new(MemoryStore::new());
        let stop = CancellationToken::new();
        Self {
            approvals: Arc::new(Approvals::new(Policy::default(), Arc::clone(&store))),
            questions: OpenQuestions::new(People::new(Arc::clone(&store)), patience, stop.clone()),
            store,
            stop,
        }
    }

    /// Begins a call that needs approval.
    fn call(&self, who: &str, origin: Option<&str>) -> JoinHandle<Result<Grant, Refusal>> {
        let user = user(who);
        let approver = self.questions.approver(&user, origin.map(str::to_owned));
        let approvals = Arc::clone(&self.approvals);
        tokio::spawn(async move {
            let tool = Tool {
                server: ServerName::new("git").unwrap(),
                name: "reset".to_owned(),
                title: None,
                description: String::new(),
                input_schema: Schema::default(),
                output_schema: None,
                category: None,
                hints: ToolHints { destructive: Some(true), ..ToolHints::default() },
            };
            let names =
                ToolNames { server: Arc::new(Spellings::of_wire("git")), tool: Arc::new(Spellings::of_wire("reset")) };
            let execution = ExecutionId::new("exec-1").unwrap();
            let call = Call {
                user: &user,
                session: None,
                execution: &execution,
                tool: &tool,
                names: &names,
                arguments: &json!({ "hard": true }),
                cargo: coracle_policy::Cargo::NONE,
                circumstances: Circumstances::default(),
                doubt: None,
            };
            approvals.decide(call, &*approver).await
        })
    }

    /// Waits until the user has this number of open questions.
    async fn open(&self, who: &str, count: usize) -> Vec<OpenQuestion> {
        let mut changes = self.questions.changes(&user(who));
        loop {
            let open = self.questions.open(&user(who));
            if open.len() == count {
                return open;
            }
            changes.changed().await.unwrap();
        }
    }
}

fn user(name: &str) -> UserId {
    UserId::new(name).unwrap()
}

#[tokio::test]
async fn a_question_tells_what_its_call_is_part_of() {
    let place = Place::new(Duration::from_hours(1));
    let (run, alone) = (place.call("ann", Some("run-7")), place.call("bob", None));
    let open = place.open("ann", 1).await;
    assert_eq!(open[0].question.origin.as_deref(), Some("run-7"));
    assert_eq!(place.open("bob", 1).await[0].question.origin, None);
    let id = open[0].question.id.as_str();
    let answered = place.questions.answer(&user("ann"), id, PersonsAnswer::Session, "session").await.unwrap();
    let Answered::Ended(answer) = answered else { panic!("{answered:?}") };
    assert_eq!((answer.origin.as_deref(), answer.outcome), (Some("run-7"), ApprovalOutcome::Session));
    assert_eq!(run.await.unwrap(), Ok(Grant::Session));
    assert_eq!(
        place.store.approvals(&user("ann"), 9).await.unwrap(),
        [place.store.approval(&user("ann"), id).await.unwrap().unwrap()]
    );
    alone.abort();
    assert!(alone.await.unwrap_err().is_cancelled());
    assert!(place.open("bob", 0).await.is_empty());
    assert_eq!(place.store.approvals(&user("bob"), 9).await.unwrap(), [], "a withdrawn question has no answer");
}

#[tokio::test(start_paused = true)]
async fn each_question_has_its_own_time() {
    let place = Place::new(Duration::from_mins(10));
    let first = place.call("ann", None);
    let open = place.open("ann", 1).await;
    tokio::time::sleep(Duration::from_mins(6)).await;
    let second = place.call("ann", None);
    place.open("ann", 2).await;
    tokio::time::sleep(Duration::from_mins(5)).await;
    assert_eq!(first.await.unwrap().unwrap_err().code(), "denied_unanswered");
    let left = place.open("ann", 1).await;
    let late = place.questions.answer(&user("ann"), open[0].question.id.as_str(), PersonsAnswer::Once, "session").await;
    assert!(matches!(late, Err(AnswerError::NotOpen)), "{late:?}");
    let id = left[0].question.id.as_str();
    place.questions.answer(&user("ann"), id, PersonsAnswer::Once, "session").await.unwrap();
    assert_eq!(second.await.unwrap(), Ok(Grant::Once));
    let outcomes: Vec<_> =
        place.store.approvals(&user("ann"), 9).await.unwrap().into_iter().map(|record| record.outcome).collect();
    assert!(outcomes.contains(&ApprovalOutcome::Once) && outcomes.contains(&ApprovalOutcome::TimedOut), "{outcomes:?}");
}

#[tokio::test]
async fn a_server_that_stops_withdraws_all_questions() {
    let place = Place::new(Duration::from_hours(1));
    let calls = ["ann", "ann", "bob"].map(|who| place.call(who, None));
    place.open("ann", 2).await;
    place.open("bob", 1).await;
    place.stop.cancel();
    for call in calls {
        assert_eq!(call.await.unwrap().unwrap_err().code(), "denied_unasked");
    }
    assert!(place.questions.open(&user("ann")).is_empty() && place.questions.open(&user("bob")).is_empty());
    assert_eq!(place.call("ann", None).await.unwrap().unwrap_err().code(), "denied_unasked", "and asks no more");
}

#[tokio::test]
async fn a_person_who_disconnects_has_answered() {
    let place = Place::new(Duration::from_hours(1));
    let call = place.call("ann", None);
    let open = place.open("ann", 1).await;
    {
        let ann = user("ann");
        let mut answering =
            Box::pin(place.questions.answer(&ann, open[0].question.id.as_str(), PersonsAnswer::Once, "session"));
        // Dropped after it has begun.
        assert!(futures::future::poll_immediate(answering.as_mut()).await.is_none());
    }
    assert_eq!(call.await.unwrap(), Ok(Grant::Once));
}
