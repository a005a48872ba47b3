//! `cargo xtask docs`: the documentation as a book.
//!
//! mdBook wants all pages in one folder. `SECURITY.md` and the like are at the root of the repository, where people look
//! for them, so the pages are copied and their links adjusted.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context as _, Result, bail};

use crate::documents::{AT_THE_ROOT, BOOK, Document, documents, links};
use crate::metadata::{Metadata, Resolve, repository};

const INSTALL: &str = "`mdbook` is not on PATH: install it with `cargo install mdbook --locked`, or take a binary from \
                       https://github.com/rust-lang/mdBook/releases";

/// Builds the book below cargo's target folder.
pub(crate) fn build() -> Result<()> {
    let target = Metadata::load(Resolve::Members)?.target_directory.join("book");
    let source = target.join("source");
    if source.exists() {
        fs::remove_dir_all(&source).with_context(|| format!("cannot empty {}", source.display()))?;
    }
    assemble(&repository(), &source)?;
    let mut mdbook = Command::new("mdbook");
    mdbook.arg("build").arg(&source).arg("--dest-dir").arg(target.join("html"));
    let status = match mdbook.status() {
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => bail!(INSTALL),
        status => status.context("cannot start mdbook")?,
    };
    if !status.success() {
        bail!("mdbook failed: {status}");
    }
    eprintln!("{}", target.join("html/index.html").display());
    Ok(())
}

/// Copies everything that the book has to `source`.
fn assemble(root: &Path, source: &Path) -> Result<()> {
    fs::create_dir_all(source).with_context(|| format!("cannot create {}", source.display()))?;
    for folder in [root.join(BOOK), root.join(BOOK).join("pictures")] {
        for entry in fs::read_dir(&folder).with_context(|| format!("cannot list {}", folder.display()))? {
            let path = entry.with_context(|| format!("cannot list {}", folder.display()))?.path();
            let is_left_out = path.extension().is_some_and(|extension| extension == "md" || extension == "mjs");
            if let Some(name) = path.file_name().filter(|_| path.is_file() && !is_left_out) {
                fs::copy(&path, source.join(name)).with_context(|| format!("cannot copy {}", path.display()))?;
            }
        }
    }
    for document in documents(root)? {
        let Some(name) = name_in_book(&document.path) else { continue };
        fs::write(source.join(&name), page(&document)).with_context(|| format!("cannot write {}", name.display()))?;
    }
    Ok(())
}

/// The file name of a document in the book, if it is part of it.
fn name_in_book(path: &Path) -> Option<PathBuf> {
    let is_part = path.starts_with(BOOK) || AT_THE_ROOT.iter().any(|name| path == Path::new(name));
    is_part.then(|| path.file_name().map(PathBuf::from)).flatten()
}

/// The text of a document with links as they are in the book. A link to a file that the book lacks becomes plain text.
fn page(document: &Document) -> String {
    let mut text = String::new();
    let mut done = 0;
    for link in links(&document.text) {
        let Some(target) = crate::documents::target(&document.path, link.address) else { continue };
        text.push_str(&document.text[done..link.start]);
        done = link.end;
        let heading = link.address.find('#').map_or("", |place| &link.address[place..]);
        match name_in_book(&target) {
            Some(name) => text.extend(["[", link.text, "](", &name.to_string_lossy(), heading, ")"]),
            None => text.push_str(link.text),
        }
    }
    text.push_str(&document.text[done..]);
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn links_lead_to_pages_of_the_book() {
        let page = |path: &str, text: &str| super::page(&Document { path: PathBuf::from(path), text: text.to_owned() });
        let text = "[a](guide.md#limits), [b](../SECURITY.md), [c](../examples/), [d](https://example.org/).";
        assert_eq!(page("docs/x.md", text), "[a](guide.md#limits), [b](SECURITY.md), c, [d](https://example.org/).");
        assert_eq!(page("SECURITY.md", "[`a`](docs/guide.md) [b](#b)"), "[`a`](guide.md) [b](SECURITY.md#b)");
    }

    #[test]
    fn the_book_has_every_page_that_its_contents_list() {
        let source = tempfile::tempdir().unwrap();
        assemble(&repository(), source.path()).unwrap();
        let contents = fs::read_to_string(source.path().join("SUMMARY.md")).unwrap();
        let listed = links(&contents);
        assert!(listed.len() > 10, "{listed:?}");
        for link in listed {
            assert!(source.path().join(link.address).is_file(), "{}", link.address);
        }
        assert!(source.path().join("book.toml").is_file());
        let page = fs::read_to_string(source.path().join("page.md")).unwrap();
        let pictures: Vec<&str> = page.split("](").skip(1).filter_map(|rest| rest.split(')').next()).collect();
        let pictures: Vec<&&str> = pictures.iter().filter(|address| address.contains(".webp")).collect();
        assert!(pictures.len() > 2 && pictures.iter().all(|name| source.path().join(name).is_file()), "{pictures:?}");
    }
}
