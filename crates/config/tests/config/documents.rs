//! The settings in the README and in `docs/` load as they are.

use crate::case::Case;
use std::fs;
use std::path::{Path, PathBuf};

/// Has a task of a benchmark instead.
const NO_SETTINGS: &str = "tokens.md";

fn documents() -> Vec<PathBuf> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let pages = fs::read_dir(root.join("docs")).unwrap().map(|entry| entry.unwrap().path());
    let is_page = |path: &PathBuf| path.extension().is_some_and(|extension| extension == "md");
    let pages = pages.filter(is_page).filter(|path| !path.ends_with(NO_SETTINGS));
    pages.chain([root.join("README.md")]).collect()
}

#[test]
fn settings_in_documents_load() {
    let mut number = 0;
    for path in documents() {
        let text = fs::read_to_string(&path).unwrap();
        for block in text.split("```yaml\n").skip(1) {
            let yaml = block.split("```").next().unwrap();
            let case = Case::new().env("API_TOKEN", "a-token-of-the-example").file(yaml);
            let loaded = case.load();
            assert!(loaded.is_ok(), "{}: {}\n{yaml}", path.display(), loaded.unwrap_err());
            assert_eq!(case.warnings(), Vec::<String>::new(), "{}\n{yaml}", path.display());
            number += 1;
        }
    }
    assert!(number >= 5, "the control: {number} blocks");
}
