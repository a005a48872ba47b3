//! The interface against its document, by somebody who believes neither.

use crate::harness::everybody;
use crate::place::installed;
use crate::site::Site;
use std::process::Command;

/// What must hold for every answer.
const CHECKS: &str = "not_a_server_error,status_code_conformance,content_type_conformance,response_schema_conformance,\
                      unsupported_method,negative_data_rejection,ignored_auth";

fn tried(examples: u32, seed: u64) {
    let program = installed("venv-api/bin/schemathesis");
    let site = Site::new(everybody()[0], &["ada"]);
    // Somebody who may do everything, so that everything is reached.
    site.run(&["users", "add", "boss", "--admin"]);
    let key = site.run(&["users", "keys", "add", "boss", "--name", "tests", "--scope", "api", "--scope", "admin"]);
    let key = key.split_whitespace().find(|word| word.starts_with("crk_")).unwrap();
    let output = Command::new(program)
        .arg("run")
        .arg(format!("http://{}/api/openapi.json", site.address()))
        .args(["--checks", CHECKS, "--max-examples", &examples.to_string(), "--seed", &seed.to_string(), "--no-color"])
        .args(["--suppress-health-check", "all", "--header", &format!("Authorization: Bearer {key}")])
        // They would end what they are tried with.
        .args(["--exclude-operation-id", "revoke_own_key", "--exclude-operation-id", "revoke_key"])
        .args(["--exclude-operation-id", "change_user"])
        .current_dir(site.coracle.home())
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&output.stdout);
    println!("{said}");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
}

#[test]
fn the_interface_is_what_its_document_says() {
    tried(15, 1);
}

#[test]
#[ignore = "minutes: cargo xtask soak"]
fn soak_the_interface_is_what_its_document_says() {
    let seed = u64::from(std::process::id());
    println!("seed {seed}");
    tried(300, seed);
}
