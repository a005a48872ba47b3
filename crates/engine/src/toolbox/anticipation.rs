//! Starts servers that code will use, while a model is still writing the code.

use super::Toolbox;
use coracle_types::{ServerName, UserId};
use std::collections::HashSet;
use std::sync::Arc;

/// What precedes the name of a server in Python and TypeScript: `servers.git` and `"servers/git"`.
const BEFORE: &str = "servers";

/// Number of bytes before the new part of a text that are looked at again, because a name may begin there.
const LOOKED_AT_AGAIN: usize = 128;

impl Toolbox {
    /// Starts the servers that code names (`servers.git`, `"servers/git"`), in the background, except those in `begun`,
    /// which it adds to. `so_far` is a text that contains the beginning of the code, and its last `added` bytes are new:
    /// only names that they complete are found.
    pub fn anticipate(self: &Arc<Self>, user: &UserId, so_far: &str, added: usize, begun: &mut HashSet<ServerName>) {
        for name in names(recent(so_far, added)) {
            let is_meant =
                |server: &ServerName| server.as_str() == name || coracle_catalog::package_name(server.as_str()) == name;
            let Some(spec) = self.upstream().servers().into_iter().find(|spec| is_meant(&spec.name)) else { continue };
            if begun.insert(spec.name.clone()) {
                self.list_in_background(user, &spec.name);
            }
        }
    }
}

/// The end of a text in which a new part may have completed a name. A long text that grows by small parts is not read
/// again with each of them.
fn recent(so_far: &str, added: usize) -> &str {
    let start = so_far.len().saturating_sub(added.saturating_add(LOOKED_AT_AGAIN));
    so_far.get(so_far.floor_char_boundary(start)..).unwrap_or_default()
}

/// The names that follow `servers.` or `servers/`, each followed by something else.
fn names(text: &str) -> impl Iterator<Item = &str> {
    text.match_indices(BEFORE).filter_map(|(at, found)| {
        let rest = text.get(at + found.len()..)?.strip_prefix(['.', '/'])?;
        let end = rest.find(|c: char| !(c.is_alphanumeric() || matches!(c, '_' | '-')))?;
        rest.get(..end).filter(|name| !name.is_empty())
    })
}

#[cfg(test)]
mod tests {
    use super::{LOOKED_AT_AGAIN, names, recent};
    use std::collections::BTreeSet;

    #[test]
    fn complete_names_are_found() {
        let cases = [
            (r#"{"code": "from servers.git import log\nfrom servers.my_db import q"#, vec!["git", "my_db"]),
            (r#"{"code": "import { log } from \"servers/my-db\";"#, vec!["my-db"]),
            ("servers.gi", vec![]),
            ("servers.", vec![]),
            ("from servers import git\n", vec![]),
            ("servers..x servers/ servers.é ", vec!["é"]),
        ];
        for (text, expected) in cases {
            assert_eq!(names(text).collect::<Vec<_>>(), expected, "{text}");
        }
    }

    #[test]
    fn names_are_found_however_a_text_arrives() {
        let text = format!("é {} servers.a/b.c servers.{} end servers/z\\n", "x".repeat(1_000), "n".repeat(64));
        let whole: BTreeSet<&str> = names(&text).collect();
        assert_eq!(whole.len(), 3);
        for step in [1, 2, 7, 100, 5_000] {
            let (mut found, mut length) = (BTreeSet::new(), 0);
            while length < text.len() {
                let end = text.ceil_char_boundary(length + step);
                let part = recent(&text[..end], end - length);
                assert!(part.len() <= step + LOOKED_AT_AGAIN + 4);
                found.extend(names(part));
                length = end;
            }
            assert_eq!(found, whole, "{step}");
        }
    }
}
