//! Hostile TypeScript and the broker: changes to its own engine, forgery and floods.

use crate::lab::Bridge;
use coracle_testing::each_user;
use coracle_testing::harness::As;
use serde_json::{Value, json};

fn with_policy(bridge: &Bridge, decision: &str) {
    bridge.settings(&json!({
        "policy": { "tools": { "plain.wipe": decision } },
        "mcpServers": { "plain": bridge.plain("plain") },
    }));
}

/// Calls in the ledger: server, tool and outcome.
fn ledger(execution: &Value) -> Vec<(String, String, String)> {
    let text = |value: &Value| value.as_str().unwrap_or("ok").to_owned();
    let calls = execution["calls"].as_array().unwrap();
    calls.iter().map(|call| (text(&call["server"]), text(&call["tool"]), text(&call["code"]))).collect()
}

/// Code can change every object of its own engine. The broker still gets the requested calls, results reach their
/// callers, and the ledger is correct.
#[test]
fn changed_prototypes_do_not_affect_calls() {
    let bridge = Bridge::new(As::current());
    with_policy(&bridge, "deny");
    let pollution = [
        "Object.prototype.server = 'other'; Object.prototype.tool = 'wipe'; Object.prototype.arguments = {}; Object.prototype.id = 99",
        "Object.prototype.toJSON = function () { return this }",
        "Object.defineProperty(Object.prototype, 'server', { get: () => 'other', set() {}, configurable: true })",
        "JSON.stringify = () => '{\"server\":\"plain\",\"tool\":\"wipe\",\"arguments\":{\"what\":\"all\"}}'",
        "JSON.parse = () => ({ value: 'forged', media: [] })",
        "Map.prototype.get = () => ({ resolve() {}, reject() {} }); Map.prototype.set = function () { return this }; Map.prototype.delete = () => true",
        "Reflect.apply = () => 'forged'; Function.prototype.apply = () => 'forged'; Function.prototype.call = () => 'forged'",
        "String.prototype.isWellFormed = () => true; String.prototype.charCodeAt = () => 0; String.prototype.slice = () => 'wipe'",
        "Array.isArray = () => true; Array.prototype.map = () => ['forged']; Object.prototype.media = [{ mime: 'x', data: '' }]",
        "Promise.prototype.catch = () => 'forged' as any; Promise.resolve = () => 'forged' as any; Promise.all = Promise.all",
        "Object.prototype.value = 'forged'; Object.prototype.ok = true; Object.prototype.error = { code: 'x' }",
        "Error.prototype.code = 'x'; (globalThis as any).Error = class { }",
        "Object.setPrototypeOf(globalThis, null); delete (globalThis as any).Promise; delete (globalThis as any).Map",
    ];
    for code in pollution {
        let code = format!(
            "import {{ echo }} from 'servers/plain';\nimport {{ call }} from 'coracle';\n{code};\n\
             const told = [await echo({{ text: 'one' }}), await call('plain', 'echo', {{ text: 'two' }})];\ntold"
        );
        let execution = bridge.run("typescript", &code, &[]);
        assert_eq!(execution["result"], json!(["one", "two"]), "{code}\n{execution:#}");
        let echo = ("plain".to_owned(), "echo".to_owned(), "ok".to_owned());
        assert_eq!(ledger(&execution), [echo.clone(), echo], "{code}");
    }
    assert_eq!(bridge.lines("plain"), Vec::<String>::new(), "nothing was wiped");
}

each_user!(names_and_ids_cannot_be_forged);
/// A denied tool is denied under any name; the same forms reach a permitted tool.
fn names_and_ids_cannot_be_forged(who: As) {
    let bridge = Bridge::new(who);
    with_policy(&bridge, "deny");
    let forms = r"
            import { call, ToolError } from 'coracle';
            import * as plain from 'servers/plain';
            const attempt = async (act: () => unknown) => {
                try { await act(); return 'made' } catch (error: any) { return error instanceof ToolError ? error.code : `${error.name}` }
            };
            const what = { what: 'everything' };
            const any = call as any;
            const codes = {
                module: await attempt(() => plain.wipe(what)),
                bare: await attempt(() => call('plain', 'wipe', what)),
                upper: await attempt(() => call('plain', 'WIPE', what)),
                space: await attempt(() => call('plain', ' wipe', what)),
                nul: await attempt(() => call('plain', 'wipe\0', what)),
                path: await attempt(() => call('plain/../plain', 'wipe', what)),
                list: await attempt(() => any(['plain'], ['wipe'], what)),
                object: await attempt(() => any({ toJSON: () => 'plain' }, { toJSON: () => 'wipe' }, what)),
                nobody: await attempt(() => any(undefined, undefined, what)),
                method: await attempt(() => any('plain', 'wipe', what, { method: 'other', id: 1, approved: true })),
                arguments: await attempt(() => any('plain', 'wipe', [what])),
                number: await attempt(() => any('plain', 'wipe', 7)),
                hidden: await attempt(() => call('plain', 'wipe', { ...what, server: 'plain', decision: 'allow' })),
                cyclic: await attempt(() => { const a: any = {}; a.a = a; return call('plain', 'wipe', a) }),
                huge: await attempt(() => call('plain', 'wipe', { what: 'x'.repeat(9e6) })),
            };
            codes";
    let execution = bridge.run("typescript", forms, &[]);
    let expected = json!({
        "module": "denied_by_policy",
        "bare": "denied_by_policy",
        "upper": "denied_by_policy",
        "space": "tool_not_found",
        "nul": "denied_by_policy",
        "path": "unknown_server",
        "list": "invalid_request",
        "object": "denied_by_policy",
        "nobody": "invalid_request",
        "method": "denied_by_policy",
        "arguments": "invalid_request",
        "number": "invalid_request",
        "hidden": "denied_by_policy",
        "cyclic": "TypeError",
        "huge": "Error",
    });
    assert_eq!(execution["result"], expected, "as {who:?}: {execution:#}");
    assert_eq!(bridge.lines("plain"), Vec::<String>::new(), "as {who:?}: nothing was wiped");
    assert!(ledger(&execution).iter().all(|(_, _, code)| code != "ok"), "as {who:?}: {execution:#}");
    with_policy(&bridge, "allow");
    let execution = bridge.run("typescript", forms, &[]);
    for form in ["module", "bare", "object", "method"] {
        assert_eq!(execution["result"][form], "made", "as {who:?}: the control {form}: {execution:#}");
    }
    assert_eq!(bridge.lines("plain"), vec!["wipe everything"; 4], "as {who:?}");
}

#[test]
fn results_in_any_order_reach_their_callers() {
    let bridge = Bridge::new(As::current());
    with_policy(&bridge, "deny");
    let code = "
        import { echo } from 'servers/plain';
        const texts = Array.from({ length: 200 }, (_, n) => `text ${n}`);
        const told = await Promise.all(texts.map((text) => echo({ text })));
        told.every((text, n) => text === texts[n]) && told.length";
    assert_eq!(bridge.result("typescript", code), 200);
}

#[test]
fn a_flood_of_calls_is_stopped() {
    let bridge = Bridge::new(As::current());
    bridge.settings(&json!({
        "execution": { "limits": { "calls": 50 } },
        "mcpServers": { "plain": bridge.plain("plain") },
    }));
    let flood = |count: &str| {
        format!(
            "import {{ note }} from 'servers/plain';\nconst all = []; for (let n = 0; n < {count}; n++) all.push(note({{ text: String(n) }}));\n(await Promise.all(all)).length"
        )
    };
    assert_eq!(bridge.result("typescript", &flood("50")), 50);
    let execution = bridge.run("typescript", &flood("1e6"), &[]);
    assert_eq!(execution["error_code"], "calls", "{}", execution["error"]);
    assert!(bridge.lines("plain").len() <= 100, "no more calls than allowed were made");
    // Calls without `await` are awaited at the end of the program, and count.
    let code = "import { note } from 'servers/plain';\nfor (let n = 0; n < 5; n++) note({ text: 'late' });\n1";
    assert_eq!(bridge.result("typescript", code), 1);
    assert_eq!(bridge.lines("plain").iter().filter(|line| *line == "note late").count(), 5);
}

/// A long result with multi-byte characters reaches every language intact, and one that is too long is an error that
/// code can catch.
#[test]
fn the_longest_result_fits_and_a_longer_one_is_an_error() {
    let bridge = Bridge::new(As::current());
    with_policy(&bridge, "deny");
    let python = "
from coracle import ToolError
from servers.plain import large
def attempt(count, letter):
    try:
        answer = large(bytes=count, letter=letter)
        return len(answer) if set(answer) == {letter} else 'spoiled'
    except ToolError as error:
        return [error.code, error.retryable, error.message.split(';')[1]]
[attempt(8_300_000, 'x'), attempt(2_700_000, '漢'), attempt(4_100_000, '\"'), attempt(8_400_000, 'x'), attempt(2_800_000, '漢')]";
    let typescript = "
import { large } from 'servers/plain';
const attempt = async (count: number, letter: string) => {
    try {
        const answer = await large({ bytes: count, letter });
        return new Set(answer).size === 1 && answer[0] === letter ? answer.length : 'spoiled';
    } catch (error: any) { return [error.code, error.retryable, error.message.split(';')[1]] }
};
[await attempt(8_300_000, 'x'), await attempt(2_700_000, '漢'), await attempt(4_100_000, '\"'), await attempt(8_400_000, 'x'), await attempt(2_800_000, '漢')]";
    let too_large = json!(["too_large", false, " ask the tool for less at once: a filter, a page, a range"]);
    let expected = json!([8_300_000, 2_700_000, 4_100_000, too_large, too_large]);
    assert_eq!(bridge.result("python", python), expected);
    assert_eq!(bridge.result("typescript", typescript), expected);
    let bash = "tool plain large --bytes 8300000 | wc -c; tool plain large --bytes 8400000; echo $?";
    let execution = bridge.run("bash", bash, &[]);
    assert_eq!(execution["stdout"], "8300001\n1\n", "{execution:#}");
    assert!(execution["stderr"].as_str().unwrap().contains("(too_large)"), "{execution:#}");
}
