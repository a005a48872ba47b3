//! Sealing and opening of secrets: XChaCha20-Poly1305, bound to owner and name.

use crate::key::MasterKey;
use crate::{Owner, StoreError};
use chacha20poly1305::aead::{AeadInOut, KeyInit};
use chacha20poly1305::{Key, XChaCha20Poly1305, XNonce};
use coracle_types::Secret;
use zeroize::Zeroizing;

const NONCE_BYTES: usize = 24;
const TAG_BYTES: usize = 16;

/// What a sealed secret is bound to, so that a row put in the place of another does not open. Lengths go first: no two
/// pairs of owner and name give the same bytes.
fn binding(owner: &Owner, name: &str) -> Vec<u8> {
    let owner = owner.to_string();
    let mut bytes = b"coracle secret 1\0".to_vec();
    for part in [owner.as_str(), name] {
        bytes.extend_from_slice(&(part.len() as u64).to_be_bytes());
        bytes.extend_from_slice(part.as_bytes());
    }
    bytes
}

fn cipher(key: &MasterKey) -> XChaCha20Poly1305 {
    XChaCha20Poly1305::new(<&Key>::from(&*key.bytes))
}

/// The nonce, then the sealed text with its tag.
pub(crate) fn seal(key: &MasterKey, owner: &Owner, name: &str, secret: &Secret) -> Result<Vec<u8>, StoreError> {
    let failed = |reason: String| StoreError::Damaged { what: format!("secret {name:?}"), reason };
    let mut nonce = [0; NONCE_BYTES];
    getrandom::fill(&mut nonce).map_err(|error| failed(error.to_string()))?;
    let text = secret.expose().as_bytes();
    let mut buffer = Zeroizing::new(Vec::with_capacity(text.len() + TAG_BYTES));
    buffer.extend_from_slice(text);
    let sealed = cipher(key).encrypt_in_place(&XNonce::from(nonce), &binding(owner, name), &mut *buffer);
    sealed.map_err(|error| failed(error.to_string()))?;
    Ok([nonce.as_slice(), buffer.as_slice()].concat())
}

/// Only what was sealed by this key for this owner under this name opens.
pub(crate) fn open(key: &MasterKey, owner: &Owner, name: &str, sealed: &[u8]) -> Result<Secret, StoreError> {
    let tampered = || StoreError::Tampered { owner: owner.to_string(), name: name.to_owned() };
    let (nonce, text) = sealed.split_first_chunk::<NONCE_BYTES>().ok_or_else(tampered)?;
    let mut buffer = Zeroizing::new(text.to_vec());
    let opened = cipher(key).decrypt_in_place(&XNonce::from(*nonce), &binding(owner, name), &mut *buffer);
    opened.map_err(|_| tampered())?;
    let text = std::str::from_utf8(&buffer).map_err(|_| tampered())?;
    Ok(Secret::new(text))
}
