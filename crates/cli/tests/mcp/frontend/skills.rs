//! Skills over MCP.

use super::driver::{GENERATIONS, call, first, stdio, steps, text};
use coracle_testing::harness::Coracle;
use serde_json::json;
use std::fs;

#[test]
fn skills_are_saved_found_read_and_deleted() {
    for (round, mode) in GENERATIONS.into_iter().enumerate() {
        let coracle = Coracle::new(first());
        let skills = coracle.home().join("operator");
        fs::create_dir_all(skills.join("pdf/references")).unwrap();
        fs::write(
            skills.join("pdf/SKILL.md"),
            "---\nname: pdf\ndescription: Reads PDF files\nuse_when: a form is to be filled\n---\n# How to read\n",
        )
        .unwrap();
        fs::write(skills.join("pdf/references/forms.md"), "# Forms\n").unwrap();
        let tools = coracle.home().join("modules");
        fs::create_dir_all(&tools).unwrap();
        fs::write(
            tools.join("shout.py"),
            "\"\"\"Makes texts loud.\"\"\"\ndef shout(text):\n    \"\"\"In capitals.\"\"\"\n    return text.upper()\n",
        )
        .unwrap();
        let settings = json!({ "execution": { "skills_dir": skills, "tools_dir": tools } });
        fs::write(coracle.home().join("coracle.yaml"), settings.to_string()).unwrap();
        let example = "from skills.double import double\nassert double(2) == 4";
        let code = "def double(n):\n    return 2 * n\n";
        let plan = [
            call(
                "save_skill",
                &json!({ "name": "double", "code": code, "description": "Doubles a number", "tags": "math, small", "example": example }),
            ),
            call(
                "save_skill",
                &json!({ "name": "double", "code": "def double(n):\n    return n\n", "example": example }),
            ),
            call("execute_code", &json!({ "code": "from skills.double import double\ndouble(21)" })),
            call("load_skill", &json!({ "name": "double" })),
            call("list_skills", &json!({})),
            call("search_skills", &json!({ "query": "twice as much", "limit": 1 })),
            call("get_skill", &json!({ "name": "pdf" })),
            call("get_skill", &json!({ "name": "pdf", "path": "references/forms.md" })),
            call("get_skill", &json!({ "name": "pdf", "path": "../../coracle.yaml" })),
            call("get_execution_stats", &json!({})),
            json!({ "do": "prompt", "name": "agent_system_prompt" }),
            json!({ "do": "resources" }),
            call("save_skill", &json!({ "name": "../x", "code": "1" })),
            call("delete_skill", &json!({ "name": "double" })),
            call("load_skill", &json!({ "name": "double" })),
            call(
                "execute_code",
                &json!({ "code": "import shout\nshout.shout(open('/skills/pdf/SKILL.md').read()[-5:])" }),
            ),
            json!({ "do": "read", "uri": "skill://pdf/SKILL.md" }),
            json!({ "do": "read", "uri": "skill://pdf/references/forms.md" }),
            json!({ "do": "read", "uri": "skill://pdf/../../coracle.yaml" }),
            json!({ "do": "read", "uri": "skill://pdf/%2e%2e/%2e%2e/coracle.yaml" }),
            json!({ "do": "read", "uri": "skill://nobody/SKILL.md" }),
        ];
        let all = steps(stdio(&coracle, &["--profile", "full"]), mode, &plan);
        let whole = |at: usize| &all[at]["value"]["structuredContent"];
        let failed = |at: usize| all[at]["value"]["isError"] == true;
        assert_eq!((&whole(0)["version"], &whole(0)["tested"]), (&json!(1), &json!(true)), "{:#}", all[0]);
        assert!(failed(1) && text(&all[1]).contains("AssertionError"), "{:#}", all[1]);
        assert_eq!(whole(2)["result"], 42, "{round}: {:#}", all[2]);
        assert_eq!((&whole(3)["name"], &whole(3)["code"]), (&json!("double"), &json!(code)), "{:#}", all[3]);
        assert_eq!(whole(3)["metadata"]["tags"], json!(["math", "small"]));
        assert_eq!((&whole(4)["count"], &whole(4)["skills"][0]["name"]), (&json!(1), &json!("double")), "{:#}", all[4]);
        assert_eq!(whole(4)["instructions"].as_array().unwrap().len(), 4, "{:#}", all[4]);
        assert_eq!(whole(5)["skills"][0]["name"], "double", "{:#}", all[5]);
        assert!(
            text(&all[6]).starts_with("# How to read") && text(&all[6]).contains("references/forms.md"),
            "{:#}",
            all[6]
        );
        assert_eq!(whole(7)["content"], "# Forms\n", "{:#}", all[7]);
        assert!(failed(8) && !text(&all[8]).contains("skills_dir"), "{:#}", all[8]);
        assert_eq!(whole(9)["skills"], json!({ "count": 1, "instructions": 4 }), "{:#}", all[9]);
        let prompt = all[10]["value"]["messages"][0]["content"]["text"].as_str().unwrap();
        for words in [
            "- pdf: Reads PDF files Use when: a form is to be filled (/skills/pdf/SKILL.md)",
            "- double: Doubles a number (from skills.double import …)",
            "- shout: Makes texts loud.\n  shout(text): In capitals.",
            "/skills/data-analysis/SKILL.md",
        ] {
            assert!(prompt.contains(words), "{words}: {prompt}");
        }
        assert!(all[11].to_string().contains("skill://pdf/SKILL.md"), "{:#}", all[11]);
        assert!(failed(12) && text(&all[12]).contains("is not a valid skill name"), "{:#}", all[12]);
        assert!(!failed(13), "{:#}", all[13]);
        assert!(failed(14), "{:#}", all[14]);
        assert_eq!(whole(15)["result"], "READ\n", "{:#}", all[15]);
        let read = |at: usize| &all[at]["value"]["contents"][0]["text"];
        assert!(read(16).as_str().unwrap().contains("# How to read"), "{:#}", all[16]);
        assert_eq!(*read(17), "# Forms\n", "{:#}", all[17]);
        for refused in &all[18..21] {
            assert!(refused["value"].is_null() && !refused.to_string().contains("skills_dir"), "{refused:#}");
        }
    }
}
