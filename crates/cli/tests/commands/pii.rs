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
