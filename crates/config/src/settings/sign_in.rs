//! Settings of sign-in with an OpenID provider.

use coracle_types::Secret;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Sign-in with an OpenID provider. Enabled if `issuer` is set: MCP clients can then use access tokens that the
/// provider issued for this server. Sign-in in a browser also requires `client_id`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Oidc {
    /// Issuer URL of the provider, without `/.well-known/openid-configuration`.
    pub issuer: Option<String>,
    /// Client ID of Coracle at the provider, registered with the redirect URI `<public_url>/auth/oidc/callback`.
    pub client_id: Option<String>,
    /// Client secret, if the client has one. Prefer an environment variable to the settings file.
    #[schemars(with = "Option<String>")]
    pub client_secret: Option<Secret>,
    /// Scopes to request from the provider.
    pub scopes: Vec<String>,
    /// Create accounts for users of the provider at their first sign-in. Otherwise, only existing users can sign in.
    pub auto_create: bool,
    /// Email domains for which `auto_create` creates accounts; the provider must have verified the email address. If
    /// empty, all users of the provider are accepted.
    pub allowed_domains: Vec<String>,
    /// Additional audience to accept in access tokens, besides the URL of `/mcp`, for providers that cannot issue
    /// tokens for that URL.
    pub audience: Option<String>,
}

impl Default for Oidc {
    fn default() -> Self {
        Self {
            issuer: None,
            client_id: None,
            client_secret: None,
            scopes: ["openid", "profile", "email"].map(str::to_owned).to_vec(),
            auto_create: false,
            allowed_domains: Vec::new(),
            audience: None,
        }
    }
}

/// Authentication mode of `coracle up`.
#[derive(JsonSchema)]
#[schemars(rename = "Auth", rename_all = "lowercase")]
#[expect(dead_code, reason = "only its schema is used")]
pub(super) enum AuthText {
    /// Sign-in is required once a user exists. Until then, requests from this machine need none.
    Auto,
    /// Sign-in is always required. If there are no users, the first start creates `admin` and prints a sign-in link.
    Required,
    /// Same as `required`.
    On,
}
