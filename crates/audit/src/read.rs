//! Reads records, without checking their codes.

use crate::AuditError;
use crate::folder::Folder;
use crate::line::MAX_LINE;
use crate::record::Record;
use std::collections::VecDeque;
use std::fs::File;
use std::io::{self, BufRead, BufReader, Read};
use std::time::SystemTime;

/// Which records are meant. A record must match all that is set.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Filter {
    /// The user who caused them, or whose account they are about.
    pub user: Option<String>,
    /// The kind, or its part before the dot.
    pub kind: Option<String>,
    /// The earliest time.
    pub since: Option<SystemTime>,
    /// The execution.
    pub execution: Option<String>,
}

impl Filter {
    fn is_empty(&self) -> bool {
        *self == Self::default()
    }

    fn matches(&self, record: &Record) -> bool {
        let is = |field: &str, wanted: &String| record.fields.get(field).is_some_and(|value| value == wanted.as_str());
        let of_kind = |kind: &String| {
            record.kind == *kind || record.kind.strip_prefix(kind.as_str()).is_some_and(|rest| rest.starts_with('.'))
        };
        self.user.as_ref().is_none_or(|user| record.user.as_ref() == Some(user) || is("account", user))
            && self.kind.as_ref().is_none_or(of_kind)
            && self.since.is_none_or(|since| record.time().is_some_and(|time| time >= since))
            && self.execution.as_ref().is_none_or(|execution| is("execution", execution))
    }
}

/// The lines of a segment. Ends at a line that is too long.
fn lines(segment: File, mut each: impl FnMut(&[u8]) -> io::Result<()>) -> io::Result<()> {
    let mut reader = BufReader::new(segment);
    let mut line = Vec::new();
    loop {
        line.clear();
        (&mut reader).take(MAX_LINE as u64).read_until(b'\n', &mut line)?;
        let Some(text) = line.strip_suffix(b"\n") else { return Ok(()) };
        each(text)?;
    }
}

/// Opens a segment, unless it has been deleted because of its age.
fn open(folder: &Folder, first: u64) -> io::Result<Option<File>> {
    match File::open(folder.segment(first)) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        opened => opened.map(Some),
    }
}

fn segments(folder: &Folder) -> Result<Vec<u64>, AuditError> {
    match folder.segments() {
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            Err(AuditError::NotCreated { folder: folder.path().to_owned() })
        }
        found => found.map_err(folder.read()),
    }
}

pub(crate) fn each(
    folder: &Folder,
    filter: &Filter,
    mut line: impl FnMut(&[u8]) -> io::Result<()>,
) -> Result<(), AuditError> {
    for first in segments(folder)? {
        let Some(segment) = open(folder, first).map_err(folder.read())? else { continue };
        let read = lines(segment, |text| {
            let is_meant = filter.is_empty() || Record::parse(text).is_some_and(|record| filter.matches(&record));
            if is_meant { line(text) } else { Ok(()) }
        });
        read.map_err(folder.read())?;
    }
    Ok(())
}

/// The last records that match, from the end of the log backwards as far as necessary.
pub(crate) fn last(folder: &Folder, filter: &Filter, limit: usize) -> Result<Vec<Record>, AuditError> {
    let mut found: VecDeque<Record> = VecDeque::new();
    for first in segments(folder)?.into_iter().rev() {
        let left = limit - found.len();
        let Some(segment) = open(folder, first).map_err(folder.read())?.filter(|_| left > 0) else { break };
        let mut here = VecDeque::new();
        let mut is_older = false;
        let read = lines(segment, |text| {
            let Some(record) = Record::parse(text) else { return Ok(()) };
            is_older |= filter.since.is_some_and(|since| record.time().is_some_and(|time| time < since));
            if filter.matches(&record) {
                if here.len() == left {
                    here.pop_front();
                }
                here.push_back(record);
            }
            Ok(())
        });
        read.map_err(folder.read())?;
        here.extend(found);
        found = here;
        if is_older {
            break;
        }
    }
    Ok(found.into())
}
