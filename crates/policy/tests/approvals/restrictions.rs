//! What users restrict for themselves, whatever the policy allows.

use crate::approvers::{ManualApprover, Says, Unasked};
use crate::{Caller, approvals, destructive};
use coracle_policy::{Answer, Grant, NobodyToAsk};
use coracle_types::{Decision, Tool};
use std::sync::Arc;

/// A tool that the default allows.
fn harmless() -> Tool {
    let mut tool = destructive("git", "log");
    tool.hints.destructive = None;
    tool
}

/// The same tool, as its server defines it later.
fn changed(tool: &Tool) -> Tool {
    Tool { description: "Does something else.".to_owned(), ..tool.clone() }
}

#[tokio::test]
async fn a_user_can_ask_to_be_asked() {
    let (approvals, _) = approvals(&[]);
    let (ann, bob) = (Caller::new(&approvals, "ann", Some("s1"), "e1"), Caller::new(&approvals, "bob", None, "e2"));
    let tool = harmless();
    assert!(matches!(ann.calls(&tool, &Unasked).await, Ok(Grant::Policy(_))));
    approvals.decide_for_good(&ann.user, &tool, Decision::Ask).await.unwrap();
    for tool in [&tool, &changed(&tool)] {
        let refusal = ann.calls(tool, &NobodyToAsk).await.unwrap_err();
        assert_eq!(refusal.code(), "denied_unasked");
        assert!(refusal.to_string().contains("wants to be asked") && !refusal.hint().contains("configuration"));
    }
    assert_eq!(ann.calls(&tool, &Says(Answer::Session)).await, Ok(Grant::Session));
    assert_eq!(ann.calls(&tool, &Unasked).await, Ok(Grant::Session), "an answer for the session counts");
    assert!(matches!(bob.calls(&tool, &Unasked).await, Ok(Grant::Policy(_))), "another user is not affected");
    let other = Tool { name: "show".to_owned(), ..tool.clone() };
    assert!(matches!(ann.calls(&other, &Unasked).await, Ok(Grant::Policy(_))), "nor is another tool");
    assert!(approvals.forget(&ann.user, &tool.server, &tool.name, None).await.unwrap());
    assert!(matches!(ann.calls(&changed(&tool), &Unasked).await, Ok(Grant::Policy(_))));
    assert!(!approvals.forget(&ann.user, &tool.server, &tool.name, None).await.unwrap());
}

#[tokio::test]
async fn a_user_can_refuse_a_tool_for_good() {
    let (approvals, _) = approvals(&[("git.*", Decision::Allow)]);
    let ann = Caller::new(&approvals, "ann", Some("s1"), "e1");
    let tool = destructive("git", "reset");
    assert!(matches!(ann.calls(&tool, &Unasked).await, Ok(Grant::Policy(_))));
    approvals.decide_for_good(&ann.user, &tool, Decision::Deny).await.unwrap();
    for tool in [&tool, &changed(&tool)] {
        assert_eq!(ann.calls(tool, &Says(Answer::Always)).await.unwrap_err().code(), "denied_for_good");
    }
    // An answer that another question got is replaced by a later decision.
    approvals.decide_for_good(&ann.user, &tool, Decision::Ask).await.unwrap();
    assert_eq!(ann.calls(&tool, &Says(Answer::Always)).await, Ok(Grant::Always));
    assert!(matches!(ann.calls(&tool, &Unasked).await, Ok(Grant::Policy(_))), "the last decision counts");
}

#[tokio::test]
async fn a_decision_ends_earlier_grants_and_open_questions() {
    let (approvals, _) = approvals(&[]);
    let ann = Caller::new(&approvals, "ann", Some("s1"), "e1");
    let tool = destructive("git", "reset");
    assert_eq!(ann.calls(&tool, &Says(Answer::Session)).await, Ok(Grant::Session));
    approvals.decide_for_good(&ann.user, &tool, Decision::Ask).await.unwrap();
    let (approver, asking) = (Arc::new(ManualApprover::default()), ann.clone());
    let call = {
        let (approver, tool) = (Arc::clone(&approver), tool.clone());
        tokio::spawn(async move { asking.calls(&tool, &*approver).await })
    };
    approver.questions(1).await;
    approvals.decide_for_good(&ann.user, &tool, Decision::Deny).await.unwrap();
    assert_eq!(call.await.unwrap().unwrap_err().code(), "denied_for_good");
    approver.questions(0).await;
    approvals.decide_for_good(&ann.user, &tool, Decision::Allow).await.unwrap();
    assert_eq!(ann.calls(&tool, &Unasked).await, Ok(Grant::Always));
    assert_eq!(ann.calls(&changed(&tool), &NobodyToAsk).await.unwrap_err().code(), "denied_unasked");
}
