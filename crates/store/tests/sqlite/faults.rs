//! The database or its disk is temporarily unusable: the errors, and the recovery without a restart.

use crate::{git, open, owner, raw};
use coracle_store::{
    ExecutionRecord, Home, Journal, KeySource, NewTask, Owner, SqliteStore, Store, StoreError, TaskState,
};
use coracle_types::{ExecutionId, Language, Secret, SessionId, UserId};
use serde_json::json;
use sqlx::Connection;
use std::fs;
use std::io::{Seek, SeekFrom, Write};
use std::time::{Duration, Instant, SystemTime};

/// Mounts a small file system that only the calling thread sees.
///
/// Returns `None`, and says so, if the tests may not mount.
fn small_disk(bytes: u64) -> Option<tempfile::TempDir> {
    use rustix::mount::{MountFlags, MountPropagationFlags, mount, mount_change};
    if !rustix::process::geteuid().is_root() {
        crate::skip::skip("a small disk: only root can mount one");
        return None;
    }
    #[expect(deprecated, reason = "only descriptors must not be unshared, and only mounts are")]
    rustix::thread::unshare(rustix::thread::UnshareFlags::NEWNS).unwrap();
    mount_change("/", MountPropagationFlags::PRIVATE | MountPropagationFlags::REC).unwrap();
    let folder = tempfile::tempdir().unwrap();
    let options = std::ffi::CString::new(format!("size={bytes}")).unwrap();
    mount("tmpfs", folder.path(), "tmpfs", MountFlags::empty(), options.as_c_str()).unwrap();
    Some(folder)
}

/// Runs on a single thread, which has separate mounts, as have the threads that it starts.
fn on_its_own(work: impl Future<Output = ()>) {
    tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(work);
}

fn user() -> UserId {
    UserId::new("ann").unwrap()
}

fn task(code: &str) -> NewTask {
    NewTask {
        execution_id: ExecutionId::from_random(fastrand::u64(..)),
        description: None,
        language: Language::Python,
        code: code.to_owned(),
        vars: None,
        started_at: SystemTime::now(),
    }
}

async fn session(store: &SqliteStore) -> SessionId {
    store.open_session(&user(), &SessionId::from_random(1), Some("s"), SystemTime::now()).await.unwrap().id
}

#[test]
fn a_full_disk_is_reported_and_writes_resume_when_there_is_room() {
    let Some(folder) = small_disk(8 << 20) else { return };
    on_its_own(async {
        let home = Home::new(folder.path());
        let store = open(&home).await;
        let session = session(&store).await;
        // Acknowledged before the disk is full.
        let first = store.begin_task(&user(), &session, &task("first")).await.unwrap();
        store.ready().await.unwrap();

        let ballast = folder.path().join("ballast");
        let mut file = fs::File::create(&ballast).unwrap();
        let full = std::iter::repeat_with(|| file.write_all(&[0; 4096])).find_map(Result::err).unwrap();
        assert_eq!(full.kind(), std::io::ErrorKind::StorageFull);
        let long = "x".repeat(100_000);
        for _ in 0..6 {
            let refused = store.begin_task(&user(), &session, &task(&long)).await.unwrap_err();
            assert_eq!(refused.code(), "store_full", "{refused}");
            assert!(refused.to_string().contains("coracle.db"), "{refused}");
            assert!(refused.hint().unwrap().contains("free some space"), "{refused:?}");
        }
        assert_eq!(store.ready().await.unwrap_err().code(), "store_full");

        drop(file);
        fs::remove_file(&ballast).unwrap();
        for number in 0..12 {
            let begun = store.begin_task(&user(), &session, &task(&long)).await.unwrap();
            assert_eq!(begun, first + 1 + number);
        }
        tokio::time::sleep(Duration::from_millis(600)).await;
        store.ready().await.unwrap();
        let kept = store.tasks(&user(), &session, 100, None).await.unwrap();
        assert_eq!(kept.last().unwrap().begun.code, "first");
    });
}

#[test]
fn a_read_only_disk_is_reported_and_writes_resume() {
    use rustix::mount::{MountFlags, mount_remount};
    let Some(folder) = small_disk(4 << 20) else { return };
    on_its_own(async {
        let home = Home::new(folder.path());
        let store = open(&home).await;
        let session = session(&store).await;
        // Files that are open for writing would prevent the remount.
        store.close().await;
        drop(store);
        mount_remount(folder.path(), MountFlags::BIND | MountFlags::RDONLY, c"").unwrap();
        let refused = SqliteStore::open(&home, KeySource::File).await.unwrap_err();
        assert!(refused.to_string().contains(folder.path().to_str().unwrap()), "{refused}");
        assert!(refused.hint().unwrap().contains("writable"), "{:?}", refused.hint());
        mount_remount(folder.path(), MountFlags::BIND, c"").unwrap();
        let store = open(&home).await;
        store.begin_task(&user(), &session, &task("again")).await.unwrap();
        store.ready().await.unwrap();
    });
}

#[tokio::test]
async fn a_held_lock_does_not_block_callers_for_long() {
    let folder = tempfile::tempdir().unwrap();
    let home = Home::new(folder.path());
    let store = open(&home).await;
    let session = session(&store).await;
    let mut other = raw(&home).await;
    let held = other.begin_with("BEGIN IMMEDIATE").await.unwrap();

    let begun = Instant::now();
    // All at once: they wait together and not one after the other.
    let tasks: Vec<NewTask> = (0..8).map(|_| task("pass")).collect();
    let user = user();
    let waiting = tasks.iter().map(|task| store.begin_task(&user, &session, task));
    for refused in futures_all(waiting).await {
        let refused = refused.unwrap_err();
        assert_eq!(refused.code(), "store_locked", "{refused}");
        assert!(refused.to_string().contains("coracle.db") && refused.hint().unwrap().contains("another program"));
    }
    assert!(begun.elapsed() < Duration::from_secs(30), "{:?}", begun.elapsed());
    // Reads continue meanwhile.
    assert_eq!(store.session(&user, &session).await.unwrap().unwrap().tasks, 0);
    assert_eq!(store.ready().await.unwrap_err().code(), "store_locked");

    held.rollback().await.unwrap();
    let gone_on = async {
        while store.begin_task(&user, &session, &task("pass")).await.is_err() {
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
        while store.ready().await.is_err() {
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    };
    tokio::time::timeout(Duration::from_mins(1), gone_on).await.unwrap();
}

/// Awaits all futures concurrently, without an additional crate.
async fn futures_all<T>(futures: impl Iterator<Item = impl Future<Output = T>>) -> Vec<T> {
    let mut futures: Vec<_> = futures.map(|future| (Box::pin(future), None)).collect();
    std::future::poll_fn(|context| {
        let mut pending = false;
        for (future, done) in &mut futures {
            if done.is_none() {
                match future.as_mut().poll(context) {
                    std::task::Poll::Ready(value) => *done = Some(value),
                    std::task::Poll::Pending => pending = true,
                }
            }
        }
        if pending { std::task::Poll::Pending } else { std::task::Poll::Ready(()) }
    })
    .await;
    futures.into_iter().map(|(_, done)| done.unwrap()).collect()
}

async fn keep(store: &SqliteStore, number: u64) -> Result<(), StoreError> {
    let record = ExecutionRecord {
        execution_id: ExecutionId::from_random(number),
        user: user(),
        session: None,
        started_at: SystemTime::now(),
        language: Language::Python,
        // Far more than the pages of the schema.
        code: "x".repeat(40_000),
        outcome: json!({}),
        state: TaskState::Done,
    };
    store.record(&record).await
}

#[tokio::test]
async fn a_damaged_file_is_reported_and_an_intact_copy_is_used() {
    let folder = tempfile::tempdir().unwrap();
    let home = Home::new(folder.path());
    let store = open(&home).await;
    for number in 0..40 {
        keep(&store, number).await.unwrap();
    }
    store.close().await;
    drop(store);
    let sound = fs::read(home.database()).unwrap();
    assert!(home.look().is_ok());
    // Not the pages at the beginning, so that the file opens.
    let half = sound.len() / 2;
    let mut file = fs::OpenOptions::new().write(true).open(home.database()).unwrap();
    file.seek(SeekFrom::Start(half as u64)).unwrap();
    file.write_all(&vec![0x5a; sound.len() - half]).unwrap();
    drop(file);

    let store = open(&home).await;
    let refused = store.examine().await.unwrap_err();
    assert_eq!(refused.code(), "store_damaged", "{refused}");
    assert!(refused.to_string().contains("coracle.db") && refused.hint().unwrap().contains("coracle restore"));
    let refused = store.executions(&user(), 100, None).await.unwrap_err();
    assert_eq!(refused.code(), "store_damaged", "{refused}");
    assert_eq!(store.ready().await.unwrap_err().code(), "store_damaged");

    fs::write(home.database(), &sound).unwrap();
    assert_eq!(store.executions(&user(), 100, None).await.unwrap().len(), 40);
    tokio::time::sleep(Duration::from_millis(600)).await;
    store.ready().await.unwrap();
    keep(&store, 100).await.unwrap();

    drop(store);
    fs::write(home.database(), "no database").unwrap();
    assert_eq!(home.look().unwrap_err().code(), "store_damaged");
}

#[tokio::test]
async fn no_write_is_lost_in_a_deleted_file() {
    let folder = tempfile::tempdir().unwrap();
    let home = Home::new(folder.path());
    let store = open(&home).await;
    keep(&store, 1).await.unwrap();
    let aside = folder.path().join("aside");
    fs::rename(home.database(), &aside).unwrap();
    let refused = keep(&store, 2).await.unwrap_err();
    assert_eq!(refused.code(), "store_missing", "{refused}");
    assert_eq!(store.ready().await.unwrap_err().code(), "store_missing");
    fs::rename(&aside, home.database()).unwrap();
    keep(&store, 3).await.unwrap();
    let kept = store.executions(&user(), 10, None).await.unwrap();
    assert_eq!(kept.len(), 2, "only the refused one is missing");
}

#[tokio::test]
async fn looking_at_a_newer_file_is_an_error() {
    let folder = tempfile::tempdir().unwrap();
    let home = Home::new(folder.path());
    assert!(home.look().is_ok(), "there is none yet");
    let store = open(&home).await;
    store.close().await;
    drop(store);
    assert!(home.look().is_ok());
    let mut database = raw(&home).await;
    sqlx::query("PRAGMA user_version = 1000").execute(&mut database).await.unwrap();
    database.close().await.unwrap();
    assert_eq!(home.look().unwrap_err().code(), "store_newer");
}

#[tokio::test]
async fn the_right_key_is_found_when_it_is_put_back() {
    let folder = tempfile::tempdir().unwrap();
    let home = Home::new(folder.path());
    let store = open(&home).await;
    store.ready().await.unwrap();
    store.put_secret(&owner("ann"), "token", &Secret::new("s")).await.unwrap();
    let right = fs::read(home.master_key()).unwrap();
    let wrong = "00".repeat(32);
    for (text, code) in [(Some(wrong.as_str()), "key_wrong"), (None, "key_missing")] {
        match text {
            Some(text) => fs::write(home.master_key(), text).unwrap(),
            None => fs::remove_file(home.master_key()).unwrap(),
        }
        tokio::time::sleep(Duration::from_millis(600)).await;
        assert_eq!(store.ready().await.unwrap_err().code(), code);
    }
    let fresh = open(&home).await;
    assert_eq!(fresh.secret(&owner("ann"), "token").await.unwrap_err().code(), "key_missing");
    fs::write(home.master_key(), &wrong).unwrap();
    fs::set_permissions(home.master_key(), std::os::unix::fs::PermissionsExt::from_mode(0o600)).unwrap();
    assert_eq!(fresh.secret(&owner("ann"), "token").await.unwrap_err().code(), "key_wrong");
    fs::write(home.master_key(), &right).unwrap();
    assert_eq!(fresh.secret(&owner("ann"), "token").await.unwrap(), Some(Secret::new("s")));
    tokio::time::sleep(Duration::from_millis(600)).await;
    store.ready().await.unwrap();
    store.put_shape(&Owner::Shared, &git(), "log", &json!(1), 0).await.unwrap();
}

#[test]
fn a_data_folder_has_one_server() {
    let folder = tempfile::tempdir().unwrap();
    let home = Home::new(folder.path());
    let mut first = home.claim().unwrap();
    assert!(home.claim().unwrap_err().to_string().contains("just starting"));
    first.say("process 7, http://127.0.0.1:8989").unwrap();
    let refused = home.claim().unwrap_err();
    assert_eq!(refused.code(), "store_served");
    assert!(refused.to_string().contains("process 7, http://127.0.0.1:8989"), "{refused}");
    drop(first);
    home.claim().unwrap();
}
