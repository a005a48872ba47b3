//! Type checkers in their strictest mode over the generated code of fifteen real servers and of every fixture.

mod lab;

use crate::{definitions, fixtures};
use coracle_catalog::{ServerTools, generate, write_tree};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

fn fixtures() -> Vec<ServerTools> {
    fixtures::cases().iter().map(|case| fixtures::fixture(case)).collect()
}

fn real(scratch: &Path) -> Vec<ServerTools> {
    let servers: Vec<ServerTools> =
        lab::tools(scratch).iter().map(|(name, tools)| definitions::server(name, None, tools)).collect();
    for server in &servers {
        assert!(!server.tools.is_empty(), "{} lists no tools", server.name);
    }
    servers
}

/// The tools of nine more servers, with names and schemas only. `listed/README.md` says which servers they are.
fn listed() -> Vec<ServerTools> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/listed");
    let mut servers: Vec<ServerTools> = Vec::new();
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.extension().is_some_and(|ending| ending == "json") {
            let tools: Vec<serde_json::Value> = serde_json::from_slice(&fs::read(&path).unwrap()).unwrap();
            servers.push(definitions::server(path.file_stem().unwrap().to_str().unwrap(), None, &tools));
        }
    }
    let tools: usize = servers.iter().map(|server| server.tools.len()).sum();
    assert!(servers.len() >= 6 && tools >= 200, "{} servers, {tools} tools", servers.len());
    servers
}

fn guest(part: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../guest").join(part).canonicalize().unwrap()
}

/// Runs mypy on the tree and one more program.
fn mypy(tree: &Path, program: &str) -> Result<(), String> {
    let file = tree.join("program.py");
    fs::write(&file, program).unwrap();
    let output = Command::new(lab::installed("venv/bin/mypy"))
        .args(["--strict", "--no-incremental", "--no-error-summary", "--cache-dir=/dev/null", "--python-version=3.11"])
        .args(["-p", "servers", "-m", "program"])
        .env("MYPYPATH", format!("{}:{}", tree.display(), guest("python").display()))
        .current_dir(tree)
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&output.stdout).into_owned() + &String::from_utf8_lossy(&output.stderr);
    if output.status.success() { Ok(()) } else { Err(said) }
}

/// Runs tsc on the tree and one more program.
fn tsc(tree: &Path, program: &str) -> Result<(), String> {
    fs::write(tree.join("program.ts"), program).unwrap();
    let settings = serde_json::json!({
        "compilerOptions": {
            "strict": true,
            "noEmit": true,
            "target": "es2022",
            "module": "esnext",
            "moduleResolution": "bundler",
            "moduleDetection": "force",
            "allowImportingTsExtensions": true,
            "erasableSyntaxOnly": true,
            "isolatedModules": true,
            "noUnusedLocals": true,
            "types": [],
            "paths": { "servers/*": ["./servers/*"] },
        },
        "files": [guest("typescript/coracle.d.ts")],
        "include": ["./servers/**/*.ts", "./program.ts"],
    });
    fs::write(tree.join("tsconfig.json"), settings.to_string()).unwrap();
    let output = Command::new(lab::installed("npm/node_modules/.bin/tsc")).current_dir(tree).output().unwrap();
    if output.status.success() { Ok(()) } else { Err(String::from_utf8_lossy(&output.stdout).into_owned()) }
}

/// Imports every tool and calls those without required arguments, with the real runtime and an absent host.
const IMPORT_ALL: &str = "
import importlib, inspect, os, sys
sys.path[:0] = sys.argv[1:3]
import coracle
count = 0
for folder in sorted(os.listdir(os.path.join(sys.argv[1], 'servers'))):
    if folder == '__init__.py' or folder == '__pycache__':
        continue
    package = importlib.import_module('servers.' + folder)
    for name in package.__all__:
        tool = getattr(package, name)
        assert inspect.iscoroutinefunction(tool.aio) and tool.__doc__, name
        needed = [p.name for p in inspect.signature(tool).parameters.values() if p.kind is p.KEYWORD_ONLY and p.default is p.empty]
        try:
            tool(**dict.fromkeys(needed, 'x'))
        except coracle.ToolError as error:
            assert error.code == 'invalid_request', error
        count += 1
print(count)
";

#[test]
fn python_imports_and_calls_every_tool() {
    let scratch = tempfile::tempdir().unwrap();
    let servers = fixtures();
    let tree = write_tree(scratch.path(), &generate(&servers)).unwrap();
    let output =
        Command::new("python3").args(["-I", "-B", "-c", IMPORT_ALL]).args([&tree, &guest("python")]).output().unwrap();
    let count: usize = servers.iter().map(|server| server.tools.len()).sum();
    let said = String::from_utf8_lossy(&output.stdout).into_owned() + &String::from_utf8_lossy(&output.stderr);
    assert_eq!(said, format!("{count}\n"));
}

#[test]
fn mypy_accepts_every_tool_and_rejects_wrong_calls() {
    let scratch = tempfile::tempdir().unwrap();
    for servers in [real(scratch.path()), listed(), fixtures()] {
        let tree = write_tree(scratch.path(), &generate(&servers)).unwrap();
        mypy(&tree, "").unwrap();
    }
    let tree = write_tree(scratch.path(), &generate(&fixtures())).unwrap();
    let good = "import asyncio\n\
        from servers.github import list_issues\n\
        async def both() -> int:\n\
        \x20   first = list_issues(owner=\"a\", repo=\"b\", state=\"open\")\n\
        \x20   second, third = await asyncio.gather(list_issues.aio(owner=\"a\", repo=\"b\"), list_issues.aio(owner=\"c\", repo=\"d\"))\n\
        \x20   return first[\"items\"][0][\"number\"] + len(second[\"items\"][0][\"title\"]) + third[\"items\"][0][\"number\"]\n";
    mypy(&tree, good).unwrap();
    for (bad, because) in [
        ("list_issues(owner=\"a\")", "Missing named argument \"repo\""),
        ("list_issues(owner=1, repo=\"b\")", "incompatible type \"int\"; expected \"str\""),
        ("list_issues(owner=\"a\", repo=\"b\", state=\"ajar\")", "expected \"Literal['open', 'closed', 'all']\""),
        ("list_issues(owner=\"a\", repo=\"b\")[\"itmes\"]", "\"itmes\" is not a valid TypedDict key"),
        ("list_issues.aio(owner=\"a\")", "Missing named argument \"repo\""),
    ] {
        let said = mypy(&tree, &format!("from servers.github import list_issues\n{bad}\n")).unwrap_err();
        assert!(said.contains(because), "{bad}: {said}");
    }
}

#[test]
fn tsc_accepts_every_tool_and_rejects_wrong_calls() {
    let scratch = tempfile::tempdir().unwrap();
    for servers in [real(scratch.path()), listed(), fixtures()] {
        let tree = write_tree(scratch.path(), &generate(&servers)).unwrap();
        tsc(&tree, "export {};").unwrap();
    }
    let tree = write_tree(scratch.path(), &generate(&fixtures())).unwrap();
    let import = "import { list_issues, whoami } from \"servers/github\";\n";
    let good = "const all = await Promise.all([list_issues({ owner: \"a\", repo: \"b\", state: \"open\" }), whoami()]);\n\
        export const first: number = all[0].items[0]!.number;\n";
    tsc(&tree, &format!("{import}{good}")).unwrap();
    for (bad, because) in [
        ("export const x = [whoami, list_issues({ owner: \"a\" })];", "Property 'repo' is missing"),
        (
            "export const x = [whoami, list_issues({ owner: 1, repo: \"b\" })];",
            "Type 'number' is not assignable to type 'string'",
        ),
        (
            "export const x = [whoami, list_issues({ owner: \"a\", repo: \"b\", state: \"ajar\" })];",
            "'\"ajar\"' is not assignable",
        ),
        (
            "export const x = [whoami, (await list_issues({ owner: \"a\", repo: \"b\" })).itmes];",
            "Property 'itmes' does not exist",
        ),
    ] {
        let said = tsc(&tree, &format!("{import}{bad}")).unwrap_err();
        assert!(said.contains(because), "{bad}: {said}");
    }
}
