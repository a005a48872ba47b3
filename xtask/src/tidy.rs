//! Style rules that the compiler does not check.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result};

/// Maximum number of lines of a file.
const MAX_LINES: usize = 800;
/// Number of lines from which a file counts as full.
const FULL_LINES: usize = 400;
/// Names that do not say what is inside.
const EMPTY_NAMES: &[&str] = &["utils", "common", "helpers", "manager"];
/// Split in two, so that this file does not break the rule itself.
const ALLOW_ATTRIBUTES: &[&str] = &[concat!("#", "[allow("), concat!("#", "![allow(")];
const SOURCE_FOLDERS: &[&str] = &["crates", "xtask"];
const SKIPPED_FOLDERS: &[&str] = &["target", "node_modules", "__pycache__"];

/// Findings of the rules.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct TidyReport {
    /// Violations, which must be fixed.
    pub violations: Vec<String>,
    /// Warnings, which become violations if the files grow.
    pub warnings: Vec<String>,
}

/// Checks every Rust file of the repository at `root`.
pub fn tidy_report(root: &Path) -> Result<TidyReport> {
    let mut report = TidyReport::default();
    for path in source_files(root)? {
        let text = fs::read_to_string(&path).with_context(|| format!("cannot read {}", path.display()))?;
        inspect(path.strip_prefix(root).unwrap_or(&path), &text, &mut report);
    }
    Ok(report)
}

/// Every Rust file of the repository at `root`.
pub(crate) fn source_files(root: &Path) -> Result<Vec<PathBuf>> {
    let mut files = Vec::new();
    for folder in SOURCE_FOLDERS.iter().map(|folder| root.join(folder)) {
        files.extend(rust_files(&folder)?);
    }
    Ok(files)
}

fn rust_files(folder: &Path) -> Result<Vec<PathBuf>> {
    let mut files = Vec::new();
    let entries = fs::read_dir(folder).with_context(|| format!("cannot list {}", folder.display()))?;
    for entry in entries {
        let entry = entry.with_context(|| format!("cannot list {}", folder.display()))?;
        let name = entry.file_name();
        let name = name.to_string_lossy();
        let kind = entry.file_type().with_context(|| format!("cannot read {}", entry.path().display()))?;
        if kind.is_dir() && !name.starts_with('.') && !SKIPPED_FOLDERS.contains(&&*name) {
            files.extend(rust_files(&entry.path())?);
        } else if kind.is_file() && entry.path().extension().is_some_and(|extension| extension == "rs") {
            files.push(entry.path());
        }
    }
    files.sort();
    Ok(files)
}

fn inspect(path: &Path, text: &str, report: &mut TidyReport) {
    let shown = path.display();
    let file_name = path.file_name().unwrap_or_default();
    if file_name == "mod.rs" {
        report.violations.push(format!("{shown}: a module is `foo.rs` beside `foo/`, not `mod.rs`"));
    }
    if let Some(name) = empty_name(path) {
        report.violations.push(format!("{shown}: `{name}` says nothing about what is inside: find its noun"));
    }
    match text.lines().count() {
        lines if lines > MAX_LINES => {
            report.violations.push(format!("{shown}: {lines} lines, over {MAX_LINES}: it is two files"));
        }
        lines if lines > FULL_LINES => {
            report.warnings.push(format!("{shown}: {lines} lines, over {FULL_LINES}: it is full"));
        }
        _ => {}
    }
    for (number, line) in text.lines().enumerate() {
        let is_comment = line.trim_start().starts_with("//");
        if !is_comment && ALLOW_ATTRIBUTES.iter().any(|attribute| line.contains(attribute)) {
            report.violations.push(format!(
                "{shown}:{}: write `#[expect(…, reason = \"…\")]`, which tells when it is no longer needed",
                number + 1
            ));
        }
    }
}

/// Part of the path below `src` that is one of [`EMPTY_NAMES`].
fn empty_name(path: &Path) -> Option<&'static str> {
    let below_source = path.iter().skip_while(|part| *part != "src").skip(1);
    below_source
        .filter_map(|part| Path::new(part).file_stem())
        .find_map(|stem| EMPTY_NAMES.iter().copied().find(|name| stem == *name))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn report(path: &str, text: &str) -> TidyReport {
        let mut report = TidyReport::default();
        inspect(Path::new(path), text, &mut report);
        report
    }

    #[track_caller]
    fn refused(path: &str, text: &str, because: &str) {
        let report = report(path, text);
        assert_eq!(report.violations.len(), 1, "{report:?}");
        assert!(report.violations[0].contains(because), "{report:?}");
    }

    #[track_caller]
    fn passes(path: &str, text: &str) {
        assert_eq!(report(path, text), TidyReport::default());
    }

    #[test]
    fn mod_rs_is_refused() {
        refused("crates/engine/src/broker/mod.rs", "", "not `mod.rs`");
        passes("crates/engine/src/broker.rs", "");
    }

    #[test]
    fn meaningless_names_are_refused() {
        for name in EMPTY_NAMES {
            refused(&format!("crates/engine/src/{name}.rs"), "", "find its noun");
            refused(&format!("crates/engine/src/{name}/broker.rs"), "", "find its noun");
        }
        passes("crates/engine/src/common_ground.rs", "");
        passes("crates/engine/tests/common.rs", "");
    }

    #[test]
    fn long_files_are_refused_and_full_ones_warned_about() {
        refused("crates/engine/src/broker.rs", &"\n".repeat(MAX_LINES + 1), "it is two files");
        let full = report("crates/engine/src/broker.rs", &"\n".repeat(MAX_LINES));
        assert_eq!(full.violations, Vec::<String>::new());
        assert_eq!(full.warnings, ["crates/engine/src/broker.rs: 800 lines, over 400: it is full"]);
        passes("crates/engine/src/broker.rs", &"\n".repeat(FULL_LINES));
    }

    #[test]
    fn allow_attributes_are_refused() {
        for attribute in ALLOW_ATTRIBUTES {
            let text = format!("\nfn f() {{}} {attribute}dead_code)]\n");
            refused("crates/engine/src/broker.rs", &text, "broker.rs:2: write `#[expect(");
        }
        passes("crates/engine/src/broker.rs", "#[expect(dead_code, reason = \"why\")]\n");
        passes("crates/engine/src/broker.rs", &format!("// not {}…)]\n", ALLOW_ATTRIBUTES[0]));
    }
}
