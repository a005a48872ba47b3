use crate::given::{at, user};
use coracle_store::{
    ConversationRecord, ItemPage, ItemsOf, MAX_ITEM_BYTES, NewItem, NewRun, NewStep, Progress, RunEnd, RunRecord,
    RunState, StepEnd, StepKind, Store, StoreError,
};
use coracle_types::{ConversationId, ItemId, RunId};
use serde_json::{Map, Value, json};
use std::sync::Arc;

pub(crate) fn run_id(number: u128) -> RunId {
    RunId::from_random(number)
}

pub(crate) fn conversation_id(number: u128) -> ConversationId {
    ConversationId::from_random(number)
}

fn item(id: &str) -> NewItem {
    NewItem { id: ItemId::new(id).unwrap(), content: json!({"text": format!("ü\u{0} {id}")}) }
}

pub(crate) fn run(number: u128, conversation: Option<u128>, input: &[&str]) -> NewRun {
    NewRun {
        id: run_id(number),
        conversation: conversation.map(conversation_id),
        previous: None,
        is_background: true,
        request: json!({"model": "m"}),
        created_at: at(1_000 + number as u64),
        input: input.iter().map(|id| item(id)).collect(),
        begun: Some(step(StepKind::Model, "1")),
        continues: None,
    }
}

fn step(kind: StepKind, subject: &str) -> NewStep {
    NewStep { kind, subject: subject.to_owned(), begun_at: at(5) }
}

fn ended(kind: StepKind, subject: &str, outcome: Value) -> StepEnd {
    StepEnd { kind, subject: subject.to_owned(), ended_at: at(6), outcome }
}

pub(crate) fn end(state: RunState) -> Progress {
    let end = RunEnd { state, ended_at: at(9_000), outcome: json!({"why": "done"}) };
    Progress { end: Some(end), ..Progress::default() }
}

pub(crate) async fn conversation(store: &dyn Store, whose: &str, number: u128, changed: u64) -> ConversationRecord {
    let record = ConversationRecord {
        id: conversation_id(number),
        title: Some("A title".to_owned()),
        metadata: Map::from_iter([("a".to_owned(), json!("b"))]),
        created_at: at(1),
        changed_at: at(changed),
    };
    store.create_conversation(&user(whose), &record, &[]).await.unwrap();
    record
}

async fn ids(store: &dyn Store, whose: &str, of: ItemsOf<'_>, page: ItemPage<'_>) -> Vec<String> {
    let items = store.items(&user(whose), of, page).await.unwrap();
    items.into_iter().map(|item| item.id.to_string()).collect()
}

/// A conversation with a run that has ended.
pub(crate) async fn run_in_conversation(store: &dyn Store, whose: &str) {
    conversation(store, whose, 1, 1).await;
    store.begin_run(&user(whose), &run(1, Some(1), &["in"])).await.unwrap();
    store.begin_call(&user(whose), &run_id(1), "a", 1, &json!({})).await.unwrap();
    store
        .advance(&user(whose), &run_id(1), &Progress { items: vec![item("out")], ..end(RunState::Completed) })
        .await
        .unwrap();
}

/// The items of the conversation.
pub(crate) async fn items_of(store: &dyn Store, whose: &str) -> Vec<String> {
    ids(store, whose, ItemsOf::Conversation(&conversation_id(1)), ItemPage::ALL).await
}

pub(crate) async fn a_run_is_there_from_its_beginning_and_ends_once(store: Arc<dyn Store>) {
    let ann = user("ann");
    store.begin_run(&ann, &run(1, None, &["in1", "in2"])).await.unwrap();
    let begun = RunRecord {
        id: run_id(1),
        conversation: None,
        previous: None,
        is_background: true,
        request: json!({"model": "m"}),
        created_at: at(1_001),
        state: RunState::Running,
        ended_at: None,
        outcome: None,
        attempts: 1,
    };
    assert_eq!(store.run(&ann, &run_id(1)).await.unwrap(), Some(begun.clone()));
    let taken = store.begin_run(&ann, &run(1, None, &[])).await.unwrap_err();
    assert_eq!(taken.code(), "store_conflict", "{taken}");
    let progress = Progress {
        ended: vec![ended(StepKind::Model, "1", json!({"tokens": 3}))],
        items: vec![item("out1")],
        begun: vec![step(StepKind::Execution, "a"), step(StepKind::Execution, "b")],
        end: None,
    };
    store.advance(&ann, &run_id(1), &progress).await.unwrap();
    let progress = Progress { ended: vec![ended(StepKind::Execution, "b", json!(1))], ..Progress::default() };
    store.advance(&ann, &run_id(1), &progress).await.unwrap();
    let steps = store.steps(&ann, &run_id(1)).await.unwrap();
    let seen: Vec<_> =
        steps.iter().map(|step| (step.number, step.begun.subject.as_str(), step.outcome.clone())).collect();
    assert_eq!(seen, [(1, "1", Some(json!({"tokens": 3}))), (2, "a", None), (3, "b", Some(json!(1)))]);
    assert!(!store.delete_run(&ann, &run_id(1)).await.unwrap(), "it is running");

    store.advance(&ann, &run_id(1), &end(RunState::Completed)).await.unwrap();
    let over = store.run(&ann, &run_id(1)).await.unwrap().unwrap();
    let expected = RunRecord {
        state: RunState::Completed,
        ended_at: Some(at(9_000)),
        outcome: Some(json!({"why": "done"})),
        ..begun
    };
    assert_eq!(over, expected);
    let late = store.advance(&ann, &run_id(1), &end(RunState::Failed)).await.unwrap_err();
    assert_eq!(late.code(), "store_no_run", "{late}");
    assert_eq!(store.run(&ann, &run_id(1)).await.unwrap(), Some(expected));
    let items = store.items(&ann, ItemsOf::Run(&run_id(1)), ItemPage::ALL).await.unwrap();
    let seen: Vec<_> = items.iter().map(|item| (item.id.as_str(), item.is_output)).collect();
    assert_eq!(seen, [("in1", false), ("in2", false), ("out1", true)]);
    assert_eq!(items[2].content, item("out1").content);
    assert!(store.delete_run(&ann, &run_id(1)).await.unwrap());
    assert_eq!(store.item(&ann, &ItemId::new("in1").unwrap()).await.unwrap(), None);
}

pub(crate) async fn a_conversation_has_one_run_at_a_time(store: Arc<dyn Store>) {
    let ann = user("ann");
    conversation(&*store, "ann", 1, 1).await;
    store.add_items(&ann, &conversation_id(1), &[item("added")], at(50)).await.unwrap();
    store.begin_run(&ann, &run(1, Some(1), &["in"])).await.unwrap();
    for refused in [
        store.begin_run(&ann, &run(2, Some(1), &[])).await,
        store.add_items(&ann, &conversation_id(1), &[item("more")], at(60)).await,
    ] {
        assert_eq!(refused.unwrap_err().code(), "store_busy");
    }
    assert!(!store.delete_conversation(&ann, &conversation_id(1)).await.unwrap());
    assert!(!store.delete_item(&ann, &conversation_id(1), &ItemId::new("in").unwrap()).await.unwrap());
    store.advance(&ann, &run_id(1), &end(RunState::Completed)).await.unwrap();
    store.begin_run(&ann, &run(2, Some(1), &["again"])).await.unwrap();
    store.advance(&ann, &run_id(2), &end(RunState::Cancelled)).await.unwrap();
    assert_eq!(store.conversation(&ann, &conversation_id(1)).await.unwrap().unwrap().changed_at, at(9_000));

    let of = conversation_id(1);
    let of = ItemsOf::Conversation(&of);
    assert_eq!(ids(&*store, "ann", of, ItemPage::ALL).await, ["added", "in", "again"]);
    let first = ItemId::new("added").unwrap();
    let page = ItemPage { after: Some(&first), limit: Some(1), newest_first: false };
    assert_eq!(ids(&*store, "ann", of, page).await, ["in"]);
    let page = ItemPage { after: None, limit: Some(2), newest_first: true };
    assert_eq!(ids(&*store, "ann", of, page).await, ["again", "in"]);
    let unknown = ItemId::new("unknown").unwrap();
    let page = ItemPage { after: Some(&unknown), ..ItemPage::ALL };
    assert_eq!(ids(&*store, "ann", of, page).await, [""; 0]);
    assert!(store.delete_item(&ann, &conversation_id(1), &ItemId::new("in").unwrap()).await.unwrap());
    assert_eq!(ids(&*store, "ann", of, ItemPage::ALL).await, ["added", "again"]);

    assert!(store.delete_conversation(&ann, &conversation_id(1)).await.unwrap());
    assert_eq!(store.run(&ann, &run_id(1)).await.unwrap(), None, "runs go with their conversation");
    assert_eq!(store.item(&ann, &first).await.unwrap(), None);
    let gone = store.begin_run(&ann, &run(3, Some(1), &[])).await.unwrap_err();
    assert_eq!(gone.code(), "store_no_conversation");
}

pub(crate) async fn conversations_are_paged_from_the_last_changed(store: Arc<dyn Store>) {
    for (number, changed) in [(1, 30), (2, 10), (3, 20)] {
        conversation(&*store, "ann", number, changed).await;
    }
    let page = async |limit: usize, before: Option<&ConversationId>| {
        let found = store.conversations(&user("ann"), limit, before).await.unwrap();
        found.into_iter().map(|found| found.id).collect::<Vec<_>>()
    };
    assert_eq!(page(2, None).await, [conversation_id(1), conversation_id(3)]);
    assert_eq!(page(2, Some(&conversation_id(3))).await, [conversation_id(2)]);
    assert_eq!(page(2, Some(&conversation_id(9))).await, []);
    let metadata = Map::from_iter([("c".to_owned(), json!(1))]);
    assert!(store.update_conversation(&user("ann"), &conversation_id(2), &metadata).await.unwrap());
    let changed = store.conversation(&user("ann"), &conversation_id(2)).await.unwrap().unwrap();
    assert_eq!((changed.title.as_deref(), changed.metadata, changed.changed_at), (Some("A title"), metadata, at(10)));
    for number in 1..=3 {
        store.begin_run(&user("ann"), &run(number, None, &[])).await.unwrap();
    }
    let runs = store.runs(&user("ann"), 2, None).await.unwrap();
    assert_eq!(runs.iter().map(|run| run.id.clone()).collect::<Vec<_>>(), [run_id(3), run_id(2)]);
    let runs = store.runs(&user("ann"), 2, Some(&run_id(2))).await.unwrap();
    assert_eq!(runs.iter().map(|run| run.id.clone()).collect::<Vec<_>>(), [run_id(1)]);
}

pub(crate) async fn calls_of_code_are_recorded_until_the_run_ends(store: Arc<dyn Store>) {
    let ann = user("ann");
    store.begin_run(&ann, &run(1, None, &[])).await.unwrap();
    store.begin_call(&ann, &run_id(1), "a", 1, &json!({"tool": "x"})).await.unwrap();
    store.begin_call(&ann, &run_id(1), "a", 2, &json!({"tool": "y"})).await.unwrap();
    store.end_call(&ann, &run_id(1), "a", 1, &json!({"tool": "x"}), &json!({"answer": null})).await.unwrap();
    store.end_call(&ann, &run_id(1), "b", 1, &json!({"tool": "z"}), &json!(2)).await.unwrap();
    let calls = store.calls(&ann, &run_id(1), "a").await.unwrap();
    let seen: Vec<_> = calls.into_iter().map(|call| (call.number, call.call, call.answer)).collect();
    assert_eq!(seen, [(1, json!({"tool": "x"}), Some(json!({"answer": null}))), (2, json!({"tool": "y"}), None)]);
    assert_eq!(store.calls(&user("bob"), &run_id(1), "a").await.unwrap(), []);
    store.advance(&ann, &run_id(1), &end(RunState::Completed)).await.unwrap();
    assert_eq!(store.calls(&ann, &run_id(1), "a").await.unwrap(), []);
    let late = store.begin_call(&ann, &run_id(1), "a", 3, &json!({})).await.unwrap_err();
    assert_eq!(late.code(), "store_no_run");
}

pub(crate) async fn runs_of_users_are_separate(store: Arc<dyn Store>) {
    let (ann, bob) = (user("ann"), user("bob"));
    conversation(&*store, "ann", 1, 1).await;
    store.begin_run(&ann, &run(1, Some(1), &["in"])).await.unwrap();
    let (id, of) = (ItemId::new("in").unwrap(), conversation_id(1));
    assert_eq!(store.run(&bob, &run_id(1)).await.unwrap(), None);
    assert_eq!(store.conversation(&bob, &of).await.unwrap(), None);
    assert_eq!(store.item(&bob, &id).await.unwrap(), None);
    assert_eq!(ids(&*store, "bob", ItemsOf::Run(&run_id(1)), ItemPage::ALL).await, [""; 0]);
    assert_eq!(ids(&*store, "bob", ItemsOf::Conversation(&of), ItemPage::ALL).await, [""; 0]);
    let error = store.advance(&bob, &run_id(1), &end(RunState::Failed)).await.unwrap_err();
    assert_eq!(error.code(), "store_no_run");
    let error = store.add_items(&bob, &of, &[item("x")], at(1)).await.unwrap_err();
    assert_eq!(error.code(), "store_no_conversation");
    assert!(!store.update_conversation(&bob, &of, &Map::new()).await.unwrap());
    store.advance(&ann, &run_id(1), &end(RunState::Completed)).await.unwrap();
    assert!(!store.delete_run(&bob, &run_id(1)).await.unwrap());
    assert!(!store.delete_conversation(&bob, &of).await.unwrap());
    assert!(!store.delete_item(&bob, &of, &id).await.unwrap());
    // Both may have items and runs with the same IDs.
    conversation(&*store, "bob", 1, 1).await;
    store.begin_run(&bob, &run(1, Some(1), &["in"])).await.unwrap();
    assert!(store.delete_conversation(&ann, &of).await.unwrap());
    assert_eq!(ids(&*store, "bob", ItemsOf::Conversation(&of), ItemPage::ALL).await, ["in"]);
    assert_eq!(store.take_lost_runs().await.unwrap(), [], "this process is alive");
}

pub(crate) async fn an_item_that_is_too_large_changes_nothing(store: Arc<dyn Store>) {
    let ann = user("ann");
    store.begin_run(&ann, &run(1, None, &[])).await.unwrap();
    let large = NewItem { id: ItemId::new("large").unwrap(), content: json!("x".repeat(MAX_ITEM_BYTES)) };
    let progress = Progress { items: vec![item("small"), large], ..Progress::default() };
    let error = store.advance(&ann, &run_id(1), &progress).await.unwrap_err();
    assert!(matches!(error, StoreError::TooLarge { .. }), "{error}");
    // Neither does an ID that is taken.
    store.advance(&ann, &run_id(1), &Progress { items: vec![item("a")], ..Progress::default() }).await.unwrap();
    let progress = Progress { items: vec![item("b"), item("a")], ..Progress::default() };
    let error = store.advance(&ann, &run_id(1), &progress).await.unwrap_err();
    assert_eq!(error.code(), "store_conflict");
    assert_eq!(ids(&*store, "ann", ItemsOf::Run(&run_id(1)), ItemPage::ALL).await, ["a"]);
}

pub(crate) async fn old_conversations_are_deleted_unless_a_run_is_under_way(store: Arc<dyn Store>) {
    let ann = user("ann");
    for (number, changed) in [(1, 10), (2, 20), (3, 10)] {
        conversation(&*store, "ann", number, changed).await;
    }
    let mut busy = run(3, Some(3), &[]);
    busy.created_at = at(10);
    store.begin_run(&ann, &busy).await.unwrap();
    store.begin_run(&ann, &run(4, None, &["alone"])).await.unwrap();
    store.advance(&ann, &run_id(4), &end(RunState::Completed)).await.unwrap();
    assert_eq!(store.delete_old_runs(at(15)).await.unwrap(), 1);
    let left = store.conversations(&ann, 10, None).await.unwrap();
    assert_eq!(left.into_iter().map(|found| found.id).collect::<Vec<_>>(), [conversation_id(2), conversation_id(3)]);
    assert_eq!(store.delete_old_runs(at(9_001)).await.unwrap(), 2);
    assert_eq!(store.run(&ann, &run_id(4)).await.unwrap(), None);
    assert!(store.run(&ann, &run_id(3)).await.unwrap().is_some());
}

pub(crate) async fn a_parked_call_is_taken_over_by_one_run(store: Arc<dyn Store>) {
    let (store, ann) = (&*store, user("ann"));
    let continuing = |number| NewRun { continues: Some(run_id(1)), ..run(number, None, &[]) };
    store.begin_run(&ann, &run(1, None, &["in"])).await.unwrap();
    for subject in ["kept", "over"] {
        store.end_call(&ann, &run_id(1), subject, 1, &json!({"c": 1}), &json!({"a": 1})).await.unwrap();
    }
    // Nothing is parked yet.
    let error = store.begin_run(&ann, &continuing(2)).await.unwrap_err();
    assert!(matches!(error, StoreError::Conflict { .. }), "{error:?}");
    assert_eq!(store.run(&ann, &run_id(2)).await.unwrap(), None);
    let parked = Progress { begun: vec![step(StepKind::Parked, "kept")], ..end(RunState::Completed) };
    store.advance(&ann, &run_id(1), &parked).await.unwrap();
    // Only the parked step still records calls.
    store.begin_call(&ann, &run_id(1), "kept", 2, &json!({"c": 2})).await.unwrap();
    let error = store.begin_call(&ann, &run_id(1), "over", 2, &json!({})).await.unwrap_err();
    assert!(matches!(error, StoreError::NoRun { .. }), "{error:?}");
    assert_eq!(store.calls(&ann, &run_id(1), "over").await.unwrap(), []);
    // Other users have nothing to take over.
    let error = store.begin_run(&user("bob"), &continuing(3)).await.unwrap_err();
    assert!(matches!(error, StoreError::Conflict { .. }), "{error:?}");
    store.begin_run(&ann, &continuing(4)).await.unwrap();
    assert_eq!(store.calls(&ann, &run_id(1), "kept").await.unwrap(), []);
    assert_eq!(store.calls(&ann, &run_id(4), "kept").await.unwrap().len(), 2);
    let steps = store.steps(&ann, &run_id(1)).await.unwrap();
    assert_eq!(steps.last().unwrap().outcome, Some(json!({"continued_by": run_id(4).as_str()})));
    let error = store.begin_run(&ann, &continuing(5)).await.unwrap_err();
    assert!(matches!(error, StoreError::Conflict { .. }), "{error:?}");
    assert!(store.begin_call(&ann, &run_id(1), "kept", 3, &json!({})).await.is_err());
    store.begin_call(&ann, &run_id(4), "kept", 3, &json!({})).await.unwrap();
}
