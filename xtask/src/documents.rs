//! The documents are checked: their commands and links exist, and the examples print what the text shows.
//!
//! A `console` block is run (`examples.rs`): `$ ` starts a command, `> ` continues it, and the rest is its output. Other
//! blocks are not run here. `coracle-cli` parses the `coracle` commands in them with its own command line, and
//! `coracle-config` loads the settings.

mod examples;
mod links;

pub(crate) use examples::run_examples;
pub(crate) use links::{links, target};

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result};

/// The two commands for a fresh clone.
const COMMANDS: &[&str] = &["cargo run --release -- exec -c 'print(6*7)'", "cargo xtask test"];

/// The page that newcomers read first.
const README: &str = "README.md";

/// The folder with the pages of the book, and its table of contents.
pub(crate) const BOOK: &str = "docs";
pub(crate) const SUMMARY: &str = "SUMMARY.md";

/// The documents that are part of the book without being in its folder.
pub(crate) const AT_THE_ROOT: &[&str] = &[README, "SECURITY.md", "ARCHITECTURE.md", "CHANGELOG.md"];

/// One Markdown file.
#[derive(Debug)]
pub(crate) struct Document {
    /// Path from the root of the repository.
    pub(crate) path: PathBuf,
    pub(crate) text: String,
}

/// Reads the documents at the root and all pages of the book.
pub(crate) fn documents(root: &Path) -> Result<Vec<Document>> {
    let mut paths: Vec<PathBuf> = AT_THE_ROOT.iter().map(PathBuf::from).collect();
    let folder = root.join(BOOK);
    let mut pages = Vec::new();
    for entry in fs::read_dir(&folder).with_context(|| format!("cannot list {}", folder.display()))? {
        let name = PathBuf::from(entry.with_context(|| format!("cannot list {}", folder.display()))?.file_name());
        if name.extension().is_some_and(|extension| extension == "md") {
            pages.push(Path::new(BOOK).join(name));
        }
    }
    pages.sort();
    paths.extend(pages);
    paths
        .into_iter()
        .map(|path| {
            let text =
                fs::read_to_string(root.join(&path)).with_context(|| format!("cannot read {}", path.display()))?;
            Ok(Document { path, text })
        })
        .collect()
}

/// Returns one sentence for each problem of the documents at `root`. `tasks` are the commands of `cargo xtask`.
pub fn document_violations(root: &Path, tasks: &[&str]) -> Result<Vec<String>> {
    let documents = documents(root)?;
    let mut violations = Vec::new();
    for document in &documents {
        let shown = document.path.display();
        if document.path == Path::new(README) {
            violations.extend(missing_commands(&document.text));
        }
        for task in unknown_tasks(&document.text, tasks) {
            violations.push(format!("{shown}: `cargo xtask {task}` does not exist"));
        }
        violations.extend(links::violations(root, document));
    }
    violations.extend(unlisted_pages(&documents));
    Ok(violations)
}

fn missing_commands(readme: &str) -> Vec<String> {
    let missing = COMMANDS.iter().filter(|command| !readme.contains(*command));
    missing.map(|command| format!("{README}: the command `{command}` is missing")).collect()
}

fn unknown_tasks<'a>(text: &'a str, tasks: &[&str]) -> Vec<&'a str> {
    let ends = |c: char| !c.is_ascii_alphanumeric() && c != '-';
    let named = text.split("cargo xtask ").skip(1).filter_map(|rest| rest.split(ends).next());
    // `cargo xtask COMMAND` stands for any of them.
    named.filter(|name| !tasks.contains(name) && *name != "COMMAND").collect()
}

/// Pages that the table of contents does not list.
fn unlisted_pages(documents: &[Document]) -> Vec<String> {
    let summary = Path::new(BOOK).join(SUMMARY);
    let Some(contents) = documents.iter().find(|document| document.path == summary) else {
        return vec![format!("{} is missing", summary.display())];
    };
    let listed: Vec<PathBuf> = links(&contents.text).iter().filter_map(|link| target(&summary, link.address)).collect();
    let unlisted = documents.iter().filter(|document| document.path != summary && !listed.contains(&document.path));
    unlisted.map(|document| format!("{}: {} is not listed", summary.display(), document.path.display())).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn document(path: &str, text: &str) -> Document {
        Document { path: PathBuf::from(path), text: text.to_owned() }
    }

    #[test]
    fn the_readme_has_both_commands() {
        assert_eq!(missing_commands(&COMMANDS.join("\n")), Vec::<String>::new());
        assert_eq!(missing_commands("").len(), COMMANDS.len());
    }

    #[test]
    fn tasks_must_exist() {
        let tasks = ["test", "soak"];
        assert_eq!(unknown_tasks("`cargo xtask soak` and `cargo xtask COMMAND`", &tasks), Vec::<&str>::new());
        assert_eq!(unknown_tasks("`cargo xtask nothing`", &tasks), ["nothing"]);
    }

    #[test]
    fn the_table_of_contents_lists_every_page() {
        let pages = || vec![document("docs/a.md", ""), document("SECURITY.md", "")];
        let mut whole = pages();
        whole.push(document("docs/SUMMARY.md", "- [A](a.md)\n- [Security](../SECURITY.md)\n"));
        assert_eq!(unlisted_pages(&whole), Vec::<String>::new());
        let mut partial = pages();
        partial.push(document("docs/SUMMARY.md", "- [Security](../SECURITY.md)\n"));
        assert_eq!(unlisted_pages(&partial), ["docs/SUMMARY.md: docs/a.md is not listed"]);
        assert_eq!(unlisted_pages(&pages()), ["docs/SUMMARY.md is missing"]);
    }
}
