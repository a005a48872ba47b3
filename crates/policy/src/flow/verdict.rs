//! What flow rules decide about a call, and how it is told.

use super::cargo::Sink;
use super::rule::FlowRule;
use super::{TRIFECTA, end::End};
use crate::configuration_line::quoted;
use crate::{Pattern, render};
use coracle_types::{Decision, ServerName};
use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

/// The maximum number of servers and kinds that a message names.
const MAX_NAMED: usize = 10;

/// The decision of flow rules about a call.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum FlowDecision {
    /// The data may go there.
    Allow,
    /// A person has to approve for each of these rules.
    Ask(Vec<FlowVerdict>),
    /// The data may not go there.
    Deny(FlowVerdict),
}

/// Why a rule denies a flow, or wants a person to approve it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FlowVerdict {
    /// The rule: its text, or `policy.trifecta`.
    pub rule: String,
    /// Where the rule is, for people.
    pub origin: String,
    /// The servers that the data came from.
    pub sources: BTreeSet<ServerName>,
    /// The kinds of the values, if the rule is about values.
    pub kinds: BTreeSet<String>,
    /// How the configuration would allow it.
    pub hint: String,
}

impl FlowVerdict {
    /// The servers as one text, for names of grants.
    pub fn sources_text(&self) -> String {
        self.sources.iter().map(ServerName::as_str).collect::<Vec<_>>().join(",")
    }
}

/// Completes the sentence "you are asked because …".
impl fmt::Display for FlowVerdict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let sources = listed(self.sources.iter().map(ServerName::as_str));
        if self.kinds.is_empty() {
            write!(f, "the arguments may have data of {sources}, which the code has read from")?;
        } else {
            write!(f, "the arguments have data of {sources} ({})", listed(self.kinds.iter().map(String::as_str)))?;
        }
        if self.rule == TRIFECTA {
            f.write_str(": policy.trifecta")
        } else {
            write!(f, ": flow rule {:?} ({})", render::name(&self.rule), self.origin)
        }
    }
}

/// Names as a list in a sentence.
fn listed<'a>(names: impl Iterator<Item = &'a str>) -> String {
    let names: Vec<&str> = names.collect();
    let more = names.len().saturating_sub(MAX_NAMED);
    let text = names.iter().take(MAX_NAMED).copied().collect::<Vec<_>>().join(", ");
    if more > 0 { format!("{text} and {more} more") } else { text }
}

/// The verdicts that were found, by rule and decision.
pub(super) type Found = BTreeMap<(Decision, String), Noted>;

pub(super) struct Noted {
    rule: FlowRule,
    sources: BTreeSet<ServerName>,
    /// What would have to be allowed: the sources, and the kind of the value.
    flows: BTreeSet<(Vec<ServerName>, Option<String>)>,
    sink: String,
}

/// Notes that a rule does not simply allow a flow.
pub(super) fn note<'a>(
    found: &mut Found,
    rule: &FlowRule,
    decision: Decision,
    sources: impl IntoIterator<Item = &'a ServerName>,
    kind: Option<&str>,
    sink: &Sink<'_>,
) {
    if decision == Decision::Allow {
        return;
    }
    let noted = found.entry((decision, format!("{}\n{}", rule.text, rule.origin))).or_insert_with(|| Noted {
        rule: rule.clone(),
        sources: BTreeSet::new(),
        flows: BTreeSet::new(),
        sink: match sink {
            Sink::Tool { tool, .. } => {
                let exact = Pattern::exactly(tool).as_str().to_owned();
                // A tool can have any name, also one that no rule can be about.
                if End::sink(&exact).is_ok() { exact } else { tool.server.to_string() }
            }
        },
    });
    let sources: Vec<ServerName> = sources.into_iter().cloned().collect();
    noted.sources.extend(sources.iter().cloned());
    noted.flows.insert((sources, kind.map(str::to_owned)));
}

/// The strictest of all that was found.
pub(super) fn strictest(found: Found) -> FlowDecision {
    let mut asked = Vec::new();
    for ((decision, _), noted) in found.into_iter().rev() {
        let verdict = noted.verdict();
        match decision {
            Decision::Deny => return FlowDecision::Deny(verdict),
            Decision::Ask => asked.push(verdict),
            Decision::Allow => {}
        }
    }
    asked.reverse();
    if asked.is_empty() { FlowDecision::Allow } else { FlowDecision::Ask(asked) }
}

impl Noted {
    fn verdict(self) -> FlowVerdict {
        let is_trifecta = self.rule.origin == TRIFECTA;
        let hint = self.hint(is_trifecta);
        FlowVerdict {
            rule: if is_trifecta { TRIFECTA.to_owned() } else { self.rule.text },
            origin: self.rule.origin,
            sources: self.sources,
            kinds: self.flows.into_iter().filter_map(|(_, kind)| kind).collect(),
            hint,
        }
    }

    /// The configuration line that allows the flow, or which rule would have to be changed.
    fn hint(&self, is_trifecta: bool) -> String {
        let is_literal = self.rule.sink.pattern().is_some_and(|sink| sink.as_str() == self.sink)
            && [Some(&self.rule.source), self.rule.second.as_ref()].into_iter().flatten().all(names_one);
        if is_literal && !is_trifecta {
            return format!("change the rule {:?} ({})", render::name(&self.rule.text), self.rule.origin);
        }
        let mut lines: BTreeMap<String, BTreeSet<&str>> = BTreeMap::new();
        for (sources, kind) in &self.flows {
            let sources: Vec<&str> = sources.iter().map(ServerName::as_str).collect();
            lines.entry(sources.join(" & ")).or_default().extend(kind.as_deref());
        }
        let line = |(sources, kinds): (String, BTreeSet<&str>)| {
            let kinds: Vec<&str> = kinds.into_iter().collect();
            let kinds = if kinds.is_empty() { String::new() } else { format!(" [{}]", kinds.join(", ")) };
            quoted(&format!("{sources} -> {}: allow{kinds}", self.sink))
        };
        let lines: Vec<String> = lines.into_iter().take(MAX_NAMED).map(line).collect();
        format!("this configuration line would allow it: policy: {{ flows: [{}] }}", lines.join(", "))
    }
}

fn names_one(end: &End) -> bool {
    end.pattern().is_some_and(Pattern::names_one_server)
}
