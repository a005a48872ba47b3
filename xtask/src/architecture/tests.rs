use super::*;
use crate::metadata::Dependency;

const DOCUMENT_TEXT: &str = "
```
   cli ──▶ tool
    │
  ┌─┴──┬────────┐
  ▼    ▼        ▼
 base  engine  other
         │
         └──▶ base
```

Words.

| crate | depends on |
|---|---|
| `cli` | `tool`, `engine`, `base`, `other` |
| `engine` | `base` |
| `base`, `other`, `tool` | none |

| `more` | tables |
";

fn metadata(edges: &[(&str, &[&str])]) -> Metadata {
    let name = |short: &str| if short == "tool" { short.to_owned() } else { format!("coracle-{short}") };
    let package = |(from, to): &(&str, &[&str])| Package {
        id: (*from).to_owned(),
        name: name(from),
        version: "0.1.0".to_owned(),
        license: None,
        dependencies: [("serde", None), ("coracle-cli", Some(DependencyKind::Dev))]
            .into_iter()
            .map(|(name, kind)| (name.to_owned(), kind))
            .chain(to.iter().map(|to| (name(to), None)))
            .map(|(name, kind)| Dependency { name, kind })
            .collect(),
    };
    Metadata {
        packages: edges.iter().map(package).collect(),
        workspace_members: edges.iter().map(|(name, _)| (*name).to_owned()).collect(),
        target_directory: "target".into(),
    }
}

fn real() -> Metadata {
    let cli: &[&str] = &["base", "engine", "other", "tool"];
    metadata(&[("base", &[]), ("cli", cli), ("engine", &["base"]), ("other", &[]), ("tool", &[])])
}

#[track_caller]
fn found(document: &str) -> Vec<String> {
    violations(document, &real()).unwrap()
}

#[test]
fn a_document_that_fits_passes() {
    assert_eq!(found(DOCUMENT_TEXT), Vec::<String>::new());
}

#[test]
fn a_missing_and_a_wrong_dependency_are_named_with_the_right_table() {
    let document = DOCUMENT_TEXT.replace("| `engine` | `base` |", "| `engine` | `other` |");
    let table = "the right table in ARCHITECTURE.md is\n\n\
                 | crate | depends on |\n|---|---|\n\
                 | `cli` | `engine`, `base`, `other`, `tool` |\n\
                 | `engine` | `base` |\n\
                 | `base` | none |\n| `other` | none |\n| `tool` | none |\n";
    assert_eq!(
        found(&document),
        [
            "`engine` depends on `base`, and the table in ARCHITECTURE.md does not list it",
            "`engine` does not depend on `other`, and the table in ARCHITECTURE.md lists it",
            table,
        ]
    );
}

#[test]
fn a_missing_and_an_unknown_crate_are_named() {
    let document = DOCUMENT_TEXT.replace("`other`, `tool` | none", "`novelty`, `tool` | none");
    let found = found(&document);
    assert_eq!(
        found[..2],
        [
            "`other` is in 0 rows of the table in ARCHITECTURE.md",
            "the table in ARCHITECTURE.md lists `novelty`, which is not a crate of the workspace",
        ]
    );
}

#[test]
fn the_table_that_is_printed_passes() {
    let real = crates(&real());
    let printed = table(&rendered(&real)).unwrap();
    assert_eq!(table_violations(&printed, &real), Vec::<String>::new());
}

#[test]
fn arrows_of_a_drawing_are_followed() {
    let found = drawing::edges(drawing(DOCUMENT_TEXT).unwrap());
    let found: Vec<_> = found.iter().map(|(from, to)| (from.as_str(), to.as_str())).collect();
    let expected = [("cli", "base"), ("cli", "engine"), ("cli", "other"), ("cli", "tool"), ("engine", "base")];
    assert_eq!(found, expected);
}

#[test]
fn an_arrow_without_a_dependency_is_named() {
    let document = DOCUMENT_TEXT.replace("└──▶ base", "└──▶ other words");
    assert_eq!(
        found(&document),
        ["the drawing in ARCHITECTURE.md has an arrow from `engine` to `other`, which is no dependency"]
    );
    let document = DOCUMENT_TEXT.replace("└──▶ base", "└──▶ novelty");
    assert_eq!(
        found(&document),
        ["the drawing in ARCHITECTURE.md has `novelty`, which is not a crate of the workspace"]
    );
}

#[test]
fn a_document_without_table_or_drawing_is_an_error() {
    assert!(violations("```\na\n```\n", &real()).is_err());
    assert!(violations("| crate | depends on |\n|---|---|\n", &real()).is_err());
}
