//! Names and their values, by the function that binds them.

use crate::value::{Value, Values, add};
use std::collections::{HashMap, HashSet};

/// Maximum number of names of one program whose values are followed.
const MAX_NAMES: usize = 20_000;

/// The place of a function in the code, and the number of literals with code around it.
type Place = (usize, usize);

#[derive(Debug, Default)]
struct Scope {
    names: HashMap<String, Values>,
    outer: HashSet<String>,
}

/// All scopes of a program. They are kept between rounds.
#[derive(Debug, Default)]
pub(super) struct Scopes {
    /// By the place of their function; the outermost one has none.
    all: HashMap<Option<Place>, Scope>,
    /// The scopes around what is evaluated.
    open: Vec<Place>,
    /// Modules of which all names were imported.
    stars: Vec<String>,
    count: usize,
}

impl Scopes {
    pub(super) fn enter(&mut self, at: usize, literals: usize) {
        self.open.push((at, literals));
    }

    pub(super) fn leave(&mut self) {
        self.open.pop();
    }

    /// Says that these names belong to the outermost scope.
    pub(super) fn outer(&mut self, names: &[String]) {
        let scope = self.all.entry(self.open.last().copied()).or_default();
        scope.outer.extend(names.iter().cloned());
    }

    pub(super) fn bind(&mut self, name: &str, values: Values) {
        if self.count >= MAX_NAMES {
            return;
        }
        let own = self.open.last().copied();
        let is_outer = self.all.get(&own).is_some_and(|scope| scope.outer.contains(name));
        let scope = self.all.entry(if is_outer { None } else { own }).or_default();
        let known = scope.names.entry(name.to_owned()).or_insert_with(|| {
            self.count += 1;
            Values::new()
        });
        add(known, values);
    }

    pub(super) fn look_up(&self, name: &str) -> Option<Values> {
        let around = self.open.iter().rev().map(|at| Some(*at)).chain([None]);
        let mut scopes = around.filter_map(|at| self.all.get(&at));
        let found = scopes.find_map(|scope| scope.names.get(name)).cloned();
        // With too many names, this one may not have been followed.
        found.or_else(|| (self.count >= MAX_NAMES).then(|| vec![Value::Unknown]))
    }

    pub(super) fn star(&mut self, module: &str) {
        if self.stars.len() < 8 && !self.stars.iter().any(|known| known == module) {
            self.stars.push(module.to_owned());
        }
    }

    pub(super) fn stars(&self) -> &[String] {
        &self.stars
    }
}
