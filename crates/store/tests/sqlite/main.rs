//! Properties of the SQLite store only: permissions of files, the master key, tampering, versions, and processes that
//! are killed or run concurrently.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on fails")]

mod faults;
mod files;
mod journal;
mod keys;
mod processes;
// By path, because the crate `testing` depends on this one and on many more.
#[expect(dead_code, unreachable_pub, reason = "only `skip` is used here")]
#[path = "../../../testing/src/skip.rs"]
mod skip;
mod tampering;
mod versions;

use coracle_store::{Home, KeySource, Owner, SqliteStore};
use coracle_types::{ServerName, UserId};
use sqlx::Connection;
use sqlx::sqlite::{SqliteConnectOptions, SqliteConnection};

async fn open(home: &Home) -> SqliteStore {
    SqliteStore::open(home, KeySource::File).await.unwrap()
}

/// A direct connection to the database.
async fn raw(home: &Home) -> SqliteConnection {
    SqliteConnection::connect_with(&SqliteConnectOptions::new().filename(home.database())).await.unwrap()
}

fn owner(name: &str) -> Owner {
    Owner::User(UserId::new(name).unwrap())
}

fn git() -> ServerName {
    ServerName::new("git").unwrap()
}
