//! Personal data and MCP clients, which show everything to a model.

use super::driver::{Up, call, first, steps, text};
use crate::lab::Bridge;
use serde_json::{Value, json};

const MAIL: &str = "kim.quinn@example.org";

/// Reads a customer from a server and a file in three languages, and prints, returns and raises what was read.
fn plan() -> Vec<Value> {
    let python = "from servers.plain import echo\n\
        mail = echo(text='kim.' + 'quinn@example.org')\n\
        import sys, base64\n\
        print(mail, mail.upper(), base64.b64encode(mail.encode()).decode(), mail.encode().hex())\n\
        print(open('/workspace/notes.txt').read(), file=sys.stderr)\n\
        open('/artifacts/' + mail.strip('[]') + '.txt', 'w').write(mail)\n\
        result = {mail: [mail]}";
    let failing = "from servers.plain import echo\nraise ValueError(echo(text='kim.' + 'quinn@example.org'))";
    let typescript = "import { echo } from 'servers/plain';\nconst mail = await echo({ text: 'kim.' + 'quinn@example.org' });\n\
        console.log(mail); [mail]";
    let bash = "tool plain echo --text kim.quinn@example.org; cat /workspace/notes.txt";
    vec![
        call("write_workspace_file", &json!({ "filename": "notes.txt", "content": format!("ask {MAIL}") })),
        call("execute_code", &json!({ "code": python })),
        call("execute_code", &json!({ "code": failing })),
        call("execute_code", &json!({ "code": typescript, "language": "typescript" })),
        call("execute_bash", &json!({ "command": bash })),
        call("read_file", &json!({ "file_path": "notes.txt" })),
        call("read_workspace_file", &json!({ "filename": "notes.txt" })),
    ]
}

fn seen(mode: &str) -> (Bridge, Vec<Value>) {
    let bridge = Bridge::new(first());
    bridge.settings(&json!({ "mcpServers": { "plain": bridge.plain("plain") }, "privacy": { "mode": mode } }));
    let up = Up::start(&bridge.coracle, &["--profile", "full"]);
    let all = steps(up.server(), "2026-07-28", &plan());
    drop(up);
    (bridge, all)
}

#[test]
fn a_client_gets_personal_data_only_in_the_mode_off() {
    let (_bridge, all) = seen("off");
    for answer in &all[1..] {
        assert!(answer.to_string().contains(MAIL), "the control: {answer:#}");
    }
    for mode in ["model", "strict"] {
        let (_bridge, all) = seen(mode);
        for answer in &all {
            let answer = answer.to_string().to_lowercase();
            for raw in [MAIL, "a2ltlnf1aw5u", "6b696d2e7175696e6e"] {
                assert!(!answer.contains(raw), "{mode}: {raw} in {answer}");
            }
        }
        for answer in &all[1..] {
            assert!(answer.to_string().contains("[EMAIL_"), "{mode}: {answer:#}");
        }
    }
}

#[test]
fn clients_sanitize_texts_and_restore_them_if_that_is_allowed() {
    let bridge = Bridge::new(first());
    let original = format!("write to {MAIL}");
    let sanitize = call("sanitize_pii", &json!({ "text": original }));
    let up = Up::start(&bridge.coracle, &["--profile", "full"]);
    let sanitized = steps(up.server(), "2026-07-28", std::slice::from_ref(&sanitize));
    let whole = &sanitized[0]["value"]["structuredContent"];
    assert_eq!((&whole["pii_found"], &whole["pii_types"]), (&json!(1), &json!(["EMAIL"])), "{whole:#}");
    let safe = whole["sanitized_text"].as_str().unwrap();
    assert!(safe.starts_with("write to [EMAIL_"), "{safe}");
    let restore = call("restore_pii", &json!({ "text": safe }));
    let refused = steps(up.server(), "2026-07-28", std::slice::from_ref(&restore));
    assert_eq!(refused[0]["value"]["isError"], true, "{refused:#?}");
    assert!(text(&refused[0]).contains("privacy.restore_to_model: true"), "{refused:#?}");
    drop(up);
    bridge.settings(&json!({ "privacy": { "restore_to_model": true, "mode": "model" } }));
    let up = Up::start(&bridge.coracle, &["--profile", "full"]);
    let code = "print(detokenize_pii('SAFE') == 'write to kim.' + 'quinn@example.org', tokenize_pii('SAFE'))";
    let code = call("execute_code", &json!({ "code": code.replace("SAFE", safe) }));
    let all = steps(up.server(), "2026-07-28", &[restore, code]);
    assert_eq!(all[0]["value"]["structuredContent"]["restored_text"], original, "{:#}", all[0]);
    assert!(text(&all[1]).contains(&format!("True {safe}")), "{:#}", all[1]);
}
