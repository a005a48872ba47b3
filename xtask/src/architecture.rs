//! The crates in `ARCHITECTURE.md` compared with the `Cargo.toml` files.
//!
//! The table must list exactly the dependencies between crates. The drawing may leave some out, but must not have others.

mod drawing;

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::fs;
use std::path::Path;

use anyhow::{Context as _, Result, bail};

use crate::metadata::{DependencyKind, Metadata, Package};

const DOCUMENT: &str = "ARCHITECTURE.md";

const HEADER: &str = "| crate | depends on |";
const SEPARATOR: &str = "|---|---|";
/// What the table says of a crate without dependencies.
const NONE: &str = "none";

/// The crates of the repository, each with those that it depends on. Names have no prefix.
type Crates = BTreeMap<String, BTreeSet<String>>;

/// Returns one sentence for each difference between `ARCHITECTURE.md` at `root` and the dependencies between crates, and
/// the right table if the one in the document is wrong.
pub fn architecture_violations(root: &Path, metadata: &Metadata) -> Result<Vec<String>> {
    let document = fs::read_to_string(root.join(DOCUMENT)).with_context(|| format!("cannot read {DOCUMENT}"))?;
    violations(&document, metadata)
}

fn violations(document: &str, metadata: &Metadata) -> Result<Vec<String>> {
    let real = crates(metadata);
    let mut violations = table_violations(&table(document)?, &real);
    if !violations.is_empty() {
        violations.push(format!("the right table in {DOCUMENT} is\n\n{}", rendered(&real)));
    }
    violations.extend(drawing_violations(&drawing::edges(drawing(document)?), &real));
    Ok(violations)
}

fn crates(metadata: &Metadata) -> Crates {
    let short = |name: &str| name.strip_prefix("coracle-").unwrap_or(name).to_owned();
    let members: BTreeSet<&str> = metadata.members().map(|package| package.name.as_str()).collect();
    let dependencies = |package: &Package| {
        let ours = package.dependencies.iter().filter(|dependency| {
            dependency.kind != Some(DependencyKind::Dev) && members.contains(dependency.name.as_str())
        });
        ours.map(|dependency| short(&dependency.name)).collect()
    };
    metadata.members().map(|package| (short(&package.name), dependencies(package))).collect()
}

/// The rows of the table. A row with several crates holds for each of them.
fn table(document: &str) -> Result<Vec<(String, BTreeSet<String>)>> {
    let (_, below) = document.split_once(HEADER).with_context(|| format!("{DOCUMENT} has no table `{HEADER}`"))?;
    let mut rows = Vec::new();
    for line in below.lines().skip(1).take_while(|line| line.starts_with('|')).filter(|line| *line != SEPARATOR) {
        let cells: Vec<&str> = line.trim_matches('|').split('|').collect();
        let [names, dependencies] = cells.as_slice() else {
            bail!("a row of the table in {DOCUMENT} has more or less than two cells: {line}");
        };
        let dependencies: BTreeSet<String> = quoted(dependencies).collect();
        rows.extend(quoted(names).map(|name| (name, dependencies.clone())));
    }
    Ok(rows)
}

/// The words between backquotes.
fn quoted(cell: &str) -> impl Iterator<Item = String> {
    cell.split('`').skip(1).step_by(2).map(str::to_owned)
}

fn table_violations(table: &[(String, BTreeSet<String>)], real: &Crates) -> Vec<String> {
    let mut violations = Vec::new();
    for name in real.keys() {
        let rows = table.iter().filter(|(row, _)| row == name).count();
        if rows != 1 {
            violations.push(format!("`{name}` is in {rows} rows of the table in {DOCUMENT}"));
        }
    }
    for (name, listed) in table {
        let Some(dependencies) = real.get(name) else {
            violations.push(format!("the table in {DOCUMENT} lists `{name}`, which is not a crate of the workspace"));
            continue;
        };
        let missing = dependencies.difference(listed).map(|other| (other, "depends", "does not list it"));
        let wrong = listed.difference(dependencies).map(|other| (other, "does not depend", "lists it"));
        violations.extend(
            missing.chain(wrong).map(|(other, fact, table)| {
                format!("`{name}` {fact} on `{other}`, and the table in {DOCUMENT} {table}")
            }),
        );
    }
    violations
}

/// The table as it should be: from top to bottom, so that a crate comes before those that it depends on.
fn rendered(real: &Crates) -> String {
    let mut names: Vec<&String> = real.keys().collect();
    names.sort_by_key(|name| std::cmp::Reverse(height(real, name)));
    let mut text = format!("{HEADER}\n{SEPARATOR}\n");
    for name in names {
        let mut dependencies: Vec<&String> = real[name].iter().collect();
        dependencies.sort_by_key(|name| std::cmp::Reverse(height(real, name)));
        let list: Vec<String> = dependencies.into_iter().map(|name| format!("`{name}`")).collect();
        let list = if list.is_empty() { NONE.to_owned() } else { list.join(", ") };
        // Writing to a `String` cannot fail.
        let _ = writeln!(text, "| `{name}` | {list} |");
    }
    text
}

/// The length of the longest way down from a crate. Cargo permits no circles, so it ends.
fn height(real: &Crates, name: &str) -> usize {
    real.get(name).into_iter().flatten().map(|below| height(real, below) + 1).max().unwrap_or(0)
}

/// The drawing: the first block of code in the document.
fn drawing(document: &str) -> Result<&str> {
    document.split("```").nth(1).with_context(|| format!("{DOCUMENT} has no drawing"))
}

fn drawing_violations(edges: &[(String, String)], real: &Crates) -> Vec<String> {
    let mut violations = Vec::new();
    if edges.is_empty() {
        violations.push(format!("the drawing in {DOCUMENT} has no arrow between two crates"));
    }
    for (from, to) in edges {
        for name in [from, to].into_iter().filter(|name| !real.contains_key(name.as_str())) {
            violations.push(format!("the drawing in {DOCUMENT} has `{name}`, which is not a crate of the workspace"));
        }
        if real.get(from).is_some_and(|below| real.contains_key(to) && !below.contains(to)) {
            violations.push(format!(
                "the drawing in {DOCUMENT} has an arrow from `{from}` to `{to}`, which is no dependency"
            ));
        }
    }
    violations
}

#[cfg(test)]
mod tests;
