//! Content-addressed blobs.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on fails")]

use coracle_store::{BlobId, Blobs, Home};
use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};

const HELLO: &str = "2cf24dba5fb0a30e26e83b2ac5b9e29e1b161e5c1fa7425e73043362938b9824";

async fn stores_and_returns(blobs: Blobs) {
    let id = blobs.put(b"hello".to_vec()).await.unwrap();
    assert_eq!(id.as_str(), HELLO);
    assert_eq!(blobs.put(b"hello".to_vec()).await.unwrap(), id);
    assert_eq!(blobs.get(&id, 5).await.unwrap(), Some(b"hello".to_vec()));
    assert_eq!(blobs.get(&id, 4).await.unwrap_err().code(), "blob_too_large");
    let empty = blobs.put(Vec::new()).await.unwrap();
    assert_eq!(blobs.get(&empty, 0).await.unwrap(), Some(Vec::new()));

    blobs.delete(&id).await.unwrap();
    blobs.delete(&id).await.unwrap();
    assert_eq!(blobs.get(&id, 5).await.unwrap(), None);
    assert_eq!(blobs.get(&empty, 5).await.unwrap(), Some(Vec::new()));
}

#[tokio::test]
async fn blobs_in_memory_are_stored_and_returned() {
    stores_and_returns(Blobs::in_memory()).await;
}

#[tokio::test]
async fn blobs_on_disk_are_stored_and_returned() {
    let folder = tempfile::tempdir().unwrap();
    stores_and_returns(Blobs::local(&Home::new(folder.path())).unwrap()).await;
}

#[tokio::test]
async fn blobs_on_disk_survive_a_restart_and_are_private() {
    let folder = tempfile::tempdir().unwrap();
    let home = Home::new(folder.path());
    let mut bytes = vec![0; 3 << 20];
    fastrand::Rng::with_seed(1).fill(&mut bytes);
    let id = Blobs::local(&home).unwrap().put(bytes.clone()).await.unwrap();
    assert_eq!(Blobs::local(&home).unwrap().get(&id, 3 << 20).await.unwrap(), Some(bytes));
    assert_eq!(fs::metadata(home.blobs()).unwrap().permissions().mode() & 0o777, 0o700);
}

#[tokio::test]
async fn writers_of_the_same_bytes_do_not_disturb_each_other() {
    let folder = tempfile::tempdir().unwrap();
    let blobs = Blobs::local(&Home::new(folder.path())).unwrap();
    let mut writers = tokio::task::JoinSet::new();
    for _ in 0..16 {
        let blobs = blobs.clone();
        writers.spawn(async move { blobs.put(vec![7; 100_000]).await.unwrap() });
    }
    let ids = writers.join_all().await;
    assert!(ids.iter().all(|id| *id == ids[0]));
    assert_eq!(blobs.get(&ids[0], 100_000).await.unwrap(), Some(vec![7; 100_000]));
    assert_eq!(fs::read_dir(folder.path().join("blobs")).unwrap().count(), 1);
}

#[test]
fn only_a_digest_names_a_blob() {
    assert_eq!(HELLO.parse::<BlobId>().unwrap(), BlobId::of(b"hello"));
    let upper = HELLO.to_uppercase();
    for text in ["", "..", "../../etc/passwd", &HELLO[1..], &upper, &format!("{HELLO}0"), &format!("/{}", &HELLO[1..])]
    {
        assert_eq!(text.parse::<BlobId>().unwrap_err().code(), "blob_no_id", "{text}");
    }
}

#[tokio::test]
async fn changed_bytes_are_noticed_and_repaired() {
    let folder = tempfile::tempdir().unwrap();
    let home = Home::new(folder.path());
    let blobs = Blobs::local(&home).unwrap();
    let id = blobs.put(b"hello".to_vec()).await.unwrap();
    fs::write(home.blobs().join(id.as_str()), "hullo").unwrap();
    assert_eq!(blobs.get(&id, 5).await.unwrap_err().code(), "blob_damaged");
    blobs.put(b"hello".to_vec()).await.unwrap();
    assert_eq!(blobs.get(&id, 5).await.unwrap(), Some(b"hello".to_vec()));
}

#[tokio::test]
async fn a_planted_link_is_neither_read_nor_written_through() {
    let folder = tempfile::tempdir().unwrap();
    let home = Home::new(folder.path());
    let blobs = Blobs::local(&home).unwrap();
    let id = BlobId::of(b"hello");
    let outside = folder.path().join("outside");
    fs::write(&outside, "hello").unwrap();
    symlink(&outside, home.blobs().join(id.as_str())).unwrap();
    assert_eq!(blobs.get(&id, 5).await.unwrap_err().code(), "blob_damaged", "even with the right bytes");

    fs::write(&outside, "untouched").unwrap();
    blobs.put(b"hello".to_vec()).await.unwrap();
    assert_eq!(fs::read_to_string(&outside).unwrap(), "untouched");
    assert!(fs::symlink_metadata(home.blobs().join(id.as_str())).unwrap().is_file());
    assert_eq!(blobs.get(&id, 5).await.unwrap(), Some(b"hello".to_vec()));

    fs::remove_file(home.blobs().join(id.as_str())).unwrap();
    symlink(&outside, home.blobs().join(id.as_str())).unwrap();
    blobs.delete(&id).await.unwrap();
    assert_eq!(fs::read_to_string(&outside).unwrap(), "untouched");
    assert_eq!(blobs.get(&id, 5).await.unwrap(), None);
}

#[tokio::test]
async fn a_link_in_the_place_of_the_folder_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let elsewhere = tempfile::tempdir().unwrap();
    let home = Home::new(folder.path());
    symlink(elsewhere.path(), home.blobs()).unwrap();
    assert_eq!(Blobs::local(&home).unwrap_err().code(), "store_home");
    fs::remove_file(home.blobs()).unwrap();
    Blobs::local(&home).unwrap().put(b"hello".to_vec()).await.unwrap();
}
