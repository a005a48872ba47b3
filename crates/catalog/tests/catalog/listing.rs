//! Listing and rendering tools.

use crate::definitions;
use coracle_catalog::{Catalog, Filter, Level};
use serde_json::{Map, Value, json};

fn catalog() -> Catalog {
    let tool = |name: &str, description: &str| json!({ "name": name, "description": description, "inputSchema": { "type": "object", "properties": { "a": { "type": "string" } } } });
    Catalog::new(vec![
        definitions::server(
            "my-git",
            Some("Repositories."),
            &[tool("git-log", "Shows the log."), tool("git_diff", "Compares.")],
        ),
        definitions::server("time", None, &[tool("now", "What time it is. More words.")]),
    ])
}

fn names(catalog: &Catalog, filter: &Filter) -> Vec<String> {
    catalog.list(filter).iter().map(|entry| format!("{}.{}", entry.package, entry.function)).collect()
}

#[test]
fn filters_choose_by_server_and_by_text() {
    let catalog = catalog();
    assert_eq!(catalog.len(), 3);
    assert_eq!(names(&catalog, &Filter::default()), ["my_git.git_diff", "my_git.git_log", "time.now"]);
    for server in ["my-git", "my_git"] {
        let filter = Filter { server: Some(server.to_owned()), text: None };
        assert_eq!(names(&catalog, &filter), ["my_git.git_diff", "my_git.git_log"]);
    }
    let filter = Filter { server: None, text: Some("THE LOG".to_owned()) };
    assert_eq!(names(&catalog, &filter), ["my_git.git_log"]);
    let filter = Filter { server: Some("time".to_owned()), text: Some("log".to_owned()) };
    assert_eq!(names(&catalog, &filter), Vec::<String>::new());
}

#[test]
fn each_level_has_more_detail() {
    let catalog = catalog();
    let shown: Vec<String> = Level::ALL
        .into_iter()
        .map(|level| format!("━━━ {level}\n{}", catalog.show("my-git", "git-log", level).unwrap()))
        .collect();
    insta::assert_snapshot!(shown.join("\n"));
    let full: Value = serde_json::from_str(&catalog.show("my_git", "git_log", Level::Full).unwrap()).unwrap();
    assert_eq!(full["name"], "git-log");
    assert_eq!(catalog.show("my_git", "nothing", Level::Name), None);
    assert!(catalog.tree().get("servers/my_git/git_log.py").is_some());
}

/// A tool with a very long definition is shortened to its signature and a few words, with a note.
#[test]
fn long_definitions_are_shortened_with_a_note() {
    let long = |name: &str| (name.to_owned(), json!({ "type": "string", "description": "word ".repeat(100) }));
    let mut properties: Map<String, Value> = (0..60).map(|number| long(&format!("option_{number}"))).collect();
    properties.extend([long("needed")]);
    let tool = json!({
        "name": "vast", "description": "Does much. ".repeat(500),
        "inputSchema": { "type": "object", "properties": properties, "required": ["needed"] },
    });
    let small = json!({ "name": "small", "description": "Does little.", "inputSchema": { "type": "object" } });
    let catalog = Catalog::new(vec![definitions::server("s", None, &[tool, small])]);
    for level in [Level::Python, Level::Typescript] {
        let shown = |name: &str| catalog.show("s", name, level).unwrap();
        let vast = shown("vast");
        assert!(vast.len() < 6_000 && vast.contains("needed: str"), "{} {vast}", vast.len());
        assert!(vast.contains("shortened: detail_level full has all of it"), "{vast}");
        assert!(!shown("small").contains("shortened"), "{}", shown("small"));
    }
    assert!(catalog.show("s", "vast", Level::Full).unwrap().len() > 30_000);
}

#[test]
fn levels_have_names() {
    for level in Level::ALL {
        assert_eq!(level.as_str().parse::<Level>().unwrap(), level);
    }
    assert_eq!(
        "all".parse::<Level>().unwrap_err().to_string(),
        "\"all\" is not a level of detail: use name, summary, full, python or typescript"
    );
}

#[test]
fn a_mistyped_name_finds_similar_ones() {
    let catalog = catalog();
    assert_eq!(catalog.similar("my_git", "git_lag"), ["my_git.git_log"]);
    assert_eq!(catalog.similar("tiem", "nwo"), Vec::<String>::new());
    assert_eq!(catalog.similar("time", "no"), ["time.now"]);
}
