//! A data folder written by an earlier build opens, and everything in it is still there.
//!
//! `fixtures/data_folder_v7` is the folder of a build with schema version 7: the database as SQL, the workspaces as they
//! were. Fixtures are never changed; a later schema gets a fixture of its own beside it.

use coracle_testing::place::Place;
use serde_json::Value;
use std::fs;
use std::path::Path;
use std::process::Command;

const FIXTURE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/fixtures/data_folder_v7");

/// Writes the database that a script describes.
const LOAD: &str = "import sqlite3, sys; sqlite3.connect(sys.argv[1]).executescript(open(sys.argv[2]).read())";

fn earlier() -> Place {
    let place = Place::new();
    let database = place.put_below(&place.home(), "store/coracle.db", "");
    let script = Path::new(FIXTURE).join("store.sql");
    let loaded = Command::new("python3").args(["-I", "-c", LOAD]).args([&database, &script]).output().unwrap();
    assert!(loaded.status.success(), "{loaded:?}");
    copy(&place, &Path::new(FIXTURE).join("workspaces"), "workspaces");
    place
}

fn copy(place: &Place, from: &Path, to: &str) {
    for entry in fs::read_dir(from).unwrap().flatten() {
        let name = format!("{to}/{}", entry.file_name().to_str().unwrap());
        if entry.path().is_dir() {
            copy(place, &entry.path(), &name);
        } else {
            place.put_below(&place.home(), &name, &fs::read_to_string(entry.path()).unwrap());
        }
    }
}

fn json(place: &Place, arguments: &[&str]) -> Value {
    let said = place.run(arguments);
    assert_eq!(said.code, Some(0), "{arguments:?}: {said:?}");
    serde_json::from_str(&said.stdout).unwrap()
}

#[test]
fn a_data_folder_of_schema_7_opens_with_everything_in_it() {
    let place = earlier();
    let names = |list: &Value, key: &str| -> Vec<String> {
        list.as_array().unwrap().iter().map(|entry| entry[key].as_str().unwrap().to_owned()).collect()
    };
    assert_eq!(names(&json(&place, &["users", "list", "--json"]), "name"), ["ann", "bob"]);
    assert_eq!(names(&json(&place, &["users", "keys", "list", "ann", "--json"]), "name"), ["ci"]);
    let sessions = json(&place, &["sessions", "list", "--user", "ann", "--json"]);
    assert_eq!((names(&sessions, "label"), &sessions[0]["tasks"]), (vec!["analysis".to_owned()], &2.into()));
    let log = json(&place, &["sessions", "export", "analysis", "--user", "ann"]);
    assert!(log.to_string().contains("checkpoint") && log.to_string().contains("loaded"), "{log:#}");
    assert_eq!(names(&json(&place, &["artifacts", "list", "--user", "ann", "--json"]), "name"), ["report.csv"]);
    let skills = json(&place, &["skills", "list", "--user", "ann", "--json"]);
    assert!(skills.to_string().contains("Doubles a number"), "{skills:#}");
    // Nothing of one user is another's.
    assert_eq!(json(&place, &["sessions", "list", "--user", "bob", "--json"]), Value::Array(Vec::new()));
    // New work goes on in the same folder.
    assert_eq!(place.run(&["exec", "--session", "analysis", "-c", "print(6 * 7)"]).stdout, "42\n");
    assert_eq!(names(&json(&place, &["sessions", "list", "--json"]), "label"), ["analysis"]);
}
