use crate::{git, open, raw};
use coracle_store::{Home, KeySource, Owner, SqliteStore, Store};
use serde_json::json;
use sqlx::Connection;
use std::fs;

async fn version(home: &Home) -> i64 {
    sqlx::query_scalar("PRAGMA user_version").fetch_one(&mut raw(home).await).await.unwrap()
}

#[tokio::test]
async fn a_database_of_a_later_version_is_refused_and_left_alone() {
    let folder = tempfile::tempdir().unwrap();
    let home = Home::new(folder.path());
    let store = open(&home).await;
    store.put_shape(&Owner::Shared, &git(), "log", &json!(1), 0).await.unwrap();
    store.close().await;
    let known = version(&home).await;
    let mut database = raw(&home).await;
    sqlx::query("PRAGMA user_version = 1000").execute(&mut database).await.unwrap();
    database.close().await.unwrap();
    let before = fs::read(home.database()).unwrap();

    let refused = SqliteStore::open(&home, KeySource::File).await.unwrap_err();
    assert_eq!(refused.code(), "store_newer");
    let told = refused.to_string();
    assert!(told.contains(&format!("has schema version 1000; this version of coracle knows {known}")), "{told}");
    assert!(refused.hint().unwrap().contains("nothing was changed"));
    assert!(fs::read(home.database()).unwrap() == before, "the file has changed");

    let back = sqlx::AssertSqlSafe(format!("PRAGMA user_version = {known}"));
    sqlx::query(back).execute(&mut raw(&home).await).await.unwrap();
    assert_eq!(open(&home).await.shape(&Owner::Shared, &git(), "log").await.unwrap().unwrap().value, json!(1));
}

#[tokio::test]
async fn the_file_is_in_wal_mode_and_knows_its_version() {
    let folder = tempfile::tempdir().unwrap();
    let home = Home::new(folder.path());
    open(&home).await;
    assert_eq!(version(&home).await, 4);
    let mode: String = sqlx::query_scalar("PRAGMA journal_mode").fetch_one(&mut raw(&home).await).await.unwrap();
    assert_eq!(mode, "wal");
}

#[tokio::test]
async fn the_schema_is_what_the_migrations_make_of_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let home = Home::new(folder.path());
    open(&home).await;
    let names: Vec<String> = sqlx::query_scalar(
        "SELECT name FROM sqlite_schema WHERE type = 'table' AND name NOT LIKE '\\_%' ESCAPE '\\' ORDER BY name",
    )
    .fetch_all(&mut raw(&home).await)
    .await
    .unwrap();
    assert_eq!(
        names,
        [
            "api_keys",
            "artifact_versions",
            "artifacts",
            "browser_sessions",
            "checkpoints",
            "decisions",
            "executions",
            "secrets",
            "server_tools",
            "sessions",
            "shapes",
            "sign_in_links",
            "tasks",
            "users",
        ]
    );
}
