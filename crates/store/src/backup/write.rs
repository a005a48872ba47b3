//! Writes the archive, while other processes may change the data folder.

use super::{
    BEFORE, BLOBS, BackupError, DATABASE, END, End, FORMAT, KEY, LEFT_OUT, MANIFEST, MAX_SEALED, Manifest, SEALED,
    SPARSE, STAGING, WORKSPACES,
};
use crate::key::MasterKey;
use crate::moment::to_millis;
use crate::{Home, SqliteStore, seal};
use rustix::fs::{AtFlags, CWD, Dir, FileType, Mode, OFlags, SeekFrom, Stat};
use rustix::io::Errno;
use serde::Serialize;
use sha2::{Digest, Sha256};
use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io::{self, BufWriter, Read, Seek, Write};
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::sync::Arc;
use std::time::SystemTime;
use tar::{Builder, EntryType, Header};
use zeroize::Zeroizing;

/// The maximum depth of folders. Deeper ones are skipped.
const MAX_DEPTH: usize = 256;
/// The maximum number of pieces of a sparse file. A file with more is written with its holes filled, up to
/// `MAX_FILLED`.
const MAX_PIECES: usize = 4_096;
/// The maximum size of a file whose holes cannot be preserved. Longer ones are skipped.
const MAX_FILLED: u64 = 1 << 30;
/// The maximum number of skipped names that are reported.
const MAX_TOLD: usize = 1_000;

/// The result of a backup.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct BackedUp {
    /// The number of files, folders and links.
    pub files: u64,
    /// The size of the archive.
    pub bytes: u64,
    /// Files that could not be read or stored, with reasons.
    pub skipped: Vec<String>,
    /// Whether the archive contains the master key.
    pub with_key: bool,
}

/// Writes the data folder to one file that only its owner may read. `workspaces` may be elsewhere. An existing file is
/// replaced only if `force` is set. The store may be in use.
pub async fn backup(
    home: &Home,
    store: &SqliteStore,
    workspaces: &Path,
    to: &Path,
    with_key: bool,
    force: bool,
) -> Result<BackedUp, BackupError> {
    if !force && to.symlink_metadata().is_ok() {
        return Err(BackupError::Exists { path: to.to_owned() });
    }
    let snapshot = tempfile::Builder::new().prefix("backup-").suffix(".db").tempdir_in(home.store_folder());
    let snapshot = snapshot.map_err(|error| BackupError::file(home.store_folder(), error))?;
    let database = snapshot.path().join("coracle.db");
    let schema = store.snapshot(&database).await?;
    let (home, workspaces, to) = (home.clone(), workspaces.to_owned(), to.to_owned());
    // With the key, nothing is encrypted, even if there is no key yet.
    let key = if with_key { None } else { Some(store.master_key().await.map_err(|error| error.to_string())) };
    let written = tokio::task::spawn_blocking(move || {
        let _snapshot = snapshot;
        Archive::write(&home, &workspaces, &database, schema, &to, key, force)
    });
    written.await.map_err(|error| BackupError::file("the archive", error))?
}

pub(super) struct Archive<W: Write> {
    tar: Builder<W>,
    /// The archive itself, which must not be read into itself.
    own: (u64, u64),
    end: End,
    /// Encrypts files that do not belong to users, in an archive without the key.
    sealing: Option<Sealing>,
}

/// How files are encrypted.
struct Sealing {
    /// The key, or why there is none.
    key: Result<Arc<MasterKey>, String>,
    /// Whether the current file is to be encrypted.
    now: bool,
}

impl Archive<BufWriter<File>> {
    fn write(
        home: &Home,
        workspaces: &Path,
        database: &Path,
        schema: i64,
        to: &Path,
        key: Option<Result<Arc<MasterKey>, String>>,
        force: bool,
    ) -> Result<BackedUp, BackupError> {
        let failed = |error: io::Error| BackupError::file(to, error);
        let folder = to.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
        // Only its owner can read it, and it is removed if it is not finished.
        let file = tempfile::Builder::new().prefix(".coracle-backup-").tempfile_in(folder).map_err(failed)?;
        let identity = rustix::fs::fstat(file.as_file()).map_err(|errno| failed(errno.into()))?;
        let writer = BufWriter::with_capacity(1 << 20, file.as_file().try_clone().map_err(failed)?);
        let mut archive = Self {
            tar: Builder::new(writer),
            own: (identity.st_dev, identity.st_ino),
            end: End::default(),
            sealing: None,
        };
        let (database_bytes, database_sha256) = digest(database).map_err(|error| BackupError::file(database, error))?;
        let manifest = Manifest {
            format: FORMAT,
            coracle: env!("CARGO_PKG_VERSION").to_owned(),
            schema,
            made_at: to_millis(SystemTime::now()),
            database_bytes,
            database_sha256,
            with_key: key.is_none() && home.master_key().is_file(),
        };
        archive.json(MANIFEST, &manifest).map_err(failed)?;
        archive.plain(Path::new(DATABASE), database).map_err(failed)?;
        archive.sealing = key.map(|key| Sealing { key, now: false });
        if manifest.with_key {
            archive.plain(Path::new(KEY), &home.master_key()).map_err(failed)?;
        }
        archive.home(home.root(), workspaces).map_err(failed)?;
        let end = archive.end.clone();
        archive.json(END, &end).map_err(failed)?;
        let mut writer = archive.tar.into_inner().map_err(failed)?;
        writer.flush().map_err(failed)?;
        file.as_file().sync_all().map_err(failed)?;
        let bytes = file.as_file().metadata().map_err(failed)?.len();
        let placed = if force { file.persist(to) } else { file.persist_noclobber(to) };
        placed.map_err(|error| match error.error.kind() {
            io::ErrorKind::AlreadyExists => BackupError::Exists { path: to.to_owned() },
            _ => failed(error.error),
        })?;
        File::open(folder).and_then(|folder| folder.sync_all()).map_err(failed)?;
        Ok(BackedUp { files: end.files, bytes, skipped: end.skipped, with_key: manifest.with_key })
    }
}

impl<W: Write> Archive<W> {
    /// An archive of files that belong to one user.
    pub(super) fn of_user(writer: W) -> Self {
        Self { tar: Builder::new(writer), own: (0, 0), end: End::default(), sealing: None }
    }

    /// Adds a folder with everything in it, if there is one.
    pub(super) fn tree(&mut self, name: &str, folder: &Path) -> io::Result<()> {
        match rustix::fs::openat(CWD, folder, FOLDER, Mode::empty()) {
            Ok(opened) => self.folder(Path::new(name), &opened, 1),
            Err(Errno::NOENT) => Ok(()),
            Err(errno) => Err(errno.into()),
        }
    }

    /// Completes the archive.
    pub(super) fn close(mut self) -> io::Result<W> {
        let end = self.end.clone();
        self.json(END, &end)?;
        self.tar.into_inner()
    }

    pub(super) fn json(&mut self, name: &str, value: &impl Serialize) -> io::Result<()> {
        let text = serde_json::to_vec_pretty(value)?;
        let mut header = Header::new_gnu();
        header.set_mode(0o600);
        header.set_size(text.len() as u64);
        self.tar.append_data(&mut header, name, text.as_slice())
    }

    /// Adds a file that this crate manages.
    fn plain(&mut self, name: &Path, path: &Path) -> io::Result<()> {
        let file = File::open(path)?;
        let stat = rustix::fs::fstat(&file)?;
        self.regular(name, file, &stat)
    }

    /// Adds everything in the data folder that is not added separately.
    fn home(&mut self, root: &Path, workspaces: &Path) -> io::Result<()> {
        let opened = rustix::fs::openat(CWD, root, FOLDER, Mode::empty())?;
        for name in listed(&opened)? {
            let text = name.to_string_lossy();
            let made_by_restore = text.starts_with(BEFORE) || text.starts_with(STAGING);
            if LEFT_OUT.iter().any(|left| *left == text) || text == KEY || text == WORKSPACES || made_by_restore {
                continue;
            }
            if text == SEALED {
                self.skip(Path::new(&name), "it was restored without its key: `coracle restore --key` opens it")?;
                continue;
            }
            self.set_sealing(text != BLOBS);
            self.any(&opened, Path::new(&name), &name, 0)?;
        }
        self.set_sealing(false);
        self.tree(WORKSPACES, workspaces)
    }

    fn set_sealing(&mut self, now: bool) {
        if let Some(sealing) = &mut self.sealing {
            sealing.now = now;
        }
    }

    /// Adds a file that may hold a credential.
    fn sealed(&mut self, path: &Path, file: File, stat: &Stat) -> io::Result<()> {
        let Some(Sealing { key, .. }) = &self.sealing else { return Ok(()) };
        let key = match key {
            Ok(key) => key,
            Err(reason) => {
                let why = format!("it may hold credentials and cannot be encrypted: {reason}");
                return self.skip(path, why);
            }
        };
        let Some(name) = path.to_str() else { return self.skip(path, "its name is not valid UTF-8") };
        if u64::try_from(stat.st_size).unwrap_or_default() > MAX_SEALED {
            return self.skip(
                path,
                format!("it may hold credentials and is longer than the {MAX_SEALED} bytes that are encrypted"),
            );
        }
        let mut content = Zeroizing::new(Vec::new());
        file.take(MAX_SEALED).read_to_end(&mut content)?;
        let sealed = seal::seal_file(key, name, &content).map_err(|error| io::Error::other(error.to_string()))?;
        let mut header = header(stat, EntryType::Regular, sealed.len() as u64);
        self.count();
        self.end.bytes += sealed.len() as u64;
        self.tar.append_data(&mut header, Path::new(SEALED).join(path), sealed.as_slice())
    }

    /// Adds the entry with this name in this folder. An entry that vanishes meanwhile is skipped.
    fn any(&mut self, folder: &OwnedFd, path: &Path, name: &OsStr, depth: usize) -> io::Result<()> {
        let stat = match rustix::fs::statat(folder, name, AtFlags::SYMLINK_NOFOLLOW) {
            Ok(stat) => stat,
            Err(Errno::NOENT) => return Ok(()),
            Err(errno) => return self.skip(path, errno),
        };
        match FileType::from_raw_mode(stat.st_mode) {
            FileType::Directory if depth >= MAX_DEPTH => self.skip(path, "it is nested too deeply"),
            FileType::Directory => match rustix::fs::openat(folder, name, FOLDER, Mode::empty()) {
                Ok(opened) => self.folder(path, &opened, depth + 1),
                Err(Errno::NOENT) => Ok(()),
                Err(errno) => self.skip(path, errno),
            },
            FileType::RegularFile => match rustix::fs::openat(folder, name, FILE, Mode::empty()) {
                Ok(opened) => self.regular_or_skip(path, File::from(opened)),
                Err(Errno::NOENT) => Ok(()),
                Err(errno) => self.skip(path, errno),
            },
            FileType::Symlink => match rustix::fs::readlinkat(folder, name, Vec::new()) {
                Ok(target) => {
                    let mut header = header(&stat, EntryType::Symlink, 0);
                    self.count();
                    self.tar.append_link(&mut header, path, Path::new(OsStr::from_bytes(target.as_bytes())))
                }
                Err(errno) => self.skip(path, errno),
            },
            _ => self.skip(path, "it is not a file"),
        }
    }

    fn folder(&mut self, path: &Path, folder: &OwnedFd, depth: usize) -> io::Result<()> {
        let stat = rustix::fs::fstat(folder)?;
        let mut header = header(&stat, EntryType::Directory, 0);
        self.count();
        self.tar.append_data(&mut header, path, io::empty())?;
        let names = match listed(folder) {
            Ok(names) => names,
            Err(error) => return self.skip(path, error),
        };
        for name in names {
            self.any(folder, &path.join(&name), &name, depth)?;
        }
        Ok(())
    }

    fn regular_or_skip(&mut self, path: &Path, file: File) -> io::Result<()> {
        // The entry may have been replaced since it was listed.
        let stat = rustix::fs::fstat(&file)?;
        if FileType::from_raw_mode(stat.st_mode) != FileType::RegularFile {
            return self.skip(path, "it is not a file");
        }
        if (stat.st_dev, stat.st_ino) == self.own {
            return Ok(());
        }
        if self.sealing.as_ref().is_some_and(|sealing| sealing.now) {
            return self.sealed(path, file, &stat);
        }
        self.regular(path, file, &stat)
    }

    fn regular(&mut self, path: &Path, mut file: File, stat: &Stat) -> io::Result<()> {
        let size = u64::try_from(stat.st_size).unwrap_or_default();
        let on_disk = u64::try_from(stat.st_blocks).unwrap_or_default().saturating_mul(512);
        self.count();
        if size > 1 << 20 && on_disk < size / 2 {
            if let Some(pieces) = pieces(&file, size) {
                return self.sparse(path, file, stat, size, &pieces);
            }
            if size > MAX_FILLED {
                self.end.files -= 1;
                return self.skip(path, "it has too many holes");
            }
        }
        let mut header = header(stat, EntryType::Regular, size);
        self.end.bytes += size;
        self.tar.append_data(&mut header, path, Exactly::new(&mut file, size))
    }

    /// Adds a sparse file: its data, and where the data was.
    fn sparse(&mut self, path: &Path, file: File, stat: &Stat, size: u64, pieces: &[(u64, u64)]) -> io::Result<()> {
        let map: Vec<String> = pieces.iter().map(|(start, length)| format!("{start}+{length}")).collect();
        let map = format!("{size}:{}", map.join(","));
        self.tar.append_pax_extensions([(SPARSE, map.as_bytes())])?;
        let stored: u64 = pieces.iter().map(|(_, length)| length).sum();
        let mut header = header(stat, EntryType::Regular, stored);
        self.end.bytes += stored;
        self.tar.append_data(&mut header, path, Exactly::new(&mut Pieces { file, left: pieces.to_vec() }, stored))
    }

    fn count(&mut self) {
        self.end.files += 1;
    }

    #[expect(clippy::unnecessary_wraps, reason = "the last word of functions that can fail")]
    fn skip(&mut self, path: &Path, why: impl std::fmt::Display) -> io::Result<()> {
        if self.end.skipped.len() < MAX_TOLD {
            self.end.skipped.push(format!("{}: {why}", path.to_string_lossy()));
        }
        Ok(())
    }
}

const FOLDER: OFlags = OFlags::DIRECTORY.union(OFlags::NOFOLLOW).union(OFlags::CLOEXEC);
/// Flags that avoid blocking on a pipe that has replaced a file.
const FILE: OFlags = OFlags::NOFOLLOW.union(OFlags::NONBLOCK).union(OFlags::CLOEXEC);

/// The names in a folder, sorted.
fn listed(folder: &OwnedFd) -> io::Result<Vec<OsString>> {
    let mut names = Vec::new();
    for entry in Dir::read_from(folder)? {
        let entry = entry?;
        let name = OsStr::from_bytes(entry.file_name().to_bytes());
        if name != "." && name != ".." {
            names.push(name.to_owned());
        }
    }
    names.sort();
    Ok(names)
}

fn header(stat: &Stat, kind: EntryType, size: u64) -> Header {
    let mut header = Header::new_gnu();
    header.set_entry_type(kind);
    header.set_mode(stat.st_mode & 0o777);
    header.set_uid(stat.st_uid.into());
    header.set_gid(stat.st_gid.into());
    header.set_mtime(u64::try_from(stat.st_mtime).unwrap_or_default());
    header.set_size(size);
    header
}

fn digest(path: &Path) -> io::Result<(u64, String)> {
    let mut file = File::open(path)?;
    let (mut hash, mut bytes, mut chunk) = (Sha256::new(), 0, vec![0; 1 << 20]);
    loop {
        match file.read(&mut chunk)? {
            0 => return Ok((bytes, hex::encode(hash.finalize()))),
            length => {
                bytes += length as u64;
                hash.update(chunk.get(..length).unwrap_or_default());
            }
        }
    }
}

/// The offsets and lengths of a file's data. `None` if they are not known, or if there are too many pieces.
fn pieces(file: &File, size: u64) -> Option<Vec<(u64, u64)>> {
    let (mut pieces, mut at) = (Vec::new(), 0);
    while at < size {
        let start = match rustix::fs::seek(file, SeekFrom::Data(at)) {
            Ok(start) => start,
            Err(Errno::NXIO) => break,
            Err(_) => return None,
        };
        let end = rustix::fs::seek(file, SeekFrom::Hole(start)).ok()?.min(size);
        if start >= size || end <= start || pieces.len() == MAX_PIECES {
            return if start >= size { Some(pieces) } else { None };
        }
        pieces.push((start, end - start));
        at = end;
    }
    Some(pieces)
}

/// Reads exactly this number of bytes: zeros if a file shrinks meanwhile, and nothing of what it grows by.
struct Exactly<'a, R> {
    from: &'a mut R,
    left: u64,
}

impl<'a, R: Read> Exactly<'a, R> {
    fn new(from: &'a mut R, left: u64) -> Self {
        Self { from, left }
    }
}

impl<R: Read> Read for Exactly<'_, R> {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        let most = usize::try_from(self.left).unwrap_or(usize::MAX).min(into.len());
        let into = into.get_mut(..most).unwrap_or_default();
        if into.is_empty() {
            return Ok(0);
        }
        let mut length = self.from.read(into)?;
        if length == 0 {
            into.fill(0);
            length = into.len();
        }
        self.left -= length as u64;
        Ok(length)
    }
}

struct Pieces {
    file: File,
    left: Vec<(u64, u64)>,
}

impl Read for Pieces {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        let Some((start, length)) = self.left.first_mut() else { return Ok(0) };
        self.file.seek(io::SeekFrom::Start(*start))?;
        let most = usize::try_from(*length).unwrap_or(usize::MAX).min(into.len());
        let into = into.get_mut(..most).unwrap_or_default();
        let mut read = self.file.read(into)?;
        if read == 0 {
            into.fill(0);
            read = into.len();
        }
        *start += read as u64;
        *length -= read as u64;
        if *length == 0 {
            self.left.remove(0);
        }
        Ok(read)
    }
}
