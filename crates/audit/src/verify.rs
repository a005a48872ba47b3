//! Checks a log from its first record to its last.

use crate::folder::{Folder, boot_id, segment_name};
use crate::head::{Head, NoHead, Slots};
use crate::keys::Keys;
use crate::line::{self, MAX_LINE};
use crate::mark::Mark;
use crate::patience::retried;
use crate::record::Record;
use crate::writer::while_locked;
use crate::{AuditError, recovery};
use std::fs::File;
use std::io::{self, BufRead, BufReader, Read};
use std::time::Instant;

/// The result of a check.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Report {
    /// Number of records that are intact, from the beginning up to the first problem.
    pub records: u64,
    /// Number of the first record that is kept.
    pub first: u64,
    /// Position of the last intact record.
    pub last: Option<Mark>,
    /// What an operator should know, although it is no problem.
    pub notes: Vec<String>,
    /// What is wrong, if anything is.
    pub problem: Option<Problem>,
}

/// The first thing that is wrong with a log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Problem {
    /// The record that is not as it was written, or is missing.
    pub record: Option<u64>,
    /// The file, and the number of the line.
    pub place: String,
    /// What is wrong.
    pub what: String,
}

impl Report {
    fn fail(mut self, record: Option<u64>, place: impl Into<String>, what: impl Into<String>) -> Self {
        self.problem = Some(Problem { record, place: place.into(), what: what.into() });
        self
    }
}

/// What is to be checked: the files may change later.
struct Snapshot {
    slots: Result<Slots, NoHead>,
    segments: Vec<u64>,
    /// Length of the last segment, and where it really ends.
    end: Option<recovery::End>,
}

fn snapshot(folder: &Folder, keys: &Keys, file: &File) -> Result<Snapshot, AuditError> {
    let slots = Head::read(file, keys);
    let segments = folder.segments().map_err(folder.read())?;
    let mut end = None;
    if let Ok(Slots { head, .. }) = &slots {
        end = match File::open(folder.segment(head.segment)) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => None,
            opened => {
                let segment = opened.map_err(folder.read())?;
                let length = segment.metadata().map_err(folder.read())?.len();
                recovery::end(head, &segment, length, keys).map_err(folder.read())?
            }
        };
    }
    Ok(Snapshot { slots, segments, end })
}

pub(crate) fn verify(
    folder: &Folder,
    keys: &Keys,
    remembered: Option<Mark>,
    expected: &[Mark],
) -> Result<Report, AuditError> {
    let report = Report::default();
    let known = expected.iter().copied().chain(remembered).max_by_key(|mark| mark.seq);
    let file = match File::open(folder.head()) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            let has_segments = folder.segments().is_ok_and(|segments| !segments.is_empty());
            return Ok(match known {
                Some(mark) => report.fail(
                    Some(1),
                    folder.path().display().to_string(),
                    format!("the log is missing: it had at least {} records", mark.seq),
                ),
                None if has_segments => report.fail(None, "head", "the file is missing"),
                None => Report { notes: vec!["there is no audit log yet".to_owned()], ..report },
            });
        }
        opened => opened.map_err(folder.read())?,
    };
    let snapshot = retried(Instant::now(), || while_locked(folder, || snapshot(folder, keys, &file)))?;
    let slots = match snapshot.slots {
        Ok(slots) => slots,
        Err(NoHead::Damaged) => return Ok(report.fail(None, "head", "the file was changed or is damaged")),
        Err(NoHead::WrongKey) => return Err(AuditError::WrongKey { folder: folder.path().to_owned() }),
        Err(NoHead::Failed(error)) => return Err(folder.read()(error)),
    };
    let marks: Vec<Mark> = expected.iter().copied().chain(remembered).collect();
    let check = Check { folder, keys, head: &slots.head, marks: &marks };
    let mut report = check.run(&snapshot.segments, snapshot.end)?;
    if slots.is_other_damaged && report.problem.is_none() {
        let what = "one half of the file was changed or is damaged";
        if slots.head.boot == boot_id() {
            return Ok(report.fail(None, "head", what));
        }
        report.notes.push(format!("head: {what}, perhaps when the machine stopped"));
    }
    Ok(report)
}

struct Check<'a> {
    folder: &'a Folder,
    keys: &'a Keys,
    head: &'a Head,
    /// Positions that the log must contain.
    marks: &'a [Mark],
}

impl Check<'_> {
    fn run(&self, segments: &[u64], end: Option<recovery::End>) -> Result<Report, AuditError> {
        let (head, mut report) = (self.head, Report::default());
        let mut at = head.before;
        report.first = at.seq + 1;
        if let Some(mark) = self.marks.iter().find(|mark| mark.seq == at.seq && **mark != at) {
            return Ok(report.fail(Some(mark.seq), "head", "the record is not the expected one"));
        }
        let unwanted: Vec<_> = segments.iter().filter(|first| **first <= at.seq || **first > head.segment).collect();
        if !unwanted.is_empty() {
            report.notes.push(format!("{} segments are not part of the log: they will be deleted", unwanted.len()));
        }
        for first in segments.iter().filter(|first| **first > head.before.seq && **first <= head.segment) {
            if *first != at.seq + 1 {
                return Ok(report.fail(Some(at.seq + 1), segment_name(at.seq + 1), "the segment is missing"));
            }
            let length = if *first == head.segment {
                match end {
                    Some(end) => end.length,
                    None => head.length,
                }
            } else {
                u64::MAX
            };
            if let Some(failed) = self.segment(*first, length, &mut at, &mut report)? {
                return Ok(failed);
            }
        }
        let last = segment_name(head.segment);
        let Some(end) = end.filter(|end| end.mark == at) else {
            return Ok(report.fail(Some(at.seq + 1), last, format!("records up to {} are missing", head.written.seq)));
        };
        if end.rest > 0 {
            report.notes.push(format!(
                "{last}: {} bytes after the last record are incomplete: a process or the machine stopped",
                end.rest
            ));
        }
        if end.lost_records > 0 {
            let note = format!("{} records were lost when the machine stopped", end.lost_records);
            report.notes.push(note);
        }
        if let Some(mark) = self.marks.iter().filter(|mark| mark.seq > at.seq).max_by_key(|mark| mark.seq) {
            return Ok(report.fail(Some(at.seq + 1), last, format!("records up to {} are missing", mark.seq)));
        }
        let pruned = self.marks.iter().filter(|mark| mark.seq < head.before.seq).count();
        if pruned > 0 {
            report.notes.push(format!("{pruned} known positions are older than the records that are kept"));
        }
        Ok(report)
    }

    /// Checks a segment up to a length. Returns the report if it has a problem.
    fn segment(
        &self,
        first: u64,
        length: u64,
        at: &mut Mark,
        report: &mut Report,
    ) -> Result<Option<Report>, AuditError> {
        let name = segment_name(first);
        let failed = self.folder.read();
        let file = File::open(self.folder.segment(first)).map_err(&failed)?;
        let mut reader = BufReader::new(file.take(length));
        let (mut line, mut number) = (Vec::new(), 0);
        loop {
            line.clear();
            (&mut reader).take(MAX_LINE as u64).read_until(b'\n', &mut line).map_err(&failed)?;
            if line.is_empty() {
                return Ok(None);
            }
            number += 1;
            let place = format!("{name} line {number}");
            let seq = at.seq + 1;
            let checked = line.strip_suffix(b"\n").and_then(|text| line::check(self.keys, *at, text));
            let Some(mark) = checked else {
                let what = "the record was changed, or is not the one that follows";
                return Ok(Some(report.clone().fail(Some(seq), place, what)));
            };
            if self.marks.iter().any(|known| known.seq == mark.seq && *known != mark) {
                return Ok(Some(report.clone().fail(Some(seq), place, "the record is not the expected one")));
            }
            *at = mark;
            report.records += 1;
            report.last = Some(mark);
            self.note(&line, seq, report);
        }
    }

    /// Notes records about the log itself that an operator should know.
    #[expect(clippy::unused_self, reason = "a step of the verification like the others")]
    fn note(&self, line: &[u8], seq: u64, report: &mut Report) {
        let Some(record) = Record::parse(line).filter(|record| record.kind.starts_with("log.")) else { return };
        let what = match record.kind.as_str() {
            "log.recovered" => "the log was repaired after a process or the machine stopped",
            "log.restarted" => "the log replaced one that was missing or damaged",
            "log.dropped" => "records were dropped, because they could not be written for a long time",
            _ => return,
        };
        let fields: Vec<_> = record.fields.iter().map(|(name, value)| format!("{name} {value}")).collect();
        report.notes.push(format!("record {seq}: {what} ({})", fields.join(", ")));
    }
}
