//! Several open questions at once.

use crate::approvers::ManualApprover;
use crate::{Caller, approvals, destructive};
use coracle_policy::{Answer, Grant, MAX_DESCRIPTION_CHARS, MAX_PREVIEW_CHARS, Question, Refusal};
use coracle_types::{Decision, Tool};
use serde_json::json;
use std::sync::Arc;
use tokio::task::JoinHandle;

fn start(caller: &Caller, tool: &Tool, approver: &Arc<ManualApprover>) -> JoinHandle<Result<Grant, Refusal>> {
    let (caller, tool, approver) = (caller.clone(), tool.clone(), Arc::clone(approver));
    tokio::spawn(async move { caller.calls(&tool, approver.as_ref()).await })
}

fn about<'a>(questions: &'a [Question], tool: &str) -> &'a Question {
    questions.iter().find(|question| question.tool == tool).unwrap()
}

#[tokio::test]
async fn a_question_says_what_a_person_needs_to_know() {
    let (approvals, _) = approvals(&[("git.*", Decision::Ask)]);
    let ann = Caller::new(&approvals, "ann", Some("s1"), "e1");
    let approver = Arc::new(ManualApprover::default());
    let waiting = start(&ann, &destructive("git", "re\u{200b}set"), &approver);
    let [question] = &approver.questions(1).await[..] else { panic!() };
    let expected = Question {
        id: question.id.clone(),
        user: ann.user.clone(),
        session: ann.session.clone(),
        execution: ann.execution.clone(),
        server: destructive("git", "x").server,
        tool: "re\\u{200b}set".to_owned(),
        description: "Throws everything [31maway.".to_owned(),
        arguments_preview: r#"{"path":"/x"}"#.to_owned(),
        arguments_json: r#"{"path":"/x"}"#.to_owned(),
        arguments_for_others: r#"{"path":"/x"}"#.to_owned(),
        origin: None,
        digest: question.digest.clone(),
        hints: destructive("git", "x").hints,
        why: "rule \"git.*\" (coracle.yaml:3)".to_owned(),
        doubt: None,
        flow: Vec::new(),
        allow_line: r#"policy: { tools: { "git.re\u200bset": allow } }"#.to_owned(),
        quorum: None,
    };
    assert_eq!(*question, expected);
    approver.answer(question, Answer::Once);
    assert_eq!(waiting.await.unwrap(), Ok(Grant::Once));
}

#[tokio::test]
async fn a_question_fits_on_a_screen_whatever_the_server_says() {
    let (approvals, _) = approvals(&[]);
    let ann = Caller::new(&approvals, "ann", None, "e1");
    let approver = Arc::new(ManualApprover::default());
    let mut tool = destructive("git", &"n".repeat(1 << 16));
    tool.description = "word \n".repeat(1 << 18);
    let arguments = json!({"a": "x".repeat(1 << 20), "b": vec!["\u{202e}"; 1 << 16]});
    let asked = Arc::clone(&approver);
    let waiting = tokio::spawn(async move { ann.calls_with(&tool, &arguments, asked.as_ref()).await });
    let [question] = &approver.questions(1).await[..] else { panic!() };
    assert!(question.tool.chars().count() <= 129);
    assert!(question.description.chars().count() <= MAX_DESCRIPTION_CHARS + 1);
    assert!(question.description.ends_with("word word…"), "{}", question.description);
    assert!(question.arguments_preview.chars().count() <= MAX_PREVIEW_CHARS + 1);
    for text in [&question.tool, &question.description, &question.arguments_preview] {
        assert!(!text.contains(|c: char| c.is_control() || c == '\u{202e}'), "{text:?}");
    }
    approver.answer(question, Answer::Refuse);
    assert_eq!(waiting.await.unwrap().unwrap_err().code(), "denied_by_person");
}

#[tokio::test]
async fn calls_wait_independently() {
    let (approvals, _) = approvals(&[]);
    let ann = Caller::new(&approvals, "ann", Some("s1"), "e1");
    let approver = Arc::new(ManualApprover::default());
    let (reset, push) = (destructive("git", "reset"), destructive("git", "push"));
    let first = start(&ann, &reset, &approver);
    approver.questions(1).await;
    let second = start(&ann, &push, &approver);
    let third = start(&ann, &reset, &approver);
    let questions = approver.questions(3).await;
    approver.answer(about(&questions, "push"), Answer::Refuse);
    assert_eq!(second.await.unwrap().unwrap_err().code(), "denied_by_person");
    let questions = approver.questions(2).await;
    approver.answer(&questions[0], Answer::Once);
    approver.questions(1).await;
    assert!(!(first.is_finished() && third.is_finished()), "once is for one of the two");
    approver.answer(&questions[1], Answer::Refuse);
    let mut answers = [first.await.unwrap().is_ok(), third.await.unwrap().is_ok()];
    answers.sort_unstable();
    assert_eq!(answers, [false, true]);
    assert_eq!(approver.seen(), 3);
}

#[tokio::test]
async fn a_yes_for_longer_settles_open_questions_about_the_same_tool() {
    for (answer, grant) in [(Answer::Session, Grant::Session), (Answer::Always, Grant::Always)] {
        let (approvals, _) = approvals(&[]);
        let ann = Caller::new(&approvals, "ann", Some("s1"), "e1");
        let approver = Arc::new(ManualApprover::default());
        let (reset, push) = (destructive("git", "reset"), destructive("git", "push"));
        let same: Vec<_> = (0..3).map(|_| start(&ann, &reset, &approver)).collect();
        let other_tool = start(&ann, &push, &approver);
        let other_user = start(&Caller::new(&approvals, "bob", Some("s1"), "e1"), &reset, &approver);
        let mut changed = reset.clone();
        changed.description.push('!');
        let other_definition = start(&ann, &changed, &approver);

        let questions = approver.questions(6).await;
        let of_ann = questions.iter().find(|question| question.user == ann.user && question.tool == "reset").unwrap();
        let asked_about_changed = questions.iter().find(|question| question.description.ends_with('!')).unwrap();
        assert_ne!(of_ann.id, asked_about_changed.id);
        approver.answer(of_ann, answer);
        for call in same {
            assert_eq!(call.await.unwrap(), Ok(grant.clone()));
        }
        let left = approver.questions(3).await;
        assert!(left.iter().any(|question| question.tool == "push"));
        assert!(left.iter().any(|question| question.user.as_str() == "bob"));
        assert!(left.iter().any(|question| question.id == asked_about_changed.id));
        for question in &left {
            approver.answer(question, Answer::Refuse);
        }
        for call in [other_tool, other_user, other_definition] {
            assert_eq!(call.await.unwrap().unwrap_err().code(), "denied_by_person");
        }
    }
}

#[tokio::test]
async fn a_yes_for_a_session_leaves_questions_of_other_sessions_open() {
    let (approvals, _) = approvals(&[]);
    let approver = Arc::new(ManualApprover::default());
    let tool = destructive("git", "reset");
    let here = start(&Caller::new(&approvals, "ann", Some("s1"), "e1"), &tool, &approver);
    let there = start(&Caller::new(&approvals, "ann", Some("s2"), "e2"), &tool, &approver);
    let questions = approver.questions(2).await;
    let of = |session: &str| {
        let of_it = |question: &&Question| question.session.as_ref().is_some_and(|of| of.as_str() == session);
        questions.iter().find(of_it).unwrap()
    };
    approver.answer(of("s1"), Answer::Session);
    assert_eq!(here.await.unwrap(), Ok(Grant::Session));
    assert_eq!(approver.questions(1).await[0].id, of("s2").id);
    approver.answer(of("s2"), Answer::Always);
    assert_eq!(there.await.unwrap(), Ok(Grant::Always));
}

#[tokio::test]
async fn a_cancelled_call_withdraws_only_its_own_question() {
    let (approvals, _) = approvals(&[]);
    let ann = Caller::new(&approvals, "ann", None, "e1");
    let approver = Arc::new(ManualApprover::default());
    let (reset, push) = (destructive("git", "reset"), destructive("git", "push"));
    let given_up = start(&ann, &reset, &approver);
    let stays = start(&ann, &push, &approver);
    approver.questions(2).await;
    given_up.abort();
    assert!(given_up.await.unwrap_err().is_cancelled());
    let left = approver.questions(1).await;
    assert_eq!(left[0].tool, "push");
    approver.answer(&left[0], Answer::Session);
    assert_eq!(stays.await.unwrap(), Ok(Grant::Session));

    let again = start(&ann, &reset, &approver);
    let questions = approver.questions(1).await;
    approver.answer(&questions[0], Answer::Once);
    assert_eq!(again.await.unwrap(), Ok(Grant::Once), "the cancelled call left nothing behind");
}

#[tokio::test]
async fn if_the_person_goes_away_the_call_is_refused() {
    let (approvals, _) = approvals(&[]);
    let ann = Caller::new(&approvals, "ann", None, "e1");
    let approver = Arc::new(ManualApprover::default());
    let waiting = start(&ann, &destructive("git", "reset"), &approver);
    let questions = approver.questions(1).await;
    approver.answer(&questions[0], Answer::Nobody);
    assert_eq!(waiting.await.unwrap().unwrap_err().code(), "denied_unasked");
}

#[tokio::test]
async fn a_question_that_gets_no_answer_is_refused_with_the_reason() {
    let (approvals, _) = approvals(&[]);
    let ann = Caller::new(&approvals, "ann", None, "e1");
    let approver = Arc::new(ManualApprover::default());
    for (answer, code, said) in [
        (Answer::TimedOut, "denied_unanswered", "no one answered in time"),
        (Answer::TooMany, "denied_too_many", "too many questions"),
    ] {
        let waiting = start(&ann, &destructive("git", "reset"), &approver);
        let questions = approver.questions(1).await;
        approver.answer(&questions[0], answer);
        let refusal = waiting.await.unwrap().unwrap_err();
        assert_eq!(refusal.code(), code);
        assert!(refusal.to_string().contains(said) && !refusal.hint().is_empty(), "{refusal}");
    }
    let waiting = start(&ann, &destructive("git", "reset"), &approver);
    let questions = approver.questions(1).await;
    approver.answer(&questions[0], Answer::Once);
    assert_eq!(waiting.await.unwrap(), Ok(Grant::Once), "the control");
}
