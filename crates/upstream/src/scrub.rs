//! Cleans foreign texts for errors and logs: short, printable, and without secrets of the configuration.

use coracle_types::{ServerSpec, Transport, is_hidden};
use std::path::Path;
use url::Url;

/// The maximum length of a server's text in an error.
pub(crate) const MAX_REASON: usize = 1000;

/// The minimum length of a secret. Shorter ones cannot be distinguished from ordinary words.
const SHORTEST_SECRET: usize = 4;
/// The same for arguments, most of which are ordinary words.
const SHORTEST_ARGUMENT: usize = 8;

/// Programs whose first plain argument is a package: never a secret, and useful to see when it is misspelt.
const PACKAGE_RUNNERS: &[&str] = &["npx", "uvx", "bunx", "pnpx", "pipx"];

const HIDDEN: &str = "[hidden]";

/// Removes the secrets of one server from texts.
#[derive(Clone, Default)]
pub(crate) struct Scrubber {
    secrets: Vec<String>,
}

impl Scrubber {
    pub(crate) fn new(spec: &ServerSpec) -> Self {
        let mut secrets = Vec::new();
        match &spec.transport {
            Transport::Stdio { command, args, env, .. } => {
                secrets.extend(env.values().map(|value| value.expose().to_owned()));
                secrets.extend(secret_arguments(command, args.iter().map(coracle_types::Secret::expose)));
            }
            Transport::Http { url, headers } | Transport::Sse { url, headers } => {
                secrets.extend(url_secrets(url.expose()));
                for value in headers.values() {
                    secrets.push(value.expose().to_owned());
                    // `Bearer TOKEN`: the token may appear alone.
                    secrets.extend(value.expose().split_whitespace().skip(1).map(str::to_owned));
                }
            }
        }
        secrets.extend(spec.client.iter().filter_map(|client| client.secret.as_ref()).map(|it| it.expose().to_owned()));
        secrets.retain(|secret| secret.len() >= SHORTEST_SECRET);
        // Longest first, so that no part of a longer secret is left.
        secrets.sort_by(|a, b| b.len().cmp(&a.len()).then_with(|| a.cmp(b)));
        secrets.dedup();
        Self { secrets }
    }

    /// `text` without secrets, on one line of printable characters, shortened.
    pub(crate) fn clean(&self, text: &str) -> String {
        shortened(&self.without_secrets(text), MAX_REASON)
    }

    pub(crate) fn without_secrets(&self, text: &str) -> String {
        self.secrets.iter().fold(text.to_owned(), |text, secret| {
            if text.contains(secret.as_str()) { text.replace(secret.as_str(), HIDDEN) } else { text }
        })
    }
}

/// At most `limit` bytes of `text`, with invisible characters replaced by spaces.
pub(crate) fn shortened(text: &str, limit: usize) -> String {
    let mut short = String::new();
    for c in text.trim().chars().map(|c| if is_hidden(c) { ' ' } else { c }) {
        if short.len() + c.len_utf8() > limit {
            short.push('…');
            break;
        }
        short.push(c);
    }
    short
}

fn secret_arguments<'a>(command: &str, args: impl Iterator<Item = &'a str>) -> Vec<String> {
    let program = Path::new(command).file_name().and_then(|name| name.to_str()).unwrap_or_default();
    let mut package_is_next = PACKAGE_RUNNERS.contains(&program);
    let mut secrets = Vec::new();
    for arg in args {
        if arg.starts_with('-') {
            // A flag is not a secret, but the value after its `=` may be.
            secrets.extend(arg.split_once('=').map(|(_, value)| value.to_owned()));
        } else if package_is_next {
            package_is_next = false;
        } else if !Path::new(arg).exists() {
            secrets.push(arg.to_owned());
            secrets.extend(arg.split_once('=').map(|(_, value)| value.to_owned()));
            secrets.extend(url_secrets(arg).into_iter().filter(|part| part != arg));
        }
    }
    secrets.retain(|secret| secret.len() >= SHORTEST_ARGUMENT);
    secrets
}

/// The parts of a URL that may be credentials: user, password, query, and random parts of the path.
fn url_secrets(text: &str) -> Vec<String> {
    let Ok(url) = Url::parse(text) else {
        return vec![text.to_owned()];
    };
    let mut secrets: Vec<String> = url.query_pairs().map(|(_, value)| value.into_owned()).collect();
    secrets.extend(url.query().map(str::to_owned));
    secrets.extend(
        url.query()
            .into_iter()
            .flat_map(|query| query.split('&'))
            .filter_map(|pair| pair.split_once('=').map(|(_, value)| value.to_owned())),
    );
    secrets.extend(url.password().map(str::to_owned));
    if !url.username().is_empty() {
        secrets.push(url.username().to_owned());
    }
    // Some services put a key into the path.
    secrets.extend(url.path_segments().into_iter().flatten().filter(|part| looks_random(part)).map(str::to_owned));
    secrets
}

/// Whether a text is long and has letters and digits, unlike words that people choose.
fn looks_random(text: &str) -> bool {
    const LONG: usize = 16;
    text.len() >= LONG && text.chars().any(|c| c.is_ascii_digit()) && text.chars().any(|c| c.is_ascii_alphabetic())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn flags_packages_and_existing_paths_are_not_secrets() {
        let args = ["-y", "@scope/server-1", "--token=k3yk3yk3y", "/", "canary-value", "stdio"];
        assert_eq!(secret_arguments("/usr/bin/npx", args.into_iter()), ["k3yk3yk3y", "canary-value"]);
        assert_eq!(secret_arguments("node", ["script-that-is-not-there"].into_iter()), ["script-that-is-not-there"]);
    }

    #[test]
    fn user_query_and_random_parts_of_a_url_are_hidden() {
        let secrets = url_secrets("https://me:pass@host/mcp/a1b2c3d4e5f6a7b8c9?key=canary%20x&b=2");
        for secret in ["me", "pass", "a1b2c3d4e5f6a7b8c9", "canary x", "canary%20x"] {
            assert!(secrets.iter().any(|s| s == secret), "{secret}: {secrets:?}");
        }
        assert!(!secrets.iter().any(|secret| secret == "mcp"));
    }

    #[test]
    fn text_is_cut_at_a_character_and_has_no_control_characters() {
        assert_eq!(shortened("a\u{1b}[31m\nb", 100), "a [31m b");
        assert_eq!(shortened("ééé", 3), "é…");
    }
}
