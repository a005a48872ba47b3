use crate::detector::Detector;
use crate::finding::Finding;
use crate::resolve::Resolver;
use crate::scan::{AHEAD, BEHIND, State, View};
use std::fmt;

/// How much text is kept before it is worth moving the rest.
const FORGET_LEAST: usize = 16 * 1024;

/// Finds personal data in a text that arrives in pieces.
///
/// The findings are those of [`Detector::find`] for the whole text, however it is cut, with offsets from its start. A
/// finding is reported as soon as nothing that follows can change it. For this, the scanner keeps back some text:
/// usually about 1 KiB, about 6 KiB if there are finders of names or patterns of the operator, and at most 64 KiB while
/// a private key is not finished. These are also the lengths of the longest findings: 64 KiB for private keys, 20 KiB
/// for JSON Web Tokens, 2 KiB for URLs, and 1 KiB for everything else.
pub struct Scanner<'a> {
    detector: &'a Detector,
    text: String,
    /// How many bytes there were before `text`.
    forgotten: usize,
    state: State,
    window: usize,
    resolver: Resolver,
    settled: usize,
    /// The length of `text` from which on it is worth going on.
    worth: usize,
}

impl Detector {
    /// Starts a search of a text that arrives in pieces.
    pub fn scanner(&self) -> Scanner<'_> {
        Scanner::new(self)
    }
}

impl<'a> Scanner<'a> {
    fn new(detector: &'a Detector) -> Self {
        Self {
            detector,
            text: String::new(),
            forgotten: 0,
            state: State::default(),
            window: 0,
            resolver: Resolver::default(),
            settled: 0,
            worth: 0,
        }
    }

    /// Adds a piece of the text, and returns the findings that have become certain, in order.
    pub fn push(&mut self, piece: &str) -> Vec<Finding> {
        self.text.push_str(piece);
        let mut out = Vec::new();
        if self.text.len() >= self.worth {
            self.advance(false, &mut out);
            self.forget();
        }
        out
    }

    /// How many bytes from the start of the text are certain: every finding that starts before has been returned, and
    /// ends before.
    pub fn settled(&self) -> usize {
        self.forgotten + self.settled
    }

    /// Ends the text, and returns the remaining findings.
    pub fn finish(mut self) -> Vec<Finding> {
        let mut out = Vec::new();
        self.advance(true, &mut out);
        out
    }

    fn advance(&mut self, is_whole: bool, out: &mut Vec<Finding>) {
        let view = View { text: &self.text, is_whole };
        let position = self.state.position;
        let mut found = Vec::new();
        self.detector.scan(view, None, &mut self.state, &mut found);
        self.window = self.detector.search_windows(&view, self.window, &mut found);
        for finding in found {
            self.resolver.add(finding);
        }
        let settled = if is_whole { usize::MAX } else { self.state.position.saturating_sub(BEHIND).min(self.window) };
        let first_new = out.len();
        self.resolver.settle(settled, |span| view.str(span.start, span.end), out);
        for finding in out.iter_mut().skip(first_new) {
            finding.span = finding.span.start + self.forgotten..finding.span.end + self.forgotten;
        }
        self.settled = settled.min(self.text.len()).min(self.resolver.first().unwrap_or(usize::MAX));
        while !self.text.is_char_boundary(self.settled) {
            self.settled -= 1;
        }
        // What needs more text is examined again only when there is twice as much of it, so that time stays linear.
        let rest = self.text.len() - self.state.position;
        let is_stuck = self.state.position == position && rest > 2 * AHEAD;
        self.worth = if is_stuck { self.text.len() + rest } else { 0 };
    }

    /// Drops the text that is not needed any more.
    fn forget(&mut self) {
        let windows = self.window.saturating_sub(BEHIND);
        let mut needed = self.state.position.saturating_sub(BEHIND).min(windows).min(self.settled);
        if needed < FORGET_LEAST {
            return;
        }
        while !self.text.is_char_boundary(needed) {
            needed -= 1;
        }
        self.text.drain(..needed);
        self.forgotten += needed;
        self.state.forget(needed);
        self.resolver.forget(needed);
        self.window -= needed;
        self.settled -= needed;
        self.worth = self.worth.saturating_sub(needed);
    }
}

/// Without the text.
impl fmt::Debug for Scanner<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Scanner")
            .field("kept", &self.text.len())
            .field("settled", &self.settled())
            .finish_non_exhaustive()
    }
}
