//! What the gates of all sandboxes share.

use std::sync::Arc;

use rustls::ClientConfig;
use rustls_platform_verifier::BuilderVerifierExt as _;
use thiserror::Error;
use tokio::sync::Semaphore;

use crate::limits::{Limits, Share};
use crate::resolve::{Resolver, SystemResolver};

/// What the gates of all sandboxes of a server share: resolver, trusted certificates, limits.
#[derive(Clone, Debug)]
pub struct Proxy {
    pub(crate) limits: Limits,
    pub(crate) resolver: Arc<dyn Resolver>,
    pub(crate) tls: Arc<ClientConfig>,
    pub(crate) places: Arc<Semaphore>,
}

/// The proxy cannot be created.
#[derive(Debug, Error)]
pub enum ProxyError {
    /// TLS cannot be set up, for example because the system has no trusted certificates.
    #[error("cannot set up TLS for network access")]
    Tls(#[source] rustls::Error),
}

impl Proxy {
    /// A proxy that uses the resolver and the trusted certificates of the system.
    pub fn new(limits: Limits) -> Result<Self, ProxyError> {
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let tls = ClientConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .and_then(|builder| Ok(builder.with_platform_verifier()?.with_no_client_auth()))
            .map_err(ProxyError::Tls)?;
        Ok(Self::with(limits, Arc::new(SystemResolver), tls))
    }

    /// A proxy that uses another resolver and other trusted certificates.
    pub fn with(limits: Limits, resolver: Arc<dyn Resolver>, mut tls: ClientConfig) -> Self {
        tls.alpn_protocols = vec![b"http/1.1".to_vec()];
        let places = Arc::new(Semaphore::new(limits.connections));
        Self { limits, resolver, tls: Arc::new(tls), places }
    }

    /// A new share of the connections, for one user. All gates of the user get a clone of it.
    pub fn share(&self) -> Share {
        Share::of(&self.limits)
    }
}
