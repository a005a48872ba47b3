//! The official client of OpenAI's API, which knows the types of all answers.

use crate::playing::{Playing, computes, key_of};
use crate::site::Site;
use coracle_scripted_model::{Script, Step};
use coracle_testing::harness::As;
use coracle_testing::installed;
use serde_json::json;
use std::process::Command;

#[test]
fn the_official_client_can_do_everything_with_valid_types() {
    let weather = Step::call("get_weather", json!({"city": "Rome"}));
    let bash = Step::call("execute_code", json!({"code": "echo from bash", "language": "bash"}));
    let search = Step::call("search_tools", json!({"query": "anything"}));
    let library = computes()
        .with("weather", Script::new([vec![weather], vec![Step::text("It is {{result}}.")]]))
        .with("shell", Script::new([vec![bash], vec![Step::text("Done.")]]))
        .with("search", Script::new([vec![Step::reasoning("I should search."), search], vec![Step::text("Done.")]]));
    for api in ["chat", "responses", "messages"] {
        let model = Playing::new(library.clone());
        let site = Site::with_settings(As::current(), &[], &model.settings(api));
        let done = Command::new(installed::path("venv-openai/bin/python"))
            .args(["-I", concat!(env!("CARGO_MANIFEST_DIR"), "/tests/users/openai_client.py")])
            .args([format!("http://{}/v1", site.address()), key_of(&site)])
            .output()
            .unwrap();
        let (said, complained) = (String::from_utf8_lossy(&done.stdout), String::from_utf8_lossy(&done.stderr));
        assert!(done.status.success(), "{api}: {said}\n{complained}");
    }
}
