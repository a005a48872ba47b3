use crate::{Fault, StoreError, schema_version};
use std::fs::{self, DirBuilder, File, OpenOptions, Permissions, TryLockError};
use std::io::{self, Read, Seek, Write};
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};

/// Locked by every process that has the store open.
pub(crate) const IN_USE: &str = ".in-use";

/// The data folder, `CORACLE_HOME`, and what this crate keeps in it.
///
/// ```text
/// CORACLE_HOME/
///   .in-use              0600  locked by every process that has the store open
///   master.key           0600  32 bytes in hexadecimal; created with the first secret or derived key, never replaced
///   store/               0700
///     coracle.db         0600  SQLite; with coracle.db-wal and coracle.db-shm while it is in use
///     lock               0600  held while the schema is migrated, and while live processes are determined
///     serving            0600  locked by the `coracle up` that serves this folder; contains its process and address
///     servers.sock       0600  the socket where it lends its connections to servers, while it runs
///     live/              0700  one file per process that runs tasks of sessions, locked by it
///   blobs/               0700
///     <sha-256>                bytes, under the digest of their content
/// ```
///
/// Other crates have files here as well: the engine `workspaces/<user>/…`, the audit log `audit/…`, and the sandbox its
/// run-time files. A backup
/// is a copy of this folder (see [`crate::backup`]). The key can be kept separately; without it, the secrets in the
/// backup are lost.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Home {
    root: PathBuf,
}

/// The mode of a folder that only its owner may enter.
const PRIVATE_FOLDER: u32 = 0o700;
/// The mode of a file that only its owner may read.
const PRIVATE_FILE: u32 = 0o600;

impl Home {
    /// The data folder at `root`. Does not create anything.
    pub fn new(root: impl Into<PathBuf>) -> Self {
        Self { root: root.into() }
    }

    /// The folder itself.
    pub fn root(&self) -> &Path {
        &self.root
    }

    /// The file of the master key.
    pub fn master_key(&self) -> PathBuf {
        self.root.join("master.key")
    }

    /// The database.
    pub fn database(&self) -> PathBuf {
        self.store().join("coracle.db")
    }

    /// The folder of the blobs.
    pub fn blobs(&self) -> PathBuf {
        self.root.join("blobs")
    }

    /// The socket where a running `coracle up` lends its connections to servers.
    pub fn servers_socket(&self) -> PathBuf {
        self.store().join("servers.sock")
    }

    /// The folder of the database.
    pub(crate) fn store_folder(&self) -> PathBuf {
        self.store()
    }

    fn store(&self) -> PathBuf {
        self.root.join("store")
    }

    /// The folder with a file per live process.
    pub(crate) fn live(&self) -> PathBuf {
        self.store().join("live")
    }

    fn lock(&self) -> PathBuf {
        self.store().join("lock")
    }

    /// Creates the folder for its owner only. An existing folder keeps its permissions, because it may have other
    /// users.
    fn make_root(&self) -> Result<(), StoreError> {
        let made = DirBuilder::new().recursive(true).mode(PRIVATE_FOLDER).create(&self.root);
        made.map_err(|error| StoreError::file(&self.root, &error))
    }

    /// Creates a folder below the root that only its owner may enter.
    fn make_private(&self, folder: &Path) -> Result<(), StoreError> {
        self.make_root()?;
        let failed = |error: io::Error| StoreError::file(folder, &error);
        match DirBuilder::new().mode(PRIVATE_FOLDER).create(folder) {
            Ok(()) => return Ok(()),
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
            Err(error) => return Err(failed(error)),
        }
        // A link is not created by this crate, and could lead to a folder that others can write to.
        let found = fs::symlink_metadata(folder).map_err(failed)?;
        if !found.is_dir() {
            return Err(StoreError::home(folder, "it is not a folder"));
        }
        if found.mode() & 0o777 & !PRIVATE_FOLDER != 0 {
            fs::set_permissions(folder, Permissions::from_mode(PRIVATE_FOLDER)).map_err(failed)?;
        }
        Ok(())
    }

    /// Creates everything that is needed to open the database.
    ///
    /// An existing database is never opened here: closing it would release the locks that SQLite holds on it elsewhere
    /// in this process.
    pub(crate) fn make_database(&self) -> Result<PathBuf, StoreError> {
        let store = self.store();
        self.make_private(&store)?;
        let path = self.database();
        let failed = |error: io::Error| StoreError::file(&path, &error);
        match fs::symlink_metadata(&path) {
            Ok(found) if !found.is_file() => return Err(StoreError::home(&path, "it is not a file")),
            Ok(found) => tighten(&path, found.mode()).map_err(failed)?,
            Err(error) if error.kind() == io::ErrorKind::NotFound => place(&store, &path, &[]).map_err(failed)?,
            Err(error) => return Err(failed(error)),
        }
        Ok(path)
    }

    /// Creates the folder of the blobs.
    pub(crate) fn make_blobs(&self) -> Result<PathBuf, StoreError> {
        let folder = self.blobs();
        self.make_private(&folder)?;
        Ok(folder)
    }

    /// Creates the root, for the key.
    pub(crate) fn make_for_key(&self) -> Result<PathBuf, StoreError> {
        self.make_root()?;
        Ok(self.master_key())
    }

    /// The file that every process with an open store locks: shared, or exclusively to replace the store.
    pub(crate) fn in_use(&self) -> Result<File, StoreError> {
        self.make_root()?;
        let path = self.root.join(IN_USE);
        let opened = OpenOptions::new().write(true).create(true).truncate(false).mode(PRIVATE_FILE).open(&path);
        opened.map_err(|error| StoreError::file(&path, &error))
    }

    /// Makes this process the only server of the data folder, while the claim is held.
    pub fn claim(&self) -> Result<Claim, StoreError> {
        self.make_private(&self.store())?;
        let path = self.store().join("serving");
        let failed = |error: io::Error| StoreError::file(&path, &error);
        let opened =
            OpenOptions::new().read(true).write(true).create(true).truncate(false).mode(PRIVATE_FILE).open(&path);
        let mut file = opened.map_err(failed)?;
        match file.try_lock() {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => {
                let mut by = String::new();
                // The other server may not have written its description yet.
                let _ = (&mut file).take(MAX_CLAIM).read_to_string(&mut by);
                let by = if by.trim().is_empty() { "it is just starting".to_owned() } else { by.trim().to_owned() };
                return Err(StoreError::Served { path: self.root.clone(), by });
            }
            Err(TryLockError::Error(error)) => return Err(failed(error)),
        }
        Ok(Claim { file, path })
    }

    /// Checks the database without opening it: whether it is one, and whether its version is supported. Only for
    /// programs that do not use it, because closing the file would release locks that SQLite holds on it.
    pub fn look(&self) -> Result<(), StoreError> {
        /// The position of the schema version in the header.
        const VERSION: std::ops::Range<usize> = 60..64;
        const MAGIC: &[u8] = b"SQLite format 3\0";
        let path = self.database();
        let mut header = Vec::new();
        match File::open(&path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
            Err(error) => return Err(StoreError::file(&path, &error)),
            Ok(file) => file.take(100).read_to_end(&mut header).map_err(|error| StoreError::file(&path, &error))?,
        };
        // Just created, and still empty.
        if header.is_empty() {
            return Ok(());
        }
        let version = header.get(VERSION).and_then(|bytes| bytes.try_into().ok()).map(i32::from_be_bytes);
        let (true, Some(found)) = (header.starts_with(MAGIC), version.map(i64::from)) else {
            let (doing, reason) = ("be read", "file is not a database".to_owned());
            return Err(StoreError::Database { path, doing, fault: Fault::Damaged, reason });
        };
        let known = schema_version();
        if found > known { Err(StoreError::Newer { path, found, known }) } else { Ok(()) }
    }

    /// Waits until no other process migrates the schema. The lock ends with the file.
    pub(crate) fn locked(&self) -> Result<File, StoreError> {
        let path = self.lock();
        let failed = |error: io::Error| StoreError::file(&path, &error);
        let opened = OpenOptions::new().write(true).create(true).truncate(false).mode(PRIVATE_FILE).open(&path);
        let file = opened.map_err(failed)?;
        file.lock().map_err(failed)?;
        Ok(file)
    }
}

/// The maximum length of the description of a server.
const MAX_CLAIM: u64 = 200;

/// The right to serve a data folder.
#[derive(Debug)]
pub struct Claim {
    file: File,
    path: PathBuf,
}

impl Claim {
    /// Writes the description of this server, for processes that come later.
    pub fn say(&mut self, who: &str) -> Result<(), StoreError> {
        let said = self.file.set_len(0).and_then(|()| self.file.rewind()).and_then(|()| writeln!(self.file, "{who}"));
        said.map_err(|error| StoreError::file(&self.path, &error))
    }
}

fn tighten(path: &Path, mode: u32) -> io::Result<()> {
    if mode & 0o777 & !PRIVATE_FILE == 0 {
        return Ok(());
    }
    fs::set_permissions(path, Permissions::from_mode(PRIVATE_FILE))
}

/// Creates a file at `path` atomically, for its owner only. An existing file is left unchanged.
pub(crate) fn place(folder: &Path, path: &Path, bytes: &[u8]) -> io::Result<()> {
    let mut file = tempfile::NamedTempFile::new_in(folder)?;
    file.write_all(bytes)?;
    file.as_file().sync_all()?;
    match file.into_temp_path().persist_noclobber(path) {
        Ok(()) => File::open(folder)?.sync_all(),
        Err(error) if error.error.kind() == io::ErrorKind::AlreadyExists => Ok(()),
        Err(error) => Err(error.error),
    }
}
