//! Certificate authority of one sandbox.

use std::collections::HashMap;
use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use rcgen::{
    BasicConstraints, CertificateParams, DistinguishedName, DnType, ExtendedKeyUsagePurpose, IsCa, Issuer, KeyPair,
    KeyUsagePurpose,
};
use rustls::ServerConfig;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, PrivatePkcs8KeyDer};
use thiserror::Error;

use crate::host::Host;

/// Hosts whose certificates are kept. A guest that intercepts more hosts makes them again.
const MAX_KEPT: usize = 64;
/// Clocks of guests may be slow.
const BEFORE: Duration = Duration::from_hours(24);
/// Longer than any sandbox lives, and short enough for clients that limit it.
const AFTER: Duration = Duration::from_hours(30 * 24);
const PEM_LINE: usize = 64;

/// Certificate authority of one sandbox. It signs certificates for hosts whose requests are read; its key never leaves this
/// process. Code inside must trust its certificate, and nothing outside does.
pub struct Authority {
    issuer: Issuer<'static, KeyPair>,
    certificate: CertificateDer<'static>,
    /// All certificates have the same key: whoever has it, has the whole authority.
    key: KeyPair,
    kept: Mutex<HashMap<Host, Arc<ServerConfig>>>,
}

/// A certificate cannot be made.
#[derive(Debug, Error)]
pub enum AuthorityError {
    /// The key or the certificate cannot be generated.
    #[error("cannot generate a certificate")]
    Generate(#[from] rcgen::Error),
    /// The certificate cannot be used.
    #[error("cannot use a generated certificate")]
    Use(#[from] rustls::Error),
}

impl fmt::Debug for Authority {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Authority").finish_non_exhaustive()
    }
}

impl Authority {
    /// Generates a new authority.
    pub fn generate() -> Result<Self, AuthorityError> {
        let mut params = params("Coracle sandbox network")?;
        params.is_ca = IsCa::Ca(BasicConstraints::Constrained(0));
        params.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign];
        let signing = KeyPair::generate()?;
        let certificate = params.self_signed(&signing)?.der().clone();
        let issuer = Issuer::new(params, signing);
        Ok(Self { issuer, certificate, key: KeyPair::generate()?, kept: Mutex::default() })
    }

    /// Its certificate, for the file of trusted certificates inside the sandbox.
    pub fn certificate_pem(&self) -> String {
        let text = STANDARD.encode(&self.certificate);
        let lines = text.as_bytes().chunks(PEM_LINE).map(String::from_utf8_lossy);
        let body = lines.fold(String::new(), |body, line| body + &line + "\n");
        format!("-----BEGIN CERTIFICATE-----\n{body}-----END CERTIFICATE-----\n")
    }

    /// What is needed to speak TLS as `host`.
    pub(crate) fn server(&self, host: &Host) -> Result<Arc<ServerConfig>, AuthorityError> {
        if let Some(kept) = self.kept().get(host) {
            return Ok(Arc::clone(kept));
        }
        let config = Arc::new(self.config(host)?);
        let mut kept = self.kept();
        if kept.len() >= MAX_KEPT {
            kept.clear();
        }
        kept.insert(host.clone(), Arc::clone(&config));
        Ok(config)
    }

    fn config(&self, host: &Host) -> Result<ServerConfig, AuthorityError> {
        let mut params = params(host.as_str())?;
        params.subject_alt_names = CertificateParams::new(vec![host.as_str().to_owned()])?.subject_alt_names;
        params.use_authority_key_identifier_extension = true;
        params.is_ca = IsCa::ExplicitNoCa;
        params.key_usages = vec![KeyUsagePurpose::DigitalSignature];
        params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth];
        let certificate = params.signed_by(&self.key, &self.issuer)?.der().clone();
        let key = PrivateKeyDer::from(PrivatePkcs8KeyDer::from(self.key.serialize_der()));
        let mut config = ServerConfig::builder_with_provider(Arc::new(rustls::crypto::ring::default_provider()))
            .with_safe_default_protocol_versions()?
            .with_no_client_auth()
            .with_single_cert(vec![certificate, self.certificate.clone()], key)?;
        config.alpn_protocols = vec![b"http/1.1".to_vec()];
        Ok(config)
    }

    fn kept(&self) -> std::sync::MutexGuard<'_, HashMap<Host, Arc<ServerConfig>>> {
        self.kept.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn params(name: &str) -> Result<CertificateParams, rcgen::Error> {
    // Names in subjects are limited to 64 characters. Clients look only at the alternative names.
    const MAX_COMMON_NAME: usize = 64;
    let mut params = CertificateParams::new(Vec::<String>::new())?;
    params.distinguished_name = DistinguishedName::new();
    params.distinguished_name.push(DnType::CommonName, name.chars().take(MAX_COMMON_NAME).collect::<String>());
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    let epoch = rcgen::date_time_ymd(1970, 1, 1);
    params.not_before = epoch + now.saturating_sub(BEFORE);
    params.not_after = epoch + now + AFTER;
    Ok(params)
}

#[cfg(test)]
mod tests {
    use super::{Authority, MAX_KEPT};
    use crate::host::Host;
    use std::sync::Arc;

    #[test]
    fn certificates_are_kept_within_bounds() {
        let authority = Authority::generate().unwrap();
        let host = Host::parse("api.example.com").unwrap();
        let first = authority.server(&host).unwrap();
        assert!(Arc::ptr_eq(&first, &authority.server(&host).unwrap()));
        for index in 0..MAX_KEPT {
            authority.server(&Host::parse(&format!("h{index}.example.com")).unwrap()).unwrap();
        }
        assert!(authority.kept().len() <= MAX_KEPT);
    }

    #[test]
    fn two_authorities_differ() {
        let (one, two) = (Authority::generate().unwrap(), Authority::generate().unwrap());
        assert!(one.certificate_pem().starts_with("-----BEGIN CERTIFICATE-----\n"));
        assert_ne!(one.certificate_pem(), two.certificate_pem());
    }
}
