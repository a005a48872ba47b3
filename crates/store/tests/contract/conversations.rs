use crate::given::{at, user};
use crate::runs::{conversation, conversation_id, end, run, run_id};
use coracle_store::{
    ConversationRecord, ForkedItem, ItemPage, ItemsOf, MAX_QUEUE_BYTES, MAX_SEARCH_BYTES, NewItem, NewRun, Progress,
    QueueRecord, RunEnd, RunState, Store, StoreError,
};
use coracle_types::{ConversationId, ItemId};
use serde_json::{Map, Value, json};
use std::sync::Arc;

fn item(id: &str, content: Value) -> NewItem {
    NewItem { id: ItemId::new(id).unwrap(), content }
}

async fn found(store: &dyn Store, whose: &str, text: &str) -> Vec<ConversationId> {
    let found = store.search_conversations(&user(whose), text, 10, None).await.unwrap();
    found.into_iter().map(|found| found.id).collect()
}

pub(crate) async fn conversations_are_found_by_title_and_text(store: Arc<dyn Store>) {
    let ann = user("ann");
    for (number, changed) in [(1, 30), (2, 20), (3, 10)] {
        conversation(&*store, "ann", number, changed).await;
    }
    conversation(&*store, "bob", 9, 10).await;
    store.rename_conversation(&ann, &conversation_id(1), Some("Plans for Rome")).await.unwrap();
    let said = json!({"item": {"type": "user", "parts": [{"type": "text", "text": "Is \"Rome\"\nfar? 100% \\ _"}]}});
    store.add_items(&ann, &conversation_id(2), &[item("a", said)], at(20)).await.unwrap();
    let other =
        json!({"item": {"type": "call", "arguments": "Paris", "data": "rome in an image"}, "text": "Überlegen"});
    store.add_items(&ann, &conversation_id(3), &[item("b", other)], at(10)).await.unwrap();

    assert_eq!(found(&*store, "ann", "rOME").await, [conversation_id(1), conversation_id(2)]);
    for text in ["\"rome\"\nfar", "100% \\ _", "0% "] {
        assert_eq!(found(&*store, "ann", text).await, [conversation_id(2)], "{text}");
    }
    assert_eq!(found(&*store, "ann", "Überlegen").await, [conversation_id(3)]);
    // Neither the names of fields nor other data, and nothing of other users.
    for text in ["paris", "type", "arguments", "%", "rome%far"] {
        let expected: &[ConversationId] = if text == "%" { &[conversation_id(2)] } else { &[] };
        assert_eq!(found(&*store, "ann", text).await, expected, "{text}");
    }
    assert_eq!(found(&*store, "bob", "rome").await, []);
    assert_eq!(found(&*store, "bob", "a title").await, [conversation_id(9)]);
    let page = store.search_conversations(&ann, "rome", 1, None).await.unwrap();
    assert_eq!(page[0].id, conversation_id(1));
    let next = store.search_conversations(&ann, "rome", 1, Some(&page[0].id)).await.unwrap();
    assert_eq!(next[0].id, conversation_id(2));
    assert_eq!(store.search_conversations(&ann, "rome", 1, Some(&conversation_id(7))).await.unwrap(), []);
    let long = "x".repeat(MAX_SEARCH_BYTES + 1);
    let refused = store.search_conversations(&ann, &long, 1, None).await.unwrap_err();
    assert!(matches!(refused, StoreError::TooLarge { .. }), "{refused}");
}

pub(crate) async fn conversations_are_renamed_and_forked_for_their_owner_only(store: Arc<dyn Store>) {
    let (ann, bob) = (user("ann"), user("bob"));
    let first = conversation(&*store, "ann", 1, 5).await;
    assert!(!store.rename_conversation(&bob, &first.id, Some("Bob's")).await.unwrap());
    assert!(store.rename_conversation(&ann, &first.id, None).await.unwrap());
    let read = store.conversation(&ann, &first.id).await.unwrap();
    assert_eq!(read, Some(ConversationRecord { title: None, ..first.clone() }));
    let refused = store.rename_conversation(&ann, &first.id, Some(&"x".repeat(2_000))).await.unwrap_err();
    assert!(matches!(refused, StoreError::TooLarge { .. }), "{refused}");

    let fork = ConversationRecord {
        id: conversation_id(2),
        title: Some("Fork".to_owned()),
        metadata: Map::new(),
        created_at: at(7),
        changed_at: at(8),
    };
    let items = [("a", false), ("b", true)].map(|(id, is_output)| ForkedItem { item: item(id, json!(id)), is_output });
    store.fork_conversation(&ann, &fork, &items).await.unwrap();
    assert_eq!(store.conversation(&ann, &fork.id).await.unwrap(), Some(fork.clone()));
    assert_eq!(store.conversation(&bob, &fork.id).await.unwrap(), None);
    let copied = store.items(&ann, ItemsOf::Conversation(&fork.id), ItemPage::ALL).await.unwrap();
    let seen: Vec<_> = copied.iter().map(|item| (item.id.as_str(), item.is_output, item.run.clone())).collect();
    assert_eq!(seen, [("a", false, None), ("b", true, None)]);
    // Nothing is left of a fork that fails.
    let again = ConversationRecord { id: conversation_id(3), ..fork.clone() };
    let items = [("c", false), ("b", true)].map(|(id, is_output)| ForkedItem { item: item(id, json!(id)), is_output });
    for (fork, items) in [(&fork, &items[..1]), (&again, &items[..])] {
        let taken = store.fork_conversation(&ann, fork, items).await.unwrap_err();
        assert_eq!(taken.code(), "store_conflict");
    }
    assert_eq!(store.conversation(&ann, &again.id).await.unwrap(), None);
    assert_eq!(store.item(&ann, &ItemId::new("c").unwrap()).await.unwrap(), None);
    // A fork outlives the conversation that it was made from.
    assert!(store.delete_conversation(&ann, &first.id).await.unwrap());
    assert_eq!(store.items(&ann, ItemsOf::Conversation(&fork.id), ItemPage::ALL).await.unwrap(), copied);
}

pub(crate) async fn the_runs_of_a_conversation_are_paged_from_the_newest(store: Arc<dyn Store>) {
    let ann = user("ann");
    conversation(&*store, "ann", 1, 1).await;
    conversation(&*store, "ann", 2, 1).await;
    for (number, of) in [(1, Some(1)), (2, Some(2)), (3, Some(1)), (4, None), (5, Some(1))] {
        store.begin_run(&ann, &run(number, of, &[])).await.unwrap();
        store.advance(&ann, &run_id(number), &end(RunState::Completed)).await.unwrap();
    }
    let page = async |limit: usize, before: Option<u128>| {
        let before = before.map(run_id);
        let runs = store.conversation_runs(&ann, &conversation_id(1), limit, before.as_ref()).await.unwrap();
        runs.into_iter().map(|run| run.id).collect::<Vec<_>>()
    };
    assert_eq!(page(2, None).await, [run_id(5), run_id(3)]);
    assert_eq!(page(2, Some(3)).await, [run_id(1)]);
    assert_eq!(page(2, Some(2)).await, [], "a run of another conversation");
    assert_eq!(store.conversation_runs(&user("bob"), &conversation_id(1), 9, None).await.unwrap(), []);
}

pub(crate) async fn a_run_that_a_later_one_continues_is_not_old(store: Arc<dyn Store>) {
    let ann = user("ann");
    // 1 <- 2 <- 3, and 4 <- 5; the last of each chain is newer, or still runs.
    for (number, previous, ended) in [
        (1, None, Some(10)),
        (2, Some(1), Some(20)),
        (3, Some(2), Some(900)),
        (4, None, Some(10)),
        (5, Some(4), None),
        (6, None, Some(10)),
        (7, Some(6), Some(11)),
    ] {
        let new = NewRun { previous: previous.map(run_id), ..run(number, None, &[]) };
        store.begin_run(&ann, &new).await.unwrap();
        if let Some(ended) = ended {
            let end = RunEnd { state: RunState::Completed, ended_at: at(ended), outcome: json!({}) };
            store.advance(&ann, &run_id(number), &Progress { end: Some(end), ..Progress::default() }).await.unwrap();
        }
    }
    assert_eq!(store.delete_old_runs(at(100)).await.unwrap(), 2);
    let mut left: Vec<_> = store.runs(&ann, 10, None).await.unwrap().into_iter().map(|run| run.id).collect();
    left.sort();
    assert_eq!(left, [1, 2, 3, 4, 5].map(run_id));
    assert_eq!(store.delete_old_runs(at(1_000)).await.unwrap(), 3);
    let left: Vec<_> = store.runs(&ann, 10, None).await.unwrap().into_iter().map(|run| run.id).collect();
    assert_eq!(left, [run_id(5), run_id(4)], "the newest is still running, and continues the other");
}

pub(crate) async fn a_queue_is_written_by_one_of_several_writers(store: Arc<dyn Store>) {
    let ann = user("ann");
    let of = conversation(&*store, "ann", 1, 1).await.id;
    assert_eq!(store.queue(&ann, &of).await.unwrap(), Some(QueueRecord::default()));
    let (one, two) = (json!(["one"]), json!(["one", "two"]));
    assert_eq!(store.put_queue(&ann, &of, Some(&one), 0).await.unwrap(), 1);
    let late = store.put_queue(&ann, &of, Some(&two), 0).await.unwrap_err();
    assert!(matches!(late, StoreError::Conflict { expected: 0, .. }), "{late}");
    assert_eq!(store.queue(&ann, &of).await.unwrap(), Some(QueueRecord { version: 1, content: Some(one) }));
    assert_eq!(store.put_queue(&ann, &of, Some(&two), 1).await.unwrap(), 2, "the control");
    let large = json!("x".repeat(MAX_QUEUE_BYTES));
    let refused = store.put_queue(&ann, &of, Some(&large), 2).await.unwrap_err();
    assert!(matches!(refused, StoreError::TooLarge { .. }), "{refused}");
    assert_eq!(store.queue(&ann, &of).await.unwrap(), Some(QueueRecord { version: 2, content: Some(two) }));
    // An empty queue keeps its version: a writer that is late still notices.
    assert_eq!(store.put_queue(&ann, &of, None, 2).await.unwrap(), 3);
    assert_eq!(store.queue(&ann, &of).await.unwrap(), Some(QueueRecord { version: 3, content: None }));
    assert_eq!(store.queues().await.unwrap(), []);
}

pub(crate) async fn queues_are_for_their_owner_and_go_with_their_conversation(store: Arc<dyn Store>) {
    let (ann, bob) = (user("ann"), user("bob"));
    let own = conversation(&*store, "ann", 1, 1).await.id;
    let other = conversation(&*store, "bob", 2, 1).await.id;
    let content = json!(["a message"]);
    let missing = store.put_queue(&bob, &own, Some(&content), 0).await.unwrap_err();
    assert!(matches!(missing, StoreError::NoConversation { .. }), "{missing}");
    store.put_queue(&ann, &own, Some(&content), 0).await.unwrap();
    assert_eq!(store.queue(&bob, &own).await.unwrap(), None);
    assert!(store.queue(&ann, &own).await.unwrap().unwrap().content.is_some(), "the control");
    store.put_queue(&bob, &other, Some(&content), 0).await.unwrap();
    let mut all = store.queues().await.unwrap();
    all.sort();
    assert_eq!(all, [(ann.clone(), own.clone()), (bob.clone(), other.clone())]);
    let fork = ConversationRecord {
        id: conversation_id(3),
        title: None,
        metadata: Map::new(),
        created_at: at(7),
        changed_at: at(8),
    };
    store.fork_conversation(&ann, &fork, &[]).await.unwrap();
    assert_eq!(store.queue(&ann, &fork.id).await.unwrap(), Some(QueueRecord::default()));
    assert!(store.delete_conversation(&ann, &own).await.unwrap());
    assert_eq!(store.queue(&ann, &own).await.unwrap(), None);
    assert_eq!(store.queues().await.unwrap(), [(bob.clone(), other.clone())]);
    store.delete_user_data(&bob).await.unwrap();
    assert_eq!(store.queues().await.unwrap(), []);
}
