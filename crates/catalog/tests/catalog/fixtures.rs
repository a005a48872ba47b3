//! Fixtures of servers, one folder per case.

use crate::definitions;
use coracle_catalog::{ServerTools, Shape};
use serde_json::{Map, Value};
use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures")
}

/// The names of all cases.
pub(crate) fn cases() -> Vec<String> {
    let mut names: Vec<String> =
        fs::read_dir(folder()).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
    names.sort();
    names
}

/// The server of one case.
pub(crate) fn fixture(case: &str) -> ServerTools {
    let path = folder().join(case).join("server.json");
    let text: Value = serde_json::from_str(&fs::read_to_string(path).unwrap()).unwrap();
    let tools = text["tools"].as_array().unwrap();
    let mut server = definitions::server(text["server"].as_str().unwrap(), text["description"].as_str(), tools);
    if let Some(results) = text["results"].as_object() {
        server.shapes = shapes(results);
    }
    server
}

/// The shapes learned from these results, by tool.
fn shapes(results: &Map<String, Value>) -> BTreeMap<String, Shape> {
    let learned = |values: &Value| {
        let mut shape = Shape::default();
        for value in values.as_array().unwrap() {
            shape.merge(&Shape::observe(value));
        }
        shape
    };
    results.iter().map(|(tool, values)| (tool.clone(), learned(values))).collect()
}
