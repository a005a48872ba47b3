//! The head of a log: where it ends.
//!
//! The file has two slots, which are written in turn, so that one is intact if the machine stops while the other is
//! written. The head is written after the records, so the log may be longer than it says. It is not synced with each
//! record: after a crash of the machine it may be older, and says then how far the log certainly was on the disk.

use crate::keys::Keys;
use crate::mark::{Mac, Mark};
use serde::{Deserialize, Serialize};
use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;

pub(crate) const SLOT: usize = 1024;
const FILE: usize = 2 * SLOT;
const CODE_CHARS: usize = 64;

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Head {
    /// Number of times that the head was written.
    pub(crate) generation: u64,
    /// ID of the key.
    pub(crate) key: String,
    /// When the machine was started that wrote the head.
    pub(crate) boot: String,
    /// First record of the last segment.
    pub(crate) segment: u64,
    /// Last record that was written, and the length of the last segment after it.
    pub(crate) written: Mark,
    pub(crate) length: u64,
    /// Last record that is certainly on the disk, and the length of the last segment after it.
    pub(crate) synced: Mark,
    pub(crate) synced_length: u64,
    /// Position before the first record that is kept.
    pub(crate) before: Mark,
}

/// A head that was read.
#[derive(Debug)]
pub(crate) struct Slots {
    pub(crate) head: Head,
    /// Whether the other slot is not intact.
    pub(crate) is_other_damaged: bool,
}

/// Why there is no head.
#[derive(Debug)]
pub(crate) enum NoHead {
    /// Neither slot is intact.
    Damaged,
    /// It was written with another key.
    WrongKey,
    Failed(io::Error),
}

impl Head {
    fn slot(&self, keys: &Keys) -> io::Result<Vec<u8>> {
        let mut bytes = serde_json::to_vec(self)?;
        let code = keys.of_head(&bytes);
        bytes.push(b'\n');
        bytes.extend_from_slice(code.to_string().as_bytes());
        if bytes.len() >= SLOT {
            return Err(io::Error::other("the head of the log is too long"));
        }
        bytes.resize(SLOT - 1, b' ');
        bytes.push(b'\n');
        Ok(bytes)
    }

    fn offset(generation: u64) -> u64 {
        (generation % 2) * SLOT as u64
    }

    /// Writes the next generation. The one before stays in the other slot.
    pub(crate) fn write(&mut self, file: &File, keys: &Keys) -> io::Result<()> {
        let next = Self { generation: self.generation + 1, ..self.clone() };
        file.write_all_at(&next.slot(keys)?, Self::offset(next.generation))?;
        *self = next;
        Ok(())
    }

    /// Reads the newest generation.
    pub(crate) fn read(file: &File, keys: &Keys) -> Result<Slots, NoHead> {
        let mut bytes = [0; FILE];
        match file.read_exact_at(&mut bytes, 0) {
            Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => return Err(NoHead::Damaged),
            read => read.map_err(NoHead::Failed)?,
        }
        let is_exact = file.metadata().map_err(NoHead::Failed)?.len() == FILE as u64;
        let slots = [parse(&bytes[..SLOT], keys, 0), parse(&bytes[SLOT..], keys, 1)];
        let is_other_damaged = !is_exact || slots.iter().any(Result::is_err);
        let wrong_key = slots.iter().any(|slot| matches!(slot, Err(NoHead::WrongKey)));
        match slots.into_iter().flatten().max_by_key(|head| head.generation) {
            Some(head) => Ok(Slots { head, is_other_damaged }),
            None if wrong_key => Err(NoHead::WrongKey),
            None => Err(NoHead::Damaged),
        }
    }
}

/// Parses a slot, of which every byte counts.
fn parse(slot: &[u8], keys: &Keys, parity: u64) -> Result<Head, NoHead> {
    let end = slot.iter().position(|byte| *byte == b'\n').ok_or(NoHead::Damaged)?;
    let (body, rest) = slot.split_at(end);
    let (code, padding) = rest[1..].split_at_checked(CODE_CHARS).ok_or(NoHead::Damaged)?;
    let padding = padding.strip_suffix(b"\n").ok_or(NoHead::Damaged)?;
    let head: Head = serde_json::from_slice(body).map_err(|_| NoHead::Damaged)?;
    if Mac::parse(code) != Some(keys.of_head(body)) {
        return Err(if head.key == keys.id { NoHead::Damaged } else { NoHead::WrongKey });
    }
    let is_right = padding.iter().all(|byte| *byte == b' ') && head.generation % 2 == parity;
    if is_right { Ok(head) } else { Err(NoHead::Damaged) }
}
