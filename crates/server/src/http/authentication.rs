//! Authentication middleware: API keys, access tokens, session cookies, and the header of a trusted proxy.

use super::ApiError;
use super::auth_state::{AuthState, Peer};
use super::guard::CrossOrigin;
use super::local_browser::FromLocalBrowser;
use crate::identity::{How, Identity};
use axum::extract::{Request, State};
use axum::http::request::Parts;
use axum::http::{Extensions, HeaderMap, HeaderName, HeaderValue, Method, StatusCode, header};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use coracle_accounts::{AccountError, NameSource, is_key, is_local_user, is_reserved, user_name};
use coracle_store::{KeyScope, Role, User};
use coracle_types::UserId;
use std::net::{IpAddr, Ipv4Addr};
use std::sync::Arc;

/// Header in which a trusted proxy names the user.
const USER: HeaderName = HeaderName::from_static("x-user-id");
/// Header that pages send with every write. Pages of other origins cannot send it without a CORS preflight.
pub(crate) const CSRF_HEADER: &str = "x-coracle-csrf";
/// Maximum length of a token in bytes.
const MAX_TOKEN: usize = 16 << 10;

/// State of the middleware: the scope that a route requires.
#[derive(Clone)]
pub(crate) struct RequiredScope {
    auth: Arc<AuthState>,
    scope: KeyScope,
}

impl RequiredScope {
    pub(crate) fn new(auth: &Arc<AuthState>, scope: KeyScope) -> Self {
        Self { auth: Arc::clone(auth), scope }
    }
}

/// Rejected request, with what the response says about it.
struct Rejected {
    refusal: ApiError,
    /// Error code of RFC 6750 for the token.
    error: Option<&'static str>,
}

impl From<ApiError> for Rejected {
    fn from(refusal: ApiError) -> Self {
        Self { refusal, error: None }
    }
}

impl From<AccountError> for Rejected {
    fn from(error: AccountError) -> Self {
        ApiError::from(error).into()
    }
}

fn invalid_token(reason: impl Into<String>) -> Rejected {
    Rejected { refusal: ApiError::new(StatusCode::UNAUTHORIZED, "invalid_token", reason), error: Some("invalid_token") }
}

/// Middleware that rejects requests without an [`Identity`] that has the required scope.
pub(crate) async fn require(State(required): State<RequiredScope>, request: Request, next: Next) -> Response {
    let (mut parts, body) = request.into_parts();
    let auth = &*required.auth;
    match authorized(auth, required.scope, &mut parts).await {
        Ok(identity) => {
            parts.extensions.insert(identity);
            next.run(Request::from_parts(parts, body)).await
        }
        Err(rejected) => {
            let mut response = rejected.refusal.into_response();
            let status = response.status();
            if status == StatusCode::UNAUTHORIZED || rejected.error.is_some() {
                let challenge = challenge(auth, &parts, rejected.error);
                response.headers_mut().extend(challenge.map(|value| (header::WWW_AUTHENTICATE, value)));
            }
            response
        }
    }
}

/// Value of `WWW-Authenticate` (RFC 6750), with the address where a client learns how to get a token (RFC 9728).
fn challenge(auth: &AuthState, request: &Parts, error: Option<&'static str>) -> Option<HeaderValue> {
    let base = auth.base(&request.uri, &request.headers);
    let error = error.map(|error| format!("error=\"{error}\", ")).unwrap_or_default();
    let text = format!("Bearer {error}resource_metadata=\"{base}/.well-known/oauth-protected-resource/mcp\"");
    HeaderValue::from_str(&text).ok()
}

async fn authorized(auth: &AuthState, scope: KeyScope, request: &mut Parts) -> Result<Identity, Rejected> {
    // Without accounts, every request is the local user's, and credentials are ignored. But pages of other sites are
    // not the local user, even if their browser is on this machine.
    if !auth.is_required().await? {
        if is_cross_origin(request) && !auth.has_local_key(&request.headers) {
            return Err(invalid_token(
                "pages of other origins need the key of this server: send the content of the file `api_key` in the data \
                 folder of Coracle as `Authorization: Bearer …`",
            ));
        }
        if auth.is_local_browser(&request.headers).await? && is_safe_with_cookie(auth, request) {
            request.extensions.insert(FromLocalBrowser);
        }
        return Ok(Identity::local());
    }
    let identity = authenticated(auth, request).await?.ok_or_else(ApiError::not_signed_in)?;
    if !identity.may(scope) {
        let refusal = ApiError::forbidden("insufficient_scope", format!("this requires the scope {}", scope.as_str()));
        return Err(Rejected { refusal, error: Some("insufficient_scope") });
    }
    if matches!(identity.how, How::Session { .. }) && !is_safe_with_cookie(auth, request) {
        let message = format!("a browser must send the header {CSRF_HEADER} from a page of this server");
        return Err(ApiError::forbidden("csrf", message).into());
    }
    Ok(identity)
}

/// Whether a request changes nothing, or certainly comes from a page of this server.
fn is_safe_with_cookie(auth: &AuthState, request: &Parts) -> bool {
    matches!(request.method, Method::GET | Method::HEAD | Method::OPTIONS)
        || auth.is_same_origin(&request.uri, &request.headers) && request.headers.contains_key(CSRF_HEADER)
}

fn is_cross_origin(request: &Parts) -> bool {
    request.extensions.get::<CrossOrigin>().is_some()
}

/// Authenticates a request that has credentials. Invalid credentials are an error, except an expired cookie.
async fn authenticated(auth: &AuthState, request: &mut Parts) -> Result<Option<Identity>, Rejected> {
    let peer = peer(&request.extensions);
    let named: Vec<HeaderValue> = request.headers.get_all(&USER).iter().cloned().collect();
    // Later handlers must not trust this header.
    request.headers.remove(&USER);
    // A proxy may know a browser by its cookies, which do not count for pages of other origins.
    let named = if is_cross_origin(request) { Vec::new() } else { named };
    if let [first, rest @ ..] = named.as_slice() {
        if auth.names_users(peer) {
            let user = first.to_str().ok().filter(|_| rest.is_empty()).and_then(|text| user_name(text).ok());
            let Some(user) = user else {
                return Err(ApiError::invalid("x-user-id must be present once and hold a user name").into());
            };
            return by_proxy(auth, user).await.map(Some);
        }
        if auth.is_proxy(peer) {
            tracing::warn!(proxy = %peer, "x-user-id is ignored: this proxy is not in server.user_id_proxies");
        }
    }
    if let Some(token) = bearer(&request.headers)? {
        return by_token(auth, request, &token).await.map(Some);
    }
    by_cookie(auth, &request.headers).await
}

/// Finds the user of a request's session cookie.
pub(crate) async fn signed_in(auth: &AuthState, headers: &HeaderMap) -> Result<Option<Identity>, ApiError> {
    by_cookie(auth, headers).await.map_err(|rejected| rejected.refusal)
}

/// Remote address of a request's connection.
pub(crate) fn peer(extensions: &Extensions) -> IpAddr {
    extensions.get::<Peer>().map_or(IpAddr::V4(Ipv4Addr::UNSPECIFIED), |peer| peer.0.ip())
}

/// Token in the `Authorization` header.
fn bearer(headers: &HeaderMap) -> Result<Option<String>, Rejected> {
    let mut values = headers.get_all(header::AUTHORIZATION).iter();
    let Some(value) = values.next() else { return Ok(None) };
    let text = value.to_str().ok().filter(|text| text.len() <= MAX_TOKEN && values.next().is_none());
    let token = text.and_then(|text| text.split_once(' ')).filter(|(scheme, _)| scheme.eq_ignore_ascii_case("bearer"));
    match token {
        Some((_, token)) => Ok(Some(token.trim().to_owned())),
        None => Err(invalid_token("the Authorization header has no bearer token")),
    }
}

async fn by_proxy(auth: &AuthState, user: UserId) -> Result<Identity, Rejected> {
    // The proxy authenticates users, but disabled accounts stay disabled.
    let known = auth.people.store().user(&user).await.map_err(AccountError::from)?;
    let is_given = |known: &User| !is_local_user(&known.id);
    if !known.as_ref().map_or_else(|| !is_reserved(&user, NameSource::Foreign), is_given) {
        let message = format!("x-user-id: the name {user} is reserved");
        return Err(ApiError::forbidden("reserved_name", message).into());
    }
    if known.as_ref().is_some_and(|known| known.disabled) {
        return Err(ApiError::forbidden("user_disabled", format!("user {user} is disabled")).into());
    }
    // A user of the OpenID provider is not the proxy's user of the same name.
    if known.as_ref().is_some_and(|known| known.foreign.is_some()) {
        let message = format!("x-user-id: {user} is a user of the OpenID provider and must sign in there");
        return Err(ApiError::forbidden("foreign_user", message).into());
    }
    let role = known.map_or(Role::User, |known| known.role);
    Ok(Identity { user, role, scopes: Identity::scopes_of(role), how: How::Proxy })
}

async fn by_token(auth: &AuthState, request: &Parts, token: &str) -> Result<Identity, Rejected> {
    if is_key(token) {
        let Some((user, key)) = auth.people.by_key(token).await? else {
            return Err(invalid_token("this API key is unknown, has expired or was revoked"));
        };
        let how = How::Key { id: key.id, expires_at: key.expires_at };
        return Ok(Identity { user: user.id, role: user.role, scopes: key.scopes, how });
    }
    let Some(provider) = &auth.provider else {
        return Err(invalid_token("the token is not an API key, and no OpenID provider is configured"));
    };
    let resource = format!("{}/mcp", auth.base(&request.uri, &request.headers));
    let claims = provider.access_token(token, &resource).await.map_err(|error| invalid_token(error.to_string()))?;
    let user: User = provider.user(&auth.people, &claims).await.map_err(|error| {
        tracing::warn!(%error, "a valid access token belongs to no account");
        Rejected::from(ApiError::forbidden("no_account", error.to_string()))
    })?;
    // Access tokens are issued to MCP clients and never grant admin scopes.
    let scopes = [KeyScope::Mcp, KeyScope::Api].into();
    let how = How::Bearer { expires_at: claims.expires_at() };
    Ok(Identity { user: user.id, role: user.role, scopes, how })
}

async fn by_cookie(auth: &AuthState, headers: &HeaderMap) -> Result<Option<Identity>, Rejected> {
    let Some(token) = auth.cookie(headers) else { return Ok(None) };
    let Some((user, session)) = auth.people.by_session(token.expose()).await? else { return Ok(None) };
    let how = How::Session { token, since: session.created_at, by_link: session.by_link };
    Ok(Some(Identity { user: user.id, role: user.role, scopes: Identity::scopes_of(user.role), how }))
}
