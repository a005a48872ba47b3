//! Histories that real servers reject, each beside one that they accept.

use coracle_scripted_model::{Call as ScriptCall, Library, Reasoning, Script, Step, Then, Wire};
use serde_json::{Value, json};

use crate::client::{
    Assistant, Call, Entry, Result, User, WIRES, answer, refusal, request, send, send_with, start, with_tools,
};

fn library() -> Library {
    let mut library = Library::single([[Step::text("ok")]]);
    library.scripts.insert("main".to_owned(), Script::new([[Step::text("ok")]]).then(Then::Repeat));
    library
}

/// Each of these histories is rejected by all wires, with these words.
#[tokio::test]
async fn calls_and_results_belong_together() {
    let server = start(library()).await;
    let good =
        [User("a"), Call("c1", "f"), Call("c2", "g"), Result("c1", "x"), Result("c2", "y"), Assistant("b"), User("c")];
    let without_call: &[Entry] = &[User("a"), Result("c1", "x")];
    let wrong_id: &[Entry] = &[User("a"), Call("c1", "f"), Result("c2", "x")];
    let without_result: &[Entry] = &[User("a"), Call("c1", "f"), User("b")];
    let unfinished: &[Entry] = &[User("a"), Call("c1", "f")];
    for wire in WIRES {
        // Chat has all calls of a turn in one message.
        let mut accepted = request(wire, &good);
        if wire == Wire::Chat {
            let second = accepted["messages"].as_array_mut().unwrap().remove(2);
            accepted["messages"][1]["tool_calls"].as_array_mut().unwrap().push(second["tool_calls"][0].clone());
        }
        answer(&server, wire, &accepted).await;
        for history in [without_call, wrong_id, without_result, unfinished] {
            let (status, message) = refusal(&server, wire, &request(wire, history)).await;
            assert_eq!(status, 400);
            let is_about_calls = ["tool_calls", "tool call found", "tool output found", "tool_use"];
            assert!(is_about_calls.iter().any(|words| message.contains(words)), "{wire:?} {history:?}: {message}");
        }
    }
}

#[tokio::test]
async fn roles_and_contents_are_checked() {
    let server = start(library()).await;
    let cases = [
        (Wire::Chat, json!([{"role": "robot", "content": "x"}]), "Invalid value: 'robot'"),
        (Wire::Chat, json!([{"role": "user"}]), "'messages[0].content'"),
        (Wire::Chat, json!([]), "empty array"),
        (Wire::Responses, json!([{"role": "robot", "content": "x"}]), "Invalid value: 'robot'"),
        (
            Wire::Responses,
            json!([{"role": "assistant", "content": [{"type": "input_text", "text": "x"}]}]),
            "'output_text'",
        ),
        (Wire::Responses, json!([{"type": "item_reference", "id": "i1"}]), "Item with id 'i1' not found"),
        (
            Wire::Responses,
            json!([{"type": "reasoning", "id": "r1", "summary": []}]),
            "without its required following item",
        ),
        (Wire::Messages, json!([{"role": "assistant", "content": "x"}]), "first message must use the \"user\" role"),
        (Wire::Messages, json!([{"role": "system", "content": "x"}]), "Unexpected role \"system\""),
        (Wire::Messages, json!([{"role": "user", "content": "x"}, {"role": "assistant", "content": "y"}]), "prefill"),
        (Wire::Messages, json!([{"role": "user", "content": ""}]), "non-empty"),
    ];
    for (wire, history, words) in cases {
        let mut request = request(wire, &[User("a")]);
        answer(&server, wire, &request).await;
        request[if wire == Wire::Responses { "input" } else { "messages" }] = history;
        let (_, message) = refusal(&server, wire, &request).await;
        assert!(message.contains(words), "{message}");
    }
}

#[tokio::test]
async fn required_fields_are_required() {
    let server = start(library()).await;
    for wire in WIRES {
        let fields: &[&str] = if wire == Wire::Messages { &["model", "max_tokens", "messages"] } else { &["model"] };
        for field in fields {
            let mut request = request(wire, &[User("a")]);
            answer(&server, wire, &request).await;
            request.as_object_mut().unwrap().remove(*field);
            let (status, message) = refusal(&server, wire, &request).await;
            assert_eq!(status, 400);
            assert!(message.contains(field), "{message}");
        }
    }
}

#[tokio::test]
async fn keys_and_models_are_checked() {
    let server = start(Library { key: Some("k1".to_owned()), models: vec!["m".to_owned()], ..library() }).await;
    for wire in WIRES {
        let header = |key: &str| match wire {
            Wire::Messages => ("x-api-key", key.to_owned()),
            _ => ("authorization", format!("Bearer {key}")),
        };
        let request = request(wire, &[User("a")]);
        let (name, good) = header("k1");
        assert_eq!(send_with(&server, wire, &request, &[(name, &good)]).await.status(), 200);
        assert_eq!(send_with(&server, wire, &request, &[(name, &header("k2").1)]).await.status(), 401);
        assert_eq!(send(&server, wire, &request).await.status(), 401);
        let mut other = request.clone();
        other["model"] = "other".into();
        assert_eq!(send_with(&server, wire, &other, &[(name, &good)]).await.status(), 404);
    }
}

#[tokio::test]
async fn tools_and_their_choice_are_checked() {
    let server = start(library()).await;
    let object = json!({"type": "object", "properties": {}});
    for wire in WIRES {
        let choose = |name: &str| match wire {
            Wire::Chat => json!({"type": "function", "function": {"name": name}}),
            Wire::Responses => json!({"type": "function", "name": name}),
            Wire::Messages => json!({"type": "tool", "name": name}),
        };
        let mut chosen = with_tools(wire, request(wire, &[User("a")]), &[("f", object.clone())]);
        chosen["tool_choice"] = choose("f");
        answer(&server, wire, &chosen).await;
        chosen["tool_choice"] = choose("g");
        assert!(refusal(&server, wire, &chosen).await.1.contains("not found"));
        let named = with_tools(wire, request(wire, &[User("a")]), &[("a.b", object.clone())]);
        assert!(refusal(&server, wire, &named).await.1.contains("pattern"));
    }
}

#[tokio::test]
async fn signed_thinking_must_come_back_on_messages() {
    let turns = [vec![Step::reasoning("hm"), Step::call("f", json!({}))], vec![Step::text("ok")]];
    let server = start(Library::single(turns)).await;
    let wire = Wire::Messages;
    let first = answer(&server, wire, &request(wire, &[User("a")])).await;
    assert_eq!(first["content"][0]["thinking"], "hm");
    let history = |content: Value| {
        let result = json!([{"type": "tool_result", "tool_use_id": first["content"][1]["id"], "content": "x"}]);
        json!({"model": "m", "max_tokens": 9, "messages": [
            {"role": "user", "content": "a"},
            {"role": "assistant", "content": content},
            {"role": "user", "content": result},
        ]})
    };
    assert_eq!(answer(&server, wire, &history(first["content"].clone())).await["content"][0]["text"], "ok");
    let mut unsigned = first["content"].clone();
    unsigned[0].as_object_mut().unwrap().remove("signature");
    assert!(refusal(&server, wire, &history(unsigned)).await.1.contains("signature: Field required"));
    let mut changed = first["content"].clone();
    changed[0]["thinking"] = "oh".into();
    assert!(refusal(&server, wire, &history(changed)).await.1.contains("Invalid `signature`"));
    let without = json!([first["content"][1]]);
    assert!(refusal(&server, wire, &history(without)).await.1.contains("Expected `thinking`"));
}

#[tokio::test]
async fn encrypted_reasoning_must_come_back_on_responses() {
    let reasoning = Reasoning { text: "hm".to_owned(), encrypted: true, redacted: false };
    let turns = [vec![Step::Reasoning(reasoning), Step::call("f", json!({}))], vec![Step::text("ok")]];
    let server = start(Library::single(turns)).await;
    let wire = Wire::Responses;
    let history = |items: &[&Value]| {
        let mut input = vec![json!({"role": "user", "content": "a"})];
        input.extend(items.iter().map(|item| (*item).clone()));
        json!({"model": "m", "store": false, "include": ["reasoning.encrypted_content"], "input": input})
    };
    let first = answer(&server, wire, &history(&[])).await;
    let (reasoning, call) = (&first["output"][0], &first["output"][1]);
    let result = json!({"type": "function_call_output", "call_id": call["call_id"], "output": "x"});
    let second = answer(&server, wire, &history(&[reasoning, call, &result])).await;
    assert_eq!(second["output"][0]["content"][0]["text"], "ok");
    assert!(refusal(&server, wire, &history(&[call, &result])).await.1.contains("required 'reasoning' item"));
    let mut changed = reasoning.clone();
    changed["encrypted_content"] = "changed".into();
    assert!(refusal(&server, wire, &history(&[&changed, call, &result])).await.1.contains("could not be verified"));
    changed.as_object_mut().unwrap().remove("encrypted_content");
    assert!(refusal(&server, wire, &history(&[&changed, call, &result])).await.1.contains("not persisted"));
    let mut plain = history(&[]);
    plain.as_object_mut().unwrap().remove("include");
    assert_eq!(answer(&server, wire, &plain).await["output"][0]["encrypted_content"], Value::Null);
}

#[tokio::test]
async fn thought_signatures_must_come_back_on_chat() {
    let call = ScriptCall { thought_signature: true, ..ScriptCall::new("f", json!({})) };
    let server = start(Library::single([[Step::Call(call)], [Step::text("ok")]])).await;
    let wire = Wire::Chat;
    let first = answer(&server, wire, &request(wire, &[User("a")])).await;
    let message = &first["choices"][0]["message"];
    let history = |message: &Value| {
        let result = json!({"role": "tool", "tool_call_id": message["tool_calls"][0]["id"], "content": "x"});
        json!({"model": "m", "messages": [{"role": "user", "content": "a"}, message, result]})
    };
    assert_eq!(answer(&server, wire, &history(message)).await["choices"][0]["message"]["content"], "ok");
    let mut unsigned = message.clone();
    unsigned["tool_calls"][0].as_object_mut().unwrap().remove("extra_content");
    assert!(refusal(&server, wire, &history(&unsigned)).await.1.contains("missing a thought_signature"));
}
