//! Follows names and values through a program, and reports what the rules are about.
//!
//! The analysis is a *may* analysis: a name has all values that the program assigns to it anywhere. The program is
//! evaluated a few times, until names that are bound late are known where they are used, and reports in the last round.

mod calls;
mod members;
mod scopes;

use crate::facts::{self, Facts};
use crate::program::{Import, Key, Kind, Node, Target};
use crate::report::{Analysis, Spot, shown};
use crate::rules::Rule;
use crate::uses::ToolUse;
use crate::value::{Value, Values, add, join, reversed};
use scopes::Scopes;

/// Number of rounds. Each resolves one more name that is used before it is bound.
const ROUNDS: usize = 3;

/// Maximum depth of the evaluation. Deeper programs are not checked at all, so this is never reached.
const MAX_DEPTH: usize = 20_000;

/// Maximum work that one program may cause, in values and bytes of texts that are put together. Programs that cause more
/// are too complex to be checked.
const FUEL: usize = 5_000_000;

/// Maximum length of a text that counts as work. Longer ones are not copied.
const MAX_COUNTED: usize = 2 << 10;

/// Maximum length of a dotted path that is followed.
const MAX_PATH: usize = 300;

/// How the value of an expression is used.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Use {
    /// It is called.
    Called,
    /// A name is bound to it, and uses of the name are followed.
    Bound,
    /// One of its members is used.
    Owner,
    /// In any other way.
    Passed,
}

/// Parses source code that the program runs. Returns `None` if it cannot be parsed.
pub(crate) type Parse = fn(&str) -> Option<Vec<Node>>;

/// The state of the analysis.
pub(crate) struct Flow {
    facts: &'static Facts,
    parse: Parse,
    /// Names outlive the code, so that aliases cannot be followed to their uses.
    is_session: bool,
    scopes: Scopes,
    is_reporting: bool,
    depth: usize,
    /// What is left of the work that one program may cause.
    fuel: usize,
    /// Number of literals with code around what is evaluated, and the place of the outermost one.
    literals: usize,
    literal_at: Option<usize>,
    /// Bytes of such literals that may still be parsed.
    literal_bytes: usize,
    guards: usize,
    loops: usize,
    class: bool,
    found: Analysis,
}

impl Flow {
    /// Analyses a program. Returns what was found and the tools that it uses.
    pub(crate) fn run(facts: &'static Facts, parse: Parse, is_session: bool, program: &[Node]) -> Analysis {
        let mut flow = Self {
            facts,
            parse,
            is_session,
            scopes: Scopes::default(),
            is_reporting: false,
            depth: 0,
            fuel: FUEL,
            literals: 0,
            literal_at: None,
            literal_bytes: calls::MAX_LITERAL_BYTES,
            guards: 0,
            loops: 0,
            class: false,
            found: Analysis::default(),
        };
        for round in 1..=ROUNDS {
            flow.is_reporting = round == ROUNDS;
            flow.all(program);
        }
        if flow.fuel == 0 {
            flow.literal_at = None;
            flow.report(0, Rule::Size, "the code is too complex to be checked".to_owned(), None);
        }
        flow.found
    }

    fn report(&mut self, at: usize, rule: Rule, message: String, name: Option<&str>) {
        if self.is_reporting {
            let at = self.literal_at.unwrap_or(at);
            self.found.spots.push(Spot { at, rule, message, name: name.map(str::to_owned) });
        }
    }

    fn uses(&mut self, at: usize, server: &str, tool: Option<&str>) {
        if self.is_reporting {
            let (at, is_guarded) = (self.literal_at.unwrap_or(at), self.guards > 0);
            let (server, tool) = (server.to_owned(), tool.map(str::to_owned));
            self.found.uses.push(ToolUse { at, server, tool, is_guarded });
        }
    }

    fn all(&mut self, nodes: &[Node]) {
        for node in nodes {
            self.evaluate(node, Use::Passed);
        }
    }

    fn evaluate(&mut self, node: &Node, used: Use) -> Values {
        if self.depth >= MAX_DEPTH || self.fuel == 0 {
            self.fuel = 0;
            return vec![Value::Unknown];
        }
        self.depth += 1;
        let values = self.values(node, used);
        self.depth -= 1;
        let work = values.iter().map(|value| match value {
            Value::Text(text) | Value::Partial(text) => text.len().min(MAX_COUNTED),
            Value::List(elements) => elements.len(),
            _ => 1,
        });
        self.fuel = self.fuel.saturating_sub(1 + work.sum::<usize>());
        values
    }

    fn values(&mut self, node: &Node, used: Use) -> Values {
        match &node.kind {
            Kind::Text(text) => vec![Value::text(text)],
            Kind::Number(number) => vec![Value::Number(*number)],
            Kind::Name(name) => {
                self.named(node.at, name);
                let values = self.look_up(name);
                self.referred(node.at, &values, used);
                values
            }
            Kind::Member(object, name) => self.member(node.at, object, name, used),
            Kind::Index(object, key) => self.index(node.at, object, key, used),
            Kind::Reverse(inner) => self.evaluate(inner, Use::Passed).iter().map(reversed).collect(),
            Kind::Call(call) => self.call(node.at, call, used),
            Kind::Join(parts) => {
                let parts: Vec<Values> = parts.iter().map(|part| self.evaluate(part, Use::Passed)).collect();
                match parts.as_slice() {
                    // A formatted text is a text, whatever is in it.
                    [one] => join(&[vec![Value::text("")], one.clone()], ""),
                    parts => join_or_extend(parts),
                }
            }
            Kind::Slash(left, right) => {
                let (left, right) = (self.evaluate(left, Use::Passed), self.evaluate(right, Use::Passed));
                let is_path = left.iter().any(|value| matches!(value, Value::Text(_) | Value::Partial(_)));
                if is_path { join(&[left, right], "/") } else { vec![Value::Unknown] }
            }
            Kind::List(elements) => {
                let elements: Vec<Values> = elements.iter().map(|one| self.evaluate(one, Use::Passed)).collect();
                vec![Value::list(elements.into_iter())]
            }
            Kind::Choice(choices) => {
                let mut values = Vec::new();
                for choice in choices {
                    let more = self.evaluate(choice, used);
                    add(&mut values, more);
                }
                values
            }
            Kind::Sequence(nodes) => {
                let Some((last, others)) = nodes.split_last() else { return vec![Value::Unknown] };
                self.all(others);
                self.evaluate(last, used)
            }
            Kind::Bind(target, value) => self.bind(target, value),
            Kind::Each(target, values) => {
                let values = self.evaluate(values, Use::Passed);
                let mut each = Vec::new();
                for value in values {
                    match value {
                        Value::List(elements) => {
                            for element in elements.iter() {
                                add(&mut each, element.clone());
                            }
                        }
                        _ => drop(add(&mut each, vec![Value::Unknown])),
                    }
                }
                self.assign(target, each);
                vec![Value::Unknown]
            }
            Kind::Unknown(names) => {
                for name in names {
                    self.scopes.bind(name, vec![Value::Unknown]);
                }
                vec![Value::Unknown]
            }
            Kind::Outer(names) => {
                self.scopes.outer(names);
                vec![Value::Unknown]
            }
            Kind::Import(import) => {
                self.import(node.at, import);
                vec![Value::Unknown]
            }
            Kind::Function { parameters, body } => {
                let (was_class, loops) = (std::mem::replace(&mut self.class, false), std::mem::take(&mut self.loops));
                self.scopes.enter(node.at, self.literals);
                for parameter in parameters {
                    self.scopes.bind(parameter, vec![Value::Unknown]);
                }
                self.all(body);
                self.scopes.leave();
                (self.class, self.loops) = (was_class, loops);
                vec![Value::Function]
            }
            Kind::Class { name, body } => {
                if let Some(name) = name {
                    self.scopes.bind(name, vec![Value::Unknown]);
                }
                let was_class = std::mem::replace(&mut self.class, true);
                self.scopes.enter(node.at, self.literals);
                self.all(body);
                self.scopes.leave();
                self.class = was_class;
                vec![Value::Unknown]
            }
            Kind::Forever(body) => {
                self.loops += 1;
                self.all(body);
                self.loops -= 1;
                vec![Value::Unknown]
            }
            Kind::Guarded(body) => {
                self.guards += 1;
                self.all(body);
                self.guards -= 1;
                vec![Value::Unknown]
            }
            Kind::Other(parts) => {
                self.all(parts);
                vec![Value::Unknown]
            }
        }
    }

    fn bind(&mut self, target: &Target, value: &Node) -> Values {
        let is_followed = matches!(target, Target::Name(_) | Target::Parts(_)) && !self.class && !self.is_session;
        let values = self.evaluate(value, if is_followed { Use::Bound } else { Use::Passed });
        if let (true, Target::Name(name)) = (self.is_session, target) {
            self.renamed(value.at, name, &values);
        }
        self.assign(target, values.clone());
        values
    }

    /// In a session, a module with another name could not be recognised later.
    fn renamed(&mut self, at: usize, name: &str, values: &Values) {
        for value in values {
            if let Value::Path(path) = value
                && self.facts.sensitive.contains(&path.as_str())
                && path != name
            {
                let message = format!("{path} gets another name, under which later code of the session could use it");
                self.report(at, Rule::Obfuscation, message, Some(path));
            }
        }
    }

    fn assign(&mut self, target: &Target, values: Values) {
        match target {
            Target::Name(name) => self.scopes.bind(name, values),
            Target::Parts(parts) => {
                for (name, key) in parts {
                    let part = values.iter().flat_map(|value| part_of(value, key)).collect();
                    self.scopes.bind(name, part);
                }
            }
            Target::Place(place) => drop(self.evaluate(place, Use::Passed)),
        }
    }

    fn look_up(&mut self, name: &str) -> Values {
        if let Some(values) = self.scopes.look_up(name) {
            return values;
        }
        let own = self.facts.globals;
        if name == "__builtins__" || name == own {
            return vec![Value::Path(own.to_owned())];
        }
        let is_module = self.facts.globals == "builtins" && self.facts.sensitive.contains(&name);
        if is_module || name == "servers" {
            return vec![Value::Path(name.to_owned())];
        }
        let mut values = vec![Value::Path(format!("{own}.{name}"))];
        values.extend(self.scopes.stars().iter().map(|module| Value::Path(format!("{module}.{name}"))));
        values
    }

    fn import(&mut self, at: usize, import: &Import) {
        if import.is_type {
            return;
        }
        self.imported(at, &import.module);
        let outermost = import.module.split('.').next().unwrap_or_default();
        if let Some((name, rule, what)) = facts::find(self.facts.modules, outermost) {
            let message = format!("{} {what}", shown(&import.spelled));
            self.report(at, *rule, message, Some(name));
        }
        if import.module.starts_with("data:")
            || import.module.starts_with("http:")
            || import.module.starts_with("https:")
        {
            let message = format!("imports code from {}", shown(&import.spelled));
            self.report(at, Rule::DynamicCode, message, None);
        }
        if let Some(server) = import.module.strip_prefix("servers.") {
            let (server, tool) = server.split_once('.').map_or((server, None), |(server, tool)| (server, Some(tool)));
            self.uses(at, server, tool);
        }
        for (name, local) in &import.names {
            let path = self.normal(&format!("{}.{name}", import.module));
            let values = vec![Value::Path(path.clone())];
            self.referred(at, &values, if self.is_session { Use::Passed } else { Use::Bound });
            if self.is_session {
                self.renamed(at, local, &values);
            }
            self.tool_in(at, &path);
            self.scopes.bind(local, values);
        }
        if let Some((local, path)) = &import.whole {
            let values = vec![Value::Path(self.normal(path))];
            if self.is_session {
                self.renamed(at, local, &values);
            }
            self.scopes.bind(local, values);
        }
        if import.is_star {
            self.scopes.star(&import.module);
        }
    }

    fn imported(&mut self, at: usize, module: &str) {
        if self.is_reporting {
            self.found.imports.push((self.literal_at.unwrap_or(at), module.to_owned()));
        }
    }

    /// Records the tool of a server that a path names.
    fn tool_in(&mut self, at: usize, path: &str) {
        let mut parts = path.split('.');
        if parts.next() == Some("servers")
            && let Some(server) = parts.next()
        {
            self.uses(at, server, parts.next());
        }
    }

    /// A module that is reached through another one: `shutil.os` is `os`.
    fn normal(&self, path: &str) -> String {
        const REACHED: [&str; 7] = ["os", "sys", "subprocess", "builtins", "socket", "ctypes", "importlib"];
        let mut parts: Vec<&str> = path.split('.').collect();
        let hidden = |part: &str| REACHED.contains(&part.trim_start_matches('_'));
        if self.facts.globals == "builtins"
            && parts.first().is_some_and(|first| !matches!(*first, "servers" | "builtins"))
            && let Some(index) =
                (1..parts.len()).rev().find(|index| hidden(parts[*index]) && parts[*index] != parts[*index - 1])
        {
            parts.drain(..index);
        }
        let path = parts.join(".");
        if path.len() > MAX_PATH {
            return "_".to_owned();
        }
        if self.facts.globals != "builtins" {
            return path;
        }
        let path = path.trim_start_matches('_');
        match path.strip_prefix("posix.").or_else(|| path.strip_prefix("nt.")) {
            Some(rest) => format!("os.{rest}"),
            None if path == "posix" => "os".to_owned(),
            None if path.is_empty() => "_".to_owned(),
            None => path.to_owned(),
        }
    }
}

/// Lists are put together too.
fn join_or_extend(parts: &[Values]) -> Values {
    if parts.iter().all(|part| matches!(part.as_slice(), [Value::List(_)])) {
        let elements = parts.iter().flatten().flat_map(|part| match part {
            Value::List(elements) => elements.to_vec(),
            _ => Vec::new(),
        });
        return vec![Value::list(elements)];
    }
    join(parts, "")
}

/// The part of a value that a pattern takes.
fn part_of(value: &Value, key: &Key) -> Values {
    match (value, key) {
        (Value::List(elements), Key::Number(index)) => elements.get(*index).cloned().unwrap_or(vec![Value::Unknown]),
        (_, Key::Name(name)) if name == "constructor" => vec![Value::Path(members::CONSTRUCTOR.to_owned())],
        (Value::Path(path), Key::Name(name)) => vec![Value::Path(format!("{path}.{name}"))],
        _ => vec![Value::Unknown],
    }
}
