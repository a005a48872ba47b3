//! The keys of a log, all derived from the master key.

use crate::mark::Mac;
use coracle_store::DerivedKey;

/// The purpose for which the key of the log is derived from the master key.
pub(crate) const PURPOSE: &str = "coracle audit 1";

/// Number of characters of a digest in a record.
const DIGEST_CHARS: usize = 32;
/// Number of characters of the ID of a key.
const ID_CHARS: usize = 16;

#[derive(Clone, Debug)]
pub(crate) struct Keys {
    chain: DerivedKey,
    head: DerivedKey,
    digests: DerivedKey,
    /// Identifies the key without revealing it.
    pub(crate) id: String,
}

impl Keys {
    /// The keys of the log, from the key with [`PURPOSE`].
    pub(crate) fn new(key: &DerivedKey) -> Self {
        let mut id = hex::encode(key.mac(&[b"id"]));
        id.truncate(ID_CHARS);
        Self { chain: key.derive("chain"), head: key.derive("head"), digests: key.derive("digests"), id }
    }

    /// The code of a record: over the code of its predecessor and its own bytes.
    pub(crate) fn of_record(&self, previous: Mac, body: &[u8]) -> Mac {
        Mac(self.chain.mac(&[&previous.0, body]))
    }

    /// The code of a head.
    pub(crate) fn of_head(&self, body: &[u8]) -> Mac {
        Mac(self.head.mac(&[body]))
    }

    /// A digest that tells nothing about its content without the key, however few possible contents there are.
    pub(crate) fn digest(&self, content: &[u8]) -> String {
        let mut digest = hex::encode(self.digests.mac(&[content]));
        digest.truncate(DIGEST_CHARS);
        digest
    }
}

#[cfg(test)]
pub(crate) async fn random() -> Keys {
    use coracle_store::{MemoryStore, Store};
    Keys::new(&MemoryStore::new().derived_key(PURPOSE).await.unwrap())
}
