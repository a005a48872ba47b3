use cel::IdedExpr;
use cel::common::ast::{EntryExpr, Expr, LiteralValue};
use serde_json::Value;
use std::collections::BTreeSet;

/// The operator that makes longer lists.
const ADD: &str = "_+_";

/// Functions and operators that expressions may use: those whose work grows with the size of their arguments only.
const FUNCTIONS: [&str; 13] = [
    "size",
    "contains",
    "startsWith",
    "endsWith",
    "matches",
    "int",
    "uint",
    "double",
    "string",
    "bytes",
    "type",
    "dyn",
    "bool",
];

/// What an expression uses.
pub(super) struct Shape {
    /// Variables that no loop of the expression declares.
    pub(super) variables: BTreeSet<String>,
    /// How deeply its loops are nested.
    pub(super) loops: u32,
    /// How many times as many values as the arguments a list can have, and the number of values in literals.
    pub(super) growth: (u64, u64),
}

impl Shape {
    pub(super) fn of(expression: &IdedExpr) -> Result<Self, String> {
        let mut shape = Self { variables: BTreeSet::new(), loops: 0, growth: (1, 0) };
        shape.visit(&expression.expr, &mut Vec::new(), 0)?;
        Ok(shape)
    }

    fn visit(&mut self, expression: &Expr, declared: &mut Vec<String>, loops: u32) -> Result<(), String> {
        self.loops = self.loops.max(loops);
        match expression {
            Expr::Unspecified | Expr::Literal(_) => {}
            Expr::Ident(name) => {
                if !declared.contains(name) {
                    self.variables.insert(name.clone());
                }
            }
            Expr::Select(select) => self.visit(&select.operand.expr, declared, loops)?,
            Expr::Call(call) => {
                let is_operator = !call.func_name.starts_with(|c: char| c.is_ascii_alphabetic());
                if !is_operator && !FUNCTIONS.contains(&call.func_name.as_str()) {
                    return Err(format!(
                        "there is no function {}; there are: {}",
                        call.func_name,
                        FUNCTIONS.join(", ")
                    ));
                }
                // Others could be expensive to compile, and come from code.
                let pattern = call.args.last().map(|pattern| &pattern.expr);
                if call.func_name == "matches" && !matches!(pattern, Some(Expr::Literal(LiteralValue::String(_)))) {
                    return Err("the pattern of matches must be a literal text".to_owned());
                }
                if call.func_name == ADD {
                    self.growth.0 += 1;
                }
                if let Some(target) = &call.target {
                    self.visit(&target.expr, declared, loops)?;
                }
                for argument in &call.args {
                    self.visit(&argument.expr, declared, loops)?;
                }
            }
            Expr::Comprehension(inner) => {
                self.visit(&inner.iter_range.expr, declared, loops)?;
                self.visit(&inner.accu_init.expr, declared, loops)?;
                let before = declared.len();
                declared.push(inner.iter_var.clone());
                declared.extend(inner.iter_var2.clone());
                declared.push(inner.accu_var.clone());
                for part in [&inner.loop_cond, &inner.loop_step, &inner.result] {
                    self.visit(&part.expr, declared, loops + 1)?;
                }
                declared.truncate(before);
            }
            Expr::List(list) => {
                self.growth.1 += list.elements.len() as u64;
                for element in &list.elements {
                    self.visit(&element.expr, declared, loops)?;
                }
            }
            Expr::Map(map) => {
                self.growth.1 += map.entries.len() as u64;
                for entry in &map.entries {
                    self.entry(&entry.expr, declared, loops)?;
                }
            }
            Expr::Struct(_) => return Err("expressions cannot create messages".to_owned()),
        }
        Ok(())
    }

    fn entry(&mut self, entry: &EntryExpr, declared: &mut Vec<String>, loops: u32) -> Result<(), String> {
        match entry {
            EntryExpr::MapEntry(entry) => {
                self.visit(&entry.key.expr, declared, loops)?;
                self.visit(&entry.value.expr, declared, loops)
            }
            EntryExpr::StructField(field) => self.visit(&field.value.expr, declared, loops),
        }
    }
}

/// The size of arguments.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Size {
    pub(super) values: u64,
    /// The bytes of all texts.
    pub(super) bytes: u64,
}

/// The size of arguments.
pub(super) fn size(value: &Value) -> Size {
    let mut total = Size::default();
    add(value, &mut total);
    total
}

fn add(value: &Value, total: &mut Size) {
    total.values += 1;
    match value {
        Value::String(text) => total.bytes += text.len() as u64,
        Value::Array(items) => items.iter().for_each(|item| add(item, total)),
        Value::Object(entries) => {
            for (key, value) in entries {
                total.bytes += key.len() as u64;
                add(value, total);
            }
        }
        Value::Null | Value::Bool(_) | Value::Number(_) => {}
    }
}
