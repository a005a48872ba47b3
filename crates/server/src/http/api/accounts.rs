//! `/api/auth`, `/api/keys` and `/api/users`: signing in, API keys and user accounts.

use crate::http::App;
use crate::http::auth_state::{AuthState, session_of};
use crate::http::extract::{At, Body};
use crate::http::problem::{ApiError, Problem, Refusals};
use crate::http::sign_in::{self, ClientAddress, Me, changed_password, remember};
use crate::identity::Identity;
use crate::views::{AccountView, KeyView, scopes};
use axum::Json;
use axum::extract::{DefaultBodyLimit, State};
use axum::http::{HeaderMap, StatusCode, Uri};
use axum::response::{IntoResponse, Response};
use coracle_accounts::{NameSource, new_user_name, user_name};
use coracle_store::{ApiKey, KeyScope, Role, User};
use coracle_types::Secret;
use serde::{Deserialize, Serialize};
use std::collections::BTreeSet;
use std::str::FromStr;
use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};
use utoipa::ToSchema;
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

/// Maximum length of a request body, in bytes.
const MAX_BODY: usize = 16 << 10;

type Auth = State<Arc<AuthState>>;

/// Routes that require authentication.
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

/// Routes that do not require authentication.
pub(super) fn open_routes() -> OpenApiRouter<App> {
    OpenApiRouter::new().routes(routes!(sign_in::login)).layer(DefaultBodyLimit::max(MAX_BODY))
}

/// Newly created API key, with its secret
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct NewKey {
    /// API key, without its secret
    #[serde(flatten)]
    key: KeyView,
    /// Secret to send as the bearer token. It is returned only in this response.
    secret: String,
}

/// List of API keys
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct Keys {
    /// API keys, oldest first, including revoked and expired ones
    keys: Vec<KeyView>,
}

/// List of user accounts
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct Accounts {
    /// User accounts, sorted by name
    users: Vec<AccountView>,
}

fn views_of(keys: &[ApiKey]) -> Vec<KeyView> {
    let now = SystemTime::now();
    keys.iter().map(|key| KeyView::of(key, now)).collect()
}

/// Rejects callers who are not admins.
pub(super) fn admin(caller: &Identity) -> Result<(), ApiError> {
    if caller.may(KeyScope::Admin) {
        return Ok(());
    }
    Err(ApiError::forbidden("admins_only", "this requires the role admin, and an API key needs the scope admin"))
}

/// Get the current user
#[utoipa::path(
    get, path = "/api/auth/me", operation_id = "show_me", tag = "auth",
    responses(
        (status = 200, description = "Current user", body = Me),
        Refusals,
    )
)]
async fn me(State(auth): Auth, caller: Identity) -> Result<Json<Me>, ApiError> {
    let known = auth.people.store().user(&caller.user).await?;
    let mut me = match &known {
        Some(user) => Me::of(user, caller.how.word()),
        None => Me::of(&User::new(caller.user.clone(), caller.role, UNIX_EPOCH), caller.how.word()),
    };
    me.role = caller.role.as_str();
    Ok(Json(me))
}

/// Sign out
///
/// Ends the browser session of this request. Has no effect with any other authentication method.
#[utoipa::path(
    post, path = "/api/auth/logout", operation_id = "logout", tag = "auth",
    responses(
        (status = 204, description = "Signed out; the response clears the session cookie"),
        Refusals,
    )
)]
async fn logout(State(auth): Auth, caller: Identity) -> Result<Response, ApiError> {
    let mut response = StatusCode::NO_CONTENT.into_response();
    if let Some(session) = session_of(&caller) {
        auth.people.end_session(session.expose()).await?;
        remember(&auth, None, &mut response);
    }
    Ok(response)
}

/// Password change for the current user
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct PasswordChange {
    /// Current password. Not required if the account has no password, or within 15 minutes of signing in with a sign-in
    /// link.
    #[schema(value_type = Option<String>)]
    current: Option<Secret>,
    /// New password, at least 10 characters and at most 1024 bytes
    #[schema(value_type = String, min_length = 10, max_length = 1024)]
    new: Secret,
}

/// Change the current user's password
///
/// Requires a browser session. Ends all of the user's browser sessions and starts a new one for this browser.
#[utoipa::path(
    post, path = "/api/auth/password", operation_id = "change_password", tag = "auth", request_body = PasswordChange,
    responses(
        (status = 204, description = "Password changed; the response sets a new session cookie"),
        (status = 429, description = "Too many attempts; see the `Retry-After` header", body = Problem),
        (status = 503, description = "Server busy with other sign-ins; see the `Retry-After` header", body = Problem),
        Refusals,
    )
)]
async fn password(
    State(auth): Auth,
    caller: Identity,
    ClientAddress(from): ClientAddress,
    Body(body): Body<PasswordChange>,
) -> Result<Response, ApiError> {
    if session_of(&caller).is_none() {
        let message = "changing a password requires a browser session; operators use coracle users passwd";
        return Err(ApiError::forbidden("no_session", message));
    }
    let token = changed_password(&auth, &caller, from, body.current, &body.new).await?;
    let mut response = StatusCode::NO_CONTENT.into_response();
    remember(&auth, Some(&token), &mut response);
    Ok(response)
}

/// List the current user's API keys
#[utoipa::path(
    get, path = "/api/keys", operation_id = "list_own_keys", tag = "keys",
    responses(
        (status = 200, description = "API keys of the current user, including revoked and expired ones", body = Keys),
        Refusals,
    )
)]
async fn own_keys(State(auth): Auth, caller: Identity) -> Result<Json<Keys>, ApiError> {
    let keys = auth.people.keys(&caller.user).await?;
    Ok(Json(Keys { keys: views_of(&keys) }))
}

/// API key to create
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct WantedKey {
    /// Key name, describing what the key is for
    #[schema(min_length = 1, max_length = 256)]
    name: String,
    /// Key scopes: any of `mcp`, `api`, `admin`, `metrics` and `approve`. Defaults to `mcp` and `api`.
    #[serde(default)]
    #[schema(schema_with = scopes)]
    scopes: Vec<String>,
    /// Lifetime in days; without it, the key does not expire
    #[schema(minimum = 1, maximum = 36500)]
    expires_in_days: Option<u32>,
}

/// Create an API key for the current user
///
/// The new key cannot have scopes that the caller lacks. A key created with an API key or an access token expires no
/// later than that key or token, and revoking an API key also revokes the keys created with it.
#[utoipa::path(
    post, path = "/api/keys", operation_id = "add_own_key", tag = "keys", request_body = WantedKey,
    responses(
        (status = 201, description = "API key created. The secret is returned only in this response.", body = NewKey),
        Refusals,
    )
)]
async fn add_own_key(
    State(auth): Auth,
    caller: Identity,
    Body(body): Body<WantedKey>,
) -> Result<(StatusCode, Json<NewKey>), ApiError> {
    let scopes: Result<BTreeSet<KeyScope>, _> = body.scopes.iter().map(|scope| KeyScope::from_str(scope)).collect();
    let mut scopes = scopes.map_err(|error| ApiError::invalid(format!("scope {error}")))?;
    if scopes.is_empty() {
        scopes = [KeyScope::Mcp, KeyScope::Api].into();
    }
    if let Some(missing) = scopes.iter().find(|scope| !caller.may(**scope)) {
        let message =
            format!("cannot create a key with the scope {}, because the caller does not have it", missing.as_str());
        return Err(ApiError::forbidden("insufficient_scope", message));
    }
    let lifetime = match body.expires_in_days {
        None => None,
        Some(days @ 1..=36_500) => Some(Duration::from_hours(24 * u64::from(days))),
        Some(_) => return Err(ApiError::invalid("expires_in_days must be from 1 to 36500")),
    };
    if scopes.contains(&KeyScope::Metrics) && caller.role != Role::Admin {
        return Err(ApiError::forbidden("admins_only", "only admins can create keys with the scope metrics"));
    }
    let people = auth.people.by(&caller.user);
    let (key, secret) = people.add_key(&caller.user, &body.name, scopes, lifetime, caller.key_maker()).await?;
    tracing::info!(user = %caller.user, key = %key.id, "API key created");
    Ok((
        StatusCode::CREATED,
        Json(NewKey { key: KeyView::of(&key, SystemTime::now()), secret: secret.expose().to_owned() }),
    ))
}

/// Revoke one of the current user's API keys
///
/// Revocation is permanent and also revokes the keys created with this key.
#[utoipa::path(
    delete, path = "/api/keys/{id}", operation_id = "revoke_own_key", tag = "keys",
    params(("id" = String, Path, description = "Key ID")),
    responses(
        (status = 204, description = "API key revoked"),
        Refusals,
    )
)]
async fn revoke_own_key(State(auth): Auth, caller: Identity, At(id): At<String>) -> Result<StatusCode, ApiError> {
    revoked(&auth, &caller, &caller.user, &id).await
}

async fn revoked(
    auth: &AuthState,
    caller: &Identity,
    owner: &coracle_types::UserId,
    id: &str,
) -> Result<StatusCode, ApiError> {
    if auth.people.by(&caller.user).revoke_key(Some(owner), id).await? {
        tracing::info!(user = %owner, key = id, "API key revoked");
        return Ok(StatusCode::NO_CONTENT);
    }
    Err(ApiError::new(StatusCode::NOT_FOUND, "no_such_key", "there is no such key, or it is already revoked"))
}

/// List all users
///
/// Requires the `admin` role; an API key also needs the `admin` scope.
#[utoipa::path(
    get, path = "/api/users", operation_id = "list_users", tag = "users",
    responses(
        (status = 200, description = "User accounts, sorted by name", body = Accounts),
        Refusals,
    )
)]
async fn users(State(auth): Auth, caller: Identity) -> Result<Json<Accounts>, ApiError> {
    admin(&caller)?;
    let users = auth.people.all().await?;
    Ok(Json(Accounts { users: users.iter().map(AccountView::from).collect() }))
}

/// User to create
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct WantedUser {
    /// User name: 1 to 64 letters, digits, `-`, `_` or `.`, not starting with `.` or `-`. Letters are converted to
    /// lowercase.
    #[schema(min_length = 1, max_length = 64, pattern = "^[A-Za-z0-9_][A-Za-z0-9_.-]*$")]
    name: String,
    /// Display name of the user
    #[schema(min_length = 1, max_length = 256)]
    display_name: Option<String>,
    /// User role: `admin` or `user` (the default)
    #[schema(pattern = "^(admin|user)$")]
    role: Option<String>,
    /// Initial password, at least 10 characters and at most 1024 bytes. Without it, the response contains a one-time
    /// sign-in link.
    #[schema(value_type = Option<String>, min_length = 10, max_length = 1024)]
    password: Option<Secret>,
}

/// User account, with a sign-in link if one was created
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct AddedUser {
    /// User account
    #[serde(flatten)]
    account: AccountView,
    /// One-time sign-in link, valid for 24 hours and returned only in this response; null if the user was created with
    /// a password
    sign_in_link: Option<String>,
}

fn role(text: Option<&str>) -> Result<Option<Role>, ApiError> {
    text.map(Role::from_str).transpose().map_err(|error| ApiError::invalid(format!("role {error}")))
}

/// Create a user
///
/// Requires the `admin` role; an API key also needs the `admin` scope.
#[utoipa::path(
    post, path = "/api/users", operation_id = "add_user", tag = "users", request_body = WantedUser,
    responses(
        (status = 201, description = "User created", body = AddedUser),
        (status = 409, description = "User name already taken", body = Problem),
        Refusals,
    )
)]
async fn add_user(
    State(auth): Auth,
    caller: Identity,
    uri: Uri,
    headers: HeaderMap,
    Body(body): Body<WantedUser>,
) -> Result<(StatusCode, Json<AddedUser>), ApiError> {
    admin(&caller)?;
    let role = role(body.role.as_deref())?.unwrap_or(Role::User);
    let name = new_user_name(&body.name, NameSource::Operator)?;
    let user = User { display_name: body.display_name, ..User::new(name, role, SystemTime::now()) };
    let people = auth.people.by(&caller.user);
    let user = people.add(user, body.password.as_ref()).await?;
    let sign_in_link = match user.password {
        Some(_) => None,
        None => Some(address(&auth, &uri, &headers, &people.link(&user.id).await?)),
    };
    tracing::info!(by = %caller.user, user = %user.id, role = user.role.as_str(), "user added");
    Ok((StatusCode::CREATED, Json(AddedUser { account: AccountView::from(&user), sign_in_link })))
}

fn address(auth: &AuthState, uri: &Uri, headers: &HeaderMap, token: &Secret) -> String {
    format!("{}/sign-in/{}", auth.base(uri, headers), token.expose())
}

/// Parses a user name from a path. A malformed name is reported as an unknown user.
pub(super) fn named(name: &str) -> Result<coracle_types::UserId, ApiError> {
    user_name(name).map_err(|_| ApiError::new(StatusCode::NOT_FOUND, "no_such_user", "there is no such user"))
}

/// Get a user
///
/// Requires the `admin` role; an API key also needs the `admin` scope.
#[utoipa::path(
    get, path = "/api/users/{name}", operation_id = "show_user", tag = "users",
    params(("name" = String, Path, description = "User name")),
    responses(
        (status = 200, description = "User account", body = AccountView),
        Refusals,
    )
)]
async fn user(State(auth): Auth, caller: Identity, At(name): At<String>) -> Result<Json<AccountView>, ApiError> {
    admin(&caller)?;
    Ok(Json(AccountView::from(&auth.people.find(&named(&name)?).await?)))
}

/// Changes to a user account. Omitted fields stay unchanged.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct UserChange {
    /// Whether the account is disabled. Disabling an account also ends its browser sessions and invalidates its sign-in
    /// links.
    disabled: Option<bool>,
    /// User role: `admin` or `user`
    #[schema(pattern = "^(admin|user)$")]
    role: Option<String>,
}

/// Change a user's role, or disable or enable the account
///
/// Requires the `admin` role; an API key also needs the `admin` scope. Admins cannot change their own account.
#[utoipa::path(
    patch, path = "/api/users/{name}", operation_id = "change_user", tag = "users",
    params(("name" = String, Path, description = "User name")),
    request_body = UserChange,
    responses(
        (status = 200, description = "Updated user account", body = AccountView),
        (status = 409, description = "Account belongs to the caller", body = Problem),
        Refusals,
    )
)]
async fn change_user(
    State(auth): Auth,
    caller: Identity,
    At(name): At<String>,
    Body(body): Body<UserChange>,
) -> Result<Json<AccountView>, ApiError> {
    admin(&caller)?;
    let name = named(&name)?;
    if name == caller.user {
        let message = "admins cannot change their own account: ask another admin, or use coracle users";
        return Err(ApiError::new(StatusCode::CONFLICT, "own_account", message));
    }
    let people = auth.people.by(&caller.user);
    if let Some(role) = role(body.role.as_deref())? {
        people.set_role(&name, role).await?;
        tracing::info!(by = %caller.user, user = %name, role = role.as_str(), "role changed");
    }
    if let Some(disabled) = body.disabled {
        people.set_disabled(&name, disabled).await?;
        tracing::info!(by = %caller.user, user = %name, disabled, "user disabled or enabled");
    }
    Ok(Json(AccountView::from(&auth.people.find(&name).await?)))
}

/// Create a one-time sign-in link for a user
///
/// Requires the `admin` role; an API key also needs the `admin` scope.
#[utoipa::path(
    post, path = "/api/users/{name}/link", operation_id = "make_sign_in_link", tag = "users",
    params(("name" = String, Path, description = "User name")),
    responses(
        (status = 201, description = "Sign-in link created. It is returned only in this response.", body = AddedUser),
        (status = 409, description = "User account disabled", body = Problem),
        Refusals,
    )
)]
async fn link(
    State(auth): Auth,
    caller: Identity,
    uri: Uri,
    headers: HeaderMap,
    At(name): At<String>,
) -> Result<(StatusCode, Json<AddedUser>), ApiError> {
    admin(&caller)?;
    let user = auth.people.find(&named(&name)?).await?;
    let people = auth.people.by(&caller.user);
    let sign_in_link = Some(address(&auth, &uri, &headers, &people.link(&user.id).await?));
    tracing::info!(by = %caller.user, user = %user.id, "sign-in link created");
    Ok((StatusCode::CREATED, Json(AddedUser { account: AccountView::from(&user), sign_in_link })))
}

/// List a user's API keys
///
/// Requires the `admin` role; an API key also needs the `admin` scope.
#[utoipa::path(
    get, path = "/api/users/{name}/keys", operation_id = "list_keys", tag = "users",
    params(("name" = String, Path, description = "User name")),
    responses(
        (status = 200, description = "API keys of the user, including revoked and expired ones", body = Keys),
        Refusals,
    )
)]
async fn keys(State(auth): Auth, caller: Identity, At(name): At<String>) -> Result<Json<Keys>, ApiError> {
    admin(&caller)?;
    let user = auth.people.find(&named(&name)?).await?;
    let keys = auth.people.keys(&user.id).await?;
    Ok(Json(Keys { keys: views_of(&keys) }))
}

/// Revoke a user's API key
///
/// Revocation is permanent and also revokes the keys created with this key. Requires the `admin` role; an API key also
/// needs the `admin` scope.
#[utoipa::path(
    delete, path = "/api/users/{name}/keys/{id}", operation_id = "revoke_key", tag = "users",
    params(("name" = String, Path, description = "User name"), ("id" = String, Path, description = "Key ID")),
    responses(
        (status = 204, description = "API key revoked"),
        Refusals,
    )
)]
async fn revoke_key(
    State(auth): Auth,
    caller: Identity,
    At((name, id)): At<(String, String)>,
) -> Result<StatusCode, ApiError> {
    admin(&caller)?;
    let owner = named(&name)?;
    auth.people.find(&owner).await?;
    revoked(&auth, &caller, &owner, &id).await
}
