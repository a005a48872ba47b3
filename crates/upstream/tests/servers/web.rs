//! A web server for tests: a well-behaved MCP server, and endpoints that misbehave.

use axum::Json;
use axum::Router;
use axum::body::{Body, Bytes};
use axum::extract::{Path, State};
use axum::http::{HeaderMap, StatusCode};
use axum::response::{IntoResponse, Redirect, Response};
use axum::routing::{any, get, post};
use coracle_types::{Secret, ServerSpec, Transport};
use futures::stream;
use rmcp::ServerHandler;
use rmcp::model::{
    CallToolRequestParams, CallToolResponse, CallToolResult, ContentBlock, ErrorData, ListToolsResult,
    PaginatedRequestParams, ServerCapabilities, ServerConfig, Tool,
};
use rmcp::service::{RequestContext, RoleServer};
use rmcp::transport::streamable_http_server::session::local::LocalSessionManager;
use rmcp::transport::streamable_http_server::{StreamableHttpServerConfig, StreamableHttpService};
use serde_json::{Map, Value, json};
use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, Mutex};
use tokio::net::TcpListener;
use tokio::sync::mpsc;

/// A server with the one tool `echo`.
#[derive(Clone)]
pub(crate) struct Echo;

impl ServerHandler for Echo {
    fn get_info(&self) -> ServerConfig {
        ServerConfig::new(ServerCapabilities::builder().enable_tools().build())
    }

    async fn list_tools(
        &self,
        _: Option<PaginatedRequestParams>,
        _: RequestContext<RoleServer>,
    ) -> Result<ListToolsResult, ErrorData> {
        let schema = Map::from_iter([("type".to_owned(), json!("object"))]);
        Ok(ListToolsResult { tools: vec![Tool::new("echo", "Says it again.", schema)], ..ListToolsResult::default() })
    }

    async fn call_tool(
        &self,
        request: CallToolRequestParams,
        _: RequestContext<RoleServer>,
    ) -> Result<CallToolResponse, ErrorData> {
        let text = serde_json::to_string(&request.arguments).unwrap();
        Ok(CallToolResult::success(vec![ContentBlock::text(text)]).into())
    }
}

/// The MCP server as a service.
pub(crate) fn echo_service(answers_are_json: bool) -> StreamableHttpService<Echo, LocalSessionManager> {
    let config = StreamableHttpServerConfig::default().with_json_response(answers_are_json);
    StreamableHttpService::new(|| Ok(Echo), std::sync::Arc::default(), config)
}

/// Serves until the test ends. Returns the base URL.
pub(crate) async fn serve(router: Router) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    tokio::spawn(async move { axum::serve(listener, router).await });
    format!("http://{address}")
}

pub(crate) fn http(name: &str, url: &str) -> ServerSpec {
    crate::lab::spec(name, Transport::Http { url: Secret::new(url), headers: BTreeMap::new() })
}

pub(crate) fn sse(name: &str, url: &str) -> ServerSpec {
    crate::lab::spec(name, Transport::Sse { url: Secret::new(url), headers: BTreeMap::new() })
}

/// A server of the older transport with the tool `echo`: `/sse` for its messages, `/messages` for those of clients.
pub(crate) fn events() -> Router {
    type Streams = Arc<Mutex<HashMap<String, mpsc::UnboundedSender<String>>>>;

    async fn stream(State(streams): State<Streams>) -> Response {
        let (sender, receiver) = mpsc::unbounded_channel();
        let name = {
            let mut streams = streams.lock().unwrap();
            let name = streams.len().to_string();
            sender.send(format!("event: endpoint\ndata: /messages/{name}\n\n")).unwrap();
            streams.insert(name.clone(), sender);
            name
        };
        tracing::debug!(name, "a stream was opened");
        let events = stream::unfold(receiver, |mut receiver| async move {
            let event = receiver.recv().await?;
            Some((Ok::<_, std::io::Error>(event), receiver))
        });
        ([("content-type", "text/event-stream")], Body::from_stream(events)).into_response()
    }

    async fn message(
        State(streams): State<Streams>,
        Path(name): Path<String>,
        Json(message): Json<Value>,
    ) -> StatusCode {
        let params = &message["params"];
        let result = match message["method"].as_str().unwrap_or_default() {
            "initialize" => json!({
                "protocolVersion": "2024-11-05", "capabilities": {"tools": {}},
                "serverInfo": {"name": "events", "version": "1"},
            }),
            "tools/list" => json!({"tools": [{"name": "echo", "inputSchema": {"type": "object"}}]}),
            "tools/call" => json!({"content": [{"type": "text", "text": params["arguments"].to_string()}]}),
            _ => json!({}),
        };
        if let Some(id) = message.get("id") {
            let answer = json!({"jsonrpc": "2.0", "id": id, "result": result});
            // The client may have disconnected.
            let _ = streams.lock().unwrap()[&name].send(format!("event: message\ndata: {answer}\n\n"));
        }
        StatusCode::ACCEPTED
    }

    Router::new().route("/sse", get(stream)).route("/messages/{name}", post(message)).with_state(Streams::default())
}

/// All endpoints: `/mcp`, `/mcp-json`, `/rogue/MODE`, `/sse/MODE`.
pub(crate) fn everything() -> Router {
    Router::new()
        .nest_service("/mcp", echo_service(false))
        .nest_service("/mcp-json", echo_service(true))
        .route("/rogue/{mode}", any(rogue))
        .route("/sse/{mode}", get(endpoint))
        .route("/elsewhere", any(|| async { (StatusCode::OK, "nobody should come here") }))
}

/// Answers `initialize` and `tools/list` correctly, and misbehaves when `act` is called.
async fn rogue(Path(mode): Path<String>, headers: HeaderMap, body: Bytes) -> Response {
    let Ok(message) = serde_json::from_slice::<Value>(&body) else {
        return StatusCode::METHOD_NOT_ALLOWED.into_response();
    };
    let answer =
        |result: Value| axum::Json(json!({"jsonrpc": "2.0", "id": message["id"], "result": result})).into_response();
    let method = message["method"].as_str().unwrap_or_default();
    match (mode.as_str(), method) {
        ("down", _) => StatusCode::SERVICE_UNAVAILABLE.into_response(),
        ("html", _) => axum::response::Html("<h1>Hello</h1>").into_response(),
        ("redirect", _) => Redirect::temporary("http://localhost:1/elsewhere").into_response(),
        (_, "server/discover") => (StatusCode::BAD_REQUEST, "what?").into_response(),
        (_, "initialize") => answer(json!({
            "protocolVersion": "2025-06-18", "capabilities": {"tools": {}}, "serverInfo": {"name": "rogue", "version": "1"}
        })),
        (_, "tools/list") => answer(json!({"tools": [{"name": "act", "inputSchema": {"type": "object"}}]})),
        ("headers", "tools/call") => {
            let seen = headers.get("x-test").and_then(|value| value.to_str().ok()).unwrap_or_default();
            answer(json!({"content": [{"type": "text", "text": seen}]}))
        }
        ("huge-json", "tools/call") => huge("application/json", ""),
        ("huge-events", "tools/call") => huge("text/event-stream", "data: "),
        ("fails", "tools/call") if message["params"]["arguments"]["slowly"] == true => {
            tokio::time::sleep(std::time::Duration::from_secs(1)).await;
            answer(json!({"content": [{"type": "text", "text": "late"}]}))
        }
        ("fails", "tools/call") => StatusCode::INTERNAL_SERVER_ERROR.into_response(),
        ("unknown", "tools/call") => answer(json!({"content": [{"type": "hologram", "light": 1}]})),
        _ if message["id"].is_null() => StatusCode::ACCEPTED.into_response(),
        _ => answer(json!({"content": [{"type": "text", "text": "done"}]})),
    }
}

/// 100 MB, generated while they are sent.
fn huge(kind: &'static str, start: &'static str) -> Response {
    let chunks = std::iter::once(Bytes::from_static(start.as_bytes()))
        .chain(std::iter::repeat_n(Bytes::from(vec![b'x'; 1_000_000]), 100));
    let body = Body::from_stream(stream::iter(chunks.map(Ok::<_, std::io::Error>)));
    ([("content-type", kind)], body).into_response()
}

/// Event streams that announce endpoints that they should not.
async fn endpoint(Path(mode): Path<String>) -> Response {
    let event = match mode.as_str() {
        "elsewhere" => "event: endpoint\ndata: http://localhost:1/elsewhere\n\n",
        "nothing" => "event: other\ndata: x\n\n",
        _ => return StatusCode::NOT_FOUND.into_response(),
    };
    ([("content-type", "text/event-stream")], event).into_response()
}
