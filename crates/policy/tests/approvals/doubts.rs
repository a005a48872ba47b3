//! Calls that may repeat an effect.

use crate::approvers::{ManualApprover, Says, Unasked};
use crate::{Caller, approvals, destructive};
use coracle_policy::{Answer, Doubt, Grant, Refusal};
use coracle_types::Decision;
use std::sync::Arc;

const ALL: [Doubt; 3] = [Doubt::Unanswered, Doubt::AnswerNotKept, Doubt::Differs];

#[tokio::test]
async fn a_doubt_is_put_to_a_person_whatever_allows_the_tool() {
    let tool = destructive("git", "push");
    for doubt in ALL {
        // A rule allows it, or a person did for the session or permanently.
        for (rules, earlier) in [
            (&[("git.*", Decision::Allow)][..], None),
            (&[][..], Some(Answer::Session)),
            (&[][..], Some(Answer::Always)),
        ] {
            let (approvals, _) = approvals(rules);
            let sure = Caller::new(&approvals, "ann", Some("s1"), "e1");
            if let Some(answer) = earlier {
                sure.calls(&tool, &Says(answer)).await.unwrap();
            }
            let caller = Caller { doubt: Some(doubt), ..sure.clone() };
            // Without the doubt, no question is asked.
            sure.calls(&tool, &Unasked).await.unwrap();
            assert_eq!(caller.calls(&tool, &Says(Answer::Once)).await, Ok(Grant::Once), "{doubt:?}");
            let no = caller.calls(&tool, &Says(Answer::Refuse)).await.unwrap_err();
            assert_eq!(no, Refusal::InDoubt { doubt, was_refused: true });
            let nobody = caller.calls(&tool, &Says(Answer::Nobody)).await.unwrap_err();
            assert_eq!((nobody.code(), no.code()), (doubt.code(), doubt.code()));
            assert!(
                nobody.to_string().contains("no one has approved it") && no.to_string().contains("refused"),
                "{nobody}"
            );
            sure.calls(&tool, &Unasked).await.unwrap();
        }
    }
}

#[tokio::test]
async fn an_answer_to_a_doubt_allows_nothing_else() {
    let tool = destructive("git", "push");
    for doubt in ALL {
        for answer in [Answer::Session, Answer::Always] {
            let (approvals, _) = approvals(&[]);
            let sure = Caller::new(&approvals, "ann", Some("s1"), "e1");
            let caller = Caller { doubt: Some(doubt), ..sure.clone() };
            let grant = if doubt == Doubt::Differs { Grant::Session } else { Grant::Once };
            assert_eq!(caller.calls(&tool, &Says(answer)).await, Ok(grant));
            let asked = sure.calls(&tool, &Says(Answer::Refuse)).await;
            assert_eq!(asked, Err(Refusal::Refused), "the next call is asked about");
        }
    }
}

#[tokio::test]
async fn a_denied_call_in_doubt_is_denied_unasked() {
    let (denied, _) = approvals(&[("git.*", Decision::Deny)]);
    let caller = Caller { doubt: Some(Doubt::Unanswered), ..Caller::new(&denied, "ann", None, "e1") };
    let tool = destructive("git", "push");
    assert_eq!(caller.calls(&tool, &Unasked).await.unwrap_err().code(), "denied_by_policy");
    let (allowed, _) = approvals(&[("git.*", Decision::Allow)]);
    let caller = Caller { approvals: allowed, ..caller };
    assert_eq!(caller.calls(&tool, &Says(Answer::Once)).await, Ok(Grant::Once));
}

#[tokio::test]
async fn a_yes_for_longer_does_not_settle_a_doubt() {
    let (approvals, _) = approvals(&[]);
    let tool = destructive("git", "push");
    let sure = Caller::new(&approvals, "ann", Some("s1"), "e1");
    let approver = Arc::new(ManualApprover::default());
    let (caller, asks) = (Caller { doubt: Some(Doubt::Unanswered), ..sure.clone() }, Arc::clone(&approver));
    let of_it = tool.clone();
    let waiting = tokio::spawn(async move { caller.calls(&of_it, asks.as_ref()).await });
    let [question] = &approver.questions(1).await[..] else { panic!() };
    assert_eq!(question.doubt, Some(Doubt::Unanswered));
    assert!(question.why.contains("may have happened"), "{}", question.why);
    assert!(question.why.ends_with("besides, the tool is marked as destructive"), "{}", question.why);
    assert_eq!(sure.calls(&tool, &Says(Answer::Always)).await, Ok(Grant::Always));
    assert_eq!(approver.questions(1).await[0].id, question.id);
    approver.answer(question, Answer::Refuse);
    assert_eq!(waiting.await.unwrap().unwrap_err().code(), "may_have_happened");
}
