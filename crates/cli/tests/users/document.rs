//! Tests the HTTP API against its OpenAPI document.

use crate::site::{Client, Site};
use coracle_testing::harness::As;
use coracle_testing::place::installed;
use serde_json::{Value, json};
use std::fmt::Write;
use std::process::Command;

/// Checks of every response.
const CHECKS: &str = "not_a_server_error,status_code_conformance,content_type_conformance,response_schema_conformance,\
                      unsupported_method,negative_data_rejection,ignored_auth";

/// Operations that could revoke the key of the test if they learned its ID.
const ENDING: [&str; 5] = ["revoke_own_key", "revoke_key", "change_user", "delete_user", "delete_my_data"];
/// Operations whose response takes minutes.
const ENDLESS: [&str; 1] = ["watch_approvals"];
/// Operations that create something to revoke, without revealing that ID.
const BEGINNING: [&str; 2] = ["add_own_key", "add_user"];

/// Admin, with resources that requests can name.
struct Boss {
    client: Client,
    key: String,
    /// Known values of parameters, in the format of `schemathesis.toml`.
    known: String,
}

impl Boss {
    fn new(site: &Site, name: &str) -> Self {
        site.run(&["users", "add", name, "--admin"]);
        let key =
            site.run(&["users", "keys", "add", name, "--name", "tests", "--scope", "mcp,api,admin,metrics,approve"]);
        let key = key.split_whitespace().find(|word| word.starts_with("crk_")).unwrap().to_owned();
        let mut boss = Self { client: site.client_with(&key), key, known: String::new() };
        let put = "for n in range(8):\n  for root in ('/artifacts', '/workspace'):\n    open(f'{root}/{n}.txt', 'w').write(root)";
        let mut executions = Vec::new();
        for version in 1..=2 {
            let ran =
                boss.sent("POST", "/api/executions", &json!({ "code": put, "session": format!("work-{version}") }));
            executions.push(text(&ran["execution_id"]));
        }
        let artifacts = boss.sent("GET", "/api/artifacts", &Value::Null);
        let artifacts =
            artifacts["artifacts"].as_array().unwrap().iter().map(|one| text(&one["id"])).collect::<Vec<_>>();
        assert_eq!(artifacts.len(), 8, "{artifacts:?}");
        let skills: Vec<String> = (0..6).map(|number| format!("skill_{number}")).collect();
        for skill in &skills {
            boss.sent("PUT", &format!("/api/skills/{skill}"), &json!({ "code": "def one():\n    return 1" }));
        }
        let others: Vec<String> = (0..3).map(|number| format!("{name}-{number}")).collect();
        let mut own_keys = Vec::new();
        for other in &others {
            boss.sent("POST", "/api/users", &json!({ "name": other }));
            own_keys.push(text(&boss.sent("POST", "/api/keys", &json!({ "name": "more", "scopes": ["api"] }))["id"]));
            site.run(&["users", "keys", "add", &others[0], "--name", other]);
        }
        let theirs = boss.sent("GET", &format!("/api/users/{}/keys", others[0]), &Value::Null);
        let keys: Vec<String> = theirs["keys"].as_array().unwrap().iter().map(|one| text(&one["id"])).collect();
        let files: Vec<String> = (0..8).map(|number| format!("{number}.txt")).chain(["sessions".to_owned()]).collect();
        // The first entry wins.
        boss.knows("files", &files);
        boss.names("operation-id", "move_file", &[("body.from", "files")]);
        boss.names("tag", "workspace", &[("query.path", "files")]);
        boss.knows("artifacts", &artifacts);
        boss.names("tag", "artifacts", &[("path.id", "artifacts")]);
        boss.knows("executions", &executions);
        boss.names("operation-id", "show_execution", &[("path.id", "executions")]);
        let talks: Vec<String> =
            (0..6).map(|_| text(&boss.sent("POST", "/api/conversations", &json!({ "title": "Talk" }))["id"])).collect();
        boss.knows("conversations", &talks);
        boss.names("tag", "conversations", &[("path.id", "conversations")]);
        boss.knows("sessions", &["work-1", "work-2"].map(str::to_owned));
        boss.names("tag", "sessions", &[("path.handle", "sessions")]);
        boss.knows("skills", &skills);
        boss.names("tag", "skills", &[("path.name", "skills")]);
        boss.knows("own_keys", &own_keys);
        boss.names("operation-id", "revoke_own_key", &[("path.id", "own_keys")]);
        boss.knows("keys", &keys);
        boss.knows("owner", &others[..1]);
        boss.names("operation-id", "revoke_key", &[("path.name", "owner"), ("path.id", "keys")]);
        boss.knows("people", &[&others[..], &[name.to_owned()]].concat());
        boss.names("tag", "users", &[("path.name", "people")]);
        boss
    }

    fn sent(&self, method: &str, path: &str, body: &Value) -> Value {
        let answer = self.client.ask(method, path, "application/json", body.to_string().as_bytes()).unwrap();
        assert!((200..300).contains(&answer.status), "{method} {path}: {} {}", answer.status, answer.text());
        answer.json()
    }

    fn knows(&mut self, name: &str, values: &[String]) {
        writeln!(self.known, "[dictionaries.{name}]\nvalues = {}", json!(values)).unwrap();
    }

    /// Half of the requests of these operations use known values.
    fn names(&mut self, kind: &str, which: &str, parameters: &[(&str, &str)]) {
        let bound = |(parameter, name): &(&str, &str)| {
            format!("{parameter:?} = {{ dictionary = {name:?}, probability = 0.5 }}")
        };
        let bound = parameters.iter().map(bound).collect::<Vec<_>>().join(", ");
        writeln!(self.known, "[[operations]]\ninclude-{kind} = {which:?}\nparameters = {{ {bound} }}").unwrap();
    }

    /// Tests operations. The key is still valid afterwards.
    fn tries(&self, site: &Site, which: &[String], examples: u32, seed: u64) {
        let settings = site.coracle.home().join("schemathesis.toml");
        std::fs::write(&settings, &self.known).unwrap();
        let output = Command::new(installed("venv-api/bin/schemathesis"))
            .arg("--config-file")
            .arg(settings)
            .arg("run")
            .arg(format!("http://{}/api/openapi.json", site.address()))
            .args(["--checks", CHECKS, "--max-examples", &examples.to_string(), "--seed", &seed.to_string()])
            .args(["--no-color", "--suppress-health-check", "all"])
            .args(["--header", &format!("Authorization: Bearer {}", self.key)])
            .args(which)
            .current_dir(site.coracle.home())
            .output()
            .unwrap();
        println!("{}", String::from_utf8_lossy(&output.stdout));
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        let still = self.client.get("/api/users");
        assert_eq!(still.status, 200, "{}", still.text());
    }
}

fn text(value: &Value) -> String {
    value.as_str().unwrap_or_else(|| panic!("{value}")).to_owned()
}

fn tried(examples: u32, seed: u64) {
    let site = Site::new(As::current(), &["ada"]);
    let options = |option: &str, names: &[&str]| {
        names.iter().flat_map(|name| [option.to_owned(), (*name).to_owned()]).collect::<Vec<_>>()
    };
    let excluded = [&ENDING[..], &ENDLESS].concat();
    Boss::new(&site, "boss").tries(&site, &options("--exclude-operation-id", &excluded), examples, seed);
    let ending = [&ENDING[..], &BEGINNING].concat();
    Boss::new(&site, "chief").tries(&site, &options("--include-operation-id", &ending), examples, seed);
}

#[test]
fn the_api_matches_its_document() {
    tried(15, 1);
}

#[test]
#[ignore = "minutes: cargo xtask soak"]
fn soak_the_api_matches_its_document() {
    let seed = u64::from(std::process::id());
    println!("seed {seed}");
    tried(300, seed);
}
