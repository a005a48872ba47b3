//! Tests of what is found as a whole, and of the network against spaCy.

mod hostile;
mod network;
mod rules;
mod samples;

use super::NameFinder;
use crate::Kind;

/// What is found in a text: `P` and `A` with the text of each person and address.
fn found(text: &str) -> Vec<String> {
    let findings = NameFinder::new().find(text);
    let label = |kind: &Kind| if *kind == Kind::Person { "P" } else { "A" };
    findings.iter().map(|finding| format!("{}:{}", label(&finding.kind), &text[finding.span.clone()])).collect()
}
