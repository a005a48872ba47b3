//! Executions that are not listed.

use crate::site::Site;
use coracle_testing::harness::{As, program};
use serde_json::{Value, json};

#[test]
fn an_execution_that_is_not_listed_only_reads() {
    let shop = json!({"command": program(), "args": ["mcp-demo", "shop"]});
    let site = Site::with_settings(As::current(), &["ann"], &format!("mcpServers: {}\n", json!({"shop": shop})));
    let ann = site.client("ann");
    let code = "from servers.shop import list_orders\nlen(list_orders()['orders'])";
    let run = |query: &str, code: &str| ann.post(&format!("/api/executions{query}"), &json!({"code": code}));
    let listed = || -> Vec<String> {
        let all = ann.get("/api/executions").json();
        all.as_array().unwrap().iter().map(|one| one["execution_id"].as_str().unwrap().to_owned()).collect()
    };
    let id = |ran: &Value| ran["execution_id"].as_str().unwrap().to_owned();

    for query in ["", "?read_only=true", "?listed=true"] {
        let ran = run(query, code).json();
        assert_eq!(ran["result"], 24, "{query}: {ran}");
        assert_eq!(listed().first(), Some(&id(&ran)), "{query}");
    }
    let before = listed();
    let ran = run("?listed=false&read_only=true", code).json();
    assert_eq!(ran["result"], 24, "{ran}");
    assert_eq!(listed(), before);
    assert_eq!(ann.get(&format!("/api/executions/{}", id(&ran))).status, 404);
    assert_eq!(ann.get(&format!("/api/executions/{}", before[0])).status, 200);

    // It could otherwise hide what it has changed.
    let refused = run("?listed=false", code);
    assert_eq!((refused.status, refused.json()["code"].clone()), (400, json!("invalid_request")));
    let cancels = "from servers.shop import cancel_order\ncancel_order(id=1001)";
    let ran = run("?listed=false&read_only=true", cancels).json();
    assert!(ran["success"] == false && ran.to_string().contains("denied_read_only"), "{ran}");
}
