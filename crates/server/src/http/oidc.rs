//! Sign-in with an OpenID provider: the authorization code flow with PKCE, state and nonce.

use super::auth_state::{AuthState, local_path, named_cookie};
use super::provider::{OidcError, PATIENCE, Provider, Waiting, body};
use super::sign_in::{ClientAddress, Way, begun};
use super::{ApiError, App, pages};
use axum::Router;
use axum::extract::{Query, State};
use axum::http::{HeaderMap, HeaderValue, StatusCode, Uri, header};
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use coracle_accounts::random_token;
use coracle_audit::SignInMethod;
use coracle_store::TokenDigest;
use coracle_types::Secret;
use futures::future::BoxFuture;
use oauth2::basic::{
    BasicErrorResponse, BasicRevocationErrorResponse, BasicTokenIntrospectionResponse, BasicTokenType,
};
use oauth2::{
    AuthUrl, AuthorizationCode, Client, ClientId, ClientSecret, CsrfToken, EndpointNotSet, EndpointSet,
    ExtraTokenFields, HttpRequest, HttpResponse, PkceCodeChallenge, PkceCodeVerifier, RedirectUrl, Scope,
    StandardRevocableToken, StandardTokenResponse, TokenUrl,
};
use serde::{Deserialize, Serialize};
use std::net::IpAddr;
use std::sync::Arc;
use std::time::Instant;

/// Cookie that identifies the browser which started a sign-in, so that a link made by somebody else cannot complete it.
const BROWSER: &str = "coracle_oidc";

pub(super) fn router() -> Router<App> {
    Router::new().route("/auth/oidc/login", get(login)).route("/auth/oidc/callback", get(callback))
}

#[derive(Debug, Serialize, Deserialize)]
struct IdToken {
    id_token: Option<Secret>,
}

impl ExtraTokenFields for IdToken {}

type OurClient = Client<
    BasicErrorResponse,
    StandardTokenResponse<IdToken, BasicTokenType>,
    BasicTokenIntrospectionResponse,
    StandardRevocableToken,
    BasicRevocationErrorResponse,
    EndpointSet,
    EndpointNotSet,
    EndpointNotSet,
    EndpointNotSet,
    EndpointSet,
>;

impl Provider {
    fn client_id(&self) -> Result<&str, OidcError> {
        let id = self.settings().client_id.as_deref();
        id.ok_or_else(|| OidcError::Useless("server.oidc.client_id is not set".to_owned()))
    }

    async fn client(&self, base: &str) -> Result<OurClient, OidcError> {
        let description = self.description().await?;
        let useless = |error: url::ParseError| OidcError::Useless(error.to_string());
        let mut client = Client::new(ClientId::new(self.client_id()?.to_owned()));
        if let Some(secret) = &self.settings().client_secret {
            client = client.set_client_secret(ClientSecret::new(secret.expose().to_owned()));
        }
        Ok(client
            .set_auth_uri(AuthUrl::from_url(description.authorization_endpoint))
            .set_token_uri(TokenUrl::from_url(description.token_endpoint))
            .set_redirect_uri(RedirectUrl::new(format!("{base}/auth/oidc/callback")).map_err(useless)?))
    }

    /// Exchanges the code for an ID token.
    async fn exchanged(&self, base: &str, code: String, verifier: PkceCodeVerifier) -> Result<Secret, OidcError> {
        let client = self.client(base).await?;
        let http = self.http.clone().map_err(OidcError::Silent)?;
        exchange(client, http, code, verifier).await
    }
}

/// Boxed, because the compiler cannot prove that the library's future is `Send`.
fn exchange(
    client: OurClient,
    http: reqwest::Client,
    code: String,
    verifier: PkceCodeVerifier,
) -> BoxFuture<'static, Result<Secret, OidcError>> {
    Box::pin(async move {
        let send = move |request| send(http.clone(), request);
        let answer = client.exchange_code(AuthorizationCode::new(code)).set_pkce_verifier(verifier);
        let answer = answer.request_async(&send).await.map_err(|error| match error {
            oauth2::RequestTokenError::Request(error) => error,
            oauth2::RequestTokenError::ServerResponse(error) => {
                OidcError::Token(format!("the provider refused: {}", error.error()))
            }
            oauth2::RequestTokenError::Parse(..) | oauth2::RequestTokenError::Other(_) => {
                OidcError::Useless("invalid token response".to_owned())
            }
        })?;
        let token = answer.extra_fields().id_token.clone();
        token.ok_or_else(|| {
            OidcError::Useless("no id_token in its response: add openid to server.oidc.scopes".to_owned())
        })
    })
}

async fn send(http: reqwest::Client, request: HttpRequest) -> Result<HttpResponse, OidcError> {
    let silent = |error: reqwest::Error| OidcError::Silent(error.without_url().to_string());
    let request = reqwest::Request::try_from(request).map_err(silent)?;
    let response = http.execute(request).await.map_err(silent)?;
    let (status, headers) = (response.status(), response.headers().clone());
    let mut answer = HttpResponse::new(body(response).await?);
    *answer.status_mut() = status;
    *answer.headers_mut() = headers;
    Ok(answer)
}

fn failed(error: &OidcError) -> Response {
    tracing::warn!(%error, "sign-in with the OpenID provider failed");
    let status = match error {
        OidcError::Silent(_) | OidcError::Useless(_) => StatusCode::BAD_GATEWAY,
        OidcError::Token(_) => StatusCode::UNAUTHORIZED,
        OidcError::NoAccount => StatusCode::FORBIDDEN,
        OidcError::Account(_) => StatusCode::INTERNAL_SERVER_ERROR,
    };
    let text = match error {
        OidcError::Account(_) => "The server failed. Its log has the details.".to_owned(),
        error => error.to_string(),
    };
    pages::failed(status, &text)
}

fn nothing() -> Response {
    pages::failed(StatusCode::NOT_FOUND, "No OpenID provider is configured.")
}

#[derive(Deserialize)]
struct Begin {
    next: Option<String>,
}

async fn login(
    State(auth): State<Arc<AuthState>>,
    ClientAddress(from): ClientAddress,
    Query(begin): Query<Begin>,
    uri: Uri,
    headers: HeaderMap,
) -> Response {
    let Some(provider) = auth.provider.as_ref().filter(|provider| provider.signs_people_in()) else { return nothing() };
    match begin_at(&auth, provider, from, begin, &uri, &headers).await {
        Ok(response) => response,
        Err(error) => failed(&error),
    }
}

async fn begin_at(
    auth: &AuthState,
    provider: &Provider,
    from: IpAddr,
    begin: Begin,
    uri: &Uri,
    headers: &HeaderMap,
) -> Result<Response, OidcError> {
    let client = provider.client(&auth.base(uri, headers)).await?;
    let (challenge, verifier) = PkceCodeChallenge::new_random_sha256();
    let (state, nonce) = (random_token()?.expose().to_owned(), random_token()?.expose().to_owned());
    let chosen = state.clone();
    let scopes = provider.scopes().iter().cloned().map(Scope::new);
    let (address, _) = client
        .authorize_url(move || CsrfToken::new(chosen))
        .add_scopes(scopes)
        .add_extra_param("nonce", nonce.clone())
        .set_pkce_challenge(challenge)
        .url();
    let browser = match named_cookie(headers, BROWSER) {
        Some(browser) => browser,
        None => random_token()?,
    };
    let next = begin.next.as_deref().and_then(local_path).unwrap_or("/sign-in").to_owned();
    let browser_digest = TokenDigest::of(browser.expose());
    let waiting = Waiting { from, browser: browser_digest, nonce, verifier, next, since: Instant::now() };
    provider.pending.add(state, waiting);
    let mut response = StatusCode::SEE_OTHER.into_response();
    let useless = |_| OidcError::Useless("invalid authorization endpoint".to_owned());
    let address = HeaderValue::from_str(address.as_str()).map_err(useless)?;
    response.headers_mut().insert(header::LOCATION, address);
    let cookie = auth.other_cookie(BROWSER, "/auth/oidc", &browser, PATIENCE);
    response.headers_mut().extend(cookie.map(|cookie| (header::SET_COOKIE, cookie)));
    pages::private(response.headers_mut());
    Ok(response)
}

#[derive(Deserialize)]
struct Back {
    state: Option<String>,
    code: Option<String>,
    error: Option<String>,
    iss: Option<String>,
}

async fn callback(
    State(auth): State<Arc<AuthState>>,
    Query(back): Query<Back>,
    uri: Uri,
    headers: HeaderMap,
) -> Result<Response, ApiError> {
    let Some(provider) = auth.provider.as_ref().filter(|provider| provider.signs_people_in()) else {
        return Ok(nothing());
    };
    let browser = named_cookie(&headers, BROWSER);
    let waiting = back
        .state
        .as_deref()
        .zip(browser.as_ref())
        .and_then(|(state, browser)| provider.pending.take(state, &TokenDigest::of(browser.expose())));
    let Some(waiting) = waiting else {
        let text = "This sign-in was started in another browser, has expired or is already complete.";
        return Ok(pages::failed(StatusCode::BAD_REQUEST, text));
    };
    let next = waiting.next.clone();
    match came_back(&auth, provider, back, waiting, &uri, &headers).await {
        Ok(user) => {
            auth.people.record_sign_in(&user.id, SignInMethod::Oidc, None);
            begun(&auth, &user, &headers, Way::Provider, &next).await
        }
        Err(error) => {
            auth.people.record_failed_sign_in(SignInMethod::Oidc, None, "refused");
            Ok(failed(&error))
        }
    }
}

async fn came_back(
    auth: &AuthState,
    provider: &Provider,
    back: Back,
    waiting: Waiting,
    uri: &Uri,
    headers: &HeaderMap,
) -> Result<coracle_store::User, OidcError> {
    // RFC 9207: responses from another issuer are rejected.
    if back.iss.is_some_and(|iss| iss != provider.issuer()) {
        return Err(OidcError::Token("the response is from another provider".to_owned()));
    }
    let Some(code) = back.code else {
        let error: String = back.error.unwrap_or_default().chars().filter(char::is_ascii_graphic).take(60).collect();
        return Err(OidcError::Token(format!("the provider refused: {error}")));
    };
    let token = provider.exchanged(&auth.base(uri, headers), code, waiting.verifier).await?;
    let claims = provider.id_token(token.expose(), provider.client_id()?, &waiting.nonce).await?;
    provider.user(&auth.people, &claims).await
}
