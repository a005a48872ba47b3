//! How long an answer lasts, and what it applies to.

use crate::approvers::{Says, Unasked};
use crate::{Caller, approvals, destructive, with_store};
use coracle_policy::{Answer, Grant, NobodyToAsk, Reason, definition_digest};
use coracle_store::{Home, KeySource, SqliteStore, Store};
use coracle_types::{Decision, Schema, SessionId};
use serde_json::json;
use std::sync::Arc;

const YES: [Answer; 3] = [Answer::Once, Answer::Session, Answer::Always];

#[tokio::test]
async fn nobody_is_asked_about_tools_that_policy_allows_or_denies() {
    let (approvals, _) = approvals(&[("git.push", Decision::Allow), ("git.reset", Decision::Deny)]);
    let ann = Caller::new(&approvals, "ann", None, "e1");
    let reason = Reason::Rule { pattern: "git.push".to_owned(), origin: "coracle.yaml:3".to_owned() };
    assert_eq!(ann.calls(&destructive("git", "push"), &Unasked).await, Ok(Grant::Policy(reason)));
    let refusal = ann.calls(&destructive("git", "reset"), &Unasked).await.unwrap_err();
    assert_eq!(refusal.code(), "denied_by_policy");
    let mut harmless = destructive("git", "log");
    harmless.hints.destructive = None;
    let reason = Reason::Default { destructive: false };
    assert_eq!(ann.calls(&harmless, &Unasked).await, Ok(Grant::Policy(reason)));
}

#[tokio::test]
async fn refusals_say_what_would_allow_it() {
    let (approvals, _) = approvals(&[("git.reset", Decision::Deny), ("files.*", Decision::Ask)]);
    let ann = Caller::new(&approvals, "ann", None, "e1");
    let mut told = Vec::new();
    for (tool, approver) in [
        (destructive("git", "reset"), &Says(Answer::Always) as &dyn coracle_policy::Approver),
        (destructive("git", "push\u{202e}\n"), &NobodyToAsk),
        (destructive("files", "read"), &NobodyToAsk),
        (destructive("git", "push"), &Says(Answer::Refuse)),
    ] {
        let refusal = ann.calls(&tool, approver).await.unwrap_err();
        told.push(format!("{refusal} [{}]\n  {}", refusal.code(), refusal.hint()));
    }
    insta::assert_snapshot!(told.join("\n"));
}

#[tokio::test]
async fn once_is_for_one_call() {
    let (approvals, store) = approvals(&[]);
    let ann = Caller::new(&approvals, "ann", Some("s1"), "e1");
    let tool = destructive("git", "reset");
    assert_eq!(ann.calls(&tool, &Says(Answer::Once)).await, Ok(Grant::Once));
    assert_eq!(ann.calls(&tool, &NobodyToAsk).await.unwrap_err().code(), "denied_unasked");
    assert_eq!(store.decisions(&ann.user).await.unwrap(), []);
}

#[tokio::test]
async fn a_no_is_for_one_call() {
    let (approvals, store) = approvals(&[]);
    let ann = Caller::new(&approvals, "ann", Some("s1"), "e1");
    let tool = destructive("git", "reset");
    assert_eq!(ann.calls(&tool, &Says(Answer::Refuse)).await.unwrap_err().code(), "denied_by_person");
    assert_eq!(ann.calls(&tool, &Says(Answer::Once)).await, Ok(Grant::Once));
    assert_eq!(store.decisions(&ann.user).await.unwrap(), []);
}

#[tokio::test]
async fn session_is_for_this_user_session_and_tool() {
    let (approvals, store) = approvals(&[]);
    let tool = destructive("git", "reset");
    let ann = Caller::new(&approvals, "ann", Some("s1"), "e1");
    assert_eq!(ann.calls(&tool, &Says(Answer::Session)).await, Ok(Grant::Session));
    let later = Caller::new(&approvals, "ann", Some("s1"), "e2");
    assert_eq!(later.calls(&tool, &Unasked).await, Ok(Grant::Session));

    for other in [
        Caller::new(&approvals, "bob", Some("s1"), "e1"),
        Caller::new(&approvals, "ann", Some("s2"), "e1"),
        Caller::new(&approvals, "ann", None, "s1"),
    ] {
        assert_eq!(other.calls(&tool, &NobodyToAsk).await.unwrap_err().code(), "denied_unasked");
    }
    for other in [destructive("git", "Reset"), destructive("git2", "reset")] {
        assert_eq!(ann.calls(&other, &NobodyToAsk).await.unwrap_err().code(), "denied_unasked");
    }
    assert_eq!(store.decisions(&ann.user).await.unwrap(), [], "the grant is not stored");

    approvals.end_session(&ann.user, &SessionId::new("s2").unwrap());
    assert_eq!(ann.calls(&tool, &Unasked).await, Ok(Grant::Session));
    approvals.end_session(&ann.user, &SessionId::new("s1").unwrap());
    assert_eq!(ann.calls(&tool, &NobodyToAsk).await.unwrap_err().code(), "denied_unasked");
}

#[tokio::test]
async fn without_a_session_an_answer_for_it_lasts_as_long_as_the_execution() {
    let (approvals, _) = approvals(&[]);
    let tool = destructive("git", "reset");
    let ann = Caller::new(&approvals, "ann", None, "e1");
    assert_eq!(ann.calls(&tool, &Says(Answer::Session)).await, Ok(Grant::Session));
    assert_eq!(ann.calls(&tool, &Unasked).await, Ok(Grant::Session));
    for other in [Caller::new(&approvals, "ann", None, "e2"), Caller::new(&approvals, "ann", Some("e1"), "e1")] {
        assert_eq!(other.calls(&tool, &NobodyToAsk).await.unwrap_err().code(), "denied_unasked");
    }
    approvals.end_execution(&ann.user, &ann.execution);
    assert_eq!(ann.calls(&tool, &NobodyToAsk).await.unwrap_err().code(), "denied_unasked");
}

#[tokio::test]
async fn always_survives_a_restart_for_this_user_and_tool() {
    let folder = tempfile::tempdir().unwrap();
    let tool = destructive("git", "reset");
    for round in 0..3 {
        let store = SqliteStore::open(&Home::new(folder.path()), KeySource::File).await.unwrap();
        let store: Arc<dyn Store> = Arc::new(store);
        let approvals = with_store(&[], Arc::clone(&store));
        let ann = Caller::new(&approvals, "ann", None, &format!("e{round}"));
        if round == 0 {
            assert_eq!(ann.calls(&tool, &Says(Answer::Always)).await, Ok(Grant::Always));
        }
        assert_eq!(ann.calls(&tool, &Unasked).await, Ok(Grant::Always));
        let bob = Caller::new(&approvals, "bob", None, "e");
        assert_eq!(bob.calls(&tool, &NobodyToAsk).await.unwrap_err().code(), "denied_unasked");
        for other in [destructive("git", "Reset"), destructive("git2", "reset")] {
            assert_eq!(ann.calls(&other, &NobodyToAsk).await.unwrap_err().code(), "denied_unasked");
        }
        if round == 2 {
            assert!(store.forget(&ann.user, &tool.server, &tool.name).await.unwrap());
            assert_eq!(ann.calls(&tool, &NobodyToAsk).await.unwrap_err().code(), "denied_unasked");
        }
    }
}

#[tokio::test]
async fn a_tool_that_has_changed_is_asked_about_again() {
    let tool = destructive("git", "reset");
    let mut changed: Vec<_> = (0..7).map(|_| tool.clone()).collect();
    changed[0].description.push('.');
    changed[1].input_schema = Schema::from_iter([("type".to_owned(), json!("object"))]);
    changed[2].output_schema = Some(Schema::default());
    changed[3].title = Some("Reset".to_owned());
    changed[4].hints.idempotent = Some(true);
    changed[5].hints.read_only = Some(false);
    changed[6].hints.open_world = Some(false);
    for answer in [Answer::Session, Answer::Always] {
        let (approvals, _) = approvals(&[]);
        let ann = Caller::new(&approvals, "ann", Some("s1"), "e1");
        ann.calls(&tool, &Says(answer)).await.unwrap();
        for changed in &changed {
            let refusal = ann.calls(changed, &NobodyToAsk).await.unwrap_err();
            assert_eq!(refusal.code(), "denied_unasked", "{changed:?}");
        }
        ann.calls(&tool, &Unasked).await.unwrap();
    }
}

#[test]
fn the_order_of_keys_in_a_schema_does_not_matter() {
    let mut one = destructive("git", "reset");
    let mut other = one.clone();
    one.input_schema = serde_json::from_str(r#"{"a": {"x": 1, "y": [1, 2]}, "b": 2}"#).unwrap();
    other.input_schema = serde_json::from_str(r#"{"b": 2, "a": {"y": [1, 2], "x": 1}}"#).unwrap();
    assert_eq!(definition_digest(&one), definition_digest(&other));
    other.input_schema = serde_json::from_str(r#"{"b": 2, "a": {"y": [2, 1], "x": 1}}"#).unwrap();
    assert_ne!(definition_digest(&one), definition_digest(&other));
    // Text cannot be moved from one field to the next.
    let (mut left, mut right) = (one.clone(), one);
    (left.name, left.description) = ("ab".to_owned(), "c".to_owned());
    (right.name, right.description) = ("a".to_owned(), "bc".to_owned());
    assert_ne!(definition_digest(&left), definition_digest(&right));
}

#[tokio::test]
async fn no_answer_overrides_a_rule_that_denies() {
    let tool = destructive("git", "reset");
    let (before, store) = approvals(&[]);
    for (session, answer) in ["s1", "s2", "s3"].into_iter().zip(YES) {
        Caller::new(&before, "ann", Some(session), "e1").calls(&tool, &Says(answer)).await.unwrap();
    }
    let ann = Caller::new(&before, "ann", Some("s1"), "e1");
    assert_eq!(ann.calls(&tool, &Unasked).await, Ok(Grant::Always));

    let store: Arc<dyn Store> = store;
    let denying = with_store(&[("git.*", Decision::Deny)], Arc::clone(&store));
    let ann = Caller::new(&denying, "ann", Some("s1"), "e1");
    for answer in YES {
        assert_eq!(ann.calls(&tool, &Says(answer)).await.unwrap_err().code(), "denied_by_policy");
    }
    let asking = with_store(&[("git.*", Decision::Ask)], store);
    let ann = Caller::new(&asking, "ann", Some("s1"), "e1");
    assert_eq!(ann.calls(&tool, &Unasked).await, Ok(Grant::Always), "it is still remembered");
}

/// The store rejects the name of this tool: the yes counts, but only for the session.
#[tokio::test]
async fn an_answer_that_cannot_be_stored_lasts_for_the_session() {
    let (approvals, _) = approvals(&[]);
    let ann = Caller::new(&approvals, "ann", Some("s1"), "e1");
    let tool = destructive("git", "re\0set");
    assert_eq!(ann.calls(&tool, &Says(Answer::Always)).await, Ok(Grant::Session));
    assert_eq!(ann.calls(&tool, &Unasked).await, Ok(Grant::Session));
    let other = Caller::new(&approvals, "ann", Some("s2"), "e1");
    assert_eq!(other.calls(&tool, &NobodyToAsk).await.unwrap_err().code(), "denied_unasked");
}
