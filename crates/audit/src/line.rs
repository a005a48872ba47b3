//! Records as lines: `{"seq":…,"time":…,…,"prev":"…","mac":"…"}`.

use crate::entry::Entry;
use crate::keys::Keys;
use crate::mark::{Mac, Mark};
use serde::Serialize;
use std::time::SystemTime;

/// Maximum length of a line, with its line feed. Lines that are written are much shorter.
pub(crate) const MAX_LINE: usize = 8 << 10;

/// What comes before the code, and after it.
const CODE: &[u8] = b",\"mac\":\"";
const CODE_CHARS: usize = 64;
const END: &[u8] = b"\"}";

#[derive(Serialize)]
struct Line<'a> {
    seq: u64,
    time: String,
    #[serde(flatten)]
    entry: &'a Entry,
    prev: Mac,
}

/// Adds a record to `text`, and returns the position after it.
pub(crate) fn write(
    text: &mut Vec<u8>,
    keys: &Keys,
    after: Mark,
    time: SystemTime,
    entry: &Entry,
) -> serde_json::Result<Mark> {
    let begin = text.len();
    let seq = after.seq + 1;
    let time = humantime::format_rfc3339_millis(time).to_string();
    serde_json::to_writer(&mut *text, &Line { seq, time, entry, prev: after.mac })?;
    // The brace at the end comes after the code.
    text.pop();
    let mac = keys.of_record(after.mac, &text[begin..]);
    text.extend_from_slice(CODE);
    text.extend_from_slice(mac.to_string().as_bytes());
    text.extend_from_slice(END);
    text.push(b'\n');
    Ok(Mark { seq, mac })
}

/// Checks a line without its line feed: every byte of it counts. Returns the position after it, if it is the record that
/// follows `after`.
pub(crate) fn check(keys: &Keys, after: Mark, line: &[u8]) -> Option<Mark> {
    let rest = line.strip_suffix(END)?;
    let (rest, code) = rest.split_at_checked(rest.len().checked_sub(CODE_CHARS)?)?;
    let body = rest.strip_suffix(CODE)?;
    let mac = Mac::parse(code)?;
    let seq = after.seq.checked_add(1)?;
    let is_right = keys.of_record(after.mac, body) == mac && body.starts_with(format!("{{\"seq\":{seq},").as_bytes());
    is_right.then_some(Mark { seq, mac })
}

#[cfg(test)]
mod tests {
    use super::{check, write};
    use crate::entry::{Entry, Event};
    use crate::mark::Mark;
    use std::time::SystemTime;

    #[tokio::test]
    async fn a_line_is_accepted_only_unchanged_and_in_its_place() {
        let keys = crate::keys::random().await;
        let entry = Entry::of_operator(Event::LogDropped { records: 7 });
        let mut text = Vec::new();
        let first = write(&mut text, &keys, Mark::START, SystemTime::now(), &entry).unwrap();
        let line = text.strip_suffix(b"\n").unwrap().to_vec();
        assert_eq!(check(&keys, Mark::START, &line), Some(first));
        assert_eq!(check(&keys, first, &line), None);
        let other = crate::keys::random().await;
        assert_eq!(check(&other, Mark::START, &line), None);
        for place in 0..line.len() {
            for bit in 0..8 {
                let mut changed = line.clone();
                changed[place] ^= 1 << bit;
                assert_eq!(check(&keys, Mark::START, &changed), None, "bit {bit} of byte {place}");
            }
            assert_eq!(check(&keys, Mark::START, &line[..place]), None);
        }
    }
}
