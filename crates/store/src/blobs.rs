use crate::{Home, StoreError};
use object_store::local::LocalFileSystem;
use object_store::memory::InMemory;
use object_store::path::Path as ObjectPath;
use object_store::{ObjectStore, ObjectStoreExt};
use sha2::{Digest, Sha256};
use std::fmt;
use std::path::PathBuf;
use std::str::FromStr;
use std::sync::Arc;

/// Names bytes by their content: SHA-256 in hexadecimal.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct BlobId(String);

const DIGEST_DIGITS: usize = 64;

impl BlobId {
    /// The name of these bytes.
    pub fn of(bytes: &[u8]) -> Self {
        Self(hex::encode(Sha256::digest(bytes)))
    }

    /// The digits.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for BlobId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl FromStr for BlobId {
    type Err = BlobError;

    fn from_str(text: &str) -> Result<Self, BlobError> {
        let digit = |byte: u8| byte.is_ascii_digit() || (b'a'..=b'f').contains(&byte);
        if text.len() == DIGEST_DIGITS && text.bytes().all(digit) {
            Ok(Self(text.to_owned()))
        } else {
            Err(BlobError::NoId { text: text.chars().take(DIGEST_DIGITS).collect() })
        }
    }
}

/// Why a blob could not be put or had.
#[derive(Debug, thiserror::Error)]
pub enum BlobError {
    /// The text names no blob.
    #[error("{text:?} is not a blob ID: expected 64 hexadecimal digits")]
    NoId {
        /// Its beginning.
        text: String,
    },
    /// It is larger than what the caller takes, or than what is kept.
    #[error("the blob is {bytes} bytes long: at most {max} are taken")]
    TooLarge {
        /// How long it is.
        bytes: u64,
        /// How long it may be.
        max: u64,
    },
    /// What lies there is not what was put.
    #[error("blob {id} is damaged: {reason}")]
    Damaged {
        /// Which one.
        id: BlobId,
        /// What is wrong with it.
        reason: &'static str,
    },
    /// The place where blobs are kept refused.
    #[error("blob {id} could not be used: {reason}")]
    Storage {
        /// Which one.
        id: BlobId,
        /// What it says.
        reason: String,
    },
}

impl BlobError {
    /// The stable name of the kind of error.
    pub fn code(&self) -> &'static str {
        match self {
            Self::NoId { .. } => "blob_no_id",
            Self::TooLarge { .. } => "blob_too_large",
            Self::Damaged { .. } => "blob_damaged",
            Self::Storage { .. } => "blob_storage",
        }
    }

    /// What can be done about it.
    pub fn hint(&self) -> Option<String> {
        match self {
            Self::Damaged { .. } => Some("put the same bytes again, or delete it".to_owned()),
            Self::NoId { .. } | Self::TooLarge { .. } | Self::Storage { .. } => None,
        }
    }
}

/// Bytes under the digest of their content, so the same bytes are kept once and cannot be changed unnoticed.
#[derive(Clone, Debug)]
pub struct Blobs {
    objects: Arc<dyn ObjectStore>,
    /// Where they lie, if that is on this machine.
    folder: Option<PathBuf>,
}

impl Blobs {
    /// The largest blob.
    pub const MAX_BYTES: u64 = 1 << 30;

    /// Blobs below the data folder.
    pub fn local(home: &Home) -> Result<Self, StoreError> {
        let folder = home.make_blobs()?;
        let objects = LocalFileSystem::new_with_prefix(&folder).map_err(|error| StoreError::home(&folder, error))?;
        Ok(Self { objects: Arc::new(objects.with_fsync(true)), folder: Some(folder) })
    }

    /// Blobs that end with the process.
    pub fn in_memory() -> Self {
        Self { objects: Arc::new(InMemory::new()), folder: None }
    }

    /// Keeps the bytes and tells their name. A damaged blob of this name is mended.
    pub async fn put(&self, bytes: Vec<u8>) -> Result<BlobId, BlobError> {
        check_length(bytes.len() as u64, Self::MAX_BYTES)?;
        let id = BlobId::of(&bytes);
        // Written beside its place and then renamed: whole or not there, and a link that lies there is replaced.
        let put = self.objects.put(&location(&id), bytes.into()).await;
        put.map_err(|error| storage(&id, &error))?;
        Ok(id)
    }

    /// The bytes, if they are there and at most `max` long.
    pub async fn get(&self, id: &BlobId, max: u64) -> Result<Option<Vec<u8>>, BlobError> {
        self.refuse_link(id)?;
        let found = match self.objects.get(&location(id)).await {
            Ok(found) => found,
            Err(object_store::Error::NotFound { .. }) => return Ok(None),
            Err(error) => return Err(storage(id, &error)),
        };
        check_length(found.meta.size, max.min(Self::MAX_BYTES))?;
        let bytes = found.bytes().await.map_err(|error| storage(id, &error))?;
        if BlobId::of(&bytes) != *id {
            return Err(BlobError::Damaged { id: id.clone(), reason: "its content has another digest" });
        }
        Ok(Some(bytes.into()))
    }

    /// Deletes a blob; one that is not there is no error.
    pub async fn delete(&self, id: &BlobId) -> Result<(), BlobError> {
        match self.objects.delete(&location(id)).await {
            Ok(()) | Err(object_store::Error::NotFound { .. }) => Ok(()),
            Err(error) => Err(storage(id, &error)),
        }
    }

    /// A link was not made here. Even one that slips in after this cannot give other bytes: the digest tells.
    fn refuse_link(&self, id: &BlobId) -> Result<(), BlobError> {
        let Some(folder) = &self.folder else { return Ok(()) };
        match std::fs::symlink_metadata(folder.join(id.as_str())) {
            Ok(found) if !found.is_file() => {
                Err(BlobError::Damaged { id: id.clone(), reason: "it is not a regular file" })
            }
            Ok(_) | Err(_) => Ok(()),
        }
    }
}

fn location(id: &BlobId) -> ObjectPath {
    ObjectPath::from(id.as_str())
}

fn check_length(bytes: u64, max: u64) -> Result<(), BlobError> {
    if bytes <= max { Ok(()) } else { Err(BlobError::TooLarge { bytes, max }) }
}

fn storage(id: &BlobId, error: &object_store::Error) -> BlobError {
    BlobError::Storage { id: id.clone(), reason: error.to_string() }
}
