//! URLs, found by their `://`.

use super::Scan;
use super::view::View;
use crate::kinds::Kind;

/// The longest URL that is found as a whole.
pub(super) const URL_MOST: usize = 2_048;
/// The longest user name and password of a URL.
const USER_MOST: usize = 512;

impl Scan<'_> {
    /// Examines the `:` of `://`, and returns where to go on, or nothing if more text is needed.
    pub(super) fn url(&mut self, colon: usize) -> Option<usize> {
        let view = self.view;
        let start = view.run_back(colon, 20, |byte| byte.is_ascii_alphanumeric() || matches!(byte, b'+' | b'-' | b'.'));
        let scheme = view.str(start, colon);
        let rest = colon + 3;
        let skip = scheme.bytes().take_while(|byte| !byte.is_ascii_alphabetic()).count();
        let escaped =
            usize::from(view.before(start, 1) == Some(b'\\') && matches!(view.at(start), Some(b'n' | b'r' | b't')));
        let start = start + skip.max(escaped);
        if colon.saturating_sub(start) < 2 {
            return Some(rest);
        }
        let wants_plain = self.wants(&Kind::Url);
        let authority_end =
            view.run(rest, USER_MOST, |byte| is_of_url(byte) && !matches!(byte, b'/' | b'?' | b'#' | b'@'));
        let user = view.slice(rest, authority_end);
        let has_credentials = view.at(authority_end) == Some(b'@') && is_credentials(user);
        if !has_credentials && !wants_plain {
            return Some(rest);
        }
        let end = view.run(rest, URL_MOST, is_of_url);
        if end == view.len() && end < rest + URL_MOST && !view.is_whole {
            return None;
        }
        let end = sentence_end(&view, rest, end);
        if has_credentials && end > authority_end + 1 {
            self.found(Kind::UrlCredentials, start..end, 95);
            return Some(end);
        }
        if wants_plain && end > rest + 2 {
            self.found(Kind::Url, start..end, 80);
        }
        Some(end.max(rest))
    }
}

/// Whether `user:password` are real: neither part is empty, and the password is no placeholder.
fn is_credentials(user: &[u8]) -> bool {
    let Some(colon) = user.iter().position(|byte| *byte == b':') else { return false };
    let password = user.get(colon + 1..).unwrap_or_default();
    !password.is_empty() && !super::secrets::is_placeholder(password)
}

fn is_of_url(byte: u8) -> bool {
    byte > b' ' && byte != 0x7f && !b"\"'<>`{}|\\^".contains(&byte)
}

/// Leaves out signs of the sentence around a URL.
fn sentence_end(view: &View<'_>, start: usize, end: usize) -> usize {
    let mut end = end;
    while !view.text.is_char_boundary(end) {
        end -= 1;
    }
    let kept = view.str(start, end).trim_end_matches(['.', ',', ';', ':', '!', '?', ')', ']', '*', '_']);
    start + kept.len()
}
