//! `/api/auth`, `/api/keys`, `/api/users`.

use super::extract::{At, Body};
use super::problem::{ApiError, Problem, Refusals};
use crate::accounts::{NameSource, is_good, new_user_name, user_name};
use crate::http::App;
use crate::http::desk::{Desk, session_of};
use crate::http::sign_in::{self, Whence, changed_password, remember};
use crate::identity::Identity;
use axum::Json;
use axum::extract::{DefaultBodyLimit, State};
use axum::http::{HeaderMap, StatusCode, Uri};
use axum::response::{IntoResponse, Response};
use coracle_store::{ApiKey, KeyScope, Role, User};
use coracle_types::Secret;
use serde::{Deserialize, Serialize};
use std::collections::BTreeSet;
use std::str::FromStr;
use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};
use utoipa::ToSchema;
use utoipa::openapi::{Array, ObjectBuilder, Type};
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

/// No body here is longer.
const MAX_BODY: usize = 16 << 10;

type Desks = State<Arc<Desk>>;

/// For callers who may use `/api`.
pub(super) fn routes() -> OpenApiRouter<App> {
    OpenApiRouter::new()
        .routes(routes!(me))
        .routes(routes!(logout))
        .routes(routes!(password))
        .routes(routes!(own_keys, add_own_key))
        .routes(routes!(revoke_own_key))
        .routes(routes!(users, add_user))
        .routes(routes!(user, change_user))
        .routes(routes!(link))
        .routes(routes!(keys))
        .routes(routes!(revoke_key))
        .layer(DefaultBodyLimit::max(MAX_BODY))
}

/// For whoever has not signed in yet.
pub(super) fn open_routes() -> OpenApiRouter<App> {
    OpenApiRouter::new().routes(routes!(sign_in::login)).layer(DefaultBodyLimit::max(MAX_BODY))
}

/// Seconds since 1970.
fn seconds(time: SystemTime) -> i64 {
    match time.duration_since(UNIX_EPOCH) {
        Ok(since) => i64::try_from(since.as_secs()).unwrap_or(i64::MAX),
        Err(before) => -i64::try_from(before.duration().as_secs()).unwrap_or(i64::MAX),
    }
}

/// Who is signed in.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct Me {
    /// The name.
    user: String,
    /// What they are called.
    display_name: Option<String>,
    /// `admin` or `user`.
    role: &'static str,
    /// How they have signed in: `local`, `session`, `key`, `token` or `proxy`.
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

/// Somebody, as admins see them. Times are seconds since 1970.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct Account {
    /// The name.
    name: String,
    /// What they are called.
    display_name: Option<String>,
    /// `admin` or `user`.
    role: &'static str,
    /// May not sign in.
    disabled: bool,
    /// Has a password.
    has_password: bool,
    /// The OpenID provider that knows them.
    issuer: Option<String>,
    /// When they were added.
    created_at: i64,
    /// When they were last here.
    last_seen: Option<i64>,
}

impl Account {
    fn of(user: &User) -> Self {
        Self {
            name: user.id.to_string(),
            display_name: user.display_name.clone(),
            role: user.role.as_str(),
            disabled: user.disabled,
            has_password: user.password.is_some(),
            issuer: user.foreign.as_ref().map(|foreign| foreign.issuer.clone()),
            created_at: seconds(user.created_at),
            last_seen: user.last_seen.map(seconds),
        }
    }
}

/// A key, without the key. Times are seconds since 1970.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct Key {
    /// What it is called in lists.
    id: String,
    /// What its owner calls it.
    name: String,
    /// What it is good for: `mcp`, `api`, `admin`, `metrics`.
    #[schema(schema_with = scopes)]
    scopes: Vec<&'static str>,
    /// Whether it is taken now.
    active: bool,
    /// When it was made.
    created_at: i64,
    /// From when on it is no longer taken.
    expires_at: Option<i64>,
    /// When it was last used.
    last_used: Option<i64>,
    /// When it was taken back.
    revoked_at: Option<i64>,
}

impl Key {
    fn of(key: &ApiKey) -> Self {
        Self {
            id: key.id.clone(),
            name: key.name.clone(),
            scopes: key.scopes.iter().map(|scope| scope.as_str()).collect(),
            active: is_good(key, SystemTime::now()),
            created_at: seconds(key.created_at),
            expires_at: key.expires_at.map(seconds),
            last_used: key.last_used.map(seconds),
            revoked_at: key.revoked_at.map(seconds),
        }
    }
}

/// A key that was just made.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct NewKey {
    /// What will be known of it later.
    #[serde(flatten)]
    key: Key,
    /// The key itself. It is shown this once.
    secret: String,
}

/// Several.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct Keys {
    /// The oldest first.
    keys: Vec<Key>,
}

/// Several.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct Accounts {
    /// By name.
    users: Vec<Account>,
}

/// What is said of scopes in the document.
fn scopes() -> Array {
    let names = KeyScope::ALL.map(KeyScope::as_str);
    Array::new(ObjectBuilder::new().schema_type(Type::String).enum_values(Some(names)))
}

/// What only admins may.
fn admin(caller: &Identity) -> Result<(), ApiError> {
    if caller.may(KeyScope::Admin) {
        return Ok(());
    }
    Err(ApiError::forbidden("admins_only", "only admins may do this, with a key that has the scope admin"))
}

/// Who am I?
#[utoipa::path(
    get, path = "/api/auth/me", operation_id = "show_me", tag = "auth",
    responses(
        (status = 200, description = "Who is signed in", body = Me),
        Refusals,
    )
)]
async fn me(State(desk): Desks, caller: Identity) -> Result<Json<Me>, ApiError> {
    let known = desk.people.store().user(&caller.user).await?;
    let mut me = match &known {
        Some(user) => Me::of(user, caller.how.word()),
        None => Me::of(&User::new(caller.user.clone(), caller.role, UNIX_EPOCH), caller.how.word()),
    };
    me.role = caller.role.as_str();
    Ok(Json(me))
}

/// Sign out: the session of this browser ends.
#[utoipa::path(
    post, path = "/api/auth/logout", operation_id = "logout", tag = "auth",
    responses(
        (status = 204, description = "Signed out"),
        Refusals,
    )
)]
async fn logout(State(desk): Desks, caller: Identity) -> Result<Response, ApiError> {
    let mut response = StatusCode::NO_CONTENT.into_response();
    if let Some(session) = session_of(&caller) {
        desk.people.end_session(session.expose()).await?;
        remember(&desk, None, &mut response);
    }
    Ok(response)
}

/// Another password.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct PasswordChange {
    /// The one before, unless there is none.
    #[schema(value_type = Option<String>)]
    current: Option<Secret>,
    /// The new one.
    #[schema(value_type = String, min_length = 10, max_length = 1024)]
    new: Secret,
}

/// Set one's own password: all sessions end, and this browser gets a new one.
#[utoipa::path(
    post, path = "/api/auth/password", operation_id = "change_password", tag = "auth", request_body = PasswordChange,
    responses(
        (status = 204, description = "Set; the answer sets the cookie"),
        (status = 429, description = "Too many attempts", body = Problem),
        (status = 503, description = "Busy with other sign-ins", body = Problem),
        Refusals,
    )
)]
async fn password(
    State(desk): Desks,
    caller: Identity,
    Whence(from): Whence,
    Body(body): Body<PasswordChange>,
) -> Result<Response, ApiError> {
    if session_of(&caller).is_none() {
        let message = "passwords are set by who has signed in to a browser, or by coracle users passwd";
        return Err(ApiError::forbidden("no_session", message));
    }
    let token = changed_password(&desk, &caller, from, body.current, &body.new).await?;
    let mut response = StatusCode::NO_CONTENT.into_response();
    remember(&desk, Some(&token), &mut response);
    Ok(response)
}

/// One's own keys.
#[utoipa::path(
    get, path = "/api/keys", operation_id = "list_own_keys", tag = "keys",
    responses(
        (status = 200, description = "All of them, also those that are no longer good", body = Keys),
        Refusals,
    )
)]
async fn own_keys(State(desk): Desks, caller: Identity) -> Result<Json<Keys>, ApiError> {
    let keys = desk.people.keys(&caller.user).await?;
    Ok(Json(Keys { keys: keys.iter().map(Key::of).collect() }))
}

/// A key that is wanted.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct WantedKey {
    /// What it is for.
    #[schema(min_length = 1, max_length = 256)]
    name: String,
    /// What it is good for: `mcp`, `api`, `admin`, `metrics`. Without any, `mcp` and `api`.
    #[serde(default)]
    #[schema(schema_with = scopes)]
    scopes: Vec<String>,
    /// For how many days; for ever without.
    #[schema(minimum = 1, maximum = 36500)]
    expires_in_days: Option<u32>,
}

/// Make a key of one's own. A key that is made by a key has no scope that it lacks, ends no later, and is revoked with
/// it.
#[utoipa::path(
    post, path = "/api/keys", operation_id = "add_own_key", tag = "keys", request_body = WantedKey,
    responses(
        (status = 201, description = "Made. The key is shown this once", body = NewKey),
        Refusals,
    )
)]
async fn add_own_key(
    State(desk): Desks,
    caller: Identity,
    Body(body): Body<WantedKey>,
) -> Result<(StatusCode, Json<NewKey>), ApiError> {
    let scopes: Result<BTreeSet<KeyScope>, _> = body.scopes.iter().map(|scope| KeyScope::from_str(scope)).collect();
    let mut scopes = scopes.map_err(|error| ApiError::invalid(format!("scope {error}")))?;
    if scopes.is_empty() {
        scopes = [KeyScope::Mcp, KeyScope::Api].into();
    }
    if let Some(missing) = scopes.iter().find(|scope| !caller.may(**scope)) {
        let message = format!("a key with the scope {} is made by who has it", missing.as_str());
        return Err(ApiError::forbidden("insufficient_scope", message));
    }
    let lifetime = match body.expires_in_days {
        None => None,
        Some(days @ 1..=36_500) => Some(Duration::from_hours(24 * u64::from(days))),
        Some(_) => return Err(ApiError::invalid("expires_in_days is between 1 and 36500")),
    };
    if scopes.contains(&KeyScope::Metrics) && caller.role != Role::Admin {
        return Err(ApiError::forbidden("admins_only", "only admins make keys with the scope metrics"));
    }
    let (key, secret) = desk.people.add_key(&caller.user, &body.name, scopes, lifetime, caller.key_maker()).await?;
    tracing::info!(user = %caller.user, key = %key.id, "an API key was made");
    Ok((StatusCode::CREATED, Json(NewKey { key: Key::of(&key), secret: secret.expose().to_owned() })))
}

/// Revoke a key of one's own, for good.
#[utoipa::path(
    delete, path = "/api/keys/{id}", operation_id = "revoke_own_key", tag = "keys", params(("id" = String, Path, description = "Which")),
    responses(
        (status = 204, description = "Revoked"),
        Refusals,
    )
)]
async fn revoke_own_key(State(desk): Desks, caller: Identity, At(id): At<String>) -> Result<StatusCode, ApiError> {
    revoked(&desk, &caller.user, &id).await
}

async fn revoked(desk: &Desk, owner: &coracle_types::UserId, id: &str) -> Result<StatusCode, ApiError> {
    if desk.people.revoke_key(Some(owner), id).await? {
        tracing::info!(user = %owner, key = id, "an API key was revoked");
        return Ok(StatusCode::NO_CONTENT);
    }
    Err(ApiError::new(StatusCode::NOT_FOUND, "no_such_key", "there is no such key, or it was revoked already"))
}

/// Everybody.
#[utoipa::path(
    get, path = "/api/users", operation_id = "list_users", tag = "users",
    responses(
        (status = 200, description = "By name", body = Accounts),
        Refusals,
    )
)]
async fn users(State(desk): Desks, caller: Identity) -> Result<Json<Accounts>, ApiError> {
    admin(&caller)?;
    let users = desk.people.all().await?;
    Ok(Json(Accounts { users: users.iter().map(Account::of).collect() }))
}

/// Somebody who is to be added.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct WantedUser {
    /// 1 to 64 letters, digits, '-', '_' or '.', not starting with '.' or '-'. Letters become small ones.
    #[schema(min_length = 1, max_length = 64, pattern = "^[A-Za-z0-9_][A-Za-z0-9_.-]*$")]
    name: String,
    /// What they are called.
    #[schema(min_length = 1, max_length = 256)]
    display_name: Option<String>,
    /// `admin` or `user`, which it is without.
    #[schema(pattern = "^(admin|user)$")]
    role: Option<String>,
    /// A password. Without, the answer has a link that signs in once.
    #[schema(value_type = Option<String>, min_length = 10, max_length = 1024)]
    password: Option<Secret>,
}

/// Somebody who was added, or whom a link was made for.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct AddedUser {
    /// The account.
    #[serde(flatten)]
    account: Account,
    /// Signs them in once, within a day. It is shown this once.
    sign_in_link: Option<String>,
}

fn role(text: Option<&str>) -> Result<Option<Role>, ApiError> {
    text.map(Role::from_str).transpose().map_err(|error| ApiError::invalid(format!("role {error}")))
}

/// Add somebody.
#[utoipa::path(
    post, path = "/api/users", operation_id = "add_user", tag = "users", request_body = WantedUser,
    responses(
        (status = 201, description = "Added", body = AddedUser),
        (status = 409, description = "The name is taken", body = Problem),
        Refusals,
    )
)]
async fn add_user(
    State(desk): Desks,
    caller: Identity,
    uri: Uri,
    headers: HeaderMap,
    Body(body): Body<WantedUser>,
) -> Result<(StatusCode, Json<AddedUser>), ApiError> {
    admin(&caller)?;
    let role = role(body.role.as_deref())?.unwrap_or(Role::User);
    let name = new_user_name(&body.name, NameSource::Operator)?;
    let user = User { display_name: body.display_name, ..User::new(name, role, SystemTime::now()) };
    let user = desk.people.add(user, body.password.as_ref()).await?;
    let sign_in_link = match user.password {
        Some(_) => None,
        None => Some(address(&desk, &uri, &headers, &desk.people.link(&user.id).await?)),
    };
    tracing::info!(by = %caller.user, user = %user.id, role = user.role.as_str(), "a user was added");
    Ok((StatusCode::CREATED, Json(AddedUser { account: Account::of(&user), sign_in_link })))
}

fn address(desk: &Desk, uri: &Uri, headers: &HeaderMap, token: &Secret) -> String {
    format!("{}/sign-in/{}", desk.base(uri, headers), token.expose())
}

/// A name of a path; one that cannot be is nobody's.
fn named(name: &str) -> Result<coracle_types::UserId, ApiError> {
    user_name(name).map_err(|_| ApiError::new(StatusCode::NOT_FOUND, "no_such_user", "there is no such user"))
}

/// Somebody.
#[utoipa::path(
    get, path = "/api/users/{name}", operation_id = "show_user", tag = "users", params(("name" = String, Path, description = "Who")),
    responses(
        (status = 200, description = "The account", body = Account),
        Refusals,
    )
)]
async fn user(State(desk): Desks, caller: Identity, At(name): At<String>) -> Result<Json<Account>, ApiError> {
    admin(&caller)?;
    Ok(Json(Account::of(&desk.people.find(&named(&name)?).await?)))
}

/// What is to be changed.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct UserChange {
    /// Shut out, or let in again.
    disabled: Option<bool>,
    /// `admin` or `user`.
    #[schema(pattern = "^(admin|user)$")]
    role: Option<String>,
}

/// Disable or enable somebody, or change their role. Admins cannot do that to themselves.
#[utoipa::path(
    patch, path = "/api/users/{name}", operation_id = "change_user", tag = "users", params(("name" = String, Path, description = "Who")),
    request_body = UserChange,
    responses(
        (status = 200, description = "The account afterwards", body = Account),
        (status = 409, description = "It is the caller", body = Problem),
        Refusals,
    )
)]
async fn change_user(
    State(desk): Desks,
    caller: Identity,
    At(name): At<String>,
    Body(body): Body<UserChange>,
) -> Result<Json<Account>, ApiError> {
    admin(&caller)?;
    let name = named(&name)?;
    if name == caller.user {
        let message = "admins cannot change themselves: ask another, or use coracle users";
        return Err(ApiError::new(StatusCode::CONFLICT, "own_account", message));
    }
    if let Some(role) = role(body.role.as_deref())? {
        desk.people.set_role(&name, role).await?;
        tracing::info!(by = %caller.user, user = %name, role = role.as_str(), "a role was changed");
    }
    if let Some(disabled) = body.disabled {
        desk.people.set_disabled(&name, disabled).await?;
        tracing::info!(by = %caller.user, user = %name, disabled, "a user was disabled or enabled");
    }
    Ok(Json(Account::of(&desk.people.find(&name).await?)))
}

/// Make a link that signs somebody in once.
#[utoipa::path(
    post, path = "/api/users/{name}/link", operation_id = "make_sign_in_link", tag = "users", params(("name" = String, Path, description = "Who")),
    responses(
        (status = 201, description = "Made; it is shown this once", body = AddedUser),
        (status = 409, description = "The user is disabled", body = Problem),
        Refusals,
    )
)]
async fn link(
    State(desk): Desks,
    caller: Identity,
    uri: Uri,
    headers: HeaderMap,
    At(name): At<String>,
) -> Result<(StatusCode, Json<AddedUser>), ApiError> {
    admin(&caller)?;
    let user = desk.people.find(&named(&name)?).await?;
    let sign_in_link = Some(address(&desk, &uri, &headers, &desk.people.link(&user.id).await?));
    tracing::info!(by = %caller.user, user = %user.id, "a sign-in link was made");
    Ok((StatusCode::CREATED, Json(AddedUser { account: Account::of(&user), sign_in_link })))
}

/// Somebody's keys.
#[utoipa::path(
    get, path = "/api/users/{name}/keys", operation_id = "list_keys", tag = "users", params(("name" = String, Path, description = "Whose")),
    responses(
        (status = 200, description = "All of them", body = Keys),
        Refusals,
    )
)]
async fn keys(State(desk): Desks, caller: Identity, At(name): At<String>) -> Result<Json<Keys>, ApiError> {
    admin(&caller)?;
    let user = desk.people.find(&named(&name)?).await?;
    let keys = desk.people.keys(&user.id).await?;
    Ok(Json(Keys { keys: keys.iter().map(Key::of).collect() }))
}

/// Revoke somebody's key, for good.
#[utoipa::path(
    delete, path = "/api/users/{name}/keys/{id}", operation_id = "revoke_key", tag = "users",
    params(("name" = String, Path, description = "Whose"), ("id" = String, Path, description = "Which")),
    responses(
        (status = 204, description = "Revoked"),
        Refusals,
    )
)]
async fn revoke_key(
    State(desk): Desks,
    caller: Identity,
    At((name, id)): At<(String, String)>,
) -> Result<StatusCode, ApiError> {
    admin(&caller)?;
    let owner = named(&name)?;
    desk.people.find(&owner).await?;
    revoked(&desk, &owner, &id).await
}
