//! Derives identifiers from names on the wire, the same each time.

use std::collections::{BTreeMap, BTreeSet};
use unicode_normalization::UnicodeNormalization as _;

/// The maximum length of an identifier in characters. Identifiers also become file names.
pub(crate) const NAME_CHARS: usize = 60;

/// Keywords of Python, in ASCII order.
const PYTHON_KEYWORDS: &[&str] = &[
    "False", "None", "True", "and", "as", "assert", "async", "await", "break", "class", "continue", "def", "del",
    "elif", "else", "except", "finally", "for", "from", "global", "if", "import", "in", "is", "lambda", "nonlocal",
    "not", "or", "pass", "raise", "return", "try", "while", "with", "yield",
];

/// Names that TypeScript does not accept for a function in a module.
const TYPESCRIPT_KEYWORDS: &[&str] = &[
    "any",
    "arguments",
    "await",
    "boolean",
    "break",
    "case",
    "catch",
    "class",
    "const",
    "continue",
    "debugger",
    "default",
    "delete",
    "do",
    "else",
    "enum",
    "eval",
    "export",
    "exports",
    "extends",
    "false",
    "finally",
    "for",
    "function",
    "globalThis",
    "if",
    "implements",
    "import",
    "in",
    "instanceof",
    "interface",
    "let",
    "module",
    "new",
    "null",
    "number",
    "package",
    "private",
    "protected",
    "public",
    "require",
    "return",
    "static",
    "string",
    "super",
    "switch",
    "this",
    "throw",
    "true",
    "try",
    "typeof",
    "undefined",
    "unknown",
    "var",
    "void",
    "while",
    "with",
    "yield",
];

/// Names that generated files use. A tool with the same name would change their meaning.
const USED: &[&str] = &[
    "Any",
    "Arguments",
    "Array",
    "Literal",
    "NotRequired",
    "Promise",
    "Record",
    "Result",
    "TYPE_CHECKING",
    "TypedDict",
    "UNSET",
    "annotations",
    "arguments",
    "bool",
    "call",
    "coracle",
    "dict",
    "float",
    "int",
    "list",
    "object",
    "offer",
    "str",
    "tool",
    "tuple",
];

/// Files beside the tools of a server. Compared ignoring case, because some file systems do so.
const FILES: &[&str] = &["__init__", "index", "readme", "tools"];

/// Letters that Python since 3.10 and every JavaScript engine accept: blocks that were complete long before both.
const LETTERS: &[(char, char)] = &[
    ('\u{c0}', '\u{24f}'),
    ('\u{386}', '\u{3ce}'),
    ('\u{400}', '\u{481}'),
    ('\u{48a}', '\u{4ff}'),
    ('\u{5d0}', '\u{5ea}'),
    ('\u{620}', '\u{64a}'),
    ('\u{904}', '\u{939}'),
    ('\u{e01}', '\u{e30}'),
    ('\u{3041}', '\u{3096}'),
    ('\u{30a1}', '\u{30fa}'),
    ('\u{4e00}', '\u{9fa5}'),
    ('\u{ac00}', '\u{d7a3}'),
];

/// What a name is for, which determines the names that are not allowed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Place {
    /// A parameter of a Python function.
    Parameter,
    /// A type in a generated module.
    Type,
    /// A tool: a function in both languages, and two files.
    Tool,
    /// A server: a package and a folder.
    Server,
}

impl Place {
    fn forbids(self, name: &str) -> bool {
        let is_keyword = PYTHON_KEYWORDS.contains(&name);
        match self {
            // The body of a function calls `arguments`; the catch-all parameter is `more`.
            Self::Parameter => is_keyword || name == "arguments" || name == "more" || name == "self",
            Self::Type => is_keyword || TYPESCRIPT_KEYWORDS.contains(&name) || USED.contains(&name),
            Self::Tool => {
                is_keyword
                    || TYPESCRIPT_KEYWORDS.contains(&name)
                    || USED.contains(&name)
                    || FILES.contains(&name.to_lowercase().as_str())
            }
            // A folder among other folders, imported below `servers`: TypeScript accepts any name in a path.
            Self::Server => is_keyword,
        }
    }

    /// Folds case where two names that differ only in case could be the same file.
    fn folded(self, name: &str) -> String {
        if self == Self::Parameter { name.to_owned() } else { name.to_lowercase() }
    }

    fn fallback(self) -> &'static str {
        match self {
            Self::Parameter => "argument",
            Self::Type => "Item",
            Self::Tool => "unnamed",
            Self::Server => "server",
        }
    }
}

/// Whether Python and JavaScript both accept this character inside a name, unchanged.
fn continues(letter: char) -> bool {
    letter.is_ascii_alphanumeric()
        || letter == '_'
        || LETTERS.iter().any(|(first, last)| (*first..=*last).contains(&letter))
            && unicode_ident::is_xid_start(letter)
            && std::iter::once(letter).nfkc().eq([letter])
}

/// The identifier for `wire` if there were no other names.
pub(crate) fn identifier(wire: &str, place: Place) -> String {
    let mut name = String::new();
    let mut length = 0;
    // Normalised as Python does it, because Python would treat two spellings as one name. The head is enough, because
    // normalising does not make text shorter.
    let head: String = wire.chars().take(4 * NAME_CHARS).collect();
    for letter in head.nfkc() {
        if length == NAME_CHARS {
            break;
        }
        if continues(letter) {
            name.push(letter);
            length += 1;
        } else if !name.is_empty() && !name.ends_with('_') {
            name.push('_');
            length += 1;
        }
    }
    if !wire.ends_with('_') {
        name.truncate(name.trim_end_matches('_').len());
    }
    // Two leading underscores are mangled in classes, and mean "positional only" to type checkers.
    while name.starts_with("__") {
        name.remove(0);
    }
    if name.is_empty() || name == "_" {
        place.fallback().clone_into(&mut name);
    }
    if name.starts_with(|first: char| first.is_ascii_digit()) {
        name.insert(0, '_');
    }
    if place.forbids(&name) {
        name.push('_');
    }
    name
}

/// The package of a server in generated code (`from servers.PACKAGE import …`), unless another server has the name.
pub fn package_name(server: &str) -> String {
    identifier(server, Place::Server)
}

/// Converts the name of a property or a definition to `UpperCamel`.
pub(crate) fn type_name(hint: &str) -> String {
    let plain = identifier(hint, Place::Type);
    let mut name = String::new();
    for word in plain.split('_').filter(|word| !word.is_empty()) {
        let mut letters = word.chars();
        if let Some(first) = letters.next() {
            name.extend(first.to_uppercase().filter(|upper| continues(*upper)));
            name.push_str(letters.as_str());
        }
    }
    identifier(&name, Place::Type)
}

/// Names that are already used in one scope.
#[derive(Debug, Default)]
pub(crate) struct Names {
    taken: BTreeSet<String>,
}

impl Names {
    /// `name`, or `name_2`, `name_3` and so on if it is already used.
    pub(crate) fn take(&mut self, name: &str, place: Place) -> String {
        let mut candidate = name.to_owned();
        let mut count = 1_usize;
        while place.forbids(&candidate) || !self.taken.insert(place.folded(&candidate)) {
            count += 1;
            candidate = format!("{name}_{count}");
        }
        candidate
    }
}

/// Assigns a different name to each of `wires`, whatever their order.
///
/// A wire name that is already a good identifier keeps it. The others follow in the order of their wire names.
pub(crate) fn assign<'a>(
    wires: impl IntoIterator<Item = &'a str>,
    place: Place,
    names: &mut Names,
) -> BTreeMap<&'a str, String> {
    let wires: BTreeSet<&str> = wires.into_iter().collect();
    let (mut good, mut other) = (Vec::new(), Vec::new());
    for wire in wires {
        let name = identifier(wire, place);
        if name == wire { good.push((wire, name)) } else { other.push((wire, name)) }
    }
    good.into_iter().chain(other).map(|(wire, name)| (wire, names.take(&name, place))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn invalid_identifiers_are_converted() {
        let cases = [
            ("list_issues", "list_issues"),
            ("getEnv", "getEnv"),
            ("class", "class_"),
            ("foo-bar", "foo_bar"),
            ("a..b//c", "a_b_c"),
            ("../../x", "x"),
            ("2fa", "_2fa"),
            ("", "argument"),
            ("--", "argument"),
            ("__proto__", "_proto__"),
            ("ﬁle", "file"),
            ("名前", "名前"),
            ("größe", "größe"),
            ("a\u{0}b\n", "a_b"),
            ("x_", "x_"),
            ("arguments", "arguments_"),
        ];
        for (wire, name) in cases {
            assert_eq!(identifier(wire, Place::Parameter), name, "{wire:?}");
        }
    }

    #[test]
    fn tools_do_not_take_names_that_generated_files_need() {
        for wire in ["delete", "index", "Index", "list", "TypedDict", "None", "README"] {
            assert_eq!(identifier(wire, Place::Tool), format!("{wire}_"));
        }
        assert_eq!(identifier("search", Place::Tool), "search");
    }

    #[test]
    fn servers_may_have_names_that_tools_may_not() {
        for name in ["tools", "index", "list", "call", "coracle", "servers", "skills", "delete", "help", "json"] {
            assert_eq!(package_name(name), name);
        }
        for (name, package) in [("class", "class_"), ("import", "import_"), ("my-server", "my_server"), ("2fa", "_2fa")]
        {
            assert_eq!(package_name(name), package);
        }
    }

    #[test]
    fn clashes_get_numbers_that_do_not_depend_on_order() {
        let mut wires = ["a-b", "a.b", "a_b", "A_B", "a_b_2"];
        let first = assign(wires.iter().copied(), Place::Tool, &mut Names::default());
        wires.reverse();
        assert_eq!(first, assign(wires.iter().copied(), Place::Tool, &mut Names::default()));
        assert_eq!(
            first,
            BTreeMap::from([
                ("A_B", "A_B".to_owned()),
                ("a_b", "a_b_2".to_owned()),
                ("a_b_2", "a_b_2_2".to_owned()),
                ("a-b", "a_b_3".to_owned()),
                ("a.b", "a_b_4".to_owned()),
            ])
        );
    }

    #[test]
    fn parameters_differ_by_case_and_tools_do_not() {
        let parameters = assign(["x", "X"], Place::Parameter, &mut Names::default());
        assert_eq!((&*parameters["x"], &*parameters["X"]), ("x", "X"));
        let tools = assign(["x", "X"], Place::Tool, &mut Names::default());
        assert_eq!((&*tools["X"], &*tools["x"]), ("X", "x_2"));
    }

    #[test]
    fn types_are_upper_camel() {
        for (hint, name) in [("filter", "Filter"), ("pull_request", "PullRequest"), ("any", "Any_"), ("1x", "_1x")] {
            assert_eq!(type_name(hint), name);
        }
    }
}
