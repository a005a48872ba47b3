use crate::{git, open, owner};
use coracle_store::{Home, KeySource, Owner, SqliteStore, Store};
use coracle_types::Secret;
use serde_json::json;
use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::Path;

fn mode(path: &Path) -> u32 {
    fs::symlink_metadata(path).unwrap().permissions().mode() & 0o777
}

fn files(folder: &Path) -> Vec<std::path::PathBuf> {
    let mut found = Vec::new();
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() { found.extend(files(&path)) } else { found.push(path) }
    }
    found
}

#[tokio::test]
async fn other_users_cannot_read_anything() {
    let folder = tempfile::tempdir().unwrap();
    let home = Home::new(folder.path().join("deep/home"));
    let store = open(&home).await;
    store.put_secret(&Owner::Shared, "token", &Secret::new("canary-of-a-secret")).await.unwrap();
    assert_eq!(mode(home.root()), 0o700);
    assert_eq!(mode(home.database().parent().unwrap()), 0o700);
    let found = files(home.root());
    assert!(found.iter().any(|path| path.ends_with("coracle.db-wal")), "{found:?}");
    assert!(found.iter().any(|path| path.ends_with("master.key")), "{found:?}");
    for path in found {
        assert_eq!(mode(&path), 0o600, "{}", path.display());
    }
}

#[tokio::test]
async fn permissions_that_are_too_wide_are_restricted() {
    let folder = tempfile::tempdir().unwrap();
    let home = Home::new(folder.path());
    open(&home).await.close().await;
    let store = home.database().parent().unwrap().to_owned();
    fs::set_permissions(&store, fs::Permissions::from_mode(0o755)).unwrap();
    fs::set_permissions(home.database(), fs::Permissions::from_mode(0o644)).unwrap();
    open(&home).await;
    assert_eq!((mode(&store), mode(&home.database())), (0o700, 0o600));
}

#[tokio::test]
async fn a_link_in_the_place_of_the_store_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let elsewhere = tempfile::tempdir().unwrap();
    let home = Home::new(folder.path());
    symlink(elsewhere.path(), folder.path().join("store")).unwrap();
    let refused = SqliteStore::open(&home, KeySource::File).await.unwrap_err();
    assert_eq!(refused.code(), "store_home");
    assert_eq!(files(elsewhere.path()), [""; 0].map(std::path::PathBuf::from));

    fs::remove_file(folder.path().join("store")).unwrap();
    open(&home).await;
}

#[tokio::test]
async fn a_link_in_the_place_of_the_database_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let home = Home::new(folder.path());
    open(&home).await.close().await;
    let moved = folder.path().join("moved.db");
    fs::rename(home.database(), &moved).unwrap();
    symlink(&moved, home.database()).unwrap();
    assert_eq!(SqliteStore::open(&home, KeySource::File).await.unwrap_err().code(), "store_home");

    fs::rename(&moved, home.database()).unwrap();
    open(&home).await;
}

#[tokio::test]
async fn a_folder_that_cannot_be_created_is_named() {
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("file"), "").unwrap();
    let refused = SqliteStore::open(&Home::new(folder.path().join("file/home")), KeySource::File).await.unwrap_err();
    assert!(refused.to_string().contains("file/home"), "{refused}");
    assert!(refused.hint().unwrap().contains("CORACLE_HOME"));
}

#[tokio::test]
async fn a_file_that_is_not_a_database_is_left_alone() {
    let folder = tempfile::tempdir().unwrap();
    let home = Home::new(folder.path());
    open(&home).await.close().await;
    let garbage = vec![b'x'; 10_000];
    fs::write(home.database(), &garbage).unwrap();
    let refused = SqliteStore::open(&home, KeySource::File).await.unwrap_err();
    assert_eq!(refused.code(), "store_damaged");
    assert!(refused.to_string().contains("not a database"), "{refused}");
    assert!(fs::read(home.database()).unwrap() == garbage, "the file has changed");
}

#[tokio::test]
async fn stored_data_survives_a_restart() {
    let folder = tempfile::tempdir().unwrap();
    let home = Home::new(folder.path());
    for (number, closed) in [true, false, true].into_iter().enumerate() {
        let store = open(&home).await;
        let version = number as u64;
        assert_eq!(store.put_shape(&owner("ann"), &git(), "log", &json!(number), version).await.unwrap(), version + 1);
        store.put_secret(&owner("ann"), &format!("token{number}"), &Secret::new(format!("s{number}"))).await.unwrap();
        if closed {
            store.close().await;
        }
    }
    let store = open(&home).await;
    assert_eq!(store.shape(&owner("ann"), &git(), "log").await.unwrap().unwrap().value, json!(2));
    for number in 0..3 {
        let found = store.secret(&owner("ann"), &format!("token{number}")).await.unwrap();
        assert_eq!(found, Some(Secret::new(format!("s{number}"))));
    }
}

/// Positive control: unencrypted data is found by the same search.
#[tokio::test]
async fn a_secret_is_nowhere_on_disk() {
    let folder = tempfile::tempdir().unwrap();
    let home = Home::new(folder.path());
    let store = open(&home).await;
    store.put_secret(&owner("ann"), "token", &Secret::new("canary-of-a-secret")).await.unwrap();
    store.put_shape(&owner("ann"), &git(), "log", &json!("canary-of-a-shape"), 0).await.unwrap();
    let holds = |canary: &str| {
        let found = files(home.root()).into_iter().map(|path| fs::read(path).unwrap());
        found.into_iter().any(|bytes| bytes.windows(canary.len()).any(|window| window == canary.as_bytes()))
    };
    assert!(holds("canary-of-a-shape"));
    assert!(!holds("canary-of-a-secret"));
    store.close().await;
    assert!(holds("canary-of-a-shape"));
    assert!(!holds("canary-of-a-secret"));
}
