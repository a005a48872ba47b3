use crate::{git, open, raw};
use coracle_store::{Accounts, Belongings, Home, KeySource, Owner, Renamed, SqliteStore, Store};
use coracle_types::{Secret, UserId};
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
    assert_eq!(version(&home).await, coracle_store::schema_version());
    let mode: String = sqlx::query_scalar("PRAGMA journal_mode").fetch_one(&mut raw(&home).await).await.unwrap();
    assert_eq!(mode, "wal");
}

#[tokio::test]
async fn the_schema_matches_the_migrations() {
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
            "approvals",
            "artifact_versions",
            "artifacts",
            "browser_sessions",
            "checkpoints",
            "conversations",
            "decisions",
            "executions",
            "flow_approvals",
            "items",
            "limit_use",
            "plans",
            "run_calls",
            "runs",
            "secrets",
            "server_tools",
            "sessions",
            "shapes",
            "sign_in_links",
            "sources",
            "sqlite_sequence",
            "steps",
            "tasks",
            "token_use",
            "users",
            "value_sources",
            "vault_values",
        ]
    );
}

#[tokio::test]
async fn a_renamed_user_leaves_no_row_behind() {
    let folder = tempfile::tempdir().unwrap();
    let home = Home::new(folder.path());
    let store = open(&home).await;
    let (ann, eve) = (UserId::new("ann").unwrap(), UserId::new("eve").unwrap());
    // A row in each table that has a column for users, including future tables.
    let mut database = raw(&home).await;
    sqlx::query("PRAGMA foreign_keys = OFF").execute(&mut database).await.unwrap();
    let columns: Vec<(String, String)> = sqlx::query_as(
        "SELECT t.name, c.name FROM sqlite_schema AS t JOIN pragma_table_info(t.name) AS c
         WHERE t.type = 'table' AND (c.name IN ('user_id', 'owner') OR t.name = 'users' AND c.name = 'id')",
    )
    .fetch_all(&mut database)
    .await
    .unwrap();
    assert!(columns.len() >= 14, "{columns:?}");
    for (table, column) in columns.iter().filter(|(table, _)| table != "secrets") {
        let name = if column == "owner" { "user:ann" } else { "ann" };
        let others: Vec<String> = sqlx::query_scalar(sqlx::AssertSqlSafe(format!(
            "SELECT name FROM pragma_table_info('{table}')
             WHERE (\"notnull\" OR pk > 0) AND dflt_value IS NULL AND name <> '{column}' AND type <> 'INTEGER'"
        )))
        .fetch_all(&mut database)
        .await
        .unwrap();
        let names = others.iter().fold(String::new(), |names, other| names + ", " + other);
        // The text `1` is converted to a number where necessary, and 'user' is a role.
        let values: String = others.iter().map(|other| if other == "role" { ", 'user'" } else { ", '1'" }).collect();
        let insert = format!("INSERT INTO {table} ({column}{names}) VALUES ('{name}'{values})");
        sqlx::query(sqlx::AssertSqlSafe(insert)).execute(&mut database).await.unwrap();
    }
    store.put_secret(&Owner::User(ann.clone()), "token", &Secret::new("kept")).await.unwrap();
    assert_eq!(store.rename_user(&ann, &eve, Belongings::All).await.unwrap(), Renamed::Done);
    for (table, column) in &columns {
        let prefix = if column == "owner" { "user:" } else { "" };
        let count = async |name: &str, database: &mut sqlx::SqliteConnection| -> i64 {
            let count = format!("SELECT COUNT(*) FROM {table} WHERE {column} = '{prefix}{name}'");
            sqlx::query_scalar(sqlx::AssertSqlSafe(count)).fetch_one(database).await.unwrap()
        };
        // Renaming a user signs them out.
        let expected = i64::from(!["browser_sessions", "sign_in_links"].contains(&table.as_str()));
        let found = (count("ann", &mut database).await, count("eve", &mut database).await);
        assert_eq!(found, (0, expected), "{table}.{column}");
    }
    let secret = store.secret(&Owner::User(eve), "token").await.unwrap();
    assert_eq!(secret.as_ref().map(Secret::expose), Some("kept"));
}

#[tokio::test]
async fn earlier_decisions_are_about_all_arguments() {
    type Row = (String, String, String, String, String, String, i64);

    let mut database = sqlx::SqliteConnection::connect("sqlite::memory:").await.unwrap();
    let (first, bound) =
        (include_str!("../../migrations/0001_first.sql"), include_str!("../../migrations/0013_argument_decisions.sql"));
    sqlx::raw_sql(first).execute(&mut database).await.unwrap();
    let insert = "INSERT INTO decisions VALUES ('ann', 'git', 'log', 'd', 'deny', 7)";
    sqlx::raw_sql(insert).execute(&mut database).await.unwrap();
    sqlx::raw_sql(bound).execute(&mut database).await.unwrap();
    let rows: Vec<Row> =
        sqlx::query_as("SELECT user_id, server, tool, arguments, definition, decision, decided_at FROM decisions")
            .fetch_all(&mut database)
            .await
            .unwrap();
    let [user, server, tool, arguments, definition, decision] =
        ["ann", "git", "log", "", "d", "deny"].map(str::to_owned);
    assert_eq!(rows, [(user, server, tool, arguments, definition, decision, 7)]);
}
