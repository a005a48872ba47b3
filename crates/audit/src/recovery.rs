//! The end of a log after a process or the machine has stopped: what is intact is kept, and what is missing without
//! an explanation is an error.

use crate::folder::boot_id;
use crate::head::Head;
use crate::keys::Keys;
use crate::line;
use crate::mark::Mark;
use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;

/// Maximum length of what is searched for records after the end that the head knows. Nobody writes that much between two
/// heads.
const MAX_REST: u64 = 64 << 20;

/// Where a log really ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct End {
    pub(crate) mark: Mark,
    /// Length of the last segment up to there.
    pub(crate) length: u64,
    /// Number of records that the head knows and that are gone. They were not acknowledged as durable.
    pub(crate) lost_records: u64,
    /// Length of the incomplete or unreadable rest.
    pub(crate) rest: u64,
}

/// Finds the end of the last segment, which is `length` bytes long. `None` if records are missing and no crash of the
/// machine explains it.
pub(crate) fn end(head: &Head, segment: &File, length: u64, keys: &Keys) -> io::Result<Option<End>> {
    // While the machine runs, what was written is there. After a crash of it, only what was synced is.
    let is_same_boot = head.boot == boot_id() && !head.boot.is_empty();
    let (mark, start) = if is_same_boot { (head.written, head.length) } else { (head.synced, head.synced_length) };
    if length < start {
        return Ok(None);
    }
    if is_same_boot && length == start {
        return Ok(Some(End { mark, length, lost_records: 0, rest: 0 }));
    }
    let mut bytes = vec![0; usize::try_from((length - start).min(MAX_REST)).map_err(io::Error::other)?];
    segment.read_exact_at(&mut bytes, start)?;
    let mut end = End { mark, length: start, lost_records: 0, rest: 0 };
    for text in bytes.split_inclusive(|byte| *byte == b'\n') {
        let next = text.strip_suffix(b"\n").and_then(|text| line::check(keys, end.mark, text));
        let Some(next) = next else { break };
        end.mark = next;
        end.length += text.len() as u64;
    }
    end.rest = length - end.length;
    end.lost_records = head.written.seq.saturating_sub(end.mark.seq);
    Ok(Some(end))
}
