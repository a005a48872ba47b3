//! What the languages and their libraries offer that the rules are about.

pub(crate) mod paths;
pub(crate) mod python;
pub(crate) mod typescript;

use crate::rules::Rule;

/// The facts about one language.
#[derive(Debug)]
pub(crate) struct Facts {
    /// The module of names that the program does not bind.
    pub(crate) globals: &'static str,
    /// Functions that run text as code.
    pub(crate) dynamic: &'static [&'static str],
    /// Functions that return decoded or decompressed data.
    pub(crate) decoders: &'static [&'static str],
    /// Functions that must not be used. `.*` at the end stands for all that begin like this.
    pub(crate) functions: &'static [(&'static str, Rule, &'static str)],
    /// Modules that must not be imported.
    pub(crate) modules: &'static [(&'static str, Rule, &'static str)],
    /// Attributes that must not be used, whatever they belong to.
    pub(crate) members: &'static [(&'static str, Rule, &'static str)],
    /// Methods that must not be called, whatever they belong to.
    pub(crate) methods: &'static [(&'static str, Rule, &'static str)],
    /// Modules whose functions have no computed names, and that are found as attributes of other modules.
    pub(crate) sensitive: &'static [&'static str],
    /// Names of functions whose texts are paths of files.
    pub(crate) opens: &'static [&'static str],
    /// Functions that delete a folder with all that is in it.
    pub(crate) deletes: &'static [&'static str],
    /// Functions that start a process.
    pub(crate) forks: &'static [&'static str],
}

/// The entry for a dotted path.
pub(crate) fn find(
    table: &'static [(&'static str, Rule, &'static str)],
    path: &str,
) -> Option<&'static (&'static str, Rule, &'static str)> {
    table.iter().find(|(pattern, _, _)| match pattern.strip_suffix(".*") {
        Some(start) => path == start || path.strip_prefix(start).is_some_and(|rest| rest.starts_with('.')),
        None => path == *pattern,
    })
}
