//! Signing in and out: the pages under `/sign-in`, and `/api/auth/login` for front ends.

use super::auth_state::{AuthState, form_token, local_path, session_of};
use super::extract::Body;
use super::problem::{Problem, Refusals};
use super::{ApiError, App, authentication, pages};
use crate::identity::{How, Identity};
use axum::extract::rejection::FormRejection;
use axum::extract::{DefaultBodyLimit, FromRef, FromRequestParts, Path, Query, State};
use axum::http::request::Parts;
use axum::http::{HeaderMap, HeaderValue, StatusCode, Uri, header};
use axum::response::{IntoResponse, Response};
use axum::routing::{get, post};
use axum::{Form, Json, Router};
use coracle_accounts::SignInError;
use coracle_store::{Role, User};
use coracle_types::Secret;
use serde::{Deserialize, Serialize};
use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;
use utoipa::ToSchema;

/// The default page after signing in or out.
const HOME: &str = "/sign-in";
/// The page after signing in as the local user.
const ROOT: &str = "/";
/// Maximum length of a submitted form, in bytes.
const MAX_FORM: usize = 16 << 10;
/// After signing in with a link, a user can set a password for this long without the current one.
const LINK_TRUST: Duration = Duration::from_mins(15);

type Auth = State<Arc<AuthState>>;

/// Routes without authentication middleware: handlers that need a session check it themselves.
pub(super) fn router() -> Router<App> {
    Router::new()
        .route("/sign-in", get(show).post(by_form))
        .route("/sign-in/password", get(show_password).post(set_password))
        .route("/sign-in/out", post(sign_out))
        .route("/sign-in/{token}", get(show_link).post(by_link))
        .layer(DefaultBodyLimit::max(MAX_FORM))
}

/// Current user
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct Me {
    /// User name
    user: String,
    /// Display name; null if none is set
    display_name: Option<String>,
    /// User role: `admin` or `user`
    pub(crate) role: &'static str,
    /// Authentication method: `local` (server without authentication), `session` (browser session), `key` (API key),
    /// `token` (OpenID Connect access token) or `proxy` (trusted reverse proxy)
    how: String,
}

impl Me {
    pub(crate) fn of(user: &User, how: &str) -> Self {
        Self {
            user: user.id.to_string(),
            display_name: user.display_name.clone(),
            role: user.role.as_str(),
            how: how.to_owned(),
        }
    }
}

/// The client address of a request.
pub(crate) struct ClientAddress(pub(crate) IpAddr);

impl FromRequestParts<App> for ClientAddress {
    type Rejection = std::convert::Infallible;

    async fn from_request_parts(parts: &mut Parts, app: &App) -> Result<Self, Self::Rejection> {
        let auth = Arc::<AuthState>::from_ref(app);
        Ok(Self(auth.client(authentication::peer(&parts.extensions), &parts.headers)))
    }
}

#[derive(Deserialize)]
struct Next {
    next: Option<String>,
}

impl Next {
    fn path(&self) -> &str {
        self.next.as_deref().and_then(local_path).unwrap_or(HOME)
    }
}

fn provider(auth: &AuthState, next: &str) -> Option<String> {
    auth.provider.as_ref().filter(|provider| provider.signs_people_in())?;
    let query: String = url::form_urlencoded::Serializer::new(String::new()).append_pair("next", next).finish();
    Some(format!("/auth/oidc/login?{query}"))
}

async fn show(State(auth): Auth, Query(next): Query<Next>, headers: HeaderMap) -> Result<Response, ApiError> {
    if let Some(caller) = authentication::signed_in(&auth, &headers).await?
        && let Some(session) = session_of(&caller)
    {
        return Ok(pages::account(caller.user.as_str(), caller.role == Role::Admin, &form_token(session)));
    }
    if auth.is_local_browser(&headers).await? {
        return Ok(redirect_to(ROOT));
    }
    let provider = provider(&auth, next.path());
    Ok(pages::sign_in(StatusCode::OK, None, next.path(), provider.as_deref()))
}

#[derive(Deserialize)]
struct SignInForm {
    user: String,
    password: Secret,
    next: Option<String>,
}

async fn by_form(
    State(auth): Auth,
    ClientAddress(from): ClientAddress,
    uri: Uri,
    headers: HeaderMap,
    form: Result<Form<SignInForm>, FormRejection>,
) -> Result<Response, ApiError> {
    same_origin(&auth, &uri, &headers)?;
    let Form(form) = form.map_err(|error| ApiError::invalid(error.body_text()))?;
    let next = Next { next: form.next };
    match auth.people.by_password(&form.user, &form.password, from).await {
        Ok(user) => begun(&auth, &user, &headers, Way::Password, next.path()).await,
        Err(SignInError::Account(error)) => Err(error.into()),
        Err(error) => {
            let text = error.to_string();
            let refused = ApiError::from(error).into_response();
            let provider = provider(&auth, next.path());
            let mut page = pages::sign_in(refused.status(), Some(&text), next.path(), provider.as_deref());
            let retry = refused.headers().get(header::RETRY_AFTER).cloned();
            page.headers_mut().extend(retry.map(|value| (header::RETRY_AFTER, value)));
            Ok(page)
        }
    }
}

/// Credentials of a user
#[derive(Deserialize, utoipa::ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct Login {
    /// User name
    user: String,
    /// Password of the user
    #[schema(value_type = String)]
    password: Secret,
}

/// Sign in with a user name and a password
///
/// Starts a browser session and ends the previous one of this browser, if any.
#[utoipa::path(
    post, path = "/api/auth/login", operation_id = "login", tag = "auth", security(()), request_body = Login,
    responses(
        (status = 200, description = "Signed-in user; the response sets the session cookie", body = Me),
        (
            status = 429, description = "Too many sign-in attempts; see the `Retry-After` header",
            body = Problem
        ),
        (
            status = 503, description = "Server busy with other sign-ins; see the `Retry-After` header",
            body = Problem
        ),
        Refusals,
    )
)]
pub(crate) async fn login(
    State(auth): Auth,
    ClientAddress(from): ClientAddress,
    uri: Uri,
    headers: HeaderMap,
    Body(body): Body<Login>,
) -> Result<Response, ApiError> {
    same_origin(&auth, &uri, &headers)?;
    let user = auth.people.by_password(&body.user, &body.password, from).await?;
    let token = session(&auth, &user, &headers, Way::Password).await?;
    let mut response = Json(Me::of(&user, "session")).into_response();
    remember(&auth, Some(&token), &mut response);
    Ok(response)
}

async fn show_link() -> Response {
    pages::link(StatusCode::OK, None)
}

async fn by_link(
    State(auth): Auth,
    ClientAddress(from): ClientAddress,
    Path(token): Path<String>,
    uri: Uri,
    headers: HeaderMap,
) -> Result<Response, ApiError> {
    same_origin(&auth, &uri, &headers)?;
    if !auth.is_required().await?
        && let Some(session) = auth.local_browser.sign_in(&token, auth.session)?
    {
        let mut response = redirect_to(ROOT);
        remember(&auth, Some(&session), &mut response);
        return Ok(response);
    }
    match auth.people.by_link(&token, from).await {
        Ok(user) => begun(&auth, &user, &headers, Way::Link, "/sign-in/password").await,
        Err(SignInError::Account(error)) => Err(error.into()),
        Err(SignInError::Wrong) => {
            let text = if auth.is_required().await? {
                "This link was used already, or has expired. Ask for a new one: coracle users link NAME"
            } else {
                "This link was used already, or has expired. Each start of coracle up prints a new one."
            };
            Ok(pages::link(StatusCode::UNAUTHORIZED, Some(text)))
        }
        Err(error) => Err(error.into()),
    }
}

/// How a user signed in to a browser session.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Way {
    Password,
    Link,
    Provider,
}

/// Starts a session for a user and redirects to the page that they requested.
pub(crate) async fn begun(
    auth: &AuthState,
    user: &User,
    headers: &HeaderMap,
    way: Way,
    next: &str,
) -> Result<Response, ApiError> {
    let token = session(auth, user, headers, way).await?;
    let mut response = redirect_to(next);
    remember(auth, Some(&token), &mut response);
    Ok(response)
}

/// Starts a new session and ends the browser's previous one, whoever it belonged to.
async fn session(auth: &AuthState, user: &User, headers: &HeaderMap, way: Way) -> Result<Secret, ApiError> {
    if let Some(before) = auth.cookie(headers) {
        auth.people.end_session(before.expose()).await?;
    }
    tracing::info!(user = %user.id, "signed in");
    Ok(auth.people.begin_session(&user.id, auth.session, way == Way::Link).await?)
}

pub(crate) fn remember(auth: &AuthState, token: Option<&Secret>, response: &mut Response) {
    response.headers_mut().extend(auth.set_cookie(token).map(|cookie| (header::SET_COOKIE, cookie)));
    pages::private(response.headers_mut());
}

pub(crate) fn redirect_to(path: &str) -> Response {
    let mut response = StatusCode::SEE_OTHER.into_response();
    let path = HeaderValue::from_str(path).unwrap_or(HeaderValue::from_static(HOME));
    response.headers_mut().insert(header::LOCATION, path);
    response
}

pub(crate) fn same_origin(auth: &AuthState, uri: &Uri, headers: &HeaderMap) -> Result<(), ApiError> {
    if auth.is_same_origin(uri, headers) {
        return Ok(());
    }
    Err(ApiError::forbidden("csrf", "this request must come from a page of this server"))
}

/// Returns the signed-in user and their session.
async fn caller(auth: &AuthState, headers: &HeaderMap) -> Result<Option<(Identity, Secret)>, ApiError> {
    let caller = authentication::signed_in(auth, headers).await?;
    Ok(caller.and_then(|caller| session_of(&caller).cloned().map(|session| (caller, session))))
}

/// Whether the current password is required to set a new one.
pub(crate) fn asks_for_current(caller: &Identity, user: &User) -> bool {
    let by_link = match &caller.how {
        How::Session { since, by_link: true, .. } => since.elapsed().is_ok_and(|since| since < LINK_TRUST),
        _ => false,
    };
    user.password.is_some() && !by_link
}

async fn show_password(State(auth): Auth, headers: HeaderMap) -> Result<Response, ApiError> {
    let Some((caller, session)) = caller(&auth, &headers).await? else { return Ok(redirect_to(HOME)) };
    let user = auth.people.find(&caller.user).await?;
    let asks = asks_for_current(&caller, &user);
    Ok(pages::password(StatusCode::OK, None, user.id.as_str(), asks, &form_token(&session)))
}

#[derive(Deserialize)]
struct PasswordForm {
    csrf: String,
    current: Option<Secret>,
    password: Secret,
}

async fn set_password(
    State(auth): Auth,
    ClientAddress(from): ClientAddress,
    uri: Uri,
    headers: HeaderMap,
    form: Result<Form<PasswordForm>, FormRejection>,
) -> Result<Response, ApiError> {
    same_origin(&auth, &uri, &headers)?;
    let Some((caller, session)) = caller(&auth, &headers).await? else { return Ok(redirect_to(HOME)) };
    let Form(form) = form.map_err(|error| ApiError::invalid(error.body_text()))?;
    known_form(&form.csrf, &session)?;
    match changed_password(&auth, &caller, from, form.current, &form.password).await {
        Ok(token) => {
            let mut response = redirect_to(HOME);
            remember(&auth, Some(&token), &mut response);
            Ok(response)
        }
        Err(refusal) if refusal.status.is_client_error() => {
            let user = auth.people.find(&caller.user).await?;
            let asks = asks_for_current(&caller, &user);
            let token = form_token(&session);
            Ok(pages::password(refusal.status, Some(&refusal.error), user.id.as_str(), asks, &token))
        }
        Err(refusal) => Err(refusal),
    }
}

/// Sets the caller's password, ends all of their sessions and returns a new one.
pub(crate) async fn changed_password(
    auth: &AuthState,
    caller: &Identity,
    from: IpAddr,
    current: Option<Secret>,
    password: &Secret,
) -> Result<Secret, ApiError> {
    let user = auth.people.find(&caller.user).await?;
    if asks_for_current(caller, &user) {
        let current = current.unwrap_or_default();
        let known = auth.people.by_password(user.id.as_str(), &current, from).await;
        known.map_err(|error| match error {
            SignInError::Wrong => ApiError::forbidden("wrong_password", "the current password is wrong"),
            other => other.into(),
        })?;
    }
    auth.people.by(&user.id).set_password(&user.id, password).await?;
    Ok(auth.people.begin_session(&user.id, auth.session, false).await?)
}

#[derive(Deserialize)]
struct OutForm {
    csrf: String,
}

async fn sign_out(
    State(auth): Auth,
    uri: Uri,
    headers: HeaderMap,
    form: Result<Form<OutForm>, FormRejection>,
) -> Result<Response, ApiError> {
    same_origin(&auth, &uri, &headers)?;
    let mut response = redirect_to(HOME);
    if let Some(token) = auth.cookie(&headers) {
        auth.local_browser.sign_out(&token);
    }
    if let Some((_, session)) = caller(&auth, &headers).await? {
        let Form(form) = form.map_err(|error| ApiError::invalid(error.body_text()))?;
        known_form(&form.csrf, &session)?;
        auth.people.end_session(session.expose()).await?;
    }
    remember(&auth, None, &mut response);
    Ok(response)
}

/// Checks that a form comes from a page that was rendered for this session.
fn known_form(csrf: &str, session: &Secret) -> Result<(), ApiError> {
    let digest = coracle_store::TokenDigest::of;
    if digest(csrf) == digest(&form_token(session)) {
        return Ok(());
    }
    Err(ApiError::forbidden("csrf", "this form is from another session: open the page again"))
}
