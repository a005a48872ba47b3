//! Expands `${VAR}` in the entries of servers and model providers.

/// The maximum length of an expanded text.
const MAX_EXPANDED: usize = 1 << 20;

/// Why a text cannot be expanded.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum ExpandError {
    /// A variable is not set and has no default.
    Missing(String),
    /// A reference is malformed.
    Malformed,
    /// The expanded text is too long.
    TooLong,
}

/// The variables that a text refers to.
pub(crate) fn references(text: &str) -> Vec<&str> {
    let mut names = Vec::new();
    let mut rest = text;
    while let Some(at) = rest.find("${") {
        let inside = &rest[at + 2..];
        let is_literal = rest[..at].ends_with('$');
        let Some(end) = inside.find('}').filter(|_| !is_literal) else {
            rest = inside;
            continue;
        };
        let name = inside[..end].split(":-").next().unwrap_or_default();
        let name = name.strip_prefix("env:").unwrap_or(name);
        if is_name(name) {
            names.push(name);
        }
        rest = &inside[end + 1..];
    }
    names
}

/// Expands `${VAR}`, `${VAR:-default}`, `${env:VAR}` and `${env:VAR:-default}`; `$${` is a literal `${`. Expanded
/// values are not expanded again. As in a shell, the default also applies to an empty variable.
pub(crate) fn expand<'a>(text: &str, variable: &dyn Fn(&str) -> Option<&'a str>) -> Result<String, ExpandError> {
    let mut out = String::new();
    let mut rest = text;
    while let Some(at) = rest.find("${") {
        if let Some(before) = rest[..at].strip_suffix('$') {
            out.push_str(before);
            out.push_str("${");
            rest = &rest[at + 2..];
            continue;
        }
        out.push_str(&rest[..at]);
        let inside = &rest[at + 2..];
        let end = inside.find('}').ok_or(ExpandError::Malformed)?;
        let (name, default) = match inside[..end].split_once(":-") {
            Some((name, default)) => (name, Some(default)),
            None => (&inside[..end], None),
        };
        let name = name.strip_prefix("env:").unwrap_or(name);
        if !is_name(name) {
            return Err(ExpandError::Malformed);
        }
        let value = match (variable(name), default) {
            (None | Some(""), Some(default)) => default,
            (Some(value), _) => value,
            (None, None) => return Err(ExpandError::Missing(name.to_owned())),
        };
        out.push_str(value);
        if out.len() > MAX_EXPANDED {
            return Err(ExpandError::TooLong);
        }
        rest = &inside[end + 1..];
    }
    out.push_str(rest);
    if out.len() > MAX_EXPANDED { Err(ExpandError::TooLong) } else { Ok(out) }
}

/// Whether a text is a valid name of a variable.
pub(crate) fn is_name(text: &str) -> bool {
    !text.is_empty()
        && text.chars().all(|c| c.is_ascii_alphanumeric() || c == '_')
        && !text.starts_with(|c: char| c.is_ascii_digit())
}

/// Whether a text consists only of a reference without a default, which reveals nothing.
pub(crate) fn is_reference(text: &str) -> bool {
    let inside = text.strip_prefix("${").and_then(|rest| rest.strip_suffix('}'));
    inside.is_some_and(|inside| is_name(inside.strip_prefix("env:").unwrap_or(inside)))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn expanded(text: &str) -> Result<String, ExpandError> {
        expand(text, &|name| match name {
            "A" => Some("one"),
            "EMPTY" => Some(""),
            "NESTED" => Some("${A}"),
            _ => None,
        })
    }

    #[test]
    fn references_are_found() {
        assert_eq!(references("${A} ${env:B:-x}$${C} ${D} ${E"), ["A", "B", "D"]);
        assert!(references("plain $A ${1} ${input:x}").is_empty());
    }

    #[test]
    fn references_are_expanded_once() {
        for (text, expected) in [
            ("plain $A $ {A} }", "plain $A $ {A} }"),
            ("${A}-${env:A}", "one-one"),
            ("${B:-two}${A:-no}${env:B:-}", "twoone"),
            ("${EMPTY}|${EMPTY:-x}", "|x"),
            ("$${A} ${A}$", "${A} one$"),
            ("${NESTED}", "${A}"),
            ("${B:-http://x:1/}", "http://x:1/"),
        ] {
            assert_eq!(expanded(text).as_deref(), Ok(expected), "{text}");
        }
    }

    #[test]
    fn errors_of_expansion_are_reported() {
        assert_eq!(expanded("x ${B}"), Err(ExpandError::Missing("B".to_owned())));
        for text in ["${", "${A", "${}", "${input:x}", "${A B}", "${1}", "${workspaceFolder:x}"] {
            assert_eq!(expanded(text), Err(ExpandError::Malformed), "{text}");
        }
        let long = "y".repeat(MAX_EXPANDED);
        let twice = expand("${L}${L}", &|_| Some(&long));
        assert_eq!(twice, Err(ExpandError::TooLong));
    }
}
