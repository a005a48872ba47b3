//! Valid names of variables.

/// Whether code can use a variable with this name.
pub(super) fn is_variable(name: &str) -> bool {
    const RESERVED: [&str; 46] = [
        "arguments",
        "await",
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
        "extends",
        "false",
        "finally",
        "for",
        "function",
        "if",
        "implements",
        "import",
        "in",
        "instanceof",
        "interface",
        "let",
        "new",
        "null",
        "package",
        "private",
        "protected",
        "public",
        "return",
        "static",
        "super",
        "switch",
        "this",
        "throw",
        "true",
        "try",
        "typeof",
        "var",
        "void",
        "while",
    ];
    let mut letters = name.chars();
    let starts = letters.next().is_some_and(|first| first.is_alphabetic() || first == '_' || first == '$');
    let goes_on = letters.all(|letter| letter.is_alphanumeric() || letter == '_' || letter == '$');
    starts
        && goes_on
        && name.len() <= 100
        && !RESERVED.contains(&name)
        && !["with", "yield", "globalThis"].contains(&name)
}

#[cfg(test)]
mod tests {
    use super::is_variable;

    #[test]
    fn names_are_those_that_code_can_use() {
        for name in ["a", "_b1", "$", "grüße"] {
            assert!(is_variable(name), "{name}");
        }
        for name in ["", "1a", "a-b", "a b", "class", "await", "globalThis", "a\0"] {
            assert!(!is_variable(name), "{name}");
        }
        assert!(!is_variable(&"x".repeat(1000)));
    }
}
