//! Servers that cannot be used or never answer, as seen by clients.

use super::driver::{Up, call, first, steps, text};
use crate::lab::Bridge;
use serde_json::json;
use std::time::{Duration, Instant};

#[test]
fn an_unusable_server_is_listed_with_its_reason_and_causes_no_delay() {
    let bridge = Bridge::new(first());
    let mut hung = bridge.rogue("hang-start");
    hung["start_timeout"] = json!(600);
    bridge.servers(&json!({
        "plain": bridge.plain("plain"),
        "git": { "command": "x", "env": { "T": "${CORACLE_TEST_NO_SUCH_VARIABLE}" } },
        "hung": hung,
    }));
    let up = Up::start(&bridge.coracle, &["--profile", "full"]);
    let begun = Instant::now();
    let plan = [
        call("search_tools", &json!({ "query": "say it again" })),
        call("list_servers", &json!({})),
        call("search_tools", &json!({ "query": "log", "server": "git" })),
        call("get_tool_definition", &json!({ "tool_name": "git.git_log" })),
        call("get_server_tools", &json!({ "server_name": "git" })),
        call("execute_code", &json!({ "code": "from servers.plain import echo\necho(text='works')" })),
        call("execute_code", &json!({ "code": "from servers.git import git_log" })),
    ];
    let all = steps(up.server(), "2026-07-28", &plan);
    assert!(begun.elapsed() < Duration::from_mins(5), "a server that never answers must not delay the call");
    assert!(text(&all[0]).contains("plain.echo"), "{:#}", all[0]);
    for told in ["the tools of git are not known", "CORACLE_TEST_NO_SUCH_VARIABLE", "hung", "still starting"] {
        assert!(text(&all[0]).contains(told), "{told}: {:#}", all[0]);
    }
    let servers = &all[1]["value"]["structuredContent"]["servers"];
    let of = |name: &str| servers.as_array().unwrap().iter().find(|server| server["name"] == name).unwrap();
    assert_eq!((&of("git")["state"], &of("hung")["state"]), (&json!("unusable"), &json!("starting")), "{servers}");
    for refused in &all[2..5] {
        assert!(refused["value"]["isError"] == true, "{refused:#}");
        assert!(text(refused).contains("CORACLE_TEST_NO_SUCH_VARIABLE"), "{refused:#}");
    }
    assert!(text(&all[5]).contains("works"), "{:#}", all[5]);
    assert!(text(&all[6]).contains("server git cannot be used"), "{:#}", all[6]);
}
