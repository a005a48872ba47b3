//! A data folder written by an earlier build opens, and everything in it is still there.
//!
//! `fixtures/data_folder_v7` is the folder of a build with schema version 7: the database as SQL, the workspaces as they
//! were. That of version 10 also has conversations, and a master key that opens a secret. Fixtures are never changed; a
//! later schema gets a fixture of its own beside them.

use coracle_testing::place::Place;
use serde_json::Value;
use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::process::Command;

const FIXTURES: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/fixtures");

/// Writes the database that a script describes.
const LOAD: &str = "import sqlite3, sys; sqlite3.connect(sys.argv[1]).executescript(open(sys.argv[2]).read())";

fn earlier(fixture: &str) -> Place {
    let (place, fixture) = (Place::new(), Path::new(FIXTURES).join(fixture));
    let database = place.put_below(&place.home(), "store/coracle.db", "");
    let script = fixture.join("store.sql");
    let loaded = Command::new("python3").args(["-I", "-c", LOAD]).args([&database, &script]).output().unwrap();
    assert!(loaded.status.success(), "{loaded:?}");
    copy(&place, &fixture.join("workspaces"), "workspaces");
    if let Ok(key) = fs::read_to_string(fixture.join("master.key")) {
        let key_file = place.put_below(&place.home(), "master.key", &key);
        fs::set_permissions(key_file, fs::Permissions::from_mode(0o600)).unwrap();
    }
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
    let place = earlier("data_folder_v7");
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

/// What an export of a user has, by the names of its files.
fn exported(place: &Place, user: &str) -> Vec<(String, String)> {
    let folder = tempfile::tempdir().unwrap();
    let (archive, unpacked) = (folder.path().join("export.tar"), folder.path().join("unpacked"));
    let said = place.run(&["users", "export", user, "--to", archive.to_str().unwrap()]);
    assert_eq!(said.code, Some(0), "{said:?}");
    fs::create_dir(&unpacked).unwrap();
    let done = Command::new("tar").arg("-xf").arg(&archive).arg("-C").arg(&unpacked).status().unwrap();
    assert!(done.success());
    let mut found = Vec::new();
    let mut folders = vec![unpacked.clone()];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(folder).unwrap().flatten() {
            if entry.path().is_dir() {
                folders.push(entry.path());
            } else if let Ok(text) = fs::read_to_string(entry.path()) {
                let name = entry.path().strip_prefix(&unpacked).unwrap().to_str().unwrap().to_owned();
                found.push((name, text));
            }
        }
    }
    found.sort();
    found
}

#[test]
fn a_data_folder_of_schema_10_opens_with_everything_in_it() {
    let place = earlier("data_folder_v10");
    let found = exported(&place, "ann");
    let text = |name: &str| {
        let found = found.iter().find(|(found, _)| found.starts_with(name));
        found.unwrap_or_else(|| panic!("no {name}: {found:?}")).1.as_str()
    };
    let conversation = text("conversations/");
    for part in ["Delete the old rows.", "I look at the rows.", "wipe(what=", "sums are in sums.csv", "topic"] {
        assert!(conversation.contains(part), "{part}: {conversation}");
    }
    let runs: Vec<&str> = found.iter().filter(|(name, _)| name.starts_with("runs/")).map(|(_, text)| &**text).collect();
    assert_eq!(runs.len(), 2);
    assert!(runs.iter().any(|run| run.contains("Forty-two.")), "{runs:?}");
    let parsed = |name: &str| -> Value { serde_json::from_str(text(name)).unwrap() };
    let approvals = parsed("approvals.json");
    assert_eq!((&approvals[0]["tool"], approvals.as_array().unwrap().len()), (&"wipe".into(), 1), "{approvals}");
    assert!(parsed("token_use.json")[0]["tokens"].as_u64() > Some(0));
    // The secret can be decrypted, but is not exported.
    assert_eq!(parsed("secrets.json")["provider_keys"], serde_json::json!(["openai"]));
    assert!(!format!("{found:?}").contains("sk-fixture"));
    assert_eq!(parsed("keys.json")[0]["name"], "ci");
    assert!(text("sessions/").contains("x = 6 * 7"));
    assert!(text("workspace/skills/double.py").contains("2 * x"));
    assert!(text("workspace/artifacts/").contains("6,7"));
    let bobs = exported(&place, "bob");
    assert!(!format!("{bobs:?}").contains("rows"), "{bobs:?}");
    // New work goes on in the same folder.
    assert_eq!(place.run(&["exec", "--session", "analysis", "-c", "print(6 * 7)"]).stdout, "42\n");
}
