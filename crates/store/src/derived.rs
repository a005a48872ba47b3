//! Keys for single purposes, derived from the master key, so that what one of them protects tells nothing about the
//! others.

use crate::key::{KEY_BYTES, MasterKey};
use crate::{Home, KeyError, KeySource};
use hmac::{Hmac, KeyInit, Mac};
use sha2::Sha256;
use std::fmt;
use zeroize::Zeroizing;

/// The length of a block of SHA-256.
const BLOCK_BYTES: usize = 64;

/// A key for one purpose: HMAC-SHA-256 of the name of the purpose under the master key. Zeroed on drop.
#[derive(Clone)]
pub struct DerivedKey {
    bytes: Zeroizing<[u8; KEY_BYTES]>,
}

impl DerivedKey {
    /// Derives the key for a purpose from this key.
    #[must_use]
    pub fn derive(&self, purpose: &str) -> Self {
        Self::of(&self.bytes, purpose)
    }

    /// The bytes of the key.
    pub fn bytes(&self) -> &[u8; KEY_BYTES] {
        &self.bytes
    }

    pub(crate) fn of_master(master: &MasterKey, purpose: &str) -> Self {
        Self::of(&master.bytes, purpose)
    }

    fn of(parent: &[u8; KEY_BYTES], purpose: &str) -> Self {
        Self { bytes: Zeroizing::new(hmac(parent, &[purpose.as_bytes()])) }
    }

    /// HMAC-SHA-256 under this key. The boundaries between the parts do not count.
    pub fn mac(&self, parts: &[&[u8]]) -> [u8; 32] {
        hmac(&self.bytes, parts)
    }

    /// A key that nothing else knows, for stores that forget everything when the process ends.
    pub(crate) fn random() -> Result<Self, getrandom::Error> {
        let mut bytes = Zeroizing::new([0; KEY_BYTES]);
        getrandom::fill(bytes.as_mut_slice())?;
        Ok(Self { bytes })
    }
}

fn hmac(key: &[u8; KEY_BYTES], parts: &[&[u8]]) -> [u8; 32] {
    // HMAC fills keys up with zeros to the length of a block.
    let mut block = Zeroizing::new([0; BLOCK_BYTES]);
    block[..KEY_BYTES].copy_from_slice(key);
    let mut mac = Hmac::<Sha256>::new((&*block).into());
    for part in parts {
        mac.update(part);
    }
    mac.finalize().into_bytes().into()
}

impl fmt::Debug for DerivedKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("DerivedKey").finish_non_exhaustive()
    }
}

impl Home {
    /// The key for a purpose, if there is a master key. Creates nothing, and does not open the store:
    /// [`Store::derived_key`](crate::Store::derived_key) does both.
    pub fn derived_key(&self, source: &KeySource, purpose: &str) -> Result<Option<DerivedKey>, KeyError> {
        Ok(MasterKey::find(source, self)?.map(|master| DerivedKey::of_master(&master, purpose)))
    }
}

#[cfg(test)]
mod tests {
    use super::hmac;

    /// The second test case of RFC 4231, with its key filled up with zeros.
    #[test]
    fn codes_are_those_of_the_standard() {
        let mut key = [0; 32];
        key[..4].copy_from_slice(b"Jefe");
        let code = hex::encode(hmac(&key, &[b"what do ya want ", b"for nothing?"]));
        assert_eq!(code, "5bdcc146bf60754e6a042426089575c75a003f089d2739839dec58b964ec3843");
    }
}
