//! The programs in `examples/`, in both languages, with their servers.
//!
//! `npx` and `uvx` would download the servers; here they start those that `cargo xtask needs` has installed.

use coracle_testing::harness::{As, Coracle};
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use tempfile::TempDir;

/// Launchers of the examples, replaced with those that are installed.
fn launchers() -> TempDir {
    let folder = TempDir::new().unwrap();
    let npm = coracle_testing::installed::path("npm/node_modules/.bin");
    let pypi = coracle_testing::installed::path("venv/bin");
    let npx = format!(
        "#!/bin/sh\n[ \"$1\" = -y ] && shift\nname=${{1#@modelcontextprotocol/}}; shift\nexec '{}'/mcp-$name \"$@\"\n",
        npm.display()
    );
    let sqlite = coracle_testing::installed::path("venv-sqlite/bin");
    let uvx = format!(
        "#!/bin/sh\nname=$1; shift\nfolder='{}'; [ -x \"$folder/$name\" ] || folder='{}'\nexec \"$folder/$name\" \"$@\"\n",
        pypi.display(),
        sqlite.display()
    );
    for (name, script) in [("npx", npx), ("uvx", uvx)] {
        let path = folder.path().join(name);
        fs::write(&path, script).unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
    }
    folder
}

fn examples() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples")
}

/// The program in the README of the repository, with the servers of an example.
#[test]
fn the_program_of_the_readme() {
    let readme = fs::read_to_string(examples().join("../README.md")).unwrap();
    let program = readme.split_once("```python\n").unwrap().1.split_once("```").unwrap().0;
    assert_eq!(program.lines().count(), 6, "{program}");
    let (coracle, launchers) = (Coracle::new(As::current()), launchers());
    let folder = coracle.workspace().join("readme");
    let copied =
        Command::new("cp").arg("-r").arg(examples().join("02-multi-tool-chain")).arg(&folder).status().unwrap();
    assert!(copied.success());
    fs::write(folder.join("main.py"), program).unwrap();
    let path = format!("{}:{}", launchers.path().display(), std::env::var("PATH").unwrap());
    let mut command = coracle.command();
    command.current_dir(&folder).env("PATH", &path).env_remove("CORACLE_CONFIG").args(["exec", "main.py"]);
    let output = command.output().unwrap();
    let complaints = String::from_utf8_lossy(&output.stderr);
    let said = String::from_utf8_lossy(&output.stdout);
    assert_eq!(said, "Tokyo 22:00\nLagos 14:00\nBogota 08:00\n", "{complaints}");
}

/// The rows of the table `customers`, with semicolons between their values.
fn rows_of(database: &Path) -> Vec<String> {
    let code = "import sqlite3, sys\nfor row in sqlite3.connect(sys.argv[1]).execute('SELECT * FROM customers'):\n    print(*row, sep=';')";
    let read = Command::new("python3").env("PYTHONUTF8", "1").args(["-c", code]).arg(database).output().unwrap();
    assert!(read.status.success(), "{}", String::from_utf8_lossy(&read.stderr));
    String::from_utf8(read.stdout).unwrap().lines().map(str::to_owned).collect()
}

/// Runs a program of an example on a copy of its folder, once for each expected output.
fn runs(example: &str, program: &str) {
    let (coracle, launchers) = (Coracle::new(As::current()), launchers());
    let folder = coracle.workspace().join(example);
    let copied = Command::new("cp").arg("-r").arg(examples().join(example)).arg(&folder).status().unwrap();
    assert!(copied.success());
    let path = format!("{}:{}", launchers.path().display(), std::env::var("PATH").unwrap());
    for expected in ["output.txt", "output-again.txt"] {
        let Ok(expected) = fs::read_to_string(folder.join(expected)) else { continue };
        let mut command = coracle.command();
        command.current_dir(&folder).env("PATH", &path).env_remove("CORACLE_CONFIG").args(["exec", program]);
        let output = command.output().unwrap();
        let (said, complaints) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
        assert_eq!(said, expected, "{example}/{program}: {complaints}");
        assert!(output.status.success(), "{example}/{program}: {complaints}");
        if example == "08-privacy" {
            let database = folder.join("crm/customers.db");
            let sheet = fs::read_to_string(folder.join("data/customers.csv")).unwrap();
            let rows: Vec<&str> = sheet.lines().skip(1).collect();
            assert_eq!(rows_of(&database), rows, "{program}");
            fs::remove_file(database).unwrap();
        }
    }
}

macro_rules! examples {
    ($($name:ident: $folder:literal,)*) => {
        /// All examples.
        const FOLDERS: &[&str] = &[$($folder),*];
        $(
            #[test]
            fn $name() {
                for program in ["main.py", "main.ts"] {
                    runs($folder, program);
                }
            }
        )*
    };
}

examples! {
    basic_tool_call: "01-basic-tool-call",
    multi_tool_chain: "02-multi-tool-chain",
    data_filtering: "03-data-filtering",
    control_flow: "04-control-flow",
    state_over_two_sessions: "05-state-over-two-sessions",
    skills: "06-skills",
    filesystem_operations: "07-filesystem-operations",
    privacy: "08-privacy",
}

#[test]
fn every_example_is_complete_and_tested() {
    let entries = fs::read_dir(examples()).unwrap().map(Result::unwrap).filter(|entry| entry.path().is_dir());
    let mut found: Vec<String> = entries.map(|entry| entry.file_name().into_string().unwrap()).collect();
    found.sort();
    assert_eq!(found, FOLDERS);
    let index = fs::read_to_string(examples().join("README.md")).unwrap();
    for folder in FOLDERS {
        for file in ["README.md", "main.py", "main.ts", "coracle.yaml", "output.txt"] {
            assert!(examples().join(folder).join(file).is_file(), "{folder}/{file}");
        }
        assert!(index.contains(&format!("({folder})")), "{folder} is not in the list");
    }
}
