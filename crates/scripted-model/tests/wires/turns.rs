//! What is played, and that both forms of an answer say the same.

use coracle_scripted_model::{FinishReason, Library, Played, Script, Step, UsageFigures, Wire};
use serde_json::json;

use crate::client::{
    Assistant, Call, Result, User, WIRES, answer, calls, events, has_end, reason, request, send, start, streamed,
    streamed_text, text,
};

fn library() -> Library {
    Library::single([
        vec![Step::text("Let me see."), Step::call("look", json!({"at": ["{{user}}"]}))],
        vec![Step::pieces(&["It is ", "{{result}}", "."])],
    ])
    .with("other", Script::new([[Step::text("other")]]))
}

#[tokio::test]
async fn a_turn_is_chosen_by_the_history_on_every_wire() {
    let server = start(library()).await;
    for wire in WIRES {
        let first = answer(&server, wire, &request(wire, &[User("Where?")])).await;
        assert_eq!(text(wire, &first), "Let me see.");
        assert_eq!(calls(wire, &first), [("look".to_owned(), json!({"at": ["Where?"]}))]);
        let history = [User("Where?"), Call("c1", "look"), Result("c1", "here")];
        let second = answer(&server, wire, &request(wire, &history)).await;
        assert_eq!(text(wire, &second), "It is here.");
        let other = [User("Where?"), Assistant("x"), User("now [script:other]")];
        assert_eq!(text(wire, &answer(&server, wire, &request(wire, &other)).await), "other");
        let played = server.model().requests().last().unwrap().played;
        assert_eq!(played, Some(Played { script: "other".to_owned(), turn: 0 }));
    }
}

#[tokio::test]
async fn finish_reasons_follow_the_turn_or_the_script() {
    let turn = |finish| [Step::text("x"), Step::Finish(finish)];
    let library = library()
        .with("length", Script::new([turn(FinishReason::Length)]))
        .with("filter", Script::new([turn(FinishReason::ContentFilter)]));
    let server = start(library).await;
    let expected = [
        (Wire::Chat, ["tool_calls", "stop", "length", "content_filter"]),
        (Wire::Responses, ["completed", "completed", "max_output_tokens", "content_filter"]),
        (Wire::Messages, ["tool_use", "end_turn", "max_tokens", "refusal"]),
    ];
    for (wire, expected) in expected {
        for (message, expected) in
            ["Hi", "[script:other]", "[script:length]", "[script:filter]"].into_iter().zip(expected)
        {
            assert_eq!(reason(wire, &answer(&server, wire, &request(wire, &[User(message)])).await), expected);
        }
    }
}

#[tokio::test]
async fn a_stream_says_the_same_as_a_whole_answer() {
    let server = start(library()).await;
    for wire in WIRES {
        let history = [User("Where?"), Call("c1", "look"), Result("c1", "here")];
        let response = send(&server, wire, &streamed(request(wire, &history))).await;
        assert_eq!(response.headers()["content-type"], "text/event-stream; charset=utf-8");
        let events = events(&response.text().await.unwrap());
        assert_eq!(streamed_text(wire, &events), "It is here.");
        assert!(has_end(wire, &events), "{events:?}");
    }
}

#[tokio::test]
async fn token_counts_are_estimated_cached_or_scripted() {
    let figures = UsageFigures { input: Some(100), cached: Some(60), output: Some(7), reasoning: Some(2) };
    let scripted = Script::new([[Step::text("x"), Step::Usage(figures)]]);
    let server = start(library().with("scripted", scripted)).await;
    let long = Box::leak("word ".repeat(200).into_boxed_str());
    for wire in [Wire::Chat, Wire::Responses] {
        let cached = |answer: &serde_json::Value| {
            let usage = &answer["usage"];
            let details = if wire == Wire::Chat { "prompt_tokens_details" } else { "input_tokens_details" };
            usage[details]["cached_tokens"].as_u64().unwrap()
        };
        let keyed = |mut request: serde_json::Value, key: &str| {
            request["prompt_cache_key"] = format!("{key}{wire:?}").into();
            request
        };
        let first = request(wire, &[User(long)]);
        let longer = request(wire, &[User(long), Assistant("x"), User("more")]);
        assert_eq!(cached(&answer(&server, wire, &keyed(first.clone(), "a")).await), 0);
        let hit = cached(&answer(&server, wire, &keyed(longer.clone(), "a")).await);
        assert!((200..300).contains(&hit), "{hit}");
        assert_eq!(cached(&answer(&server, wire, &keyed(longer, "b")).await), 0);
        assert_eq!(cached(&answer(&server, wire, &request(wire, &[User("[script:scripted]")])).await), 60);
    }
    let usage = answer(&server, Wire::Chat, &request(Wire::Chat, &[User("[script:scripted]")])).await["usage"].clone();
    assert_eq!(
        (&usage["prompt_tokens"], &usage["completion_tokens"], &usage["total_tokens"]),
        (&json!(100), &json!(7), &json!(107))
    );
}

#[tokio::test]
async fn messages_caches_what_comes_before_a_mark() {
    let server = start(library()).await;
    let long = "word ".repeat(200);
    let marked = |mark: bool| {
        let mut block = json!({"type": "text", "text": long});
        if mark {
            block["cache_control"] = json!({"type": "ephemeral"});
        }
        json!({"model": "m", "max_tokens": 9, "messages": [{"role": "user", "content": [block]}]})
    };
    let usage = async |mark| answer(&server, Wire::Messages, &marked(mark)).await["usage"].clone();
    let plain = usage(false).await;
    assert_eq!((&plain["cache_read_input_tokens"], &plain["cache_creation_input_tokens"]), (&json!(0), &json!(0)));
    let written = usage(true).await["cache_creation_input_tokens"].as_u64().unwrap();
    assert!(written >= 250, "{written}");
    let read = usage(true).await["cache_read_input_tokens"].as_u64().unwrap();
    assert!(read >= 240, "{read}");
}
