//! `examples/08-privacy` with a model: a spreadsheet goes into a database, and no model is told what is in it.

use super::lab::Lab;
use super::needles::Needles;
use coracle_testing::installed;
use serde_json::json;
use std::path::Path;
use std::process::Command;

#[test]
fn the_example_keeps_a_spreadsheet_from_the_model() {
    let example = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples/08-privacy");
    let sheet = std::fs::read_to_string(example.join("data/customers.csv")).unwrap();
    let cells: Vec<&str> = sheet.lines().skip(1).flat_map(|line| line.split(';').skip(1)).collect();
    assert!(cells.len() > 30, "{cells:?}");
    let needles = Needles::new(cells);
    for (mode, language, file) in
        [("strict", "python", "main.py"), ("strict", "typescript", "main.ts"), ("off", "python", "main.py")]
    {
        let folder = tempfile::tempdir().unwrap();
        let database = folder.path().join("customers.db");
        let script = installed::path("npm/node_modules/@modelcontextprotocol/server-filesystem/dist/index.js");
        let servers = json!({
            "files": { "command": "node", "args": [script, example.join("data").canonicalize().unwrap()] },
            "crm": { "command": installed::path("venv-sqlite/bin/mcp-server-sqlite"), "args": ["--db-path", database] },
        });
        // The file server allows paths below its folder only.
        let code = std::fs::read_to_string(example.join(file)).unwrap();
        let lab = Lab::with_servers(mode, folder, &servers, &[("copy".to_owned(), language.to_owned(), code)]);
        let transcript = lab.question("[script:copy] Copy the customers into the CRM.", "chat");
        assert!(transcript.contains("4 customers with 3 different names"), "{transcript}");
        let found = needles.search(&transcript);
        assert_eq!(found.is_empty(), mode == "strict", "{mode}, {file}: {found:#?}");
        let read = "import sqlite3, sys\nfor row in sqlite3.connect(sys.argv[1]).execute('SELECT * FROM customers'):\n    print(*row, sep=';')";
        let read = Command::new("python3").env("PYTHONUTF8", "1").args(["-c", read]).arg(&database).output().unwrap();
        let rows = String::from_utf8(read.stdout).unwrap();
        assert_eq!(rows.lines().collect::<Vec<_>>(), sheet.lines().skip(1).collect::<Vec<_>>(), "{mode}, {file}");
    }
}
