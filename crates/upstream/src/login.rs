//! Signs in to servers with OAuth 2.1: discovery, registration, authorization in a browser, and storage.

mod redirect;

use crate::error::{UpstreamError, chain};
use crate::options::Options;
use crate::scrub::{Scrubber, shortened};
use crate::status::Owner;
use crate::token_store::TokenStore;
use async_trait::async_trait;
use coracle_types::{OauthClient, Secret, ServerName, ServerSpec, Transport};
pub use redirect::SignInReturn;
use redirect::{ANYWHERE, Redirect};
use rmcp::transport::auth::{OAuthClientConfig, WWWAuthenticateParams};
use rmcp::transport::{
    AuthError, AuthorizationManager, AuthorizationRequest, AuthorizationSession, CredentialStore, StoredCredentials,
};
use std::sync::Arc;
use url::Url;

const SHOWN: usize = 500;

/// Adapts our store to the MCP library.
struct Credentials {
    store: Arc<dyn TokenStore>,
    owner: Owner,
    server: ServerName,
}

fn store_error(error: impl std::fmt::Display) -> AuthError {
    AuthError::CredentialStoreError(error.to_string())
}

#[async_trait]
impl CredentialStore for Credentials {
    async fn load(&self) -> Result<Option<StoredCredentials>, AuthError> {
        let kept = self.store.load(&self.owner, &self.server).await.map_err(store_error)?;
        // The error of the parser could quote the credential.
        kept.map(|kept| serde_json::from_str(kept.expose()).map_err(|_| store_error("the stored text is invalid")))
            .transpose()
    }

    async fn save(&self, credentials: StoredCredentials) -> Result<(), AuthError> {
        let text = serde_json::to_string(&credentials).map_err(|_| store_error("the sign-in cannot be serialised"))?;
        self.store.save(&self.owner, &self.server, Secret::new(text)).await.map_err(store_error)
    }

    async fn clear(&self) -> Result<(), AuthError> {
        self.store.delete(&self.owner, &self.server).await.map_err(store_error)
    }
}

/// The stored sign-in for this server, ready to be used and refreshed. `None` if there is none.
pub(crate) async fn stored(
    store: &Arc<dyn TokenStore>,
    owner: &Owner,
    spec: &ServerSpec,
    uri: &Url,
    scrubber: &Scrubber,
) -> Result<Option<AuthorizationManager>, UpstreamError> {
    let server = &spec.name;
    let unavailable = |reason: &str| UpstreamError::Unavailable {
        server: server.clone(),
        reason: format!("its sign-in cannot be used: {}", scrubber.clean(reason)),
        retry_in: None,
    };
    match store.load(owner, server).await {
        Ok(Some(_)) => {}
        Ok(None) => return Ok(None),
        Err(error) => return Err(unavailable(&error.to_string())),
    }
    let ready = async {
        let mut manager = manager(store, owner, server, uri).await?;
        if !manager.initialize_from_store().await? {
            return Ok::<_, AuthError>(None);
        }
        // The library does not store client secrets, but needs them to refresh.
        if let Some(OauthClient { id, secret: Some(secret) }) = &spec.client {
            manager.configure_client(OAuthClientConfig::new(id, ANYWHERE).with_client_secret(secret.expose()))?;
        }
        Ok(Some(manager))
    };
    ready.await.map_err(|error| unavailable(&chain(&error)))
}

async fn manager(
    store: &Arc<dyn TokenStore>,
    owner: &Owner,
    server: &ServerName,
    uri: &Url,
) -> Result<AuthorizationManager, AuthError> {
    // The library creates its own HTTP client, which needs the provider that this installs.
    crate::http::client().map_err(|error| AuthError::InternalError(error.to_string()))?;
    let mut manager = AuthorizationManager::new(uri.as_str()).await?;
    let (store, owner, server) = (Arc::clone(store), owner.clone(), server.clone());
    manager.set_credential_store(Credentials { store, owner, server });
    Ok(manager)
}

/// Signs in with a person and a browser.
pub(crate) async fn login(
    spec: &ServerSpec,
    owner: &Owner,
    options: &Options,
    challenge: Option<&str>,
    place: SignInReturn,
    open: impl FnOnce(&str) + Send,
) -> Result<(), UpstreamError> {
    let scrubber = Scrubber::new(spec);
    let failed = |reason: &str| UpstreamError::Login {
        server: spec.name.clone(),
        reason: shortened(&scrubber.without_secrets(reason), SHOWN),
    };
    let (Transport::Http { url, .. } | Transport::Sse { url, .. }) = &spec.transport else {
        return Err(failed("it is a local program: only servers with a `url` have sign-ins"));
    };
    let uri = Url::parse(url.expose()).map_err(|_| failed("its `url` is not valid"))?;
    let auth = |error: AuthError| failed(&chain(&error));

    let mut manager = manager(&options.tokens, owner, &spec.name, &uri).await.map_err(auth)?;
    let metadata = manager.resolve_metadata_from_challenge(challenge).await.map_err(auth)?;
    manager.set_metadata(metadata.metadata);
    let redirect = Redirect::to(place).await.map_err(|error| failed(&error.to_string()))?;
    let mut request =
        AuthorizationRequest::new(redirect.address()).with_client_name("Coracle").with_initial_scope_selection();
    request = match &spec.client {
        None => request,
        Some(OauthClient { id, secret: None }) if id.starts_with("https://") => request.with_client_metadata_url(id),
        Some(OauthClient { id, secret: None }) => request.with_preregistered_client(id),
        Some(OauthClient { id, secret: Some(secret) }) => {
            request.with_preregistered_client(id).with_client_secret(secret.expose())
        }
    };
    if let Some(more) = more_scopes(&options.tokens, owner, &spec.name, &uri, challenge).await {
        request = request.with_scopes(more);
    }
    let session = AuthorizationSession::new(manager, request).await.map_err(|(_, error)| auth(error))?;
    let address = session.get_authorization_url().to_owned();
    let state = Url::parse(&address)
        .ok()
        .and_then(|url| url.query_pairs().find(|(key, _)| key == "state").map(|(_, value)| value.into_owned()))
        .ok_or_else(|| failed("the authorization URL has no `state`"))?;
    open(&address);
    let callback = redirect.wait(&state).await.map_err(|error| failed(&error.to_string()))?;
    session.handle_callback_url(&callback).await.map_err(auth)?;
    Ok(())
}

/// The scopes to request if the sign-in had insufficient ones: those already granted, and those that are missing.
async fn more_scopes(
    store: &Arc<dyn TokenStore>,
    owner: &Owner,
    server: &ServerName,
    uri: &Url,
    challenge: Option<&str>,
) -> Option<Vec<String>> {
    let asked = WWWAuthenticateParams::parse(challenge?, uri);
    let wanted = asked.scope.as_deref().filter(|_| asked.is_insufficient_scope())?;
    let kept = Credentials { store: Arc::clone(store), owner: owner.clone(), server: server.clone() };
    let mut scopes = kept.load().await.ok().flatten().map(|kept| kept.granted_scopes).unwrap_or_default();
    for scope in wanted.split_whitespace() {
        if !scopes.iter().any(|known| known == scope) {
            scopes.push(scope.to_owned());
        }
    }
    Some(scopes)
}
