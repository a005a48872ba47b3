//! Vectors on disk, keyed by a digest of the text. Each embedder has one file, which is replaced atomically.
//!
//! ```text
//! magic, dimensions (u32); for each vector: key (32), scale (f32), numbers (i8 each); SHA-256 of all preceding bytes
//! ```

use coracle_catalog::{Direction, MAX_DIMENSIONS};
use sha2::{Digest, Sha256};
use std::collections::HashMap;
use std::fs::{self, File};
use std::io::{self, Read as _, Write as _};
use std::path::{Path, PathBuf};
use std::time::SystemTime;

const MAGIC: &[u8] = b"CORVECT1";
const DIGEST: usize = 32;
const SCALE: usize = 4;
const HEADER: usize = MAGIC.len() + 4;

/// Maximum size of a file in bytes. The least recently added vectors are dropped first.
const MAX_BYTES: usize = 128 << 20;
/// Maximum number of files, one per embedder.
const MAX_FILES: usize = 8;

const LOCK: &str = ".lock";
const ASIDE: &str = ".making-";

/// Digest of the identity of an embedder and a text.
pub(super) type Key = [u8; DIGEST];

/// Vectors by the key of their text.
pub(super) type Known = HashMap<Key, Direction>;

pub(super) fn key(identity: &str, text: &str) -> Key {
    let digest = Sha256::new().chain_update(identity).chain_update([0]).chain_update(text);
    digest.finalize().into()
}

/// Vector file of one embedder.
#[derive(Clone, Debug)]
pub(super) struct VectorFile {
    folder: PathBuf,
    path: PathBuf,
}

impl VectorFile {
    pub(super) fn new(folder: PathBuf, identity: &str) -> Self {
        let name = hex::encode(&Sha256::digest(identity)[..16]);
        let path = folder.join(format!("{name}.bin"));
        Self { folder, path }
    }

    /// Reads all vectors. Returns an empty map if the file is missing, unreadable, too large or damaged.
    pub(super) fn read(&self) -> Known {
        self.rows().into_iter().collect()
    }

    fn rows(&self) -> Vec<(Key, Direction)> {
        let mut bytes = Vec::new();
        let read = File::open(&self.path).and_then(|file| file.take(MAX_BYTES as u64 + 1).read_to_end(&mut bytes));
        match read {
            Err(error) if error.kind() == io::ErrorKind::NotFound => Vec::new(),
            Ok(_) if bytes.len() <= MAX_BYTES => parse(&bytes).unwrap_or_else(|| {
                tracing::warn!(file = %self.path.display(), "the vectors of tools are damaged and made again");
                Vec::new()
            }),
            _ => Vec::new(),
        }
    }

    /// Adds vectors to the file as the most recent ones. Safe to call concurrently, also from several processes.
    pub(super) fn add(&self, used: &Known) -> io::Result<()> {
        let Some(dimensions) = used.values().next().map(|direction| direction.numbers().len()) else { return Ok(()) };
        let _lock = self.lock()?;
        let row = DIGEST + SCALE + dimensions;
        let fits = |direction: &Direction| direction.numbers().len() == dimensions;
        let older = self.rows().into_iter().filter(|(key, direction)| fits(direction) && !used.contains_key(key));
        let mut rows: Vec<(Key, Direction)> = older.collect();
        rows.extend(used.iter().filter(|(_, direction)| fits(direction)).map(|(key, one)| (*key, one.clone())));
        let most = (MAX_BYTES - HEADER - DIGEST) / row;
        let rows = rows.get(rows.len().saturating_sub(most)..).unwrap_or_default();
        let mut bytes = Vec::with_capacity(HEADER + rows.len() * row + DIGEST);
        bytes.extend_from_slice(MAGIC);
        bytes.extend_from_slice(&u32::try_from(dimensions).unwrap_or_default().to_le_bytes());
        for (key, direction) in rows {
            bytes.extend_from_slice(key);
            bytes.extend_from_slice(&direction.scale().to_le_bytes());
            bytes.extend(direction.numbers().iter().map(|number| number.cast_unsigned()));
        }
        let digest = Sha256::digest(&bytes);
        bytes.extend_from_slice(&digest);
        let mut aside = tempfile::Builder::new().prefix(ASIDE).tempfile_in(&self.folder)?;
        aside.write_all(&bytes)?;
        aside.persist(&self.path).map_err(|error| error.error)?;
        self.tidy();
        Ok(())
    }

    /// Deletes the file.
    pub(super) fn forget(&self) -> io::Result<()> {
        let _lock = self.lock()?;
        match fs::remove_file(&self.path) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
            _ => Ok(()),
        }
    }

    /// Locks the folder for changes until the returned file is dropped.
    fn lock(&self) -> io::Result<File> {
        fs::create_dir_all(&self.folder)?;
        let lock = File::options().create(true).truncate(false).write(true).open(self.folder.join(LOCK))?;
        lock.lock()?;
        Ok(lock)
    }

    /// Removes temporary files of interrupted writes, and the oldest files of other embedders. The caller must hold the
    /// lock.
    fn tidy(&self) {
        let entries = fs::read_dir(&self.folder).into_iter().flatten().flatten();
        let mut kept: Vec<(SystemTime, PathBuf)> = Vec::new();
        for path in entries.map(|entry| entry.path()) {
            let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
            if name.starts_with(ASIDE) {
                remove(&path);
            } else if path.extension().is_some_and(|end| end == "bin") && path != self.path {
                kept.push((modified(&path), path));
            }
        }
        kept.sort();
        let most = MAX_FILES - 1;
        kept.iter().take(kept.len().saturating_sub(most)).for_each(|(_, path)| remove(path));
    }
}

fn remove(path: &Path) {
    if let Err(error) = fs::remove_file(path) {
        tracing::warn!(file = %path.display(), %error, "an old file of vectors is not removed");
    }
}

fn modified(path: &Path) -> SystemTime {
    path.metadata().and_then(|metadata| metadata.modified()).unwrap_or(SystemTime::UNIX_EPOCH)
}

fn parse(bytes: &[u8]) -> Option<Vec<(Key, Direction)>> {
    let (bytes, digest) = bytes.split_at_checked(bytes.len().checked_sub(DIGEST)?)?;
    if Sha256::digest(bytes).as_slice() != digest {
        return None;
    }
    let (dimensions, rows) = bytes.strip_prefix(MAGIC)?.split_first_chunk::<4>()?;
    let dimensions = usize::try_from(u32::from_le_bytes(*dimensions)).ok()?;
    if !(1..=MAX_DIMENSIONS).contains(&dimensions) {
        return None;
    }
    let rows = rows.chunks_exact(DIGEST + SCALE + dimensions);
    let row = |bytes: &[u8]| {
        let (key, bytes) = bytes.split_first_chunk::<DIGEST>()?;
        let (scale, numbers) = bytes.split_first_chunk::<SCALE>()?;
        let numbers = numbers.iter().map(|number| number.cast_signed()).collect();
        Some((*key, Direction::from_parts(numbers, f32::from_le_bytes(*scale))?))
    };
    rows.map(row).collect()
}

#[cfg(test)]
mod tests {
    use super::{Key, Known, MAX_FILES, VectorFile, key};
    use coracle_catalog::Direction;
    use std::fs;
    use tempfile::TempDir;

    fn known(texts: &[&str], length: usize) -> Known {
        let direction =
            |text: &str| Direction::new(&vec![f32::from(u8::try_from(text.len()).unwrap()); length]).unwrap();
        texts.iter().map(|text| (key("me", text), direction(text))).collect()
    }

    fn keys(texts: &[&str]) -> Vec<Key> {
        let mut keys: Vec<Key> = texts.iter().map(|text| key("me", text)).collect();
        keys.sort_unstable();
        keys
    }

    fn read(file: &VectorFile) -> Vec<Key> {
        let mut keys: Vec<Key> = file.read().into_keys().collect();
        keys.sort_unstable();
        keys
    }

    #[test]
    fn what_is_added_stays_beside_what_was_there() {
        let folder = TempDir::new().unwrap();
        let file = VectorFile::new(folder.path().join("embeddings"), "me");
        assert!(file.read().is_empty());
        file.add(&known(&["one", "three"], 4)).unwrap();
        assert_eq!(file.read(), known(&["one", "three"], 4));
        file.add(&known(&["fourteen"], 4)).unwrap();
        assert_eq!(read(&file), keys(&["one", "three", "fourteen"]));
        file.add(&known(&["one"], 5)).unwrap();
        assert_eq!(file.read(), known(&["one"], 5), "vectors of another length are not mixed with these");
        assert!(VectorFile::new(folder.path().join("embeddings"), "you").read().is_empty());
        file.forget().unwrap();
        file.forget().unwrap();
        assert!(file.read().is_empty());
    }

    #[test]
    fn what_is_damaged_is_ignored_and_made_again() {
        let folder = TempDir::new().unwrap();
        let file = VectorFile::new(folder.path().to_owned(), "me");
        file.add(&known(&["one", "three"], 4)).unwrap();
        let good = fs::read(&file.path).unwrap();
        for place in 0..good.len() {
            let mut bad = good.clone();
            bad[place] ^= 1;
            fs::write(&file.path, bad).unwrap();
            assert!(file.read().is_empty(), "byte {place}");
        }
        for length in 0..good.len() {
            fs::write(&file.path, &good[..length]).unwrap();
            assert!(file.read().is_empty(), "{length} bytes");
        }
        file.add(&known(&["one"], 4)).unwrap();
        assert_eq!(read(&file), keys(&["one"]));
        fs::write(&file.path, good).unwrap();
        assert_eq!(read(&file), keys(&["one", "three"]));
    }

    #[test]
    fn many_may_add_at_once() {
        let folder = TempDir::new().unwrap();
        let texts: Vec<String> = (0..16).map(|number| format!("text {number}")).collect();
        std::thread::scope(|scope| {
            for text in &texts {
                scope.spawn(|| VectorFile::new(folder.path().to_owned(), "me").add(&known(&[text], 4)).unwrap());
            }
        });
        let file = VectorFile::new(folder.path().to_owned(), "me");
        assert_eq!(read(&file), keys(&texts.iter().map(String::as_str).collect::<Vec<_>>()));
    }

    #[test]
    fn old_files_are_removed() {
        let folder = TempDir::new().unwrap();
        fs::write(folder.path().join(".making-x"), "left behind").unwrap();
        for number in 0..MAX_FILES + 3 {
            VectorFile::new(folder.path().to_owned(), &format!("model {number}")).add(&known(&["one"], 4)).unwrap();
        }
        let last = VectorFile::new(folder.path().to_owned(), &format!("model {}", MAX_FILES + 2));
        assert_eq!(last.read().len(), 1);
        // One more for the lock file.
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), MAX_FILES + 1);
    }
}
