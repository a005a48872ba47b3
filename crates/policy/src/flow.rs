//! Flow rules: where data came from decides where it may go.
//!
//! Start at [`Flows::decide`], the one place that decides for every [`Sink`]. It is given the servers that code has read
//! from and the personal data in the arguments ([`Cargo`]), and knows nothing of how these are found.
//!
//! - A rule with one source decides about *data of that source*: about arguments of code that has read from it, and about
//!   each recognised value that came from it. Data that goes back to the server that it came from is no flow.
//! - A rule with two sources decides about arguments of code that has read from both. The trifecta rule is one of these.
//!
//! Of the rules that match the same data, the most specific one decides, and of several such rules the strictest. Of all
//! data in a call, the strictest decision counts. Data that no rule matches may go anywhere.

mod cargo;
mod end;
mod rule;
mod verdict;

use crate::labels::ServerLabels;
use crate::names::Spellings;
pub use cargo::{Cargo, Sink, Sources, Valuable};
use coracle_types::{Decision, ServerLabel, ServerName};
pub use end::EndError;
pub use rule::FlowSyntax;
use rule::{Applied, FlowRule};
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;
pub use verdict::{FlowDecision, FlowVerdict};

/// The maximum number of flow rules.
pub const MAX_FLOW_RULES: usize = 1_000;
/// The name of the rule about private and untrusted data.
pub const TRIFECTA: &str = "policy.trifecta";

/// What the trifecta rule says but for its decision.
const TRIFECTA_ENDS: &str = "label:private & label:untrusted -> label:exfil";

/// One flow rule of the configuration.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FlowLine {
    /// The rule.
    pub text: String,
    /// Where it is, for people: a file and a line, or a variable.
    pub origin: String,
}

/// Why flow rules cannot be used. One bad rule rejects all of them.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum FlowsError {
    /// A rule is invalid.
    #[error("{origin}: {error}")]
    Rule {
        /// Where the rule is.
        origin: String,
        /// The error in it.
        error: FlowSyntax,
    },
    /// There are too many rules.
    #[error("there are {count} flow rules: the maximum is {MAX_FLOW_RULES}")]
    TooMany {
        /// The number of rules.
        count: usize,
    },
}

impl FlowsError {
    /// The stable error code.
    pub fn code(&self) -> &'static str {
        match self {
            Self::Rule { error, .. } => error.code(),
            Self::TooMany { .. } => "flows_too_many",
        }
    }

    /// How to fix the error.
    pub fn hint(&self) -> Option<String> {
        match self {
            Self::Rule { error, .. } => error.hint(),
            Self::TooMany { .. } => Some("use patterns and labels".to_owned()),
        }
    }
}

/// What is known about the servers of the configuration.
#[derive(Clone, Debug, Default)]
pub struct KnownServers {
    /// Their labels.
    pub labels: ServerLabels,
    /// The spellings of their names, by name on the wire.
    pub names: HashMap<String, Arc<Spellings>>,
}

/// The flow rules, and the labels of servers.
#[derive(Clone, Debug, Default)]
pub struct Flows {
    rules: Vec<FlowRule>,
    /// The rule about private and untrusted data, unless it is off.
    trifecta: Option<FlowRule>,
    known: KnownServers,
}

impl Flows {
    /// Reads the rules. `trifecta` is the decision about private and untrusted data that goes to a server labelled
    /// `exfil`, and `kinds` are the kinds of personal data that rules may name.
    pub fn new(
        lines: Vec<FlowLine>,
        trifecta: Option<Decision>,
        known: KnownServers,
        kinds: &BTreeSet<String>,
    ) -> Result<Self, FlowsError> {
        if lines.len() > MAX_FLOW_RULES {
            return Err(FlowsError::TooMany { count: lines.len() });
        }
        let read = |FlowLine { text, origin }: FlowLine| {
            FlowRule::parse(&text, &origin, kinds).map_err(|error| FlowsError::Rule { origin, error })
        };
        let rules = lines.into_iter().map(read).collect::<Result<Vec<_>, _>>()?;
        let trifecta = trifecta.filter(|decision| *decision != Decision::Allow).map(|decision| {
            let decision = if decision == Decision::Ask { "ask" } else { "deny" };
            let text = format!("{TRIFECTA_ENDS}: {decision}");
            FlowRule::parse(&text, TRIFECTA, kinds)
                .map_err(|error| FlowsError::Rule { origin: TRIFECTA.to_owned(), error })
        });
        Ok(Self { rules, trifecta: trifecta.transpose()?, known })
    }

    /// The number of rules of the configuration.
    pub fn len(&self) -> usize {
        self.rules.len()
    }

    /// Whether the configuration has no rules.
    pub fn is_empty(&self) -> bool {
        self.rules.is_empty()
    }

    /// The labels of servers.
    pub fn labels(&self) -> &ServerLabels {
        &self.known.labels
    }

    /// Whether any call could be refused or asked about. If not, nobody needs to know where data came from.
    pub fn is_active(&self) -> bool {
        !self.rules.is_empty() || self.can_be_trifecta()
    }

    /// Whether there are servers with labels that the trifecta rule is about. Servers without labels may have tools that
    /// declare to reach out, so one server with private data is enough.
    fn can_be_trifecta(&self) -> bool {
        let has = |label| self.known.labels.servers().any(|(_, labels)| labels.set().contains(&label));
        self.trifecta.is_some() && has(ServerLabel::Private)
    }

    /// Whether rules depend on the source of single values from this server.
    pub fn tells_values_apart(&self, server: &ServerName) -> bool {
        let names = self.spellings(server);
        let labels = self.labels().of(server).map(crate::Labels::set).unwrap_or_default();
        self.rules.iter().any(|rule| rule.second.is_none() && rule.source.is_source(&names, &labels, Decision::Deny))
    }

    /// Whether a rule could be about data that goes there, and whether it matters where single values came from.
    pub fn concerns(&self, sink: &Sink<'_>) -> Concern {
        let labels = self.labels_of(sink);
        let mut about = self.all_rules().filter(|rule| is_sink(rule, sink, &labels)).peekable();
        if about.peek().is_none() {
            Concern::Nothing
        } else if about.any(|rule| rule.second.is_none()) {
            Concern::Values
        } else {
            Concern::Sources
        }
    }

    /// Decides whether this data may go there.
    pub fn decide(&self, cargo: &Cargo, sink: &Sink<'_>) -> FlowDecision {
        if cargo.sources.is_empty() && cargo.valuables.is_empty() {
            return FlowDecision::Allow;
        }
        let labels = self.labels_of(sink);
        let rules: Vec<&FlowRule> = self.all_rules().filter(|rule| is_sink(rule, sink, &labels)).collect();
        if rules.is_empty() {
            return FlowDecision::Allow;
        }
        let mut found = BTreeMap::new();
        let data = cargo.valuables.iter().map(|one| (Some(one.kind.as_str()), &one.sources));
        for (kind, sources) in data.chain([(None, &cargo.sources)]) {
            for (server, then) in sources.iter().filter(|(server, _)| *server != sink.server()) {
                let place = self.place(server, then);
                let single = rules.iter().filter(|rule| rule.second.is_none());
                let about = single.filter(|rule| rule.source.is_source(&place.names, &place.labels, rule.decision));
                if let Some((rule, decision)) = decisive(about, kind) {
                    verdict::note(&mut found, rule, decision, [server], kind, sink);
                }
            }
        }
        if rules.iter().any(|rule| rule.second.is_some()) {
            self.decide_pairs(&rules, cargo, sink, &mut found);
        }
        verdict::strictest(found)
    }

    fn decide_pairs(&self, rules: &[&FlowRule], cargo: &Cargo, sink: &Sink<'_>, found: &mut verdict::Found) {
        let places: Vec<Place<'_>> = cargo.sources.iter().map(|(server, then)| self.place(server, then)).collect();
        for (number, one) in places.iter().enumerate() {
            for other in &places[number..] {
                let matches = |rule: &&&FlowRule| {
                    let Some(second) = &rule.second else { return false };
                    let is =
                        |end: &end::End, place: &Place<'_>| end.is_source(&place.names, &place.labels, rule.decision);
                    let both =
                        (is(&rule.source, one) && is(second, other)) || (is(&rule.source, other) && is(second, one));
                    both && !(rule.origin == TRIFECTA && self.is_mere_guess(one.server, other.server, sink))
                };
                if let Some((rule, decision)) = decisive(rules.iter().filter(matches), None) {
                    verdict::note(found, rule, decision, [one.server, other.server], None, sink);
                }
            }
        }
    }

    /// Whether all that speaks for the trifecta are guesses about one server: its own data, sent back to it.
    fn is_mere_guess(&self, one: &ServerName, other: &ServerName, sink: &Sink<'_>) -> bool {
        one == other && one == sink.server() && !self.labels().is_configured(one)
    }

    fn all_rules(&self) -> impl Iterator<Item = &FlowRule> {
        self.rules.iter().chain(&self.trifecta)
    }

    fn place<'a>(&self, server: &'a ServerName, then: &BTreeSet<ServerLabel>) -> Place<'a> {
        Place { server, names: self.spellings(server), labels: self.labels().of_source(server, then) }
    }

    fn spellings(&self, server: &ServerName) -> Arc<Spellings> {
        let known = self.known.names.get(server.as_str()).map(Arc::clone);
        known.unwrap_or_else(|| Arc::new(Spellings::of_wire(server.as_str())))
    }

    fn labels_of(&self, sink: &Sink<'_>) -> BTreeSet<ServerLabel> {
        match sink {
            Sink::Tool { tool, .. } => self.labels().of_tool(&tool.server, tool.hints),
        }
    }

    /// Rules that name a server which is not in the configuration, with the name.
    pub fn without_server(&self) -> Vec<(FlowLine, String)> {
        let names_none = |end: &end::End| {
            let pattern = end.pattern().filter(|pattern| pattern.names_one_server())?;
            let is_known = self.known.names.values().any(|server| pattern.matches_server(server));
            (!is_known).then(|| end.to_string())
        };
        let mut found = Vec::new();
        for rule in &self.rules {
            let ends = [Some(&rule.source), rule.second.as_ref(), Some(&rule.sink)];
            let missing = ends.into_iter().flatten().filter_map(names_none);
            found.extend(missing.map(|name| (FlowLine { text: rule.text.clone(), origin: rule.origin.clone() }, name)));
        }
        found
    }
}

/// What rules have to know of a call to a sink.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Concern {
    /// No rule is about this sink.
    Nothing,
    /// What the code has read from.
    Sources,
    /// The same, and where the personal data in the arguments came from.
    Values,
}

/// A server that data came from.
struct Place<'a> {
    server: &'a ServerName,
    names: Arc<Spellings>,
    labels: BTreeSet<ServerLabel>,
}

/// The rule that decides about data of this kind, whose source and sink all of these rules match.
fn decisive<'a, 'b: 'a>(
    about: impl Iterator<Item = &'a &'b FlowRule>,
    kind: Option<&str>,
) -> Option<(&'b FlowRule, Decision)> {
    let about: Vec<(&FlowRule, Applied)> = about.filter_map(|rule| Some((*rule, rule.about(kind)?))).collect();
    let most_specific = about
        .iter()
        .filter(|(rule, applied)| !about.iter().any(|(other, of_other)| other.beats(*of_other, rule, *applied)));
    let strictest = most_specific.max_by_key(|(rule, applied)| (applied.decision, std::cmp::Reverse(&rule.text)));
    strictest.map(|(rule, applied)| (*rule, applied.decision))
}

fn is_sink(rule: &FlowRule, sink: &Sink<'_>, labels: &BTreeSet<ServerLabel>) -> bool {
    match sink {
        Sink::Tool { names, .. } => rule.sink.is_sink(names, labels, rule.decision),
    }
}
