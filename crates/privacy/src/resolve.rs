//! Makes findings that may overlap into findings that do not.
//!
//! Invariant: the result depends on the findings and the text only, never on how the text arrived.

use crate::finding::{Confidence, Finding};
use crate::kinds::Kind;
use std::collections::BTreeSet;
use std::ops::Range;

/// Takes findings in any order and gives them back in order and without overlaps.
///
/// Structured kinds win over names and addresses, whose rest is kept if it has letters or digits. Among equals, the
/// longer finding wins, and then the more likely one.
#[derive(Debug, Default)]
pub(crate) struct Resolver {
    /// Findings by start and end. The order is not that of their arrival, which depends on how the text arrives.
    waiting: BTreeSet<(usize, usize, Kind, Confidence)>,
    /// The last finding that was taken, which may still be replaced.
    last: Option<Finding>,
}

impl Resolver {
    pub(crate) fn add(&mut self, finding: Finding) {
        if !finding.span.is_empty() {
            self.waiting.insert((finding.span.start, finding.span.end, finding.kind, finding.confidence));
        }
    }

    /// The start of the first finding that has not been given back.
    pub(crate) fn first(&self) -> Option<usize> {
        let waiting = self.waiting.first().map(|(start, ..)| *start);
        let last = self.last.as_ref().map(|last| last.span.start);
        waiting.into_iter().chain(last).min()
    }

    /// Moves everything to the left, because the beginning of the text is no longer there.
    pub(crate) fn forget(&mut self, bytes: usize) {
        let moved = std::mem::take(&mut self.waiting);
        self.waiting = moved
            .into_iter()
            .map(|(start, end, kind, confidence)| (start - bytes, end - bytes, kind, confidence))
            .collect();
        if let Some(last) = &mut self.last {
            last.span = last.span.start - bytes..last.span.end - bytes;
        }
    }

    /// Gives back what can no longer change if every further finding starts at `settled` or later. `text` returns the
    /// text of a span.
    pub(crate) fn settle<'a>(
        &mut self,
        settled: usize,
        text: impl Fn(&Range<usize>) -> &'a str,
        out: &mut Vec<Finding>,
    ) {
        while self.waiting.first().is_some_and(|(start, ..)| *start < settled) {
            let Some((start, end, kind, confidence)) = self.waiting.pop_first() else { break };
            self.take(Finding { kind, span: start..end, confidence }, &text, out);
        }
        if let Some(last) = self.last.take_if(|last| last.span.end <= settled) {
            out.push(last);
        }
    }

    fn take<'a>(&mut self, mut next: Finding, text: &impl Fn(&Range<usize>) -> &'a str, out: &mut Vec<Finding>) {
        let Some(last) = &mut self.last else {
            self.last = Some(next);
            return;
        };
        if next.span.start >= last.span.end {
            out.extend(self.last.replace(next));
            return;
        }
        match (is_name(&last.kind), is_name(&next.kind)) {
            (false, true) => {
                let rest = last.span.end..next.span.end.max(last.span.end);
                next.span = trimmed(rest, text);
                self.add(next);
            }
            (true, false) => {
                let mut before = last.clone();
                before.span = trimmed(last.span.start..next.span.start, text);
                let mut after = last.clone();
                after.span = trimmed(next.span.end..last.span.end.max(next.span.end), text);
                if !before.span.is_empty() {
                    out.push(before);
                }
                self.add(after);
                self.last = Some(next);
            }
            _ => {
                let better = (next.span.len(), next.confidence) > (last.span.len(), last.confidence);
                if better {
                    *last = next;
                }
            }
        }
    }
}

fn is_name(kind: &Kind) -> bool {
    matches!(kind, Kind::Person | Kind::Address)
}

/// Removes what is no word at both ends of the rest of a name or address.
fn trimmed<'a>(span: Range<usize>, text: &impl Fn(&Range<usize>) -> &'a str) -> Range<usize> {
    let words = text(&span);
    let left = words.trim_start_matches(|c: char| !c.is_alphanumeric());
    let kept = left.trim_end_matches(|c: char| !c.is_alphanumeric());
    let start = span.start + words.len() - left.len();
    start..start + kept.len()
}

#[cfg(test)]
mod tests {
    use super::Resolver;
    use crate::finding::Finding;
    use crate::kinds::Kind;

    fn resolved(text: &str, findings: &[(Kind, usize, usize, u8)]) -> Vec<(Kind, String)> {
        let mut resolver = Resolver::default();
        for (kind, start, end, confidence) in findings {
            resolver.add(Finding::new(kind.clone(), *start..*end, *confidence));
        }
        let mut out = Vec::new();
        resolver.settle(usize::MAX, |span| &text[span.clone()], &mut out);
        out.into_iter().map(|finding| (finding.kind, text[finding.span].to_owned())).collect()
    }

    #[test]
    fn longer_wins_and_then_the_more_likely() {
        let text = "0123456789";
        assert_eq!(
            resolved(text, &[(Kind::Phone, 0, 4, 90), (Kind::CreditCard, 2, 8, 50)]),
            [(Kind::CreditCard, "234567".into())]
        );
        assert_eq!(
            resolved(text, &[(Kind::Secret, 0, 4, 60), (Kind::ApiKey, 0, 4, 90)]),
            [(Kind::ApiKey, "0123".into())]
        );
    }

    #[test]
    fn structured_kinds_cut_names() {
        let text = "12 Main St, 555-123-4567, Springfield";
        assert_eq!(
            resolved(text, &[(Kind::Address, 0, 37, 60), (Kind::Phone, 12, 24, 80)]),
            [
                (Kind::Address, "12 Main St".into()),
                (Kind::Phone, "555-123-4567".into()),
                (Kind::Address, "Springfield".into())
            ]
        );
        let text = "ann@example.org Smith";
        assert_eq!(
            resolved(text, &[(Kind::Email, 0, 15, 90), (Kind::Person, 4, 21, 60)]),
            [(Kind::Email, "ann@example.org".into()), (Kind::Person, "Smith".into())]
        );
    }
}
