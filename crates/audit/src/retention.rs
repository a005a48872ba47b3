//! Which segments are too old to be kept. Only whole segments are deleted.

use crate::folder::Folder;
use crate::line::MAX_LINE;
use crate::mark::{Mac, Mark};
use crate::record::Record;
use serde::Deserialize;
use std::fs::File;
use std::io::{self, BufRead, BufReader, Read};
use std::time::{Duration, SystemTime};

/// Maximum time that a segment is written to, so that a log with few records becomes old too.
const MAX_AGE: Duration = Duration::from_hours(31 * 24);

/// The age at which a segment is closed.
pub(crate) fn segment_age(keep: Option<Duration>) -> Duration {
    keep.unwrap_or(MAX_AGE).min(MAX_AGE)
}

/// The time of the first record of a segment, and the position before it. `None` if it has none.
fn first_of(folder: &Folder, segment: u64) -> io::Result<Option<(SystemTime, Mark)>> {
    #[derive(Deserialize)]
    struct Chained {
        seq: u64,
        prev: Mac,
    }
    let mut line = Vec::new();
    BufReader::new(File::open(folder.segment(segment))?).take(MAX_LINE as u64).read_until(b'\n', &mut line)?;
    let chained = serde_json::from_slice::<Chained>(&line).ok();
    let time = Record::parse(&line).and_then(|record| record.time());
    Ok(time
        .zip(chained)
        .and_then(|(time, chained)| Some((time, Mark { seq: chained.seq.checked_sub(1)?, mac: chained.prev }))))
}

/// The time of the first record of a segment.
pub(crate) fn begun(folder: &Folder, segment: u64) -> io::Result<Option<SystemTime>> {
    Ok(first_of(folder, segment)?.map(|(time, _)| time))
}

/// The position before the first record that has to be kept, if older segments can be deleted: those of which all
/// records are older than `keep`. The last segment is always kept.
pub(crate) fn prunable(folder: &Folder, before: Mark, keep: Duration) -> io::Result<Option<Mark>> {
    let Some(oldest) = SystemTime::now().checked_sub(keep) else { return Ok(None) };
    let mut found = None;
    for segment in folder.segments()?.into_iter().filter(|first| *first > before.seq + 1) {
        match first_of(folder, segment)? {
            Some((time, mark)) if time < oldest => found = Some(mark),
            _ => break,
        }
    }
    Ok(found)
}
