//! `coracle tools` on a real server: lists and definitions, and type checks of generated modules.

use coracle_store::{Home, KeySource, SqliteStore, Store, ToolDecision};
use coracle_testing::place::{Place, installed};
use coracle_types::{Decision, ServerName, UserId};
use serde_json::Value;
use std::fs;
use std::os::unix::fs::symlink;
use std::process::Command;
use std::time::SystemTime;

/// A server for the time, started through a link that can be removed.
fn with_time() -> Place {
    let place = Place::new();
    let program = place.folder().join("time-server");
    symlink(installed("venv/bin/mcp-server-time"), &program).unwrap();
    place.put("coracle.yaml", &format!("mcpServers: {{the-time: {{command: {}}}}}\n", program.display()));
    place
}

#[test]
fn the_help_matches_the_snapshots() {
    let place = Place::new();
    insta::assert_snapshot!("tools_help", place.output(&["tools", "--help"]));
    for command in ["list", "search", "select", "show", "generate", "decisions", "forget"] {
        insta::assert_snapshot!(format!("tools_{command}_help"), place.output(&["tools", command, "--help"]));
    }
}

#[test]
fn without_servers_there_are_no_tools() {
    let place = Place::new();
    let said = place.run(&["tools", "list"]);
    assert_eq!((said.code, said.stdout.as_str()), (Some(0), ""), "{said:?}");
    assert!(said.stderr.contains("`coracle servers add` or `coracle servers import`"), "{said:?}");
    assert_eq!(place.output(&["tools", "list", "--json"]), "[]\n");
    for arguments in [&["tools", "show", "x", "y"][..], &["tools", "list", "--server", "x"]] {
        let said = place.run(arguments);
        assert_eq!(said.code, Some(2), "{said:?}");
        assert!(said.stderr.contains("there is no server \"x\""), "{said:?}");
    }
    let said = place.run(&["tools", "generate", "typings"]);
    assert_eq!(said.code, Some(1), "{said:?}");
    assert!(!place.folder().join("typings").exists());
}

#[test]
fn tools_of_a_real_server_are_listed_and_shown() {
    let place = with_time();
    let said = place.run(&["tools", "list"]);
    assert_eq!(said.code, Some(0), "{said:?}");
    let lines = "the_time.convert_time      Convert time between timezones\n\
                 the_time.get_current_time  Get current time in a specific timezone\n";
    assert_eq!(said.stdout, lines);
    assert!(said.stderr.contains("coracle: using the servers of "), "a server is started: {said:?}");

    // From here on, the server cannot be started any more.
    fs::remove_file(place.folder().join("time-server")).unwrap();
    let said = place.run(&["tools", "list"]);
    assert_eq!((said.code, said.stdout.as_str(), said.stderr.as_str()), (Some(0), lines, ""));
    let found = place.output(&["tools", "list", "--search", "CONVERT", "--server", "the-time"]);
    assert_eq!(found, "the_time.convert_time  Convert time between timezones\n");
    assert_eq!(place.output(&["tools", "list", "--search", "nothing like it"]), "");
    let entries: Value = serde_json::from_str(&place.output(&["tools", "list", "--json"])).unwrap();
    assert_eq!((&entries[0]["server"], &entries[0]["function"]), (&"the-time".into(), &"convert_time".into()));

    let show = |level: &str| place.output(&["tools", "show", "the_time", "convert_time", "--level", level]);
    assert_eq!(show("name"), "the_time.convert_time\n");
    assert_eq!(show("summary"), "the_time.convert_time: Convert time between timezones\n");
    let full: Value = serde_json::from_str(&show("full")).unwrap();
    assert_eq!(full["input_schema"]["type"], "object");
    assert!(show("python").contains("def convert_time("));
    assert!(show("typescript").contains("convert_time("));
    assert_eq!(place.output(&["tools", "show", "the-time", "convert_time"]), show("python"));

    let said = place.run(&["tools", "show", "the-time", "convert_tim"]);
    assert_eq!(said.code, Some(2), "{said:?}");
    assert!(said.stderr.contains("did you mean the_time.convert_time?"), "{said:?}");
    let said = place.run(&["tools", "show", "the-time", "convert_time", "--level", "all"]);
    assert_eq!(said.code, Some(2), "{said:?}");
    let said = place.run(&["tools", "list", "--server", "time"]);
    assert_eq!(said.code, Some(2), "{said:?}");
    assert!(said.stderr.contains("hint: there are: the-time"), "{said:?}");
}

#[test]
fn tools_are_found_by_purpose_and_used_in_a_starter_program() {
    let place = with_time();
    let found = place.output(&["tools", "search", "current", "time"]);
    assert!(found.starts_with("the_time.get_current_time"), "{found}");
    let found = place.output(&["tools", "search", "convert", "--limit", "1", "--level", "python"]);
    assert!(found.contains("def convert_time("), "{found}");
    let found: Value = serde_json::from_str(&place.output(&["tools", "search", "timezone", "--json"])).unwrap();
    assert_eq!(found.as_array().map(Vec::len), Some(2), "{found:#}");
    assert!(found[0]["score"].as_f64() >= found[1]["score"].as_f64(), "{found:#}");
    let nothing = place.run(&["tools", "search", "qqqqzzzz"]);
    assert_eq!((nothing.code, nothing.stdout.as_str()), (Some(1), ""), "{nothing:?}");
    assert!(nothing.stderr.contains("none of the 2 tools matches"), "{nothing:?}");
    assert_eq!(place.run(&["tools", "search", "x", "--level", "most"]).code, Some(2));
    assert_eq!(place.run(&["tools", "search"]).code, Some(2));

    place.output(&["tools", "generate", "typings"]);
    let task = "convert the time of a meeting from Tokyo to Berlin";
    let chosen = place.run(&["tools", "select", task, "--top", "1"]);
    assert_eq!(chosen.code, Some(0), "{chosen:?}");
    assert!(chosen.stderr.contains("the_time.convert_time: Convert time between timezones"), "{chosen:?}");
    assert!(chosen.stdout.contains("from servers.the_time import convert_time\n"), "{chosen:?}");
    assert!(!chosen.stdout.contains("get_current_time"), "{chosen:?}");
    mypy(&place, &chosen.stdout).unwrap();
    let typescript = place.output(&["tools", "select", task, "--lang", "typescript"]);
    tsc(&place, &typescript).unwrap();
    // The program runs: the server rejects its call, because nothing was filled in.
    let ran = place.run(&["exec", "-c", &chosen.stdout]);
    assert!(ran.code == Some(1) && ran.stderr.contains("ToolError"), "{ran:?}");

    place.put(
        "coracle.yaml",
        &fs::read_to_string(place.folder().join("coracle.yaml"))
            .unwrap()
            .replace("mcpServers", "search: {select_top: 2, select_threshold: 0}\nmcpServers"),
    );
    let both = place.run(&["tools", "select", task]);
    assert!(both.stdout.contains("convert_time") && both.stdout.contains("get_current_time"), "{both:?}");
}

/// Tasks for the reference servers of git and files: the starter program reads before it writes, with the matching
/// tools.
#[test]
fn a_starter_program_reads_before_it_writes() {
    let place = Place::new();
    place.put(
        "coracle.yaml",
        &format!(
            "mcpServers:\n  git: {{command: {}}}\n  filesystem: {{command: {}, args: [{}]}}\n",
            installed("venv/bin/mcp-server-git"),
            installed("npm/node_modules/.bin/mcp-server-filesystem"),
            place.folder().display(),
        ),
    );
    place.output(&["tools", "generate", "typings"]);
    for (task, reads) in [
        ("write the last commits of a repository to a file", "git_log"),
        ("save the branches of a repository in a file", "git_branch"),
        ("write all changes that are not staged yet to a file", "git_diff_unstaged"),
    ] {
        let chosen = place.run(&["tools", "select", task]);
        assert_eq!(chosen.code, Some(0), "{chosen:?}");
        let program = &chosen.stdout;
        let imported: Vec<&str> =
            program.lines().filter_map(|line| line.strip_prefix("from servers.")?.split(" import ").nth(1)).collect();
        assert_eq!(imported, [reads, "write_file"], "{chosen:?}");
        assert!(program.contains(&format!("answer_1 = {reads}(repo_path=\"<repo_path>\"")), "{program}");
        assert!(program.contains("answer_2 = write_file(path=\"<path>\", content=str(answer_1))"), "{program}");
        assert!(
            !program.contains("\"\"") && !program.contains("[]"),
            "nothing to fill in is without a name: {program}"
        );
        mypy(&place, program).unwrap();
    }
    // A deprecated tool is found if requested by name, but not selected otherwise.
    let chosen = place.run(&["tools", "select", "read a text file", "--top", "1"]);
    assert!(chosen.stdout.contains(" import read_text_file\n"), "{chosen:?}");
    let found = place.output(&["tools", "search", "deprecated", "tool", "to", "read", "a", "file", "--limit", "1"]);
    assert!(found.starts_with("filesystem.read_file "), "{found}");
}

#[test]
fn a_server_that_fails_to_start_is_reported_with_the_reason() {
    let place = Place::new();
    place.put("coracle.yaml", "mcpServers: {x: {command: /does/not/exist}}\n");
    for arguments in [&["tools", "list"][..], &["tools", "show", "x", "y"], &["tools", "generate", "typings"]] {
        let said = place.run(arguments);
        assert_eq!((said.code, said.stdout.as_str()), (Some(1), ""), "{said:?}");
        assert!(said.stderr.contains("warning: the tools of x are not known: "), "{said:?}");
        assert!(said.stderr.contains("/does/not/exist"), "{said:?}");
    }
}

fn mypy(place: &Place, program: &str) -> Result<(), String> {
    place.put("program.py", program);
    let output = Command::new(installed("venv/bin/mypy"))
        .args(["--strict", "--no-incremental", "--no-error-summary", "--cache-dir=/dev/null", "program.py"])
        .env("MYPYPATH", "typings")
        .current_dir(place.folder())
        .output()
        .unwrap();
    if output.status.success() { Ok(()) } else { Err(String::from_utf8(output.stdout).unwrap()) }
}

fn tsc(place: &Place, program: &str) -> Result<(), String> {
    place.put("program.ts", program);
    let settings = r#"{"compilerOptions": {"strict": true, "noEmit": true, "target": "es2022", "module": "esnext",
        "moduleResolution": "bundler", "moduleDetection": "force", "allowImportingTsExtensions": true, "types": [],
        "paths": {"servers/*": ["./typings/servers/*"]}}, "files": ["program.ts", "typings/coracle.d.ts"]}"#;
    place.put("tsconfig.json", settings);
    let output = Command::new(installed("npm/node_modules/.bin/tsc")).current_dir(place.folder()).output().unwrap();
    if output.status.success() { Ok(()) } else { Err(String::from_utf8(output.stdout).unwrap()) }
}

#[test]
fn type_checkers_accept_generated_modules() {
    let place = with_time();
    let typings = place.folder().join("typings");
    place.output(&["tools", "generate", "typings"]);
    let python = "from servers.the_time import convert_time\n\
                  from coracle import ToolError\n\
                  def at(zone: str) -> str:\n    \
                  try:\n        \
                  return convert_time(source_timezone=\"Etc/UTC\", time=\"12:00\", target_timezone=zone)[\"time_difference\"]\n    \
                  except ToolError as error:\n        \
                  return error.code\n";
    mypy(&place, python).unwrap();
    let said = mypy(&place, &python.replace("time=\"12:00\", ", "")).unwrap_err();
    assert!(said.contains("Missing named argument \"time\""), "{said}");
    let typescript = "import { convert_time } from \"servers/the_time\";\n\
                      const told = await convert_time({ source_timezone: \"Etc/UTC\", time: \"12:00\", target_timezone: \"Etc/UTC\" });\n\
                      export const difference: string = told.time_difference;\n";
    tsc(&place, typescript).unwrap();
    let said = tsc(&place, &typescript.replace("time: \"12:00\", ", "")).unwrap_err();
    assert!(said.contains("Property 'time' is missing"), "{said}");

    // Other files are kept, and outdated generated ones are removed.
    place.put("typings/mine.py", "x = 1\n");
    place.put("typings/servers/gone/__init__.py", "");
    place.output(&["tools", "generate", "typings"]);
    assert!(typings.join("mine.py").exists() && !typings.join("servers/gone").exists());
    assert!(typings.join("servers/the_time/convert_time.py").exists());
    let left: Vec<_> = fs::read_dir(&typings).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    assert!(left.iter().all(|name| !name.to_string_lossy().starts_with(".making")), "{left:?}");

    let foreign = place.put("foreign/servers/x.py", "mine\n");
    let said = place.run(&["tools", "generate", "foreign"]);
    assert_eq!(said.code, Some(2), "{said:?}");
    assert!(said.stderr.contains("is not empty, and was not written by this command"), "{said:?}");
    assert_eq!(fs::read_to_string(foreign).unwrap(), "mine\n");
    let said = place.run(&["tools", "generate", "program.py"]);
    assert_eq!(said.code, Some(2), "{said:?}");
}

#[test]
fn generated_modules_can_be_imported_outside_a_sandbox() {
    let place = with_time();
    place.output(&["tools", "generate", "typings"]);
    place.put(
        "outside.py",
        "import asyncio, coracle\n\
         from servers.the_time import get_current_time\n\
         for call in (get_current_time, lambda **named: asyncio.run(get_current_time.aio(**named))):\n    \
         try:\n        call(timezone='Etc/UTC')\n    \
         except coracle.ToolError as error:\n        print(error)\n",
    );
    let python = Command::new("python3")
        .args(["-B", "outside.py"])
        .env("PYTHONPATH", "typings")
        .current_dir(place.folder())
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&python.stdout).into_owned() + &String::from_utf8_lossy(&python.stderr);
    assert_eq!(said.lines().count(), 2, "{said}");
    for line in said.lines() {
        assert!(line.starts_with("the-time.get_current_time: tools can only be called inside a Coracle"), "{said}");
        assert!(line.contains("`coracle exec FILE`") && line.ends_with("(outside_sandbox)"), "{said}");
    }
    place.put(
        "typings/outside.mjs",
        "import * as coracle from \"coracle\";\n\
         try { await coracle.call(\"a\", \"b\", {}); } catch (error) { console.log(error.code, error instanceof coracle.ToolError); }\n",
    );
    let node = Command::new("node").arg("typings/outside.mjs").current_dir(place.folder()).output().unwrap();
    assert_eq!(String::from_utf8_lossy(&node.stdout), "outside_sandbox true\n", "{node:?}");
}

#[test]
fn help_works_on_a_tool() {
    let place = with_time();
    let said = place.output(&["exec", "-c", "from servers.the_time import convert_time\nhelp(convert_time)"]);
    for part in
        ["Help on function convert_time in module servers.the_time.convert_time", "source_timezone: 'str'", "Args:"]
    {
        assert!(said.contains(part), "{part}: {said}");
    }
}

#[test]
fn a_tool_is_shown_by_either_name() {
    let place = with_time();
    let shown = place.output(&["tools", "show", "the-time", "convert_time"]);
    assert!(shown.contains("def convert_time("), "{shown}");
    for name in ["the-time.convert_time", "the_time.convert_time"] {
        assert_eq!(place.output(&["tools", "show", name]), shown);
    }
    for name in ["the_time", "the_time.", ".convert_time"] {
        let said = place.run(&["tools", "show", name]);
        assert_eq!(said.code, Some(2), "{said:?}");
        assert!(said.stderr.contains("does not name a tool"), "{said:?}");
    }
}

#[test]
fn decisions_are_listed_and_removed() {
    let place = Place::new();
    let said = place.run(&["tools", "decisions"]);
    assert_eq!((said.code, said.stdout.as_str()), (Some(0), ""), "{said:?}");
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        let store = SqliteStore::open(&Home::new(place.home()), KeySource::File).await.unwrap();
        let decision = ToolDecision {
            server: ServerName::new("files").unwrap(),
            tool: "delete\u{1b}[2K".to_owned(),
            definition: "digest".to_owned(),
            arguments: None,
            decision: Decision::Allow,
            decided_at: SystemTime::now(),
        };
        store.remember(&UserId::local(), &decision).await.unwrap();
        for digest in ["0a", "0b"] {
            let bound = ToolDecision { arguments: Some(digest.to_owned()), ..decision.clone() };
            store.remember(&UserId::local(), &bound).await.unwrap();
        }
    });
    let forget = ["tools", "forget", "files", "delete\u{1b}[2K"];
    place.output(&[&forget[..], &["--arguments", "0b"]].concat());
    assert_eq!(place.run(&[&forget[..], &["--arguments", "0b"]].concat()).code, Some(2));
    assert_eq!(
        place.output(&["tools", "decisions"]),
        "files  delete\\u{1b}[2K  allow\nfiles  delete\\u{1b}[2K  allow with arguments 0a\n"
    );
    let rows: Value = serde_json::from_str(&place.output(&["tools", "decisions", "--json"])).unwrap();
    assert_eq!((&rows[0]["tool"], &rows[0]["decision"]), (&"delete\u{1b}[2K".into(), &"allow".into()));
    let said = place.run(&["tools", "forget", "files", "delete"]);
    assert_eq!(said.code, Some(2), "{said:?}");
    place.output(&forget);
    assert_eq!(place.output(&["tools", "decisions", "--json"]), "[]\n");
}
