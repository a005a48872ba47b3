//! What users have used and made: tokens, runs, sessions that are replayed and deleted, skills that are tried, and all
//! artifacts in one archive.

use crate::playing::{Playing, local_key};
use crate::site::Site;
use coracle_scripted_model::{Library, Step};
use coracle_testing::harness::As;
use serde_json::{Value, json};
use std::process::Command;

#[test]
fn tokens_and_runs_are_listed() {
    let model = Playing::new(Library::single([vec![Step::text("Hello.")]]));
    let site = Site::with_settings(As::current(), &[], &model.settings("chat"));
    let client = local_key(&site);
    let empty = client.get("/api/me/usage").json();
    assert_eq!((&empty["tokens"]["today"], &empty["tokens"]["limit"]), (&json!(0), &Value::Null), "{empty}");
    assert!(empty["workspace"]["max_bytes"].as_u64() > empty["workspace"]["bytes"].as_u64());
    assert_eq!(client.get("/api/runs").json(), json!({"runs": []}));

    let conversation = client.post("/api/conversations", &json!({})).json()["id"].as_str().unwrap().to_owned();
    let within = client.post("/v1/responses", &json!({"input": "hi", "conversation": conversation})).json();
    let alone = client.post("/v1/responses", &json!({"input": "hi"})).json();
    let spent = |response: &Value| response["usage"]["total_tokens"].as_u64().unwrap();
    let used = client.get("/api/me/usage").json();
    assert!(spent(&within) > 0);
    assert_eq!(used["tokens"]["today"], spent(&within) + spent(&alone), "{used}");
    let days = used["tokens"]["days"].as_array().unwrap();
    let in_days: u64 = days.iter().map(|day| day["tokens"].as_u64().unwrap()).sum();
    assert_eq!(in_days, spent(&within) + spent(&alone));
    assert!(days.iter().all(|day| day["day"].as_str().unwrap().len() == "2026-11-18".len()), "{used}");

    let page = |query: &str| client.get(&format!("/api/runs?{query}")).json()["runs"].as_array().unwrap().clone();
    let runs = page("limit=10");
    let shown: Vec<_> = runs.iter().map(|run| (&run["id"], &run["conversation_id"], &run["state"])).collect();
    let completed = json!("completed");
    let in_conversation = json!(conversation);
    let expected = [(&alone["id"], &Value::Null, &completed), (&within["id"], &in_conversation, &completed)];
    assert_eq!(shown, expected);
    assert_eq!(page("limit=1"), runs[..1]);
    assert_eq!(page(&format!("before={}", alone["id"].as_str().unwrap())), runs[1..]);
    assert_eq!(client.get("/api/runs?limit=0").status, 400);
}

#[test]
fn sessions_are_replayed_and_deleted() {
    let site = Site::new(As::current(), &["ann"]);
    let ann = site.client("ann");
    let run = |code: &str| {
        let ran = ann.post("/api/executions", &json!({"code": code, "session": "work"})).json();
        assert_eq!(ran["success"], true, "{ran}");
    };
    run("open('/workspace/count.txt', 'a').write('x')\nlen(open('/workspace/count.txt').read())");
    let replay = |body: &Value| ann.post("/api/sessions/work/replay", body).json();
    let same = replay(&json!({}));
    assert_eq!(
        (&same["is_same"], &same["all_files"], &same["tasks"][0]["number"]),
        (&json!(true), &json!(true), &json!(1))
    );
    // With the file of the first run, the code counts further.
    let differs = replay(&json!({"with_files": true}));
    let difference = json!([{"what": "result", "then": "1", "now": "2"}]);
    assert_eq!((&differs["is_same"], &differs["tasks"][0]["differences"]), (&json!(false), &difference), "{differs}");
    assert_eq!(ann.get("/api/workspace/file?path=count.txt").text(), "x", "the workspace itself is not changed");
    assert_eq!(ann.post("/api/sessions/other/replay", &json!({})).status, 404);

    let delete = || ann.ask("DELETE", "/api/sessions/work/log", "application/json", b"").unwrap();
    assert_eq!(delete().status, 204);
    assert_eq!((delete().status, ann.get("/api/sessions/work").status), (404, 404));
    assert_eq!(ann.get("/api/sessions").json(), json!([]));
    run("x = 1");
    assert_eq!(ann.get("/api/sessions").json().as_array().unwrap().len(), 1, "the name can be used again");
}

#[test]
fn examples_of_skills_are_run() {
    let site = Site::new(As::current(), &["ann"]);
    let ann = site.client("ann");
    let save = |name: &str, skill: &Value| {
        let path = format!("/api/skills/{name}");
        let saved = ann.ask("PUT", &path, "application/json", skill.to_string().as_bytes()).unwrap();
        assert_eq!(saved.status, 200, "{}", saved.text());
    };
    let example =
        "from skills.double import double\nimport os\nassert not os.path.exists('/workspace/flag')\ndouble(4)";
    save("double", &json!({"code": "def double(x):\n    return 2 * x\n", "example": example}));
    save("plain", &json!({"code": "X = 1\n"}));
    let test = |name: &str| ann.post(&format!("/api/skills/{name}/test"), &json!({}));
    let tested = test("double").json();
    assert_eq!((&tested["tested"], &tested["execution"]["result"]), (&json!(true), &json!(8)), "{tested}");
    assert_eq!(test("plain").json(), json!({"tested": false, "execution": null}));
    assert_eq!(test("missing").status, 404);
}

#[test]
fn all_artifacts_are_in_one_archive() {
    let site = Site::new(As::current(), &["ann", "bob"]);
    let ann = site.client("ann");
    let write = "import os\nos.makedirs('/artifacts/plots', exist_ok=True)\n\
                 open('/artifacts/plots/ü.txt', 'w').write('first')\n\
                 open('/artifacts/..\\\\evil.txt', 'w').write('evil')\n\
                 open('/artifacts/big.bin', 'wb').write(os.urandom(3_000_000))";
    let again = "import os\nos.makedirs('/artifacts/plots')\nopen('/artifacts/plots/ü.txt', 'w').write('second')";
    for code in [write, again] {
        let ran = ann.post("/api/executions", &json!({ "code": code })).json();
        assert_eq!(ran["success"], true, "{ran}");
    }
    let archive = ann.get("/api/artifacts/archive");
    assert_eq!(archive.status, 200, "{}", archive.text());
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("all.zip");
    std::fs::write(&file, &archive.body).unwrap();
    let list = "import json, sys, zipfile\narchive = zipfile.ZipFile(sys.argv[1])\nassert archive.testzip() is None\n\
                print(json.dumps({name: [archive.getinfo(name).file_size, archive.read(name)[:9].decode('latin-1')] \
                for name in archive.namelist()}))";
    let output = Command::new("/usr/bin/python3").args(["-I", "-c", list]).arg(&file).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let listed: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(listed.as_object().unwrap().len(), 3, "{listed}");
    assert_eq!(listed["plots/ü.txt"], json!([6, "second"]), "only the latest version");
    assert_eq!((&listed[".._evil.txt"][1], &listed["big.bin"][0]), (&json!("evil"), &json!(3_000_000)), "{listed}");
    let empty = site.client("bob").get("/api/artifacts/archive");
    assert_eq!((empty.status, &empty.body[..4]), (200, &b"PK\x05\x06"[..]), "another user has none");
}
