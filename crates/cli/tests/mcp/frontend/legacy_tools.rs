//! Calls of earlier tools of this kind, as in their documentation.

use super::driver::{Up, call, first, steps, text};
use super::wire::{get, status};
use coracle_testing::harness::Coracle;
use serde_json::{Value, json};
use std::fs;

const SKILL: &str = "---\nname: Symbolic Computation\ndescription: Works with SymPy\nversion: 1.0.0\n\
    dependencies: sympy>=1.12\n---\n# SymPy\n\n## When to Use This Skill\n\nInvoke this skill when:\n\n\
    - **Calculus**: derivatives and integrals.\n- Equations are to be solved\n\n## Core\nText\n";

/// Server with a skill and a registry.
fn serve(coracle: &Coracle) -> Up {
    let folder = coracle.home().join("operator");
    let catalogue = json!({
        "categories": { "security": { "description": "Scanning", "tools": { "web_vuln_scanner": {
            "mcp_server": "web-vuln-scanner", "description": "Scans pages", "functions": ["check_headers"],
            "use_cases": ["audit a page"],
        } } } },
    });
    for (path, content) in
        [("skills/symbolic-computation/Skill.md", SKILL), ("tools_registry/full_catalog.json", &catalogue.to_string())]
    {
        let path = folder.join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(&path, content).unwrap();
    }
    let settings = json!({
        "execution": { "skills_dir": folder.join("skills") },
        "search": { "registry_dir": folder.join("tools_registry") },
    });
    fs::write(coracle.home().join("coracle.yaml"), settings.to_string()).unwrap();
    Up::start(coracle, &["--profile", "full"])
}

#[test]
fn calls_of_earlier_tools_work() {
    let coracle = Coracle::new(first());
    let up = serve(&coracle);
    let code = "def keep(rows):\n    return [row for row in rows if row['ok']]\n";
    let plan = [
        call("get_state", &json!({ "state_file": "state.json" })),
        call("save_state", &json!({ "state_data": { "step": 1 }, "state_file": "runs/one.json" })),
        call("get_state", &json!({ "state_file": "runs/one.json" })),
        call("save_state", &json!({ "state_data": { "step": 2 } })),
        call("get_state", &json!({})),
        call("execute_code", &json!({ "code": "json.loads(read_file('state.json'))" })),
        call("save_state", &json!({ "state_data": 1, "state_file": "../outside.json" })),
        call("list_workspace_files", &json!({})),
        call("list_workspace_files", &json!({ "recursive": false })),
        call("search_tools", &json!({ "query": "audit a page", "detail_level": "description", "max_results": 1 })),
        call("get_tool_definition", &json!({ "tool_name": "web_vuln_scanner", "category": "security" })),
        call("get_tool_definition", &json!({ "tool_name": "web_vuln_scanner", "category": "memory" })),
        call("list_tool_categories", &json!({})),
        call("list_available_tools", &json!({})),
        call("save_skill", &json!({ "name": "keep", "code": code, "description": "Keeps rows" })),
        call("get_skill", &json!({ "name": "keep" })),
        call("get_skill", &json!({ "name": "symbolic-computation" })),
        call("get_skill", &json!({ "name": "nobody" })),
        call("read_docstring", &json!({ "file_path": "/workspace/missing.py", "function_name": "f" })),
        call("write_file", &json!({ "file_path": "/workspace/greet.py", "content": "print('Hello, World!')" })),
        call("execute_bash", &json!({ "command": "python /workspace/greet.py; python --version" })),
        call(
            "execute_code",
            &json!({ "code": "[summarize_list([1, 2, 3], limit=2)['sample'], aggregate_stats([{'n': 1}, {'n': 3}])['n_sum'], workspace, get_skill('keep')]" }),
        ),
        json!({ "do": "prompt", "name": "agent_system_prompt" }),
    ];
    let all = steps(up.server(), "legacy", &plan);
    let whole = |at: usize| &all[at]["value"]["structuredContent"];
    let failed = |at: usize| all[at]["value"]["isError"] == true;
    assert_eq!((&whole(0)["exists"], &whole(0)["data"]), (&json!(false), &json!({})), "{:#}", all[0]);
    assert_eq!((&whole(1)["success"], &whole(1)["file"]), (&json!(true), &json!("/workspace/runs/one.json")));
    assert_eq!((&whole(2)["exists"], &whole(2)["data"]), (&json!(true), &json!({ "step": 1 })), "{:#}", all[2]);
    assert_eq!((&whole(4)["data"], &whole(4)["value"]), (&json!({ "step": 2 }), &json!({ "step": 2 })));
    assert_eq!(whole(5)["result"], json!({ "step": 2 }), "{:#}", all[5]);
    assert!(failed(6) && whole(6)["success"] == false, "{:#}", all[6]);
    let paths = |at: usize| -> Vec<&str> {
        whole(at)["files"].as_array().unwrap().iter().map(|file| file["path"].as_str().unwrap()).collect()
    };
    assert_eq!((paths(7), &whole(7)["count"]), (vec!["runs/one.json", "state.json"], &json!(2)), "{:#}", all[7]);
    assert_eq!((paths(8), &whole(8)["directories"]), (vec!["state.json"], &json!(["runs"])), "{:#}", all[8]);
    assert_eq!((&whole(9)["count"], &whole(9)["detail_level"]), (&json!(1), &json!("summary")), "{:#}", all[9]);
    let scanner = whole(10);
    assert_eq!((&scanner["name"], &scanner["category"]), (&json!("web_vuln_scanner"), &json!("security")));
    assert_eq!((&scanner["functions"], &scanner["use_cases"]), (&json!(["check_headers"]), &json!(["audit a page"])));
    assert_eq!(serde_json::from_str::<Value>(text(&all[10])).unwrap(), *scanner, "the text is the same");
    assert!(failed(11), "{:#}", all[11]);
    let security = &whole(12)["categories"]["security"];
    assert_eq!((&security["tool_count"], &security["description"]), (&json!(1), &json!("Scanning")), "{:#}", all[12]);
    assert_eq!(whole(12)["total_tools"], 1, "{:#}", all[12]);
    assert_eq!(whole(13)["servers"], json!({ "web_vuln_scanner": ["check_headers"] }), "{:#}", all[13]);
    assert_eq!((&whole(15)["code"], text(&all[15])), (&json!(code), code.trim_end()), "{:#}", all[15]);
    assert!(text(&all[16]).starts_with("# SymPy") && failed(17), "{:#}", all[16]);
    assert!(!failed(18) && text(&all[18]).is_empty(), "{:#}", all[18]);
    let ran = whole(20)["stdout"].as_str().unwrap();
    assert!(whole(20)["exit_code"] == 0 && ran.starts_with("Hello, World!\nPython 3."), "{:#}", all[20]);
    assert_eq!(whole(21)["result"], json!([[1, 2], 4, "/workspace", code]), "{:#}", all[21]);
    let prompt = all[22]["value"].to_string();
    for words in [
        "Agentic Code Execution with Domain Skills",
        "Available Skills",
        "/skills/symbolic-computation/Skill.md",
        "read_file",
        "Use when: Calculus: derivatives and integrals; Equations are to be solved",
    ] {
        assert!(prompt.contains(words), "{words}: {prompt}");
    }
    for words in ["curl", "http://", "pip install"] {
        assert!(!prompt.contains(words), "{words}: {prompt}");
    }
}

fn body(answer: &str) -> Value {
    serde_json::from_str(answer.split_once("\r\n\r\n").unwrap().1).unwrap()
}

#[test]
fn skills_over_http_keep_their_earlier_format() {
    let coracle = Coracle::new(first());
    let up = serve(&coracle);
    let code = "def keep():\n    return 1\n";
    steps(up.server(), "legacy", &[call("save_skill", &json!({ "name": "keep", "code": code, "description": "d" }))]);
    let listed = body(&get(&up.address, "/skills"));
    let skills = listed["skills"].as_array().unwrap();
    assert_eq!(listed["count"], skills.len(), "{listed:#}");
    let about = json!({
        "skill_id": "symbolic-computation", "name": "Symbolic Computation", "description": "Works with SymPy",
        "version": "1.0.0",
    });
    assert!(skills.contains(&about) && skills.iter().any(|skill| skill["skill_id"] == "keep"), "{listed:#}");
    let one = body(&get(&up.address, "/skills/symbolic-computation"));
    assert!(one["content"].as_str().unwrap().starts_with("# SymPy"), "{one:#}");
    assert_eq!((&one["skill_id"], &one["dependencies"]), (&json!("symbolic-computation"), &json!("sympy>=1.12")));
    assert_eq!(body(&get(&up.address, "/skills/keep"))["content"], code);
    for path in ["/skills/nobody", "/skills/..%2f..%2fcoracle.yaml"] {
        let missing = get(&up.address, path);
        assert!(status(&missing) == 404 && body(&missing)["error"].as_str().is_some(), "{path}: {missing}");
    }
    // Like all data of a user, skills require authentication.
    drop(up);
    let added = coracle.command().args(["users", "add", "ada"]).output().unwrap();
    assert!(added.status.success(), "{}", String::from_utf8_lossy(&added.stderr));
    let up = Up::start(&coracle, &["--profile", "full"]);
    for path in ["/skills", "/skills/keep"] {
        assert_eq!(status(&get(&up.address, path)), 401, "{path}");
    }
}
