//! Servers and their tools over `/api`, with two users.

use crate::lab::{Lab, code};
use crate::plain::{answer, get, lab, person};
use coracle_store::KeyScope;
use serde_json::{Value, json};

const LONG: u64 = 600;

async fn call(lab: &Lab, key: &str, path: &str, arguments: Value) -> (u16, Value) {
    let request = lab.post(&format!("/api/tools/{path}/call")).bearer_auth(key);
    answer(request.json(&json!({ "arguments": arguments })).send().await.unwrap()).await
}

/// The process of the server that this user is connected to.
async fn process(lab: &Lab, key: &str, server: &str) -> u64 {
    let (status, result) = call(lab, key, &format!("{server}/process"), json!({})).await;
    assert_eq!(status, 200, "{result}");
    let text: Value = serde_json::from_str(result["content"][0]["text"].as_str().unwrap()).unwrap();
    text["pid"].as_u64().unwrap()
}

async fn act(lab: &Lab, key: &str, server: &str, what: &str) -> (u16, Value) {
    answer(lab.post(&format!("/api/servers/{server}/{what}")).bearer_auth(key).send().await.unwrap()).await
}

#[tokio::test]
async fn servers_are_listed_with_their_state() {
    let lab = lab(LONG).await;
    let admin = lab.key("ann", &[KeyScope::Api, KeyScope::Admin]).await;
    let (ann, bob) = (lab.key("ann", &[KeyScope::Api]).await, lab.key("bob", &[KeyScope::Api]).await);
    let states = |list: &Value| -> Vec<(String, String)> {
        let text = |value: &Value| value.as_str().unwrap().to_owned();
        let servers = list["servers"].as_array().unwrap().iter();
        servers.map(|server| (text(&server["name"]), text(&server["state"]))).collect()
    };
    let all = |plain: &str| {
        [("broken", "cannot_be_used"), ("common", "not_listed"), ("off", "switched_off"), ("plain", plain)]
            .map(|(name, state)| (name.to_owned(), state.to_owned()))
    };
    let list = get(&lab, &bob, "/api/servers").await;
    assert_eq!(states(&list), all("not_listed"), "{list:#}");
    let broken = &list["servers"][0];
    assert_eq!((&broken["problem"], &broken["hint"]), (&json!("its command is missing"), &json!("add a command")));

    let (status, tested) = act(&lab, &bob, "plain", "test").await;
    assert_eq!(
        (status, &tested["ok"], &tested["tools"], &tested["server"]),
        (200, &json!(true), &json!(11), &json!("plain 1"))
    );
    let list = get(&lab, &bob, "/api/servers").await;
    assert_eq!(states(&list), all("listed"), "{list:#}");
    let plain = get(&lab, &bob, "/api/servers/plain").await;
    assert_eq!((&plain["tools"], &plain["connection"], &plain["scope"]), (&json!(11), &json!("ready"), &json!("user")));
    assert_eq!(plain, list["servers"][3]);
    // Each user has a connection of their own.
    assert_eq!(states(&get(&lab, &ann, "/api/servers").await), all("not_listed"));
    assert_eq!(get(&lab, &ann, "/api/servers/plain").await["connection"], "idle");

    // Commands are the operator's.
    assert!(
        !list.to_string().contains("python3") && !get(&lab, &ann, "/api/servers").await.to_string().contains("python3")
    );
    assert_eq!(
        get(&lab, &admin, "/api/servers/plain").await["transport"]["command"],
        "/usr/bin/python3",
        "the control"
    );
    for (name, what) in [("nothing", "test"), ("off", "test"), ("broken", "restart"), ("..%2Fplain", "test")] {
        assert_eq!(act(&lab, &bob, name, what).await.0, 404, "{name}");
    }
    assert_eq!(code(lab.get("/api/servers/nothing").bearer_auth(&bob).send().await.unwrap()).await.0, 404);
}

#[tokio::test]
async fn a_user_restarts_only_their_own_connection() {
    let lab = lab(LONG).await;
    let admin = lab.key("ann", &[KeyScope::Api, KeyScope::Admin]).await;
    let (ann, bob) = (lab.key("ann", &[KeyScope::Api]).await, lab.key("bob", &[KeyScope::Api]).await);
    let before = (process(&lab, &ann, "plain").await, process(&lab, &bob, "plain").await);
    let shared = process(&lab, &bob, "common").await;
    assert_ne!(before.0, before.1);
    assert_eq!(shared, process(&lab, &ann, "common").await);
    assert_eq!(act(&lab, &bob, "plain", "restart").await.0, 204);
    assert_eq!(process(&lab, &ann, "plain").await, before.0);
    assert_ne!(process(&lab, &bob, "plain").await, before.1);

    for key in [&bob, &ann] {
        let (status, refused) = act(&lab, key, "common", "restart").await;
        assert_eq!((status, &refused["code"]), (403, &json!("admins_only")));
    }
    assert_eq!(process(&lab, &bob, "common").await, shared);
    assert_eq!(act(&lab, &admin, "common", "restart").await.0, 204, "the control");
    assert_ne!(process(&lab, &bob, "common").await, shared);
}

#[tokio::test]
async fn tools_are_listed_found_and_shown() {
    let lab = lab(LONG).await;
    let bob = lab.key("bob", &[KeyScope::Api]).await;
    let list = get(&lab, &bob, "/api/tools?server=plain").await;
    assert_eq!((&list["count"], list["tools"].as_array().unwrap().len()), (&json!(11), 11), "{list:#}");
    assert_eq!(list["missing"][0]["server"], "broken");
    let page = get(&lab, &bob, "/api/tools?server=plain&limit=2&offset=1").await;
    assert_eq!(
        (&page["count"], &page["tools"][0], &page["tools"][1]),
        (&json!(11), &list["tools"][1], &list["tools"][2])
    );
    let found = get(&lab, &bob, "/api/tools?search=wIpE").await;
    assert_eq!((&found["count"], &found["tools"][0]["package"]), (&json!(2), &json!("common")), "{found:#}");
    assert_eq!(get(&lab, &bob, "/api/tools?server=broken").await["count"], 0);

    let found = get(&lab, &bob, "/api/tools/search?query=remove%20something&server=plain&limit=1").await;
    assert_eq!(found["tools"][0]["name"], "plain.wipe", "{found:#}");
    assert!(found["tools"][0]["score"].as_f64().unwrap() > 0.0 && found["tools"][0]["summary"].is_string());
    let typed = get(&lab, &bob, "/api/tools/search?query=remove%20something&level=python&server=plain&limit=1").await;
    assert!(typed["tools"][0]["python"].as_str().unwrap().contains("def wipe"), "{typed:#}");

    let shown = get(&lab, &bob, "/api/tools/plain/wipe").await;
    assert_eq!(shown["input_schema"]["required"], json!(["what"]));
    assert!(
        shown["python"].as_str().unwrap().contains("def wipe")
            && shown["typescript"].as_str().unwrap().contains("wipe")
    );
    let policy = &shown["policy"];
    assert_eq!((&policy["decision"], &policy["remembered"]), (&json!("ask"), &Value::Null), "{policy:#}");
    assert!(policy["allow_line"].as_str().unwrap().contains("plain.wipe"), "{policy:#}");
    assert_eq!(get(&lab, &bob, "/api/tools/plain/echo").await["policy"]["decision"], "allow");
    let denied = get(&lab, &bob, "/api/tools/plain/fail").await;
    assert_eq!(denied["policy"]["decision"], "deny");
    assert!(denied["policy"]["reason"].as_str().unwrap().contains("plain.fail"), "{denied:#}");

    for wrong in ["/api/tools/plain/nothing", "/api/tools/nothing/echo", "/api/tools?server=nothing"] {
        assert_eq!(
            code(lab.get(wrong).bearer_auth(&bob).send().await.unwrap()).await,
            (404, "not_found".to_owned()),
            "{wrong}"
        );
    }
    for wrong in [
        "/api/tools?limit=0",
        "/api/tools?limit=1001",
        "/api/tools/search",
        "/api/tools/search?query=x&level=all",
        "/api/tools/select?task=x&top=0",
        "/api/tools/select?task=x&language=c",
    ] {
        let refused = lab.get(wrong).bearer_auth(&bob).send().await.unwrap();
        assert_eq!(code(refused).await, (400, "invalid_request".to_owned()), "{wrong}");
    }
}

#[tokio::test]
async fn a_tool_is_called_through_the_broker() {
    let lab = lab(LONG).await;
    let bob = person(&lab, "bob").await;
    let (status, result) = call(&lab, &bob, "plain/echo", json!({ "text": "hello" })).await;
    assert_eq!((status, &result["content"][0]["text"]), (200, &json!("hello")), "{result:#}");
    let told = |(status, body): (u16, Value)| (status, body["code"].as_str().unwrap_or_default().to_owned());
    let denied = call(&lab, &bob, "plain/fail", json!({ "message": "x" })).await;
    assert_eq!(told(denied), (403, "denied_by_policy".to_owned()));
    let (status, failed) = call(&lab, &bob, "common/fail", json!({ "message": "no" })).await;
    assert_eq!((status, &failed["isError"]), (200, &json!(true)), "the control");
    assert_eq!(told(call(&lab, &bob, "plain/nothing", json!({})).await).0, 404);
    assert_eq!(told(call(&lab, &bob, "nothing/echo", json!({})).await).0, 404);
    assert_eq!(told(call(&lab, &bob, "broken/echo", json!({})).await).0, 404);
    assert_eq!(told(call(&lab, &bob, "plain/echo", json!([1])).await), (400, "invalid_request".to_owned()));
    let large = call(&lab, &bob, "plain/large", json!({ "bytes": 9 << 20 })).await;
    assert_eq!(told(large).0, 413);
    let long = call(&lab, &bob, "plain/echo", json!({ "text": "x".repeat(5 << 20) })).await;
    assert_eq!(told(long).0, 413);
    let mcp = lab.key("bob", &[KeyScope::Mcp, KeyScope::Approve]).await;
    for path in ["/api/tools", "/api/servers", "/api/approvals", "/api/decisions", "/api/tools/plain/echo"] {
        let refused = code(lab.get(path).bearer_auth(&mcp).send().await.unwrap()).await;
        assert_eq!(refused, (403, "insufficient_scope".to_owned()), "{path}");
    }
    assert_eq!(told(call(&lab, &mcp, "plain/echo", json!({ "text": "x" })).await).0, 403);
}
