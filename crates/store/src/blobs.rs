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

/// The ID of a blob: the SHA-256 of its content, in hexadecimal.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct BlobId(String);

const DIGEST_DIGITS: usize = 64;

impl BlobId {
    /// The ID of these bytes.
    pub fn of(bytes: &[u8]) -> Self {
        Self(hex::encode(Sha256::digest(bytes)))
    }

    /// The ID as a string.
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

/// Why a blob cannot be stored or read.
#[derive(Debug, thiserror::Error)]
pub enum BlobError {
    /// The string is not a blob ID.
    #[error("{text:?} is not a blob ID: expected 64 hexadecimal digits")]
    NoId {
        /// The beginning of the string.
        text: String,
    },
    /// The blob is larger than the caller accepts, or than the maximum.
    #[error("the blob is {bytes} bytes long: the maximum is {max}")]
    TooLarge {
        /// Size of the blob.
        bytes: u64,
        /// The maximum.
        max: u64,
    },
    /// The stored bytes have changed.
    #[error("blob {id} is damaged: {reason}")]
    Damaged {
        /// The ID.
        id: BlobId,
        /// The reason.
        reason: &'static str,
    },
    /// The storage failed.
    #[error("cannot access blob {id}: {reason}")]
    Storage {
        /// The ID.
        id: BlobId,
        /// The reason.
        reason: String,
    },
}

impl BlobError {
    /// The stable error code.
    pub fn code(&self) -> &'static str {
        match self {
            Self::NoId { .. } => "blob_no_id",
            Self::TooLarge { .. } => "blob_too_large",
            Self::Damaged { .. } => "blob_damaged",
            Self::Storage { .. } => "blob_storage",
        }
    }

    /// How to fix the error.
    pub fn hint(&self) -> Option<String> {
        match self {
            Self::Damaged { .. } => Some("store the same bytes again, or delete it".to_owned()),
            Self::NoId { .. } | Self::TooLarge { .. } | Self::Storage { .. } => None,
        }
    }
}

/// Content-addressed bytes: equal bytes are stored once, and cannot be changed unnoticed.
#[derive(Clone, Debug)]
pub struct Blobs {
    objects: Arc<dyn ObjectStore>,
    /// The folder, if the blobs are on this machine.
    folder: Option<PathBuf>,
}

impl Blobs {
    /// The maximum size of a blob.
    pub const MAX_BYTES: u64 = 1 << 30;

    /// Blobs in the data folder.
    pub fn local(home: &Home) -> Result<Self, StoreError> {
        let folder = home.make_blobs()?;
        let objects = LocalFileSystem::new_with_prefix(&folder).map_err(|error| StoreError::home(&folder, error))?;
        Ok(Self { objects: Arc::new(objects.with_fsync(true)), folder: Some(folder) })
    }

    /// Blobs in memory.
    pub fn in_memory() -> Self {
        Self { objects: Arc::new(InMemory::new()), folder: None }
    }

    /// Stores bytes and returns their ID. Replaces a damaged blob with this ID.
    pub async fn put(&self, bytes: Vec<u8>) -> Result<BlobId, BlobError> {
        check_length(bytes.len() as u64, Self::MAX_BYTES)?;
        let id = BlobId::of(&bytes);
        // Written to a temporary file and renamed, so it is complete or absent, and a link at its place is replaced.
        let put = self.objects.put(&location(&id), bytes.into()).await;
        put.map_err(|error| storage(&id, &error))?;
        Ok(id)
    }

    /// Reads a blob of at most `max` bytes, if it exists.
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

    /// Deletes a blob, if it exists.
    pub async fn delete(&self, id: &BlobId) -> Result<(), BlobError> {
        match self.objects.delete(&location(id)).await {
            Ok(()) | Err(object_store::Error::NotFound { .. }) => Ok(()),
            Err(error) => Err(storage(id, &error)),
        }
    }

    /// Rejects links, which are never created here. A link that appears later cannot change the bytes unnoticed.
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
