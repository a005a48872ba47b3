//! Model servers on this machine are found by their answers, and nothing else is taken for one.

#![expect(clippy::unwrap_used, reason = "a test that cannot continue should panic")]

use axum::Router;
use axum::body::Body;
use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use coracle_models::{FoundServer, LOCAL_SERVERS, LocalServer, find_servers};
use futures::stream;
use serde_json::{Value, json};
use std::convert::Infallible;

const OLLAMA: LocalServer = LOCAL_SERVERS[0];
const LM_STUDIO: LocalServer = LOCAL_SERVERS[1];
const LLAMA_CPP: LocalServer = LOCAL_SERVERS[2];

/// Serves a route on a free port, and returns the base URL.
async fn serve(router: Router) -> String {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}/v1", listener.local_addr().unwrap());
    tokio::spawn(async move { axum::serve(listener, router).await });
    url
}

/// A server that sends this value at this path.
async fn answering(path: &'static str, answer: Value) -> String {
    serve(Router::new().route(path, get(move || async move { axum::Json(answer) }))).await
}

async fn models(server: LocalServer, url: &str) -> Vec<String> {
    let found = find_servers(vec![(server, url.to_owned())]).await;
    found.into_iter().flat_map(|found| found.models).collect()
}

fn openai_list(names: &[&str]) -> Value {
    let models: Vec<Value> = names.iter().map(|name| json!({"id": name, "object": "model"})).collect();
    json!({"object": "list", "data": models})
}

#[test]
fn the_usual_addresses_are_on_the_loopback_interface() {
    let urls = LOCAL_SERVERS.map(|server| server.usual_url());
    assert_eq!(urls, ["http://127.0.0.1:11434/v1", "http://127.0.0.1:1234/v1", "http://127.0.0.1:8080/v1"]);
}

#[tokio::test]
async fn every_kind_of_server_is_found() {
    let tags = json!({"models": [
        {"name": "qwen3:8b", "details": {"family": "qwen3"}},
        {"name": "minilm:latest", "details": {"family": "bert"}},
        {"name": "nomic-embed-text:latest", "details": {"family": "nomic-bert"}},
        {"name": "gpt-oss:120b-cloud", "remote_model": "gpt-oss:120b", "remote_host": "https://ollama.com:443"},
    ]});
    let ollama = answering("/api/tags", tags).await;
    let lm_studio =
        answering("/v1/models", openai_list(&["qwen/qwen3-4b", "text-embedding-nomic-embed-text-v1.5"])).await;
    let llama_cpp = answering("/v1/models", openai_list(&["model.gguf"])).await;
    let places = [(OLLAMA, &ollama), (LM_STUDIO, &lm_studio), (LLAMA_CPP, &llama_cpp)];
    let found = find_servers(places.map(|(server, url)| (server, url.clone())).into()).await;
    let expected = [["qwen3:8b"], ["qwen/qwen3-4b"], ["model.gguf"]];
    let expected: Vec<FoundServer> = places
        .into_iter()
        .zip(expected)
        .map(|((server, url), models)| FoundServer {
            server,
            url: url.clone(),
            models: models.map(str::to_owned).into(),
        })
        .collect();
    assert_eq!(found, expected);
}

#[tokio::test]
async fn other_programs_are_not_taken_for_model_servers() {
    for answer in [
        json!([]),
        json!({"object": "list"}),
        json!({"object": "list", "data": "models"}),
        json!({"data": [{"id": "model", "object": "model"}]}),
        json!({"object": "list", "data": [{"id": "model"}, {"id": 1, "object": "model"}, 7]}),
        openai_list(&["", "two words", "line\nbreak", &"x".repeat(129)]),
    ] {
        let url = answering("/v1/models", answer.clone()).await;
        assert_eq!(models(LLAMA_CPP, &url).await, [""; 0], "{answer}");
    }
    let list = openai_list(&["model"]).to_string();
    let refusal = (StatusCode::UNAUTHORIZED, list.clone()).into_response();
    let redirect = |to: String| (StatusCode::FOUND, [(header::LOCATION, to)]).into_response();
    let elsewhere = answering("/v1/models", openai_list(&["model"])).await;
    let endless = Body::from_stream(stream::repeat_with(|| Ok::<_, Infallible>(" ".repeat(1 << 16))));
    let responses: [(&str, Response); 5] = [
        ("page", axum::response::Html("<h1>It works!</h1>").into_response()),
        ("refusal", refusal),
        ("redirect", redirect(format!("{elsewhere}/models"))),
        ("endless", Response::new(endless)),
        ("silent", Response::new(Body::from_stream(stream::pending::<Result<String, Infallible>>()))),
    ];
    for (name, response) in responses {
        let response = std::sync::Mutex::new(Some(response));
        let answer = move || {
            let response = response.lock().unwrap().take();
            async move { response.unwrap() }
        };
        let answer = std::sync::Arc::new(answer);
        let url = serve(Router::new().route("/v1/models", get(move || answer()))).await;
        assert_eq!(models(LM_STUDIO, &url).await, [""; 0], "{name}");
    }
    // The same list is accepted where it is an answer.
    let url = serve(Router::new().route("/v1/models", get(move || async move { list }))).await;
    assert_eq!(models(LM_STUDIO, &url).await, ["model"]);
    assert_eq!(models(OLLAMA, &url).await, [""; 0]);
}

#[tokio::test]
async fn a_list_has_a_limit() {
    let names: Vec<String> = (0..5_000).map(|number| format!("m{number}")).collect();
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    let url = answering("/v1/models", openai_list(&names)).await;
    assert_eq!(models(LLAMA_CPP, &url).await.len(), 100);
}
