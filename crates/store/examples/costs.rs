//! Measures the store on this machine: `cargo run --release -p coracle-store --example costs`.

use coracle_store::{Home, KeySource, Owner, SqliteStore, Store};
use coracle_types::{Secret, ServerName, UserId};
use serde_json::json;
use std::error::Error;
use std::time::{Duration, Instant};

const ROUNDS: u32 = 50;

fn median(mut times: Vec<Duration>) -> Duration {
    times.sort_unstable();
    times[times.len() / 2]
}

fn print(what: &str, times: Vec<Duration>) {
    println!("{what:<34} {:>9.3} ms", median(times).as_secs_f64() * 1e3);
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let git = ServerName::new("git")?;
    let user = UserId::local();
    let (mut fresh, mut again, mut read, mut write, mut missing, mut secret) =
        (Vec::new(), Vec::new(), Vec::new(), Vec::new(), Vec::new(), Vec::new());
    for _ in 0..ROUNDS {
        let folder = tempfile::tempdir()?;
        let home = Home::new(folder.path());
        let start = Instant::now();
        let store = SqliteStore::open(&home, KeySource::File).await?;
        fresh.push(start.elapsed());
        store.put_secret(&Owner::Shared, "token", &Secret::new("text")).await?;
        store.close().await;

        let start = Instant::now();
        let store = SqliteStore::open(&home, KeySource::File).await?;
        again.push(start.elapsed());

        let start = Instant::now();
        store.secret(&Owner::Shared, "token").await?;
        secret.push(start.elapsed());
        for version in 0..10 {
            let start = Instant::now();
            store.put_shape(&Owner::Shared, &git, "log", &json!({"type": "string"}), version).await?;
            write.push(start.elapsed());
            let start = Instant::now();
            store.shape(&Owner::Shared, &git, "log").await?;
            read.push(start.elapsed());
            let start = Instant::now();
            store.decision(&user, &git, "log").await?;
            missing.push(start.elapsed());
        }
        store.close().await;
    }
    print("open, nothing there", fresh);
    print("open, all there", again);
    print("first secret, with the key", secret);
    print("write a shape", write);
    print("read a shape", read);
    print("look for a decision", missing);
    Ok(())
}
