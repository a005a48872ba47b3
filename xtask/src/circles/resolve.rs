//! From a path in the source to the module that defines what it names.

use super::modules::{Binding, Import, ModuleId, Modules};

/// Maximum number of re-exports that are followed. Without it, two globs that name each other would be followed forever.
const MAX_STEPS: usize = 16;

/// What a path leads to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Found {
    Module(ModuleId),
    /// An item that this module defines.
    ItemOf(ModuleId),
}

impl Modules {
    /// What `segments` means in `module`; `None` if that is of another crate.
    pub(super) fn resolve(&self, module: ModuleId, segments: &[String]) -> Option<Found> {
        self.follow(module, segments, MAX_STEPS)
    }

    fn follow(&self, module: ModuleId, segments: &[String], steps: usize) -> Option<Found> {
        let steps = steps.checked_sub(1)?;
        let (first, mut rest) = segments.split_first()?;
        let mut found = match first.as_str() {
            "crate" => Found::Module(0),
            "self" => Found::Module(module),
            "super" => Found::Module(self.all[module].parent?),
            name => self.member(module, name, rest.is_empty(), steps)?,
        };
        while let (Found::Module(current), Some((next, others))) = (found, rest.split_first()) {
            found = match next.as_str() {
                "super" => Found::Module(self.all[current].parent?),
                "self" => found,
                // Items that a macro defines are not found. They count as defined in the module that is named.
                name => self.member(current, name, others.is_empty(), steps).unwrap_or(Found::ItemOf(current)),
            };
            rest = others;
        }
        Some(found)
    }

    /// What `name` is in a module. At the end of a path, an item goes before a module of the same name.
    fn member(&self, module: ModuleId, name: &str, is_last: bool, steps: usize) -> Option<Found> {
        let own = &self.all[module];
        let child = own.children.get(name).map(|child| Found::Module(*child));
        let item = own.items.contains(name).then_some(Found::ItemOf(module));
        let imported = || {
            let mut named = own.imports.iter().filter(|import| import.binds == Binding::Name(name.to_owned()));
            named.find_map(|import| self.imported(module, import, name, steps))
        };
        let found = if is_last {
            item.or_else(|| imported().filter(|found| matches!(found, Found::ItemOf(_)))).or(child).or_else(imported)
        } else {
            child.or_else(imported).or(item)
        };
        found.or_else(|| {
            let globs = own.imports.iter().filter(|import| import.binds == Binding::Glob);
            globs.into_iter().find_map(|import| match self.follow(module, &import.path.segments, steps)? {
                Found::Module(other) if other != module => self.member(other, name, is_last, steps.checked_sub(1)?),
                _ => None,
            })
        })
    }

    fn imported(&self, module: ModuleId, import: &Import, name: &str, steps: usize) -> Option<Found> {
        // `use name;` and `use name::…` of another crate bind the name that they begin with.
        let names_itself = import.path.segments.first().is_some_and(|first| first == name);
        if names_itself && !self.all[module].children.contains_key(name) {
            return None;
        }
        self.follow(module, &import.path.segments, steps)
    }
}
