//! Encryption of secrets with XChaCha20-Poly1305, bound to owner and name.

use crate::key::{KEY_BYTES, MasterKey};
use crate::{Owner, StoreError};
use chacha20poly1305::aead::{AeadInOut, KeyInit};
use chacha20poly1305::{Key, XChaCha20Poly1305, XNonce};
use coracle_types::Secret;
use zeroize::Zeroizing;

const NONCE_BYTES: usize = 24;
const TAG_BYTES: usize = 16;

/// The associated data of a secret, so that a row cannot take the place of another. Lengths come first, so no two pairs
/// of owner and name give the same bytes.
fn binding(owner: &Owner, name: &str) -> Vec<u8> {
    let owner = owner.to_string();
    let mut bytes = b"coracle secret 1\0".to_vec();
    for part in [owner.as_str(), name] {
        bytes.extend_from_slice(&(part.len() as u64).to_be_bytes());
        bytes.extend_from_slice(part.as_bytes());
    }
    bytes
}

fn cipher(key: &[u8; KEY_BYTES]) -> XChaCha20Poly1305 {
    XChaCha20Poly1305::new(<&Key>::from(key))
}

/// Encrypts a secret. Returns the nonce, followed by the ciphertext with its tag.
pub(crate) fn seal(key: &MasterKey, owner: &Owner, name: &str, secret: &Secret) -> Result<Vec<u8>, StoreError> {
    sealed(&key.bytes, &binding(owner, name), name, secret.expose().as_bytes())
}

/// Encrypts the content of a file of the data folder, for a backup.
pub(crate) fn seal_file(key: &MasterKey, path: &str, content: &[u8]) -> Result<Vec<u8>, StoreError> {
    sealed(&key.bytes, &file_binding(path), path, content)
}

/// Decrypts content that was encrypted with this key for this file.
pub(crate) fn open_file(key: &MasterKey, path: &str, sealed: &[u8]) -> Option<Zeroizing<Vec<u8>>> {
    opened(&key.bytes, &file_binding(path), sealed)
}

fn file_binding(path: &str) -> Vec<u8> {
    [b"coracle file 1\0", path.as_bytes()].concat()
}

/// Encrypts what a token stands for with the data key of its user.
pub(crate) fn seal_value(key: &[u8; KEY_BYTES], token: &str, value: &[u8]) -> Result<Vec<u8>, StoreError> {
    sealed(key, &value_binding(token), token, value)
}

/// Decrypts what a token stands for.
pub(crate) fn open_value(key: &[u8; KEY_BYTES], token: &str, sealed: &[u8]) -> Option<Zeroizing<Vec<u8>>> {
    opened(key, &value_binding(token), sealed)
}

/// The token is part of it, so that a row cannot take the place of another.
fn value_binding(token: &str) -> Vec<u8> {
    [b"coracle value 1\0", token.as_bytes()].concat()
}

fn sealed(key: &[u8; KEY_BYTES], binding: &[u8], name: &str, text: &[u8]) -> Result<Vec<u8>, StoreError> {
    let failed = |reason: String| StoreError::Damaged { what: format!("secret {name:?}"), reason };
    let mut nonce = [0; NONCE_BYTES];
    getrandom::fill(&mut nonce).map_err(|error| failed(error.to_string()))?;
    let mut buffer = Zeroizing::new(Vec::with_capacity(text.len() + TAG_BYTES));
    buffer.extend_from_slice(text);
    let sealed = cipher(key).encrypt_in_place(&XNonce::from(nonce), binding, &mut *buffer);
    sealed.map_err(|error| failed(error.to_string()))?;
    Ok([nonce.as_slice(), buffer.as_slice()].concat())
}

/// Decrypts a secret that was encrypted with this key for this owner and name.
pub(crate) fn open(key: &MasterKey, owner: &Owner, name: &str, sealed: &[u8]) -> Result<Secret, StoreError> {
    let tampered = || StoreError::Tampered { owner: owner.to_string(), name: name.to_owned() };
    let buffer = opened(&key.bytes, &binding(owner, name), sealed).ok_or_else(tampered)?;
    let text = std::str::from_utf8(&buffer).map_err(|_| tampered())?;
    Ok(Secret::new(text))
}

fn opened(key: &[u8; KEY_BYTES], binding: &[u8], sealed: &[u8]) -> Option<Zeroizing<Vec<u8>>> {
    let (nonce, text) = sealed.split_first_chunk::<NONCE_BYTES>()?;
    let mut buffer = Zeroizing::new(text.to_vec());
    cipher(key).decrypt_in_place(&XNonce::from(*nonce), binding, &mut *buffer).ok()?;
    Some(buffer)
}
