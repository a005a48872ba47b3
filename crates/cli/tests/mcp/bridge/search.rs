//! Code that searches for tools, in three languages.

use crate::lab::Bridge;
use coracle_testing::each_user;
use coracle_testing::harness::As;
use serde_json::{Value, json};

const PYTHON: &str = r#"
from coracle import ToolError, call, search_tools, search_tools_async
found = search_tools("how many calls are there at once", limit=3)
server, tool = found[0]["name"].split(".")
listed = await search_tools_async(server="plain", detail_level="name", limit=2)
try:
    search_tools("x", server="nobody")
except ToolError as error:
    refused = [error.code, error.message]
[found[0], len(found), listed, call(server, tool, {"ms": 0}), refused]
"#;

const TYPESCRIPT: &str = r#"
import { call, search_tools, ToolError } from "coracle";
const found = await search_tools("how many calls are there at once", { limit: 3 });
const [server, tool] = found[0].name.split(".");
const listed = await search_tools("", { server: "plain", detail_level: "name", limit: 2 });
let refused: string[] = [];
try {
    await search_tools("x", { server: "nobody" });
} catch (error) {
    if (!(error instanceof ToolError)) throw error;
    refused = [error.code, error.message];
}
[found[0], found.length, listed, await call(server, tool, { ms: 0 }), refused]
"#;

each_user!(code_finds_a_tool_and_calls_it);
fn code_finds_a_tool_and_calls_it(who: As) {
    let bridge = Bridge::new(who);
    bridge.servers(&json!({ "plain": bridge.plain("plain") }));
    let expected = json!([
        { "name": "plain.crowd", "summary": "Tells how many calls there are at once." },
        3,
        [{ "name": "plain.crowd" }, { "name": "plain.digest" }],
        { "at_once": 1 },
        ["invalid_request", "there is no server \"nobody\"; there are: plain"],
    ]);
    for (language, code) in [("python", PYTHON), ("typescript", TYPESCRIPT)] {
        let execution = bridge.run(language, code, &[]);
        assert_eq!(execution["result"], expected, "{language} as {who:?}: {execution:#}");
        // A search is not a tool call.
        assert_eq!(execution["calls"].as_array().map(Vec::len), Some(1), "{language} as {who:?}: {execution:#}");
    }
    let bash = "exec 2>&1\ntool search how many calls are there at once --limit 1\n\
                    found=$(tool --search removes something --server plain --limit 1); echo \"${found%%:*}\"\n\
                    tool search x --server nobody; echo $?\ntool search x --limit 0; echo $?\n\
                    tool search x --limit none; echo $?\ntool search --colour red; echo $?";
    let execution = bridge.run("bash", bash, &[]);
    let expected = "plain.crowd: Tells how many calls there are at once.\nplain.wipe\n\
                        tool: search: there is no server \"nobody\"; there are: plain (invalid_request)\n1\n\
                        tool: search: `limit` is 0: it must be from 1 to 100 (invalid_request)\n1\n\
                        tool: search: --limit takes a number, not \"none\"\n2\n\
                        tool: search: there is no --colour\nhint: it takes --server, --category and --limit\n2\n";
    assert_eq!(execution["stdout"], expected, "as {who:?}: {execution:#}");
    assert_eq!(execution["calls"], json!([]), "as {who:?}: {execution:#}");
}

#[test]
fn without_servers_code_gets_an_error() {
    let bridge = Bridge::new(As::current());
    let programs = [
        ("python", "from coracle import search_tools\nsearch_tools('x')"),
        ("typescript", "import { search_tools } from 'coracle';\nawait search_tools('x')"),
        ("bash", "tool search x"),
    ];
    for (language, code) in programs {
        let execution = bridge.run(language, code, &[]);
        let said = format!("{} {}", text(&execution["error"]), text(&execution["stderr"]));
        assert_eq!(execution["success"], false, "{language}: {execution:#}");
        assert!(said.contains("no servers are configured, so there are no tools (unavailable)"), "{language}: {said}");
    }
}

fn text(value: &Value) -> &str {
    value.as_str().unwrap_or_default()
}
