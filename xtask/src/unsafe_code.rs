//! Files that may contain `unsafe` code.
//!
//! The compiler denies it everywhere by a lint of the workspace, but any file can lift that for itself, and the lint
//! does not reach the library of the guest, which a build script compiles. (`forbid` cannot be lifted, but a crate
//! either inherits all lints of the workspace or none, and some crates have a file in the list.)

use std::fs;
use std::path::Path;

use anyhow::{Context as _, Result, anyhow};
use proc_macro2::{Delimiter, TokenStream, TokenTree};

use crate::tidy::source_files;

/// A file, or a folder with a slash at its end, and why it has `unsafe` code.
struct Place {
    path: &'static str,
    reason: &'static str,
}

/// All places with `unsafe` code. `ARCHITECTURE.md` and `SECURITY.md` name them too.
const PLACES: &[Place] = &[
    Place {
        path: "crates/sandbox/src/native/launcher/kernel.rs",
        reason: "system calls that rustix does not have, or not for a process that has just been forked",
    },
    Place {
        path: "crates/sandbox/src/native/launcher/privilege.rs",
        reason: "one call: rustix cannot know that these flags of `unshare` are harmless",
    },
    Place {
        path: "crates/catalog/src/catalog/search/products.rs",
        reason: "one call of a function that is compiled for AVX2",
    },
    Place { path: "crates/guest/native/", reason: "system calls without libc, and Python's C API" },
];

/// Lints that keep `unsafe` out of all other files, and comments in these.
const LINTS: &[&str] = &["unsafe_code = \"deny\"", "undocumented_unsafe_blocks = \"deny\""];
const INHERITED: &str = "[lints]\nworkspace = true\n";

/// Returns one sentence for each `unsafe` outside the list of places, for each block or `impl` without a `// SAFETY:`
/// comment, for each place that has none, and for each crate without the lints of the workspace.
pub fn unsafe_violations(root: &Path) -> Result<Vec<String>> {
    let mut violations = Vec::new();
    let mut used = vec![false; PLACES.len()];
    for path in source_files(root)? {
        let text = fs::read_to_string(&path).with_context(|| format!("cannot read {}", path.display()))?;
        let shown = path.strip_prefix(root).unwrap_or(&path).display().to_string();
        let found = occurrences(&text).with_context(|| format!("cannot read {shown} as Rust"))?;
        let place = PLACES.iter().position(|place| is_in(&shown, place.path));
        if let (Some(place), false) = (place, found.is_empty()) {
            used[place] = true;
        }
        violations.extend(file_violations(&shown, &text, &found, place.is_some()));
    }
    for (Place { path, reason }, _) in PLACES.iter().zip(used).filter(|(_, used)| !used) {
        violations.push(format!("{path} has no `unsafe` code: remove it from the list ({reason})"));
    }
    violations.extend(lint_violations(root)?);
    Ok(violations)
}

fn is_in(file: &str, place: &str) -> bool {
    if place.ends_with('/') { file.starts_with(place) } else { file == place }
}

/// A word `unsafe` in the source, outside of comments and literals.
#[derive(Debug, PartialEq, Eq)]
struct Occurrence {
    line: usize,
    /// A block or an `impl`, which claims that something holds; a function only asks its callers for it.
    is_claim: bool,
}

fn occurrences(text: &str) -> Result<Vec<Occurrence>> {
    let tokens: TokenStream = text.parse().map_err(|error| anyhow!("{error}"))?;
    let mut found = Vec::new();
    collect(tokens, &mut found);
    Ok(found)
}

fn collect(tokens: TokenStream, found: &mut Vec<Occurrence>) {
    let mut tokens = tokens.into_iter().peekable();
    while let Some(token) = tokens.next() {
        match token {
            TokenTree::Ident(ident) if ident == "unsafe" => {
                let is_claim = match tokens.peek() {
                    Some(TokenTree::Group(group)) => group.delimiter() == Delimiter::Brace,
                    Some(TokenTree::Ident(next)) => next == "impl",
                    _ => false,
                };
                found.push(Occurrence { line: ident.span().start().line, is_claim });
            }
            TokenTree::Group(group) => collect(group.stream(), found),
            _ => {}
        }
    }
}

fn file_violations(shown: &str, text: &str, found: &[Occurrence], is_listed: bool) -> Vec<String> {
    let lines: Vec<&str> = text.lines().map(str::trim).collect();
    let problem = |Occurrence { line, is_claim }: &Occurrence| {
        if !is_listed {
            Some(format!("{shown}:{line}: `unsafe` outside the files that xtask/src/unsafe_code.rs lists"))
        } else if *is_claim && !has_comment(&lines, *line) {
            Some(format!("{shown}:{line}: `unsafe` without a `// SAFETY:` comment above"))
        } else {
            None
        }
    };
    found.iter().filter_map(problem).collect()
}

/// Whether the comment above the statement that contains a line, counted from 1, says why it is sound.
fn has_comment(lines: &[&str], line: usize) -> bool {
    let mut above = lines[..line - 1].iter().rev().skip_while(|above| !ends_statement(above) && !is_comment(above));
    above.by_ref().take_while(|above| is_comment(above)).any(|comment| comment.starts_with("// SAFETY:"))
}

fn is_comment(line: &str) -> bool {
    line.starts_with("//")
}

fn ends_statement(line: &str) -> bool {
    line.is_empty() || line.ends_with([';', '{', '}', ','])
}

fn lint_violations(root: &Path) -> Result<Vec<String>> {
    let read = |path: &Path| fs::read_to_string(path).with_context(|| format!("cannot read {}", path.display()));
    let workspace = read(&root.join("Cargo.toml"))?;
    let missing = LINTS.iter().filter(|lint| !workspace.lines().any(|line| line == **lint));
    let mut violations: Vec<String> =
        missing.map(|lint| format!("Cargo.toml lacks the lint `{lint}` in its `[workspace.lints]`")).collect();
    let crates = root.join("crates");
    let entries = fs::read_dir(&crates).with_context(|| format!("cannot list {}", crates.display()))?;
    let mut manifests = vec![root.join("xtask/Cargo.toml")];
    for entry in entries {
        manifests.push(entry.with_context(|| format!("cannot list {}", crates.display()))?.path().join("Cargo.toml"));
    }
    manifests.retain(|manifest| manifest.is_file());
    manifests.sort();
    for manifest in manifests {
        if !format!("{}\n", read(&manifest)?).contains(INHERITED) {
            let shown = manifest.strip_prefix(root).unwrap_or(&manifest).display();
            violations.push(format!("{shown} does not inherit the lints of the workspace: add\n{INHERITED}"));
        }
    }
    Ok(violations)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(text: &str, is_listed: bool) -> Vec<String> {
        file_violations("some.rs", text, &occurrences(text).unwrap(), is_listed)
    }

    #[test]
    fn unsafe_outside_the_list_is_found_in_every_form() {
        for text in [
            "fn f() { unsafe { g() } }",
            "fn f() { call(|| unsafe { g() }) }",
            "unsafe fn f() {}",
            "unsafe impl Send for S {}",
            "unsafe extern \"C\" { fn f(); }",
            "#[unsafe(no_mangle)] fn f() {}",
            "some_macro! { unsafe { g() } }",
        ] {
            let expected = ["some.rs:1: `unsafe` outside the files that xtask/src/unsafe_code.rs lists"];
            assert_eq!(found(text, false), expected, "{text}");
        }
        let words = "// unsafe\n/// unsafe\nfn unsafe_words() -> &'static str { \"unsafe\" }\n";
        assert_eq!(found(words, false), Vec::<String>::new());
    }

    #[test]
    fn a_listed_file_says_why_each_block_is_sound() {
        for text in [
            "fn f() {\n    // SAFETY: it is.\n    unsafe { g() }\n}\n",
            "fn f() {\n    // SAFETY: it is,\n    // for sure.\n    #[expect(unsafe_code)]\n    let a =\n        unsafe { g() };\n}\n",
            "// SAFETY: it is.\nunsafe impl Send for S {}\n",
            "/// Why.\nunsafe fn f() {}\n",
        ] {
            assert_eq!(found(text, true), Vec::<String>::new(), "{text}");
        }
        for (text, line) in [
            ("fn f() {\n    unsafe { g() }\n}\n", 2),
            ("fn f() {\n    // It is.\n    unsafe { g() }\n}\n", 3),
            ("fn f() {\n    // SAFETY: it is.\n    unsafe { g() };\n    unsafe { g() }\n}\n", 4),
            ("unsafe impl Send for S {}\n", 1),
        ] {
            assert_eq!(found(text, true), [format!("some.rs:{line}: `unsafe` without a `// SAFETY:` comment above")]);
        }
    }

    #[test]
    fn places_are_files_or_folders() {
        assert!(is_in("crates/guest/native/serve.rs", "crates/guest/native/"));
        assert!(is_in("crates/a/b.rs", "crates/a/b.rs"));
        assert!(!is_in("crates/a/b.rs/c.rs", "crates/a/b.rs"));
    }

    #[test]
    fn stale_places_and_missing_lints_are_found() {
        let root = tempfile::tempdir().unwrap();
        let write = |path: &str, text: &str| {
            let path = root.path().join(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        };
        write("Cargo.toml", "[workspace.lints.rust]\nunsafe_code = \"deny\"\n");
        write("xtask/Cargo.toml", "[lints]\nworkspace = true");
        write("crates/one/Cargo.toml", "[package]\n");
        write("crates/one/src/lib.rs", "fn f() {}\n");
        let found = unsafe_violations(root.path()).unwrap();
        let (stale, lints) = found.split_at(PLACES.len());
        assert!(stale.iter().all(|one| one.contains("has no `unsafe` code: remove it from the list")), "{stale:?}");
        assert_eq!(
            lints,
            [
                "Cargo.toml lacks the lint `undocumented_unsafe_blocks = \"deny\"` in its `[workspace.lints]`",
                "crates/one/Cargo.toml does not inherit the lints of the workspace: add\n[lints]\nworkspace = true\n",
            ]
        );
    }
}
