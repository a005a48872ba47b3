//! The latest versions of all artifacts of a user, as one zip archive.

use crate::timestamp::Timestamp;
use coracle_engine::{ArtifactError, ArtifactVersion, Engine};
use coracle_types::UserId;
use std::collections::HashSet;
use std::fs::File;
use std::io::{self, Write};
use tokio::sync::mpsc;
use zip::write::SimpleFileOptions;
use zip::{DateTime, ZipWriter};

/// Number of artifacts that are listed at once.
const PAGE: usize = 100;
/// Number of open files that wait to be written. If there are more, opening waits.
const AHEAD: usize = 4;
/// Size from which an entry uses the format for large files. It is below the limit of the usual format, because content
/// that cannot be compressed becomes larger.
const LARGE: u64 = u32::MAX as u64 - (1 << 24);

/// Why an archive is not complete.
#[derive(Debug, thiserror::Error)]
pub(crate) enum ArchiveError {
    /// An artifact cannot be read.
    #[error(transparent)]
    Artifact(#[from] ArtifactError),
    /// The archive cannot be written.
    #[error("cannot write the archive: {0}")]
    File(#[from] io::Error),
}

/// An entry of the archive.
struct Entry {
    name: String,
    options: SimpleFileOptions,
    file: File,
}

/// Writes the latest versions of all artifacts. Those that are deleted meanwhile may be missing.
pub(crate) async fn write_archive<W: Write + Send + 'static>(
    engine: Engine,
    user: UserId,
    writer: W,
) -> Result<(), ArchiveError> {
    let (sender, mut receiver) = mpsc::channel::<Entry>(AHEAD);
    let (complete, is_complete) = std::sync::mpsc::channel::<()>();
    let writing = tokio::task::spawn_blocking(move || -> io::Result<()> {
        let mut archive = ZipWriter::new_stream(writer);
        while let Some(Entry { name, options, mut file }) = receiver.blocking_recv() {
            archive.start_file(name, options)?;
            io::copy(&mut file, &mut archive)?;
        }
        // Without its end, the archive is not valid, so that nobody takes it for complete.
        if is_complete.recv().is_err() {
            return Err(io::Error::other("the artifacts could not all be read"));
        }
        archive.finish()?.into_inner().flush()
    });
    let sent = send_all(&engine, &user, &sender).await;
    drop(sender);
    if sent.is_ok() {
        let _ = complete.send(());
    }
    drop(complete);
    let written = writing.await.map_err(io::Error::other)?;
    sent?;
    Ok(written?)
}

async fn send_all(engine: &Engine, user: &UserId, sender: &mpsc::Sender<Entry>) -> Result<(), ArtifactError> {
    let (mut names, mut before) = (HashSet::new(), None);
    loop {
        let page = engine.artifacts(user, PAGE, before.as_ref()).await?;
        let Some(last) = page.last() else { return Ok(()) };
        before = Some(last.id.clone());
        for record in page {
            let (record, version, file) = match engine.open_artifact(user, &record.id, None).await {
                Err(ArtifactError::Missing { .. }) => continue,
                opened => opened?,
            };
            let entry = Entry { name: entry_name(&record.name, &mut names), options: options(&version), file };
            if sender.send(entry).await.is_err() {
                // The writer says why it has stopped.
                return Ok(());
            }
        }
    }
}

fn options(version: &ArtifactVersion) -> SimpleFileOptions {
    let options = SimpleFileOptions::default().large_file(version.bytes >= LARGE).unix_permissions(0o644);
    match modified(version.created_at.into()) {
        Some(time) => options.last_modified_time(time),
        None => options,
    }
}

/// The time as archives have it; `None` before 1980.
fn modified(time: Timestamp) -> Option<DateTime> {
    let text = time.to_string();
    let mut numbers = text.split(|c: char| !c.is_ascii_digit()).map(|number| number.parse::<u16>().ok());
    let year = numbers.next()??;
    let mut next = || u8::try_from(numbers.next()??).ok();
    DateTime::from_date_and_time(year, next()?, next()?, next()?, next()?, next()?).ok()
}

/// A name that stays within the folder that the archive is unpacked to, on every system, and that no other entry has.
fn entry_name(name: &str, taken: &mut HashSet<String>) -> String {
    let parts = name.split('/').map(|part| {
        let part: String =
            part.chars().map(|c| if c == '\\' || c == ':' || c.is_control() { '_' } else { c }).collect();
        if matches!(part.as_str(), "" | "." | "..") { "_".to_owned() } else { part }
    });
    let plain = parts.collect::<Vec<_>>().join("/");
    let mut unique = plain.clone();
    let mut number = 1;
    while !taken.insert(unique.clone()) {
        number += 1;
        unique = format!("{plain} ({number})");
    }
    unique
}

#[cfg(test)]
mod tests {
    use super::{entry_name, modified};
    use std::collections::HashSet;
    use std::time::{Duration, UNIX_EPOCH};

    #[test]
    fn names_stay_within_the_folder_and_differ() {
        let mut taken = HashSet::new();
        for (name, expected) in [
            ("a/b.png", "a/b.png"),
            ("..\\..\\x", ".._.._x"),
            ("C:x", "C_x"),
            ("../x", "_/x"),
            ("/etc/x", "_/etc/x"),
            ("a\nb", "a_b"),
            ("a_b", "a_b (2)"),
            ("ü.txt", "ü.txt"),
        ] {
            assert_eq!(entry_name(name, &mut taken), expected);
        }
    }

    #[test]
    fn times_are_kept() {
        let time = modified((UNIX_EPOCH + Duration::from_secs(1_790_000_000)).into()).unwrap();
        assert_eq!((time.year(), time.month(), time.day(), time.hour()), (2026, 9, 21, 14));
        assert_eq!(modified(UNIX_EPOCH.into()), None);
    }
}
