//! A client around `coracle-upstream` that the suite starts: uses everything that the server offers, and signs in when
//! asked to.

use async_trait::async_trait;
use coracle_types::{OauthClient, Scope, Secret, ServerName, ServerSpec, Transport, UserId};
use coracle_upstream::{
    CallContext, Options, Question, QuestionKind, Refusal, Reverse, SignInReturn, Upstream, UpstreamError,
};
use serde_json::{Map, Value, json};
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;

/// Maximum number of sign-ins.
const SIGN_INS: usize = 3;
/// Time limit of a client; many start at once.
const PATIENCE: Duration = Duration::from_mins(1);
/// Address of the client metadata document that the suite knows.
const DESCRIPTION: &str = "https://conformance-test.local/client-metadata.json";

/// Variable with the name of the scenario.
pub(crate) const SCENARIO: &str = "MCP_CONFORMANCE_SCENARIO";
/// In this scenario, the suite takes any connection after the end of a call's stream for the client's reconnection, so
/// the stream for unsolicited messages must be open before.
const RETURNS: &str = "sse-retry";
const OPEN_BY_THEN: Duration = Duration::from_secs(2);
/// Variable with data for the client, in JSON.
const CONTEXT: &str = "MCP_CONFORMANCE_CONTEXT";

/// Uses the server at this address.
pub(crate) fn drive(address: &str) -> Result<(), String> {
    let context = std::env::var(CONTEXT).ok().and_then(|text| serde_json::from_str(&text).ok()).unwrap_or(Value::Null);
    let runtime =
        tokio::runtime::Builder::new_multi_thread().enable_all().build().map_err(|error| error.to_string())?;
    runtime.block_on(async {
        let client = Client::new(address, &context)?;
        let outcome = client.use_everything(&context).await;
        client.upstream.shutdown().await;
        outcome.map_err(|error| error.to_string())
    })
}

struct Client {
    upstream: Upstream,
    user: UserId,
    server: ServerName,
    capabilities: Map<String, Value>,
}

impl Client {
    fn new(address: &str, context: &Value) -> Result<Self, String> {
        let server = ServerName::new("suite").map_err(|error| error.to_string())?;
        let spec = ServerSpec {
            name: server.clone(),
            transport: Transport::Http { url: Secret::new(address), headers: BTreeMap::new() },
            scope: Scope::User,
            description: None,
            category: None,
            client: Some(client(context)),
            start_timeout: PATIENCE,
            call_timeout: PATIENCE,
        };
        let capabilities: Map<String, Value> =
            [("elicitation".to_owned(), json!({ "form": {} }))].into_iter().collect();
        let options = Options { capabilities: capabilities.clone(), ..Options::default() };
        let upstream = Upstream::new(vec![spec], options);
        Ok(Self { upstream, user: UserId::local(), server, capabilities })
    }

    fn context(&self) -> CallContext {
        CallContext {
            reverse: Some(Arc::new(Agreeable)),
            capabilities: self.capabilities.clone(),
            ..CallContext::default()
        }
    }

    async fn use_everything(&self, context: &Value) -> Result<(), UpstreamError> {
        let sign_ins = &mut SIGN_INS.clone();
        let (user, server, upstream) = (&self.user, &self.server, &self.upstream);
        let list = self.signed_in(sign_ins, async || upstream.tools(user, server).await).await?;
        let mut calls: Vec<(String, Map<String, Value>)> = Vec::new();
        if let Some(wanted) = context["toolCalls"].as_array() {
            calls.extend(wanted.iter().map(|call| (text(&call["name"]), object(&call["arguments"]))));
        } else {
            let first = list.tools.first().map(|tool| tool.input_schema.object()).unwrap_or_default();
            calls.extend(
                list.tools.iter().map(|tool| (tool.name.clone(), arguments(&tool.input_schema.object(), &first))),
            );
        }
        if std::env::var(SCENARIO).is_ok_and(|scenario| scenario == RETURNS) {
            tokio::time::sleep(OPEN_BY_THEN).await;
        }
        for (tool, arguments) in calls {
            let call = async || upstream.call_raw(user, server, &tool, arguments.clone(), self.context()).await;
            match self.signed_in(sign_ins, call).await {
                Ok(result) => println!("{tool}: {result}"),
                // The error was the server's answer.
                Err(error @ UpstreamError::Refused { .. }) => println!("{tool}: {error}"),
                Err(error) => return Err(error),
            }
        }
        for resource in upstream.resources(user, server).await? {
            upstream.read_resource(user, server, &text(&resource["uri"]), self.context()).await?;
        }
        for prompt in upstream.prompts(user, server).await? {
            upstream.get_prompt(user, server, &text(&prompt["name"]), Map::new(), self.context()).await?;
        }
        Ok(())
    }

    /// Runs an operation, and repeats it after each sign-in that the server asks for.
    async fn signed_in<T>(
        &self,
        left: &mut usize,
        act: impl AsyncFn() -> Result<T, UpstreamError>,
    ) -> Result<T, UpstreamError> {
        loop {
            match act().await {
                Err(UpstreamError::Unauthorized { .. }) if *left > 0 => {
                    *left -= 1;
                    let open = |address: &str| drop(tokio::spawn(browse(address.to_owned())));
                    self.upstream.login(&self.user, &self.server, SignInReturn::Loopback, open).await?;
                }
                outcome => return outcome,
            }
        }
    }
}

/// OAuth client of the scenario: a registered one, or one with a metadata document.
fn client(context: &Value) -> OauthClient {
    match context["client_id"].as_str() {
        Some(id) => OauthClient { id: id.to_owned(), secret: context["client_secret"].as_str().map(Secret::new) },
        None => OauthClient { id: DESCRIPTION.to_owned(), secret: None },
    }
}

fn text(value: &Value) -> String {
    value.as_str().unwrap_or_default().to_owned()
}

fn object(value: &Value) -> Map<String, Value> {
    value.as_object().cloned().unwrap_or_default()
}

/// Arguments for everything in a schema; objects get this value.
fn arguments(schema: &Map<String, Value>, thing: &Map<String, Value>) -> Map<String, Value> {
    let mut all = Map::new();
    for (name, property) in schema.get("properties").map(object).unwrap_or_default() {
        let value = match property["type"].as_str() {
            Some("number" | "integer") => json!(2),
            Some("boolean") => json!(true),
            Some("object") => Value::Object(thing.clone()),
            _ => json!("text"),
        };
        all.insert(name, value);
    }
    all
}

/// Accepts every form with its defaults.
struct Agreeable;

#[async_trait]
impl Reverse for Agreeable {
    async fn ask(&self, question: Question) -> Result<Value, Refusal> {
        if question.kind != QuestionKind::Elicitation {
            return Err(Refusal::unsupported("only forms are answered"));
        }
        let schema = &question.params["requestedSchema"];
        let mut content = Map::new();
        for (name, property) in object(&schema["properties"]) {
            let value = match (property.get("default"), property["type"].as_str()) {
                (Some(default), _) => default.clone(),
                (None, Some("boolean")) => json!(true),
                (None, Some("number" | "integer")) => json!(2),
                (None, _) => json!("text"),
            };
            content.insert(name, value);
        }
        Ok(json!({ "action": "accept", "content": content }))
    }
}

/// Follows redirects like a browser.
async fn browse(mut address: String) {
    while let Some(next) = visit(&address).await {
        address = next;
    }
}

/// Address that the page redirects to.
async fn visit(address: &str) -> Option<String> {
    let rest = address.strip_prefix("http://")?;
    let (host, path) = rest.split_once('/')?;
    let mut stream = TcpStream::connect(host).await.ok()?;
    let request = format!("GET /{path} HTTP/1.1\r\nhost: {host}\r\nconnection: close\r\n\r\n");
    stream.write_all(request.as_bytes()).await.ok()?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer).await.ok()?;
    let head = answer.split("\r\n\r\n").next()?;
    let location =
        head.lines().filter_map(|line| line.split_once(':')).find(|(name, _)| name.eq_ignore_ascii_case("location"));
    location.map(|(_, value)| value.trim().to_owned())
}
