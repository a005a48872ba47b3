//! Calls.

use super::members::{CONSTRUCTOR, last};
use super::{Flow, Use};
use crate::facts::{self, paths};
use crate::program::{Call, Kind};
use crate::report::shown;
use crate::rules::Rule;
use crate::value::{GAP, Value, Values, add, character, join, method};

/// Maximum number of literals with code in each other.
const MAX_LITERALS: usize = 3;

/// Maximum number of bytes of literals with code that are checked.
pub(super) const MAX_LITERAL_BYTES: usize = 1 << 20;

/// Functions that unpack objects, which can run code.
const UNPACKERS: [&str; 8] = [
    "pickle.loads",
    "_pickle.loads",
    "cPickle.loads",
    "dill.loads",
    "cloudpickle.loads",
    "jsonpickle.decode",
    "yaml.unsafe_load",
    "yaml.full_load",
];

impl Flow {
    pub(super) fn call(&mut self, at: usize, call: &Call, used: Use) -> Values {
        let (owners, name, callees) = match &call.callee.kind {
            Kind::Member(object, name) => {
                let owners = self.evaluate(object, Use::Owner);
                let callees = self.member_of(call.callee.at, object, &owners, name, Use::Called);
                (owners, name.as_str(), callees)
            }
            Kind::Name(name) => (Vec::new(), name.as_str(), self.evaluate(&call.callee, Use::Called)),
            _ => (Vec::new(), "", self.evaluate(&call.callee, Use::Called)),
        };
        let mut arguments = Vec::with_capacity(call.arguments.len());
        for argument in &call.arguments {
            let values = self.evaluate(&argument.value, Use::Passed);
            // The elements of what is spread out are not followed.
            let values = if argument.is_spread { vec![Value::Unknown] } else { values };
            // The only names under which the functions below know their first argument.
            match argument.name.as_deref() {
                Some("source" | "name") => arguments.insert(0, values),
                _ => arguments.push(values),
            }
        }
        self.by_name(at, call, &owners, name, &arguments);
        let mut results = Vec::new();
        for callee in &callees {
            let result = match callee {
                Value::Path(path) => self.known(at, path, call, &arguments),
                _ => None,
            };
            if let Some(result) = result {
                add(&mut results, result);
            }
        }
        for owner in &owners {
            if let Some(result) = method(owner, name, &arguments) {
                add(&mut results, result);
            }
        }
        if results.is_empty() {
            results.push(Value::Unknown);
        }
        self.referred(at, &results, used);
        results
    }

    /// Checks that depend on the name of the function only.
    fn by_name(&mut self, at: usize, call: &Call, owners: &Values, name: &str, arguments: &[Values]) {
        let is_known = owners.iter().any(|owner| matches!(owner, Value::Path(path) if path != "*"));
        let is_own = matches!(&call.callee.kind, Kind::Member(object, _)
            if matches!(&object.kind, Kind::Name(name) if name == "self" || name == "this"));
        if !owners.is_empty()
            && !is_known
            && !is_own
            && let Some((name, rule, what)) = facts::find(self.facts.methods, name)
        {
            self.report(at, *rule, format!("{name} {what}"), Some(name));
        }
        if self.facts.opens.contains(&name) {
            for value in arguments.iter().chain([owners]).flatten() {
                let (Value::Text(path) | Value::Partial(path)) = value else { continue };
                if let Some((rule, what)) = paths::file(path) {
                    let path = shown(&path.replace(GAP, "…"));
                    self.report(at, rule, format!("uses {path}: {what}"), None);
                }
            }
        }
    }

    /// A call of something with a known name. Returns its values, if they are known.
    #[expect(clippy::match_same_arms, reason = "each arm is about one family of functions")]
    fn known(&mut self, at: usize, path: &str, call: &Call, arguments: &[Values]) -> Option<Values> {
        let first = arguments.first();
        if self.facts.dynamic.contains(&path) {
            return Some(self.runs(at, path, arguments));
        }
        if path == CONSTRUCTOR {
            let is_text = |value: &Value| matches!(value, Value::Text(_) | Value::Partial(_) | Value::Decoded);
            if !call.is_new || arguments.iter().flatten().any(is_text) {
                let message = "calls a constructor that is found through an object".to_owned();
                self.report(at, Rule::Introspection, message, None);
            }
            return None;
        }
        if self.loops > 0 && self.facts.forks.contains(&path) {
            let message = format!("{} starts processes in a loop without an end", shown(path));
            self.report(at, Rule::Destructive, message, Some(path));
        }
        if self.facts.deletes.contains(&path) {
            let everything = first.into_iter().flatten().find_map(|value| match value {
                Value::Text(path) if paths::is_everything(path) => Some(path),
                _ => None,
            });
            if let Some(folder) = everything {
                self.report(at, Rule::Destructive, format!("deletes everything in {}", shown(folder)), Some(path));
            }
        }
        if self.is_decoder(path) {
            return Some(vec![Value::Decoded]);
        }
        if UNPACKERS.contains(&path) && first.is_some_and(|values| values.iter().any(is_written)) {
            let message = format!("{} unpacks an object that the code contains, which can run code", shown(path));
            self.report(at, Rule::Obfuscation, message, Some(path));
        }
        match path {
            "builtins.getattr" | "globalThis.Reflect.get" | "inspect.getattr_static" => self.get(at, arguments),
            "builtins.__import__"
            | "importlib.import_module"
            | "importlib.__import__"
            | "globalThis.require"
            | "globalThis.import" => Some(self.import_by_name(at, arguments)),
            "builtins.globals" | "builtins.locals" => Some(vec![Value::Path("globals()".to_owned())]),
            "builtins.vars" => Some(match first {
                None => vec![Value::Path("globals()".to_owned())],
                Some(values) => values
                    .iter()
                    .map(|value| match value {
                        Value::Path(module) => Value::Path(format!("{module}.__dict__")),
                        _ => Value::Unknown,
                    })
                    .collect(),
            }),
            "globals().get" | "sys.modules.get" => self.get_from(at, path, arguments),
            "builtins.type" if first.is_some_and(|values| values.contains(&Value::Function)) => {
                Some(vec![Value::Path("types.FunctionType".to_owned())])
            }
            "builtins.load_skill" | "globalThis.load_skill" | "coracle.load_skill" => Some(vec![Value::Trusted]),
            "builtins.chr" | "globalThis.String.fromCharCode" | "globalThis.String.fromCodePoint" => {
                Some(character(arguments))
            }
            "builtins.bytes" | "builtins.bytearray" | "builtins.str" | "globalThis.String" | "builtins.list"
            | "builtins.tuple" | "builtins.reversed" | "io.StringIO" | "io.BytesIO" => Some(converted(first?)),
            "builtins.map" => Some(mapped(arguments)),
            "textwrap.dedent" | "inspect.cleandoc" | "textwrap.indent" => Some(converted(first?)),
            "pathlib.Path"
            | "pathlib.PosixPath"
            | "pathlib.PurePosixPath"
            | "os.path.join"
            | "path.join"
            | "path.resolve" => Some(join(arguments, "/")),
            "operator.attrgetter" | "operator.methodcaller" => {
                let names = first.into_iter().flatten().map(|value| match value {
                    Value::Text(name) => {
                        self.named(at, name);
                        Value::Path(format!("attrgetter().{name}"))
                    }
                    _ => Value::Unknown,
                });
                Some(names.collect())
            }
            "globalThis.setTimeout" | "globalThis.setInterval" | "globalThis.setImmediate" => {
                let is_text = |value: &Value| matches!(value, Value::Text(_) | Value::Partial(_) | Value::Decoded);
                if first.is_some_and(|values| values.iter().any(is_text)) {
                    self.runs(at, path, &arguments[..1]);
                }
                None
            }
            _ => {
                let name = path.strip_prefix("attrgetter().")?;
                let values = self.members(first?, name, false);
                self.referred(at, &values, Use::Called);
                Some(values)
            }
        }
    }

    fn is_decoder(&self, path: &str) -> bool {
        self.facts.decoders.iter().any(|pattern| match pattern.strip_suffix(".*") {
            Some(module) => {
                path.strip_prefix(module).is_some_and(|rest| rest.starts_with('.') && rest.contains("decode"))
            }
            None => path == *pattern,
        })
    }

    /// Code is run from text: allowed if the text is known, and does nothing that is not allowed itself.
    fn runs(&mut self, at: usize, path: &str, arguments: &[Values]) -> Values {
        let function = last(path);
        let is_python = self.facts.globals == "builtins";
        let count = if is_python { 1 } else { arguments.len() };
        let mut is_allowed = true;
        for values in arguments.iter().take(count) {
            for value in values {
                match value {
                    Value::Text(text) => self.literal(at, function, text),
                    Value::Trusted => {}
                    Value::Decoded => {
                        is_allowed = false;
                        let message = format!("{function} runs text that was decoded or decompressed");
                        self.report(at, Rule::Obfuscation, message, Some(function));
                    }
                    // Only texts are run.
                    Value::Number(_) | Value::Function if !is_python => {}
                    _ => {
                        is_allowed = false;
                        let message = format!("{function} runs text that is neither a literal nor from load_skill");
                        self.report(at, Rule::DynamicCode, message, Some(function));
                        break;
                    }
                }
            }
        }
        vec![if is_allowed && function == "compile" { Value::Trusted } else { Value::Unknown }]
    }

    fn literal(&mut self, at: usize, function: &str, text: &str) {
        if !self.is_reporting {
            return;
        }
        if self.literals >= MAX_LITERALS || text.len() > self.literal_bytes {
            let message = format!("{function} runs code that is nested too deeply or too long to be checked");
            self.report(at, Rule::Size, message, None);
            return;
        }
        self.literal_bytes -= text.len();
        let Some(nodes) = (self.parse)(text) else {
            let message = format!("{function} runs text that cannot be parsed");
            self.report(at, Rule::DynamicCode, message, Some(function));
            return;
        };
        let around = self.literal_at;
        self.literal_at = Some(around.unwrap_or(at));
        self.literals += 1;
        self.all(&nodes);
        self.literals -= 1;
        self.literal_at = around;
    }

    /// A member by its name as text.
    fn get(&mut self, at: usize, arguments: &[Values]) -> Option<Values> {
        let (owners, names) = (arguments.first()?, arguments.get(1)?);
        let mut found = Vec::new();
        for name in names {
            if let Value::Text(name) = name {
                self.named(at, name);
                let values = self.members(owners, name, false);
                add(&mut found, values);
            } else {
                if let Some(module) = self.sensitive(owners) {
                    let message = format!("takes a member of {module} by a computed name");
                    self.report(at, Rule::Obfuscation, message, Some(&module));
                }
                add(&mut found, vec![Value::Unknown]);
            }
        }
        Some(found)
    }

    fn get_from(&mut self, at: usize, path: &str, arguments: &[Values]) -> Option<Values> {
        let owner = path.trim_end_matches(".get");
        let arguments = [vec![Value::Path(owner.to_owned())], arguments.first()?.clone()];
        self.get(at, &arguments)
    }

    /// An import of a module by its name as text.
    fn import_by_name(&mut self, at: usize, arguments: &[Values]) -> Values {
        let mut modules = Vec::new();
        for value in arguments.first().into_iter().flatten() {
            if let Value::Text(module) = value {
                self.imported(at, module);
                let outermost = module.split('.').next().unwrap_or_default();
                let outermost = outermost.strip_prefix("node:").unwrap_or(outermost);
                if let Some((name, rule, what)) = facts::find(self.facts.modules, outermost) {
                    self.report(at, *rule, format!("{} {what}", shown(module)), Some(name));
                }
                if module.starts_with("data:") || module.starts_with("http") && module.contains("://") {
                    let message = format!("imports code from {}", shown(module));
                    self.report(at, Rule::DynamicCode, message, None);
                }
                let path = self.normal(module.strip_prefix("node:").unwrap_or(module));
                self.tool_in(at, &path);
                add(&mut modules, vec![Value::Path(path)]);
            } else {
                let message = "imports a module whose name is computed".to_owned();
                self.report(at, Rule::Obfuscation, message, None);
                add(&mut modules, vec![Value::Unknown]);
            }
        }
        modules
    }
}

/// Whether data is part of the code.
fn is_written(value: &Value) -> bool {
    matches!(value, Value::Text(_) | Value::Decoded)
}

/// The text of a value.
fn converted(values: &Values) -> Values {
    let convert = |value: &Value| match value {
        Value::List(elements) if elements.iter().all(|one| matches!(one.as_slice(), [Value::Number(_)])) => {
            character(elements)
        }
        Value::Unknown => vec![Value::Unknown],
        other => vec![other.clone()],
    };
    values.iter().flat_map(convert).collect()
}

/// The results of `map`, if the function is known.
fn mapped(arguments: &[Values]) -> Values {
    match (arguments.first().map(Vec::as_slice), arguments.get(1).map(Vec::as_slice)) {
        (Some([Value::Path(path)]), Some([Value::List(elements)])) if path == "builtins.chr" => {
            vec![Value::list(elements.iter().map(|element| character(std::slice::from_ref(element))))]
        }
        (_, Some([Value::Decoded])) => vec![Value::Decoded],
        _ => vec![Value::Unknown],
    }
}
