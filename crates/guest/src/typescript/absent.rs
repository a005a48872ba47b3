//! Hints for imports of servers and skills that do not exist. Their wording is the same as in Python, because the host
//! passes on only the hints that it knows.

use crate::closest::closest;
use std::fs;
use std::path::Path;

/// Names listed in one hint.
const MOST_LISTED: usize = 20;

/// A folder of modules that code imports by name.
struct Kind {
    /// The first part of the module's name.
    prefix: &'static str,
    noun: &'static str,
    folder: &'static str,
    /// What to do if there are none.
    none: &'static str,
}

const KINDS: [Kind; 2] = [
    Kind {
        prefix: "servers/",
        noun: "server",
        folder: "/coracle/servers",
        none: "none are configured: on the host, `coracle servers add` adds one",
    },
    Kind {
        prefix: "skills/",
        noun: "skill",
        folder: "/coracle/skills",
        none: "none are saved: save_skill(name, code) saves one",
    },
];

/// The hint for a failed import, if the module belongs to a server or a skill that does not exist.
pub(super) fn hint(message: &str) -> Option<String> {
    let (module, _) = message.strip_prefix("Error: cannot import \"")?.split_once("\": ")?;
    let kind = KINDS.iter().find(|kind| module.starts_with(kind.prefix))?;
    let name = module.strip_prefix(kind.prefix)?.split('/').next()?;
    let there = names(Path::new(kind.folder));
    if there.iter().any(|known| known == name) {
        return None;
    }
    let Kind { noun, none, .. } = kind;
    Some(match closest(name, there.iter().map(String::as_str)) {
        Some(close) => format!("there is no {noun} '{name}'; did you mean {close}?"),
        None if there.is_empty() => format!("there is no {noun} '{name}'; {none}"),
        None => {
            let listed: Vec<_> = there.into_iter().take(MOST_LISTED).collect();
            format!("there is no {noun} '{name}'; there are: {}", listed.join(", "))
        }
    })
}

/// The modules in a folder, without their endings.
fn names(folder: &Path) -> Vec<String> {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    let mut names: Vec<String> = entries
        .filter(|entry| {
            let path = entry.path();
            path.is_dir() || path.extension().is_some_and(|ending| ending == "ts")
        })
        .filter_map(|entry| Some(entry.path().file_stem()?.to_str()?.to_owned()))
        .filter(|name| !name.starts_with(['_', '.']) && name != "index")
        .collect();
    names.sort();
    names.dedup();
    names
}

#[cfg(test)]
mod tests {
    use super::{hint, names};

    #[test]
    fn a_server_or_a_skill_that_does_not_exist_has_a_hint() {
        // Outside of a sandbox there are none of either.
        let server = "there is no server 'git'; none are configured: on the host, `coracle servers add` adds one";
        let failed = |module: &str| format!("Error: cannot import \"{module}\": there is no such file");
        assert_eq!(hint(&failed("servers/git")).as_deref(), Some(server));
        assert_eq!(hint(&failed("servers/git/git_log")).as_deref(), Some(server));
        let skill = "there is no skill 'clean'; none are saved: save_skill(name, code) saves one";
        assert_eq!(hint(&failed("skills/clean")).as_deref(), Some(skill));
        for other in ["./git", "lodash", "serversx/git"] {
            assert_eq!(hint(&failed(other)), None, "{other}");
        }
        assert_eq!(hint("Error: I say: cannot import \"servers/git\": no"), None);
    }

    #[test]
    fn modules_are_folders_and_typescript_files() {
        let folder = tempfile::tempdir().unwrap();
        std::fs::create_dir(folder.path().join("git")).unwrap();
        for file in ["clean.ts", "clean.py", "notes.md", "index.ts", "_own.ts"] {
            std::fs::write(folder.path().join(file), "").unwrap();
        }
        assert_eq!(names(folder.path()), ["clean", "git"]);
    }
}
