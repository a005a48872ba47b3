use crate::{open, owner};
use coracle_store::{Home, KeyCommand, KeySource, Owner, SqliteStore, Store, StoreError};
use coracle_types::Secret;
use std::fs;
use std::os::unix::fs::PermissionsExt;

const KEY: &str = "000102030405060708090a0b0c0d0e0f101112131415161718191a1b1c1d1e1f";

fn given(text: &str) -> KeySource {
    KeySource::Given(Secret::new(text))
}

async fn put(store: &SqliteStore, name: &str) -> Result<(), StoreError> {
    store.put_secret(&Owner::Shared, name, &Secret::new(name)).await
}

async fn code_of_read(store: &SqliteStore, name: &str) -> &'static str {
    store.secret(&Owner::Shared, name).await.unwrap_err().code()
}

#[tokio::test]
async fn the_key_is_created_with_the_first_secret_and_kept() {
    let folder = tempfile::tempdir().unwrap();
    let home = Home::new(folder.path());
    let store = open(&home).await;
    assert_eq!(store.secret(&Owner::Shared, "a").await.unwrap(), None);
    assert!(!home.master_key().exists(), "there are no secrets yet");
    put(&store, "a").await.unwrap();
    let key = fs::read_to_string(home.master_key()).unwrap();
    assert_eq!(key.trim().len(), 64);
    put(&open(&home).await, "b").await.unwrap();
    assert_eq!(fs::read_to_string(home.master_key()).unwrap(), key);
    assert_eq!(store.secret(&Owner::Shared, "b").await.unwrap(), Some(Secret::new("b")));
}

#[tokio::test]
async fn a_lost_key_is_reported_and_not_replaced() {
    let folder = tempfile::tempdir().unwrap();
    let home = Home::new(folder.path());
    put(&open(&home).await, "a").await.unwrap();
    let aside = folder.path().join("aside");
    fs::rename(home.master_key(), &aside).unwrap();

    let store = open(&home).await;
    assert_eq!(code_of_read(&store, "a").await, "key_missing");
    let refused = put(&store, "b").await.unwrap_err();
    assert_eq!(refused.code(), "key_missing");
    assert!(refused.to_string().contains("master.key"), "{refused}");
    assert!(refused.hint().unwrap().contains("put the right key back"));
    assert!(!home.master_key().exists());

    fs::rename(&aside, home.master_key()).unwrap();
    assert_eq!(store.secret(&Owner::Shared, "a").await.unwrap(), Some(Secret::new("a")), "nothing was lost");
    put(&store, "b").await.unwrap();
}

#[tokio::test]
async fn another_key_decrypts_and_overwrites_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let home = Home::new(folder.path());
    put(&open(&home).await, "a").await.unwrap();
    let right = fs::read_to_string(home.master_key()).unwrap();
    fs::write(home.master_key(), KEY).unwrap();

    let wrong = open(&home).await;
    assert_eq!(code_of_read(&wrong, "a").await, "key_wrong");
    for name in ["a", "b"] {
        assert_eq!(put(&wrong, name).await.unwrap_err().code(), "key_wrong");
    }
    fs::write(home.master_key(), right).unwrap();
    let store = open(&home).await;
    assert_eq!(store.secret(&Owner::Shared, "a").await.unwrap(), Some(Secret::new("a")));
    assert_eq!(store.secret(&Owner::Shared, "b").await.unwrap(), None);
}

#[tokio::test]
async fn another_key_can_be_used_after_all_secrets_are_deleted() {
    let folder = tempfile::tempdir().unwrap();
    let home = Home::new(folder.path());
    put(&open(&home).await, "a").await.unwrap();
    fs::remove_file(home.master_key()).unwrap();
    let store = open(&home).await;
    assert_eq!(put(&store, "b").await.unwrap_err().code(), "key_missing");
    assert!(store.delete_secret(&Owner::Shared, "a").await.unwrap(), "deleting needs no key");
    put(&store, "b").await.unwrap();
    assert_eq!(store.secret(&Owner::Shared, "b").await.unwrap(), Some(Secret::new("b")));
}

#[tokio::test]
async fn a_given_key_leaves_no_file() {
    let folder = tempfile::tempdir().unwrap();
    let home = Home::new(folder.path());
    let store = SqliteStore::open(&home, given(KEY)).await.unwrap();
    put(&store, "a").await.unwrap();
    assert!(!home.master_key().exists());
    let again = SqliteStore::open(&home, given(&format!(" {}\n", KEY.to_uppercase()))).await.unwrap();
    assert_eq!(again.secret(&Owner::Shared, "a").await.unwrap(), Some(Secret::new("a")));

    let other = SqliteStore::open(&home, given(&KEY.replace('0', "f"))).await.unwrap();
    assert_eq!(code_of_read(&other, "a").await, "key_wrong");
    assert_eq!(code_of_read(&open(&home).await, "a").await, "key_missing");
}

#[tokio::test]
async fn an_invalid_key_is_rejected_and_not_printed() {
    for text in ["", "short", &KEY[1..], &format!("{KEY}00"), &KEY.replace('0', "g")] {
        let folder = tempfile::tempdir().unwrap();
        let home = Home::new(folder.path());
        let store = SqliteStore::open(&home, given(text)).await.unwrap();
        let refused = put(&store, "a").await.unwrap_err();
        assert_eq!(refused.code(), "key_malformed");
        assert!(text.is_empty() || !format!("{refused} {refused:?} {store:?}").contains(text), "{refused:?}");

        fs::write(home.master_key(), text).unwrap();
        fs::set_permissions(home.master_key(), fs::Permissions::from_mode(0o600)).unwrap();
        assert_eq!(put(&open(&home).await, "a").await.unwrap_err().code(), "key_malformed");
        fs::write(home.master_key(), KEY).unwrap();
        put(&open(&home).await, "a").await.unwrap();
    }
}

#[tokio::test]
async fn a_key_that_others_can_read_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let home = Home::new(folder.path());
    put(&open(&home).await, "a").await.unwrap();
    for mode in [0o640, 0o604] {
        fs::set_permissions(home.master_key(), fs::Permissions::from_mode(mode)).unwrap();
        let refused = open(&home).await.secret(&Owner::Shared, "a").await.unwrap_err();
        assert_eq!(refused.code(), "key_exposed");
        assert!(refused.hint().unwrap().starts_with("run `chmod 600 "));
    }
    fs::set_permissions(home.master_key(), fs::Permissions::from_mode(0o400)).unwrap();
    assert!(open(&home).await.secret(&Owner::Shared, "a").await.unwrap().is_some());
}

#[tokio::test]
async fn no_key_is_needed_without_secrets() {
    let folder = tempfile::tempdir().unwrap();
    let home = Home::new(folder.path());
    put(&open(&home).await, "a").await.unwrap();
    fs::remove_file(home.master_key()).unwrap();
    let store = open(&home).await;
    assert_eq!(store.secret(&owner("ann"), "a").await.unwrap(), None);
    store.put_shape(&owner("ann"), &crate::git(), "log", &serde_json::json!({}), 0).await.unwrap();
}

#[tokio::test]
async fn a_command_prints_the_key_and_no_file_is_created() {
    let folder = tempfile::tempdir().unwrap();
    let home = Home::new(folder.path());
    let of_command = |line: &str| SqliteStore::open(&home, KeySource::Command(KeyCommand::new(line)));
    let store = of_command(&format!("echo {KEY}")).await.unwrap();
    put(&store, "a").await.unwrap();
    store.ready().await.unwrap();
    assert!(!home.master_key().exists());
    let given = SqliteStore::open(&home, given(KEY)).await.unwrap();
    assert_eq!(given.secret(&Owner::Shared, "a").await.unwrap(), Some(Secret::new("a")), "it is the same key");
    for (line, code) in [
        ("exit 1", "key_command"),
        ("echo short", "key_malformed"),
        (&format!("echo {}", KEY.replace('0', "f")), "key_wrong"),
    ] {
        let store = of_command(line).await.unwrap();
        assert_eq!(code_of_read(&store, "a").await, code, "{line}");
        let refused = put(&store, "b").await.unwrap_err();
        assert!(!refused.to_string().contains("echo") && refused.hint().is_some(), "{refused}");
    }
}
