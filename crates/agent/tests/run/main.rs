//! The loop between a model and its tools.

#![expect(clippy::unwrap_used, clippy::expect_used, reason = "a test that cannot continue should panic")]

mod fakes;

use coracle_agent::{Agent, CodeFences, Ended, NotSteered, RunEvent, RunLimits, RunOutcome, RunRequest, Steering};
use coracle_models::{Item, ModelError, ModelEvent, ModelRequest, Part, StopReason, ToolDefinition, Usage};
use fakes::{Model, Play, Shared, Tools, USAGE};
use serde_json::{Map, json};
use std::collections::BTreeSet;
use std::sync::Arc;
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;

struct Lab {
    model: Arc<Model>,
    tools: Arc<Tools>,
    limits: RunLimits,
    request: ModelRequest,
    fences: CodeFences,
    steering: Steering,
    cancel: CancellationToken,
}

impl Lab {
    fn new(plays: impl IntoIterator<Item = Play>) -> Self {
        let request = ModelRequest {
            model: "m".to_owned(),
            items: vec![Item::User { parts: vec![Part::text("do it")] }],
            ..ModelRequest::default()
        };
        Self {
            model: Arc::new(Model::new(plays)),
            tools: Arc::default(),
            limits: RunLimits::default(),
            request,
            fences: CodeFences::default(),
            steering: Steering::default(),
            cancel: CancellationToken::new(),
        }
    }

    async fn run(&self) -> (RunOutcome, Vec<RunEvent>) {
        self.run_with(|_| {}).await
    }

    async fn run_with(&self, change: impl FnOnce(&mut RunRequest)) -> (RunOutcome, Vec<RunEvent>) {
        let agent = Agent::new(self.tools.clone(), self.limits);
        let mut run = RunRequest::new(self.model.clone(), self.request.clone());
        run.fences = self.fences;
        run.steering = self.steering.clone();
        run.cancel = self.cancel.clone();
        change(&mut run);
        let (sender, mut receiver) = mpsc::channel(4);
        let mut events = Vec::new();
        let listening = async {
            while let Some(event) = receiver.recv().await {
                events.push(event);
            }
        };
        let (outcome, ()) = tokio::join!(agent.run(run, sender), listening);
        assert_valid(&outcome);
        (outcome, events)
    }

    fn asked(&self) -> usize {
        self.model.requests.lock().unwrap().len()
    }
}

/// Every call has exactly one result, after it, except those that the client answers.
fn assert_valid(outcome: &RunOutcome) {
    let theirs: BTreeSet<&str> = match &outcome.ended {
        Ended::ClientCalls(calls) => calls.iter().map(|call| call.id.as_str()).collect(),
        _ => BTreeSet::new(),
    };
    let mut open = Vec::new();
    for item in &outcome.items {
        match item {
            Item::Call(call) if !theirs.contains(call.id.as_str()) => open.push(call.id.as_str()),
            Item::Result(result) => {
                let place = open.iter().position(|id| *id == result.call_id).expect("a result follows its call");
                open.remove(place);
            }
            _ => {}
        }
    }
    assert_eq!(open, [""; 0], "calls without a result");
}

fn results(items: &[Item]) -> Vec<(String, String, bool)> {
    let text = |parts: &[Part]| {
        parts
            .iter()
            .filter_map(|part| if let Part::Text { text } = part { Some(text.as_str()) } else { None })
            .collect::<String>()
    };
    let result = |item: &Item| match item {
        Item::Result(result) => Some((result.call_id.clone(), text(&result.parts), result.is_error)),
        _ => None,
    };
    items.iter().filter_map(result).collect()
}

#[tokio::test]
async fn calls_run_until_the_model_is_done() {
    let lab = Lab::new([Play::Calls(vec![("a", "run", json!({"code": "1"}))]), Play::Text("done")]);
    let (outcome, events) = lab.run().await;
    assert_eq!((outcome.ended, outcome.steps), (Ended::Done, 2));
    assert_eq!(results(&outcome.items), [("a".to_owned(), r#"run: {"code":"1"}"#.to_owned(), false)]);
    let mut total = USAGE;
    total += USAGE;
    assert_eq!(outcome.usage, total);
    assert!(events.contains(&RunEvent::Model(ModelEvent::Text("done".to_owned()))));
    let kinds: Vec<&str> = events
        .iter()
        .filter_map(|event| match event {
            RunEvent::CallStarted { .. } => Some("started"),
            RunEvent::CallUpdate { .. } => Some("update"),
            RunEvent::CallEnded { .. } => Some("ended"),
            _ => None,
        })
        .collect();
    assert_eq!(kinds, ["started", "update", "ended"]);
    // The second request continues the first one.
    let requests = lab.model.requests.lock().unwrap();
    assert_eq!(requests[1].items[..1], requests[0].items[..]);
    assert_eq!(requests[1].items.len(), 3);
}

#[tokio::test]
async fn calls_of_one_answer_run_at_once_and_keep_their_order() {
    let calls = vec![("a", "meet", json!({})), ("b", "run", json!({})), ("c", "meet", json!({}))];
    let lab = Lab::new([Play::Calls(calls), Play::Text("done")]);
    let (outcome, _) = lab.run().await;
    let ids: Vec<String> = results(&outcome.items).into_iter().map(|(id, ..)| id).collect();
    assert_eq!(ids, ["a", "b", "c"]);
}

#[tokio::test]
async fn mistakes_are_answered_to_the_model() {
    let unknown = Play::Calls(vec![("u", "rm_rf", json!({}))]);
    let no_object = Play::Calls(vec![("n", "run", json!([1]))]);
    let lab = Lab::new([Play::Malformed, unknown, no_object, Play::Text("done")]);
    let (outcome, _) = lab.run().await;
    let results = results(&outcome.items);
    assert!(results[0].1.contains("not valid JSON: send the call again") && results[0].2, "{results:?}");
    assert!(results[1].1.contains("there is no tool `rm_rf`; there are: run, meet, hang"), "{results:?}");
    assert!(results[2].1.contains("must be a JSON object"), "{results:?}");
    assert_eq!(outcome.ended, Ended::Done);
    assert!(lab.tools.called.lock().unwrap().is_empty());
    // Servers reject conversations with arguments that are not JSON.
    let requests = lab.model.requests.lock().unwrap();
    let Item::Call(call) = &requests[1].items[1] else { panic!("{:?}", requests[1].items) };
    assert_eq!(call.arguments, r#"{"malformed_arguments":"{\"code\": \"pri"}"#);
}

#[tokio::test]
async fn a_call_of_the_client_ends_the_run() {
    let calls = vec![("mine", "run", json!({})), ("theirs", "get_weather", json!({"city": "Rome"}))];
    let mut lab = Lab::new([Play::Calls(calls)]);
    lab.request.tools.push(ToolDefinition {
        name: "get_weather".to_owned(),
        description: String::new(),
        parameters: Map::new(),
        strict: None,
    });
    let (outcome, _) = lab.run().await;
    let Ended::ClientCalls(calls) = &outcome.ended else { panic!("{:?}", outcome.ended) };
    assert_eq!(calls.iter().map(|call| call.id.as_str()).collect::<Vec<_>>(), ["theirs"]);
    assert_eq!(results(&outcome.items).len(), 1);
    let offered: Vec<String> =
        lab.model.requests.lock().unwrap()[0].tools.iter().map(|tool| tool.name.clone()).collect();
    assert_eq!(offered, ["run", "meet", "hang", "late", "get_weather"]);
}

#[tokio::test]
async fn runs_end_at_their_limits() {
    let again = |number: &'static str| Play::Calls(vec![(number, "run", json!({"n": number}))]);
    let mut lab = Lab::new([again("1"), again("2"), again("3"), again("4")]);
    lab.limits.steps = 3;
    assert_eq!(lab.run().await.0.ended, Ended::Steps(3));
    let mut lab = Lab::new([again("1"), again("2"), again("3")]);
    lab.limits.tokens = 150;
    let (outcome, _) = lab.run().await;
    assert_eq!((outcome.ended, outcome.steps), (Ended::Tokens(150), 2));
    let mut lab = Lab::new([Play::Calls(vec![("1", "run", json!({})), ("2", "run", json!({}))])]);
    lab.limits.calls = 1;
    assert_eq!(lab.run().await.0.ended, Ended::Calls(1));
    assert!(lab.tools.called.lock().unwrap().is_empty());
}

#[tokio::test]
async fn a_model_that_repeats_itself_is_told_and_then_stopped() {
    let lab = Lab::new([Play::Calls(vec![("x", "run", json!({"same": true}))])]);
    let (outcome, _) = lab.run().await;
    assert_eq!((outcome.ended.clone(), outcome.steps), (Ended::Loop, 5));
    let results = results(&outcome.items);
    assert!(!results[1].1.contains("same call") && results[2].1.contains("same call"), "{results:?}");
}

#[tokio::test]
async fn a_stop_ends_the_model_and_leaves_a_valid_history() {
    let lab = Lab::new([Play::Hang]);
    let stopping = async {
        lab.model.asked.notified().await;
        lab.cancel.cancel();
    };
    let ((outcome, _), ()) = tokio::join!(lab.run(), stopping);
    assert_eq!(outcome.ended, Ended::Cancelled);
}

#[tokio::test]
async fn a_stop_ends_calls_and_leaves_a_valid_history() {
    let lab = Lab::new([Play::Calls(vec![("a", "hang", json!({})), ("b", "hang", json!({}))]), Play::Text("done")]);
    let stopping = async {
        lab.tools.started.notified().await;
        lab.cancel.cancel();
    };
    let ((outcome, _), ()) = tokio::join!(lab.run(), stopping);
    assert_eq!(outcome.ended, Ended::Cancelled);
    assert_eq!((lab.asked(), results(&outcome.items).len()), (1, 2));
}

#[tokio::test]
async fn nobody_has_to_listen() {
    let lab = Lab::new([Play::Calls(vec![("a", "run", json!({}))]), Play::Text("done")]);
    let (sender, receiver) = mpsc::channel(1);
    drop(receiver);
    let agent = Agent::new(lab.tools.clone(), lab.limits);
    let outcome = agent.run(RunRequest::new(lab.model.clone(), lab.request.clone()), sender).await;
    assert_eq!(outcome.ended, Ended::Done);
}

#[tokio::test]
async fn code_in_the_text_is_run_if_the_model_calls_no_tools() {
    let fenced = "I run this:\n```python\nprint(1)\n```\n";
    let lab = Lab::new([Play::Text(fenced), Play::Text("It printed 1.")]);
    let (outcome, _) = lab.run().await;
    assert_eq!(outcome.text(), "It printed 1.");
    let called = lab.tools.called.lock().unwrap()[0].clone();
    assert_eq!((called.0.as_str(), called.1["code"].as_str()), ("run", Some("print(1)\n")));
    let mut lab = Lab::new([Play::Text(fenced)]);
    lab.fences = CodeFences::Never;
    assert_eq!(lab.run().await.0.text(), fenced);
    // A model that calls tools explains code, and does not mean to run it.
    let lab = Lab::new([Play::Calls(vec![("a", "run", json!({}))]), Play::Text(fenced)]);
    assert_eq!(lab.run().await.0.text(), fenced);
    assert_eq!(lab.tools.called.lock().unwrap().len(), 1);
}

#[tokio::test]
async fn a_message_during_the_run_reaches_the_next_step() {
    let lab = Lab::new([Play::Calls(vec![("a", "meet", json!({})), ("b", "meet", json!({}))]), Play::Text("done")]);
    let steering = async {
        lab.tools.started.notified().await;
        assert_eq!(lab.steering.add(vec![Part::text("in French")]), Ok(()));
    };
    let ((outcome, events), ()) = tokio::join!(lab.run(), steering);
    assert_eq!(outcome.ended, Ended::Done);
    assert!(events.contains(&RunEvent::Steered { parts: vec![Part::text("in French")] }));
    let requests = lab.model.requests.lock().unwrap();
    assert_eq!(requests.last().unwrap().items.last(), Some(&Item::User { parts: vec![Part::text("in French")] }));
}

#[tokio::test]
async fn a_message_that_no_step_gets_stays_in_the_conversation() {
    let message = || vec![Part::text("stop that")];
    let lab = Lab::new([Play::Calls(vec![("a", "meet", json!({})), ("b", "meet", json!({}))]), Play::Text("done")]);
    let stopping = async {
        lab.tools.started.notified().await;
        assert_eq!(lab.steering.add(message()), Ok(()));
        lab.cancel.cancel();
    };
    let ((outcome, events), ()) = tokio::join!(lab.run(), stopping);
    assert_eq!(outcome.ended, Ended::Cancelled);
    assert_eq!(outcome.items.last(), Some(&Item::User { parts: message() }));
    assert!(!events.iter().any(|event| matches!(event, RunEvent::Steered { .. })), "no step has got it");
    assert_eq!(lab.steering.add(message()), Err(NotSteered::Ended));
    // The same after a run that is done.
    let lab = Lab::new([Play::Text("done")]);
    assert_eq!(lab.run().await.0.ended, Ended::Done);
    assert_eq!(lab.steering.add(message()), Err(NotSteered::Ended));
}

#[test]
fn only_so_many_messages_wait() {
    let steering = Steering::default();
    let added = (0..100).take_while(|_| steering.add(vec![Part::text("x")]).is_ok()).count();
    assert_eq!((added, steering.add(Vec::new())), (32, Err(NotSteered::TooMany)));
}

#[tokio::test]
async fn a_run_whose_last_answer_is_recorded_ends_without_another() {
    for (stop, ended) in [(StopReason::End, Ended::Done), (StopReason::Length, Ended::Length)] {
        let lab = Lab::new([Play::Text("again")]);
        let (outcome, _) = lab.run_with(|run| run.earlier.last = Some(stop)).await;
        assert_eq!((outcome.ended, outcome.items, lab.model.requests.lock().unwrap().len()), (ended, Vec::new(), 0));
    }
    // A message that has arrived since is answered.
    let lab = Lab::new([Play::Text("again")]);
    let (outcome, _) = lab
        .run_with(|run| {
            run.earlier.last = Some(StopReason::End);
            run.steering.add(vec![Part::text("more")]).unwrap();
        })
        .await;
    assert_eq!((outcome.ended, lab.model.requests.lock().unwrap().len()), (Ended::Done, 1));
}

#[tokio::test]
async fn an_answer_that_breaks_off_is_asked_for_again() {
    let broken = || Play::Fail(ModelError::Interrupted { provider: "p".to_owned(), reason: "cut".to_owned() });
    let lab = Lab::new([broken(), broken(), Play::Text("done")]);
    let (outcome, events) = lab.run().await;
    assert_eq!((outcome.ended, lab.asked()), (Ended::Done, 3));
    assert_eq!(events.iter().filter(|event| matches!(event, RunEvent::Repeated { .. })).count(), 2);
    let lab = Lab::new([broken()]);
    assert!(matches!(lab.run().await.0.ended, Ended::Failed(ModelError::Interrupted { .. })));
    assert_eq!(lab.asked(), 3);
}

#[tokio::test]
async fn a_full_context_is_shortened() {
    let full = Play::Fail(ModelError::ContextFull { message: "too long".to_owned() });
    let mut lab = Lab::new([full.clone(), Play::Text("a summary"), Play::Text("done")]);
    let message = |text: &str| Item::User { parts: vec![Part::text(text)] };
    let answer = |text: &str| Item::Assistant { text: text.to_owned(), native: None };
    let old = "old ".repeat(500);
    lab.request.items = vec![message("first"), answer(&old), message("second"), answer("ok"), message("third")];
    let (outcome, events) = lab.run().await;
    assert_eq!(outcome.ended, Ended::Done);
    assert!(events.contains(&RunEvent::Compacted));
    let shortened = outcome.compacted.unwrap();
    assert!(
        matches!(&shortened[0], Item::User { parts } if matches!(&parts[0], Part::Text { text } if text.contains("a summary")))
    );
    assert!(shortened.contains(&message("third")) && !shortened.contains(&answer(&old)));
    // Nothing can be left out of a single message.
    let lab = Lab::new([full]);
    assert!(matches!(lab.run().await.0.ended, Ended::Failed(ModelError::ContextFull { .. })));
}

#[tokio::test]
async fn absurd_token_counts_end_the_run() {
    let lab_with = |plays: Vec<Play>| {
        let mut lab = Lab::new(plays);
        lab.limits.context_tokens = Some(1_000);
        lab.limits.tokens = u64::MAX;
        lab
    };
    let call = Play::Calls(vec![("a", "run", json!({}))]);
    let lab = lab_with(vec![call, Play::Text("done")]);
    lab.model.usage.lock().unwrap().input_tokens = u64::MAX;
    assert_eq!(lab.run().await.0.ended, Ended::Tokens(u64::MAX));
}

#[tokio::test]
async fn an_answer_that_is_too_long_says_so() {
    let lab = Lab::new([Play::Cut("The answer is")]);
    let (outcome, _) = lab.run().await;
    assert_eq!((outcome.ended.clone(), outcome.text()), (Ended::Length, "The answer is"));
    assert_eq!(outcome.usage, Usage { ..USAGE });
}

#[tokio::test]
async fn calls_go_on_while_a_result_is_recorded() {
    let calls = Play::Calls(vec![("first", "run", json!({})), ("last", "late", json!({}))]);
    let lab = Lab::new([calls, Play::Text("done")]);
    let running = lab.run_with(|run| run.journal = Arc::new(Shared(lab.tools.clone())));
    let limit = std::time::Duration::from_mins(1);
    let (outcome, _) = tokio::time::timeout(limit, running).await.expect("the journal and the call do not wait");
    assert_eq!((outcome.ended, outcome.steps), (Ended::Done, 2));
}
