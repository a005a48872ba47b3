//! `coracle skills`.

use coracle_testing::place::Place;
use serde_json::Value;
use std::fs;

#[test]
fn help() {
    let place = Place::new();
    insta::assert_snapshot!("skills_help", place.output(&["skills", "--help"]));
    insta::assert_snapshot!("skills_add_help", place.output(&["skills", "add", "--help"]));
}

#[test]
fn code_is_added_listed_tested_shown_and_removed() {
    let place = Place::new();
    place.put("clean_csv.py", "def clean(rows):\n    return [row for row in rows if row]\n");
    place.put("try.py", "from skills.clean_csv import clean\nassert clean([1, 0]) == [1]\n");
    place.put("bad.py", "from skills.clean_csv import clean\nassert clean([1, 0]) == []\n");
    let refused = place.run(&["skills", "add", "clean_csv.py", "--example", "bad.py"]);
    assert_eq!(refused.code, Some(2), "{refused:?}");
    assert!(refused.stderr.contains("AssertionError") && refused.stderr.contains("hint: "), "{refused:?}");
    assert_eq!(place.run(&["skills", "show", "clean_csv"]).code, Some(2));
    let add = [
        "skills",
        "add",
        "clean_csv.py",
        "--example",
        "try.py",
        "--description",
        "Drops empty rows",
        "--tags",
        "csv,tidy",
    ];
    let said = place.run(&add);
    assert_eq!(
        (said.code, said.stderr.as_str()),
        (Some(0), "saved clean_csv (version 1), and its example succeeded\n")
    );
    assert_eq!(place.run(&add).stderr, "saved clean_csv (version 2), and its example succeeded\n");
    let listed = place.output(&["skills", "list"]);
    assert!(listed.starts_with("clean_csv"), "{listed}");
    for words in ["code, version 2   Drops empty rows\n", "data-analysis", "folder, built in"] {
        assert!(listed.contains(words), "{words}: {listed}");
    }
    let found = place.output(&["skills", "list", "--search", "remove blank lines of a table"]);
    assert!(found.starts_with("clean_csv"), "{found}");
    let json: Value = serde_json::from_str(&place.output(&["skills", "list", "--json"])).unwrap();
    assert_eq!((&json["code"][0]["version"], &json["code"][0]["tested"]), (&2.into(), &true.into()), "{json:#}");
    assert!(place.output(&["skills", "show", "clean_csv"]).starts_with("def clean(rows):\n"));
    let shown: Value =
        serde_json::from_str(&place.output(&["skills", "show", "clean_csv", "--version", "1", "--json"])).unwrap();
    assert_eq!(shown["metadata"]["tags"], serde_json::json!(["csv", "tidy"]));
    let tested = place.run(&["skills", "test", "clean_csv"]);
    assert!(tested.code == Some(0) && tested.stderr.starts_with("clean_csv: the example succeeded"), "{tested:?}");
    assert_eq!(place.output(&["exec", "-c", "from skills.clean_csv import clean\nclean([0, 2])"]), "[\n  2\n]\n");
    // Skills are not visible to another user.
    assert!(!place.output(&["skills", "--user", "bob", "list"]).contains("clean_csv"));
    assert_eq!(place.run(&["skills", "--user", "../bob", "list"]).code, Some(2));
    assert_eq!(place.run(&["skills", "remove", "clean_csv"]).stderr, "removed clean_csv\n");
    let gone = place.run(&["skills", "remove", "clean_csv"]);
    assert!(gone.code == Some(2) && gone.stderr.contains("there is no skill"), "{gone:?}");
    let wrong = place.run(&["skills", "add", "missing.txt"]);
    assert!(wrong.code == Some(2) && wrong.stderr.contains("hint: use a .py"), "{wrong:?}");
}

#[test]
fn folders_are_added_checked_and_removed() {
    let place = Place::new();
    place.put("pdf/SKILL.md", "---\nname: pdf\ndescription: Reads PDFs\ndependencies: no-such-package\n---\n# How\n");
    place.put("pdf/references/forms.md", "forms");
    std::os::unix::fs::symlink("/etc/passwd", place.folder().join("pdf/link")).unwrap();
    let added = place.run(&["skills", "add", "pdf"]);
    assert_eq!(added.code, Some(0), "{added:?}");
    assert!(added.stderr.contains("skipped, because it is a link or a special file"), "{added:?}");
    let target = place.user().join(".agents/skills/pdf");
    assert!(target.join("references/forms.md").is_file() && !target.join("link").exists());
    assert_eq!(place.run(&["skills", "add", "pdf"]).code, Some(2));
    let listed = place.run(&["skills", "list"]);
    assert!(listed.stdout.contains("pdf") && listed.stdout.contains("folder, user"), "{listed:?}");
    assert!(listed.stderr.contains("the package no-such-package is not installed"), "{listed:?}");
    assert_eq!(place.output(&["skills", "show", "pdf"]), "# How\n");
    assert_eq!(place.output(&["skills", "show", "pdf", "--file", "references/forms.md"]), "forms\n");
    assert_eq!(place.run(&["skills", "show", "pdf", "--file", "../../x"]).code, Some(2));
    assert_eq!(place.run(&["skills", "test", "pdf"]).code, Some(1));
    assert_eq!(place.run(&["skills", "remove", "pdf"]).code, Some(0));
    assert!(!target.exists());
    let builtin = place.run(&["skills", "remove", "charts"]);
    assert!(builtin.code == Some(2) && builtin.stderr.contains("built in"), "{builtin:?}");
    // A folder without a SKILL.md is rejected.
    place.put("plain/README.md", "x");
    let wrong = place.run(&["skills", "add", "plain"]);
    assert!(wrong.code == Some(2) && wrong.stderr.contains("there is no SKILL.md in it"), "{wrong:?}");
    assert_eq!(fs::read_dir(place.user().join(".agents/skills")).unwrap().count(), 0);
}
