//! The contract of [`CallLog`], as a test suite that every implementation must pass.

use coracle_engine::{CallAnswer, CallLog, EarlierCall, LoggedCall};
use serde_json::json;
use std::sync::Arc;

fn call(number: u64, is_repeatable: bool) -> LoggedCall {
    let (what, digest) = (format!("bank.t{}", number % 3), format!("{:064x}", number % 5));
    LoggedCall { number, what, digest, is_repeatable }
}

fn answers() -> [CallAnswer; 4] {
    [
        CallAnswer::Answer(json!({ "value": ["é\n\0", null, 1.5, -7], "media": [] })),
        CallAnswer::Answer(json!(null)),
        CallAnswer::Error { code: "timeout".to_owned(), message: "it took\ntoo long".to_owned(), retryable: true },
        CallAnswer::NotRecorded { bytes: 1_000_000 },
    ]
}

/// Runs the whole suite. `open` opens the log of an execution, given by its number, as after a restart of the process.
pub async fn holds<F>(open: impl Fn(u64) -> F)
where
    F: Future<Output = Arc<dyn CallLog>>,
{
    keeps_calls_and_answers(&open).await;
    replaces_by_number(&open).await;
    keeps_executions_apart(&open).await;
    takes_calls_at_once(&open).await;
}

async fn keeps_calls_and_answers<F: Future<Output = Arc<dyn CallLog>>>(open: &impl Fn(u64) -> F) {
    let log = open(1).await;
    assert_eq!(log.earlier(), []);
    let mut expected = Vec::new();
    for (number, answer) in (1..).zip(answers()) {
        log.began(&call(number, false)).await.unwrap();
        log.ended(&call(number, false), &answer).await.unwrap();
        expected.push(EarlierCall { call: call(number, false), answer: Some(answer) });
    }
    // One that never began, and one that has not ended.
    log.ended(&call(5, true), &answers()[0]).await.unwrap();
    log.began(&call(6, false)).await.unwrap();
    expected.push(EarlierCall { call: call(5, true), answer: Some(answers()[0].clone()) });
    expected.push(EarlierCall { call: call(6, false), answer: None });
    assert_eq!(log.earlier(), [], "these are calls of this attempt");
    drop(log);
    for _ in 0..2 {
        assert_eq!(open(1).await.earlier(), expected);
    }
}

async fn replaces_by_number<F: Future<Output = Arc<dyn CallLog>>>(open: &impl Fn(u64) -> F) {
    let [answer, other, ..] = answers();
    open(2).await.began(&call(1, false)).await.unwrap();
    let log = open(2).await;
    log.began(&call(1, false)).await.unwrap();
    log.began(&call(2, false)).await.unwrap();
    log.ended(&call(2, true), &other).await.unwrap();
    assert_eq!(log.earlier(), [EarlierCall { call: call(1, false), answer: None }]);
    log.ended(&call(1, false), &answer).await.unwrap();
    let [first, second] = &open(2).await.earlier()[..] else { panic!("two calls") };
    assert_eq!(*first, EarlierCall { call: call(1, false), answer: Some(answer) });
    assert_eq!(*second, EarlierCall { call: call(2, true), answer: Some(other) });
}

async fn keeps_executions_apart<F: Future<Output = Arc<dyn CallLog>>>(open: &impl Fn(u64) -> F) {
    open(3).await.began(&call(1, false)).await.unwrap();
    assert_eq!(open(4).await.earlier(), []);
    assert_eq!(open(3).await.earlier().len(), 1);
}

async fn takes_calls_at_once<F: Future<Output = Arc<dyn CallLog>>>(open: &impl Fn(u64) -> F) {
    const CALLS: u64 = 50;
    let log = open(5).await;
    let tasks = (1..=CALLS).rev().map(|number| {
        let log = Arc::clone(&log);
        tokio::spawn(async move {
            let call = call(number, false);
            log.began(&call).await.unwrap();
            log.ended(&call, &CallAnswer::Answer(number.into())).await.unwrap();
        })
    });
    for task in tasks.collect::<Vec<_>>() {
        task.await.unwrap();
    }
    let expected: Vec<EarlierCall> = (1..=CALLS)
        .map(|number| EarlierCall { call: call(number, false), answer: Some(CallAnswer::Answer(number.into())) })
        .collect();
    assert_eq!(open(5).await.earlier(), expected);
}
