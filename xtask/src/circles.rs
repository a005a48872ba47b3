//! Circles of imports between the files of a crate.
//!
//! The source is read as tokens, not parsed: that is enough for paths, works inside of macros, and needs no parser.

mod modules;
mod resolve;

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result};

use modules::{Binding, Import, Module, ModuleId, Modules, Named};
use resolve::Found;

/// The shortest circle of each group of modules that all use each other, directly or not: one line each, such as
/// `crates/engine/src: broker.rs:11 → request/direct.rs:1 → broker.rs`, where each file is followed by the line that
/// uses the next one.
///
/// Towards the rest of the crate, a module and the modules below it are one unit: what `journal/file.rs` uses, `journal`
/// uses. Among the modules that are declared in the same file, no unit may use another one that uses it, directly or
/// through others. A module and one below it may use each other: what the files of a folder share may be
/// in the file that declares them.
///
/// A name that is re-exported counts as used from the file that defines it, and a module that only re-exports a name does
/// not use it. What only tests use does not count, nor do methods that are called without naming their type.
pub fn circle_violations(root: &Path) -> Result<Vec<String>> {
    let mut violations = Vec::new();
    for source in source_folders(root)? {
        for target in targets(&source)? {
            let modules = Modules::read(&target)?;
            let graph = graph(&modules);
            violations.extend(circles(&graph).iter().map(|circle| shown(circle, &graph, &modules, root, &source)));
        }
    }
    Ok(violations)
}

fn source_folders(root: &Path) -> Result<Vec<PathBuf>> {
    let crates = root.join("crates");
    let entries = fs::read_dir(&crates).with_context(|| format!("cannot list {}", crates.display()))?;
    let mut folders = vec![root.join("xtask/src")];
    for entry in entries {
        folders.push(entry.with_context(|| format!("cannot list {}", crates.display()))?.path().join("src"));
    }
    folders.retain(|folder| folder.is_dir());
    folders.sort();
    Ok(folders)
}

/// The root modules of a crate's library and programs.
fn targets(source: &Path) -> Result<Vec<PathBuf>> {
    let mut targets = vec![source.join("lib.rs"), source.join("main.rs")];
    let programs = source.join("bin");
    if programs.is_dir() {
        for entry in fs::read_dir(&programs).with_context(|| format!("cannot list {}", programs.display()))? {
            targets.push(entry.with_context(|| format!("cannot list {}", programs.display()))?.path());
        }
    }
    targets.retain(|target| target.is_file());
    targets.sort();
    Ok(targets)
}

/// Which unit uses which, and where it says so first.
type Graph = BTreeMap<ModuleId, BTreeMap<ModuleId, Line>>;

/// A line of a module that uses another unit.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Line {
    module: ModuleId,
    number: usize,
}

fn graph(modules: &Modules) -> Graph {
    let mut graph = Graph::new();
    for (id, module) in modules.all.iter().enumerate() {
        let mut add = |path: &Named| {
            let Some(Found::ItemOf(used)) = modules.resolve(id, &path.segments) else { return };
            let Some((from, to)) = units(modules, id, used) else { return };
            let here = Line { module: id, number: path.line };
            let first = graph.entry(from).or_default().entry(to).or_insert(here);
            *first = here.min(*first);
        };
        module.imports.iter().filter(|import| is_used(import, module)).for_each(|import| add(&import.path));
        module.paths.iter().for_each(add);
    }
    graph
}

/// A module that only passes a name on does not use it.
fn is_used(import: &Import, module: &Module) -> bool {
    match &import.binds {
        Binding::Name(name) => !import.is_public || module.identifiers.contains(name),
        Binding::Glob | Binding::Nothing => !import.is_public,
    }
}

/// The units of two modules where their ways from the root part; `None` if one is below the other.
fn units(modules: &Modules, one: ModuleId, other: ModuleId) -> Option<(ModuleId, ModuleId)> {
    let (one, other) = (from_root(modules, one), from_root(modules, other));
    one.into_iter().zip(other).find(|(one, other)| one != other)
}

/// The files' modules on the way from the root to a module. Modules that are written inline are part of their file.
fn from_root(modules: &Modules, module: ModuleId) -> Vec<ModuleId> {
    let mut way = vec![module];
    let mut current = module;
    while let Some(parent) = modules.all[current].parent {
        if modules.all[parent].file == modules.all[current].file {
            way.pop();
        }
        way.push(parent);
        current = parent;
    }
    way.reverse();
    way
}

fn circles(graph: &Graph) -> Vec<Vec<ModuleId>> {
    let mut found = Vec::new();
    let mut done = BTreeSet::new();
    for start in graph.keys().copied() {
        if let (false, Some(circle)) = (done.contains(&start), circle_from(graph, start)) {
            done.extend(reached(graph, start).into_iter().filter(|other| reached(graph, *other).contains(&start)));
            found.push(circle);
        }
    }
    found
}

fn used_by(graph: &Graph, unit: ModuleId) -> impl Iterator<Item = ModuleId> {
    graph.get(&unit).into_iter().flat_map(|used| used.keys().copied())
}

fn reached(graph: &Graph, start: ModuleId) -> BTreeSet<ModuleId> {
    let mut reached = BTreeSet::new();
    let mut next = vec![start];
    while let Some(unit) = next.pop() {
        next.extend(used_by(graph, unit).filter(|used| reached.insert(*used)));
    }
    reached
}

/// The shortest way from a unit back to itself.
fn circle_from(graph: &Graph, start: ModuleId) -> Option<Vec<ModuleId>> {
    let mut ways = VecDeque::from([vec![start]]);
    let mut seen = BTreeSet::new();
    while let Some(way) = ways.pop_front() {
        for used in used_by(graph, *way.last()?) {
            if used == start {
                return Some(way);
            }
            if seen.insert(used) {
                ways.push_back(way.iter().copied().chain([used]).collect());
            }
        }
    }
    None
}

fn shown(circle: &[ModuleId], graph: &Graph, modules: &Modules, root: &Path, source: &Path) -> String {
    let file = |module: ModuleId| {
        let file = &modules.all[module].file;
        file.strip_prefix(source).unwrap_or(file).display()
    };
    let mut text = format!("{}: ", source.strip_prefix(root).unwrap_or(source).display());
    for (unit, next) in circle.iter().zip(circle.iter().cycle().skip(1)) {
        if let Some(line) = graph.get(unit).and_then(|used| used.get(next)) {
            // Writing to a `String` cannot fail.
            let _ = write!(text, "{}:{} → ", file(line.module), line.number);
        }
    }
    if let Some(first) = circle.first() {
        let _ = write!(text, "{}", file(*first));
    }
    text
}
