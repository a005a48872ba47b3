//! Backup and restore of the data folder, during writes, and with malicious archives.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on fails")]

use coracle_store::{
    BackupError, Home, Journal, KeySource, Owner, SqliteStore, Store, backup, restore, restore_with_key, schema_version,
};
use coracle_types::{Secret, SessionId, UserId};
use std::collections::BTreeMap;
use std::fs;
use std::io::{Seek, Write};
use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::SystemTime;
use tempfile::TempDir;

async fn open(home: &Home) -> SqliteStore {
    SqliteStore::open(home, KeySource::File).await.unwrap()
}

struct Place {
    folder: TempDir,
    home: Home,
}

impl Place {
    fn new() -> Self {
        let folder = TempDir::new().unwrap();
        let home = Home::new(folder.path().join("home"));
        Self { folder, home }
    }

    fn workspaces(&self) -> PathBuf {
        self.home.root().join("workspaces")
    }

    fn file(&self) -> PathBuf {
        self.folder.path().join("backup.tar")
    }

    async fn back_up(&self, with_key: bool, force: bool) -> Result<coracle_store::BackedUp, BackupError> {
        backup(&self.home, &open(&self.home).await, &self.workspaces(), &self.file(), with_key, force).await
    }

    async fn restore_to(&self, other: &Place, force: bool) -> Result<coracle_store::Restored, BackupError> {
        restore(&other.home, &other.workspaces(), &self.file(), force).await
    }

    /// A data folder with one of everything.
    async fn furnished() -> Self {
        let place = Self::new();
        let store = open(&place.home).await;
        store.put_secret(&Owner::Shared, "token", &Secret::new("open sesame".to_owned())).await.unwrap();
        let ann = UserId::new("ann").unwrap();
        store.open_session(&ann, &SessionId::from_random(1), Some("log"), SystemTime::now()).await.unwrap();
        store.close().await;
        let files = place.workspaces().join("ann/files");
        fs::create_dir_all(files.join("deep").join("x".repeat(200)).join("y".repeat(200))).unwrap();
        fs::write(files.join("deep").join("x".repeat(200)).join("y".repeat(200)).join("z"), "far").unwrap();
        fs::write(files.join("Ünï \n name"), vec![7; 100_000]).unwrap();
        fs::write(files.join("empty"), "").unwrap();
        fs::set_permissions(files.join("empty"), fs::Permissions::from_mode(0o4751)).unwrap();
        symlink("/etc/passwd", files.join("link")).unwrap();
        symlink("nowhere", files.join("dangling")).unwrap();
        let mut holes = fs::File::create(files.join("holes")).unwrap();
        holes.seek(std::io::SeekFrom::Start(5 << 30)).unwrap();
        holes.write_all(b"in the middle").unwrap();
        holes.set_len(9 << 30).unwrap();
        rustix::fs::mkfifoat(rustix::fs::CWD, files.join("pipe"), rustix::fs::Mode::RUSR).unwrap();
        fs::create_dir_all(place.home.root().join("run/abc")).unwrap();
        fs::write(place.home.root().join("run/abc/secret"), "of this moment").unwrap();
        fs::create_dir_all(place.home.root().join("blobs")).unwrap();
        fs::write(place.home.root().join("blobs/0123"), "bytes").unwrap();
        fs::write(place.home.root().join("coracle.yaml"), "{}").unwrap();
        place
    }
}

/// The contents of a folder: type, permissions and content of each entry, by path.
fn tree(root: &Path) -> BTreeMap<PathBuf, String> {
    let (mut found, mut folders) = (BTreeMap::new(), vec![root.to_owned()]);
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(folder).unwrap().flatten() {
            let (path, stat) = (entry.path(), entry.metadata().unwrap());
            let what = if stat.is_dir() {
                folders.push(path.clone());
                "folder".to_owned()
            } else if stat.is_symlink() {
                format!("link to {}", fs::read_link(&path).unwrap().display())
            } else if stat.is_file() && stat.len() < 1 << 30 {
                format!("{:o} {} {:?}", stat.mode() & 0o777, stat.mtime(), fs::read(&path).unwrap())
            } else if stat.is_file() {
                format!("{} bytes", stat.len())
            } else {
                continue;
            };
            found.insert(path.strip_prefix(root).unwrap().to_owned(), what);
        }
    }
    found
}

#[tokio::test]
async fn everything_comes_back() {
    let place = Place::furnished().await;
    let done = place.back_up(false, false).await.unwrap();
    assert!(!done.with_key && done.files > 10 && done.bytes < 10_000_000, "{done:?}");
    assert!(done.skipped.len() == 1 && done.skipped[0].contains("pipe"), "{:?}", done.skipped);
    assert_eq!(fs::metadata(place.file()).unwrap().mode() & 0o777, 0o600);

    let other = Place::new();
    let restored = place.restore_to(&other, false).await.unwrap();
    assert_eq!((restored.files, restored.moved_aside.len()), (done.files, 0));
    assert_eq!(tree(&other.workspaces()), tree(&place.workspaces()));
    let holes = other.workspaces().join("ann/files/holes");
    let stat = fs::metadata(&holes).unwrap();
    assert!(stat.blocks() * 512 < 1 << 20, "holes stay holes: {} blocks", stat.blocks());
    let mut file = fs::File::open(&holes).unwrap();
    file.seek(std::io::SeekFrom::Start(5 << 30)).unwrap();
    let mut middle = [0; 13];
    std::io::Read::read_exact(&mut file, &mut middle).unwrap();
    assert_eq!(&middle, b"in the middle");
    assert_eq!(fs::metadata(other.workspaces().join("ann/files/empty")).unwrap().mode() & 0o7777, 0o751);
    assert_eq!(fs::read(other.home.root().join("blobs/0123")).unwrap(), b"bytes");
    assert!(other.home.root().join("sealed/coracle.yaml").exists(), "without the key it stays encrypted");
    assert!(!other.home.root().join("run").exists() && !other.home.master_key().exists());
    let left: Vec<String> = fs::read_dir(other.home.root())
        .unwrap()
        .map(|entry| entry.unwrap().file_name().to_string_lossy().into_owned())
        .filter(|name| name.starts_with(".restore"))
        .collect();
    assert_eq!(left, [""; 0]);

    let store = open(&other.home).await;
    let ann = UserId::new("ann").unwrap();
    assert!(store.session_labelled(&ann, "log").await.unwrap().is_some());
    assert!(store.secret(&Owner::Shared, "token").await.is_err(), "without the key it stays encrypted");
    fs::copy(place.home.master_key(), other.home.master_key()).unwrap();
    let secret = open(&other.home).await.secret(&Owner::Shared, "token").await.unwrap().unwrap();
    assert_eq!(secret.expose(), "open sesame");
}

#[tokio::test]
async fn the_key_is_included_only_on_request() {
    let place = Place::furnished().await;
    assert!(place.back_up(true, false).await.unwrap().with_key);
    let other = Place::new();
    assert!(place.restore_to(&other, false).await.unwrap().with_key);
    assert_eq!(fs::metadata(other.home.master_key()).unwrap().mode() & 0o777, 0o600);
    let secret = open(&other.home).await.secret(&Owner::Shared, "token").await.unwrap().unwrap();
    assert_eq!(secret.expose(), "open sesame");
    let key = fs::read(place.home.master_key()).unwrap();
    let has_key = |place: &Place| fs::read(place.file()).unwrap().windows(key.len()).any(|part| part == key);
    assert!(has_key(&place));
    place.back_up(false, true).await.unwrap();
    assert!(!has_key(&place));
}

#[tokio::test]
async fn existing_data_is_not_overwritten() {
    let place = Place::furnished().await;
    place.back_up(false, false).await.unwrap();
    let before = fs::read(place.file()).unwrap();
    assert_eq!(place.back_up(false, false).await.unwrap_err().code(), "backup_exists");
    assert!(fs::read(place.file()).unwrap() == before);

    let other = Place::furnished().await;
    fs::write(other.workspaces().join("ann/files/own"), "kept").unwrap();
    let before = tree(other.home.root());
    let refused = place.restore_to(&other, false).await.unwrap_err();
    assert_eq!(refused.code(), "backup_exists");
    assert_eq!(tree(other.home.root()), before);
    let restored = place.restore_to(&other, true).await.unwrap();
    assert_eq!(tree(&other.workspaces()), tree(&place.workspaces()));
    let aside = restored.moved_aside.iter().find(|path| path.ends_with("workspaces")).unwrap();
    assert_eq!(fs::read(aside.join("ann/files/own")).unwrap(), b"kept");
    assert!(restored.moved_aside.iter().any(|path| path.join("coracle.db").exists()));
    // Data that was moved aside is not part of the next backup.
    let done =
        backup(&other.home, &open(&other.home).await, &other.workspaces(), &other.file(), false, false).await.unwrap();
    assert!(done.files <= restored.files + 1, "{} of {}", done.files, restored.files);
}

#[tokio::test]
async fn a_data_folder_in_use_is_left_alone() {
    let place = Place::furnished().await;
    place.back_up(false, false).await.unwrap();
    let other = Place::new();
    let store = open(&other.home).await;
    for force in [false, true] {
        assert_eq!(place.restore_to(&other, force).await.unwrap_err().code(), "backup_in_use");
    }
    store.close().await;
    drop(store);
    fs::create_dir_all(other.home.root().join("run/x")).unwrap();
    let lock = fs::File::create(other.home.root().join("run/x/lock")).unwrap();
    lock.lock().unwrap();
    assert_eq!(place.restore_to(&other, true).await.unwrap_err().code(), "backup_in_use");
    drop(lock);
    place.restore_to(&other, true).await.unwrap();
}

/// While files and rows are written, the copy is consistent, and has everything from before it began.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_backup_during_writes_is_consistent() {
    let place = Arc::new(Place::furnished().await);
    let store = Arc::new(open(&place.home).await);
    let (ann, stop) = (UserId::new("ann").unwrap(), Arc::new(AtomicBool::new(false)));
    for number in 0..50 {
        store.open_session(&ann, &SessionId::from_random(100 + number), None, SystemTime::now()).await.unwrap();
    }
    let rows = tokio::spawn({
        let (store, ann, stop) = (Arc::clone(&store), ann.clone(), Arc::clone(&stop));
        async move {
            let mut number = 1_000;
            while !stop.load(Ordering::SeqCst) {
                // No more sessions than are kept, because the oldest would be deleted.
                let id = SessionId::from_random(number.min(1_900));
                if number < 1_900 {
                    store.open_session(&ann, &id, None, SystemTime::now()).await.unwrap();
                } else {
                    store.end_session(&ann, &id, SystemTime::now()).await.unwrap();
                }
                number += 1;
            }
            number
        }
    });
    let files = std::thread::spawn({
        let (folder, stop) = (place.workspaces().join("ann/files"), Arc::clone(&stop));
        move || {
            let mut round = 0_usize;
            while !stop.load(Ordering::SeqCst) {
                round += 1;
                // Files grow, shrink, appear, vanish and change their type.
                fs::write(folder.join("changing"), vec![1; 3_000_000 * (round % 2)]).unwrap();
                fs::create_dir_all(folder.join(format!("odd{}", round % 7))).unwrap();
                fs::write(folder.join(format!("odd{}/f", round % 7)), "x").unwrap();
                let _ = fs::remove_dir_all(folder.join(format!("odd{}", (round + 3) % 7)));
                let _ = fs::remove_file(folder.join("turning"));
                if round.is_multiple_of(2) {
                    symlink("/etc/shadow", folder.join("turning")).unwrap();
                } else {
                    fs::write(folder.join("turning"), "y").unwrap();
                }
            }
        }
    });
    for round in 0..6 {
        backup(&place.home, &store, &place.workspaces(), &place.file(), false, true).await.unwrap();
        let other = Place::new();
        place.restore_to(&other, false).await.unwrap_or_else(|error| panic!("round {round}: {error}"));
        assert_eq!(fs::read(other.workspaces().join("ann/files/Ünï \n name")).unwrap(), vec![7; 100_000]);
        let restored = open(&other.home).await;
        for number in 0..50 {
            assert!(restored.session(&ann, &SessionId::from_random(100 + number)).await.unwrap().is_some());
        }
    }
    stop.store(true, Ordering::SeqCst);
    files.join().unwrap();
    let written = rows.await.unwrap();
    assert!(written > 1_010, "{written}: nothing was written meanwhile");
}

/// Rewrites a backup with changed entries.
fn forged(place: &Place, change: impl Fn(&mut Vec<(tar::Header, PathBuf, Vec<u8>)>)) -> PathBuf {
    let mut entries = Vec::new();
    let mut archive = tar::Archive::new(fs::File::open(place.file()).unwrap());
    for entry in archive.entries().unwrap() {
        let mut entry = entry.unwrap();
        let mut content = Vec::new();
        std::io::Read::read_to_end(&mut entry, &mut content).unwrap();
        entries.push((entry.header().clone(), entry.path().unwrap().into_owned(), content));
    }
    change(&mut entries);
    let path = place.folder.path().join("forged.tar");
    let mut writer = tar::Builder::new(fs::File::create(&path).unwrap());
    for (mut header, name, content) in entries {
        // By hand, because the writer rejects such names.
        let bytes = name.to_str().unwrap().as_bytes();
        let field = &mut header.as_mut_bytes()[..100];
        field.fill(0);
        field[..bytes.len()].copy_from_slice(bytes);
        if header.entry_type().is_file() {
            header.set_size(content.len() as u64);
        }
        header.set_cksum();
        writer.append(&header, content.as_slice()).unwrap();
    }
    writer.finish().unwrap();
    path
}

fn entry(kind: tar::EntryType, name: &str, content: &[u8]) -> (tar::Header, PathBuf, Vec<u8>) {
    let mut header = tar::Header::new_gnu();
    header.set_entry_type(kind);
    header.set_mode(0o644);
    header.set_size(0);
    if kind.is_symlink() || kind.is_hard_link() {
        header.set_link_name(std::str::from_utf8(content).unwrap()).unwrap();
        return (header, name.into(), Vec::new());
    }
    (header, name.into(), content.to_vec())
}

#[tokio::test]
async fn a_malicious_archive_changes_nothing() {
    use tar::EntryType::{Block, Fifo, Link, Regular, Symlink};
    let place = Place::new();
    fs::create_dir_all(place.workspaces().join("ann/files")).unwrap();
    fs::write(place.workspaces().join("ann/files/a"), "a").unwrap();
    place.back_up(false, false).await.unwrap();
    let outside = place.folder.path().join("outside");
    fs::create_dir(&outside).unwrap();
    let far = outside.join("x").to_str().unwrap().to_owned();
    let cases = [
        ("up", vec![entry(Regular, "../outside/x", b"x")]),
        ("far up", vec![entry(Regular, "workspaces/../../outside/x", b"x")]),
        ("absolute", vec![entry(Regular, &far, b"x")]),
        (
            "through a link",
            vec![
                entry(Symlink, "workspaces/ann/l", outside.to_str().unwrap().as_bytes()),
                entry(Regular, "workspaces/ann/l/x", b"x"),
            ],
        ),
        (
            "through a link to above",
            vec![entry(Symlink, "workspaces/l", b"../../outside"), entry(Regular, "workspaces/l/x", b"x")],
        ),
        ("over a link", vec![entry(Symlink, "workspaces/l", far.as_bytes()), entry(Regular, "workspaces/l", b"x")]),
        ("a link elsewhere", vec![entry(Symlink, "blobs", outside.to_str().unwrap().as_bytes())]),
        ("a hard link", vec![entry(Link, "workspaces/h", b"/etc/passwd")]),
        ("a device", vec![entry(Block, "workspaces/d", b"")]),
        ("a pipe", vec![entry(Fifo, "workspaces/p", b"")]),
        ("another database", vec![entry(Regular, "store/coracle.db-wal", b"x")]),
        ("a key that was not told", vec![entry(Regular, "master.key", b"00")]),
        ("what runs", vec![entry(Regular, "run/x/lock", b"x")]),
        ("one too many", vec![entry(Regular, "workspaces/more", b"x")]),
    ];
    for (what, added) in cases {
        let path = forged(&place, |entries| {
            let last = entries.len() - 1;
            entries.splice(
                last..last,
                added.iter().map(|(header, name, bytes)| (header.clone(), name.clone(), bytes.clone())),
            );
        });
        let other = Place::new();
        let refused = restore(&other.home, &other.workspaces(), &path, false).await.unwrap_err();
        assert_eq!(refused.code(), "backup_invalid", "{what}: {refused}");
        assert_eq!(fs::read_dir(&outside).unwrap().count(), 0, "{what}");
        let left: Vec<_> = tree(other.home.root()).into_keys().filter(|path| path != Path::new(".in-use")).collect();
        assert_eq!(left, Vec::<PathBuf>::new(), "{what}");
    }
    // Changed, truncated, or not an archive.
    for (what, change) in [
        ("a changed database", (|entries| entries[1].2[5_000] ^= 1) as fn(&mut Vec<(tar::Header, PathBuf, Vec<u8>)>)),
        ("cut off", |entries| entries.truncate(entries.len() - 1)),
        ("no manifest", |entries| drop(entries.remove(0))),
        ("empty", Vec::clear),
    ] {
        let path = forged(&place, change);
        let other = Place::new();
        let refused = restore(&other.home, &other.workspaces(), &path, false).await.unwrap_err();
        assert_eq!(refused.code(), "backup_invalid", "{what}: {refused}");
    }
    // Positive control: unchanged, it can be restored.
    let path = forged(&place, |_| {});
    let other = Place::new();
    restore(&other.home, &other.workspaces(), &path, false).await.unwrap();
    assert_eq!(fs::read(other.workspaces().join("ann/files/a")).unwrap(), b"a");
}

#[tokio::test]
async fn a_backup_of_a_later_version_is_refused() {
    let place = Place::furnished().await;
    place.back_up(false, false).await.unwrap();
    let known = schema_version();
    let path = forged(&place, |entries| {
        entries.retain(|(_, name, _)| name.as_os_str().len() < 100);
        let manifest = String::from_utf8(entries[0].2.clone()).unwrap();
        entries[0].2 = manifest.replace(&format!("\"schema\": {known}"), "\"schema\": 1000").into_bytes();
    });
    let other = Place::new();
    let refused = restore(&other.home, &other.workspaces(), &path, true).await.unwrap_err();
    assert_eq!(refused.code(), "backup_newer");
    assert!(refused.to_string().contains("schema version 1000; this version knows"), "{refused}");
    assert!(refused.hint().unwrap().contains("nothing was changed"));
    assert!(!other.home.root().exists());
}

/// Positive control: user files, and files in an archive with the key, are found by the same search.
#[tokio::test]
async fn without_the_key_an_archive_holds_no_credential() {
    let place = Place::furnished().await;
    let root = place.home.root();
    fs::write(root.join(".env"), "TOKEN=canary-of-env\n").unwrap();
    fs::write(root.join("coracle.yaml"), "mcpServers: {x: {env: {T: canary-of-yaml}}}\n").unwrap();
    fs::create_dir(root.join("certs")).unwrap();
    fs::write(root.join("certs/client.pem"), "canary-of-pem").unwrap();
    fs::set_permissions(root.join(".env"), fs::Permissions::from_mode(0o600)).unwrap();
    fs::write(place.workspaces().join("ann/files/notes"), "canary-of-ann").unwrap();
    let key = fs::read_to_string(place.home.master_key()).unwrap();
    let holds = |text: &str| {
        let bytes = fs::read(place.file()).unwrap();
        bytes.windows(text.len()).any(|window| window == text.as_bytes())
    };
    let secrets = ["canary-of-env", "canary-of-yaml", "canary-of-pem", key.trim()];
    place.back_up(true, false).await.unwrap();
    assert!(secrets.iter().all(|secret| holds(secret)));
    place.back_up(false, true).await.unwrap();
    assert!(holds("canary-of-ann"));
    assert!(!secrets.iter().any(|secret| holds(secret)));

    // A different key, or none, decrypts nothing.
    let other = Place::new();
    let told = place.restore_to(&other, false).await.unwrap();
    assert_eq!(told.sealed, [".env", "certs/client.pem", "coracle.yaml"]);
    assert!(!other.home.root().join(".env").exists());
    let wrong = place.folder.path().join("wrong.key");
    fs::write(&wrong, "00".repeat(32)).unwrap();
    fs::set_permissions(&wrong, fs::Permissions::from_mode(0o600)).unwrap();
    let told = restore_with_key(&other.home, &other.workspaces(), &place.file(), Some(&wrong), &KeySource::File, true)
        .await
        .unwrap();
    assert_eq!(told.sealed.len(), 3);
    // The right key decrypts all files, and the secrets of the database.
    let right = place.home.master_key();
    let told = restore_with_key(&other.home, &other.workspaces(), &place.file(), Some(&right), &KeySource::File, true)
        .await
        .unwrap();
    assert_eq!(told.sealed, [""; 0]);
    assert_eq!(fs::read_to_string(other.home.root().join(".env")).unwrap(), "TOKEN=canary-of-env\n");
    assert_eq!(fs::metadata(other.home.root().join(".env")).unwrap().mode() & 0o777, 0o600);
    assert_eq!(fs::read_to_string(other.home.root().join("certs/client.pem")).unwrap(), "canary-of-pem");
    let secret = open(&other.home).await.secret(&Owner::Shared, "token").await.unwrap().unwrap();
    assert_eq!(secret.expose(), "open sesame");
}
