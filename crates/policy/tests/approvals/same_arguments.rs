//! Answers that apply to calls with the same arguments only.

use crate::approvers::{ManualApprover, Says, Unasked};
use crate::{Caller, approvals, destructive, with_store};
use coracle_policy::{Answer, Doubt, Grant, NobodyToAsk};
use coracle_store::{Home, KeySource, SqliteStore, Store};
use coracle_types::{Decision, SessionId};
use serde_json::{Value, json};
use std::sync::Arc;

/// Arguments that differ from `{"to": "kim", "amount": 5, "tags": ["a", "b"]}`.
fn others() -> Vec<Value> {
    vec![
        json!({}),
        json!({"to": "kim", "amount": 5}),
        json!({"to": "kim", "amount": 6, "tags": ["a", "b"]}),
        json!({"to": "kim", "amount": 5.0, "tags": ["a", "b"]}),
        json!({"to": "kim", "amount": "5", "tags": ["a", "b"]}),
        json!({"to": "Kim", "amount": 5, "tags": ["a", "b"]}),
        json!({"to": "kim", "amount": 5, "tags": ["b", "a"]}),
        json!({"to": "kim", "amount": 5, "tags": ["ab"]}),
        json!({"to": "kim", "amount": 5, "tags": ["a", "b"], "cc": null}),
    ]
}

fn same() -> Value {
    json!({"to": "kim", "amount": 5, "tags": ["a", "b"]})
}

/// The same arguments, in another order.
fn reordered() -> Value {
    serde_json::from_str(r#"{"tags": ["a", "b"], "amount": 5, "to": "kim"}"#).unwrap()
}

#[tokio::test]
async fn a_yes_to_the_same_arguments_is_for_no_others() {
    for (answer, grant) in
        [(Answer::SessionSameArguments, Grant::Session), (Answer::AlwaysSameArguments, Grant::Always)]
    {
        let (approvals, _) = approvals(&[]);
        let ann = Caller::new(&approvals, "ann", Some("s1"), "e1");
        let tool = destructive("mail", "send");
        assert_eq!(ann.calls_with(&tool, &same(), &Says(answer)).await, Ok(grant.clone()));
        for again in [same(), reordered()] {
            assert_eq!(ann.calls_with(&tool, &again, &Unasked).await, Ok(grant.clone()));
        }
        for other in others() {
            let refusal = ann.calls_with(&tool, &other, &NobodyToAsk).await.unwrap_err();
            assert_eq!(refusal.code(), "denied_unasked", "{other}");
        }
        let mut changed = tool.clone();
        changed.description.push('.');
        for other in [changed, destructive("mail", "Send"), destructive("mail2", "send")] {
            assert_eq!(ann.calls_with(&other, &same(), &NobodyToAsk).await.unwrap_err().code(), "denied_unasked");
        }
        let bob = Caller::new(&approvals, "bob", Some("s1"), "e1");
        assert_eq!(bob.calls_with(&tool, &same(), &NobodyToAsk).await.unwrap_err().code(), "denied_unasked");
        // Several arguments of one tool, and then all.
        assert_eq!(ann.calls_with(&tool, &json!({}), &Says(answer)).await, Ok(grant.clone()));
        for known in [same(), json!({})] {
            assert_eq!(ann.calls_with(&tool, &known, &Unasked).await, Ok(grant.clone()));
        }
        ann.calls_with(&tool, &others()[1], &Says(Answer::Session)).await.unwrap();
        ann.calls_with(&tool, &others()[2], &Unasked).await.unwrap();
    }
}

#[tokio::test]
async fn a_session_ends_with_its_answers_about_arguments() {
    let (approvals, store) = approvals(&[]);
    let ann = Caller::new(&approvals, "ann", Some("s1"), "e1");
    let tool = destructive("mail", "send");
    ann.calls_with(&tool, &same(), &Says(Answer::SessionSameArguments)).await.unwrap();
    assert_eq!(store.decisions(&ann.user).await.unwrap(), [], "the grant is not stored");
    let other = Caller::new(&approvals, "ann", Some("s2"), "e1");
    assert_eq!(other.calls_with(&tool, &same(), &NobodyToAsk).await.unwrap_err().code(), "denied_unasked");
    assert_eq!(ann.calls_with(&tool, &same(), &Unasked).await, Ok(Grant::Session));
    approvals.end_session(&ann.user, &SessionId::new("s1").unwrap());
    assert_eq!(ann.calls_with(&tool, &same(), &NobodyToAsk).await.unwrap_err().code(), "denied_unasked");
}

#[tokio::test]
async fn stored_arguments_survive_a_restart_and_tell_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let tool = destructive("mail", "send");
    let mut stored = Vec::new();
    for round in 0..3 {
        let store = SqliteStore::open(&Home::new(folder.path()), KeySource::File).await.unwrap();
        let store: Arc<dyn Store> = Arc::new(store);
        let approvals = with_store(&[], Arc::clone(&store));
        let ann = Caller::new(&approvals, "ann", None, &format!("e{round}"));
        let bob = Caller::new(&approvals, "bob", None, "e");
        if round == 0 {
            for caller in [&ann, &bob] {
                let always = Says(Answer::AlwaysSameArguments);
                assert_eq!(caller.calls_with(&tool, &same(), &always).await, Ok(Grant::Always));
            }
        }
        assert_eq!(ann.calls_with(&tool, &reordered(), &Unasked).await, Ok(Grant::Always));
        assert_eq!(ann.calls_with(&tool, &others()[0], &NobodyToAsk).await.unwrap_err().code(), "denied_unasked");
        stored.extend(store.decisions(&ann.user).await.unwrap());
        let of_bob = store.decisions(&bob.user).await.unwrap();
        assert_ne!(of_bob[0].arguments, stored[0].arguments, "equal arguments of two users differ in the store");
        if round == 2 {
            let digest = stored[0].arguments.clone().unwrap();
            let (server, name) = (&tool.server, &tool.name);
            assert!(!approvals.forget(&ann.user, server, name, Some("00")).await.unwrap());
            assert_eq!(ann.calls_with(&tool, &same(), &Unasked).await, Ok(Grant::Always));
            assert!(approvals.forget(&ann.user, server, name, Some(&digest)).await.unwrap());
            assert_eq!(ann.calls_with(&tool, &same(), &NobodyToAsk).await.unwrap_err().code(), "denied_unasked");
            assert_eq!(bob.calls_with(&tool, &same(), &Unasked).await, Ok(Grant::Always), "bob's is his own");
        }
    }
    assert!(stored.iter().all(|decided| *decided == stored[0]), "{stored:?}");

    // With another key, the same arguments have another digest, so that guesses cannot be checked without the key.
    std::fs::remove_file(Home::new(folder.path()).master_key()).unwrap();
    let store: Arc<dyn Store> = Arc::new(SqliteStore::open(&Home::new(folder.path()), KeySource::File).await.unwrap());
    let bob = Caller::new(&with_store(&[], Arc::clone(&store)), "bob", None, "e");
    assert_eq!(bob.calls_with(&tool, &same(), &NobodyToAsk).await.unwrap_err().code(), "denied_unasked");
}

#[tokio::test]
async fn a_yes_to_the_same_arguments_settles_open_questions_about_them_only() {
    let (approvals, _) = approvals(&[]);
    let ann = Caller::new(&approvals, "ann", Some("s1"), "e1");
    let approver = Arc::new(ManualApprover::default());
    let start = |arguments: Value| {
        let (ann, approver) = (ann.clone(), Arc::clone(&approver));
        tokio::spawn(async move { ann.calls_with(&destructive("mail", "send"), &arguments, approver.as_ref()).await })
    };
    let (one, two, other) = (start(same()), start(reordered()), start(others().remove(1)));
    let questions = approver.questions(3).await;
    let asked = questions.iter().find(|question| question.arguments_json.contains("tags")).unwrap();
    approver.answer(asked, Answer::AlwaysSameArguments);
    assert_eq!((one.await.unwrap(), two.await.unwrap()), (Ok(Grant::Always), Ok(Grant::Always)));
    let left = approver.questions(1).await;
    assert!(!left[0].arguments_json.contains("tags"));
    approver.answer(&left[0], Answer::Refuse);
    assert_eq!(other.await.unwrap().unwrap_err().code(), "denied_by_person");
}

#[tokio::test]
async fn restrictions_and_doubts_come_first() {
    let (approvals, store) = approvals(&[]);
    let ann = Caller::new(&approvals, "ann", Some("s1"), "e1");
    let tool = destructive("mail", "send");
    ann.calls_with(&tool, &same(), &Says(Answer::AlwaysSameArguments)).await.unwrap();
    for doubt in [Doubt::Unanswered, Doubt::AnswerNotKept, Doubt::Differs] {
        let doubtful = Caller { doubt: Some(doubt), ..ann.clone() };
        let refusal = doubtful.calls_with(&tool, &same(), &NobodyToAsk).await.unwrap_err();
        assert_eq!(refusal.code(), doubt.code());
        // The answer is for this call only, although one for all arguments would be for all calls of the execution.
        let answer = Says(Answer::SessionSameArguments);
        assert_eq!(doubtful.calls_with(&tool, &same(), &answer).await, Ok(Grant::Once));
    }
    // A decision about all calls replaces those about arguments.
    for decision in [Decision::Ask, Decision::Deny] {
        ann.calls_with(&tool, &same(), &Says(Answer::AlwaysSameArguments)).await.unwrap();
        approvals.decide_for_good(&ann.user, &tool, decision).await.unwrap();
        assert!(ann.calls_with(&tool, &same(), &NobodyToAsk).await.is_err(), "{decision:?}");
        assert_eq!(store.decisions(&ann.user).await.unwrap().len(), 1);
        approvals.forget(&ann.user, &tool.server, &tool.name, None).await.unwrap();
    }
    // Somebody who wants to be asked can except some arguments.
    approvals.decide_for_good(&ann.user, &tool, Decision::Ask).await.unwrap();
    ann.calls_with(&tool, &same(), &Says(Answer::AlwaysSameArguments)).await.unwrap();
    assert_eq!(ann.calls_with(&tool, &same(), &Unasked).await, Ok(Grant::Always));
    assert_eq!(ann.calls_with(&tool, &json!({}), &NobodyToAsk).await.unwrap_err().code(), "denied_unasked");
}
