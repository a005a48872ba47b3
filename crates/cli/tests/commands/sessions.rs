//! `coracle sessions`, `backup` and `restore` in normal use, with a real server.

use coracle_testing::place::{Place, installed, mode};
use serde_json::{Value, json};
use std::fs;

fn parsed(text: &str) -> Value {
    serde_json::from_str(text).unwrap_or_else(|error| panic!("{error}: {text}"))
}

/// Runs code in a session, and returns the output of `--json`.
fn exec(place: &Place, session: &str, code: &str) -> Value {
    parsed(&place.run(&["exec", "--json", "--session", session, "-c", code]).stdout)
}

#[test]
fn the_help_matches_the_snapshots() {
    let place = Place::new();
    for command in [&["sessions"][..], &["sessions", "replay"], &["sessions", "export"], &["backup"], &["restore"]] {
        let help = place.output(&[command, &["--help"]].concat());
        insta::assert_snapshot!(format!("{}_help", command.join("_")), help);
    }
}

#[test]
fn without_sessions_there_is_a_hint() {
    let place = Place::new();
    let said = place.run(&["sessions", "list"]);
    assert_eq!((said.code, said.stdout.as_str()), (Some(0), ""), "{said:?}");
    assert!(said.stderr.contains("coracle exec --session NAME"), "{said:?}");
    assert_eq!(place.output(&["sessions", "list", "--json"]), "[]\n");
    let said = place.run(&["sessions", "show", "none"]);
    assert_eq!(said.code, Some(2), "{said:?}");
    assert!(said.stderr.contains("local has no session \"none\""), "{said:?}");
    let said = place.run(&["backup", "x.tar"]);
    assert_eq!(said.code, Some(2), "{said:?}");
    assert_eq!(fs::read_dir(place.home()).unwrap().count(), 0, "listing nothing creates no files");
}

#[test]
fn a_session_is_listed_shown_resumed_exported_replayed_and_ended() {
    let place = Place::new();
    let time = installed("venv/bin/mcp-server-time");
    place.put(
        "coracle.yaml",
        &json!({"mcpServers": {"time": {"command": time}}, "policy": {"tools": {"time.*": "allow"}}}).to_string(),
    );
    let code = "from servers.time import get_current_time\nnow = get_current_time(timezone='Europe/Oslo')\nprint('asked')\nnow['datetime']";
    let first = exec(&place, "watch", code);
    assert_eq!(first["success"], true, "{first:#}");
    let id = first["session_id"].as_str().unwrap().to_owned();
    assert_eq!((&first["session"], first.get("session_restarted")), (&json!("watch"), None));
    let second = exec(&place, "watch", "checkpoint('asked \\x1b[2K', {'n': 1})\nopen('f', 'w').write('x')");
    assert_eq!((&second["session_id"], &second["session_restarted"]), (&json!(id), &json!(true)));

    let listed = parsed(&place.output(&["sessions", "list", "--json"]));
    assert_eq!(
        (&listed[0]["label"], &listed[0]["session_id"], &listed[0]["tasks"]),
        (&json!("watch"), &json!(id), &json!(2))
    );
    assert!(place.output(&["sessions", "list"]).contains("watch"));
    for handle in ["watch", &id, "1", "session_001"] {
        let shown = place.output(&["sessions", "show", handle]);
        assert!(shown.contains("001") && shown.contains("002") && shown.contains("checkpoint asked"), "{shown}");
        assert!(!shown.contains('\u{1b}'), "text of hostile code is escaped");
    }
    let resumed = place.output(&["sessions", "resume", "watch"]);
    assert!(
        resumed.contains("Checkpoint: asked \\u{1b}[2K (by task_002") && resumed.contains("{\"n\":1}"),
        "{resumed}"
    );
    let said = place.run(&["sessions", "show", "watch", "--user", "bob"]);
    assert_eq!(said.code, Some(2), "another user has no such session: {said:?}");

    place.output(&["sessions", "export", "watch", "-o", "log.json"]);
    let export = parsed(&fs::read_to_string(place.folder().join("log.json")).unwrap());
    assert_eq!(export["tasks"][0]["calls"][0]["tool"], "get_current_time");
    assert_eq!(export["tasks"][0]["recorded"]["calls"][0]["what"], "time.get_current_time");

    // The time has passed, but the recorded answer is used.
    let replayed = place.run(&["sessions", "replay", "watch"]);
    assert_eq!(
        (replayed.code, replayed.stdout.as_str()),
        (Some(0), "task 001  same\ntask 002  same\n"),
        "{replayed:?}"
    );
    exec(&place, "watch", "import time\ntime.time_ns()");
    let replayed = place.run(&["sessions", "replay", "watch", "--json"]);
    let told = parsed(&replayed.stdout);
    assert_eq!((replayed.code, &told["tasks"][2]["differences"][0]["what"]), (Some(1), &json!("result")), "{told:#}");
    assert_eq!(parsed(&place.output(&["sessions", "show", "watch", "--json"]))["tasks"].as_array().unwrap().len(), 3);

    place.output(&["sessions", "end", "watch"]);
    let ended = exec(&place, &id, "1");
    assert_eq!((&ended["error_code"], &ended["error"]), (&json!("invalid_request"), &json!("session watch has ended")));
    assert_ne!(exec(&place, "watch", "1")["session_id"], json!(id), "the name is free");
}

#[test]
fn a_backup_can_be_restored_to_another_data_folder() {
    let place = Place::new();
    exec(&place, "work", "open('kept', 'w').write('here')\nn = 1\nn");
    let said = place.run(&["backup", "all.tar"]);
    assert_eq!(said.code, Some(0), "{said:?}");
    assert_eq!(mode(&place.folder().join("all.tar")), 0o600);
    let said = place.run(&["backup", "all.tar"]);
    assert_eq!(said.code, Some(2), "{said:?}");
    assert!(said.stderr.contains("already exists") && said.stderr.contains("--force"), "{said:?}");

    let mut other = Place::new();
    fs::copy(place.folder().join("all.tar"), other.put("all.tar", "")).unwrap();
    let said = other.run(&["restore", "all.tar"]);
    assert_eq!(said.code, Some(0), "{said:?}");
    let next = exec(&other, "work", "[open('kept').read(), 'n' in globals()]");
    assert_eq!((&next["result"], &next["session_restarted"]), (&json!(["here", false]), &json!(true)), "{next:#}");
    let said = other.run(&["restore", "all.tar"]);
    assert_eq!(said.code, Some(2), "{said:?}");
    assert!(said.stderr.contains("already exists"), "{said:?}");
    let said = other.run(&["restore", "all.tar", "--force"]);
    assert_eq!(said.code, Some(0), "{said:?}");
    assert!(said.stderr.contains("the previous data is in"), "{said:?}");
    assert_eq!(parsed(&other.output(&["sessions", "show", "work", "--json"]))["tasks"].as_array().unwrap().len(), 1);

    other.put("none.tar", "this is none");
    other.set("CORACLE_HOME", other.folder().join("fresh").to_str().unwrap());
    let said = other.run(&["restore", "none.tar"]);
    assert_eq!(said.code, Some(2), "{said:?}");
    assert!(said.stderr.contains("is not a backup that can be restored"), "{said:?}");
}

/// Sets the version of the schema like another program, and returns the previous one.
fn schema_version(database: &std::path::Path, version: u32) -> u32 {
    let code = "import sqlite3, sys\nfile = sqlite3.connect(sys.argv[1], isolation_level=None)\n\
                print(file.execute('PRAGMA user_version').fetchone()[0])\n\
                file.execute(f'PRAGMA user_version = {sys.argv[2]}')";
    let output = std::process::Command::new("python3")
        .args(["-c", code])
        .arg(database)
        .arg(version.to_string())
        .output()
        .unwrap();
    assert!(output.status.success(), "{output:?}");
    String::from_utf8(output.stdout).unwrap().trim().parse().unwrap()
}

#[test]
fn an_older_program_refuses_a_newer_data_folder() {
    let place = Place::new();
    exec(&place, "work", "1");
    let database = place.home().join("store/coracle.db");
    let known = schema_version(&database, 1_000);
    for arguments in [&["sessions", "list"][..], &["exec", "--session", "work", "-c", "1"], &["backup", "x.tar"]] {
        let said = place.run(arguments);
        assert_eq!(said.code, Some(125), "{said:?}");
        let expected = format!("has schema version 1000; this version of coracle knows {known}");
        assert!(said.stderr.contains(&expected) && said.stderr.contains("nothing was changed"), "{said:?}");
    }
    schema_version(&database, known);
    assert!(place.output(&["sessions", "list"]).contains("work"));
}
