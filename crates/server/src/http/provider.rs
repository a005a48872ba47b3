//! Metadata and keys of an OpenID provider, and validation of its tokens.

mod pending;
mod verifier;

pub(super) use pending::{PATIENCE, Waiting};

use coracle_accounts::{AccountError, People, may_sign_in};
use coracle_config::Oidc;
use coracle_store::{ForeignIdentity, User};
use jsonwebtoken::jwk::{Jwk, JwkSet, PublicKeyUse};
use jsonwebtoken::{DecodingKey, Validation, decode, decode_header};
use pending::Pending;
use reqwest::redirect::Policy;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Deserializer};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant, SystemTime};
use url::Url;

/// Timeout of a request to the provider.
const TIMEOUT: Duration = Duration::from_secs(10);
/// Maximum length of a response in bytes.
const MAX_ANSWER: usize = 1 << 20;
/// Time after which metadata and keys are requested again.
const KEPT: Duration = Duration::from_hours(1);
/// Minimum interval between requests, for an unknown key or after a failure.
const FLOOR: Duration = Duration::from_secs(10);
/// Tolerated clock difference in seconds.
const LEEWAY: u64 = 30;

/// Error of a sign-in with the provider.
#[derive(Debug, thiserror::Error)]
pub(crate) enum OidcError {
    #[error("cannot reach the OpenID provider: {0}")]
    Silent(String),
    #[error("cannot use the OpenID provider: {0}")]
    Useless(String),
    #[error("token rejected: {0}")]
    Token(String),
    #[error("no account matches this sign-in: ask an admin to add you")]
    NoAccount,
    #[error(transparent)]
    Account(#[from] AccountError),
}

/// Fields of the provider's metadata that are used.
#[derive(Clone, Debug, Deserialize)]
pub(crate) struct Description {
    issuer: String,
    pub(super) authorization_endpoint: Url,
    pub(super) token_endpoint: Url,
    jwks_uri: Url,
}

struct Known {
    description: Description,
    keys: JwkSet,
    at: Instant,
}

/// Claims of a token.
#[derive(Clone, Debug, Deserialize)]
pub(crate) struct Claims {
    iss: String,
    sub: String,
    #[serde(default)]
    aud: serde_json::Value,
    azp: Option<String>,
    nonce: Option<String>,
    /// Expiry time in seconds since 1970. Some providers send fractions.
    exp: f64,
    name: Option<String>,
    preferred_username: Option<String>,
    email: Option<String>,
    #[serde(default, deserialize_with = "truth")]
    email_verified: bool,
}

impl Claims {
    /// Expiry time of the token.
    pub(crate) fn expires_at(&self) -> SystemTime {
        let since = Duration::try_from_secs_f64(self.exp).unwrap_or_default();
        SystemTime::UNIX_EPOCH.checked_add(since).unwrap_or(SystemTime::UNIX_EPOCH)
    }
}

/// Accepts a boolean that some providers send as a string.
fn truth<'de, D: Deserializer<'de>>(deserializer: D) -> Result<bool, D::Error> {
    let value = serde_json::Value::deserialize(deserializer)?;
    Ok(value == true || value == "true")
}

pub(crate) struct Provider {
    settings: Oidc,
    issuer: String,
    pub(super) http: Result<reqwest::Client, String>,
    known: Mutex<Option<Arc<Known>>>,
    /// Time of the last request, whatever its outcome. Held during a request, so that there is only one at a time.
    turn: tokio::sync::Mutex<Option<Instant>>,
    pub(super) pending: Pending,
}

impl Provider {
    /// Returns the configured provider, if any.
    pub(crate) fn new(settings: &Oidc) -> Option<Self> {
        let issuer = settings.issuer.clone()?;
        verifier::install();
        // An error means that one is already installed, which is equivalent.
        let _ = rustls::crypto::ring::default_provider().install_default();
        let http = reqwest::Client::builder()
            .connect_timeout(TIMEOUT)
            .timeout(TIMEOUT)
            .redirect(Policy::none())
            .user_agent(concat!("coracle/", env!("CARGO_PKG_VERSION")))
            .build()
            .map_err(|error| error.to_string());
        Some(Self {
            settings: settings.clone(),
            issuer,
            http,
            known: Mutex::default(),
            turn: tokio::sync::Mutex::default(),
            pending: Pending::default(),
        })
    }

    pub(crate) fn issuer(&self) -> &str {
        &self.issuer
    }

    pub(crate) fn scopes(&self) -> &[String] {
        &self.settings.scopes
    }

    pub(super) fn settings(&self) -> &Oidc {
        &self.settings
    }

    /// Whether users can sign in with the provider in a browser.
    pub(crate) fn signs_people_in(&self) -> bool {
        self.settings.client_id.is_some()
    }

    pub(super) async fn description(&self) -> Result<Description, OidcError> {
        let known = match self.fresh() {
            Some(known) => known,
            None => self.asked(None).await?,
        };
        Ok(known.description.clone())
    }

    fn fresh(&self) -> Option<Arc<Known>> {
        let known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        known.as_ref().filter(|known| known.at.elapsed() < KEPT).cloned()
    }

    /// Requests metadata and keys, unless that has just been done since `seen`.
    async fn asked(&self, seen: Option<Instant>) -> Result<Arc<Known>, OidcError> {
        let mut turn = self.turn.lock().await;
        if let Some(known) = self.fresh().filter(|known| seen.is_none_or(|seen| known.at > seen)) {
            return Ok(known);
        }
        if turn.is_some_and(|last| last.elapsed() < FLOOR) {
            let known = self.fresh();
            return known.ok_or_else(|| OidcError::Silent("the last request failed a moment ago".to_owned()));
        }
        *turn = Some(Instant::now());
        let address = format!("{}/.well-known/openid-configuration", self.issuer.trim_end_matches('/'));
        let address = Url::parse(&address).map_err(|error| OidcError::Useless(format!("invalid address: {error}")))?;
        let description: Description = self.get(&address).await?;
        if description.issuer != self.issuer {
            let said: String = description.issuer.chars().take(200).collect();
            return Err(OidcError::Useless(format!("its issuer is {said:?}, which is not server.oidc.issuer")));
        }
        for address in [&description.authorization_endpoint, &description.token_endpoint] {
            safe(address)?;
        }
        // A key of an unknown kind must not make the others unusable.
        let raw: RawKeys = self.get(&description.jwks_uri).await?;
        let keys = raw.keys.into_iter().filter_map(|key| serde_json::from_value(key).ok()).collect();
        let known = Arc::new(Known { description, keys: JwkSet { keys }, at: Instant::now() });
        *self.known.lock().unwrap_or_else(PoisonError::into_inner) = Some(Arc::clone(&known));
        Ok(known)
    }

    async fn get<T: DeserializeOwned>(&self, address: &Url) -> Result<T, OidcError> {
        safe(address)?;
        let http = self.http.as_ref().map_err(|error| OidcError::Silent(error.clone()))?;
        let silent = |error: reqwest::Error| OidcError::Silent(error.to_string());
        let response = http.get(address.clone()).send().await.map_err(silent)?;
        let response = response.error_for_status().map_err(silent)?;
        let body = body(response).await?;
        serde_json::from_slice(&body)
            .map_err(|error| OidcError::Useless(format!("invalid response from {address}: {error}")))
    }

    /// Validates an access token for this resource.
    pub(crate) async fn access_token(&self, token: &str, resource: &str) -> Result<Claims, OidcError> {
        let audiences = std::iter::once(resource.to_owned()).chain(self.settings.audience.clone()).collect();
        self.checked(token, audiences).await
    }

    /// Validates the ID token of a sign-in.
    pub(super) async fn id_token(&self, token: &str, client: &str, nonce: &str) -> Result<Claims, OidcError> {
        let claims = self.checked(token, vec![client.to_owned()]).await?;
        if claims.nonce.as_deref() != Some(nonce) {
            return Err(OidcError::Token("it belongs to another sign-in".to_owned()));
        }
        let several = claims.aud.as_array().is_some_and(|all| all.len() > 1);
        if claims.azp.as_deref().map_or(several, |azp| azp != client) {
            return Err(OidcError::Token("it was issued to another client".to_owned()));
        }
        Ok(claims)
    }

    async fn checked(&self, token: &str, audiences: Vec<String>) -> Result<Claims, OidcError> {
        let refused = |error: jsonwebtoken::errors::Error| OidcError::Token(error.to_string());
        let header = decode_header(token).map_err(refused)?;
        if !verifier::is_taken(header.alg) {
            return Err(OidcError::Token(format!("unsupported algorithm {:?}", header.alg)));
        }
        let mut known = match self.fresh() {
            Some(known) => known,
            None => self.asked(None).await?,
        };
        let mut keys = fitting(&known.keys, &header);
        if keys.is_empty() {
            // The provider may have a new key.
            known = self.asked(Some(known.at)).await?;
            keys = fitting(&known.keys, &header);
        }
        let mut validation = Validation::new(header.alg);
        validation.set_required_spec_claims(&["exp", "iss", "aud", "sub"]);
        validation.set_issuer(&[&self.issuer]);
        validation.set_audience(&audiences);
        validation.validate_nbf = true;
        validation.leeway = LEEWAY;
        let mut failure = OidcError::Token("unknown signing key".to_owned());
        for key in keys {
            let checked = DecodingKey::from_jwk(key).and_then(|key| decode::<Claims>(token, &key, &validation));
            match checked {
                Ok(data) => return Ok(data.claims),
                Err(error) => failure = refused(error),
            }
        }
        Err(failure)
    }

    /// Finds the user of a token, and adds them if that is enabled.
    pub(crate) async fn user(&self, people: &People, claims: &Claims) -> Result<User, OidcError> {
        let foreign = ForeignIdentity { issuer: claims.iss.clone(), subject: claims.sub.clone() };
        let known = people.store().user_of(&foreign).await.map_err(AccountError::from)?;
        let user = match known {
            Some(user) => user,
            None if self.settings.auto_create && self.is_of_domain(claims) => {
                let names = [&claims.preferred_username, &claims.email, &claims.name];
                let wanted = names.into_iter().flatten().next().unwrap_or(&claims.sub);
                let shown = claims.name.clone().or_else(|| claims.email.clone());
                let shown = shown
                    .map(|name| name.chars().filter(|c| !coracle_types::is_hidden(*c)).take(60).collect::<String>());
                let user = people.add_foreign(wanted, shown.filter(|name| !name.is_empty()), foreign).await?;
                tracing::info!(user = %user.id, "account created on the first sign-in with OpenID");
                user
            }
            None => return Err(OidcError::NoAccount),
        };
        if !may_sign_in(&user) {
            return Err(OidcError::NoAccount);
        }
        people.note(&user, SystemTime::now()).await?;
        Ok(user)
    }

    fn is_of_domain(&self, claims: &Claims) -> bool {
        let allowed = &self.settings.allowed_domains;
        let domain = claims.email.as_ref().filter(|_| claims.email_verified).and_then(|email| email.rsplit_once('@'));
        allowed.is_empty()
            || domain.is_some_and(|(_, domain)| allowed.iter().any(|known| known.eq_ignore_ascii_case(domain)))
    }
}

#[derive(Deserialize)]
struct RawKeys {
    keys: Vec<serde_json::Value>,
}

/// Keys that may have signed a token with this header.
fn fitting<'a>(keys: &'a JwkSet, header: &jsonwebtoken::Header) -> Vec<&'a Jwk> {
    let fits = |key: &&Jwk| {
        let is_named = header.kid.is_none() || key.common.key_id == header.kid;
        let signs = key.common.public_key_use.as_ref().is_none_or(|its| *its == PublicKeyUse::Signature);
        let alg = key.common.key_algorithm.is_none_or(|alg| alg.to_string() == format!("{:?}", header.alg));
        let family = DecodingKey::from_jwk(key).is_ok_and(|key| key.family() == header.alg.family());
        is_named && signs && alg && family
    };
    keys.keys.iter().filter(fits).collect()
}

/// Requires https, because these addresses decide who a user is. Loopback addresses may use http.
fn safe(address: &Url) -> Result<(), OidcError> {
    let is_here = match address.host() {
        Some(url::Host::Domain(name)) => name == "localhost",
        Some(url::Host::Ipv4(address)) => address.is_loopback(),
        Some(url::Host::Ipv6(address)) => address.is_loopback(),
        None => false,
    };
    match address.scheme() {
        "https" => Ok(()),
        "http" if is_here => Ok(()),
        _ => Err(OidcError::Useless(format!("{address} does not use https"))),
    }
}

/// Reads the body of a response up to the limit.
pub(super) async fn body(mut response: reqwest::Response) -> Result<Vec<u8>, OidcError> {
    let mut body = Vec::new();
    while let Some(chunk) = response.chunk().await.map_err(|error| OidcError::Silent(error.to_string()))? {
        if body.len() + chunk.len() > MAX_ANSWER {
            return Err(OidcError::Useless(format!("its response is longer than {MAX_ANSWER} bytes")));
        }
        body.extend_from_slice(&chunk);
    }
    Ok(body)
}
