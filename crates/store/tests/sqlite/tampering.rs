//! An attacker who can write to the database, but has no key.

use crate::{open, owner, raw};
use coracle_store::{Home, Owner, SqliteStore, Store};
use coracle_types::Secret;

async fn two_secrets(home: &Home) -> SqliteStore {
    let store = open(home).await;
    store.put_secret(&owner("ann"), "token", &Secret::new("ann's")).await.unwrap();
    store.put_secret(&owner("bob"), "token", &Secret::new("bob's")).await.unwrap();
    store.put_secret(&owner("ann"), "other", &Secret::new("other")).await.unwrap();
    store
}

async fn code(store: &SqliteStore, owner: &Owner, name: &str) -> Result<Secret, &'static str> {
    store.secret(owner, name).await.map(Option::unwrap).map_err(|error| error.code())
}

/// Copies the encrypted bytes of one row to another.
async fn copy(home: &Home, from: (&str, &str), to: (&str, &str)) {
    let statement = "UPDATE secrets SET sealed = (SELECT sealed FROM secrets WHERE owner = ?1 AND name = ?2)
                     WHERE owner = ?3 AND name = ?4";
    let mut database = raw(home).await;
    let query = sqlx::query(statement).bind(from.0).bind(from.1).bind(to.0).bind(to.1);
    assert_eq!(query.execute(&mut database).await.unwrap().rows_affected(), 1);
}

#[tokio::test]
async fn a_row_of_another_owner_or_name_is_not_decrypted() {
    let folder = tempfile::tempdir().unwrap();
    let home = Home::new(folder.path());
    let store = two_secrets(&home).await;
    copy(&home, ("user:ann", "token"), ("user:ann", "token")).await;
    assert_eq!(code(&store, &owner("ann"), "token").await, Ok(Secret::new("ann's")), "the same row opens");

    copy(&home, ("user:bob", "token"), ("user:ann", "token")).await;
    assert_eq!(code(&store, &owner("ann"), "token").await, Err("store_tampered"));
    copy(&home, ("user:ann", "other"), ("user:ann", "token")).await;
    assert_eq!(code(&store, &owner("ann"), "token").await, Err("store_tampered"));
    assert_eq!(code(&store, &owner("bob"), "token").await, Ok(Secret::new("bob's")));
    assert_eq!(code(&store, &owner("ann"), "other").await, Ok(Secret::new("other")));
}

#[tokio::test]
async fn a_renamed_row_is_not_decrypted() {
    let folder = tempfile::tempdir().unwrap();
    let home = Home::new(folder.path());
    let store = two_secrets(&home).await;
    let statement = "UPDATE secrets SET owner = 'shared' WHERE owner = 'user:bob'";
    sqlx::query(statement).execute(&mut raw(&home).await).await.unwrap();
    assert_eq!(code(&store, &Owner::Shared, "token").await, Err("store_tampered"));
    let refused = store.secret(&Owner::Shared, "token").await.unwrap_err();
    assert_eq!(refused.to_string(), "the secret \"token\" of shared was tampered with or is damaged");
    assert!(refused.hint().unwrap().contains("sign in again"));
}

#[tokio::test]
async fn no_changed_byte_goes_unnoticed() {
    let folder = tempfile::tempdir().unwrap();
    let home = Home::new(folder.path());
    let store = two_secrets(&home).await;
    let mut database = raw(&home).await;
    let read = "SELECT sealed FROM secrets WHERE owner = 'user:ann' AND name = 'token'";
    let sealed: Vec<u8> = sqlx::query_scalar(read).fetch_one(&mut database).await.unwrap();
    assert_eq!(sealed.len(), 24 + "ann's".len() + 16);
    let mut changed: Vec<Vec<u8>> = (0..sealed.len())
        .map(|at| {
            let mut copy = sealed.clone();
            copy[at] ^= 1;
            copy
        })
        .collect();
    changed.extend([Vec::new(), sealed[..23].to_vec(), sealed[..24].to_vec(), sealed[..sealed.len() - 1].to_vec()]);
    let write = "UPDATE secrets SET sealed = ?1 WHERE owner = 'user:ann' AND name = 'token'";
    for bytes in changed {
        sqlx::query(write).bind(&bytes).execute(&mut database).await.unwrap();
        assert_eq!(code(&store, &owner("ann"), "token").await, Err("store_tampered"), "{bytes:?}");
    }
    sqlx::query(write).bind(&sealed).execute(&mut database).await.unwrap();
    assert_eq!(code(&store, &owner("ann"), "token").await, Ok(Secret::new("ann's")));
}

#[tokio::test]
async fn the_same_secret_is_never_encrypted_the_same_way() {
    let folder = tempfile::tempdir().unwrap();
    let home = Home::new(folder.path());
    let store = open(&home).await;
    let mut database = raw(&home).await;
    let mut seen = std::collections::HashSet::new();
    for _ in 0..20 {
        store.put_secret(&owner("ann"), "token", &Secret::new("same")).await.unwrap();
        let sealed: Vec<u8> = sqlx::query_scalar("SELECT sealed FROM secrets").fetch_one(&mut database).await.unwrap();
        assert!(seen.insert(sealed));
    }
}

/// Invalid rows cause an error, and never a panic or an empty answer.
#[tokio::test]
async fn damaged_rows_are_named() {
    let folder = tempfile::tempdir().unwrap();
    let home = Home::new(folder.path());
    let store = open(&home).await;
    let mut database = raw(&home).await;
    for statement in [
        "INSERT INTO shapes VALUES ('user:ann', 'git', 'log', '{', 1)",
        "INSERT INTO server_tools VALUES ('user:ann', 'git', 'f', '[{}]', 1)",
        "INSERT INTO decisions VALUES ('ann', 'git', 'log', '', 'd', 'maybe', 1)",
        "INSERT INTO executions (user_id, execution_id, started_at, language, code, outcome) VALUES ('ann', 'e', 1, 'cobol', x'00', '{}')",
    ] {
        sqlx::query(statement).execute(&mut database).await.unwrap();
    }
    let ann = coracle_types::UserId::new("ann").unwrap();
    let codes = [
        store.shape(&owner("ann"), &crate::git(), "log").await.unwrap_err().code(),
        store.tools(&owner("ann"), &crate::git()).await.unwrap_err().code(),
        store.decision(&ann, &crate::git(), "log").await.unwrap_err().code(),
        store.executions(&ann, 10, None).await.unwrap_err().code(),
    ];
    assert_eq!(codes, ["store_damaged"; 4]);
}
