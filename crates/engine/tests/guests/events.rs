//! Events of calls, questions and artifacts.

use crate::fake::{FakeBackend, done, script};
use crate::lab::{Lab, Says, rule, to_bank};
use async_trait::async_trait;
use coracle_policy::{Answer, Approver, Question};
use coracle_types::{Decision, ErrorCode, Event};
use serde_json::json;
use std::path::PathBuf;
use std::sync::{Arc, OnceLock};
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;

/// The events without those of output.
fn short(events: &[Event]) -> Vec<String> {
    let text = |event: &Event| match event {
        Event::Output { .. } | Event::Sandbox(_) | Event::Waiting { .. } => None,
        Event::CallBegan { number, server, tool, arguments, .. } => {
            Some(format!("{number} began {server}.{tool} {arguments}"))
        }
        Event::Asked { number, server, tool, why, .. } => Some(format!("{number} asked {server}.{tool}: {why}")),
        Event::Answered { number, allowed, .. } => Some(format!("{number} answered {allowed}")),
        Event::CallEnded { number, call } => Some(format!("{number} ended {}", call.code.as_deref().unwrap_or("ok"))),
        Event::Artifact(artifact) => Some(format!("artifact {} {}", artifact.path, artifact.bytes)),
    };
    events.iter().filter_map(text).collect()
}

#[tokio::test]
async fn calls_are_reported_as_they_begin_and_end() {
    let lab = Lab::with_rules(vec![rule("bank.erase", Decision::Deny)]);
    let calls = vec![to_bank("pay", "ann"), to_bank("erase", "all"), crate::tools::to("x", "y\u{1b}", &json!({}))];
    let ran = lab.run(calls, |_| {}).await;
    assert_eq!(
        short(&ran.events),
        [
            r#"1 began bank.pay {"text":"ann"}"#,
            "1 ended ok",
            r#"2 began bank.erase {"text":"all"}"#,
            "2 ended denied_by_policy",
            "3 began x.y\u{1b} {}",
            "3 ended unknown_server",
        ]
    );
    // The same calls as in the result.
    let ended = |event: &Event| if let Event::CallEnded { call, .. } = event { Some(call.clone()) } else { None };
    assert_eq!(ran.events.iter().filter_map(ended).collect::<Vec<_>>(), ran.execution.calls);
}

#[tokio::test]
async fn questions_and_their_answers_are_reported() {
    for (answer, allowed, code) in [(Answer::Once, true, "ok"), (Answer::Refuse, false, "denied_by_person")] {
        let approver = Says::new(answer);
        let lab = Lab::new();
        let ran = lab
            .run(vec![to_bank("erase", "all"), to_bank("pay", "ann")], |request| request.approver = approver.clone())
            .await;
        let why = "the tool is marked as destructive";
        let expected = [
            r#"1 began bank.erase {"text":"all"}"#.to_owned(),
            format!("1 asked bank.erase: {why}"),
            format!("1 answered {allowed}"),
            format!("1 ended {code}"),
            r#"2 began bank.pay {"text":"ann"}"#.to_owned(),
            "2 ended ok".to_owned(),
        ];
        assert_eq!(short(&ran.events), expected);
        let [question] = &approver.questions()[..] else { panic!() };
        let asked = |event: &&Event| match event {
            Event::Asked { question, .. } | Event::Answered { question, .. } => Some(question.clone()),
            _ => None,
        };
        let named: Vec<String> = ran.events.iter().filter_map(|event| asked(&event)).collect();
        assert_eq!(named, [question.id.to_string(), question.id.to_string()]);
    }
}

/// Cancels the execution when it is asked, and never answers.
#[derive(Debug)]
struct Cancels(CancellationToken);

#[async_trait]
impl Approver for Cancels {
    async fn ask(&self, _: Question) -> Answer {
        self.0.cancel();
        std::future::pending().await
    }
}

#[tokio::test]
async fn a_cancelled_call_ends_too() {
    let lab = Lab::new();
    let ran = lab
        .run(vec![to_bank("erase", "all")], |request| request.approver = Arc::new(Cancels(request.cancel.clone())))
        .await;
    assert_eq!(ran.execution.failure.unwrap().error_code, ErrorCode::Cancelled);
    let events = short(&ran.events);
    assert_eq!(events.first().unwrap(), r#"1 began bank.erase {"text":"all"}"#);
    assert_eq!(events.last().unwrap(), "1 ended cancelled");
    assert!(lab.done().is_empty());
}

#[tokio::test]
async fn artifacts_are_reported_when_they_are_kept() {
    let place: Arc<OnceLock<PathBuf>> = Arc::default();
    let folder = Arc::clone(&place);
    let backend = FakeBackend::new(vec![script(move |mut guest| async move {
        let run = guest.run().await;
        std::fs::write(folder.get().unwrap().join("plot.txt"), "hello").unwrap();
        guest.say(done(run)).await;
        guest.live_on().await
    })]);
    place.set(backend.artifacts(1)).unwrap();
    let (execution, events) = Lab::new().play(backend, |_| {}).await;
    assert_eq!(short(&events), ["artifact /artifacts/plot.txt 5"]);
    assert_eq!(events.last(), Some(&Event::Artifact(execution.artifacts[0].clone())));
}

/// A listener that reads nothing until the execution has ended delays calls as it delays output, and ends with the
/// execution's own clock. One that is gone delays nothing.
#[tokio::test]
async fn a_listener_may_be_slow_or_gone() {
    let calls = || (0..4).map(|number| to_bank("pay", &number.to_string())).collect::<Vec<_>>();
    let lab = Lab::new();
    let ran = lab
        .run(calls(), |request| {
            let (sender, listener) = mpsc::channel(1);
            request.events = Some(sender);
            drop(listener);
        })
        .await;
    assert_eq!((ran.codes(), lab.done().len()), (vec!["ok"; 4], 4));

    // One place for the state of the sandbox, and one for a call.
    let (sender, mut listener) = mpsc::channel(2);
    let lab = Lab::new();
    let ran = lab
        .run(calls(), |request| {
            request.events = Some(sender);
            request.limits.wall_ms = 1_000;
        })
        .await;
    assert_eq!(ran.execution.failure.unwrap().error_code, ErrorCode::Timeout);
    // The end of the first call waits beside the code; the beginning of the second one holds the code up.
    assert_eq!(lab.done(), ["pay 0"]);
    let mut heard = Vec::new();
    while let Some(event) = listener.recv().await {
        heard.push(event);
    }
    assert_eq!(short(&heard)[..2], [r#"1 began bank.pay {"text":"0"}"#, "1 ended ok"]);
}

#[tokio::test]
async fn calls_at_once_have_different_numbers() {
    let backend = FakeBackend::new(vec![script(move |mut guest| async move {
        let run = guest.run().await;
        for id in 0..20 {
            let params = to_bank("pay", &id.to_string());
            guest.say(json!({ "type": "call", "id": id, "method": "tool", "params": params })).await;
        }
        for _ in 0..20 {
            guest.hear().await;
        }
        guest.say(done(run)).await;
        guest.live_on().await
    })]);
    let lab = Lab::new();
    let (_, events) = lab.play(backend, |_| {}).await;
    let numbers = |wanted: fn(&Event) -> Option<u64>| {
        let mut numbers: Vec<u64> = events.iter().filter_map(wanted).collect();
        numbers.sort_unstable();
        numbers
    };
    let began = numbers(|event| if let Event::CallBegan { number, .. } = event { Some(*number) } else { None });
    let ended = numbers(|event| if let Event::CallEnded { number, .. } = event { Some(*number) } else { None });
    assert_eq!((&began, &ended), (&(1..=20).collect(), &(1..=20).collect()));
    assert_eq!(lab.done().len(), 20);
}
