//! Expressions in CEL, bounded in size and in work, over the facts of a call.

mod bounds;
mod values;

use crate::Groups;
pub(crate) use crate::facts::About;
use bounds::Shape;
use cel::{Context, Env, Program, Value};
use std::collections::BTreeSet;
use std::sync::{Arc, LazyLock};
pub(crate) use values::Subject;
use values::Variable;

/// The maximum length of an expression, in bytes.
pub const MAX_CEL_BYTES: usize = 4 << 10;
/// The maximum number of steps that the loops of an expression may take, at most.
const MAX_STEPS: u64 = 5_000_000;

static ENV: LazyLock<Arc<Env>> = LazyLock::new(|| Arc::new(Env::stdlib()));

/// A compiled expression.
#[derive(Clone, Debug)]
pub(crate) struct Expression {
    program: Arc<Program>,
    variables: BTreeSet<Variable>,
    /// How deeply its loops are nested.
    loops: u32,
    /// How many times as many values as the arguments a list can have, and the number of values in literals.
    growth: (u64, u64),
}

impl Expression {
    /// Compiles an expression. The error says what is wrong with it.
    pub(crate) fn new(text: &str, subject: Subject) -> Result<Self, String> {
        if text.len() > MAX_CEL_BYTES {
            return Err(format!("the expression is {} bytes long: the maximum is {MAX_CEL_BYTES}", text.len()));
        }
        let program = ENV.compile(text).map_err(|errors| {
            let first = errors.errors.first();
            let told = first.map(|error| format!("line {}, column {}: {}", error.pos.0, error.pos.1, error.msg));
            format!("the expression cannot be parsed: {}", told.unwrap_or_default().trim())
        })?;
        let Shape { variables, loops, growth } = Shape::of(program.expression())?;
        let variables = variables.iter().map(|name| {
            Variable::from_name(name, subject).ok_or_else(|| {
                let known: Vec<&str> = Variable::all(subject).iter().map(|variable| variable.name()).collect();
                let known = known.join(", ");
                format!("there is no variable {name}; there are: {known}")
            })
        });
        let variables = variables.collect::<Result<_, _>>()?;
        Ok(Self { program: Arc::new(program), variables, loops, growth })
    }

    /// Whether its value depends on the arguments of a call.
    pub(crate) fn reads_arguments(&self) -> bool {
        self.variables.contains(&Variable::Args)
    }

    /// Evaluates the expression.
    pub(crate) fn evaluate(&self, groups: &Groups, about: About<'_>) -> Result<Value, String> {
        let arguments = if let About::Call(facts) = about { facts.arguments } else { &serde_json::Value::Null };
        if self.loops > 0 && self.steps(arguments).is_none_or(|steps| steps > MAX_STEPS) {
            return Err("the arguments are too large for the loops of the expression".to_owned());
        }
        let mut context = Context::with_env(Arc::clone(&ENV));
        for variable in &self.variables {
            context.add_variable_from_value(variable.name(), variable.value(groups, about));
        }
        self.program.execute(&context).map_err(|error| shortened(&error.to_string()))
    }

    /// The maximum number of steps of the loops, if each of them touches all arguments once.
    fn steps(&self, arguments: &serde_json::Value) -> Option<u64> {
        let (times, more) = self.growth;
        let size = bounds::size(arguments);
        let values = size.values.checked_mul(times)?.checked_add(more)?;
        values.checked_pow(self.loops)?.checked_mul(values.checked_add(size.bytes / 64)?)
    }

    /// Whether the expression is true.
    pub(crate) fn holds(&self, groups: &Groups, about: About<'_>) -> Result<bool, String> {
        match self.evaluate(groups, about)? {
            Value::Bool(truth) => Ok(truth),
            other => Err(format!("its value is not true or false, but of the type {}", other.type_of())),
        }
    }
}

/// Errors of the evaluator may repeat arguments.
fn shortened(message: &str) -> String {
    const MAX_CHARS: usize = 120;
    crate::render::prose(message, MAX_CHARS)
}

#[cfg(test)]
mod tests;
