//! The master key: its sources, and what makes it unusable.

use crate::home::place;
use crate::key_command::MAX_KEY_TEXT;
use crate::{Home, KeyCommand, KeyError, StoreError};
use coracle_types::Secret;
use sha2::{Digest, Sha256};
use std::fmt;
use std::fs::File;
use std::io::{self, Read};
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use zeroize::{Zeroize, Zeroizing};

pub(crate) const KEY_BYTES: usize = 32;

/// The source of the master key.
#[derive(Clone, Debug, Default)]
pub enum KeySource {
    /// The file `master.key` in the data folder, created with the first secret.
    #[default]
    File,
    /// A key from the operator: 64 hexadecimal digits. The file is neither read nor created.
    Given(Secret),
    /// A command of the operator that prints 64 hexadecimal digits. The file is neither read nor created.
    Command(KeyCommand),
}

/// 32 bytes that are zeroed on drop.
pub(crate) struct MasterKey {
    pub(crate) bytes: Zeroizing<[u8; KEY_BYTES]>,
    /// Identifies the key without revealing it.
    pub(crate) id: String,
    /// The source of the key, for messages.
    pub(crate) origin: String,
}

impl fmt::Debug for MasterKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("MasterKey").field("origin", &self.origin).finish_non_exhaustive()
    }
}

/// The number of bytes of the digest that identify a key.
const KEY_ID_BYTES: usize = 16;

impl MasterKey {
    fn parse(text: &str, origin: String) -> Result<Self, KeyError> {
        let mut bytes = Zeroizing::new([0; KEY_BYTES]);
        if hex::decode_to_slice(text.trim(), bytes.as_mut_slice()).is_err() {
            return Err(KeyError::Malformed { origin });
        }
        let digest = Sha256::new().chain_update(b"coracle master key id\0").chain_update(bytes.as_slice()).finalize();
        Ok(Self { bytes, id: hex::encode(&digest[..KEY_ID_BYTES]), origin })
    }

    /// The key, if there is one. Does not block the caller while a command runs.
    pub(crate) async fn find_async(source: &KeySource, home: &Home) -> Result<Option<Self>, KeyError> {
        if !matches!(source, KeySource::Command(_)) {
            return Self::find(source, home);
        }
        let (source, home) = (source.clone(), home.clone());
        let found = tokio::task::spawn_blocking(move || Self::find(&source, &home)).await;
        found.unwrap_or_else(|error| Err(KeyError::Command { reason: error.to_string() }))
    }

    /// The key, if there is one.
    pub(crate) fn find(source: &KeySource, home: &Home) -> Result<Option<Self>, KeyError> {
        match source {
            KeySource::Given(text) => Self::parse(text.expose(), "the environment".to_owned()).map(Some),
            KeySource::Command(command) => Self::parse(command.key()?.expose(), "the command".to_owned()).map(Some),
            KeySource::File => Self::read(&home.master_key()),
        }
    }

    pub(crate) fn read(path: &Path) -> Result<Option<Self>, KeyError> {
        let unusable = |error: io::Error| KeyError::Unusable { path: path.to_owned(), reason: error.to_string() };
        let file = match File::open(path) {
            Ok(file) => file,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(unusable(error)),
        };
        let found = file.metadata().map_err(unusable)?;
        if !found.is_file() {
            return Err(KeyError::Unusable { path: path.to_owned(), reason: "it is not a file".to_owned() });
        }
        if found.mode() & 0o077 != 0 {
            return Err(KeyError::Exposed { path: path.to_owned(), mode: found.mode() & 0o777 });
        }
        // Allocated with the maximum size, so that growing leaves no copy behind.
        let mut text = Zeroizing::new(String::with_capacity(MAX_KEY_TEXT as usize));
        file.take(MAX_KEY_TEXT).read_to_string(&mut text).map_err(unusable)?;
        Self::parse(&text, path.display().to_string()).map(Some)
    }

    /// Creates the key file. If another process was faster, returns its key.
    pub(crate) fn make(home: &Home) -> Result<Self, StoreError> {
        let path = home.make_for_key()?;
        let unusable = |reason: String| KeyError::Unusable { path: path.clone(), reason };
        let mut bytes = Zeroizing::new([0; KEY_BYTES]);
        getrandom::fill(bytes.as_mut_slice()).map_err(|error| unusable(error.to_string()))?;
        let mut text = Zeroizing::new([0; 2 * KEY_BYTES + 1]);
        text[2 * KEY_BYTES] = b'\n';
        hex::encode_to_slice(bytes.as_slice(), &mut text[..2 * KEY_BYTES])
            .map_err(|error| unusable(error.to_string()))?;
        bytes.zeroize();
        place(home.root(), &path, text.as_slice()).map_err(|error| unusable(error.to_string()))?;
        Self::read(&path)?.ok_or_else(|| KeyError::Missing { path: path.clone() }.into())
    }
}
