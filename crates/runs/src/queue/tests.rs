use super::{MAX_QUEUED, NewMessage, Queue, QueueChange, QueuedMessage};
use crate::error::RunError;
use crate::service::RunService;
use crate::spec::RunSpec;
use crate::surroundings::{Prepared, RunTools, Surroundings};
use async_trait::async_trait;
use coracle_store::{Conversations as _, MemoryStore, NewItem, NewRun, Progress, RunEnd, RunState, Runs as _};
use coracle_types::{ConversationId, ItemId, RunId, UserId};
use serde_json::json;
use std::sync::Arc;
use std::time::SystemTime;
use tokio_util::sync::CancellationToken;

fn message(id: &str) -> QueuedMessage {
    QueuedMessage {
        id: id.to_owned(),
        text: format!("text of {id}"),
        files: Vec::new(),
        parts: Vec::new(),
        spec: RunSpec::default(),
        added_ms: 1,
        starting: None,
    }
}

fn queue(ids: &[&str]) -> Queue {
    Queue { messages: ids.iter().map(|id| message(id)).collect(), ..Queue::default() }
}

fn ids(queue: &Queue) -> Vec<&str> {
    queue.messages.iter().map(|message| message.id.as_str()).collect()
}

#[test]
fn messages_are_edited_sorted_and_removed() {
    let mut queue = queue(&["a", "b", "c"]);
    queue.apply(&QueueChange::Order(vec!["c".to_owned(), "a".to_owned()])).unwrap();
    assert_eq!(ids(&queue), ["c", "a", "b"]);
    queue.apply(&QueueChange::Edit { id: "a".to_owned(), text: "other".to_owned() }).unwrap();
    assert_eq!(queue.messages[1].text, "other");
    let empty = queue.apply(&QueueChange::Edit { id: "a".to_owned(), text: " ".to_owned() });
    assert!(matches!(empty, Err(RunError::Invalid { .. })), "{empty:?}");
    queue.apply(&QueueChange::Remove { id: "c".to_owned() }).unwrap();
    assert_eq!(ids(&queue), ["a", "b"]);
    queue.add(message("first"), true).unwrap();
    queue.add(message("last"), false).unwrap();
    assert_eq!(ids(&queue), ["first", "a", "b", "last"]);
    queue.apply(&QueueChange::Clear).unwrap();
    assert_eq!(queue.stored().unwrap(), None);
}

#[test]
fn a_message_that_is_being_sent_cannot_be_changed() {
    let mut queue = queue(&["a", "b"]);
    assert_eq!(queue.next().map(|next| next.id.as_str()), Some("a"), "the control");
    queue.messages[0].starting = Some(RunId::from_random(1));
    assert_eq!(queue.next(), None);
    for change in [
        QueueChange::Edit { id: "a".to_owned(), text: "x".to_owned() },
        QueueChange::Remove { id: "a".to_owned() },
        QueueChange::Order(vec!["a".to_owned()]),
    ] {
        let refused = queue.apply(&change);
        assert!(matches!(refused, Err(RunError::Missing { .. })), "{change:?} {refused:?}");
    }
    queue.add(message("c"), true).unwrap();
    queue.apply(&QueueChange::Order(vec!["b".to_owned(), "c".to_owned()])).unwrap();
    assert_eq!(ids(&queue), ["a", "b", "c"]);
    queue.apply(&QueueChange::Clear).unwrap();
    assert_eq!(ids(&queue), ["a"]);
}

#[test]
fn a_held_queue_sends_nothing_and_a_new_one_is_not_held() {
    let mut queue = queue(&["a"]);
    queue.apply(&QueueChange::Hold(true)).unwrap();
    assert_eq!(queue.next(), None);
    queue.apply(&QueueChange::Hold(false)).unwrap();
    assert!(queue.next().is_some(), "the control");
    queue.apply(&QueueChange::Hold(true)).unwrap();
    queue.apply(&QueueChange::Clear).unwrap();
    queue.add(message("b"), false).unwrap();
    assert!(queue.next().is_some());
    for number in 1..MAX_QUEUED {
        queue.add(message(&number.to_string()), false).unwrap();
    }
    assert!(matches!(queue.add(message("more"), false), Err(RunError::Invalid { .. })));
}

#[derive(Debug)]
struct NoModels;

#[async_trait]
impl Surroundings for NoModels {
    async fn prepare(&self, _: &UserId, _: &RunTools, _: &RunSpec) -> Result<Prepared, RunError> {
        Err(RunError::invalid("model", "there is none"))
    }
}

async fn service() -> (RunService, Arc<MemoryStore>, UserId, ConversationId) {
    let store = Arc::new(MemoryStore::new());
    let service = RunService::new(store.clone(), Arc::new(NoModels), CancellationToken::new());
    let ann = UserId::new("ann").unwrap();
    let id = service.add_conversation(&ann, None).await.unwrap().record.id;
    (service, store, ann, id)
}

#[tokio::test]
async fn a_message_that_cannot_be_sent_stays_and_says_why() {
    let (service, _, ann, id) = service().await;
    let spec = RunSpec { is_stored: true, is_background: true, ..RunSpec::default() };
    let new = NewMessage { text: "hello".to_owned(), files: Vec::new(), parts: Vec::new(), spec, is_first: false };
    let queue = service.enqueue(&ann, &id, new).await.unwrap();
    assert_eq!(queue.waiting().map(|message| message.text.as_str()).collect::<Vec<_>>(), ["hello"]);
    assert!(queue.is_held && queue.problem.as_deref() == Some("there is none"), "{queue:?}");
    let bob = UserId::new("bob").unwrap();
    let hold = QueueChange::Hold(true);
    assert!(matches!(service.change_queue(&bob, &id, &hold).await, Err(RunError::Missing { .. })));
    assert!(service.change_queue(&ann, &id, &hold).await.is_ok(), "the control");
}

/// A process was killed while it sent the message `a`.
async fn killed_while_sending(has_run: bool) -> Vec<String> {
    let (service, store, ann, id) = service().await;
    let run = RunId::from_random(7);
    let mut queue = queue(&["a", "b"]);
    queue.messages[0].starting = Some(run.clone());
    // Without a hold, the rest would be sent now.
    queue.is_held = true;
    store.put_queue(&ann, &id, queue.stored().unwrap().as_ref(), 0).await.unwrap();
    if has_run {
        let now = SystemTime::now();
        let new = NewRun {
            id: run.clone(),
            conversation: Some(id.clone()),
            previous: None,
            is_background: true,
            request: json!({"model": "lab/demo"}),
            created_at: now,
            input: vec![NewItem { id: ItemId::new("msg_1").unwrap(), content: json!("a") }],
            begun: None,
            continues: None,
        };
        store.begin_run(&ann, &new).await.unwrap();
        let end = RunEnd { state: RunState::Completed, ended_at: now, outcome: json!({"ended": "done"}) };
        store.advance(&ann, &run, &Progress { end: Some(end), ..Progress::default() }).await.unwrap();
    }
    service.resume_queues().await.unwrap();
    let left = service.queue(&ann, &id).await.unwrap().unwrap();
    assert!(left.is_held);
    left.waiting().map(|message| message.id.clone()).collect()
}

#[tokio::test]
async fn a_message_is_sent_once_although_the_process_is_killed_meanwhile() {
    assert_eq!(killed_while_sending(true).await, ["b"], "the message was sent");
    assert_eq!(killed_while_sending(false).await, ["a", "b"], "it was not");
}
