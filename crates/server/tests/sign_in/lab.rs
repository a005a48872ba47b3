//! A server, and clients for it.

use async_trait::async_trait;
use coracle_accounts::{KeyMaker, People, user_name};
use coracle_config::{Oidc, Settings};
use coracle_engine::{CallCaps, Engine, EngineConfig, Privacy, PrivacyModes, Toolbox, ToolboxConfig};
use coracle_policy::{ApproverLine, ApproverRule, ApproverRules, Groups, Rule, Rules};
use coracle_privacy::{Detector, Vaults};
use coracle_sandbox::{Backend, Sandbox, SandboxError, Spec};
use coracle_server::{AuthOptions, Frontend, FrontendOptions, HttpOptions, Profile, serve_http};
use coracle_store::{KeyScope, MemoryStore, Role, Store, User};
use coracle_types::{Decision, Secret, ServerName, ServerSpec, UserId};
use coracle_upstream::{Options, Upstream};
use reqwest::header::{HeaderMap, LOCATION, SET_COOKIE};
use reqwest::{Client, Method, RequestBuilder, Response, StatusCode};
use serde_json::{Value, json};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, SystemTime};
use tempfile::TempDir;
use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;

/// Password that is long enough.
pub(crate) const PASSWORD: &str = "correct horse battery";

/// Backend without sandboxes.
#[derive(Debug)]
struct NoSandbox;

#[async_trait]
impl Backend for NoSandbox {
    async fn open(&self, _: Spec) -> Result<Sandbox, SandboxError> {
        Err(SandboxError::Unavailable("there is none in this test".to_owned()))
    }

    async fn shutdown(&self) {}
}

/// Server that stops when dropped.
pub(crate) struct Lab {
    pub(crate) base: String,
    pub(crate) people: People,
    pub(crate) store: Arc<dyn Store>,
    pub(crate) http: Client,
    stop: CancellationToken,
    folder: TempDir,
}

impl Lab {
    /// Starts with the admin `ann` and the user `bob`, who have passwords.
    pub(crate) async fn with_people() -> Self {
        let lab = Self::start(|_| {}).await;
        for (name, role) in [("ann", Role::Admin), ("bob", Role::User)] {
            lab.add(name, role).await;
        }
        lab
    }

    pub(crate) async fn start(change: impl FnOnce(&mut AuthOptions)) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        Self::start_on(listener, change)
    }

    pub(crate) fn start_on(listener: TcpListener, change: impl FnOnce(&mut AuthOptions)) -> Self {
        Self::start_with(listener, Settings::default(), |_| Vec::new(), change)
    }

    /// Starts with these settings, and with servers that may write to a folder.
    pub(crate) fn start_with(
        listener: TcpListener,
        settings: Settings,
        servers: impl FnOnce(&Path) -> Vec<ServerSpec>,
        change: impl FnOnce(&mut AuthOptions),
    ) -> Self {
        Self::start_all(vec![listener], settings, servers, change, |_| {})
    }

    /// Starts on these listeners, with changes to the options of the server, too.
    pub(crate) fn start_on_all(
        listeners: Vec<TcpListener>,
        change: impl FnOnce(&mut AuthOptions),
        change_http: impl FnOnce(&mut HttpOptions),
    ) -> Self {
        Self::start_all(listeners, Settings::default(), |_| Vec::new(), change, change_http)
    }

    fn start_all(
        listeners: Vec<TcpListener>,
        settings: Settings,
        servers: impl FnOnce(&Path) -> Vec<ServerSpec>,
        change: impl FnOnce(&mut AuthOptions),
        change_http: impl FnOnce(&mut HttpOptions),
    ) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let store: Arc<dyn Store> = Arc::new(MemoryStore::new());
        let people = People::new(Arc::clone(&store)).with_workspaces(folder.path());
        let config = EngineConfig { workspaces: folder.path().to_owned(), session_idle: Duration::from_mins(1) };
        let servers = servers(folder.path());
        let toolbox =
            (!servers.is_empty()).then(|| toolbox(servers, &settings, folder.path().join("cache"), Arc::clone(&store)));
        let engine = Engine::new(config, Arc::new(NoSandbox), Arc::clone(&store), toolbox);
        let vaults = Vaults::new(Arc::clone(&store), Detector::default(), None);
        let modes = PrivacyModes { general: settings.privacy.mode, ..PrivacyModes::default() };
        engine.protect(Privacy::new(Arc::new(vaults), modes));
        let options = FrontendOptions { profile: Profile::Full, settings, ..FrontendOptions::default() };
        let frontend = Frontend::new(engine, options).unwrap();
        let mut auth = AuthOptions {
            people: people.clone(),
            required: true,
            local_key: None,
            local_link: None,
            public_url: None,
            trusted_proxies: Vec::new(),
            user_id_proxies: Vec::new(),
            session: Duration::from_hours(1),
            oidc: Oidc::default(),
        };
        change(&mut auth);
        let host = auth.public_url.as_ref().and_then(|url| url.host_str()).map(str::to_owned);
        let origin = auth.public_url.as_ref().map(|url| url.origin().ascii_serialization());
        let mut options = HttpOptions {
            allowed_hosts: host.into_iter().collect(),
            // An allowed origin that is not our own.
            allowed_origins: origin.into_iter().chain(["https://chat.example".to_owned()]).collect(),
            auth: Some(auth),
            ..HttpOptions::default()
        };
        change_http(&mut options);
        let base = format!("http://{}", listeners[0].local_addr().unwrap());
        let stop = CancellationToken::new();
        tokio::spawn(serve_http(frontend, listeners, options, stop.clone()));
        let http = client();
        Self { base, people, store, http, stop, folder }
    }

    /// Asks the server to stop.
    pub(crate) fn stop(&self) {
        self.stop.cancel();
    }

    /// Folder that servers may write to.
    pub(crate) fn folder(&self) -> &Path {
        self.folder.path()
    }

    pub(crate) async fn add(&self, name: &str, role: Role) {
        let user = User::new(user_name(name).unwrap(), role, SystemTime::now());
        self.people.add(user, Some(&Secret::new(PASSWORD))).await.unwrap();
    }

    pub(crate) async fn key(&self, owner: &str, scopes: &[KeyScope]) -> String {
        let (_, secret) = self
            .people
            .add_key(&id(owner), "test", scopes.iter().copied().collect(), None, KeyMaker::Person)
            .await
            .unwrap();
        secret.expose().to_owned()
    }

    pub(crate) fn url(&self, path: &str) -> String {
        format!("{}{path}", self.base)
    }

    pub(crate) fn request(&self, method: Method, path: &str) -> RequestBuilder {
        self.http.request(method, self.url(path))
    }

    pub(crate) fn get(&self, path: &str) -> RequestBuilder {
        self.request(Method::GET, path)
    }

    pub(crate) fn post(&self, path: &str) -> RequestBuilder {
        self.request(Method::POST, path)
    }

    /// Attempts to sign in.
    pub(crate) async fn login(&self, user: &str, password: &str) -> Response {
        self.post("/api/auth/login").json(&json!({ "user": user, "password": password })).send().await.unwrap()
    }

    /// Signs in, and returns the cookie of the browser.
    pub(crate) async fn browser(&self, user: &str) -> String {
        let response = self.login(user, PASSWORD).await;
        assert_eq!(response.status(), StatusCode::OK);
        cookie(response.headers()).unwrap()
    }

    /// Starts an MCP session, and returns its ID.
    pub(crate) async fn initialize(&self, bearer: &str) -> (StatusCode, Option<String>) {
        let hello = json!({ "jsonrpc": "2.0", "id": 1, "method": "initialize", "params": {
            "protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": { "name": "t", "version": "1" } } });
        let response = self.mcp(bearer, None, &hello).await;
        let session = response.headers().get("mcp-session-id").map(|id| id.to_str().unwrap().to_owned());
        (response.status(), session)
    }

    pub(crate) async fn mcp(&self, bearer: &str, session: Option<&str>, message: &Value) -> Response {
        let mut request = self.post("/mcp").bearer_auth(bearer).json(message);
        if let Some(session) = session {
            request = request.header("mcp-session-id", session);
        }
        request.send().await.unwrap()
    }

    /// Returns the user that the server sees, from an MCP tool without a session.
    pub(crate) async fn user_by_mcp(
        &self,
        change: impl FnOnce(RequestBuilder) -> RequestBuilder,
    ) -> Result<String, u16> {
        let call = json!({ "jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {
            "name": "get_execution_stats", "arguments": {}, "_meta": {
                "io.modelcontextprotocol/protocolVersion": "2026-07-28",
                "io.modelcontextprotocol/clientInfo": { "name": "t", "version": "1" },
                "io.modelcontextprotocol/clientCapabilities": {} } } });
        let request = self.post("/mcp").json(&call).header("mcp-protocol-version", "2026-07-28");
        let request = request.header("mcp-method", "tools/call").header("mcp-name", "get_execution_stats");
        let response = change(request).send().await.unwrap();
        let status = response.status();
        if status != StatusCode::OK {
            return Err(status.as_u16());
        }
        let answer: Value = response.json().await.unwrap();
        Ok(answer["result"]["structuredContent"]["workspace"]["user"]
            .as_str()
            .unwrap_or_else(|| panic!("{answer:#}"))
            .to_owned())
    }
}

fn toolbox(servers: Vec<ServerSpec>, settings: &Settings, cache: PathBuf, store: Arc<dyn Store>) -> Arc<Toolbox> {
    let rule = |(pattern, decision): (&String, &Decision)| Rule {
        pattern: pattern.clone(),
        decision: *decision,
        origin: "test".to_owned(),
    };
    let approvers = settings.policy.approvers.iter().map(|(pattern, approvers)| ApproverLine {
        pattern: pattern.clone(),
        rule: ApproverRule { groups: approvers.groups.clone(), count: approvers.count },
        origin: "test".to_owned(),
    });
    let approvers = ApproverRules::new(approvers.collect(), Groups::new(&settings.policy.groups).unwrap()).unwrap();
    let rules = Rules::new(settings.policy.tools.iter().map(rule).collect()).unwrap().with_approvers(approvers);
    let broken = (ServerName::new("broken").unwrap(), "its command is missing; add a command".to_owned());
    let config =
        ToolboxConfig { cache, registry: None, embedder: None, caps: CallCaps::default(), unusable: vec![broken] };
    Toolbox::new(config, Upstream::new(servers, Options::default()), store, rules)
}

impl Drop for Lab {
    fn drop(&mut self) {
        self.stop.cancel();
    }
}

/// Client that does not follow redirects.
pub(crate) fn client() -> Client {
    let _ = rustls::crypto::ring::default_provider().install_default();
    Client::builder().redirect(reqwest::redirect::Policy::none()).build().unwrap()
}

pub(crate) fn id(name: &str) -> UserId {
    UserId::new(name).unwrap()
}

/// Cookie that a response sets, as it is sent back.
pub(crate) fn cookie(headers: &HeaderMap) -> Option<String> {
    let set = headers.get(SET_COOKIE)?.to_str().unwrap();
    Some(set.split(';').next().unwrap().to_owned())
}

pub(crate) fn location(response: &Response) -> &str {
    response.headers().get(LOCATION).map(|path| path.to_str().unwrap()).unwrap_or_default()
}

pub(crate) async fn code(response: Response) -> (u16, String) {
    let status = response.status().as_u16();
    let body: Value = response.json().await.unwrap_or_default();
    (status, body["code"].as_str().unwrap_or_default().to_owned())
}

/// Value of a hidden field of a page.
pub(crate) fn field(page: &str, name: &str) -> String {
    let (_, rest) = page.split_once(&format!("name={name} value=")).unwrap_or_else(|| panic!("no {name}: {page}"));
    rest.split(['>', ' ']).next().unwrap().trim_matches('"').to_owned()
}
