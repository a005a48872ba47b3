//! What the server tells tests about requests.

use std::time::Duration;

use coracle_scripted_model::{Library, Script, Step, Then, Wire};
use serde_json::Value;

use crate::client::{User, WIRES, answer, request, send, send_with, start, streamed};

fn library() -> Library {
    Library::single([[Step::text("ok")]]).with("gate", Script::new([[Step::gate("never")]]).then(Then::Repeat))
}

#[tokio::test]
async fn requests_are_counted_and_recorded() {
    let server = start(library()).await;
    let requests = server.model().requests();
    assert_eq!(requests.count(), 0);
    let second = requests.clone();
    let waiting = tokio::spawn(async move { second.arrived(2).await });
    for wire in [Wire::Chat, Wire::Messages] {
        assert!(!waiting.is_finished());
        send_with(&server, wire, &request(wire, &[User("Hi")]), &[("x-test", "yes")]).await;
    }
    waiting.await.unwrap();
    assert_eq!(requests.count(), 2);
    let all = requests.all();
    assert_eq!(all[0].body, request(Wire::Chat, &[User("Hi")]));
    assert_eq!((all[1].wire, all[1].headers["x-test"].as_str()), (Wire::Messages, "yes"));
}

#[tokio::test]
async fn rejected_requests_are_recorded_as_well() {
    let server = start(library()).await;
    assert_eq!(send(&server, Wire::Chat, &Value::Null).await.status(), 400);
    let last = server.model().requests().last().unwrap();
    assert_eq!((last.number, last.played), (1, None));
}

#[tokio::test]
async fn clients_that_leave_are_noticed() {
    let server = start(library()).await;
    for (number, wire) in WIRES.into_iter().enumerate() {
        let whole = request(wire, &[User("[script:gate]")]);
        let response = send(&server, wire, &streamed(whole.clone())).await;
        server.model().gates().reached("never").await;
        drop(response);
        let abandoned = 2 * number as u64 + 1;
        server.model().requests().abandoned(abandoned).await;
        server.model().gates().close("never");
        tokio::select! {
            response = send(&server, wire, &whole) => panic!("{response:?}"),
            () = server.model().gates().reached("never") => {}
        }
        server.model().requests().abandoned(abandoned + 1).await;
        server.model().gates().close("never");
    }
}

#[tokio::test]
async fn a_stopped_server_breaks_off_its_answers() {
    let server = start(library()).await;
    let url = server.url();
    let response = send(&server, Wire::Chat, &streamed(request(Wire::Chat, &[User("[script:gate]")]))).await;
    server.model().gates().reached("never").await;
    tokio::time::timeout(Duration::from_mins(1), server.stop()).await.unwrap().unwrap();
    assert!(response.text().await.is_err());
    assert!(reqwest::Client::builder().no_proxy().build().unwrap().get(url).send().await.is_err());
}

#[tokio::test]
async fn a_restarted_server_continues_a_conversation_with_other_ids() {
    let library =
        || Library::single([[Step::call("f", serde_json::json!({}))], [Step::call("f", serde_json::json!({}))]]);
    let wire = Wire::Chat;
    let first = answer(&start(library()).await, wire, &request(wire, &[User("Hi")])).await;
    let message = first["choices"][0]["message"].clone();
    let id = message["tool_calls"][0]["id"].clone();
    let result = serde_json::json!({"role": "tool", "tool_call_id": id, "content": "x"});
    let history = serde_json::json!({"model": "m", "messages": [{"role": "user", "content": "Hi"}, message, result]});
    let second = answer(&start(library()).await, wire, &history).await;
    assert_ne!(second["choices"][0]["message"]["tool_calls"][0]["id"], id);
}

#[tokio::test]
async fn models_are_listed_on_both_wires() {
    let server = start(Library { models: vec!["a".to_owned(), "b".to_owned()], ..library() }).await;
    let client = reqwest::Client::builder().no_proxy().build().unwrap();
    let url = format!("{}/models", server.url());
    let openai: Value = client.get(&url).send().await.unwrap().json().await.unwrap();
    assert_eq!((&openai["object"], &openai["data"][1]["id"]), (&"list".into(), &"b".into()));
    let anthropic = client.get(&url).header("anthropic-version", "2023-06-01").send().await.unwrap();
    let anthropic: Value = anthropic.json().await.unwrap();
    assert_eq!((&anthropic["has_more"], &anthropic["data"][0]["type"]), (&false.into(), &"model".into()));
    assert_eq!(client.get(format!("{url}/a")).send().await.unwrap().status(), 200);
    assert_eq!(client.get(format!("{url}/c")).send().await.unwrap().status(), 404);
}
