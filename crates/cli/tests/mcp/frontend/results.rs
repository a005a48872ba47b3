//! Results for a model: within the budget, with the rest in a file, images as images, one line per call.

use super::driver::{Up, call, code, first, steps, text};
use crate::lab::Bridge;
use coracle_testing::harness::Coracle;
use serde_json::{Value, json};
use std::fs;

fn budget(coracle: &Coracle, tokens: u32) {
    let path = coracle.home().join("coracle.yaml");
    fs::write(&path, json!({ "execution": { "limits": { "output_tokens": tokens } } }).to_string()).unwrap();
    coracle.own(&path);
}

fn up(coracle: &Coracle) -> Up {
    Up::start(coracle, &["--workspace", coracle.workspace().to_str().unwrap()])
}

fn tokens(value: &Value) -> usize {
    coracle_server::count_tokens(&value.to_string())
}

#[test]
fn long_output_is_shortened_and_kept_in_a_file() {
    let coracle = Coracle::new(first());
    budget(&coracle, 1000);
    let up = up(&coracle);
    let outcomes =
        steps(up.server(), "legacy", &[code("for n in range(50_000): print('line', n)"), code("print('short')")]);
    let answer = &outcomes[0]["value"];
    let shown = text(&outcomes[0]);
    assert!(shown.contains("line 0\n") && shown.contains("line 49999") && !shown.contains("line 25000"), "{shown}");
    let counted = tokens(&answer["content"]);
    println!("50,000 lines: {counted} tokens of text");
    assert!(counted <= 1000, "{counted}");
    let file = shown.split_whitespace().find(|word| word.contains("/workspace/")).unwrap_or_else(|| panic!("{shown}"));
    let file = file.trim_matches(|c: char| !c.is_alphanumeric() && c != '/').strip_prefix("/workspace/").unwrap();
    let whole = fs::read_to_string(coracle.workspace().join(file)).unwrap();
    assert!(whole.contains("line 25000\n") && whole.contains("line 49999"), "{} bytes", whole.len());
    assert!(!text(&outcomes[1]).contains("/workspace/"), "{}", outcomes[1]);
}

#[test]
fn output_of_many_bytes_and_few_tokens_is_whole() {
    let coracle = Coracle::new(first());
    budget(&coracle, 1000);
    let up = up(&coracle);
    let printed = "=".repeat(6_000);
    assert!(coracle_server::count_tokens(&printed) < 250);
    let outcomes = steps(up.server(), "2026-07-28", &[code("print('=' * 6_000)")]);
    assert!(text(&outcomes[0]).contains(&printed), "{}", outcomes[0]);
    assert_eq!(outcomes[0]["value"]["structuredContent"]["stdout"], format!("{printed}\n"), "{}", outcomes[0]);
}

#[test]
fn a_large_result_is_summarized() {
    let coracle = Coracle::new(first());
    budget(&coracle, 1000);
    let up = up(&coracle);
    let program = "[{'id': n, 'name': f'row {n}', 'tags': ['a', 'b']} for n in range(10_000)]";
    let outcomes = steps(up.server(), "2026-07-28", &[code(program), code("[{'id': 1}]")]);
    let answer = &outcomes[0]["value"];
    let shape = &answer["structuredContent"]["result"];
    assert_eq!((&shape["type"], &shape["length"]), (&json!("array"), &json!(10_000)), "{answer:#}");
    assert_eq!(shape["keys"], json!(["id", "name", "tags"]), "{answer:#}");
    assert_eq!(shape["first"][0]["name"], "row 0", "{answer:#}");
    assert!(tokens(&answer["content"]) <= 1000);
    let file = answer["structuredContent"]["result_file"].as_str().unwrap_or_else(|| panic!("{answer:#}"));
    let whole = fs::read(coracle.workspace().join(file.strip_prefix("/workspace/").unwrap())).unwrap();
    let whole: Value = serde_json::from_slice(&whole).unwrap();
    assert_eq!(whole.as_array().unwrap().len(), 10_000);
    assert_eq!(outcomes[1]["value"]["structuredContent"]["result"], json!([{ "id": 1 }]));
}

#[test]
fn images_are_images_and_other_artifacts_are_readable_links() {
    let coracle = Coracle::new(first());
    let up = up(&coracle);
    let program = "
import base64
with open('/artifacts/dot.png', 'wb') as out:
    out.write(base64.b64decode('iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=='))
with open('/artifacts/table.csv', 'w') as out:
    out.write('a,b\\n1,2\\n')
";
    for mode in super::driver::GENERATIONS {
        let outcomes = steps(up.server(), mode, &[code(program), json!({ "do": "resources" })]);
        let content = outcomes[0]["value"]["content"].as_array().unwrap();
        let of = |kind: &str| content.iter().filter(|block| block["type"] == kind).collect::<Vec<_>>();
        assert_eq!(of("image").len(), 1, "{content:#?}");
        assert_eq!(of("image")[0]["mimeType"], "image/png");
        let link = of("resource_link").into_iter().find(|link| link["name"] == "table.csv").unwrap().clone();
        let uri = link["uri"].as_str().unwrap();
        assert!(outcomes[1]["value"].as_array().unwrap().contains(&json!(uri)), "{}", outcomes[1]);
        let read = steps(
            up.server(),
            mode,
            &[
                json!({ "do": "read", "uri": uri }),
                json!({ "do": "read", "uri": format!("{uri}x") }),
                json!({ "do": "read", "uri": uri.replace("table.csv", "..%2f..%2f..%2fcoracle.yaml") }),
                json!({ "do": "read", "uri": "file:///etc/passwd" }),
            ],
        );
        assert_eq!(read[0]["value"]["contents"][0]["text"], "a,b\n1,2\n", "{:#}", read[0]);
        for refused in &read[1..] {
            assert!(refused["error"].is_string(), "{refused:#}");
        }
    }
}

#[test]
fn calls_are_one_line_each_and_code_is_never_echoed() {
    let bridge = Bridge::new(first());
    bridge.servers(&json!({ "plain": bridge.plain("plain") }));
    let up = Up::start(&bridge.coracle, &[]);
    let program = "from servers.plain import echo, note\n# a remark that nobody needs to see again\n\
                   for n in range(3): echo(text='x' * 5000)\nnote(text='y')\n'done'";
    let outcomes = steps(up.server(), "legacy", &[code(program), code("# secret remark\n1/0")]);
    let shown = text(&outcomes[0]);
    let calls: Vec<&str> = shown.lines().filter(|line| line.contains("plain.")).collect();
    // Equal calls share a line.
    assert!(calls.len() == 2 && calls[0].contains("plain.echo ×3 ok") && calls[1].contains("plain.note"), "{shown}");
    let whole = outcomes[0]["value"].to_string();
    assert!(!whole.contains("remark") && !whole.contains("xxxx"), "{whole}");
    assert!(!outcomes[1]["value"].to_string().contains("secret remark"), "{}", outcomes[1]);
    assert!(text(&outcomes[1]).contains("ZeroDivisionError"), "{}", outcomes[1]);
}

#[test]
fn only_the_session_argument_keeps_state() {
    let coracle = Coracle::new(first());
    let up = up(&coracle);
    let in_session = |name: &str, code: &str| call("execute_code", &json!({ "code": code, "session": name }));
    let plan = [in_session("a", "x = 41"), in_session("a", "x + 1"), in_session("b", "x"), code("x")];
    for mode in super::driver::GENERATIONS {
        let outcomes = steps(up.server(), mode, &plan);
        assert_eq!(outcomes[1]["value"]["structuredContent"]["result"], 42, "{mode}: {:#}", outcomes[1]);
        for other in &outcomes[2..] {
            assert!(text(other).contains("NameError"), "{mode}: {other:#}");
        }
    }
    // From another connection.
    let outcomes = steps(up.server(), "legacy", &[in_session("a", "x")]);
    assert_eq!(outcomes[0]["value"]["structuredContent"]["result"], 41);
}

#[test]
fn invalid_arguments_are_errors_and_run_nothing() {
    let coracle = Coracle::new(first());
    let up = up(&coracle);
    let plan = [
        call("execute_code", &json!({})),
        call("execute_code", &json!({ "code": 1 })),
        call("execute_code", &json!({ "code": "1", "language": "cobol" })),
        call("execute_code", &json!({ "code": "1", "timeout_seconds": -1 })),
        call("execute_code", &json!({ "code": "1", "timeout": 5 })),
        call("execute_code", &json!({ "code": "1", "session": "../x" })),
        call("search_tools", &json!({ "query": "x", "detail_level": "all" })),
        call("execute_code", &json!({ "code": "1 + 1" })),
    ];
    let outcomes = steps(up.server(), "2026-07-28", &plan);
    let wanted = ["code", "string", "cobol", "timeout_seconds", "timeout", "session", "all"];
    for (outcome, word) in outcomes.iter().zip(wanted) {
        assert_eq!(outcome["value"]["isError"], true, "{outcome:#}");
        assert!(text(outcome).contains(word), "{word}: {outcome:#}");
    }
    assert_eq!(outcomes[7]["value"]["structuredContent"]["result"], 2);
    assert_eq!(up.figure("coracle_execution_seconds_count"), 1, "something was run");
}
