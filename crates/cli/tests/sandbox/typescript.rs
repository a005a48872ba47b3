//! TypeScript in normal use. Limits and isolation are in `typescript_limits.rs`, tool calls in `tools_from_code.rs`.

use coracle_testing::each_user;
use coracle_testing::harness::{As, Coracle};
use coracle_testing::lab::{Lab, error_code};
use coracle_types::Language::{Bash, Python, TypeScript};
use coracle_types::{ErrorCode, Limits};
use serde_json::{Value, json};
use std::fs;
use std::time::Duration;

fn one() -> Coracle {
    Coracle::new(As::Ordinary)
}

fn run(coracle: &Coracle, code: &str) -> Value {
    coracle.run("typescript", code, &[])
}

/// Returns the result of code that must succeed.
fn result(coracle: &Coracle, code: &str) -> Value {
    let execution = run(coracle, code);
    assert_eq!(execution["success"], true, "as {:?}: {code}: {execution:#}", coracle.who);
    execution["result"].clone()
}

each_user!(it_runs_for_all_users_by_every_name_and_extension);
fn it_runs_for_all_users_by_every_name_and_extension(who: As) {
    let coracle = Coracle::new(who);
    assert_eq!(result(&coracle, "const x: number = 6;\nx * 7"), 42);
    for name in ["ts", "javascript", "js"] {
        assert_eq!(coracle.run(name, "1 + 1", &[])["result"], 2, "{name}");
    }
    for ending in ["ts", "mts", "js", "mjs"] {
        let path = coracle.workspace().join(format!("a.{ending}"));
        fs::write(&path, "console.log([1, 2].map((n) => n * 2))").unwrap();
        coracle.own(&path);
        let output = coracle.exec(&[path.to_str().unwrap()]);
        assert_eq!(String::from_utf8_lossy(&output.stdout), "[ 2, 4 ]\n", "{ending}: {output:?}");
    }
}

each_user!(the_program_can_be_in_an_unlistable_folder);
fn the_program_can_be_in_an_unlistable_folder(who: As) {
    let coracle = Coracle::new(who);
    let folder = coracle.home().join("hidden");
    fs::create_dir(&folder).unwrap();
    let program = folder.join("coracle");
    fs::copy(env!("CARGO_BIN_EXE_coracle"), &program).unwrap();
    fs::set_permissions(&program, std::os::unix::fs::PermissionsExt::from_mode(0o755)).unwrap();
    fs::set_permissions(&folder, std::os::unix::fs::PermissionsExt::from_mode(0o711)).unwrap();
    let mut command = coracle.command();
    let words: Vec<_> = command.get_args().map(std::ffi::OsStr::to_owned).collect();
    // The same user with another program.
    command = if who == As::Ordinary && !words.is_empty() {
        let mut other = std::process::Command::new(command.get_program());
        other.args(words.get(..words.len() - 1).unwrap_or_default()).arg(&program);
        other
    } else {
        std::process::Command::new(&program)
    };
    command.env("CORACLE_HOME", coracle.home()).current_dir("/");
    let output = command.args(["exec", "--lang", "ts", "-c", "6 * 7"]).output().unwrap();
    assert_eq!(String::from_utf8_lossy(&output.stdout), "42\n", "{who:?}: {output:?}");
}

each_user!(nothing_is_evaluated_outside_a_sandbox);
fn nothing_is_evaluated_outside_a_sandbox(who: As) {
    let coracle = Coracle::new(who);
    let output = coracle.command().arg("__typescript").output().unwrap();
    let words = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(77), "{who:?}: {output:?}");
    assert!(words.starts_with("error: TypeScript runs only in a sandbox"), "{words}");
    // Control: the same program with the same argument works inside.
    assert_eq!(result(&coracle, "6 * 7"), 42);
}

#[test]
fn results_follow_the_same_rules_as_in_python() {
    let coracle = one();
    let cases = [
        ("result = 5; 6", json!(5)),
        ("const result = { a: 1 }", json!({"a": 1})),
        ("1; const x = 2", Value::Null),
        ("undefined", Value::Null),
        ("'text'", json!("text")),
        ("[NaN, -Infinity, -0, 1.5, 1e21]", json!(["NaN", "-Infinity", 0, 1.5, 1e21])),
        ("[2n ** 63n, 2n ** 100n]", json!([9_223_372_036_854_775_808_u64, "1267650600228229401496703205376"])),
        ("new Date(Date.UTC(2024, 0, 2))", json!("2024-01-02T00:00:00.000Z")),
        ("new Map<unknown, number>([['a', 1], [2, 2], ['2', 3]])", json!({"a": 1, "2": 2, "2 (2)": 3})),
        ("new Set([3, 1])", json!([3, 1])),
        ("new Uint8Array([0, 255])", json!({"type": "bytes", "length": 2, "base64": "AP8="})),
        ("new Float64Array([0.5])", json!([0.5])),
        ("({ f() {}, u: undefined, n: null, s: Symbol('x') })", json!({"n": null, "s": "Symbol(x)"})),
        ("(function named() {})", json!("<function named>")),
        ("new TypeError('wrong')", json!("TypeError: wrong")),
        ("class P { constructor(public x = 1, private y = [2]) {} }\nnew P()", json!({"x": 1, "y": [2]})),
        ("'\\ud800'", json!("\\ud800")),
        ("/a+/gi", json!("/a+/gi")),
        ("const o: any = { a: [] }; o.a.push(o); o", json!({"a": ["<cycle>"]})),
        ("enum Color { Red, Green = 'g' }\nColor", json!({"0": "Red", "Red": 0, "Green": "g"})),
        ("({ toJSON() { return { kind: 'own' } } })", json!({"kind": "own"})),
        ("async function main() { await null; return [1] }\nmain()", json!([1])),
        ("result = Promise.resolve(3)", json!(3)),
        ("export default 4", json!(4)),
    ];
    for (code, expected) in cases {
        assert_eq!(result(&coracle, code), expected, "{code}");
    }
    let long = run(&coracle, "'é'.repeat(2_000_000)");
    assert_eq!((&long["result"]["type"], &long["result"]["length"]), (&json!("string"), &json!(2_000_000)));
    let list = run(&coracle, "Array.from({ length: 500_000 }, (_, i) => ({ i }))");
    assert_eq!((&list["result"]["length"], &list["result"]["items"][0]), (&json!(500_000), &json!({"i": 0})));
}

#[test]
fn console_output_is_readable() {
    let coracle = one();
    let code = r#"
        console.log("text", 1, [1, "two"], { a: { b: { c: { d: { e: 1 } } } } });
        console.log("%s is %d %%", "x", 42, "more");
        console.info(new Map([["k", new Set([1])]]), new Date(0), null, undefined, 1n, -0);
        console.debug(Object.create(null), class A {}, () => 1, Symbol("s"), [ , 1]);
        console.log({ long: "x".repeat(80), "odd-key": 1, get g() { return 1 } });
        const loop: any = { name: "loop" }; loop.self = loop; console.log(loop);
        console.group("group"); console.log("inside\ntwice"); console.groupEnd();
        console.table([{ a: 1, b: 2 }]); console.count(); console.count("x");
        console.warn("warned"); console.error("failed", new RangeError("why").message); console.assert(false, "no");
        console.log(String.fromCharCode(0xd800) + "ok");
    "#;
    let execution = run(&coracle, code);
    insta::assert_snapshot!("console", execution["stdout"].as_str().unwrap());
    assert_eq!(execution["stderr"], "warned\nfailed why\nAssertion failed: no\n");
}

#[test]
fn timers_and_promises_run_to_their_end() {
    let coracle = one();
    let code = r#"
        const order: string[] = [];
        setTimeout((name: string) => order.push(name), 20, "late");
        setTimeout(() => order.push("soon"), 1);
        const cleared = setTimeout(() => order.push("never"), 5);
        clearTimeout(cleared);
        queueMicrotask(() => order.push("micro"));
        let ticks = 0;
        const interval = setInterval(() => { order.push("tick"); if (++ticks === 2) clearInterval(interval) }, 2);
        await new Promise((resolve) => setTimeout(resolve, 60));
        result = order;
        setTimeout(() => console.log("after the end"), 10);
    "#;
    let execution = run(&coracle, code);
    let order: Vec<&str> = execution["result"].as_array().unwrap().iter().filter_map(Value::as_str).collect();
    assert_eq!((order.first(), order.last()), (Some(&"micro"), Some(&"late")), "{execution:#}");
    assert_eq!(order.iter().filter(|name| **name == "tick").count(), 2, "{order:?}");
    assert_eq!(execution["stdout"], "after the end\n");
}

#[test]
fn errors_refer_to_the_users_lines() {
    let coracle = one();
    let told = |code: &str| {
        let execution = run(&coracle, code);
        let part = |key: &str| execution[key].as_str().unwrap_or_default().to_owned();
        format!("{}\n{}\n{}\nhint: {}", part("error_code"), part("error"), part("traceback"), part("hint"))
    };
    let cases = [
        (
            "thrown",
            "interface A { b: string }\n\nfunction f(a: A): number {\n  return (a as any).c.d;\n}\nf({ b: '' });",
        ),
        ("syntax", "const a: number = 1;\nconst b = (a;"),
        ("type_syntax", "let x: = 5"),
        ("constant", "const a = 1;\na = 2;"),
        (
            "async",
            "const wait = async (ms: number) => {\n  await null;\n  throw new RangeError(`no ${ms}`, { cause: new Error('deep') });\n};\nawait wait(1);",
        ),
        ("timer", "setTimeout(() => {\n  throw new Error('late');\n}, 1);"),
        ("rejected", "Promise.reject(new Error('unheard'));\n5"),
        ("never", "await new Promise(() => {});"),
        ("value", "throw { code: 7 };"),
        ("fetch", "await fetch('https://example.org');"),
        ("node", "const fs = require('fs');"),
        ("package", "import axios from 'axios';\naxios.get('x');"),
        ("file", "readFile('missing.txt');"),
    ];
    let all: Vec<String> = cases.iter().map(|(name, code)| format!("== {name}\n{}", told(code))).collect();
    insta::assert_snapshot!("errors", all.join("\n"));
}

each_user!(modules_are_loaded_only_from_the_workspace);
fn modules_are_loaded_only_from_the_workspace(who: As) {
    let coracle = Coracle::new(who);
    let files = [
        (
            "lib/math.ts",
            "import { base } from './base.js';\nexport type N = number;\nexport const twice = (n: N): N => base + n * 2;\nexport default class Box<T> { constructor(readonly value: T) {} }",
        ),
        ("lib/base.ts", "export const base: number = await Promise.resolve(100);"),
        ("data.json", "{\"a\": [1, 2]}"),
        ("plain.mjs", "export const plain = 'js';"),
        ("folder/index.ts", "export const indexed = true;"),
        ("broken.ts", "export const x = ;"),
    ];
    for (name, text) in files {
        let path = coracle.workspace().join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(&path, text).unwrap();
        coracle.own(path.parent().unwrap());
        coracle.own(&path);
    }
    let code = "import Box, { twice } from './lib/math';\nimport data from './data.json';\nimport * as plain from './plain.mjs';\nimport { indexed } from './folder';\nconst later = await import('./lib/base.ts');\n[twice(1), new Box('b').value, data.a, plain.plain, indexed, later.base]";
    assert_eq!(result(&coracle, code), json!([102, "b", [1, 2], "js", true, 100]), "{who:?}");
    std::os::unix::fs::symlink("/etc/hostname", coracle.workspace().join("link.ts")).unwrap();
    let refused = [
        ("await import('/etc/passwd')", "modules are loaded from the workspace"),
        ("await import('../etc/passwd')", "modules are loaded from the workspace"),
        ("await import('servers/../../etc/passwd')", "modules are loaded from the workspace"),
        ("await import('./link.ts')", "modules are loaded from the workspace"),
        ("await import('file:///etc/passwd')", "there are no packages here"),
        ("await import('https://example.org/x.js')", "there are no packages here"),
        ("await import('./nothing')", "there is no such file"),
        ("await import('./broken.ts')", "(/workspace/broken.ts:1:18)"),
        ("import { nothing } from './plain.mjs'; nothing", "nothing"),
    ];
    for (code, words) in refused {
        let execution = run(&coracle, code);
        assert_eq!(execution["error_code"], "exception", "{code}: {execution:#}");
        assert!(execution["error"].as_str().unwrap().contains(words), "{code}: {execution:#}");
    }
}

each_user!(helpers_match_python_in_both_spellings);
fn helpers_match_python_in_both_spellings(who: As) {
    let coracle = Coracle::new(who);
    let code = r#"
            const wrote = writeFile("out/a.txt", "é");
            write_file("out/b.json", { a: [1] });
            writeFile("out/c.bin", new Uint8Array([1, 2, 3]));
            const rows = [{ n: 1, s: "x" }, { n: 3, s: "y" }, { s: "z" }];
            result = {
                wrote,
                read: [readFile("out/a.txt"), read_file("out/b.json"), [...readBytes("out/c.bin")]],
                list: [listFiles("out"), list_files(".", "**/*.json")],
                deleted: [deleteFile("out/a.txt"), listFiles("out", "*.txt")],
                filter: [filterByField(rows, "n", 3), filter_by_field(rows, "n", (n: number) => n < 2)],
                summary: summarizeList(rows, 1),
                stats: aggregateStats(rows, "n"),
                output: [formatOutput(rows, "csv"), format_output(rows, "markdown"), formatOutput(rows, "table"), formatOutput({ a: 1 }, "text")],
                bytes: [new TextDecoder().decode(new TextEncoder().encode("ü")), btoa("hi"), atob("aGk="), crypto.randomUUID().length],
                clone: structuredClone({ d: new Date(0), m: new Map([[1, [2]]]) }),
            };
        "#;
    insta::assert_json_snapshot!("helpers", result(&coracle, code));
    let kept = fs::read(coracle.workspace().join("out/c.bin")).unwrap();
    assert_eq!(kept, [1, 2, 3]);
}

fn lab() -> Lab {
    Lab::new(Limits { wall_ms: 20_000, ..Limits::default() }, 1, Duration::from_mins(10))
}

#[tokio::test(flavor = "multi_thread")]
async fn a_session_keeps_declarations() {
    let lab = lab();
    let say = async |code: &str| {
        let execution = lab.execute(lab.in_session("a", TypeScript, code)).await;
        assert_eq!(error_code(&execution), None, "{code}: {execution:?}");
        (execution.result, execution.session_restarted)
    };
    let first = "let count = 1; const names = ['a']; class Box { v = 7 } function add(n: number) { count += n; return count }\nimport { call } from 'coracle';\nresult = 1";
    assert_eq!(say(first).await, (Some(json!(1)), false));
    assert_eq!(
        say("count++; names.push('b'); [add(2), count, names, new Box().v, typeof call]").await.0,
        Some(json!([4, 4, ["a", "b"], 7, "function"]))
    );
    // Running the same code again is not a redeclaration, and an earlier result is not returned again.
    assert_eq!(say(first).await.0, Some(json!(1)));
    assert_eq!(say("const other = 2").await.0, None);
    assert_eq!(say("result").await.0, Some(json!(1)));
    // Errors and syntax errors do not restart the session.
    let failed = lab.execute(lab.in_session("a", TypeScript, "let kept = 5; throw new Error('x')")).await;
    assert_eq!((error_code(&failed), failed.session_restarted), (Some(ErrorCode::Exception), false));
    assert_eq!(say("kept").await, (Some(json!(5)), false));
    // Timers of a failed run do not continue.
    let failed =
        lab.execute(lab.in_session("a", TypeScript, "setInterval(() => console.log('ghost'), 1); throw 1")).await;
    assert_eq!(error_code(&failed), Some(ErrorCode::Exception));
    let next = lab.execute(lab.in_session("a", TypeScript, "await new Promise((r) => setTimeout(r, 30)); 1")).await;
    assert_eq!((next.stdout.as_str(), next.result), ("", Some(json!(1))));
    // Files and the folder are shared with other languages, and changed modules are reloaded.
    let shell = lab.execute(lab.in_session("a", Bash, "mkdir sub && cd sub && echo 'export const v = 1' > m.ts")).await;
    assert_eq!(error_code(&shell), None, "{shell:?}");
    assert_eq!(say("import { v } from './m'; v").await.0, Some(json!(1)));
    let python = lab.execute(lab.in_session("a", Python, "open('m.ts', 'w').write('export const v = 22')")).await;
    assert_eq!(error_code(&python), None, "{python:?}");
    assert_eq!(say("import { v } from './m'; v").await, (Some(json!(22)), false));
    lab.close().await;
}

/// The sandbox continues, but not its TypeScript process: its variables are lost, those of Python are kept.
#[tokio::test(flavor = "multi_thread")]
async fn a_session_reports_a_restart_of_typescript() {
    let lab = Lab::new(Limits { wall_ms: 20_000, memory_mb: 200, ..Limits::default() }, 1, Duration::from_mins(10));
    let say = async |language, code: &str| {
        let execution = lab.execute(lab.in_session("a", language, code)).await;
        assert_eq!(error_code(&execution), None, "{code}: {execution:?}");
        (execution.result, execution.session_restarted)
    };
    assert_eq!(say(TypeScript, "let kept = 5; kept").await, (Some(json!(5)), false));
    assert_eq!(say(TypeScript, "kept").await, (Some(json!(5)), false));
    // All processes except the one of the sandbox itself.
    let kill = r"
import os
mine = 7
others = [int(name) for name in os.listdir('/proc') if name.isdigit() and int(name) != os.getpid()]
for pid in others:
    os.kill(pid, 9)
    os.waitid(os.P_PID, pid, os.WEXITED | os.WNOWAIT)
len(others)";
    assert_eq!(say(Python, kill).await, (Some(json!(1)), false));
    assert_eq!(say(TypeScript, "typeof kept").await, (Some(json!("undefined")), true));
    assert_eq!(say(TypeScript, "let kept = 6; kept").await, (Some(json!(6)), false));
    assert_eq!(say(Python, "mine").await, (Some(json!(7)), false));
    // If the process dies during a run, that run fails and the next one reports a restart.
    let bomb = "const all = []; while (true) all.push(new Uint8Array(1 << 20).fill(1))";
    let failed = lab.execute(lab.in_session("a", TypeScript, bomb)).await;
    assert_eq!((error_code(&failed), failed.session_restarted), (Some(ErrorCode::Memory), false), "{failed:?}");
    let (kept, restarted) = say(TypeScript, "typeof kept").await;
    // If the engine itself noticed, it continues.
    assert_eq!(restarted, kept == Some(json!("undefined")), "{kept:?}");
    assert_eq!(say(TypeScript, "1").await, (Some(json!(1)), false));
    // Without a session there is nothing to restart.
    let alone = lab.execute(lab.request(TypeScript, "1")).await;
    assert!(!alone.session_restarted);
    lab.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn context_variables_are_globals() {
    let lab = lab();
    let with = |code: &str, vars: Value| {
        let mut request = lab.request(TypeScript, code);
        request.vars = serde_json::from_value(vars).unwrap();
        request
    };
    let execution = lab
        .execute(with("[n + 1, list.length, who.name]", json!({"n": 1, "list": [1, 2], "who": {"name": "ada"}})))
        .await;
    assert_eq!(execution.result, Some(json!([2, 2, "ada"])), "{execution:?}");
    for name in ["a-b", "class", "", "1x", "globalThis"] {
        let execution = lab.execute(with("1", json!({ name: 1 }))).await;
        let failure = execution.failure.expect(name);
        assert!(failure.error.contains("is not a valid name in TypeScript"), "{name}: {failure:?}");
    }
    lab.close().await;
}
