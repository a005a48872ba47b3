//! The checked-in OpenAPI document matches the one that is served.

use std::path::Path;

#[test]
fn the_document_is_up_to_date() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/openapi.json");
    let served = coracle_server::openapi_document();
    if std::env::var_os("CORACLE_UPDATE").is_some() {
        std::fs::write(&path, &served).unwrap();
    }
    let checked_in = std::fs::read_to_string(&path).unwrap();
    assert!(
        checked_in == served,
        "docs/openapi.json is out of date: CORACLE_UPDATE=1 cargo test -p coracle-server --test openapi"
    );
}

/// Client generators derive function names from operation IDs.
#[test]
fn every_operation_has_a_unique_id() {
    let document: serde_json::Value = serde_json::from_str(&coracle_server::openapi_document()).unwrap();
    let paths = document["paths"].as_object().unwrap().values();
    let operations = paths.flat_map(|path| path.as_object().unwrap().values());
    let names: Vec<&str> = operations.map(|operation| operation["operationId"].as_str().unwrap()).collect();
    assert!(names.len() > 30, "{names:?}");
    let mut different = names.clone();
    different.sort_unstable();
    different.dedup();
    assert_eq!(different.len(), names.len(), "{names:?}");
}

/// The attributes of a schema cannot be made from the table of limits.
#[test]
fn limits_of_a_request_are_those_of_the_table() {
    let document: serde_json::Value = serde_json::from_str(&coracle_server::openapi_document()).unwrap();
    let request = &document["components"]["schemas"]["CodeRequest"]["properties"];
    let memory = coracle_types::LIMITS.iter().find(|limit| limit.name == "memory_mb").unwrap();
    assert_eq!(request["memory_mb"]["minimum"], memory.least);
    let most = format!("at most {}.", coracle_types::MAX_SECONDS);
    assert!(request["timeout_seconds"]["description"].as_str().unwrap().contains(&most));
}
