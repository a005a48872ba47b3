use crate::kinds::Kind;
use std::ops::Range;

/// How likely it is that a finding is what its kind says, in percent.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Confidence(pub u8);

/// One piece of personal data in a text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Finding {
    /// What it is.
    pub kind: Kind,
    /// Where it is, in bytes.
    pub span: Range<usize>,
    /// How likely it is.
    pub confidence: Confidence,
}

impl Finding {
    pub(crate) fn new(kind: Kind, span: Range<usize>, confidence: u8) -> Self {
        Self { kind, span, confidence: Confidence(confidence) }
    }

    /// Moves the span to the right.
    pub(crate) fn moved(mut self, bytes: usize) -> Self {
        self.span = self.span.start + bytes..self.span.end + bytes;
        self
    }
}
