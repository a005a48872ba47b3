//! Members of objects, and references to functions that the rules are about.

use super::{Flow, Use};
use crate::facts;
use crate::program::{Kind, Node};
use crate::report::shown;
use crate::rules::Rule;
use crate::value::{Value, Values, add};

/// The constructor of something unknown: if it is a function, it runs text as code.
pub(super) const CONSTRUCTOR: &str = "*.constructor";

impl Flow {
    pub(super) fn member(&mut self, at: usize, object: &Node, name: &str, used: Use) -> Values {
        let owners = self.evaluate(object, Use::Owner);
        self.member_of(at, object, &owners, name, used)
    }

    pub(super) fn member_of(&mut self, at: usize, object: &Node, owners: &Values, name: &str, used: Use) -> Values {
        self.named(at, name);
        let is_this = matches!(&object.kind, Kind::Name(name) if matches!(name.as_str(), "this" | "self" | "cls"));
        let is_function = owners.iter().any(|owner| matches!(owner, Value::Function));
        let values = self.members(owners, name, is_this);
        let is_constructor = name == "constructor" && self.facts.globals == "globalThis";
        let is_chain = matches!(&object.kind, Kind::Member(_, inner) if inner == "constructor");
        if is_constructor && (is_chain || is_function && used != Use::Owner) {
            let message = "uses the constructor of a function, which runs text as code".to_owned();
            self.report(at, Rule::Introspection, message, None);
        }
        self.referred(at, &values, used);
        values
    }

    /// The values of a member, for all values of its owner.
    pub(super) fn members(&mut self, owners: &Values, name: &str, is_this: bool) -> Values {
        let mut values = Vec::new();
        for owner in owners {
            let value = match owner {
                _ if name == "constructor" && self.facts.globals == "globalThis" && !is_this => {
                    Value::Path(CONSTRUCTOR.to_owned())
                }
                Value::Path(path) if path.as_str() == self.facts.globals && name == path => Value::Path(path.clone()),
                // `globals()` and `vars()` have the names of the program.
                Value::Path(path) if path == "globals()" => {
                    add(&mut values, self.look_up(name));
                    continue;
                }
                Value::Path(path) if path == "sys.modules" => Value::Path(self.normal(name)),
                Value::Path(path) if path.ends_with(".__dict__") => {
                    let module = path.trim_end_matches(".__dict__");
                    Value::Path(self.normal(&format!("{module}.{name}")))
                }
                Value::Path(path) => Value::Path(self.normal(&format!("{path}.{name}"))),
                Value::Decoded => Value::Decoded,
                Value::Trusted => Value::Trusted,
                _ => Value::Unknown,
            };
            add(&mut values, vec![value]);
        }
        values
    }

    /// Reports an attribute that must not be used, whatever it belongs to.
    pub(super) fn named(&mut self, at: usize, name: &str) {
        if let Some((name, rule, what)) = facts::find(self.facts.members, name) {
            self.report(at, *rule, format!("{name} {what}"), Some(name));
        }
    }

    pub(super) fn index(&mut self, at: usize, object: &Node, key: &Node, used: Use) -> Values {
        if matches!(&object.kind, Kind::List(elements) if elements.is_empty()) {
            let message = "takes a member of an empty list by a computed name".to_owned();
            self.report(at, Rule::Obfuscation, message, None);
        }
        let owners = self.evaluate(object, Use::Owner);
        let keys = self.evaluate(key, Use::Passed);
        let mut values = Vec::new();
        for key in &keys {
            match key {
                Value::Text(name) => {
                    self.named(at, name);
                    let found = self.members(&owners, name, false);
                    if name.as_ref() == "constructor" && used == Use::Called && self.facts.globals == "globalThis" {
                        let message = "calls a constructor by a text".to_owned();
                        self.report(at, Rule::Introspection, message, None);
                    }
                    add(&mut values, found);
                }
                Value::Number(number) => {
                    for owner in &owners {
                        let element = match (owner, usize::try_from(*number)) {
                            (Value::List(elements), Ok(index)) => elements.get(index).cloned(),
                            (Value::Text(text), Ok(index)) => {
                                text.chars().nth(index).map(|one| vec![Value::text(one.to_string())])
                            }
                            _ => None,
                        };
                        add(&mut values, element.unwrap_or(vec![Value::Unknown]));
                    }
                }
                _ => {
                    if let Some(module) = self.sensitive(&owners)
                        && (used == Use::Called || used == Use::Owner || used == Use::Bound)
                    {
                        let message = format!("takes a member of {module} by a computed name");
                        self.report(at, Rule::Obfuscation, message, Some(&module));
                    }
                    let is_trusted = owners.iter().all(|owner| matches!(owner, Value::Trusted));
                    let element = if is_trusted { Value::Trusted } else { Value::Unknown };
                    add(&mut values, vec![element]);
                }
            }
        }
        self.referred(at, &values, used);
        values
    }

    /// The name of a module whose members must not have computed names, if it is one of these values.
    pub(super) fn sensitive(&self, owners: &Values) -> Option<String> {
        owners.iter().find_map(|owner| match owner {
            Value::Path(path) if path == "globals()" => Some(path.clone()),
            Value::Path(path) if path == "sys.modules" => Some(path.clone()),
            Value::Path(path) => {
                let module = path.trim_end_matches(".__dict__");
                self.facts.sensitive.contains(&module).then(|| module.to_owned())
            }
            _ => None,
        })
    }

    /// Reports a reference to something that the rules are about.
    pub(super) fn referred(&mut self, at: usize, values: &Values, used: Use) {
        for value in values {
            let Value::Path(path) = value else { continue };
            if path == "builtins" && self.facts.globals == "builtins" && used != Use::Bound && used != Use::Owner {
                continue;
            }
            if used != Use::Bound || self.class {
                if let Some((_, rule, what)) = facts::find(self.facts.functions, path) {
                    // A module that is only named is not used yet.
                    if used != Use::Owner || *rule == Rule::NoNetwork || path.contains('.') {
                        let is_module = !path.contains('.') && used != Use::Called;
                        if !is_module {
                            self.report(at, *rule, format!("{} {what}", shown(path)), Some(path));
                        }
                    }
                }
                let is_dynamic = self.facts.dynamic.contains(&path.as_str());
                if is_dynamic && used == Use::Passed {
                    let message = format!("{} is passed on, and may run any text", shown(last(path)));
                    self.report(at, Rule::DynamicCode, message, Some(last(path)));
                }
            }
            let owner = path.rsplit_once('.').map_or("", |(owner, _)| owner);
            if self.facts.dynamic.contains(&owner) && used == Use::Called {
                let message = format!("{} runs text in a way that cannot be checked", shown(last(owner)));
                self.report(at, Rule::DynamicCode, message, Some(last(owner)));
            }
            if used != Use::Bound {
                let mut parts = path.split('.');
                if let (Some("servers"), Some(server), Some(tool), None) =
                    (parts.next(), parts.next(), parts.next(), parts.next())
                {
                    self.uses(at, server, Some(tool));
                }
            }
        }
    }
}

/// The last part of a dotted path.
pub(super) fn last(path: &str) -> &str {
    path.rsplit('.').next().unwrap_or(path)
}
