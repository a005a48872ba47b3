//! E-mail addresses, found by their `@`.

use super::Scan;
use crate::kinds::Kind;
use std::ops::Range;

const LOCAL_MOST: usize = 64;
const DOMAIN_MOST: usize = 253;

impl Scan<'_> {
    /// Examines an `@`, and returns where to go on.
    pub(super) fn email(&mut self, at: usize) -> usize {
        if let Some(span) = self.email_around(at) {
            let end = span.end;
            self.found(Kind::Email, span, 95);
            return end;
        }
        at + 1
    }

    fn email_around(&self, at: usize) -> Option<Range<usize>> {
        let view = &self.view;
        let is_local =
            |byte: u8| byte.is_ascii_alphanumeric() || b".!#$%&'*+/=?^_`{|}~-".contains(&byte) || byte >= 0x80;
        let mut start = view.run_back(at, LOCAL_MOST, is_local);
        while !view.text.is_char_boundary(start) {
            start += 1;
        }
        // Signs before an address are rarely a part of it: `'ann@…`, `=ann@…`, `/ann@…`, `{ann@…`.
        let local = view.slice(start, at);
        if let Some(sign) = local.iter().rposition(|byte| b"=?'`{|}/&*!#$^~".contains(byte)) {
            start += sign + 1;
        }
        while view.at(start).is_some_and(|byte| matches!(byte, b'.' | b'-' | b'+' | b'%')) {
            start += 1;
        }
        if view.before(start, 1) == Some(b'\\') && matches!(view.at(start), Some(b'n' | b'r' | b't')) {
            start += 1;
        }
        let local = view.slice(start, at);
        if local.is_empty() || local.last() == Some(&b'.') || local.windows(2).any(|pair| pair == b"..") {
            return None;
        }
        let end = self.domain_end(at + 1)?;
        Some(start..end)
    }

    /// The end of the domain of an address, if there is a valid one.
    fn domain_end(&self, start: usize) -> Option<usize> {
        let view = &self.view;
        let is_domain = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'.' | b'-') || byte >= 0x80;
        let mut end = view.run(start, DOMAIN_MOST, is_domain);
        while !view.text.is_char_boundary(end) {
            end -= 1;
        }
        while end > start && matches!(view.at(end - 1), Some(b'.' | b'-')) {
            end -= 1;
        }
        // Words that follow without a space, such as `ann@example.org。` or `ann@example.org—who`, end the domain.
        let mut domain = view.str(start, end);
        if let Some(sign) = domain.find(|c: char| !c.is_alphanumeric() && c != '.' && c != '-') {
            domain = domain.get(..sign)?.trim_end_matches(['.', '-']);
        }
        let (host, last) = domain.rsplit_once('.')?;
        let is_label =
            |label: &str| !label.is_empty() && label.len() <= 63 && !label.starts_with('-') && !label.ends_with('-');
        let is_top =
            last.chars().count() >= 2 && last.len() <= 24 && last.chars().all(|c| c.is_alphabetic() || c == '-')
                || last.starts_with("xn--");
        (is_top && is_label(last) && host.split('.').all(is_label) && !is_file(last)).then_some(start + domain.len())
    }
}

/// Whether a "domain" is rather the name of a file: `icon@2x.png`.
fn is_file(last: &str) -> bool {
    [
        "png", "jpg", "jpeg", "gif", "svg", "webp", "css", "js", "ts", "json", "html", "py", "rs", "lock", "toml",
        "yaml", "yml", "service",
    ]
    .iter()
    .any(|extension| last.eq_ignore_ascii_case(extension))
}
