//! One program with three servers in three languages, and details of calls in each language.

use crate::lab::{Bridge, lines_of, npm, pypi, repository};
use coracle_testing::each_user;
use coracle_testing::harness::As;
use serde_json::{Value, json};
use std::fs;

const LANGUAGES: [&str; 3] = ["python", "typescript", "bash"];

const PEOPLE: &str = r#"[
  {"name": "Ada", "entityType": "person", "observations": ["wrote a program for the engine"]},
  {"name": "Charles", "entityType": "person", "observations": ["drew the engine"]},
  {"name": "Mary", "entityType": "person", "observations": ["wrote on physics"]}
]"#;

const PYTHON: &str = r#"
import json
from servers.files import read_text_file
from servers.memory import create_entities, search_nodes
from servers import git

people = json.loads(read_text_file(path=FOLDER + "/people.json")["content"])
create_entities(entities=people)
found = [node["name"] for node in search_nodes(query="engine")["entities"]]
status = git.git_status(repo_path=REPOSITORY)
{"found": found, "on_trunk": "On branch trunk" in status, "asked": len(people)}
"#;

const TYPESCRIPT: &str = r#"
import { read_text_file } from "servers/files";
import { create_entities, search_nodes } from "servers/memory";
import * as git from "servers/git";

const people = JSON.parse((await read_text_file({ path: FOLDER + "/people.json" })).content);
await create_entities({ entities: people });
const found = (await search_nodes({ query: "engine" })).entities.map((node) => node.name);
const status: string = await git.git_status({ repo_path: REPOSITORY });
({ found, on_trunk: status.includes("On branch trunk"), asked: people.length })
"#;

const BASH: &str = r#"
set -euo pipefail
field() { python3 -c "import json, sys; value = json.load(sys.stdin); print(json.dumps($1))"; }
people=$(tool files read_text_file --path "$FOLDER/people.json" | field 'json.loads(value["content"])')
tool memory create_entities --entities "$people" >/dev/null
found=$(tool memory search_nodes --query engine | field '[node["name"] for node in value["entities"]]')
tool git git_status --repo_path "$REPOSITORY" | grep -q "On branch trunk" && on_trunk=true
echo "{\"found\": $found, \"on_trunk\": $on_trunk, \"asked\": $(echo "$people" | field 'len(value)')}"
"#;

fn with_variables(language: &str, code: &str, variables: &[(&str, &str)]) -> String {
    let line = |(name, value): &(&str, &str)| match language {
        "python" => format!("{name} = {value:?}"),
        "typescript" => format!("const {name} = {value:?};"),
        _ => format!("{name}={value:?}"),
    };
    format!("{}\n{code}", variables.iter().map(line).collect::<Vec<_>>().join("\n"))
}

each_user!(one_program_uses_three_servers_in_three_languages);
fn one_program_uses_three_servers_in_three_languages(who: As) {
    for (language, code) in LANGUAGES.into_iter().zip([PYTHON, TYPESCRIPT, BASH]) {
        let bridge = Bridge::new(who);
        bridge.write("data/people.json", PEOPLE);
        let (folder, repository) = (bridge.text("data"), repository(&bridge));
        let mut memory = npm("memory", &[]);
        memory["env"] = json!({ "MEMORY_FILE_PATH": bridge.text("data/memory.json") });
        bridge.servers(&json!({
            "files": npm("filesystem", &[&folder]),
            "memory": memory,
            "git": pypi("git", &["--repository", &repository]),
        }));
        let code = with_variables(language, code, &[("FOLDER", &folder), ("REPOSITORY", &repository)]);
        let execution = bridge.run(language, &code, &[]);
        assert_eq!(execution["success"], true, "{language} as {who:?}: {execution:#}");
        let result = match language {
            "bash" => serde_json::from_str(execution["stdout"].as_str().unwrap()).unwrap(),
            _ => execution["result"].clone(),
        };
        assert_eq!(result, json!({ "found": ["Ada", "Charles"], "on_trunk": true, "asked": 3 }), "{language}");
        let called: Vec<_> = execution["calls"].as_array().unwrap().iter().map(summary).collect();
        let expected = [
            json!(["files", "read_text_file", true]),
            json!(["memory", "create_entities", true]),
            json!(["memory", "search_nodes", true]),
            json!(["git", "git_status", true]),
        ];
        assert_eq!(called, expected, "{language}");
        assert!(execution["calls"].as_array().unwrap().iter().all(|call| call["bytes_in"].as_u64() > Some(2)
            && call["bytes_out"].as_u64() > Some(2)
            && call["code"].is_null()));
    }
}

fn summary(call: &Value) -> Value {
    json!([call["server"], call["tool"], call["ok"]])
}

/// The server answers only when all calls have arrived: sequential calls would never end.
#[test]
fn calls_run_in_parallel() {
    let bridge = Bridge::new(As::current());
    bridge.servers(&json!({ "plain": bridge.plain("plain") }));
    let programs = [
        (
            "python",
            "import asyncio\nfrom servers.plain import meet\nawait asyncio.gather(*[meet.aio(count=8, place='a') for _ in range(8)])",
        ),
        (
            "python",
            "from concurrent.futures import ThreadPoolExecutor\nfrom servers.plain import meet\nwith ThreadPoolExecutor(8) as pool:\n    result = list(pool.map(lambda _: meet(count=8, place='b'), range(8)))",
        ),
        (
            "typescript",
            "import { meet } from 'servers/plain';\nawait Promise.all(Array.from({ length: 8 }, () => meet({ count: 8, place: 'c' })))",
        ),
        (
            "bash",
            "for n in 1 2 3 4 5 6 7 8; do tool plain meet --count 8 --place d & done | paste -sd, | sed 's/.*/[&]/'; wait",
        ),
        ("bash", "seq 8 | xargs -P 8 -I{} tool plain meet --count 8 --place e | paste -sd, | sed 's/.*/[&]/'"),
    ];
    for (language, code) in programs {
        assert_eq!(bridge.result(language, code), json!(vec![json!({ "met": 8 }); 8]), "{code}");
    }
}

#[test]
fn mistakes_are_errors_that_code_can_inspect() {
    let bridge = Bridge::new(As::current());
    bridge.servers(&json!({ "plain": bridge.plain("plain") }));
    let python = r#"
from coracle import ToolError, call
told = []
for server, tool, arguments in [
    ("plain", "echo", {"text": 5}),
    ("plain", "echo", {}),
    ("plain", "echo", {"text": "a", "txet": "b"}),
    ("plain", "ecko", {"text": "a"}),
    ("plian", "echo", {"text": "a"}),
    ("plain", "fail", {"message": "no such branch: x"}),
]:
    try:
        call(server, tool, arguments)
        told.append("no error")
    except ToolError as error:
        told.append([error.server, error.tool, error.code, error.message, error.retryable])
told"#;
    let typescript = r#"
import { call, ToolError } from "coracle";
const told: unknown[] = [];
for (const [server, tool, args] of [
    ["plain", "echo", { text: 5 }],
    ["plain", "echo", {}],
    ["plain", "echo", { text: "a", txet: "b" }],
    ["plain", "ecko", { text: "a" }],
    ["plian", "echo", { text: "a" }],
    ["plain", "fail", { message: "no such branch: x" }],
] as [string, string, object][]) {
    try {
        await call(server, tool, args);
        told.push("no error");
    } catch (error) {
        if (!(error instanceof ToolError)) throw error;
        told.push([error.server, error.tool, error.code, error.message, error.retryable]);
    }
}
told"#;
    let told = bridge.result("python", python);
    insta::assert_snapshot!("mistakes", lines_of(&told));
    assert_eq!(bridge.result("typescript", typescript), told);
    let bash = r"
for words in '--text' '' '--text a --txet b'; do tool plain echo $words; echo $?; done
tool plain ecko --text a; echo $?
tool plian echo --text a; echo $?
tool plain fail --message 'no such branch: x'; echo $?
tool plain large --bytes none; echo $?";
    let execution = bridge.run("bash", &format!("exec 2>&1\n{bash}"), &[]);
    insta::assert_snapshot!("mistakes_in_bash", execution["stdout"].as_str().unwrap());
    // No invalid call reached the server.
    assert_eq!(bridge.lines("plain.log").iter().filter(|line| *line == "echo").count(), 0);
    let missing = bridge.run("python", "from servers.plain import ecko", &[]);
    assert_eq!(missing["hint"], "there is no tool 'ecko' in servers.plain; did you mean echo?", "{missing:#}");
    for code in ["from servers.plian import echo", "from servers import plian", "import servers.plian"] {
        let missing = bridge.run("python", code, &[]);
        assert_eq!(missing["hint"], "there is no server 'plian'; did you mean plain?", "{code}: {missing:#}");
    }
}

/// The error names the tool exactly once, whatever went wrong.
#[test]
fn an_error_names_its_tool_once() {
    let bridge = Bridge::new(As::current());
    bridge.settings(&json!({
        "policy": { "tools": { "plain.no*": "deny" } },
        "mcpServers": { "plain": bridge.plain("plain"), "gone": { "command": "/does/not/exist" } },
    }));
    let calls = [
        ("plain", "wipe", json!({ "what": "x" }), "denied_unasked"),
        ("plain", "note", json!({ "text": "x" }), "denied_by_policy"),
        ("plain", "ecko", json!({}), "tool_not_found"),
        ("plain", "echo", json!({}), "invalid_arguments"),
        ("plain", "fail", json!({ "message": "it rains" }), "tool_error"),
        ("plain", "large", json!({ "bytes": 9_000_000 }), "too_large"),
        ("gone", "echo", json!({}), "unavailable"),
    ];
    for (server, tool, arguments, code) in calls {
        let python = format!("from coracle import call\ncall({server:?}, {tool:?}, {arguments})");
        let typescript = format!("import {{ call }} from 'coracle';\nawait call({server:?}, {tool:?}, {arguments})");
        for (language, program) in [("python", python), ("typescript", typescript)] {
            let execution = bridge.run(language, &program, &[]);
            let error = execution["error"].as_str().unwrap();
            assert!(error.starts_with(&format!("ToolError: {server}.{tool}: ")), "{language}: {execution:#}");
            assert!(error.contains(code), "{language}: {error}");
            // The line of configuration must name the tool as well.
            let (words, _) = error.split_once("would allow it").unwrap_or((error, ""));
            let named =
                words.split(|letter: char| !letter.is_alphanumeric() && letter != '_').filter(|word| *word == tool);
            assert_eq!(named.count(), 1, "{language}: {error}");
        }
    }
}

#[test]
fn unknown_arguments_suggest_a_similar_one() {
    let bridge = Bridge::new(As::current());
    bridge.servers(&json!({ "plain": bridge.plain("plain") }));
    for (call, error) in [
        ("large(byte=5)", "TypeError: large() has no argument 'byte'; did you mean 'bytes'?"),
        ("await large.aio(bytse=5)", "TypeError: large() has no argument 'bytse'; did you mean 'bytes'?"),
        ("large(bytes=5, colour='red')", "TypeError: large() has no argument 'colour'; it takes bytes, letter"),
        ("people(who='x')", "TypeError: people() has no argument 'who'; it takes none"),
    ] {
        let execution = bridge.run("python", &format!("from servers.plain import large, people\n{call}"), &[]);
        assert_eq!(execution["error"], error, "{execution:#}");
    }
    assert_eq!(bridge.result("python", "from servers.plain import large\nlarge(bytes=5)"), "xxxxx");
}

/// Names with a meaning in Python, TypeScript, bash or Coracle.
#[test]
fn servers_can_have_any_name() {
    let bridge = Bridge::new(As::current());
    let names = [
        "tools",
        "tool",
        "servers",
        "skills",
        "coracle",
        "index",
        "list",
        "json",
        "help",
        "call",
        "class",
        "2fa",
        "my-server",
    ];
    let servers: serde_json::Map<String, serde_json::Value> =
        names.iter().map(|name| ((*name).to_owned(), bridge.plain(name))).collect();
    bridge.servers(&servers.into());
    for name in names {
        let package = match name {
            "class" => "class_",
            "2fa" => "_2fa",
            "my-server" => "my_server",
            other => other,
        };
        let programs = [
            ("python", format!("from servers.{package} import echo\necho(text='{name}')")),
            ("python", format!("import servers.{package} as it\nit.echo(text='{name}')")),
            ("typescript", format!("import {{ echo }} from 'servers/{package}';\nawait echo({{ text: '{name}' }})")),
            ("bash", format!("printf '\"%s\"' \"$(tool {package} echo --text {name})\"")),
        ];
        for (language, code) in programs {
            assert_eq!(bridge.result(language, &code), name, "{language}: {code}");
        }
    }
    // The language's own modules are still available.
    assert_eq!(
        bridge
            .result("python", "import json\nfrom servers import list as theirs\n[json.loads('[1]'), len(list('ab'))]"),
        json!([[1], 2])
    );
}

each_user!(media_are_files_and_structured_results_are_values);
fn media_are_files_and_structured_results_are_values(who: As) {
    let bridge = Bridge::new(who);
    bridge.servers(&json!({ "everything": npm("everything", &["stdio"]) }));
    let python = r#"
from servers.everything import get_tiny_image, get_structured_content
parts = get_tiny_image()
image = next(part for part in parts if not isinstance(part, str))
weather = get_structured_content(location="New York")
[image.mime, open(image.path, "rb").read(8).hex(), image.path.startswith("/tmp/media/"), sorted(weather)]"#;
    let typescript = r#"
import { get_tiny_image, get_structured_content } from "servers/everything";
const parts = await get_tiny_image({}) as any[];
const image = parts.find((part) => typeof part !== "string");
const weather = await get_structured_content({ location: "New York" });
const hex = [...image.readBytes().slice(0, 8)].map((byte) => byte.toString(16).padStart(2, "0")).join("");
[image.mime, hex, image.path.startsWith("/tmp/media/"), Object.keys(weather).sort()]"#;
    let bash = r#"
path=$(tool everything get-tiny-image | python3 -c 'import json, sys; print(next(part["path"] for part in json.load(sys.stdin) if not isinstance(part, str)))')
hex=$(head -c 8 "$path" | od -An -tx1 | tr -d ' \n')
keys=$(tool everything get-structured-content --location "New York" | python3 -c 'import json, sys; print(json.dumps(sorted(json.load(sys.stdin))))')
case $path in /tmp/media/*.png) place=true;; esac
echo "[\"image/png\", \"$hex\", $place, $keys]""#;
    let expected = json!(["image/png", "89504e470d0a1a0a", true, ["conditions", "humidity", "temperature"]]);
    for (language, code) in LANGUAGES.into_iter().zip([python, typescript, bash]) {
        assert_eq!(bridge.result(language, code), expected, "{language} as {who:?}");
    }
}

#[test]
fn listed_tools_are_known_without_starting_the_server() {
    let bridge = Bridge::new(As::current());
    bridge.servers(&json!({ "one": bridge.plain("one"), "two": bridge.plain("two") }));
    // Neither server is known yet, so listing the modules starts both.
    let seen = bridge
        .result("python", "import os\nsorted(name for name in os.listdir('/coracle/servers') if '.' not in name)");
    assert_eq!(seen, json!(["one", "two"]));
    assert_eq!((bridge.starts("one"), bridge.starts("two")), (1, 1));
    let again =
        bridge.result("python", "import os\nfrom servers import one, two\n[one.echo.__name__, two.echo.__name__]");
    assert_eq!(again, json!(["echo", "echo"]));
    assert_eq!((bridge.starts("one"), bridge.starts("two")), (1, 1));
    assert_eq!(bridge.result("python", "from servers.one import echo\necho(text='hi')"), json!("hi"));
    assert_eq!((bridge.starts("one"), bridge.starts("two")), (2, 1));
    // A server with another configuration is another server.
    let mut changed = bridge.plain("one");
    changed["env"]["PLAIN_EXTRA"] = json!("1");
    bridge.servers(&json!({ "one": changed, "two": bridge.plain("two") }));
    assert_eq!(bridge.result("python", "from servers.one import extra_000\nextra_000(text='new')"), json!("new"));
    assert_eq!(bridge.starts("two"), 1);
}

#[test]
fn types_are_learned_from_results_without_values() {
    let bridge = Bridge::new(As::current());
    bridge.servers(&json!({ "plain": bridge.plain("plain") }));
    let stub = "open('/coracle/servers/plain/people.py').read()";
    let code = format!("from servers.plain import people\nbefore = {stub}\npeople()\nbefore");
    let before = bridge.result("python", &code);
    assert!(!before.as_str().unwrap().contains("age:"), "{before}");
    let code = format!("[{stub}, open('/coracle/servers/plain/people.ts').read()]");
    let after = bridge.result("python", &code);
    insta::assert_snapshot!("learned", format!("{}\n---\n{}", after[0].as_str().unwrap(), after[1].as_str().unwrap()));
    // Neither the stub nor any stored file contains values, or keys that are values.
    let mut kept = after.to_string();
    for entry in fs::read_dir(bridge.coracle.home()).unwrap().flatten() {
        kept += &String::from_utf8_lossy(&fs::read(entry.path()).unwrap_or_default());
    }
    for value in ["Lovelace", "1815", "u-111"] {
        assert!(!kept.contains(value), "{value} is kept");
    }
    assert!(kept.contains("age"));
}
