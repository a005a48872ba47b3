//! The names of a tool: the one on the wire, and the identifier that Coracle uses for it.

use coracle_types::{Tool, is_hidden};
use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use unicode_normalization::UnicodeNormalization as _;

/// Every spelling of one name.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Spellings {
    /// The wire name, and Coracle's identifier unless it is the wire name of another tool.
    exact: Vec<String>,
    /// The wire name, the identifier if no other name had it, and the identifier, folded: without case, invisible
    /// characters or compatibility forms. One of them if all are the same.
    folded: Vec<String>,
    /// Whether no other name has the same spelling after folding.
    unique: bool,
}

/// A name on the wire and the identifiers that Coracle derives from it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Naming<'a> {
    /// The name on the wire.
    pub wire: &'a str,
    /// The identifier if no other name had the same one.
    pub plain: &'a str,
    /// The identifier that Coracle uses.
    pub identifier: &'a str,
}

impl Spellings {
    /// The spellings of a wire name when the other names are not known. Others may have the same spelling.
    pub fn of_wire(wire: &str) -> Self {
        Self { exact: vec![wire.to_owned()], folded: vec![fold(wire)], unique: false }
    }

    /// The spellings of all names of one kind that exist side by side (the tools of a server, or the servers), by wire
    /// name.
    pub fn of_all<'a>(names: impl IntoIterator<Item = Naming<'a>>) -> HashMap<String, Arc<Self>> {
        let names: Vec<Naming<'_>> = names.into_iter().collect();
        let wires: HashSet<&str> = names.iter().map(|name| name.wire).collect();
        let folded: Vec<Vec<String>> = names
            .iter()
            .map(|name| {
                let mut folded: Vec<String> = [name.wire, name.plain, name.identifier].map(fold).into();
                if folded.iter().all(|form| *form == folded[0]) {
                    folded.truncate(1);
                }
                folded
            })
            .collect();
        let mut counts: HashMap<&str, usize> = HashMap::new();
        for of_one in &folded {
            let different: HashSet<&str> = of_one.iter().map(String::as_str).collect();
            for spelling in different {
                *counts.entry(spelling).or_default() += 1;
            }
        }
        let unique: Vec<bool> = folded
            .iter()
            .map(|spellings| spellings.iter().all(|spelling| counts.get(spelling.as_str()) == Some(&1)))
            .collect();
        let all = names.iter().zip(folded).zip(unique).map(|((name, folded), unique)| {
            let mut exact = vec![name.wire.to_owned()];
            if !wires.contains(name.identifier) {
                exact.push(name.identifier.to_owned());
            }
            (name.wire.to_owned(), Arc::new(Self { exact, folded, unique }))
        });
        all.collect()
    }

    pub(crate) fn exact(&self) -> &[String] {
        &self.exact
    }

    pub(crate) fn folded(&self) -> &[String] {
        &self.folded
    }

    /// The name on the wire.
    pub(crate) fn wire(&self) -> &str {
        self.exact.first().map_or("", String::as_str)
    }

    /// The identifier that code uses, or the name on the wire if it is that of another tool.
    pub(crate) fn identifier(&self) -> &str {
        self.exact.last().map_or("", String::as_str)
    }

    /// The folded forms of the wire name, the plain identifier and the identifier.
    pub(crate) fn forms(&self) -> [&str; 3] {
        match self.folded.as_slice() {
            [wire, plain, identifier] => [wire, plain, identifier],
            [only, ..] => [only; 3],
            [] => [""; 3],
        }
    }

    pub(crate) fn is_unique(&self) -> bool {
        self.unique
    }
}

/// The names of a tool and of its server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ToolNames {
    /// The names of the server.
    pub server: Arc<Spellings>,
    /// The names of the tool.
    pub tool: Arc<Spellings>,
}

impl ToolNames {
    /// The names on the wire only, for when the other tools are not known.
    pub fn of_wire(tool: &Tool) -> Self {
        let spellings = |wire: &str| Arc::new(Spellings::of_wire(wire));
        Self { server: spellings(tool.server.as_str()), tool: spellings(&tool.name) }
    }
}

/// Removes case, invisible characters and compatibility forms. Strings that look alike fold to the same string.
pub(crate) fn fold(text: &str) -> String {
    text.nfkc().filter(|c| !is_hidden(*c)).flat_map(char::to_lowercase).nfkc().collect()
}

#[cfg(test)]
mod tests {
    use super::{Naming, Spellings, fold};

    #[test]
    fn names_that_look_alike_fold_to_the_same_text() {
        for twin in ["Delete_All", "delete\u{200b}_all", "\u{feff}DELETE_all", "ｄｅｌｅｔｅ_all", "delete_al\u{ad}l"]
        {
            assert_eq!(fold(twin), "delete_all", "{twin:?}");
        }
        assert_eq!(fold("Löschen"), fold("lo\u{308}schen"));
        assert_ne!(fold("delete-all"), fold("delete_all"));
    }

    #[test]
    fn a_name_is_unique_unless_another_is_spelled_alike() {
        let name = |wire, plain, identifier| Naming { wire, plain, identifier };
        let all = Spellings::of_all([
            name("delete-all", "delete_all", "delete_all_2"),
            name("delete_all", "delete_all", "delete_all"),
            name("read-file", "read_file", "read_file"),
            name("x", "x", "X_2"),
            name("X_2", "X_2", "X_2_2"),
        ]);
        assert!(!all["delete-all"].unique && !all["delete_all"].unique && all["read-file"].unique);
        assert_eq!(all["delete-all"].exact, ["delete-all", "delete_all_2"]);
        assert_eq!(all["read-file"].exact, ["read-file", "read_file"]);
        // The identifier is the wire name of another tool.
        assert_eq!(all["x"].exact, ["x"]);
        assert!(!all["x"].unique);
    }
}
