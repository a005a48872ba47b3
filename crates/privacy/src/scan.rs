//! The pass over a text that finds everything with a structure.
//!
//! The pass stops at characters that may start a finding or are inside one, and examines the text around them. Each
//! examination reads a bounded number of bytes, and its result depends on them alone, so that time is linear and it
//! does not matter how the text arrives. An examination that needs more text is repeated when there is more.

mod banks;
mod blocks;
mod cards;
mod context;
mod crypto;
mod dates;
mod email;
mod identifiers;
mod national;
mod network;
mod numbers;
mod phone;
mod secrets;
mod tokens;
mod urls;
mod view;
mod words;

use crate::finding::Finding;
use crate::kinds::{Kind, Kinds};
use std::ops::Range;

pub use national::countries;

pub(crate) use banks::is_routing;
pub(crate) use cards::is_card;
pub(crate) use context::{Topic, Words};
pub(crate) use dates::is_date;
pub(crate) use identifiers::social_security_kind;
pub(crate) use national::is_national;
pub(crate) use phone::is_phone;
pub(crate) use secrets::is_secret_value;
pub(crate) use view::View;

/// How much of the text before a position its examination may read, in bytes.
pub(crate) const BEHIND: usize = 128;
/// How much of the text after a position its examination may read, except those that ask for more themselves.
pub(crate) const AHEAD: usize = 1_024;

/// Where a pass is.
#[derive(Clone, Debug, Default)]
pub(crate) struct State {
    /// Everything that is found at an earlier position has been reported.
    pub(crate) position: usize,
    /// There is no JSON Web Token that starts earlier.
    no_jwt_before: usize,
    /// The end of the last date.
    last_date: usize,
}

impl State {
    /// Moves everything to the left, because the beginning of the text is no longer there.
    pub(crate) fn forget(&mut self, bytes: usize) {
        self.position -= bytes;
        self.no_jwt_before = self.no_jwt_before.saturating_sub(bytes);
        self.last_date = self.last_date.saturating_sub(bytes);
    }
}

/// A pass over the text that has arrived so far.
pub(crate) struct Scan<'a> {
    pub(crate) view: View<'a>,
    pub(crate) kinds: Kinds,
    /// What the key of the value says that the text is about.
    pub(crate) topic: Option<Topic>,
    pub(crate) state: &'a mut State,
    pub(crate) out: &'a mut Vec<Finding>,
}

impl Scan<'_> {
    /// Goes on until the text ends or more of it is needed.
    pub(crate) fn run(&mut self) {
        let end = self.view.len();
        while self.state.position < end {
            let position = self.state.position;
            let Some(byte) = self.view.at(position) else { break };
            let is_trigger = byte.is_ascii_alphanumeric() || matches!(byte, b'@' | b':' | b'=' | b'-' | b'+' | b'(');
            if !is_trigger {
                self.state.position += 1;
                continue;
            }
            if position + AHEAD > end && !self.view.is_whole {
                break;
            }
            let Some(next) = self.examine(position, byte) else { break };
            debug_assert!(next > position, "no progress");
            self.state.position = next.max(position + 1);
        }
    }

    /// Examines a position, and returns the next one, or nothing if more text is needed.
    fn examine(&mut self, position: usize, byte: u8) -> Option<usize> {
        let after = self.view.at(position + 1);
        Some(match byte {
            b'@' => self.email(position),
            b':' if self.view.starts_with(position, b"://") => self.url(position)?,
            b':' => {
                if after == Some(b':')
                    && let Some(end) = self.ipv6_or_mac(position)
                {
                    return Some(end);
                }
                self.secret(position);
                position + 1
            }
            b'=' => {
                self.secret(position);
                position + 1
            }
            b'-' if self.view.starts_with(position, b"-----") => self.block(position)?,
            b'+' | b'(' if after.is_some_and(|after| after.is_ascii_digit() || after == b'(') => {
                let is_apart = self.view.is_word_start(position) && self.view.before(position, 1) != Some(byte);
                let end = if is_apart { self.number(position) } else { None };
                end.unwrap_or(position + 1)
            }
            byte if byte.is_ascii_alphanumeric() => self.word(position)?,
            _ => position + 1,
        })
    }

    fn found(&mut self, kind: Kind, span: Range<usize>, confidence: u8) {
        if self.wants(&kind) {
            self.out.push(Finding::new(kind, span, confidence));
        }
    }

    fn wants(&self, kind: &Kind) -> bool {
        self.kinds.contains(kind)
    }

    /// Whether the key of the value, or the text shortly before, is about something.
    fn is_about(&self, topic: Topic, start: usize) -> bool {
        self.topic == Some(topic) || topic.is_before(&self.view, start)
    }
}
