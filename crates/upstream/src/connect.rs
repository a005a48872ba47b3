//! Starts a connection: first the transport, then the revision of the protocol, then the list of tools.

use crate::connection::{Connection, Origin, capabilities, chain, wants_sign_in};
use crate::connection_state::{ConnectionState, Fault};
use crate::error::UpstreamError;
use crate::http::{self, HttpError, WebClient};
use crate::lending::{self, Borrowed, NotLent};
use crate::login::{self, Challenge};
use crate::options::{CHAIN_CAPABILITY, CHAIN_VARIABLE};
use crate::reverse::{Question, QuestionKind};
use crate::screen::{Screen, Silence};
use crate::scrub::{Scrubber, shortened};
use crate::slot::Shared;
use crate::sse::{self, Caller, Sse};
use crate::status::{Offers, Owner, ServerInfo};
use crate::stdio::{MAX_MESSAGE, Process, Stdio, Tail, suspicion};
use ::http::HeaderMap;
use ::http::header::AUTHORIZATION;
use coracle_types::{Secret, ServerName, ServerSpec, Transport as Where, UserId};
use rmcp::RoleClient;
use rmcp::model::{
    ClientConfig, ClientResult, CustomResult, ErrorCode, ErrorData, Implementation, ProtocolVersion,
    ServerCapabilities, ServerNotification, ServerRequest,
};
use rmcp::service::{
    ClientInitializeError, ClientLifecycleMode, ClientServiceExt as _, InboundStreamOrigin, NotificationContext,
    RequestContext, RunningService, Service,
};
use rmcp::transport::streamable_http_client::{StreamableHttpClient, StreamableHttpClientTransportConfig};
use rmcp::transport::{AuthClient, StreamableHttpClientTransport, Transport};
use serde_json::{Map, Value};
use std::collections::BTreeMap;
use std::path::Path;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex, PoisonError};
use url::Url;

/// The maximum number of concurrent requests to one HTTP server. Further requests wait.
const MAX_CONCURRENT_REQUESTS: usize = 64;
/// The maximum length of a server's name and version.
const MAX_NAME: usize = 200;
/// The maximum length of a server's instructions.
const MAX_INSTRUCTIONS: usize = 16 * 1024;

/// The handshake that a server expects.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Lifecycle {
    /// Try `server/discover`, then `initialize`.
    Unknown,
    /// `initialize`, as before 2026.
    Initialize,
    /// `server/discover`.
    Discover,
}

/// A connection, and the service that keeps it alive.
pub(crate) struct Started {
    pub(crate) service: RunningService<RoleClient, Handler>,
    pub(crate) connection: Arc<Connection>,
    pub(crate) lifecycle: Lifecycle,
}

/// The inputs of an attempt to connect, except its time limit.
struct Attempt<'a> {
    spec: &'a Arc<ServerSpec>,
    owner: &'a Owner,
    scrubber: &'a Arc<Scrubber>,
    shared: &'a Shared,
    challenge: &'a Arc<Challenge>,
    /// The output of a child while it starts, for the error if it takes too long.
    words: Mutex<Option<Tail>>,
}

/// Starts a connection within the time limit of its settings.
pub(crate) async fn connect(
    spec: &Arc<ServerSpec>,
    owner: &Owner,
    scrubber: &Arc<Scrubber>,
    shared: &Shared,
    challenge: &Arc<Challenge>,
    lifecycle: Lifecycle,
) -> Result<Started, UpstreamError> {
    let attempt = Attempt { spec, owner, scrubber, shared, challenge, words: Mutex::default() };
    if let Some(started) = attempt.borrowed().await {
        return Ok(started);
    }
    match tokio::time::timeout(spec.start_timeout, attempt.run(lifecycle)).await {
        Ok(result) => result,
        Err(_) => Err(attempt.took_too_long()),
    }
}

/// A failed attempt, and alternatives that might succeed.
struct Failure {
    error: UpstreamError,
    /// Whether the older handshake may help.
    other_way_may_help: bool,
    /// Whether the older transport may help: the URL does not accept messages by POST.
    older_transport_may_help: bool,
}

/// Statuses with which servers of the older transport answer a message that is posted to the URL of their stream.
const NOT_POSTED_HERE: [u16; 5] = [400, 404, 405, 406, 415];

impl Attempt<'_> {
    /// The connection of a running `coracle up`, if there is one with identical settings.
    async fn borrowed(&self) -> Option<Started> {
        let path = self.shared.options.lender.as_ref()?;
        let is_lent = match self.owner {
            Owner::Everyone => true,
            Owner::User(user) => *user == UserId::local(),
        };
        if !is_lent || self.shared.silent.load(Ordering::Relaxed) || self.has_sign_in().await {
            return None;
        }
        let borrowed = tokio::time::timeout(self.spec.start_timeout, self.borrow(path)).await;
        let (server, path) = (&self.spec.name, path.display());
        match borrowed.unwrap_or_else(|_| Err(NotLent::Refused("it was not ready in time".to_owned()))) {
            Ok(started) => {
                tracing::debug!(%server, "using the connection of the running `coracle up`");
                return Some(started);
            }
            Err(NotLent::NobodyThere) => {}
            Err(NotLent::Untrusted(reason)) => {
                tracing::warn!(%server, reason, "ignoring a socket of `coracle up`");
            }
            Err(NotLent::Silent) => {
                self.shared.silent.store(true, Ordering::Relaxed);
                tracing::warn!(%path, "`coracle up` is running but does not answer: starting servers without it");
            }
            Err(reason) => tracing::info!(%server, %reason, "the running `coracle up` does not lend its connection"),
        }
        None
    }

    /// Whether there is a stored sign-in: connections that use one are not lent.
    async fn has_sign_in(&self) -> bool {
        match &self.spec.transport {
            Where::Stdio { .. } => false,
            Where::Http { .. } | Where::Sse { .. } => {
                !matches!(self.shared.options.tokens.load(self.owner, &self.spec.name).await, Ok(None))
            }
        }
    }

    async fn borrow(&self, path: &Path) -> Result<Started, NotLent> {
        let loan = lending::borrow(path, self.spec, &self.shared.options.chain).await?;
        let state = Arc::new(ConnectionState::default());
        let transport = Borrowed::new(loan, Arc::clone(&state), Arc::clone(self.scrubber));
        let screen = Screen::new(transport, Arc::clone(&state), Silence::IsLeftAlone);
        let refused = |error: UpstreamError| NotLent::Refused(error.to_string());
        let started = self.serve(screen, state, None, Lifecycle::Initialize).await;
        let started = started.map_err(|failure| refused(failure.error))?;
        started.connection.load_tools().await.map_err(refused)?;
        // The handshake that the server itself expects is not known.
        Ok(Started { lifecycle: Lifecycle::Unknown, ..started })
    }

    async fn run(&self, lifecycle: Lifecycle) -> Result<Started, UpstreamError> {
        let lifecycle = match &self.spec.transport {
            Where::Sse { .. } => Lifecycle::Initialize,
            Where::Stdio { .. } | Where::Http { .. } => lifecycle,
        };
        let started = match self.once(lifecycle).await {
            Err(failure) if failure.other_way_may_help && lifecycle == Lifecycle::Unknown => {
                self.once(Lifecycle::Initialize).await
            }
            result => result,
        };
        let started = match (started, &self.spec.transport) {
            (Err(failure), Where::Http { url, headers }) if failure.older_transport_may_help => {
                self.older(url, headers, failure).await
            }
            (started, _) => started,
        };
        let started = started.map_err(|failure| failure.error)?;
        match started.connection.load_tools().await {
            Ok(_) => Ok(started),
            Err(UpstreamError::Closed { reason, .. }) => Err(self.unavailable(&reason)),
            Err(error) => Err(error),
        }
    }

    async fn once(&self, lifecycle: Lifecycle) -> Result<Started, Failure> {
        let state = Arc::new(ConnectionState::default());
        match &self.spec.transport {
            Where::Stdio { command, args, env, cwd } => {
                let mut env = env.clone();
                if !self.shared.options.chain.is_empty() {
                    let chain = Secret::new(self.shared.options.chain.join(","));
                    env.entry(CHAIN_VARIABLE.to_owned()).or_insert(chain);
                }
                let process = Process::start(command, args, &env, cwd.as_deref(), &self.shared.warden)
                    .map_err(|error| final_failure(self.unavailable(&error.to_string())))?;
                let pid = process.pid();
                *self.words.lock().unwrap_or_else(PoisonError::into_inner) = Some(process.stderr.clone());
                let server = self.spec.name.clone();
                let stdio = Stdio::new(server, process, Arc::clone(&state), Arc::clone(self.scrubber))
                    .map_err(|error| final_failure(self.unavailable(&error.to_string())))?;
                self.serve(Screen::new(stdio, Arc::clone(&state), Silence::GivesUp), state, pid, lifecycle).await
            }
            Where::Http { url, headers } => {
                let uri = self.address(url).map_err(final_failure)?;
                let client = http::client().map_err(|error| self.web_failure(&error))?;
                let custom = http::headers(headers).map_err(|error| self.web_failure(&error))?;
                let has_own = custom.contains_key(&AUTHORIZATION);
                let config = StreamableHttpClientTransportConfig::with_uri(uri.as_str())
                    .custom_headers(custom)
                    .max_concurrent_requests(MAX_CONCURRENT_REQUESTS)
                    .max_sse_event_size(MAX_MESSAGE);
                let web = WebClient::new(client, Arc::clone(&state), Arc::clone(self.challenge));
                // A configured header replaces the sign-in.
                let manager = if has_own { None } else { self.sign_in(&uri).await.map_err(final_failure)? };
                state.signed_in.store(manager.is_some(), Ordering::Relaxed);
                match manager {
                    Some(manager) => self.serve_http(AuthClient::new(web, manager), config, state, lifecycle).await,
                    None => self.serve_http(web, config, state, lifecycle).await,
                }
            }
            Where::Sse { url, headers } => self.serve_sse(url, headers, state).await,
        }
    }

    async fn serve_sse(
        &self,
        url: &Secret,
        headers: &BTreeMap<String, Secret>,
        state: Arc<ConnectionState>,
    ) -> Result<Started, Failure> {
        let uri = self.address(url).map_err(final_failure)?;
        let client = http::client().map_err(|error| self.web_failure(&error))?;
        let headers = self.header_map(headers)?;
        let has_own = headers.contains_key(AUTHORIZATION);
        let manager = if has_own { None } else { self.sign_in(&uri).await.map_err(final_failure)? };
        state.signed_in.store(manager.is_some(), Ordering::Relaxed);
        let sse = Sse::connect(Caller::new(client, headers, manager), uri, Arc::clone(&state)).await;
        let sse = sse.map_err(|error| self.web_failure(&error))?;
        let screen = Screen::new(sse, Arc::clone(&state), Silence::IsLeftAlone);
        self.serve(screen, state, None, Lifecycle::Initialize).await
    }

    /// The URL did not accept a message: it may be that of an event stream, the transport of 2024.
    async fn older(
        &self,
        url: &Secret,
        headers: &BTreeMap<String, Secret>,
        failure: Failure,
    ) -> Result<Started, Failure> {
        let older = match self.serve_sse(url, headers, Arc::default()).await {
            Ok(started) => return Ok(started),
            Err(older) => older.error,
        };
        Err(match (failure.error, older) {
            (_, older @ UpstreamError::Unauthorized { .. }) => final_failure(older),
            (
                UpstreamError::Unavailable { server, reason, retry_in },
                UpstreamError::Unavailable { reason: why, .. },
            ) => {
                let reason = format!("{reason}; over the older SSE transport: {why}; check the path of its `url`");
                final_failure(UpstreamError::Unavailable { server, reason, retry_in })
            }
            (error, _) => final_failure(error),
        })
    }

    async fn serve_http<C: StreamableHttpClient + Sync>(
        &self,
        client: C,
        config: StreamableHttpClientTransportConfig,
        state: Arc<ConnectionState>,
        lifecycle: Lifecycle,
    ) -> Result<Started, Failure> {
        let transport = StreamableHttpClientTransport::with_client(client, config);
        self.serve(Screen::new(transport, Arc::clone(&state), Silence::IsLeftAlone), state, None, lifecycle).await
    }

    async fn serve<T: Transport<RoleClient> + 'static>(
        &self,
        transport: T,
        state: Arc<ConnectionState>,
        pid: Option<u32>,
        lifecycle: Lifecycle,
    ) -> Result<Started, Failure> {
        let newest = vec![ProtocolVersion::LATEST];
        let mode = match lifecycle {
            Lifecycle::Unknown => ClientLifecycleMode::Auto {
                preferred_versions: newest,
                legacy_version: Some(ProtocolVersion::LATEST_WITH_INITIALIZE),
            },
            Lifecycle::Initialize => ClientLifecycleMode::Initialize,
            Lifecycle::Discover => ClientLifecycleMode::Discover { preferred_versions: newest },
        };
        let service = match self.handler(&state).serve_with_lifecycle(transport, mode).await {
            Ok(service) => service,
            Err(error) => return Err(self.not_initialized(&error, &state)),
        };
        let peer = service.peer().clone();
        let about = peer.peer_info();
        let has_initialize = about.as_ref().is_none_or(|about| about.protocol_version.has_initialize());
        let clean = |text: &str, limit| shortened(&self.scrubber.without_secrets(text), limit);
        let info = about.map(|about| ServerInfo {
            protocol: shortened(about.protocol_version.as_str(), MAX_NAME),
            name: about.server_info.as_ref().map(|server| clean(&server.name, MAX_NAME)),
            version: about.server_info.as_ref().map(|server| clean(&server.version, MAX_NAME)),
            instructions: about.instructions.as_deref().map(|text| clean(text, MAX_INSTRUCTIONS)),
            offers: offers(&about.capabilities),
        });
        let origin = Origin {
            spec: Arc::clone(self.spec),
            scrubber: Arc::clone(self.scrubber),
            state,
            info: info.unwrap_or_default(),
            pid,
            owner: self.owner.clone(),
            changes: self.shared.changes.clone(),
            is_modern: !has_initialize,
        };
        let connection = Arc::new(Connection::new(origin, peer));
        let lifecycle = if has_initialize { Lifecycle::Initialize } else { Lifecycle::Discover };
        Ok(Started { service, connection, lifecycle })
    }

    fn handler(&self, state: &Arc<ConnectionState>) -> Handler {
        let options = &self.shared.options;
        let client = Implementation::new(options.client_name.clone(), options.client_version.clone());
        let mut capabilities = capabilities(&options.capabilities);
        if !options.chain.is_empty() {
            let chain = Map::from_iter([("chain".to_owned(), Value::from(options.chain.clone()))]);
            capabilities.experimental.get_or_insert_default().insert(CHAIN_CAPABILITY.to_owned(), chain);
        }
        let config = ClientConfig::new(capabilities, client);
        let config = config.with_protocol_version(ProtocolVersion::LATEST_WITH_INITIALIZE);
        Handler { config, state: Arc::clone(state) }
    }

    fn not_initialized(&self, error: &ClientInitializeError, state: &ConnectionState) -> Failure {
        let server = self.server();
        if error.is_authorization_required() || error.auth_challenge().is_some() || wants_sign_in(error) {
            return final_failure(UpstreamError::Unauthorized { server, reason: "it answered 401".to_owned() });
        }
        let error = match state.fault() {
            Some(Fault::TooLarge(reason)) => {
                return final_failure(UpstreamError::TooLarge { server, reason: reason.clone() });
            }
            Some(Fault::Protocol(reason)) => {
                return final_failure(UpstreamError::Protocol { server, reason: reason.clone() });
            }
            Some(Fault::Ended(reason)) => self.unavailable(reason),
            None => self.unavailable(&plain(error)),
        };
        let refused = state.refused.load(Ordering::Relaxed);
        Failure { error, other_way_may_help: true, older_transport_may_help: NOT_POSTED_HERE.contains(&refused) }
    }

    async fn sign_in(&self, uri: &Url) -> Result<Option<rmcp::transport::AuthorizationManager>, UpstreamError> {
        login::stored(&self.shared.options.tokens, self.owner, self.spec, uri, self.scrubber).await
    }

    fn address(&self, url: &Secret) -> Result<Url, UpstreamError> {
        Url::parse(url.expose())
            .ok()
            .filter(|url| matches!(url.scheme(), "http" | "https") && url.has_host())
            .ok_or_else(|| self.unavailable("its `url` is not a web address: it must begin with https:// or http://"))
    }

    fn header_map(&self, headers: &BTreeMap<String, Secret>) -> Result<HeaderMap, Failure> {
        Ok(http::headers(headers).map_err(|error| self.web_failure(&error))?.into_iter().collect())
    }

    fn web_failure(&self, error: &HttpError) -> Failure {
        if sse::wants_sign_in(error) {
            let reason = "it answered 401".to_owned();
            return final_failure(UpstreamError::Unauthorized { server: self.server(), reason });
        }
        final_failure(self.unavailable(&error.to_string()))
    }

    fn took_too_long(&self) -> UpstreamError {
        let words = self.words.lock().unwrap_or_else(PoisonError::into_inner);
        let words = words.as_ref().map(Tail::text).filter(|text| !text.is_empty());
        let words = words.map(|text| format!("; its last output: {text}")).unwrap_or_default();
        self.unavailable(&format!("it was not ready within {:?}{words}", self.spec.start_timeout))
    }

    fn unavailable(&self, reason: &str) -> UpstreamError {
        let suspicion = suspicion(reason, self.spec).map(|words| format!("; {words}")).unwrap_or_default();
        let reason = format!("{}{suspicion}", self.scrubber.clean(reason));
        UpstreamError::Unavailable { server: self.server(), reason, retry_in: None }
    }

    fn server(&self) -> ServerName {
        self.spec.name.clone()
    }
}

/// The reason, without the library's names for its parts.
fn plain(error: &ClientInitializeError) -> String {
    match error {
        ClientInitializeError::TransportError { error, .. } => chain(error.error.as_ref()),
        ClientInitializeError::LegacyFallbackFailed { fallback, .. } => plain(fallback),
        ClientInitializeError::JsonRpcError(error) => format!("it refused to start: {}", error.message),
        other => chain(other),
    }
}

fn final_failure(error: UpstreamError) -> Failure {
    Failure { error, other_way_may_help: false, older_transport_may_help: false }
}

fn offers(capabilities: &ServerCapabilities) -> Offers {
    Offers {
        tools: capabilities.tools.is_some(),
        resources: capabilities.resources.is_some(),
        subscriptions: capabilities.resources.as_ref().and_then(|resources| resources.subscribe) == Some(true),
        prompts: capabilities.prompts.is_some(),
        completions: capabilities.completions.is_some(),
        logging: capabilities.logging.is_some(),
    }
}

/// Handles requests from servers: passes them to the caller of the call in progress, or refuses them.
pub(crate) struct Handler {
    config: ClientConfig,
    state: Arc<ConnectionState>,
}

impl Service<RoleClient> for Handler {
    async fn handle_request(
        &self,
        request: ServerRequest,
        context: RequestContext<RoleClient>,
    ) -> Result<ClientResult, ErrorData> {
        let request = match request {
            ServerRequest::PingRequest(_) => return Ok(ClientResult::empty(())),
            ServerRequest::CustomRequest(request) => request,
            _ => return Err(ErrorData::new(ErrorCode::METHOD_NOT_FOUND, "not supported", None)),
        };
        let Some(kind) = QuestionKind::of(&request.method) else {
            return Err(ErrorData::new(ErrorCode::METHOD_NOT_FOUND, "not supported", None));
        };
        let question = Question { kind, params: request.params.unwrap_or_default() };
        let origin = context.extensions.get::<InboundStreamOrigin>();
        match self.state.answer(question, origin, context.ct.clone()).await {
            Ok(answer) => Ok(ClientResult::CustomResult(CustomResult(answer))),
            Err(refusal) => Err(ErrorData::new(ErrorCode(refusal.number), refusal.message, None)),
        }
    }

    async fn handle_notification(
        &self,
        _: ServerNotification,
        _: NotificationContext<RoleClient>,
    ) -> Result<(), ErrorData> {
        Ok(())
    }

    fn get_info(&self) -> ClientConfig {
        self.config.clone()
    }
}
