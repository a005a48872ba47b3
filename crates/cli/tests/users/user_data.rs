//! A user's data: exported, deleted also from the disk, backed up and restored, and deleted when it is old.

use crate::playing::{Playing, local_key};
use crate::site::{Client, Site};
use coracle_scripted_model::{Library, Script, Step};
use coracle_testing::harness::As;
use coracle_testing::wait::eventually;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

/// Texts that only one user has: of a question, an answer, code and its output, a file, an artifact, and a title.
fn canaries(name: &str) -> Vec<String> {
    ["question", "answer", "output", "file", "artifact", "title", "skill"]
        .map(|what| format!("{what}-of-{name}-7c1e"))
        .into()
}

/// A model that writes the canaries of these users.
fn library(names: &[&str]) -> Library {
    let mut library = Library::single([vec![Step::text("First.")], vec![Step::text("Second.")]])
        .with("never", Script::new([vec![Step::text("Slow."), Step::gate("never")]]));
    for name in names {
        let code = format!(
            "print('output-of-{name}-7c1e')\nopen('/workspace/notes.txt', 'w').write('file-of-{name}-7c1e' * 1000)\n\
             open('/artifacts/report.txt', 'w').write('artifact-of-{name}-7c1e')"
        );
        let script = [
            vec![Step::call("execute_code", json!({ "code": code }))],
            vec![Step::text(&format!("answer-of-{name}-7c1e"))],
            vec![Step::text("More.")],
        ];
        library = library.with(name, Script::new(script));
    }
    library
}

/// Lets a user leave their canaries everywhere.
fn settle(client: &Client, name: &str) -> String {
    let title = json!({"title": format!("title-of-{name}-7c1e")});
    let id = client.post("/api/conversations", &title).json()["id"].as_str().unwrap().to_owned();
    let input = format!("[script:{name}] question-of-{name}-7c1e");
    let answer = client.post("/v1/responses", &json!({"input": input, "conversation": id}));
    assert_eq!(answer.status, 200, "{}", answer.text());
    let alone = client.post("/v1/responses", &json!({"input": format!("question-of-{name}-7c1e")}));
    assert_eq!(alone.status, 200, "{}", alone.text());
    let skill = json!({"code": format!("X = 'skill-of-{name}-7c1e'\n")}).to_string();
    let saved = client.ask("PUT", "/api/skills/own", "application/json", skill.as_bytes()).unwrap();
    assert!(saved.status < 300, "{}", saved.text());
    // An interpreter that stays alive.
    let code = json!({"code": format!("kept = 'output-of-{name}-7c1e'\nkept"), "session": "work"});
    assert_eq!(client.post("/api/executions", &code).json()["success"], true);
    id
}

/// The canaries that are anywhere in the data folder.
fn found(home: &Path, name: &str) -> Vec<String> {
    let mut left = canaries(name);
    let mut found = Vec::new();
    let mut folders = vec![home.to_owned()];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(folder).unwrap().flatten() {
            let kind = entry.file_type().unwrap();
            if kind.is_dir() {
                folders.push(entry.path());
            } else if kind.is_file() {
                let bytes = fs::read(entry.path()).unwrap_or_default();
                let is_there = |text: &String| bytes.windows(text.len()).any(|window| window == text.as_bytes());
                found.extend(left.iter().filter(|text| is_there(text)).cloned());
                left.retain(|text| !is_there(text));
            }
        }
    }
    found.sort();
    found
}

fn sorted(name: &str) -> Vec<String> {
    let mut all = canaries(name);
    all.sort();
    all
}

fn delete(client: &Client, path: &str) -> u16 {
    client.ask("DELETE", path, "application/json", b"").unwrap().status
}

/// The files of an archive that are text.
fn unpacked(archive: &[u8]) -> BTreeMap<String, String> {
    let folder = tempfile::tempdir().unwrap();
    let (file, into) = (folder.path().join("export.tar"), folder.path().join("into"));
    fs::write(&file, archive).unwrap();
    fs::create_dir(&into).unwrap();
    assert!(Command::new("tar").arg("-xf").arg(&file).arg("-C").arg(&into).status().unwrap().success());
    let (mut files, mut folders) = (BTreeMap::new(), vec![into.clone()]);
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(folder).unwrap().flatten() {
            let kind = entry.file_type().unwrap();
            if kind.is_dir() {
                folders.push(entry.path());
            } else if kind.is_file() {
                let name = entry.path().strip_prefix(&into).unwrap().to_str().unwrap().to_owned();
                files.insert(name, fs::read_to_string(entry.path()).unwrap());
            }
        }
    }
    files
}

#[test]
fn deleted_data_is_gone_from_the_disk_and_others_keep_theirs() {
    let model = Playing::new(library(&["ada", "bob"]));
    let mut site = Site::with_settings(As::current(), &["ada", "bob"], &model.settings("chat"));
    let home = site.coracle.home();
    for name in ["ada", "bob"] {
        settle(&site.client(name), name);
    }
    // A run and code that are under way.
    let ada = site.client("ada");
    ada.post("/v1/responses", &json!({"input": "[script:never] question-of-ada-7c1e", "background": true}));
    model.runtime.block_on(model.model.gates().reached("never"));
    let _running = ada.begin("/api/executions", &json!({"code": "while True: pass", "timeout_seconds": 600}));
    eventually("the code runs", || ada.get("/api/executions").text().contains("\"running\""));
    assert_eq!((found(&home, "ada"), found(&home, "bob")), (sorted("ada"), sorted("bob")), "before");

    assert_eq!(delete(&ada, "/api/me/data"), 403, "programs cannot do this by default");
    assert_eq!(found(&home, "ada"), sorted("ada"));
    let person = site.client_scoped("ada", "api,approve");
    assert_eq!(delete(&person, "/api/me/data"), 204);
    assert_eq!((found(&home, "ada"), found(&home, "bob")), (Vec::new(), sorted("bob")), "after");
    assert_eq!(delete(&person, "/api/me/data"), 204, "again");
    // The account is still there, with nothing in it, and can go on.
    for path in ["/api/executions", "/api/sessions"] {
        assert_eq!(ada.get(path).json(), json!([]), "{path}");
    }
    assert_eq!(ada.get("/api/conversations").json(), json!({"conversations": []}));
    settle(&ada, "ada");
    assert_eq!(found(&home, "ada"), sorted("ada"));
    let items =
        ["/api/conversations", "/api/sessions", "/api/artifacts"].map(|path| site.client("bob").get(path).text());
    site.stop();

    // The command deletes the account too.
    site.run(&["users", "delete", "ada", "--yes"]);
    assert_eq!((found(&home, "ada"), found(&home, "bob")), (Vec::new(), sorted("bob")));
    assert!(!site.run(&["users", "list", "--json"]).contains("ada"));
    site.start();
    assert_eq!(site.client("ada").get("/api/sessions").status, 401);
    let bob = site.client("bob");
    assert_eq!(["/api/conversations", "/api/sessions", "/api/artifacts"].map(|path| bob.get(path).text()), items);
}

#[test]
fn an_interrupted_deletion_is_repeated() {
    let model = Playing::new(library(&["ada", "bob"]));
    let mut site = Site::with_settings(As::current(), &["ada", "bob"], &model.settings("chat"));
    let home = site.coracle.home();
    for name in ["ada", "bob"] {
        settle(&site.client(name), name);
    }
    site.stop();
    // Whatever the moment, the next attempt completes it.
    for wait in [0, 20, 40, 60, 80] {
        let mut deleting = site.coracle.command();
        deleting.args(["users", "delete", "ada", "--yes"]).stdin(Stdio::null()).stderr(Stdio::null());
        let mut deleting = deleting.spawn().unwrap();
        std::thread::sleep(Duration::from_millis(wait));
        deleting.kill().unwrap();
        deleting.wait().unwrap();
    }
    let last = site.coracle.command().args(["users", "delete", "ada", "--yes"]).stdin(Stdio::null()).output().unwrap();
    // The account goes last: if it is gone, an attempt before was complete.
    assert!(matches!(last.status.code(), Some(0 | 2)), "{last:?}");
    assert_eq!((found(&home, "ada"), found(&home, "bob")), (Vec::new(), sorted("bob")));
    let left: Vec<_> =
        fs::read_dir(home.join("workspaces")).unwrap().flatten().map(|entry| entry.file_name()).collect();
    assert!(left.iter().all(|name| !name.to_str().unwrap().contains("ada")), "{left:?}");
}

#[test]
fn the_data_of_a_single_user_is_exported_and_deleted() {
    let model = Playing::new(library(&["local"]));
    let mut site = Site::with_settings(As::current(), &[], &model.settings("chat"));
    let home = site.coracle.home();
    settle(&local_key(&site), "local");
    assert_eq!(found(&home, "local"), sorted("local"));
    let streamed = unpacked(&local_key(&site).get("/api/me/export").body);
    site.stop();
    let archive = home.parent().unwrap().join("local.tar");
    let words = ["users", "export", "local", "--to", archive.to_str().unwrap()];
    site.run(&words);
    let written = unpacked(&fs::read(&archive).unwrap());
    assert_eq!(written.keys().collect::<Vec<_>>(), streamed.keys().collect::<Vec<_>>());
    let all = format!("{written:?}");
    assert!(canaries("local").iter().all(|canary| all.contains(canary)), "{all}");
    // An existing file is kept.
    let again = site.coracle.command().args(words).output().unwrap();
    assert_eq!(again.status.code(), Some(2), "{again:?}");
    fs::remove_file(archive).unwrap();

    site.run(&["users", "delete", "local", "--yes"]);
    assert_eq!(found(&home, "local"), [""; 0]);
    site.start();
    settle(&local_key(&site), "local");
    assert_eq!(delete(&local_key(&site), "/api/me/data"), 204);
    assert_eq!(found(&home, "local"), [""; 0]);
}

#[test]
fn an_export_has_everything_of_one_user_and_no_secrets() {
    let model = Playing::new(library(&["ada", "bob"]));
    let settings = format!("{}  personal_keys: true\n  daily_tokens: 1000000\n", model.settings("chat"));
    let site = Site::with_settings(As::current(), &["ada", "bob"], &settings);
    let (ada, bob) = (site.client("ada"), site.client("bob"));
    let put = json!({"key": "sk-own-key-of-ada"}).to_string();
    assert_eq!(ada.ask("PUT", "/api/providers/openai/key", "application/json", put.as_bytes()).unwrap().status, 204);
    let conversation = settle(&ada, "ada");
    settle(&bob, "bob");
    // The key of a program may not.
    assert_eq!(ada.get("/api/me/export").status, 403);
    let person = site.client_scoped("ada", "api,approve");
    let answer = person.get("/api/me/export");
    assert_eq!(answer.status, 200);
    let files = unpacked(&answer.body);
    let all = format!("{files:?}");
    assert!(canaries("ada").iter().all(|canary| all.contains(canary)), "{:?}", files.keys());
    assert!(canaries("bob").iter().all(|canary| !all.contains(canary)), "{:?}", files.keys());
    assert!(!all.contains("sk-own-key") && !all.contains(&site.keys["ada"]));
    let parsed = |name: &str| -> Value { serde_json::from_str(&files[name]).unwrap() };
    assert_eq!(parsed("secrets.json")["provider_keys"], json!(["openai"]));
    assert!(parsed("keys.json").as_array().unwrap().iter().any(|key| key["name"] == "tests"));
    assert_eq!(parsed("account.json")["name"], "ada");
    assert_eq!(parsed(&format!("conversations/{conversation}.json"))["title"], "title-of-ada-7c1e");
    assert!(parsed("token_use.json")[0]["tokens"].as_u64() > Some(0));
    assert!(parsed("sessions/000001.json")["tasks"][0]["code"].as_str().unwrap().contains("kept"));
    assert!(files.contains_key("end.json") && files["workspace/files/notes.txt"].contains("file-of-ada"));
    let run = files.iter().find(|(name, text)| name.starts_with("runs/") && text.contains("execution")).unwrap();
    assert!(run.1.contains("\"steps\""), "{}", run.1);

    // Only admins may export and delete other users.
    site.run(&["users", "add", "boss", "--admin"]);
    let boss = site.client_scoped("boss", "api,admin");
    let weak = site.client_scoped("boss", "api");
    for client in [&bob, &weak] {
        assert_eq!((client.get("/api/users/ada/export").status, delete(client, "/api/users/ada")), (403, 403));
    }
    assert_eq!(
        unpacked(&boss.get("/api/users/ada/export").body).keys().collect::<Vec<_>>(),
        files.keys().collect::<Vec<_>>()
    );
    assert_eq!((boss.get("/api/users/nobody/export").status, delete(&boss, "/api/users/nobody")), (404, 404));
    assert_eq!(delete(&boss, "/api/users/boss"), 409, "not their own");
    assert_eq!(ada.get("/api/sessions").status, 200);
    assert_eq!(delete(&boss, "/api/users/ada"), 204);
    assert_eq!((ada.get("/api/sessions").status, delete(&boss, "/api/users/ada")), (401, 404));
    let home = site.coracle.home();
    assert_eq!((found(&home, "ada"), found(&home, "bob")), (Vec::new(), sorted("bob")));
}

#[test]
fn a_backup_brings_conversations_back() {
    let model = Playing::new(library(&["local"]));
    let mut site = Site::with_settings(As::current(), &[], &model.settings("chat"));
    let home = site.coracle.home();
    let client = local_key(&site);
    let id = settle(&client, "local");
    let paths = [
        format!("/api/conversations/{id}"),
        format!("/api/conversations/{id}/items"),
        format!("/api/conversations/{id}/runs"),
    ];
    let before = paths.each_ref().map(|path| client.get(path).json());
    let backup = home.parent().unwrap().join("backup.tar");
    site.run(&["backup", backup.to_str().unwrap(), "--with-key"]);
    assert_eq!(delete(&client, "/api/me/data"), 204);
    assert_eq!(client.get(&paths[0]).status, 404);
    site.stop();
    site.run(&["restore", backup.to_str().unwrap(), "--force"]);
    site.start();
    let client = local_key(&site);
    assert_eq!(paths.each_ref().map(|path| client.get(path).json()), before);
    let next = client.post("/v1/responses", &json!({"input": "go on", "conversation": id}));
    assert_eq!(next.json()["status"], "completed", "{}", next.text());
}

/// Makes conversations and runs look old, except those that were changed last.
const AGE: &str = "
import sqlite3, sys
database = sqlite3.connect(sys.argv[1])
for name in sys.argv[2:]:
    for table, column in (('conversations', 'changed_at'), ('runs', 'ended_at')):
        database.execute(f'UPDATE {table} SET {column} = {column} - 100 * 86400000 WHERE conversation_id = ?1', (name,))
        if table == 'runs':
            database.execute(f'UPDATE {table} SET {column} = {column} - 100 * 86400000 WHERE run_id = ?1', (name,))
database.commit()
";

#[test]
fn old_conversations_are_deleted_when_the_server_starts() {
    let model = Playing::new(library(&[]));
    let settings = format!("{}  keep_conversations_days: 90\n", model.settings("chat"));
    let mut site = Site::with_settings(As::current(), &[], &settings);
    let client = local_key(&site);
    let conversation = || client.post("/api/conversations", &json!({})).json()["id"].as_str().unwrap().to_owned();
    let (old, new, running) = (conversation(), conversation(), conversation());
    let respond = |body: Value| client.post("/v1/responses", &body).json()["id"].as_str().unwrap().to_owned();
    for id in [&old, &new] {
        respond(json!({"input": "hello", "conversation": id}));
    }
    let (old_run, new_run) = (respond(json!({"input": "x"})), respond(json!({"input": "y"})));
    respond(json!({"input": "[script:never]", "conversation": running, "background": true}));
    model.runtime.block_on(model.model.gates().reached("never"));
    site.kill();
    let database = site.coracle.home().join("store/coracle.db");
    let aged = Command::new("python3").args(["-I", "-c", AGE]).arg(&database).args([&old, &running, &old_run]).output();
    let aged = aged.unwrap();
    assert!(aged.status.success(), "{aged:?}");
    site.coracle.own(&database);
    site.start();
    let client = local_key(&site);
    let status = |path: String| client.get(&path).status;
    eventually("the old conversation is deleted", || status(format!("/api/conversations/{old}")) == 404);
    eventually("the old run is deleted", || status(format!("/v1/responses/{old_run}")) == 404);
    assert_eq!(status(format!("/api/conversations/{new}")), 200);
    assert_eq!(status(format!("/v1/responses/{new_run}")), 200);
    // A run that is under way is never deleted, however old its conversation is.
    assert_eq!(client.get(&format!("/api/conversations/{running}/runs")).json()["runs"][0]["state"], "running");
}

/// On a shared machine, a connection from this machine can be anybody's.
#[test]
fn a_server_without_users_shows_and_deletes_nothing_personal_without_its_key() {
    let model = Playing::new(Library::single([vec![Step::text("Hello.")]]));
    let site = Site::with_settings(As::current(), &[], &model.settings("chat"));
    let (anybody, owner) = (site.client_with("wrong"), local_key(&site));
    let paths = ["/api/conversations", "/api/approvals", "/api/providers", "/api/me/export"];
    for path in paths {
        let refused = anybody.get(path);
        assert_eq!(refused.status, 401, "{path}: {}", refused.text());
        assert!(refused.text().contains("invalid_api_key"), "{path}: {}", refused.text());
        assert_eq!(owner.get(path).status, 200, "{path}");
    }
    let made = owner.post("/api/conversations", &json!({"title": "Mine"}));
    assert_eq!(made.status, 201, "{}", made.text());
    assert_eq!(anybody.ask("DELETE", "/api/me/data", "text/plain", b"").unwrap().status, 401);
    assert_eq!(owner.get("/api/conversations").json()["conversations"][0]["title"], "Mine");
    assert_eq!(owner.ask("DELETE", "/api/me/data", "text/plain", b"").unwrap().status, 204);
    assert_eq!(owner.get("/api/conversations").json()["conversations"], json!([]));
}

#[test]
fn a_vault_is_deleted_by_its_user_alone() {
    let site = Site::with_settings(As::current(), &["ada", "bob"], r#"{"privacy": {"restore_to_model": true}}"#);
    let text = "write to kim@example.org";
    let sanitized = |client: &Client| {
        let answer = client.tool("sanitize_pii", json!({ "text": text }));
        answer["result"]["structuredContent"]["sanitized_text"].as_str().unwrap().to_owned()
    };
    let restored = |client: &Client, safe: &str| {
        let answer = client.tool("restore_pii", json!({ "text": safe }));
        answer["result"]["structuredContent"]["restored_text"].as_str().unwrap().to_owned()
    };
    let (ada, bob) = (site.client("ada"), site.client("bob"));
    let (of_ada, of_bob) = (sanitized(&ada), sanitized(&bob));
    assert_ne!(of_ada, of_bob);
    assert_eq!(delete(&ada, "/api/me/vault"), 403, "a key without the scope approve");
    assert_eq!(restored(&ada, &of_ada), text, "nothing was deleted");
    let person = site.client_scoped("ada", "api,approve");
    assert_eq!((delete(&person, "/api/me/vault"), delete(&person, "/api/me/vault")), (204, 204));
    assert_eq!(restored(&ada, &of_ada), of_ada, "the token means nothing any more");
    assert_eq!(restored(&bob, &of_bob), text, "others keep theirs");
}
