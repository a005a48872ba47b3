//! Generations of modules on disk.

use crate::definitions;
use coracle_catalog::{Catalog, Modules, ROOT, Tree, generate, remove_trees, write_tree};
use serde_json::json;
use std::fs;
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _};
use std::path::Path;

fn tree(description: &str) -> Tree {
    let tools = [json!({ "name": "t", "description": description, "inputSchema": {} })];
    generate(&[definitions::server("s", None, &tools)])
}

fn same(folder: &Path, tree: &Tree) {
    let mut count = 0;
    for (path, text) in tree.files() {
        assert_eq!(fs::read_to_string(folder.join(path)).unwrap(), text);
        assert_eq!(fs::metadata(folder.join(path)).unwrap().permissions().mode() & 0o777, 0o444);
        count += 1;
    }
    assert_eq!(count, 7);
    assert_eq!(fs::metadata(folder.join("servers/s")).unwrap().permissions().mode() & 0o777, 0o755);
}

#[test]
fn a_tree_is_written_once() {
    let home = tempfile::tempdir().unwrap();
    let dir = home.path().join("cache/tools");
    let first = write_tree(&dir, &tree("one")).unwrap();
    same(&first, &tree("one"));
    let made = fs::metadata(&first).unwrap().ino();
    assert_eq!(write_tree(&dir, &tree("one")).unwrap(), first);
    assert_eq!(fs::metadata(&first).unwrap().ino(), made);
    let second = write_tree(&dir, &tree("two")).unwrap();
    assert_ne!(first, second);
    same(&second, &tree("two"));
}

#[test]
fn concurrent_writers_produce_one_complete_tree() {
    let home = tempfile::tempdir().unwrap();
    let folders: Vec<_> = std::thread::scope(|scope| {
        let writers: Vec<_> = (0..8).map(|_| scope.spawn(|| write_tree(home.path(), &tree("one")).unwrap())).collect();
        writers.into_iter().map(|writer| writer.join().unwrap()).collect()
    });
    assert!(folders.iter().all(|folder| *folder == folders[0]));
    same(&folders[0], &tree("one"));
    let left: Vec<_> = fs::read_dir(home.path()).unwrap().map(|entry| entry.unwrap().path()).collect();
    assert_eq!(left, [folders[0].clone()]);
}

#[test]
fn only_old_generations_are_removed() {
    let home = tempfile::tempdir().unwrap();
    let first = write_tree(home.path(), &tree("one")).unwrap();
    let second = write_tree(home.path(), &tree("two")).unwrap();
    fs::write(home.path().join("mine"), "x").unwrap();
    assert_eq!(remove_trees(home.path(), &[&second]).unwrap(), 1);
    assert!(!first.exists() && second.exists() && home.path().join("mine").exists());
    assert_eq!(remove_trees(&home.path().join("nowhere"), &[]).unwrap(), 0);
}

#[test]
fn a_folder_that_is_not_writable_is_reported() {
    let home = tempfile::tempdir().unwrap();
    let file = home.path().join("file");
    fs::write(&file, "x").unwrap();
    let error = write_tree(&file, &tree("one")).unwrap_err();
    assert_eq!(error.code(), "catalog_files");
    assert!(error.to_string().contains("file"), "{error}");
}

#[test]
fn packages_are_written_when_they_are_needed() {
    let scratch = tempfile::tempdir().unwrap();
    let server = |name: &str| {
        let tools = [json!({ "name": "look", "description": "Looks", "inputSchema": { "type": "object" } })];
        definitions::server(name, None, &tools)
    };
    let catalog = Catalog::new(vec![server("one"), server("two"), server("three")]);
    let modules = Modules::new(scratch.path(), &catalog);
    let root = modules.folder().join(ROOT);
    assert!(!root.exists() && !modules.is_complete(), "nothing is written ahead of time");
    modules.write(&catalog, |name| name == "two").unwrap();
    assert!(root.join("two/look.py").is_file() && !root.join("one").exists() && !modules.is_complete());
    let listing = std::fs::read_to_string(root.join("__init__.py")).unwrap();
    assert!(listing.contains("one: 1 tools") && listing.contains("three: 1 tools"), "{listing}");
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| modules.complete(&catalog).unwrap());
        }
    });
    assert!(modules.is_complete());
    // The bytes are the same as when everything is written at once.
    for (path, text) in catalog.tree().files() {
        assert_eq!(std::fs::read_to_string(modules.folder().join(path)).unwrap(), text, "{path}");
    }
    let same = Catalog::new(vec![server("three"), server("one"), server("two")]);
    assert_eq!(Modules::new(scratch.path(), &same).folder(), modules.folder(), "whatever the order");
    let other = Catalog::new(vec![server("one"), server("two")]);
    assert_ne!(Modules::new(scratch.path(), &other).folder(), modules.folder());
    assert_eq!(std::fs::read_dir(scratch.path()).unwrap().count(), 1, "nothing is left behind");
}
