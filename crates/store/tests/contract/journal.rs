use crate::given::{at, user};
use coracle_store::{
    Checkpoint, KEPT_CHECKPOINTS, KEPT_RECORDINGS, KEPT_SESSIONS, KEPT_TASKS, Kept, MAX_CONTEXT_BYTES, MAX_PAGE,
    MAX_RECORDING_BYTES, NewTask, SessionRecord, Store, StoreError, TaskEnd, TaskRecord, TaskState,
};
use coracle_types::{ExecutionId, Language, SessionId};
use serde_json::{Value, json};
use std::sync::Arc;
use std::time::{Duration, SystemTime};

fn id(number: u128) -> SessionId {
    SessionId::from_random(number)
}

fn task(code: &str) -> NewTask {
    NewTask {
        execution_id: ExecutionId::new("e1").unwrap(),
        description: Some("say ü\u{1f600}".to_owned()),
        language: Language::TypeScript,
        code: code.to_owned(),
        vars: json!({"a": [0.1, "\u{0}"]}).as_object().cloned(),
        started_at: at(1_790_000_000_123),
    }
}

fn end(outcome: Value) -> TaskEnd {
    TaskEnd { ended_at: at(1_790_000_000_456), state: TaskState::Done, outcome, recording: Some(json!(["answer"])) }
}

async fn opened(store: &dyn Store, whose: &str, number: u128, label: Option<&str>) -> SessionRecord {
    store.open_session(&user(whose), &id(number), label, at(number as u64)).await.unwrap()
}

pub(crate) async fn a_label_names_one_session_until_it_has_ended(store: Arc<dyn Store>) {
    let first = opened(&*store, "ann", 1, Some("analysis")).await;
    assert_eq!(
        first,
        SessionRecord {
            id: id(1),
            number: 1,
            label: Some("analysis".to_owned()),
            started_at: at(1),
            last_used: at(1),
            ended_at: None,
            tasks: 0,
        }
    );
    assert_eq!(opened(&*store, "ann", 2, Some("analysis")).await, first, "the label is taken");
    assert_eq!(store.session(&user("ann"), &id(2)).await.unwrap(), None);
    let nameless = [opened(&*store, "ann", 3, None).await, opened(&*store, "ann", 4, None).await];
    assert_eq!(nameless.map(|session| (session.id, session.number)), [(id(3), 2), (id(4), 3)]);

    assert!(store.end_session(&user("ann"), &id(1), at(9)).await.unwrap());
    assert!(!store.end_session(&user("ann"), &id(1), at(10)).await.unwrap());
    let ended = store.session_labelled(&user("ann"), "analysis").await.unwrap().unwrap();
    assert_eq!((ended.id, ended.ended_at), (id(1), Some(at(9))));
    let second = opened(&*store, "ann", 5, Some("analysis")).await;
    assert_eq!((second.id.clone(), second.number), (id(5), 4));
    assert_eq!(store.session_labelled(&user("ann"), "analysis").await.unwrap(), Some(second));
    for bad in ["", "a\0b"] {
        let refused = store.open_session(&user("ann"), &id(6), Some(bad), at(1)).await.unwrap_err();
        assert!(matches!(refused, StoreError::InvalidName { .. }), "{refused}");
    }
}

pub(crate) async fn concurrent_callers_with_a_label_get_the_same_session(store: Arc<dyn Store>) {
    let opening = (0..16).map(|number| {
        let store = Arc::clone(&store);
        tokio::spawn(async move { opened(&*store, "ann", number, Some("same")).await.id })
    });
    let opening: Vec<_> = opening.collect();
    let mut ids = Vec::new();
    for opened in opening {
        ids.push(opened.await.unwrap());
    }
    ids.dedup();
    assert_eq!(ids.len(), 1, "{ids:?}");
    assert_eq!(store.sessions(&user("ann"), 10, None).await.unwrap().len(), 1);
}

pub(crate) async fn a_task_is_there_from_its_beginning_and_ends_once(store: Arc<dyn Store>) {
    opened(&*store, "ann", 1, None).await;
    let (ann, session) = (user("ann"), id(1));
    let number = store.begin_task(&ann, &session, &task("1")).await.unwrap();
    let running = TaskRecord { number, begun: task("1"), state: TaskState::Running, ended_at: None, outcome: None };
    assert_eq!(store.tasks(&ann, &session, 10, None).await.unwrap(), std::slice::from_ref(&running));
    store.finish_task(&ann, &session, number, &end(json!({"result": [1, null]}))).await.unwrap();
    let done = TaskRecord {
        state: TaskState::Done,
        ended_at: Some(at(1_790_000_000_456)),
        outcome: Some(json!({"result": [1, null]})),
        ..running
    };
    assert_eq!(store.tasks(&ann, &session, 10, None).await.unwrap(), std::slice::from_ref(&done));
    assert_eq!(store.recording(&ann, &session, number).await.unwrap(), Some(json!(["answer"])));
    store
        .finish_task(&ann, &session, number, &TaskEnd { state: TaskState::Interrupted, ..end(json!(0)) })
        .await
        .unwrap();
    store.finish_task(&ann, &session, 77, &end(json!(0))).await.unwrap();
    assert_eq!(store.tasks(&ann, &session, 10, None).await.unwrap(), [done], "an ended task stays unchanged");

    for _ in 0..3 {
        store.begin_task(&ann, &session, &NewTask { vars: None, description: None, ..task("") }).await.unwrap();
    }
    let numbers = async |limit, before| -> Vec<u64> {
        store.tasks(&ann, &session, limit, before).await.unwrap().iter().map(|task| task.number).collect()
    };
    assert_eq!(numbers(10, None).await, [4, 3, 2, 1]);
    assert_eq!(numbers(2, Some(4)).await, [3, 2]);
    assert_eq!(numbers(usize::MAX, Some(1)).await, [0; 0]);
    let found = store.session(&ann, &session).await.unwrap().unwrap();
    assert_eq!((found.tasks, found.last_used), (4, at(1_790_000_000_123)));
    assert_eq!(store.interrupt_lost().await.unwrap(), [], "their process is alive");
}

pub(crate) async fn sessions_of_users_are_separate(store: Arc<dyn Store>) {
    opened(&*store, "ann", 1, Some("same")).await;
    opened(&*store, "bob", 2, Some("same")).await;
    let number = store.begin_task(&user("ann"), &id(1), &task("ann's")).await.unwrap();
    let point = Checkpoint { step: "s".to_owned(), context: json!(1), last_task: number, made_at: at(1) };
    store.checkpoint(&user("ann"), &id(1), &point).await.unwrap();

    let bob = user("bob");
    assert_eq!(store.session_labelled(&bob, "same").await.unwrap().unwrap().id, id(2));
    assert_eq!(store.session(&bob, &id(1)).await.unwrap(), None);
    assert_eq!(store.tasks(&bob, &id(1), 10, None).await.unwrap(), []);
    assert_eq!(store.last_checkpoint(&bob, &id(1)).await.unwrap(), None);
    assert!(matches!(store.begin_task(&bob, &id(1), &task("1")).await, Err(StoreError::NoSession { .. })));
    assert!(matches!(store.checkpoint(&bob, &id(1), &point).await, Err(StoreError::NoSession { .. })));
    assert!(!store.end_session(&bob, &id(1), at(1)).await.unwrap());
    store.finish_task(&bob, &id(1), number, &end(json!("bob's"))).await.unwrap();
    assert_eq!(store.recording(&bob, &id(1), number).await.unwrap(), None);
    let listed: Vec<SessionId> =
        store.sessions(&bob, 10, None).await.unwrap().into_iter().map(|session| session.id).collect();
    assert_eq!(listed, [id(2)]);

    let tasks = store.tasks(&user("ann"), &id(1), 10, None).await.unwrap();
    assert_eq!((tasks[0].state, tasks[0].begun.code.as_str()), (TaskState::Running, "ann's"));
    assert_eq!(store.last_checkpoint(&user("ann"), &id(1)).await.unwrap(), Some(point));
}

pub(crate) async fn nothing_runs_in_a_session_that_has_ended(store: Arc<dyn Store>) {
    opened(&*store, "ann", 1, None).await;
    let (ann, session) = (user("ann"), id(1));
    store.begin_task(&ann, &session, &task("1")).await.unwrap();
    store.end_session(&ann, &session, at(1)).await.unwrap();
    let refused = store.begin_task(&ann, &session, &task("2")).await.unwrap_err();
    assert_eq!(refused.code(), "store_no_session");
    assert_eq!(store.tasks(&ann, &session, 10, None).await.unwrap().len(), 1);
    store.finish_task(&ann, &session, 1, &end(json!(1))).await.unwrap();
    assert_eq!(
        store.tasks(&ann, &session, 10, None).await.unwrap()[0].state,
        TaskState::Done,
        "a running task may end"
    );
}

pub(crate) async fn the_newest_checkpoint_counts(store: Arc<dyn Store>) {
    opened(&*store, "ann", 1, None).await;
    let (ann, session) = (user("ann"), id(1));
    let point = |step: u64, context: Value| Checkpoint {
        step: format!("step {step}"),
        context,
        last_task: step,
        made_at: at(1_790_000_000_000 + step),
    };
    assert_eq!(store.last_checkpoint(&ann, &session).await.unwrap(), None);
    for step in 0..KEPT_CHECKPOINTS + 3 {
        store.checkpoint(&ann, &session, &point(step, json!({"n": step}))).await.unwrap();
    }
    let last = point(KEPT_CHECKPOINTS + 2, json!({"n": KEPT_CHECKPOINTS + 2}));
    assert_eq!(store.last_checkpoint(&ann, &session).await.unwrap(), Some(last.clone()));
    let large = point(0, json!("x".repeat(MAX_CONTEXT_BYTES)));
    let refused = store.checkpoint(&ann, &session, &large).await.unwrap_err();
    assert!(matches!(refused, StoreError::TooLarge { what: "context of a checkpoint", .. }), "{refused}");
    let nameless = Checkpoint { step: String::new(), ..last.clone() };
    assert!(matches!(store.checkpoint(&ann, &session, &nameless).await, Err(StoreError::InvalidName { .. })));
    assert_eq!(store.last_checkpoint(&ann, &session).await.unwrap(), Some(last));
}

pub(crate) async fn a_task_that_is_too_large_changes_nothing(store: Arc<dyn Store>) {
    opened(&*store, "ann", 1, None).await;
    let (ann, session) = (user("ann"), id(1));
    let large = task(&"x".repeat(coracle_store::MAX_CODE_BYTES + 1));
    assert!(matches!(store.begin_task(&ann, &session, &large).await, Err(StoreError::TooLarge { what: "code", .. })));
    assert_eq!(store.session(&ann, &session).await.unwrap().unwrap().tasks, 0);
    let number = store.begin_task(&ann, &session, &task("1")).await.unwrap();
    let large = TaskEnd { recording: Some(json!("x".repeat(MAX_RECORDING_BYTES))), ..end(json!(1)) };
    let refused = store.finish_task(&ann, &session, number, &large).await.unwrap_err();
    assert!(matches!(refused, StoreError::TooLarge { what: "recording", .. }), "{refused}");
    assert_eq!(store.tasks(&ann, &session, 1, None).await.unwrap()[0].state, TaskState::Running);
}

pub(crate) async fn only_the_newest_tasks_and_sessions_are_kept(store: Arc<dyn Store>) {
    const MORE: u64 = 16;
    opened(&*store, "bob", 1, None).await;
    let ann = user("ann");
    opened(&*store, "ann", 0, Some("first")).await;
    let short = NewTask { vars: None, ..task("1") };
    for _ in 0..KEPT_TASKS + 2 * MORE {
        let number = store.begin_task(&ann, &id(0), &short).await.unwrap();
        if number % 50 == 0 {
            store.finish_task(&ann, &id(0), number, &end(json!(1))).await.unwrap();
        }
    }
    let mut all: Vec<u64> = Vec::new();
    loop {
        let page = store.tasks(&ann, &id(0), MAX_PAGE, all.last().copied()).await.unwrap();
        if page.is_empty() {
            break;
        }
        all.extend(page.iter().map(|task| task.number));
    }
    let last = KEPT_TASKS + 2 * MORE;
    assert_eq!(all.first(), Some(&last));
    assert!(all.len() as u64 >= KEPT_TASKS && all.len() as u64 <= KEPT_TASKS + MORE, "{}", all.len());
    let first = id(0);
    let recorded = |number: u64| store.recording(&ann, &first, number);
    assert_eq!(recorded(1_000).await.unwrap(), Some(json!(["answer"])));
    assert_eq!(recorded((last - KEPT_RECORDINGS - MORE) / 50 * 50).await.unwrap(), None);

    // The most recently used session stays, however old it is.
    for number in 1..=KEPT_SESSIONS as u128 {
        opened(&*store, "ann", number, None).await;
    }
    assert!(store.session(&ann, &id(0)).await.unwrap().is_some());
    assert_eq!(store.session(&ann, &id(1)).await.unwrap(), None);
    assert!(store.session(&ann, &id(2)).await.unwrap().is_some());
    assert!(store.session(&user("bob"), &id(1)).await.unwrap().is_some());
}

pub(crate) async fn a_session_that_may_be_alive_is_kept_however_many_there_are(store: Arc<dyn Store>) {
    let ann = user("ann");
    let hour = Duration::from_hours(1);
    let at = |hours: u32| SystemTime::UNIX_EPOCH + 500_000 * hour + hours * hour;
    let open = async |number: u128, hours: u32| store.open_session(&ann, &id(number), None, at(hours)).await.unwrap();
    let is_there = async |number: u128| store.session(&ann, &id(number)).await.unwrap().is_some();
    store.keep(Kept { sessions: 2, live_for: hour, ..Kept::default() });
    for number in 0..4 {
        open(number, 0).await;
    }
    // The first session has a running task, in the second a task has just ended, and the third has been ended.
    for number in [0, 1] {
        let begun = NewTask { started_at: at(0), ..task("1") };
        store.begin_task(&ann, &id(number), &begun).await.unwrap();
    }
    store.finish_task(&ann, &id(1), 1, &TaskEnd { ended_at: at(9), ..end(json!(1)) }).await.unwrap();
    assert!(store.end_session(&ann, &id(2), at(0)).await.unwrap());
    for number in 0..4 {
        assert!(is_there(number).await, "{number}: no session has to be deleted yet");
    }
    open(4, 9).await;
    open(5, 9).await;
    assert_eq!((is_there(0).await, is_there(1).await), (true, true), "they are alive");
    assert_eq!((is_there(2).await, is_there(3).await), (false, false), "they are not");
    assert_eq!((is_there(4).await, is_there(5).await), (true, true), "the newest");
    store.finish_task(&ann, &id(0), 1, &TaskEnd { ended_at: at(9), ..end(json!(1)) }).await.unwrap();
    open(6, 11).await;
    let mut left = Vec::new();
    for number in 0..=6 {
        if is_there(number).await {
            left.push(number);
        }
    }
    assert_eq!(left, [5, 6], "the old sessions are no longer in use");
}

pub(crate) async fn a_deleted_session_is_gone_unless_something_runs_in_it(store: Arc<dyn Store>) {
    let session = opened(&*store, "ann", 1, Some("work")).await;
    let other = opened(&*store, "ann", 2, Some("other")).await;
    let number = store.begin_task(&user("ann"), &session.id, &task("1")).await.unwrap();
    assert!(!store.delete_session(&user("ann"), &session.id).await.unwrap(), "a task is running");
    store.finish_task(&user("ann"), &session.id, number, &end(json!({}))).await.unwrap();
    assert!(!store.delete_session(&user("bob"), &session.id).await.unwrap(), "it belongs to another user");
    assert!(store.delete_session(&user("ann"), &session.id).await.unwrap());
    assert!(!store.delete_session(&user("ann"), &session.id).await.unwrap());
    assert_eq!(store.session(&user("ann"), &session.id).await.unwrap(), None);
    assert_eq!(store.tasks(&user("ann"), &session.id, 10, None).await.unwrap(), []);
    assert_eq!(store.session(&user("ann"), &other.id).await.unwrap(), Some(other));
    let again = opened(&*store, "ann", 3, Some("work")).await;
    assert_eq!((again.id, again.tasks), (id(3), 0), "the name is free");
}
