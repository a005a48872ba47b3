//! OAuth sign-ins, with an authorization server that checks everything it receives.

use crate::lab::{call, said, server, user};
use crate::secrets::Log;
use crate::web::{echo_service, events, http, serve, sse};
use axum::extract::{Form, Query, Request, State};
use axum::http::{StatusCode, header};
use axum::middleware::{Next, from_fn_with_state};
use axum::response::{IntoResponse, Redirect, Response};
use axum::routing::{get, post};
use axum::{Json, Router};
use coracle_types::{ServerSpec, UserId};
use coracle_upstream::{Lender, MemoryTokens, Options, Owner, SignInReturn, TokenStore, Upstream};
use oauth2::{PkceCodeChallenge, PkceCodeVerifier};
use serde_json::{Value, json};
use std::collections::{HashMap, HashSet};
use std::sync::{Arc, Mutex};
use tokio_util::sync::CancellationToken;

/// The state of the authorization server.
#[derive(Default)]
struct Memory {
    base: String,
    /// The last part of the URL that requires a sign-in.
    path: &'static str,
    /// The lifetime of an access token that clients are told.
    seconds: u32,
    clients: HashMap<String, Vec<Value>>,
    /// Challenge, client and redirect URI, by code.
    codes: HashMap<String, [String; 3]>,
    access: HashSet<String>,
    refresh: HashSet<String>,
    issued: usize,
    refreshed: usize,
    refuses: bool,
}

type Shared = Arc<Mutex<Memory>>;
type Pairs = HashMap<String, String>;

impl Memory {
    fn resource(&self) -> String {
        format!("{}/{}", self.base, self.path)
    }

    fn issue(&mut self) -> Value {
        self.issued += 1;
        let (access, refresh) = (format!("access-{}", self.issued), format!("refresh-{}", self.issued));
        self.access.insert(access.clone());
        self.refresh.insert(refresh.clone());
        json!({"access_token": access, "token_type": "Bearer", "expires_in": self.seconds, "refresh_token": refresh})
    }
}

async fn start() -> (Shared, String) {
    start_before("mcp", 3600, Router::new().nest_service("/mcp", echo_service(true))).await
}

/// Starts an authorization server that protects `private`.
async fn start_before(path: &'static str, seconds: u32, private: Router) -> (Shared, String) {
    let shared = Arc::new(Mutex::new(Memory { path, seconds, ..Memory::default() }));
    let protected = private.layer(from_fn_with_state(Arc::clone(&shared), only_with_token));
    let router = Router::new()
        .route("/.well-known/oauth-protected-resource", get(resource))
        .route(&format!("/.well-known/oauth-protected-resource/{path}"), get(resource))
        .route("/.well-known/oauth-authorization-server", get(metadata))
        .route("/register", post(register))
        .route("/authorize", get(authorize))
        .route("/token", post(token))
        .with_state(Arc::clone(&shared))
        .merge(protected);
    let base = serve(router).await;
    shared.lock().unwrap().base.clone_from(&base);
    (shared, base)
}

async fn only_with_token(State(shared): State<Shared>, request: Request, next: Next) -> Response {
    let token = request.headers().get(header::AUTHORIZATION).and_then(|value| value.to_str().ok());
    let token = token.and_then(|value| value.strip_prefix("Bearer ")).unwrap_or_default().to_owned();
    let (is_good, base, path) = {
        let memory = shared.lock().unwrap();
        (memory.access.contains(&token), memory.base.clone(), memory.path)
    };
    if is_good {
        return next.run(request).await;
    }
    let challenge = format!(r#"Bearer resource_metadata="{base}/.well-known/oauth-protected-resource/{path}""#);
    (StatusCode::UNAUTHORIZED, [(header::WWW_AUTHENTICATE, challenge)]).into_response()
}

async fn resource(State(shared): State<Shared>) -> Json<Value> {
    let memory = shared.lock().unwrap();
    let (resource, base) = (memory.resource(), &memory.base);
    Json(json!({"resource": resource, "authorization_servers": [base], "scopes_supported": ["tools"]}))
}

async fn metadata(State(shared): State<Shared>) -> Json<Value> {
    let base = shared.lock().unwrap().base.clone();
    Json(json!({
        "issuer": base, "authorization_endpoint": format!("{base}/authorize"), "token_endpoint": format!("{base}/token"),
        "registration_endpoint": format!("{base}/register"), "response_types_supported": ["code"],
        "grant_types_supported": ["authorization_code", "refresh_token"], "code_challenge_methods_supported": ["S256"],
        "token_endpoint_auth_methods_supported": ["none"]
    }))
}

async fn register(State(shared): State<Shared>, Json(client): Json<Value>) -> Response {
    let mut memory = shared.lock().unwrap();
    let id = format!("client-{}", memory.clients.len());
    let redirects = client["redirect_uris"].as_array().cloned().unwrap_or_default();
    memory.clients.insert(id.clone(), redirects.clone());
    let body = json!({"client_id": id, "redirect_uris": redirects, "client_name": client["client_name"]});
    (StatusCode::CREATED, Json(body)).into_response()
}

async fn authorize(State(shared): State<Shared>, Query(asked): Query<Pairs>) -> Response {
    let mut memory = shared.lock().unwrap();
    let get = |name: &str| asked.get(name).cloned().unwrap_or_default();
    let known =
        memory.clients.get(&get("client_id")).is_some_and(|redirects| redirects.contains(&json!(get("redirect_uri"))));
    let resource = memory.resource();
    if !known
        || get("response_type") != "code"
        || get("code_challenge_method") != "S256"
        || get("code_challenge").is_empty()
        || get("resource") != resource
    {
        return (StatusCode::BAD_REQUEST, format!("{asked:?}")).into_response();
    }
    if memory.refuses {
        let back = format!("{}?error=access_denied&error_description=no&state={}", get("redirect_uri"), get("state"));
        return Redirect::to(&back).into_response();
    }
    let code = format!("code-{}", memory.codes.len());
    memory.codes.insert(code.clone(), [get("code_challenge"), get("client_id"), get("redirect_uri")]);
    Redirect::to(&format!("{}?code={code}&state={}", get("redirect_uri"), get("state"))).into_response()
}

async fn token(State(shared): State<Shared>, Form(asked): Form<Pairs>) -> Response {
    let mut memory = shared.lock().unwrap();
    let get = |name: &str| asked.get(name).cloned().unwrap_or_default();
    let refused = || (StatusCode::BAD_REQUEST, Json(json!({"error": "invalid_grant"}))).into_response();
    match get("grant_type").as_str() {
        "authorization_code" => {
            let Some([challenge, client, redirect]) = memory.codes.remove(&get("code")) else {
                return refused();
            };
            let proof = PkceCodeChallenge::from_code_verifier_sha256(&PkceCodeVerifier::new(get("code_verifier")));
            if proof.as_str() != challenge || get("client_id") != client || get("redirect_uri") != redirect {
                return refused();
            }
        }
        "refresh_token" if memory.refresh.remove(&get("refresh_token")) => memory.refreshed += 1,
        _ => return refused(),
    }
    Json(memory.issue()).into_response()
}

/// Acts like a person with a browser, after an attacker has tried to interfere.
async fn browse(address: String) {
    install_provider();
    let client = reqwest::Client::builder().redirect(reqwest::redirect::Policy::none()).build().unwrap();
    let answer = client.get(&address).send().await.unwrap();
    assert_eq!(answer.status(), 303, "{}", answer.text().await.unwrap());
    let back = answer.headers()["location"].to_str().unwrap().to_owned();
    let port = url::Url::parse(&back).unwrap().port().unwrap();
    let forged = format!("http://127.0.0.1:{port}/callback?code=stolen&state=guessed");
    assert_eq!(client.get(forged).send().await.unwrap().status(), 404);
    assert_eq!(client.get(back).send().await.unwrap().status(), 200);
}

/// Installs the provider for the test's own client, as `Upstream` does for its own.
fn install_provider() {
    // Another test may have installed it.
    let _ = rustls::crypto::ring::default_provider().install_default();
}

fn connect(url: &str, tokens: &Arc<MemoryTokens>) -> Upstream {
    connect_to(http("one", url), tokens)
}

fn connect_to(spec: ServerSpec, tokens: &Arc<MemoryTokens>) -> Upstream {
    let tokens: Arc<dyn TokenStore> = Arc::clone(tokens) as _;
    Upstream::new(vec![spec], Options { tokens, ..Options::default() })
}

async fn log_in(upstream: &Upstream) -> Result<(), coracle_upstream::UpstreamError> {
    let open = |address: &str| drop(tokio::spawn(browse(address.to_owned())));
    upstream.login(&user("ada"), &server("one"), SignInReturn::Loopback, open).await
}

#[tokio::test]
async fn a_sign_in_is_stored_refreshed_and_belongs_to_one_user() {
    let (log, _guard) = Log::start();
    let (shared, base) = start().await;
    let tokens = Arc::new(MemoryTokens::default());
    let upstream = connect(&format!("{base}/mcp"), &tokens);

    let error = call(&upstream, "one", "echo", json!({})).await.unwrap_err();
    assert_eq!(error.code(), "unauthorized", "{error}");
    assert_eq!(error.hint().unwrap(), "sign in with `coracle servers login one`");

    log_in(&upstream).await.unwrap();
    assert_eq!(said(&call(&upstream, "one", "echo", json!({"a": 1})).await.unwrap()), r#"{"a":1}"#);
    let ada = Owner::User(user("ada"));
    let kept = tokens.load(&ada, &server("one")).await.unwrap().unwrap();
    assert!(kept.expose().contains("refresh-1"));
    assert!(!format!("{tokens:?} {upstream:?}").contains("refresh-1"));

    // Bob has not signed in.
    let other = upstream.tools(&user("bob"), &server("one")).await.unwrap_err();
    assert_eq!(other.code(), "unauthorized");

    // The server forgets the access token: it is refreshed once, unnoticed.
    shared.lock().unwrap().access.clear();
    call(&upstream, "one", "echo", json!({})).await.unwrap();
    call(&upstream, "one", "echo", json!({})).await.unwrap();
    assert_eq!(shared.lock().unwrap().refreshed, 1);

    // Another process finds the stored sign-in.
    let next = connect(&format!("{base}/mcp"), &tokens);
    call(&next, "one", "echo", json!({})).await.unwrap();
    next.shutdown().await;

    // The server forgets everything.
    {
        let mut memory = shared.lock().unwrap();
        memory.access.clear();
        memory.refresh.clear();
    }
    assert_eq!(call(&upstream, "one", "echo", json!({})).await.unwrap_err().code(), "unauthorized");
    log_in(&upstream).await.unwrap();
    call(&upstream, "one", "echo", json!({})).await.unwrap();

    upstream.logout(&user("ada"), &server("one")).await.unwrap();
    assert_eq!(tokens.load(&ada, &server("one")).await.unwrap(), None);
    assert_eq!(call(&upstream, "one", "echo", json!({})).await.unwrap_err().code(), "unauthorized");
    upstream.shutdown().await;

    let logged = log.text();
    assert!(logged.contains("rmcp::transport::auth"), "the log is captured");
    for secret in ["access-1", "refresh-1", "access-2", "refresh-2"] {
        let line = logged.lines().find(|line| line.contains(secret));
        assert_eq!(line, None, "{secret}");
    }
}

/// The older transport, whose stream is opened once and whose messages are sent to another URL.
#[tokio::test]
async fn a_sign_in_works_with_the_older_transport() {
    // With tokens that last, and with tokens so short-lived that a client needs a new one for every message.
    for seconds in [3600, 1] {
        serve_the_older_transport(seconds).await;
    }
}

async fn serve_the_older_transport(seconds: u32) {
    let (shared, base) = start_before("sse", seconds, events()).await;
    let tokens = Arc::new(MemoryTokens::default());
    let upstream = connect_to(sse("one", &format!("{base}/sse")), &tokens);
    let error = call(&upstream, "one", "echo", json!({})).await.unwrap_err();
    assert_eq!(error.code(), "unauthorized", "{error}");
    assert_eq!(error.hint().unwrap(), "sign in with `coracle servers login one`");

    log_in(&upstream).await.unwrap();
    assert_eq!(said(&call(&upstream, "one", "echo", json!({"a": 1})).await.unwrap()), r#"{"a":1}"#);
    let other = upstream.tools(&user("bob"), &server("one")).await.unwrap_err();
    assert_eq!(other.code(), "unauthorized");

    // The token of the open connection is no longer valid: the call succeeds with a new one.
    shared.lock().unwrap().access.clear();
    assert_eq!(said(&call(&upstream, "one", "echo", json!({"b": 2})).await.unwrap()), r#"{"b":2}"#);
    assert!(shared.lock().unwrap().refreshed > 0);

    {
        let mut memory = shared.lock().unwrap();
        memory.access.clear();
        memory.refresh.clear();
    }
    let error = call(&upstream, "one", "echo", json!({})).await.unwrap_err();
    assert_eq!(error.code(), "unauthorized", "{error}");
    log_in(&upstream).await.unwrap();
    call(&upstream, "one", "echo", json!({})).await.unwrap();
    upstream.logout(&user("ada"), &server("one")).await.unwrap();
    assert_eq!(call(&upstream, "one", "echo", json!({})).await.unwrap_err().code(), "unauthorized");
    upstream.shutdown().await;
}

#[tokio::test]
async fn a_refused_sign_in_is_reported() {
    let (shared, base) = start().await;
    shared.lock().unwrap().refuses = true;
    let upstream = connect(&format!("{base}/mcp"), &Arc::default());
    let error = log_in(&upstream).await.unwrap_err();
    assert_eq!(error.to_string(), "the sign-in to server one failed: the sign-in was refused: access_denied: no");
    upstream.shutdown().await;
}

/// A user who has revoked a sign-in, or has none, does not get a connection that uses one. `lending.rs` tests the
/// connections that they do get.
#[tokio::test]
async fn a_connection_with_a_sign_in_is_not_lent() {
    let (_shared, base) = start().await;
    let url = format!("{base}/mcp");
    let upstream = connect(&url, &Arc::default());
    let (local, one) = (UserId::local(), server("one"));
    let open = |address: &str| drop(tokio::spawn(browse(address.to_owned())));
    upstream.login(&local, &one, SignInReturn::Loopback, open).await.unwrap();
    upstream.tools(&local, &one).await.unwrap();
    let folder = crate::lending::private();
    let path = folder.path().join("servers.sock");
    let stop = CancellationToken::new();
    let lending = tokio::spawn(Lender::open(&path).unwrap().serve(upstream.clone(), stop.clone()));
    let borrower = Upstream::new(vec![http("one", &url)], Options { lender: Some(path), ..Options::default() });
    assert_eq!(borrower.tools(&local, &one).await.unwrap_err().code(), "unauthorized");
    upstream.tools(&local, &one).await.unwrap();
    stop.cancel();
    lending.await.unwrap();
    upstream.shutdown().await;
}

#[tokio::test]
async fn a_local_program_has_no_sign_in() {
    let upstream = crate::lab::upstream(vec![crate::lab::rogue("one", &["good"])]);
    let error = log_in(&upstream).await.unwrap_err();
    assert!(error.to_string().contains("it is a local program"), "{error}");
}

#[tokio::test]
async fn the_authorization_server_of_these_tests_does_check_the_proof() {
    let (shared, base) = start().await;
    install_provider();
    let (challenge, verifier) = PkceCodeChallenge::new_random_sha256();
    for (proof, status) in [("something-else-that-is-long-enough-to-be-a-verifier", 400), (verifier.secret(), 200)] {
        let known = [challenge.as_str(), "c", "r"].map(str::to_owned);
        shared.lock().unwrap().codes.insert("code".to_owned(), known);
        let form = [
            ("grant_type", "authorization_code"),
            ("code", "code"),
            ("code_verifier", proof),
            ("client_id", "c"),
            ("redirect_uri", "r"),
        ];
        let body = url::form_urlencoded::Serializer::new(String::new()).extend_pairs(form).finish();
        let request = reqwest::Client::new().post(format!("{base}/token")).body(body);
        let answer = request.header("content-type", "application/x-www-form-urlencoded").send().await.unwrap();
        assert_eq!(answer.status(), status);
    }
}
