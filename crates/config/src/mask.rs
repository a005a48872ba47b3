//! Guesses which part of a text is a credential, and rather hides too much.

use crate::expand::is_reference;
use coracle_types::Secret;
use std::ops::Range;

/// The replacement for a credential.
pub(crate) const MASK: &str = "********";

/// Parts of names whose values are credentials.
const SECRET_NAMES: &[&str] = &[
    "token",
    "key",
    "secret",
    "pass",
    "pwd",
    "auth",
    "credential",
    "cookie",
    "session",
    "signature",
    "dsn",
    "jwt",
    "bearer",
    "connection_string",
    "database_url",
    "private",
];
/// Prefixes of well-known credentials.
const SECRET_PREFIXES: &[&str] =
    &["sk-", "sk_", "pk_", "rk_", "ghp_", "gho_", "ghs_", "github_pat_", "glpat-", "xox", "AKIA", "eyJ", "AIza", "hf_"];
/// Schemes before the credential in a header.
const SCHEMES: &[&str] = &["bearer ", "basic ", "token ", "apikey "];
/// The minimum length of a word with digits that counts as random.
const LONG_WORD: usize = 20;
/// The minimum length of a word, and number of changes between letters and digits, that count as random.
const MIXED_WORD: (usize, usize) = (12, 4);

/// Whether the value of something with this name is a credential.
pub(crate) fn is_secret_name(name: &str) -> bool {
    let name = name.to_ascii_lowercase().replace('-', "_");
    SECRET_NAMES.iter().any(|part| name.contains(part))
}

fn looks_secret(text: &str) -> bool {
    let word = |word: &str| {
        word.len() >= LONG_WORD
            && word.contains(|c: char| c.is_ascii_digit())
            && word.contains(|c: char| c.is_ascii_alphabetic())
    };
    let mixed = |word: &str| {
        let signs: Vec<char> = word.chars().filter(char::is_ascii_alphanumeric).collect();
        let changes = signs.windows(2).filter(|pair| pair[0].is_ascii_digit() != pair[1].is_ascii_digit()).count();
        word.len() >= MIXED_WORD.0 && changes >= MIXED_WORD.1
    };
    SECRET_PREFIXES.iter().any(|prefix| text.starts_with(prefix) && text.len() >= prefix.len() + 8)
        || text.split(|c: char| !c.is_ascii_alphanumeric() && c != '_').any(word)
        || text.split(|c: char| !c.is_ascii_alphanumeric() && c != '_' && c != '-').any(mixed)
}

/// Whether a URL contains a user, a query, or a credential in its path.
fn is_secret_address(text: &str) -> bool {
    let Some((_, rest)) = text.split_once("://") else { return false };
    let authority = rest.split(['/', '?', '#']).next().unwrap_or_default();
    authority.contains('@') || rest.contains('?') || looks_secret(rest)
}

/// The part of a text that is probably a credential. `name` is the name of the value.
pub(crate) fn secret_part(name: Option<&str>, text: &str) -> Option<Range<usize>> {
    if text.trim().is_empty() || only_references(text) {
        return None;
    }
    let lower = text.to_ascii_lowercase();
    if let Some(scheme) = SCHEMES.iter().find(|scheme| lower.starts_with(**scheme)) {
        return (!only_references(&text[scheme.len()..])).then_some(scheme.len()..text.len());
    }
    if is_secret_address(text) {
        return Some(0..text.len());
    }
    // `--api-key=x`, `TOKEN=x`
    if let Some(at) = text.find('=') {
        let before = &text[..at];
        let is_name = !before.is_empty() && before.chars().all(|c| c.is_ascii_alphanumeric() || "-_.".contains(c));
        if is_name && (is_secret_name(before) || looks_secret(&text[at + 1..]) || is_secret_address(&text[at + 1..])) {
            let value = at + 1..text.len();
            return (!text[value.clone()].is_empty() && !only_references(&text[value.clone()])).then_some(value);
        }
    }
    let secret = name.is_some_and(is_secret_name) || looks_secret(text);
    secret.then_some(0..text.len())
}

/// Whether a text consists of `${VAR}` and punctuation.
fn only_references(text: &str) -> bool {
    let mut rest = text;
    let mut found = false;
    while let Some(at) = rest.find("${") {
        let Some(end) = rest[at..].find('}') else { return false };
        if rest[..at].contains(char::is_alphanumeric) || !is_reference(&rest[at..=at + end]) {
            return false;
        }
        found = true;
        rest = &rest[at + end + 1..];
    }
    found && !rest.contains(char::is_alphanumeric)
}

/// The name that an argument gives to the next one, as in `--api-key x`.
pub(crate) fn names_next(argument: &str) -> Option<&str> {
    argument.starts_with('-').then_some(argument).filter(|flag| !flag.contains('='))
}

/// A text with its credential hidden.
pub(crate) fn masked(name: Option<&str>, text: &str) -> String {
    match secret_part(name, text) {
        Some(range) => format!("{}{MASK}{}", &text[..range.start], &text[range.end..]),
        None => text.to_owned(),
    }
}

/// Arguments with their credentials hidden.
pub(crate) fn masked_arguments(arguments: &[Secret]) -> Vec<String> {
    let before = std::iter::once(None).chain(arguments.iter().map(|argument| names_next(argument.expose())));
    before.zip(arguments).map(|(name, argument)| masked(name, argument.expose())).collect()
}

/// A URL with possible credentials hidden: the user, the query, and random words in the path.
pub(crate) fn masked_address(text: &str) -> String {
    let Some((scheme, rest)) = text.split_once("://") else { return masked(Some("key"), text) };
    let (path, query) = match rest.split_once(['?', '#']) {
        Some((path, _)) => (path, format!("?{MASK}")),
        None => (rest, String::new()),
    };
    let mut parts = path.split('/');
    let authority = parts.next().unwrap_or_default();
    let host = match authority.rsplit_once('@') {
        Some((_, host)) => format!("{MASK}@{host}"),
        None => authority.to_owned(),
    };
    let parts: Vec<String> = std::iter::once(host).chain(parts.map(|part| masked(None, part))).collect();
    format!("{scheme}://{}{query}", parts.join("/"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn probable_secrets_in_arguments_are_hidden() {
        let arguments = [
            "-y",
            "@modelcontextprotocol/server-everything",
            "--api-key",
            "hunter2",
            "--token=hunter2",
            "--port",
            "8080",
            "-e",
            "GITHUB_TOKEN=hunter2",
            "-e",
            "GITHUB_TOKEN=${GITHUB_TOKEN}",
            "postgres://u:hunter2@db/x",
            "sk-hunter2hunter2",
            "a1hunter2b2c3d4e5f6g7h8",
            "--root=/home/someone/data",
            "mcp-server-git==2025.11.25",
            "--password",
            "${PASSWORD}",
            "https://mcp.example.com/sse",
            "hunter2-0a1b-9f8e",
            "0a1b9f8e-1234-1234-1234-0hunter2bcde",
            "server-v2-beta3",
        ];
        let shown = masked_arguments(&arguments.map(Secret::new));
        insta::assert_debug_snapshot!(shown);
        assert!(!shown.concat().contains("hunter2"));
    }

    #[test]
    fn addresses_keep_their_host() {
        for (text, shown) in [
            ("https://mcp.example.com/v1/mcp", "https://mcp.example.com/v1/mcp"),
            ("https://u:p@mcp.example.com/mcp?key=x", "https://********@mcp.example.com/mcp?********"),
            ("https://mcp.example.com/s/0123456789abcdef0123456789/mcp", "https://mcp.example.com/s/********/mcp"),
            ("${URL}", "${URL}"),
        ] {
            assert_eq!(masked_address(text), shown);
        }
    }

    #[test]
    fn headers_keep_their_scheme() {
        assert_eq!(masked(Some("Authorization"), "Bearer abc"), "Bearer ********");
        assert_eq!(masked(Some("Authorization"), "Bearer ${A}"), "Bearer ${A}");
        assert_eq!(masked(Some("X-Api-Key"), "${A:-secret}"), "********");
        assert_eq!(masked(Some("Accept"), "text/plain"), "text/plain");
    }
}
