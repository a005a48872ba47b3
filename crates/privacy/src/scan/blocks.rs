//! Blocks that start with five hyphens: private keys.

use super::Scan;
use super::view::View;
use crate::kinds::Kind;

/// The longest block that is found as a whole.
pub(super) const BLOCK_MOST: usize = 64 * 1024;
const DASHES: &[u8] = b"-----";
const BEGIN: &[u8] = b"-----BEGIN ";
const END: &[u8] = b"-----END ";
/// The longest label between the hyphens.
const LABEL_MOST: usize = 48;

impl Scan<'_> {
    /// Examines `-----`, and returns where to go on, or nothing if more text is needed.
    pub(super) fn block(&mut self, start: usize) -> Option<usize> {
        let view = self.view;
        if !view.starts_with(start, BEGIN) {
            return Some(view.run(start, 4 * DASHES.len(), |byte| byte == b'-'));
        }
        let label = start + BEGIN.len();
        let label_end = end_of_label(&view, label);
        let is_private = view.slice(label, label_end).windows(11).any(|part| part == b"PRIVATE KEY");
        if !is_private || !view.starts_with(label_end, DASHES) {
            return Some(label_end);
        }
        // Two hyphens in a row end the body, so that no text is read twice: five of them start a block or end one.
        let body = label_end + DASHES.len();
        let bytes = view.slice(body, start + BLOCK_MOST);
        let mut end = body + bytes.windows(2).position(|pair| pair == b"--").unwrap_or(bytes.len());
        let is_cut = end - body >= bytes.len();
        let last_line = END.len() + LABEL_MOST + DASHES.len();
        let may_go_on = if is_cut { view.len() < start + BLOCK_MOST } else { view.len() < end + last_line };
        if may_go_on && !view.is_whole {
            return None;
        }
        if view.starts_with(end, END) {
            let label = end + END.len();
            let after = end_of_label(&view, label);
            end = if view.starts_with(after, DASHES) { after + DASHES.len() } else { after };
        } else {
            end = body_end(&view, body, end);
        }
        while !view.text.is_char_boundary(end) {
            end -= 1;
        }
        self.found(Kind::PrivateKey, start..end, 99);
        Some(end)
    }
}

fn end_of_label(view: &View<'_>, label: usize) -> usize {
    view.run(label, LABEL_MOST, |byte| byte.is_ascii_uppercase() || byte.is_ascii_digit() || byte == b' ')
}

/// The end of the body of a key whose last line is missing: as far as there is nothing but what a key consists of.
fn body_end(view: &View<'_>, body: usize, end: usize) -> usize {
    let is_of_key = |byte: u8| byte.is_ascii_alphanumeric() || b"+/=\r\n\t\\".contains(&byte);
    let mut stop = view.run(body, end - body, is_of_key);
    while stop > body && view.at(stop - 1).is_some_and(|byte| byte.is_ascii_whitespace()) {
        stop -= 1;
    }
    stop
}
