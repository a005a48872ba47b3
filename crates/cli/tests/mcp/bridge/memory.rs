//! Credentials of servers are in no memory of sandboxed processes, as seen from outside.

use crate::lab::Bridge;
use coracle_testing::each_user;
use coracle_testing::harness::As;
use coracle_testing::wait::eventually;
use rustix::process::geteuid;
use serde_json::{Value, json};
use sha2::{Digest, Sha256};
use std::process::{Command, Stdio};

/// Findings of `fixtures/memory.py` about one process.
#[derive(Debug)]
struct Looked {
    words: String,
    inside: bool,
    bytes: u64,
    found: bool,
}

fn look(bridge: &Bridge, program: u32, mark: &str) -> Vec<Looked> {
    let output = Command::new("/usr/bin/python3")
        .args(["-I", &bridge.text("memory.py"), &program.to_string(), mark])
        .output()
        .unwrap();
    let told: Vec<Value> = serde_json::from_slice(&output.stdout).unwrap_or_else(|_| panic!("{output:?}"));
    let words =
        |told: &Value| told["words"].as_array().unwrap().iter().filter_map(Value::as_str).collect::<Vec<_>>().join(" ");
    told.iter()
        .map(|told| Looked {
            words: words(told),
            inside: told["inside"] == true,
            bytes: told["bytes"].as_u64().unwrap(),
            found: told["found"] == true,
        })
        .collect()
}

/// Runs code until it waits in the tool `wait`, searches the memory of all processes, and lets it end.
fn paused(bridge: &Bridge, language: &str, code: &str, mark: &str) -> (Vec<Looked>, Value) {
    let waits = || bridge.lines("plain.log").iter().filter(|line| *line == "wait").count();
    let before = waits();
    let mut command = bridge.coracle.command();
    command.args(["exec", "--json", "--lang", language, "-c", code]);
    let child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    eventually("the code waits", || waits() > before);
    let looked = look(bridge, child.id(), mark);
    bridge.write("data/go", "");
    let output = child.wait_with_output().unwrap();
    std::fs::remove_file(bridge.path("data/go")).unwrap();
    bridge.assert_no_servers();
    (looked, serde_json::from_slice(&output.stdout).unwrap_or_else(|_| panic!("{output:?}")))
}

/// Whether a command line is that of the process for a language.
fn runs(language: &str, words: &str) -> bool {
    match language {
        "python" => words.contains("python") || words.contains("coracle_guest"),
        "bash" => words.starts_with("bash") || words.contains("/bash"),
        _ => words.contains("__typescript"),
    }
}

each_user!(sandboxed_processes_have_no_credentials_in_memory);
fn sandboxed_processes_have_no_credentials_in_memory(who: As) {
    if !geteuid().is_root() {
        coracle_testing::skip::skip("the memory of other processes: only root can read it");
        return;
    }
    let bridge = Bridge::new(who);
    bridge.write("memory.py", include_str!("fixtures/memory.py"));
    let mark = format!("canary{}x{}", std::process::id(), fastrand::u32(..));
    let secret = format!("{mark}-env");
    let mut plain = bridge.plain("plain");
    plain["env"]["SECRET"] = json!(secret);
    bridge.servers(&json!({ "plain": plain }));
    let go = bridge.text("data/go");
    let digest = hex::encode(Sha256::digest(&secret));
    let programs = [
        (
            "python",
            format!(
                "from servers.plain import digest, wait\ngot = digest(what='env')['sha256']\nwait(path={go:?})\nprint(got)"
            ),
            format!("planted = {mark:?}.upper().lower()\n"),
        ),
        (
            "typescript",
            format!(
                "import {{ digest, wait }} from 'servers/plain';\nconst got = (await digest({{ what: 'env' }})).sha256;\nawait wait({{ path: {go:?} }});\nconsole.log(got)"
            ),
            format!("const planted = {mark:?}.toUpperCase().toLowerCase();\n"),
        ),
        (
            "bash",
            format!("got=$(tool plain digest --what env)\ntool plain wait --path {go} >&2\necho \"$got\""),
            format!("planted={mark}\n"),
        ),
    ];
    for (language, code, plant) in programs {
        let (looked, execution) = paused(&bridge, language, &code, &mark);
        // The credential reached the server, and the memory of the program that holds it was searched.
        assert!(execution["stdout"].as_str().unwrap().contains(&digest), "{language} as {who:?}: {execution:#}");
        let host = looked.iter().find(|process| !process.inside).unwrap();
        assert!(host.found, "{language} as {who:?}: it is not even where it must be: {looked:#?}");
        let inside: Vec<&Looked> = looked.iter().filter(|process| process.inside).collect();
        assert!(inside.iter().any(|process| runs(language, &process.words)), "{language} as {who:?}: {looked:#?}");
        assert!(inside.iter().all(|process| process.bytes > 100_000), "{language} as {who:?}: {looked:#?}");
        assert!(inside.iter().all(|process| !process.found), "{language} as {who:?}: {looked:#?}");
        // Control: the same search finds text that is planted in the process of the language.
        let (looked, _) = paused(&bridge, language, &(plant + &code), &mark);
        let mut runner = looked.iter().filter(|process| process.inside && runs(language, &process.words));
        assert!(runner.any(|process| process.found), "{language} as {who:?}: {looked:#?}");
    }
}
