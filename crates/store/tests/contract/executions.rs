use crate::given::{at, record, user};
use coracle_store::{
    ExecutionRecord, KEPT_EXECUTIONS, Kept, MAX_CODE_BYTES, MAX_OUTCOME_BYTES, MAX_PAGE, Store, StoreError, TaskState,
};
use coracle_types::{ExecutionId, Language, SessionId};
use serde_json::{Value, json};
use std::sync::Arc;

async fn ids(store: &dyn Store, limit: usize, before: Option<&str>) -> Vec<String> {
    let before = before.map(|id| ExecutionId::new(id).unwrap());
    let found = store.executions(&user("ann"), limit, before.as_ref()).await.unwrap();
    found.into_iter().map(|record| record.execution_id.into()).collect()
}

pub(crate) async fn executions_are_returned_as_they_were_recorded(store: Arc<dyn Store>) {
    assert_eq!(store.executions(&user("ann"), 10, None).await.unwrap(), []);
    let mut first = record("ann", "e1", 7);
    first.session = Some(SessionId::new("s1").unwrap());
    first.language = Language::Bash;
    "echo \u{0} ü \u{1f600}".clone_into(&mut first.code);
    first.outcome = json!({"result": [0.1, null, "\u{0}"], "error": {"a": {"b": []}}});
    store.record(&first).await.unwrap();
    assert_eq!(store.executions(&user("ann"), 10, None).await.unwrap(), [first.clone()]);

    first.outcome = json!("ended");
    first.started_at = at(8);
    store.record(&first).await.unwrap();
    assert_eq!(store.executions(&user("ann"), 10, None).await.unwrap(), [first], "the same id is the same execution");
}

pub(crate) async fn executions_are_paged_from_the_newest(store: Arc<dyn Store>) {
    for (id, started) in [("b", 5), ("d", 9), ("a", 5), ("c", 5), ("e", 1)] {
        store.record(&record("ann", id, started)).await.unwrap();
    }
    assert_eq!(ids(&*store, 10, None).await, ["d", "c", "b", "a", "e"]);
    assert_eq!(ids(&*store, 2, None).await, ["d", "c"]);
    assert_eq!(ids(&*store, 2, Some("c")).await, ["b", "a"]);
    assert_eq!(ids(&*store, 2, Some("a")).await, ["e"]);
    assert_eq!(ids(&*store, 2, Some("e")).await, [""; 0]);
    assert_eq!(ids(&*store, 2, Some("unknown")).await, [""; 0]);
    assert_eq!(ids(&*store, 0, None).await, [""; 0]);
    assert_eq!(ids(&*store, usize::MAX, None).await.len(), 5);
}

pub(crate) async fn executions_of_users_are_separate(store: Arc<dyn Store>) {
    let (mut anns, mut bobs) = (record("ann", "same", 1), record("bob", "same", 2));
    store.record(&anns).await.unwrap();
    store.record(&bobs).await.unwrap();
    assert_eq!(store.executions(&user("ann"), 10, None).await.unwrap(), [anns.clone()]);
    assert_eq!(store.executions(&user("bob"), 10, None).await.unwrap(), [bobs.clone()]);
    "changed".clone_into(&mut bobs.code);
    store.record(&bobs).await.unwrap();
    assert_eq!(store.executions(&user("ann"), 10, None).await.unwrap(), [anns.clone()]);

    anns.execution_id = ExecutionId::new("older").unwrap();
    anns.started_at = at(0);
    store.record(&anns).await.unwrap();
    let bobs_only = record("bob", "bobs-only", 3);
    store.record(&bobs_only).await.unwrap();
    assert_eq!(
        ids(&*store, 10, Some("bobs-only")).await,
        [""; 0],
        "another user's execution has no place in this list"
    );
    assert_eq!(ids(&*store, 10, Some("same")).await, ["older"]);
}

pub(crate) async fn an_execution_that_is_too_large_changes_nothing(store: Arc<dyn Store>) {
    let mut large = record("ann", "e", 1);
    large.code = "x".repeat(MAX_CODE_BYTES + 1);
    let refused = store.record(&large).await.unwrap_err();
    assert!(matches!(refused, StoreError::TooLarge { what: "code", .. }), "{refused}");
    large.code.truncate(MAX_CODE_BYTES);
    large.outcome = json!("x".repeat(MAX_OUTCOME_BYTES));
    let refused = store.record(&large).await.unwrap_err();
    assert!(matches!(refused, StoreError::TooLarge { what: "outcome", .. }), "{refused}");
    assert_eq!(store.executions(&user("ann"), 10, None).await.unwrap(), []);

    large.outcome = json!("x".repeat(MAX_OUTCOME_BYTES - 2));
    store.record(&large).await.unwrap();
    let id = &large.execution_id;
    assert_eq!(store.execution(&user("ann"), id).await.unwrap().as_ref(), Some(&large));
    assert_eq!(store.execution(&user("bob"), id).await.unwrap(), None, "it is not bob's");
    assert_eq!(store.executions(&user("ann"), 10, None).await.unwrap(), [large]);
}

pub(crate) async fn only_the_newest_executions_are_kept(store: Arc<dyn Store>) {
    /// The number of additional executions that may be kept for a while.
    const MORE: usize = 32;
    store.record(&record("bob", "bobs", 0)).await.unwrap();
    for number in 0..KEPT_EXECUTIONS + 2 * MORE {
        store.record(&record("ann", &format!("e{number:05}"), number as u64)).await.unwrap();
    }
    let mut all = ids(&*store, MAX_PAGE, None).await;
    while let Some(last) = all.last().cloned() {
        let more = ids(&*store, MAX_PAGE, Some(&last)).await;
        if more.is_empty() {
            break;
        }
        all.extend(more);
    }
    let newest = 0..KEPT_EXECUTIONS + 2 * MORE;
    let expected: Vec<String> = newest.rev().map(|number| format!("e{number:05}")).take(KEPT_EXECUTIONS).collect();
    assert_eq!(all[..KEPT_EXECUTIONS], expected);
    assert!(all.len() <= KEPT_EXECUTIONS + MORE, "{}", all.len());
    assert_eq!(store.executions(&user("bob"), 10, None).await.unwrap(), [record("bob", "bobs", 0)]);
}

pub(crate) async fn an_execution_is_there_while_it_runs_and_its_end_is_final(store: Arc<dyn Store>) {
    let running = ExecutionRecord { state: TaskState::Running, outcome: Value::Null, ..record("ann", "a", 1) };
    let done = record("ann", "a", 1);
    let now = async || store.execution(&user("ann"), &done.execution_id).await.unwrap();
    store.record(&running).await.unwrap();
    assert_eq!(now().await.as_ref(), Some(&running));
    assert_eq!(store.interrupt_lost().await.unwrap(), [], "its process is alive");
    assert_eq!(now().await.as_ref(), Some(&running));
    store.record(&done).await.unwrap();
    // A beginning that was written late.
    store.record(&running).await.unwrap();
    assert_eq!(now().await.as_ref(), Some(&done));
    let interrupted = ExecutionRecord { state: TaskState::Interrupted, ..record("ann", "b", 2) };
    store.record(&interrupted).await.unwrap();
    assert_eq!(store.executions(&user("ann"), 10, None).await.unwrap(), [interrupted, done.clone()]);
}

pub(crate) async fn the_number_of_kept_executions_can_be_set(store: Arc<dyn Store>) {
    const MORE: usize = 32;
    store.keep(Kept { executions: 7, ..Kept::default() });
    for number in 0..4 * MORE {
        store.record(&record("ann", &format!("e{number:05}"), number as u64)).await.unwrap();
    }
    let all = ids(&*store, MAX_PAGE, None).await;
    assert!((7..=7 + MORE).contains(&all.len()), "{}", all.len());
    assert_eq!(all[0], format!("e{:05}", 4 * MORE - 1));
}
