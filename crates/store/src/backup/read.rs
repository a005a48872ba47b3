//! Restores an archive, which is untrusted: nothing in it can escape from the data folder, and nothing is changed
//! before all of it was read and checked.

use super::{
    BEFORE, BackupError, DATABASE, END, End, FORMAT, IN_USE, KEY, MANIFEST, Manifest, SEALED, SPARSE, STAGING,
    WORKSPACES,
};
use crate::key::MasterKey;
use crate::{Home, KeySource, SqliteStore, StoreError, schema_version, seal};
use rustix::fs::{
    AtFlags, FlockOperation, Gid, Mode, OFlags, ResolveFlags, Timespec, Timestamps, Uid, flock, fstat, openat2,
};
use rustix::io::Errno;
use serde::Serialize;
use serde::de::DeserializeOwned;
use sha2::{Digest, Sha256};
use std::ffi::OsStr;
use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io::{self, BufReader, Read, Seek, Write};
use std::os::fd::OwnedFd;
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Component, Path, PathBuf};
use tar::{Entry, EntryType};
use tempfile::TempDir;

/// The maximum size of the manifest and of the end.
const MAX_JSON: u64 = 1 << 20;

const BENEATH: ResolveFlags = ResolveFlags::BENEATH.union(ResolveFlags::NO_SYMLINKS).union(ResolveFlags::NO_MAGICLINKS);
const FOLDER: OFlags = OFlags::DIRECTORY.union(OFlags::NOFOLLOW).union(OFlags::CLOEXEC);

/// The result of a restore.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Restored {
    /// The number of files, folders and links.
    pub files: u64,
    /// Whether the archive contained the master key.
    pub with_key: bool,
    /// Where existing data was moved to.
    pub moved_aside: Vec<PathBuf>,
    /// Files below `sealed/` that may hold credentials and could not be decrypted without the right master key.
    pub sealed: Vec<String>,
}

/// Restores a data folder from a file. `workspaces` may be elsewhere. Existing data is moved aside if `force` is set,
/// and otherwise the restore fails.
pub async fn restore(home: &Home, workspaces: &Path, from: &Path, force: bool) -> Result<Restored, BackupError> {
    restore_with_key(home, workspaces, from, None, &KeySource::File, force).await
}

/// Like [`restore`], with the file of the master key, which was kept separately from the backup. It decrypts the sealed
/// files, and becomes the key of the data folder. Without it, the key of the data folder is tried, which `source` names.
pub async fn restore_with_key(
    home: &Home,
    workspaces: &Path,
    from: &Path,
    key: Option<&Path>,
    source: &KeySource,
    force: bool,
) -> Result<Restored, BackupError> {
    let (place, elsewhere, archive) = (home.clone(), workspaces.to_owned(), from.to_owned());
    let key = match key {
        None => {
            let file = matches!(source, KeySource::File).then(|| home.master_key());
            MasterKey::find_async(source, home).await.ok().flatten().map(|found| (found, file))
        }
        Some(path) => {
            let found = MasterKey::read(path).map_err(StoreError::from)?;
            let found = found.ok_or_else(|| BackupError::file(path, "there is no such file"))?;
            Some((found, Some(path.to_owned())))
        }
    };
    let read = tokio::task::spawn_blocking(move || Restore::run(&place, &elsewhere, &archive, key, force)).await;
    let restored = read.map_err(|error| BackupError::file(from, error))??;
    // Migrates the schema.
    SqliteStore::open(home, source.clone()).await?.close().await;
    Ok(restored)
}

struct Restore<'a> {
    archive: &'a Path,
    /// The folder in which everything except workspaces is staged, and the one for workspaces.
    staging: OwnedFd,
    workspaces: OwnedFd,
    found: End,
    manifest: Manifest,
    database: bool,
    /// Permissions of folders, which are set when their contents are complete.
    folders: Vec<(bool, PathBuf, Given)>,
}

/// The attributes of a file.
#[derive(Clone, Copy)]
struct Given {
    mode: u32,
    owner: (u32, u32),
    mtime: u64,
}

impl<'a> Restore<'a> {
    fn run(
        home: &Home,
        workspaces: &Path,
        archive: &'a Path,
        key: Option<(MasterKey, Option<PathBuf>)>,
        force: bool,
    ) -> Result<Restored, BackupError> {
        let root = home.root();
        let file = File::open(archive).map_err(|error| BackupError::file(archive, error))?;
        let mut tar = tar::Archive::new(BufReader::with_capacity(1 << 20, file));
        let mut entries = tar.entries().map_err(|error| BackupError::invalid(archive, error))?;
        let manifest = manifest(archive, entries.next())?;

        let made = DirBuilder::new().recursive(true).mode(0o700).create(root);
        made.map_err(|error| BackupError::file(root, error))?;
        let _alone = alone(home)?;
        let data = data(home, workspaces)?;
        if let (Some(there), false) = (data.first(), force) {
            return Err(BackupError::Exists { path: there.clone() });
        }
        let beside = workspaces.parent().unwrap_or(root);
        let (staging, other) = (staging(root)?, staging(beside)?);
        let opened = |folder: &TempDir| {
            let opened = rustix::fs::open(folder.path(), FOLDER, Mode::empty());
            opened.map_err(|errno| BackupError::file(folder.path(), errno))
        };
        let mut restore = Restore {
            archive,
            staging: opened(&staging)?,
            workspaces: opened(&other)?,
            found: End::default(),
            manifest,
            database: false,
            folders: Vec::new(),
        };
        let end = restore.entries(entries)?;
        restore.check(&end)?;
        restore.settle()?;
        let sealed = unseal(staging.path(), key)?;

        let moved_aside = move_aside(root, &data)?;
        put(staging.path(), root)?;
        put(&other.path().join(WORKSPACES), workspaces)?;
        for folder in [root, workspaces] {
            if let Ok(folder) = File::open(folder) {
                rustix::fs::syncfs(&folder).map_err(|errno| BackupError::file(root, errno))?;
            }
        }
        Ok(Restored { files: restore.found.files, with_key: restore.manifest.with_key, moved_aside, sealed })
    }

    fn invalid(&self, reason: impl std::fmt::Display) -> BackupError {
        BackupError::invalid(self.archive, reason)
    }

    /// Reads all entries up to the last one, which it returns.
    fn entries(&mut self, entries: tar::Entries<'_, impl Read>) -> Result<End, BackupError> {
        for entry in entries {
            let mut entry = entry.map_err(|error| self.invalid(error))?;
            let path = entry.path().map_err(|error| self.invalid(error))?.into_owned();
            if path == Path::new(END) {
                return json(self.archive, &mut entry);
            }
            self.check_place(&path, entry.header().entry_type())?;
            let placed = self.place(&path, &mut entry);
            placed.map_err(|error| self.invalid(format!("{}: {error}", path.display())))?;
            self.found.files += 1;
        }
        Err(self.invalid("it is truncated"))
    }

    /// Accepts only paths that a backup can have, and none that leads elsewhere.
    fn check_place(&self, path: &Path, kind: EntryType) -> Result<(), BackupError> {
        let refused = |why: &str| Err(self.invalid(format!("{}: {why}", path.display())));
        if !path.components().all(|part| matches!(part, Component::Normal(_))) {
            return refused("it leads outside the data folder");
        }
        let first = path.components().next().map(|part| part.as_os_str().to_owned()).unwrap_or_default();
        let is = |name: &str| first == OsStr::new(name);
        let is_key = path == Path::new(KEY);
        match kind {
            _ if is("run") || is("cache") || is(IN_USE) => refused("backups do not contain it"),
            _ if is("store") && path != Path::new(DATABASE) => refused("backups do not contain it"),
            _ if is_key && !self.manifest.with_key => refused("the manifest does not mention it"),
            EntryType::Regular | EntryType::Directory => Ok(()),
            EntryType::Symlink if is(WORKSPACES) => Ok(()),
            _ => refused("it is neither a file nor a folder"),
        }
    }

    fn place(&mut self, path: &Path, entry: &mut Entry<'_, impl Read>) -> io::Result<()> {
        let header = entry.header();
        let id = |id: io::Result<u64>| u32::try_from(id.unwrap_or_default()).unwrap_or_default();
        let given = Given {
            mode: header.mode().unwrap_or(0o600) & 0o777,
            owner: (id(header.uid()), id(header.gid())),
            mtime: header.mtime().unwrap_or_default(),
        };
        let kind = header.entry_type();
        let in_workspaces = path.starts_with(WORKSPACES);
        let root = if in_workspaces { &self.workspaces } else { &self.staging };
        let folder = made(root, path.parent().unwrap_or(Path::new("")))?;
        let name = path.file_name().ok_or(io::ErrorKind::InvalidInput)?;
        match kind {
            EntryType::Directory => {
                make(&folder, name)?;
                self.folders.push((in_workspaces, path.to_owned(), given));
            }
            EntryType::Symlink => {
                let target = entry.link_name()?.ok_or(io::ErrorKind::InvalidData)?;
                rustix::fs::symlinkat(target.as_ref(), &folder, name)?;
                if rustix::process::geteuid().is_root() {
                    let (uid, gid) = ids(given.owner);
                    rustix::fs::chownat(&folder, name, Some(uid), Some(gid), AtFlags::SYMLINK_NOFOLLOW)?;
                }
            }
            _ => {
                let flags = OFlags::CREATE | OFlags::EXCL | OFlags::WRONLY | OFlags::CLOEXEC;
                let mut file = File::from(openat2(&folder, name, flags, Mode::RUSR | Mode::WUSR, BENEATH)?);
                let map = sparse(entry)?;
                let database = path == Path::new(DATABASE);
                let (bytes, digest) = fill(&mut file, entry, map)?;
                if database {
                    self.database = bytes == self.manifest.database_bytes && digest == self.manifest.database_sha256;
                }
                self.found.bytes += bytes;
                give(&file, given)?;
            }
        }
        Ok(())
    }

    fn check(&self, end: &End) -> Result<(), BackupError> {
        if !self.database {
            return Err(self.invalid("its database does not match the manifest"));
        }
        // The database and the key are counted where they are read.
        if (end.files, end.bytes) != (self.found.files, self.found.bytes) {
            return Err(self.invalid(format!(
                "it contains {} files of {} bytes, but should contain {} of {}",
                self.found.files, self.found.bytes, end.files, end.bytes
            )));
        }
        Ok(())
    }

    fn settle(&mut self) -> Result<(), BackupError> {
        for (in_workspaces, path, given) in std::mem::take(&mut self.folders).into_iter().rev() {
            let root = if in_workspaces { &self.workspaces } else { &self.staging };
            let opened = openat2(root, &path, FOLDER, Mode::empty(), BENEATH).map(File::from);
            let settled = opened.map_err(io::Error::from).and_then(|folder| give(&folder, given));
            settled.map_err(|error| BackupError::file(&path, error))?;
        }
        Ok(())
    }
}

/// Decrypts sealed files and moves them to their places. Files that cannot be decrypted stay, and are returned. If the
/// key decrypts any and comes from a file, it is stored beside them.
fn unseal(staging: &Path, key: Option<(MasterKey, Option<PathBuf>)>) -> Result<Vec<String>, BackupError> {
    let root = staging.join(SEALED);
    let (mut left, mut folders, mut opened_any) = (Vec::new(), vec![PathBuf::new()], false);
    while let Some(folder) = folders.pop() {
        let Ok(entries) = fs::read_dir(root.join(&folder)) else { continue };
        for entry in entries.flatten() {
            let path = folder.join(entry.file_name());
            let failed = |error: io::Error| BackupError::file(&path, error);
            if entry.file_type().map_err(failed)?.is_dir() {
                folders.push(path);
                continue;
            }
            let name = path.to_string_lossy().into_owned();
            let content = fs::read(entry.path()).map_err(failed)?;
            let Some(content) = key.as_ref().and_then(|(key, _)| seal::open_file(key, &name, &content)) else {
                left.push(name);
                continue;
            };
            opened_any = true;
            let to = staging.join(&path);
            let rights = entry.metadata().map_err(failed)?.permissions();
            let made = DirBuilder::new().recursive(true).mode(0o700).create(to.parent().unwrap_or(staging));
            let written = made.and_then(|()| {
                let mut file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(&to)?;
                file.write_all(&content)?;
                file.set_permissions(rights)
            });
            written.and_then(|()| fs::remove_file(entry.path())).map_err(failed)?;
        }
    }
    if left.is_empty() && root.exists() {
        fs::remove_dir_all(&root).map_err(|error| BackupError::file(&root, error))?;
    }
    if let Some((_, Some(from))) = key.filter(|_| opened_any)
        && !staging.join(KEY).exists()
    {
        let copied = fs::read(&from).and_then(|text| crate::home::place(staging, &staging.join(KEY), &text));
        copied.map_err(|error| BackupError::file(&from, error))?;
    }
    left.sort();
    Ok(left)
}

fn manifest(archive: &Path, entry: Option<io::Result<Entry<'_, impl Read>>>) -> Result<Manifest, BackupError> {
    let invalid = |error: io::Error| BackupError::invalid(archive, error);
    let Some(entry) = entry else { return Err(BackupError::invalid(archive, "it is empty")) };
    let mut entry = entry.map_err(invalid)?;
    if entry.path().map_err(invalid)?.as_ref() != Path::new(MANIFEST) {
        return Err(BackupError::invalid(archive, "it does not begin with a manifest"));
    }
    let manifest: Manifest = json(archive, &mut entry)?;
    let known = schema_version();
    if manifest.format != FORMAT || manifest.schema > known {
        return Err(BackupError::Newer {
            path: archive.to_owned(),
            by: manifest.coracle.chars().take(40).collect(),
            found: manifest.schema,
            known,
        });
    }
    Ok(manifest)
}

fn json<T: DeserializeOwned>(archive: &Path, entry: &mut Entry<'_, impl Read>) -> Result<T, BackupError> {
    let mut text = Vec::new();
    let read = entry.take(MAX_JSON).read_to_end(&mut text);
    read.map_err(|error| BackupError::invalid(archive, error))?;
    serde_json::from_slice(&text).map_err(|error| BackupError::invalid(archive, error))
}

/// Locks the data folder exclusively.
fn alone(home: &Home) -> Result<File, BackupError> {
    let in_use = || BackupError::InUse { path: home.root().to_owned() };
    let lock = home.in_use().map_err(BackupError::Store)?;
    flock(&lock, FlockOperation::NonBlockingLockExclusive).map_err(|_| in_use())?;
    // Processes that run sandboxes hold another lock, with or without a store.
    for entry in fs::read_dir(home.root().join("run")).into_iter().flatten().flatten() {
        if let Ok(held) = File::open(entry.path().join("lock"))
            && flock(&held, FlockOperation::NonBlockingLockExclusive).is_err()
        {
            return Err(in_use());
        }
    }
    Ok(lock)
}

/// Existing data that a restore would replace.
fn data(home: &Home, workspaces: &Path) -> Result<Vec<PathBuf>, BackupError> {
    let mut data = Vec::new();
    let entries = fs::read_dir(home.root()).map_err(|error| BackupError::file(home.root(), error))?;
    for entry in entries.flatten() {
        let name = entry.file_name().to_string_lossy().into_owned();
        let own = ["run", "cache", IN_USE].contains(&name.as_str());
        let other = name.starts_with(BEFORE) || name.starts_with(STAGING);
        if !own && !other && !is_empty(&entry.path()) {
            data.push(entry.path());
        }
    }
    if !workspaces.starts_with(home.root()) && workspaces.exists() && !is_empty(workspaces) {
        data.push(workspaces.to_owned());
    }
    data.sort();
    Ok(data)
}

fn is_empty(path: &Path) -> bool {
    fs::read_dir(path).is_ok_and(|mut entries| entries.next().is_none())
}

fn staging(beside: &Path) -> Result<TempDir, BackupError> {
    let made = DirBuilder::new().recursive(true).mode(0o700).create(beside);
    let staged = made.and_then(|()| tempfile::Builder::new().prefix(STAGING).tempdir_in(beside));
    staged.map_err(|error| BackupError::file(beside, error))
}

/// Moves existing data to a folder beside it. Nothing is deleted.
fn move_aside(root: &Path, data: &[PathBuf]) -> Result<Vec<PathBuf>, BackupError> {
    let mut moved = Vec::new();
    for path in data {
        let folder = path.parent().unwrap_or(root);
        let stamp = crate::moment::to_millis(std::time::SystemTime::now());
        let aside = folder.join(format!("{BEFORE}{stamp}"));
        let to = aside.join(path.file_name().unwrap_or_default());
        let made = DirBuilder::new().recursive(true).mode(0o700).create(&aside);
        made.and_then(|()| fs::rename(path, &to)).map_err(|error| BackupError::file(path, error))?;
        moved.push(to);
    }
    Ok(moved)
}

/// Moves everything in a folder to another one. An empty folder in the way is replaced.
fn put(from: &Path, to: &Path) -> Result<(), BackupError> {
    if !from.exists() {
        return Ok(());
    }
    let made = DirBuilder::new().recursive(true).mode(0o700).create(to);
    made.map_err(|error| BackupError::file(to, error))?;
    for entry in fs::read_dir(from).map_err(|error| BackupError::file(from, error))? {
        let entry = entry.map_err(|error| BackupError::file(from, error))?;
        let place = to.join(entry.file_name());
        fs::rename(entry.path(), &place).map_err(|error| BackupError::file(&place, error))?;
    }
    Ok(())
}

fn make(folder: &OwnedFd, name: &OsStr) -> io::Result<()> {
    match rustix::fs::mkdirat(folder, name, Mode::RWXU) {
        Ok(()) | Err(Errno::EXIST) => Ok(()),
        Err(errno) => Err(errno.into()),
    }
}

/// Opens the folder at this path, and creates it and its parents if they are missing.
fn made(root: &OwnedFd, path: &Path) -> io::Result<OwnedFd> {
    let mut folder = rustix::io::fcntl_dupfd_cloexec(root, 0)?;
    for part in path.components() {
        make(&folder, part.as_os_str())?;
        folder = openat2(&folder, part.as_os_str(), FOLDER, Mode::empty(), BENEATH)?;
    }
    Ok(folder)
}

fn ids((uid, gid): (u32, u32)) -> (Uid, Gid) {
    (Uid::from_raw(uid), Gid::from_raw(gid))
}

fn give(file: &File, given: Given) -> io::Result<()> {
    let found = fstat(file)?;
    // A user who is not root owns everything that they restore.
    if rustix::process::geteuid().is_root() && (found.st_uid, found.st_gid) != given.owner {
        let (uid, gid) = ids(given.owner);
        rustix::fs::fchown(file, Some(uid), Some(gid))?;
    }
    rustix::fs::fchmod(file, Mode::from_raw_mode(given.mode))?;
    let time = Timespec { tv_sec: i64::try_from(given.mtime).unwrap_or_default(), tv_nsec: 0 };
    Ok(rustix::fs::futimens(file, &Timestamps { last_access: time, last_modification: time })?)
}

/// The length of a file, and the offsets and lengths of its data.
type Map = (u64, Vec<(u64, u64)>);

/// The map of a sparse file.
fn sparse(entry: &mut Entry<'_, impl Read>) -> io::Result<Option<Map>> {
    let Some(extensions) = entry.pax_extensions()? else { return Ok(None) };
    for extension in extensions {
        let extension = extension?;
        if extension.key_bytes() != SPARSE.as_bytes() {
            continue;
        }
        let parsed = || -> Option<Map> {
            let (size, pieces) = extension.value().ok()?.split_once(':')?;
            let piece = |text: &str| {
                let (start, length) = text.split_once('+')?;
                Some((start.parse::<u64>().ok()?, length.parse::<u64>().ok()?))
            };
            let pieces = pieces.split(',').filter(|text| !text.is_empty()).map(piece).collect::<Option<Vec<_>>>()?;
            Some((size.parse().ok()?, pieces))
        };
        return parsed().map(Some).ok_or_else(|| io::ErrorKind::InvalidData.into());
    }
    Ok(None)
}

/// Writes the contents of an entry. Returns their length and digest.
fn fill(file: &mut File, entry: &mut impl Read, map: Option<Map>) -> io::Result<(u64, String)> {
    let (mut hash, mut bytes, mut chunk) = (Sha256::new(), 0, vec![0; 1 << 18]);
    let mut copy = |file: &mut File, most: u64| -> io::Result<()> {
        let mut from = entry.take(most);
        loop {
            match from.read(&mut chunk)? {
                0 => return Ok(()),
                length => {
                    let read = chunk.get(..length).unwrap_or_default();
                    bytes += length as u64;
                    hash.update(read);
                    file.write_all(read)?;
                }
            }
        }
    };
    match map {
        None => copy(file, u64::MAX)?,
        Some((size, pieces)) => {
            for (start, length) in pieces {
                file.seek(io::SeekFrom::Start(start))?;
                copy(file, length)?;
            }
            file.set_len(size)?;
        }
    }
    Ok((bytes, hex::encode(hash.finalize())))
}
