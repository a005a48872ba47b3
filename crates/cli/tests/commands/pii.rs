//! `coracle pii scan`: what is found, where, and with which exit status; values are printed only on request.

use coracle_testing::place::Place;
use serde_json::{Value, json};

const TEXT: &str = "größe 5,\nwrite to ann@example.org\nor call +1 202-555-0143.\n";

#[test]
fn the_help_matches_the_snapshots() {
    let place = Place::new();
    for (name, arguments) in [("pii_help", &["pii", "--help"][..]), ("pii_scan_help", &["pii", "scan", "--help"])] {
        insta::assert_snapshot!(name, place.output(arguments));
    }
}

#[test]
fn findings_have_a_type_and_a_place_but_no_value() {
    let place = Place::new();
    let file = place.put("letter.txt", TEXT).display().to_string();
    let said = place.run(&["pii", "scan", &file]);
    assert_eq!(said.code, Some(0), "{said:?}");
    assert!(said.stdout.contains("EMAIL") && said.stdout.contains("line 2:10"), "{said:?}");
    assert!(!said.stdout.contains("ann@") && !said.stdout.contains("555"), "{said:?}");
    let shown = place.output(&["pii", "scan", &file, "--show-values"]);
    assert!(shown.contains("ann@example.org") && shown.contains("+1 202-555-0143"), "{shown}");

    let lines: Vec<Value> = place
        .output(&["pii", "scan", &file, "--json", "--disable", "PHONE", "--show-values"])
        .lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect();
    let start = TEXT.find("ann@").unwrap();
    assert_eq!(
        lines,
        [
            json!({ "type": "EMAIL", "start": start, "end": start + 15, "line": 2, "column": 10, "confidence": 95, "value": "ann@example.org" })
        ]
    );
}

#[test]
fn a_large_file_with_invalid_bytes_is_searched_in_pieces() {
    let place = Place::new();
    let file = place.put("large.bin", "");
    let mut bytes = b"\xff\xfe line\n".repeat(100_000);
    let start = bytes.len();
    bytes.extend(b"ann@example.org\xff");
    std::fs::write(&file, &bytes).unwrap();
    let found: Value =
        serde_json::from_str(&place.output(&["pii", "scan", &file.display().to_string(), "--json"])).unwrap();
    assert_eq!((&found["start"], &found["end"], &found["line"]), (&json!(start), &json!(start + 15), &json!(100_001)));
}

#[test]
fn settings_keys_and_heads_of_tables_decide_what_is_found() {
    let place = Place::new();
    let found = |name: &str, text: &str| -> Vec<(String, String)> {
        let file = place.put(name, text).display().to_string();
        let lines = place.output(&["pii", "scan", &file, "--json", "--show-values"]);
        let lines = lines.lines().map(|line| serde_json::from_str::<Value>(line).unwrap());
        let word = |value: &Value| value.as_str().unwrap().to_owned();
        lines.map(|line| (word(&line["type"]), word(&line["value"]))).collect()
    };
    let pair = |kind: &str, value: &str| (kind.to_owned(), value.to_owned());
    let json = r#"{"last_name": "lee", "order": "T-1234"}"#;
    assert_eq!(found("row.json", json), [pair("PERSON", "lee")]);
    assert!(found("other.json", &json.replace("last_name", "colour")).is_empty(), "the control");
    assert_eq!(found("rows.csv", "id,surname\n1,lee\n"), [pair("PERSON", "lee")]);
    assert!(found("other.csv", "id,colour\n1,lee\n").is_empty(), "the control");
    let settings = json!({ "privacy": {
        "patterns": { "ORDER": r"\bT-\d{4}\b" }, "words": ["blue heron"], "kinds": { "disable": ["PERSON"] },
    } });
    place.put("coracle.yaml", &settings.to_string());
    assert_eq!(found("row.json", json), [pair("ORDER", "T-1234")]);
    let words = found("words.txt", "the Blue Heron plan");
    assert!(words.len() == 1 && words[0].1 == "Blue Heron", "{words:?}");
    let file = place.put("row.json", json).display().to_string();
    let enabled = place.output(&["pii", "scan", &file, "--enable", "PERSON"]);
    assert!(enabled.contains("PERSON") && enabled.contains("ORDER"), "{enabled}");
}

#[test]
fn the_exit_status_can_depend_on_findings() {
    let place = Place::new();
    let found = place.put("found.txt", TEXT).display().to_string();
    let nothing = place.put("nothing.txt", "Nothing here.\n").display().to_string();
    let scan = |file: &str, more: &[&str]| {
        let arguments: Vec<&str> = ["pii", "scan", file].iter().chain(more).copied().collect();
        place.run(&arguments)
    };
    assert_eq!(scan(&found, &["--fail-if-found"]).code, Some(1));
    assert_eq!(scan(&nothing, &["--fail-if-found"]).code, Some(0));
    assert_eq!(scan(&nothing, &[]).stderr, "Nothing was found.\n");
    let missing = scan("missing.txt", &[]);
    assert!(missing.code == Some(2) && missing.stderr.contains("cannot open missing.txt"), "{missing:?}");
    let unknown = scan(&found, &["--enable", "SHOE_SIZE"]);
    assert!(unknown.code == Some(2) && unknown.stderr.contains("unknown type"), "{unknown:?}");
    assert!(
        place.output(&["pii", "scan", "--types"]).lines().any(|line| line.starts_with("URL ") && line.contains("off"))
    );
}

/// The vault of the local user, with its master key from each source.
#[test]
fn a_vault_is_rotated_and_forgotten_under_each_source_of_the_master_key() {
    const KEY: &str = "000102030405060708090a0b0c0d0e0f101112131415161718191a1b1c1d1e1f";
    let command = format!("printf {KEY}");
    for variable in [None, Some(("CORACLE_MASTER_KEY", KEY)), Some(("CORACLE_MASTER_KEY_COMMAND", command.as_str()))] {
        let place = Place::new();
        let run = |variable: Option<(&str, &str)>, words: &[&str]| {
            let mut command = place.command();
            command.args(words).stdin(std::process::Stdio::null());
            command.envs(variable);
            let output = command.output().unwrap();
            let text = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap();
            (output.status.code(), text(output.stdout), text(output.stderr))
        };
        let letter = place.put("letter.txt", "write to ann@example.org\n").display().to_string();
        let (code, safe, said) = run(variable, &["pii", "sanitize", &letter]);
        assert!(code == Some(0) && safe.starts_with("write to [EMAIL_"), "{variable:?}: {safe}{said}");
        assert_eq!(place.home().join("master.key").exists(), variable.is_none(), "{variable:?}");
        let token = place.put("safe.txt", &safe).display().to_string();
        let restored = |variable| run(variable, &["pii", "restore", &token]).1;
        assert_eq!(restored(variable), "write to ann@example.org\n");

        let (code, _, said) = run(variable, &["pii", "rotate"]);
        assert!(code == Some(0) && said.contains("local: 1 value encrypted with a new key"), "{said}");
        assert_eq!(restored(variable), "write to ann@example.org\n", "tokens stay the same");
        if variable.is_some() {
            let wrong = KEY.replace('0', "f");
            let (code, out, said) = run(Some(("CORACLE_MASTER_KEY", &wrong)), &["pii", "restore", &token]);
            assert!(code == Some(125) && out.is_empty() && said.contains("another master key"), "{out}{said}");
        }

        let (code, _, said) = run(variable, &["pii", "forget"]);
        assert!(code == Some(2) && said.contains("add --yes"), "{said}");
        assert_eq!(restored(variable), "write to ann@example.org\n", "nothing was deleted");
        let (code, _, said) = run(variable, &["pii", "forget", "--yes"]);
        assert!(code == Some(0) && said.contains("the vault of local is deleted"), "{said}");
        assert_eq!(restored(variable), safe, "the token means nothing any more");
        let (code, _, said) = run(variable, &["pii", "rotate", "--user", "nobody"]);
        assert!(code == Some(2) && said.contains("nobody"), "{said}");
    }
    let both = Place::new();
    let mut command = both.command();
    command.env("CORACLE_MASTER_KEY", KEY).env("CORACLE_MASTER_KEY_COMMAND", "true").args(["pii", "rotate"]);
    let refused = command.output().unwrap();
    assert!(String::from_utf8_lossy(&refused.stderr).contains("set only one of them"), "{refused:?}");
}
