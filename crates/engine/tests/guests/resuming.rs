//! Executions that are taken up after the process has died: recorded answers are replayed, and no effect is repeated
//! without a question.

use crate::fake::{FakeBackend, done, script};
use crate::lab::{Lab, Ran, Says, rule, to_bank};
use crate::logs::{Disk, Write};
use async_trait::async_trait;
use coracle_engine::{CallAnswer, CallLogging, EarlierCall, Request, ResumeError};
use coracle_policy::{Answer, Approver, Doubt, Question};
use coracle_protocol::ToGuest;
use coracle_types::{Decision, Event, ExecutionId};
use serde_json::{Value, json};
use std::sync::{Arc, Mutex};

/// Must not be asked.
#[derive(Debug)]
struct Unasked;

#[async_trait]
impl Approver for Unasked {
    async fn ask(&self, question: Question) -> Answer {
        panic!("no question was expected: {question:?}")
    }
}

/// One attempt to run code that makes these calls.
async fn attempt(lab: &Lab, disk: &Disk, calls: &[Value], approver: Arc<dyn Approver>) -> Ran {
    lab.run(calls.to_vec(), |request| {
        request.call_log = CallLogging::In(Arc::new(disk.log()));
        request.approver = approver;
    })
    .await
}

/// An attempt that ends when the process dies, at a write about a call.
async fn dying(lab: &Lab, disk: &Disk, calls: &[Value], write: Write, number: u64) -> Ran {
    lab.run(calls.to_vec(), |request| {
        request.call_log = CallLogging::In(Arc::new(disk.log().dying(write, number, &request.cancel)));
        request.approver = Arc::new(Unasked);
    })
    .await
}

/// Two payments, of which the second happened but has no answer in the log.
async fn interrupted(lab: &Lab) -> (Disk, Vec<Value>) {
    let (disk, calls) = (Disk::default(), vec![to_bank("pay", "a"), to_bank("pay", "b")]);
    let ran = dying(lab, &disk, &calls, Write::Ended, 2).await;
    assert_eq!((ran.codes(), lab.done()), (vec!["ok"], vec!["pay a".to_owned(), "pay b".to_owned()]));
    assert!(disk.calls()[0].answer.is_some() && disk.calls()[1].answer.is_none());
    (disk, calls)
}

#[tokio::test]
async fn recorded_answers_are_replayed() {
    let (lab, disk) = (Lab::new(), Disk::default());
    let calls = [to_bank("pay", "a"), to_bank("look", "b"), to_bank("pay", "a"), to_bank("nothing", "")];
    let first = attempt(&lab, &disk, &calls, Arc::new(Unasked)).await;
    assert_eq!(first.codes(), ["ok", "ok", "ok", "tool_not_found"]);
    assert!(first.execution.calls.iter().all(|call| !call.replayed));
    assert_eq!(lab.done(), ["pay a", "look b", "pay a"]);
    let logged = disk.calls();
    let numbers: Vec<(u64, bool)> = logged.iter().map(|entry| (entry.call.number, entry.call.is_repeatable)).collect();
    assert_eq!(numbers, [(1, false), (2, true), (3, false), (4, true)]);

    let more: Vec<Value> = calls.iter().cloned().chain([to_bank("pay", "c")]).collect();
    let second = attempt(&lab, &disk, &more, Arc::new(Unasked)).await;
    assert_eq!(second.replies[..4], first.replies[..]);
    assert_eq!((second.codes()[4], lab.done().last().unwrap().as_str(), lab.done().len()), ("ok", "pay c", 4));
    let replayed: Vec<bool> = second.execution.calls.iter().map(|call| call.replayed).collect();
    assert_eq!(replayed, [true, true, true, true, false]);
    let began = |event: &Event| if let Event::CallBegan { number, .. } = event { Some(*number) } else { None };
    assert_eq!(second.events.iter().filter_map(began).collect::<Vec<_>>(), [1, 2, 3, 4, 5]);
    assert_eq!((&disk.calls()[..4], disk.calls()[4].call.number), (&logged[..], 5));
}

#[tokio::test]
async fn a_call_without_an_answer_is_made_again_if_a_person_says_so() {
    let lab = Lab::new();
    let (disk, calls) = interrupted(&lab).await;
    let approver = Says::new(Answer::Once);
    let ran = attempt(&lab, &disk, &calls, approver.clone()).await;
    assert_eq!((ran.codes(), lab.done()[2..].to_vec()), (vec!["ok", "ok"], vec!["pay b".to_owned()]));
    let [question] = &approver.questions()[..] else { panic!("{:?}", approver.questions()) };
    assert_eq!((question.doubt, question.tool.as_str()), (Some(Doubt::Unanswered), "pay"));
    assert!(question.why.contains("may have happened") && question.why.contains("again"), "{}", question.why);
    assert!(ran.events.iter().any(|event| matches!(event, Event::Asked { number: 2, .. })), "{:?}", ran.events);
    // Now it has an answer, under the same number.
    assert_eq!(disk.calls().iter().map(|entry| entry.call.number).collect::<Vec<_>>(), [1, 2]);
    let ran = attempt(&lab, &disk, &calls, Arc::new(Unasked)).await;
    assert_eq!((ran.codes(), lab.done().len()), (vec!["ok", "ok"], 3));
}

#[tokio::test]
async fn a_call_without_an_answer_is_not_made_again_if_a_person_says_no() {
    let lab = Lab::new();
    let (disk, calls) = interrupted(&lab).await;
    let approver = Says::new(Answer::Refuse);
    let again: Vec<Value> = calls.iter().cloned().chain([to_bank("pay", "b"), to_bank("pay", "c")]).collect();
    for approver in [approver.clone() as Arc<dyn Approver>, Arc::new(Unasked)] {
        let ran = attempt(&lab, &disk, &again, approver).await;
        // Code that tries again gets the same answer. The next payment is not affected.
        assert_eq!(ran.codes(), ["ok", "may_have_happened", "may_have_happened", "ok"]);
        assert!(ran.message(1).contains("may have happened") && ran.message(1).contains("only reads"));
        assert_eq!(lab.done(), ["pay a", "pay b", "pay c"]);
    }
    assert_eq!(approver.questions().len(), 1);
}

#[tokio::test]
async fn a_call_without_an_answer_is_not_made_again_if_there_is_no_one_to_ask() {
    let lab = Lab::new();
    let (disk, calls) = interrupted(&lab).await;
    let again: Vec<Value> = calls.iter().cloned().chain([to_bank("pay", "b")]).collect();
    let ran = attempt(&lab, &disk, &again, Says::new(Answer::Nobody)).await;
    assert_eq!(ran.codes(), ["ok", "may_have_happened", "may_have_happened"]);
    assert!(ran.message(1).contains("no one has approved it"), "{}", ran.message(1));
    assert_eq!(lab.done().len(), 2);
    // The question stays open until a person answers it.
    let approver = Says::new(Answer::Once);
    let ran = attempt(&lab, &disk, &calls, approver.clone()).await;
    assert_eq!((ran.codes(), lab.done().len(), approver.questions().len()), (vec!["ok", "ok"], 3, 1));
}

#[tokio::test]
async fn a_rule_that_denies_is_stronger_than_a_doubt() {
    let lab = Lab::new();
    let (disk, calls) = interrupted(&lab).await;
    let strict = Lab { done: Arc::clone(&lab.done), ..Lab::with_rules(vec![rule("bank.pay", Decision::Deny)]) };
    let ran = attempt(&strict, &disk, &calls, Arc::new(Unasked)).await;
    assert_eq!((ran.codes(), lab.done().len()), (vec!["ok", "denied_by_policy"], 2));
    let ran = attempt(&lab, &disk, &calls, Says::new(Answer::Once)).await;
    assert_eq!((ran.codes(), lab.done().len()), (vec!["ok", "ok"], 3));
}

/// The process dies before the call is sent: the log cannot tell the difference.
#[tokio::test]
async fn a_call_that_began_and_was_not_sent_is_asked_about_too() {
    let (lab, disk, calls) = (Lab::new(), Disk::default(), [to_bank("pay", "a")]);
    dying(&lab, &disk, &calls, Write::Began, 1).await;
    assert!(lab.done().is_empty());
    assert_eq!(disk.calls()[0].answer, None, "the error of a cancelled call is no answer");
    let ran = attempt(&lab, &disk, &calls, Says::new(Answer::Once)).await;
    assert_eq!((ran.codes(), lab.done()), (vec!["ok"], vec!["pay a".to_owned()]));
}

#[tokio::test]
async fn repeatable_calls_are_repeated_without_a_question() {
    let (lab, disk) = (Lab::new(), Disk::default());
    let calls = [to_bank("look", "a"), to_bank("put", "b")];
    dying(&lab, &disk, &calls, Write::Ended, 2).await;
    assert_eq!((lab.done().len(), disk.calls().len()), (2, 1));
    let ran = attempt(&lab, &disk, &calls, Arc::new(Unasked)).await;
    assert_eq!((ran.codes(), lab.done()[2..].to_vec()), (vec!["ok", "ok"], vec!["put b".to_owned()]));
}

#[tokio::test]
async fn a_call_that_differs_from_the_recorded_ones_is_asked_about() {
    for (answer, codes, paid) in [
        (Answer::Refuse, ["may_repeat", "may_repeat", "ok"], 2),
        (Answer::Nobody, ["may_repeat", "may_repeat", "ok"], 2),
        (Answer::Once, ["ok", "ok", "ok"], 4),
        (Answer::Session, ["ok", "ok", "ok"], 4),
    ] {
        let lab = Lab::new();
        let (disk, _) = interrupted(&lab).await;
        let approver = Says::new(answer);
        // Arguments with the time differ each time.
        let calls = [to_bank("pay", "a, later"), to_bank("pay", "b, later"), to_bank("look", "c")];
        let ran = attempt(&lab, &disk, &calls, approver.clone()).await;
        let payments = lab.done().iter().filter(|done| done.starts_with("pay")).count();
        assert_eq!((ran.codes(), payments), (codes.to_vec(), paid), "{answer:?}");
        let questions = approver.questions();
        assert_eq!(questions.len(), if answer == Answer::Session { 1 } else { 2 }, "{answer:?}");
        assert!(questions.iter().all(|question| question.doubt == Some(Doubt::Differs)));
        assert!(questions[0].why.contains("differs"), "{}", questions[0].why);
    }
}

#[tokio::test]
async fn a_yes_to_differing_calls_is_no_yes_to_a_repetition() {
    let lab = Lab::new();
    let (disk, _) = interrupted(&lab).await;
    let approver = Says::new(Answer::Session);
    let ran = attempt(&lab, &disk, &[to_bank("pay", "x"), to_bank("pay", "b")], approver.clone()).await;
    assert_eq!(ran.codes(), ["ok", "ok"]);
    let doubts: Vec<_> = approver.questions().iter().map(|question| question.doubt).collect();
    assert_eq!(doubts, [Some(Doubt::Differs), Some(Doubt::Unanswered)]);
}

#[tokio::test]
async fn a_call_is_not_made_unless_its_beginning_is_on_disk() {
    let calls = [to_bank("pay", "a"), to_bank("look", "b")];
    let run = async |lab: &Lab, fails: bool| {
        lab.run(calls.to_vec(), |request| {
            let log = Disk::default().log();
            request.call_log = CallLogging::In(Arc::new(if fails { log.failing(Write::Began) } else { log }));
        })
        .await
    };
    let lab = Lab::new();
    let ran = run(&lab, true).await;
    assert_eq!((ran.codes(), lab.done()), (vec!["not_logged", "ok"], vec!["look b".to_owned()]));
    let error = ran.replies[0].error.as_ref().unwrap();
    assert!(error.retryable && error.message.contains("the disk is full"), "{error:?}");
    let lab = Lab::new();
    assert_eq!((run(&lab, false).await.codes(), lab.done().len()), (vec!["ok", "ok"], 2));
}

#[tokio::test]
async fn code_does_not_see_an_answer_that_is_not_on_disk() {
    let (lab, disk) = (Lab::new(), Disk::default());
    let calls = vec![to_bank("pay", "a"), to_bank("look", "b"), to_bank("nothing", "")];
    let ran = lab
        .run(calls.clone(), |request| request.call_log = CallLogging::In(Arc::new(disk.log().failing(Write::Ended))))
        .await;
    assert_eq!((ran.codes(), lab.done().len()), (vec!["answer_not_kept", "ok", "tool_not_found"], 2));
    assert!(ran.message(0).contains("the call was made"), "{}", ran.message(0));
    let approver = Says::new(Answer::Refuse);
    let ran = attempt(&lab, &disk, &calls, approver.clone()).await;
    assert_eq!((ran.codes()[0], approver.questions().len()), ("may_have_happened", 1));
}

#[tokio::test]
async fn a_call_whose_answer_was_too_long_is_repeated_only_if_it_has_no_effect() {
    let (lab, disk) = (Lab::new(), Disk::default());
    let calls = [to_bank("statement", ""), to_bank("paid_statement", "")];
    let ran = attempt(&lab, &disk, &calls, Arc::new(Unasked)).await;
    assert_eq!((ran.codes(), lab.done().len()), (vec!["ok", "ok"], 2));
    let [kept] = &disk.calls()[..] else { panic!("{:?}", disk.calls().len()) };
    assert!(matches!(kept.answer, Some(CallAnswer::NotRecorded { bytes: 1_000_000.. })), "{:?}", kept.answer);
    for (answer, code, made) in [(Answer::Nobody, "may_have_happened", 3), (Answer::Once, "ok", 5)] {
        let approver = Says::new(answer);
        let ran = attempt(&lab, &disk, &calls, approver.clone()).await;
        assert_eq!((ran.codes(), lab.done().len()), (vec!["ok", code], made));
        let questions = approver.questions();
        assert_eq!((questions.len(), questions[0].doubt), (1, Some(Doubt::AnswerNotKept)));
    }
}

#[tokio::test]
async fn a_person_is_not_asked_twice_about_the_same_call() {
    for (answer, code, made) in [(Answer::Refuse, "denied_by_person", 0), (Answer::Once, "ok", 1)] {
        let (lab, disk, calls) = (Lab::new(), Disk::default(), [to_bank("erase", "all")]);
        for approver in [Says::new(answer) as Arc<dyn Approver>, Arc::new(Unasked)] {
            let ran = attempt(&lab, &disk, &calls, approver).await;
            assert_eq!((ran.codes(), lab.done().len()), (vec![code], made));
        }
    }
    // If nobody could be asked, a later attempt asks.
    let (lab, disk, calls) = (Lab::new(), Disk::default(), [to_bank("erase", "all")]);
    for (answer, code) in [(Answer::Nobody, "denied_unasked"), (Answer::Once, "ok")] {
        let ran = attempt(&lab, &disk, &calls, Says::new(answer)).await;
        assert_eq!(ran.codes(), [code]);
    }
}

/// The process dies at each write in turn, and then again in the attempt to resume. Nobody says yes, so no payment is
/// made twice; and an attempt that comes to its end gives the same answers to all later ones.
#[tokio::test]
async fn no_effect_is_repeated_wherever_the_process_dies() {
    let calls =
        [to_bank("pay", "a"), to_bank("look", "b"), to_bank("pay", "c"), to_bank("put", "d"), to_bank("pay", "e")];
    let points = || [Write::Began, Write::Ended].into_iter().flat_map(|write| (1..=5).map(move |at| (write, at)));
    for first in points() {
        for second in points() {
            let (lab, disk) = (Lab::new(), Disk::default());
            for (write, number) in [first, second] {
                lab.run(calls.to_vec(), |request| {
                    request.call_log = CallLogging::In(Arc::new(disk.log().dying(write, number, &request.cancel)));
                    request.approver = Says::new(Answer::Refuse);
                })
                .await;
            }
            let last = attempt(&lab, &disk, &calls, Says::new(Answer::Refuse)).await;
            let again = attempt(&lab, &disk, &calls, Arc::new(Unasked)).await;
            assert_eq!((last.replies.len(), &last.replies), (5, &again.replies), "{first:?} {second:?}");
            for payment in ["pay a", "pay c", "pay e"] {
                let times = lab.done().iter().filter(|done| *done == payment).count();
                assert!(times <= 1, "{first:?} {second:?}: {payment} {times} times");
            }
            let unsure = last.codes().into_iter().filter(|code| *code != "ok").collect::<Vec<_>>();
            assert!(unsure.len() <= 2 && unsure.iter().all(|code| *code == "may_have_happened"), "{unsure:?}");
        }
    }
}

/// An attempt whose calls are in a file.
async fn in_file(lab: &Lab, calls: &[Value], call_log: CallLogging, approver: Arc<dyn Approver>) -> Ran {
    let change = |request: &mut Request| (request.call_log, request.approver) = (call_log, approver);
    lab.run(calls.to_vec(), change).await
}

/// Resumes an execution with code that makes these calls.
async fn resumed(lab: &Lab, id: &ExecutionId, calls: &[Value], approver: Arc<dyn Approver>) -> Ran {
    let resumption = lab.resume(id).await.unwrap();
    assert_eq!(resumption.program().code, "servers.bank");
    in_file(lab, calls, CallLogging::Resuming(Arc::new(resumption)), approver).await
}

#[tokio::test]
async fn an_execution_that_is_resumed_repeats_no_call_but_one_that_failed() {
    let lab = Lab::new();
    let calls = [to_bank("pay", "a"), to_bank("late", "b"), to_bank("pay", "c")];
    let first = in_file(&lab, &calls[..2], CallLogging::Resumable, Arc::new(Unasked)).await;
    assert_eq!(first.codes(), ["ok", "tool_error"]);
    let id = &first.execution.execution_id;
    let second = resumed(&lab, id, &calls, Arc::new(Unasked)).await;
    assert_eq!(
        (second.codes(), lab.done()),
        (vec!["ok"; 3], ["pay a", "late b", "late b", "pay c"].map(String::from).into())
    );
    assert_eq!(second.execution.calls.iter().map(|call| call.replayed).collect::<Vec<_>>(), [true, false, false]);
    assert_ne!(second.execution.execution_id, *id);
    // By the ID of either attempt.
    for id in [id, &second.execution.execution_id] {
        let third = resumed(&lab, id, &calls, Arc::new(Unasked)).await;
        assert_eq!((&third.replies, lab.done().len()), (&second.replies, 4));
    }
    // The control: without it, all calls are made.
    in_file(&lab, &calls, CallLogging::Resumable, Arc::new(Unasked)).await;
    assert_eq!(lab.done().len(), 7);
}

#[tokio::test]
async fn a_call_that_was_under_way_when_the_execution_ended_is_asked_about() {
    let lab = Lab::new();
    let calls = [to_bank("pay", "a"), to_bank("pay", "b"), to_bank("pay", "c")];
    let first = in_file(&lab, &calls[..2], CallLogging::Resumable, Arc::new(Unasked)).await;
    // As if the process had died before the answer came.
    let id = &first.execution.execution_id;
    let file = lab.file(&format!("workspaces/local/calls/{id}.jsonl"));
    let text = std::fs::read_to_string(&file).unwrap();
    let kept: Vec<&str> = text.lines().collect();
    std::fs::write(&file, kept[..kept.len() - 1].join("\n") + "\n").unwrap();
    let approver = Says::new(Answer::Refuse);
    let second = resumed(&lab, id, &calls, approver.clone()).await;
    assert_eq!((second.codes(), lab.done().len()), (vec!["ok", "may_have_happened", "ok"], 3));
    assert_eq!(approver.questions()[0].doubt, Some(Doubt::Unanswered));
}

#[tokio::test]
async fn only_executions_with_calls_can_be_resumed_and_only_once_at_a_time() {
    let lab = Lab::new();
    let idle = in_file(&lab, &[], CallLogging::Resumable, Arc::new(Unasked)).await;
    assert!(!lab.file("workspaces/local/calls").exists());
    let unlogged = in_file(&lab, &[to_bank("pay", "a")], CallLogging::Off, Arc::new(Unasked)).await;
    for ran in [idle, unlogged] {
        let refused = lab.resume(&ran.execution.execution_id).await.unwrap_err();
        assert!(matches!(refused, ResumeError::NotKept(_)), "{refused}");
    }
    let ran = in_file(&lab, &[to_bank("pay", "b")], CallLogging::Resumable, Arc::new(Unasked)).await;
    let id = &ran.execution.execution_id;
    let resumption = lab.resume(id).await.unwrap();
    let refused = lab.resume(id).await.unwrap_err();
    assert!(matches!(refused, ResumeError::Running(_)), "{refused}");
    drop(resumption);
    lab.resume(id).await.unwrap();
}

/// The log has a maximum size: of further calls, those with an effect are in it without their answers.
#[tokio::test]
async fn a_log_does_not_grow_without_limit() {
    const MAX_LOG_BYTES: usize = 8 << 20;
    let (lab, disk) = (Lab::new(), Disk::default());
    let long = "x".repeat(200_000);
    let calls: Vec<Value> = (0..45).map(|_| to_bank("pay", &long)).chain([to_bank("look", &long)]).collect();
    let ran = attempt(&lab, &disk, &calls, Arc::new(Unasked)).await;
    assert_eq!((ran.codes(), lab.done().len()), (vec!["ok"; 46], 46));
    let logged = disk.calls();
    assert!(serde_json::to_string(&logged).unwrap().len() <= MAX_LOG_BYTES);
    let kept = |entry: &&EarlierCall| matches!(entry.answer, Some(CallAnswer::Answer(_)));
    assert_eq!((logged.len(), logged.iter().filter(kept).count()), (45, 41));
    assert!(logged[41..].iter().all(|entry| matches!(entry.answer, Some(CallAnswer::NotRecorded { .. }))));
}

/// Makes one search, and returns its answer.
async fn search(lab: &Lab, disk: &Disk) -> Value {
    let answer: Arc<Mutex<Value>> = Arc::default();
    let heard = Arc::clone(&answer);
    let backend = FakeBackend::new(vec![script(move |mut guest| async move {
        let run = guest.run().await;
        let params = json!({ "query": "pay", "limit": 1 });
        guest.say(json!({ "type": "call", "id": 0, "method": "search", "params": params })).await;
        let ToGuest::Reply(reply) = guest.hear().await else { panic!("no reply") };
        *heard.lock().unwrap() = reply.value;
        guest.say(done(run)).await;
        guest.live_on().await
    })]);
    let (execution, _) = lab.play(backend, |request| request.call_log = CallLogging::In(Arc::new(disk.log()))).await;
    assert!(execution.success, "{execution:?}");
    let answer = answer.lock().unwrap();
    answer.clone()
}

#[tokio::test]
async fn answers_to_searches_are_replayed_too() {
    let (lab, disk) = (Lab::new(), Disk::default());
    let found = search(&lab, &disk).await;
    assert_eq!(found.as_array().unwrap().len(), 1, "{found}");
    let [logged] = &disk.calls()[..] else { panic!() };
    assert_eq!((logged.call.what.as_str(), &logged.answer), ("search", &Some(CallAnswer::Answer(found))));
    disk.set_answer(1, CallAnswer::Answer(json!("as it was then")));
    assert_eq!(search(&lab, &disk).await, "as it was then");
}
