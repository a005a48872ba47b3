//! Detects which servers a piece of code mentions. This is a text heuristic, not a parser: it only decides which
//! servers to wait for.

/// Clarity with which code names a server.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Mention {
    /// The server is not named.
    None,
    /// The name occurs, and the code mentions servers or tools elsewhere.
    Loose,
    /// The name occurs in a statement about servers, tools or calls.
    Clear,
}

/// Words that indicate the use of tools: `from servers.x import …`, `tool x …`, `call("x", …)`.
const ABOUT: [&str; 3] = ["servers", "tool", "call"];

/// Code split into statements.
pub(super) struct Mentions<'a> {
    statements: Vec<(&'a str, bool)>,
}

impl<'a> Mentions<'a> {
    pub(super) fn new(code: &'a str) -> Self {
        let about = |statement: &str| ABOUT.iter().any(|word| statement.contains(word));
        Self { statements: statements(code).into_iter().map(|statement| (statement, about(statement))).collect() }
    }

    /// Returns whether the code mentions servers, tools or calls at all.
    pub(super) fn any(&self) -> bool {
        self.statements.iter().any(|(_, about)| *about)
    }

    pub(super) fn of(&self, server: &str) -> Mention {
        let package = coracle_catalog::package_name(server);
        let named = |statement: &str| has_word(statement, server) || has_word(statement, &package);
        let mut mention = Mention::None;
        for (statement, about) in &self.statements {
            if named(statement) {
                mention = mention.max(if *about { Mention::Clear } else { Mention::Loose });
            }
        }
        if self.any() { mention } else { Mention::None }
    }
}

/// Splits code into lines; a bracketed expression is not split.
fn statements(code: &str) -> Vec<&str> {
    let (mut all, mut depth, mut start) = (Vec::new(), 0_usize, 0);
    for (at, letter) in code.char_indices() {
        match letter {
            '(' | '{' | '[' => depth += 1,
            ')' | '}' | ']' => depth = depth.saturating_sub(1),
            '\n' if depth == 0 => {
                all.extend(code.get(start..at));
                start = at + 1;
            }
            _ => {}
        }
    }
    all.extend(code.get(start..));
    all
}

fn has_word(text: &str, word: &str) -> bool {
    let is_part = |letter: Option<char>| letter.is_some_and(|letter| letter.is_alphanumeric() || letter == '_');
    text.match_indices(word).any(|(at, found)| {
        let before = text.get(..at).and_then(|text| text.chars().next_back());
        let after = text.get(at + found.len()..).and_then(|text| text.chars().next());
        !is_part(before) && !is_part(after)
    })
}

#[cfg(test)]
mod tests {
    use super::{Mention, Mentions};

    #[test]
    fn servers_are_found_where_code_uses_them() {
        let cases = [
            ("from servers.git import git_log", Mention::Clear),
            ("from servers import fs, git", Mention::Clear),
            ("from servers import (\n    fs,\n    git,\n)", Mention::Clear),
            ("import { log } from \"servers/git\";", Mention::Clear),
            ("ls | xargs -I{} tool git log {}", Mention::Clear),
            ("call('git', 'log', {})", Mention::Clear),
            ("call(\n  'git',\n  'log',\n)", Mention::Clear),
            ("import git\nfrom servers.fs import read", Mention::Loose),
            ("import git\nprint(1)", Mention::None),
            ("from servers.github import x", Mention::None),
            ("from servers.fs import digit", Mention::None),
            ("", Mention::None),
        ];
        for (code, expected) in cases {
            assert_eq!(Mentions::new(code).of("git"), expected, "{code}");
        }
        assert_eq!(Mentions::new("from servers.my_db import q").of("my-db"), Mention::Clear);
        assert_eq!(Mentions::new("tool my-db q").of("my-db"), Mention::Clear);
        assert_eq!(Mentions::new("tool é-git- ü").of("git"), Mention::Clear);
    }
}
