//! Checks of code, and what becomes of their findings.

use crate::languages::{self, MAX_CODE_BYTES};
use crate::report::{Analysis, Finding, MAX_FINDINGS, Report, Spot, shown};
use crate::rules::{RULES, Rule};
use crate::uses::{Catalogue, Known, ToolUse};
use coracle_types::Language;
use std::collections::HashSet;

/// Maximum number of names that are suggested instead of an unknown one.
const NEAREST: usize = 3;

/// Maximum number of characters of an unknown name that are compared with known names.
const MAX_COMPARED_CHARS: usize = 80;

/// Maximum number of known names that an unknown one is compared with.
const MAX_COMPARED: usize = 2_000;

/// Maximum number of uses of tools that are looked up.
const MAX_USES: usize = 500;

/// What the checks do.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Guardrails {
    /// Whether code is checked at all.
    pub is_enabled: bool,
    /// Whether dangerous code is refused instead of run with a warning.
    pub is_strict: bool,
    /// Rules and names that are not reported: the ID of a rule, a module, a function or a command.
    pub allow: Vec<String>,
    /// Modules that must not be imported, besides those that the rules know.
    pub deny_imports: Vec<String>,
}

/// What a task may do with tools.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Access {
    /// Anything that the policy allows.
    #[default]
    Any,
    /// Tools that are marked as read-only.
    ReadOnly,
}

/// What was found in code before the tools that it uses are looked up.
#[derive(Clone, Debug)]
pub struct Inspection {
    spots: Vec<Spot>,
    uses: Vec<ToolUse>,
    /// Byte offset of the beginning of each line, up to the last one that is needed.
    places: Vec<(usize, Place)>,
}

/// A place in the code.
#[derive(Clone, Copy, Debug, Default)]
struct Place {
    line: usize,
    column: usize,
}

impl Inspection {
    /// Whether the code names tools, which have to be looked up.
    pub fn names_tools(&self) -> bool {
        !self.uses.is_empty()
    }

    /// The names of servers in the code, as it spells them.
    pub fn servers(&self) -> impl Iterator<Item = &str> {
        self.uses.iter().map(|one| one.server.as_str())
    }

    fn place(&self, at: usize) -> Place {
        let found = self.places.binary_search_by_key(&at, |(at, _)| *at);
        found.ok().and_then(|index| self.places.get(index)).map(|(_, place)| *place).unwrap_or_default()
    }
}

impl Guardrails {
    /// Checks code, with the tools that are known.
    pub fn check(&self, language: Language, code: &str, catalogue: &dyn Catalogue, access: Access) -> Report {
        self.judge(&self.inspect(language, code, false), catalogue, access)
    }

    /// Parses code and applies all rules that do not depend on tools. `is_session` means that later code can use its
    /// names.
    pub fn inspect(&self, language: Language, code: &str, is_session: bool) -> Inspection {
        let Analysis { mut spots, mut uses, imports } = if code.len() > MAX_CODE_BYTES {
            let message = format!("the code is {} bytes long: at most {MAX_CODE_BYTES} are checked", code.len());
            Analysis { spots: vec![Spot { at: 0, rule: Rule::Size, message, name: None }], ..Analysis::default() }
        } else {
            languages::analyse(language, code, is_session, 0)
        };
        for (at, module) in imports {
            let is_denied = |denied: &&String| is_within(&module, denied);
            if let Some(denied) = self.deny_imports.iter().find(is_denied) {
                let message = format!("{} is in guardrails.deny_imports", shown(&module));
                spots.push(Spot { at, rule: Rule::Import, message, name: Some(denied.clone()) });
            }
        }
        spots.retain(|spot| !self.allows(spot));
        spots.sort();
        spots.dedup();
        uses.sort_by_key(|one| one.at);
        uses.truncate(MAX_USES);
        let places = places(code, spots.iter().map(|spot| spot.at).chain(uses.iter().map(|one| one.at)));
        Inspection { spots, uses, places }
    }

    fn allows(&self, spot: &Spot) -> bool {
        self.allow
            .iter()
            .any(|allowed| allowed == spot.rule.id() || spot.name.as_ref().is_some_and(|name| is_within(name, allowed)))
    }

    /// Looks up the tools that the code uses, and makes the report.
    pub fn judge(&self, inspection: &Inspection, catalogue: &dyn Catalogue, access: Access) -> Report {
        let mut spots = inspection.spots.clone();
        let mut seen = HashSet::new();
        for one in &inspection.uses {
            if seen.insert((one.server.as_str(), one.tool.as_deref())) {
                spots.extend(of_tool(one, catalogue, access).filter(|spot| !self.allows(spot)));
            }
        }
        spots.sort();
        let mut report = Report::default();
        let mut told = HashSet::new();
        for spot in spots {
            let place = inspection.place(spot.at);
            if !told.insert((place.line, spot.rule, spot.message.clone())) {
                continue;
            }
            if report.findings.len() == MAX_FINDINGS {
                report.left_out += 1;
                continue;
            }
            let description = spot.rule.describe();
            report.findings.push(Finding {
                rule: spot.rule,
                severity: description.severity,
                line: place.line,
                column: place.column,
                message: spot.message,
                hint: description.hint.to_owned(),
                name: spot.name,
            });
        }
        // Dangers are never left out in favour of advice.
        if report.left_out > 0 {
            report.findings.sort_by_key(|finding| std::cmp::Reverse(finding.severity));
        }
        report
    }
}

/// What the catalogue knows about the use of a tool.
fn of_tool(one: &ToolUse, catalogue: &dyn Catalogue, access: Access) -> Option<Spot> {
    let server = shown(&one.server);
    let name = one.tool.as_ref().map(|tool| format!("{server}.{}", shown(tool)));
    let spot = |rule: Rule, message: String| Spot { at: one.at, rule, message, name: name.clone() };
    // Types and the like that a server's module contains.
    let is_tool = one.tool.as_ref().is_none_or(|tool| tool.starts_with(|one: char| one.is_lowercase()));
    if !is_tool {
        return None;
    }
    match catalogue.look_up(&one.server, one.tool.as_deref()) {
        Known::NoServer { all } if !one.is_guarded => {
            let message = format!("there is no server {server}{}", nearest(&one.server, &all));
            Some(spot(Rule::UnknownTool, message))
        }
        Known::NoTool { all } if !one.is_guarded => {
            let tool = one.tool.as_deref().unwrap_or_default();
            let message = format!("server {server} has no tool {}{}", shown(tool), nearest(tool, &all));
            Some(spot(Rule::UnknownTool, message))
        }
        Known::Unlisted { all } if !one.is_guarded => {
            let tool = one.tool.as_deref().unwrap_or_default();
            let message =
                format!("server {server} had no tool {} when it was last used{}", shown(tool), nearest(tool, &all));
            Some(spot(Rule::UnlistedTool, message))
        }
        Known::Tool { is_read_only: false } if access == Access::ReadOnly => {
            let name = name.clone().unwrap_or_default();
            Some(spot(Rule::WriteInReadOnlyTask, format!("{name} is not marked as read-only, and the task only reads")))
        }
        Known::Nothing
        | Known::NoServer { .. }
        | Known::NoTool { .. }
        | Known::Unlisted { .. }
        | Known::Server
        | Known::Tool { .. } => None,
    }
}

fn nearest(name: &str, all: &[String]) -> String {
    let name: String = name.chars().take(MAX_COMPARED_CHARS).collect();
    let compared = all.iter().take(MAX_COMPARED);
    let mut names: Vec<(f64, &String)> = compared.map(|known| (strsim::jaro_winkler(known, &name), known)).collect();
    names.sort_by(|(one, _), (other, _)| other.total_cmp(one));
    let names: Vec<String> = names.into_iter().take(NEAREST).map(|(_, name)| shown(name)).collect();
    if names.is_empty() { String::new() } else { format!("; the nearest are {}", names.join(", ")) }
}

/// Whether a dotted name is this one or within it.
fn is_within(name: &str, outer: &str) -> bool {
    name.strip_prefix(outer).is_some_and(|rest| rest.is_empty() || rest.starts_with('.'))
}

/// Lines and columns of byte offsets.
fn places(code: &str, offsets: impl Iterator<Item = usize>) -> Vec<(usize, Place)> {
    let mut offsets: Vec<usize> = offsets.collect();
    offsets.sort_unstable();
    offsets.dedup();
    let mut places = Vec::with_capacity(offsets.len());
    let mut place = Place { line: 1, column: 1 };
    let mut letters = code.char_indices().peekable();
    for at in offsets {
        while let Some((_, letter)) = letters.next_if(|(index, _)| *index < at) {
            place = match letter {
                '\n' => Place { line: place.line + 1, column: 1 },
                _ => Place { column: place.column + 1, ..place },
            };
        }
        places.push((at, place));
    }
    places
}

impl Guardrails {
    /// Returns the entries of `allow` that are neither a rule nor look like a name.
    pub fn unknown_entries(&self) -> impl Iterator<Item = &str> {
        let is_name = |entry: &str| {
            !entry.is_empty() && entry.chars().all(|one| one.is_alphanumeric() || "._-:/$[]".contains(one))
        };
        let is_known = move |entry: &str| RULES.iter().any(|row| row.id == entry) || is_name(entry);
        self.allow.iter().chain(&self.deny_imports).map(String::as_str).filter(move |entry| !is_known(entry))
    }
}
