//! Whom an OpenID provider signs in.

use coracle_types::Secret;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Sign-in by an OpenID provider. Used if it has an `issuer`; people then sign in with it in a browser if there is a
/// `client_id` too, and MCP clients with access tokens that it has issued for this server.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Oidc {
    /// The provider's address; `/.well-known/openid-configuration` is below it.
    pub issuer: Option<String>,
    /// What Coracle is registered as there, with `<public_url>/auth/oidc/callback` as its redirect address.
    pub client_id: Option<String>,
    /// The secret that belongs to it, if there is one; better in the environment than in the file.
    #[schemars(with = "Option<String>")]
    pub client_secret: Option<Secret>,
    /// What is asked of the provider.
    pub scopes: Vec<String>,
    /// Whom the provider knows and nobody has added yet is added at their first sign-in.
    pub auto_create: bool,
    /// Of these only with an address in one of these domains, which the provider must have verified. Without any,
    /// everybody.
    pub allowed_domains: Vec<String>,
    /// An audience that access tokens may be for, besides the address of `/mcp`: for providers that cannot name that.
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

/// The schema of `server.auth`.
#[derive(JsonSchema)]
#[schemars(rename = "Auth", rename_all = "lowercase")]
#[expect(dead_code, reason = "only its schema is used")]
pub(super) enum AuthText {
    /// Everyone signs in as soon as there is a user; until then this machine's own user needs not.
    Auto,
    /// Everyone signs in. If there is nobody, the first start adds `admin` and prints a link to sign in with.
    Required,
    /// The same.
    On,
}
