//! Hostile and harmless programs, and what strict mode says about them.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on fails")]

use coracle_guardrails::{Access, Catalogue, Guardrails, Known, RULES, Report, Rule, Severity};
use coracle_types::Language;
use std::fs;
use std::path::{Path, PathBuf};

/// Minimum number of programs of each kind.
const LEAST: usize = 200;

struct Unlisted;

impl Catalogue for Unlisted {
    fn look_up(&self, _server: &str, _tool: Option<&str>) -> Known {
        Known::Nothing
    }
}

fn strict() -> Guardrails {
    Guardrails { is_enabled: true, is_strict: true, ..Guardrails::default() }
}

fn check(language: Language, code: &str) -> Report {
    strict().check(language, code, &Unlisted, Access::Any)
}

fn programs(kind: &str) -> Vec<(PathBuf, Language, String)> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/corpus").join(kind);
    let mut programs = Vec::new();
    for (folder, language) in
        [("python", Language::Python), ("typescript", Language::TypeScript), ("bash", Language::Bash)]
    {
        for entry in fs::read_dir(root.join(folder)).unwrap() {
            let path = entry.unwrap().path();
            let code = fs::read_to_string(&path).unwrap();
            programs.push((path, language, code));
        }
    }
    programs.sort_by(|one, other| one.0.cmp(&other.0));
    programs
}

#[test]
fn hostile_programs_are_refused_for_the_right_reason() {
    let programs = programs("hostile");
    let mut wrong = Vec::new();
    for (path, language, code) in &programs {
        let expected = code.lines().next().and_then(|line| line.split_once("expect: ")).unwrap().1;
        let report = check(*language, code);
        if !report.dangers().any(|finding| finding.rule.id() == expected) {
            wrong.push(format!("{}: {expected} expected, found {:#?}", path.display(), report.findings));
        }
    }
    assert!(wrong.is_empty(), "{} of {}:\n{}", wrong.len(), programs.len(), wrong.join("\n"));
    assert!(programs.len() >= LEAST, "only {}", programs.len());
}

#[test]
fn harmless_programs_run() {
    let programs = programs("harmless");
    let mut wrong = Vec::new();
    for (path, language, code) in &programs {
        let report = check(*language, code);
        if !report.is_harmless() {
            wrong.push(format!("{}: {:#?}", path.display(), report.findings));
        }
    }
    assert!(wrong.is_empty(), "{} of {}:\n{}", wrong.len(), programs.len(), wrong.join("\n"));
    assert!(programs.len() >= LEAST, "only {}", programs.len());
}

/// The documentation lists exactly the rules of the code.
#[test]
fn the_documentation_lists_the_rules() {
    let page = fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/guardrails.md")).unwrap();
    let rows: Vec<&str> = page
        .lines()
        .skip_while(|line| !line.starts_with("| rule |"))
        .skip(2)
        .take_while(|line| line.starts_with('|'))
        .collect();
    let expected: Vec<String> = RULES
        .iter()
        .map(|row| {
            let fate = if row.severity == Severity::Danger { "refused" } else { "warning" };
            format!("| `{}` | {fate} | {} |", row.id, row.finds)
        })
        .collect();
    assert_eq!(rows, expected);
}

#[test]
fn allowed_names_and_rules_are_not_reported() {
    let code = "import os\nos.system('id')\nimport pickle\n";
    let found = |guardrails: &Guardrails| -> Vec<&'static str> {
        let report = guardrails.check(Language::Python, code, &Unlisted, Access::Any);
        report.findings.iter().map(|finding| finding.rule.id()).collect()
    };
    assert_eq!(found(&strict()), ["call"]);
    for allowed in ["os.system", "os", "call"] {
        assert!(found(&Guardrails { allow: vec![allowed.to_owned()], ..strict() }).is_empty(), "{allowed}");
    }
    assert_eq!(found(&Guardrails { allow: vec!["os.sys".to_owned()], ..strict() }), ["call"]);
    assert_eq!(found(&Guardrails { deny_imports: vec!["pickle".to_owned()], ..strict() }), ["call", "import"]);
}

/// The catalogue of a server `time` with one tool that reads and one that writes.
struct Time;

impl Catalogue for Time {
    fn look_up(&self, server: &str, tool: Option<&str>) -> Known {
        match (server, tool) {
            ("time", None) => Known::Server,
            ("time", Some("get_time")) => Known::Tool { is_read_only: true },
            ("time", Some("set_time")) => Known::Tool { is_read_only: false },
            ("time", Some("old_tiem")) => Known::Unlisted { all: vec!["old_time".to_owned()] },
            ("time", Some(_)) => Known::NoTool { all: vec!["get_time".to_owned(), "set_time".to_owned()] },
            _ => Known::NoServer { all: vec!["time".to_owned()] },
        }
    }
}

#[test]
fn tools_are_looked_up() {
    let cases = [
        (Language::Python, "from servers.time import {tool}\n{tool}()"),
        (Language::Python, "import servers.time as t\nt.{tool}()"),
        (Language::Python, "from servers import time\ntime.{tool}()"),
        (Language::TypeScript, "import { {tool} } from \"servers/time\";\nawait {tool}();"),
        (Language::TypeScript, "import * as time from \"servers/time\";\nawait time.{tool}();"),
        (Language::Bash, "tool time {tool} --zone UTC | jq ."),
    ];
    for (language, code) in cases {
        let rules = |tool: &str, access: Access| -> Vec<Rule> {
            let report = strict().check(language, &code.replace("{tool}", tool), &Time, access);
            report.findings.iter().map(|finding| finding.rule).collect()
        };
        assert_eq!(rules("get_time", Access::ReadOnly), [], "{code}");
        assert_eq!(rules("set_time", Access::Any), [], "{code}");
        assert_eq!(rules("set_time", Access::ReadOnly)[..1], [Rule::WriteInReadOnlyTask], "{code}");
        assert_eq!(rules("set_tiem", Access::Any)[..1], [Rule::UnknownTool], "{code}");
        assert_eq!(rules("old_tiem", Access::Any)[..1], [Rule::UnlistedTool], "{code}");
    }
    let report = strict().check(Language::Python, "from servers.tiem import get_time", &Time, Access::Any);
    assert_eq!(report.findings[0].message, "there is no server tiem; the nearest are time");
    assert!(!report.is_harmless(), "the server certainly does not exist");
    let report = strict().check(Language::Python, "from servers.time import old_tiem", &Time, Access::Any);
    assert!(report.is_harmless(), "the tool may exist by now");
    let handled = "try:\n    from servers.tiem import get_time\nexcept ImportError:\n    get_time = None";
    assert!(strict().check(Language::Python, handled, &Time, Access::Any).is_harmless(), "the code expects it");
}

/// Later code of a session could use names that this code binds.
#[test]
fn sessions_have_no_hidden_names() {
    let check = |code: &str, is_session: bool| {
        let inspection = strict().inspect(Language::Python, code, is_session);
        strict().judge(&inspection, &Unlisted, Access::Any).is_harmless()
    };
    for code in ["import os as o", "from os import system", "e = eval", "m = __import__('subprocess')"] {
        assert!(!check(code, true), "{code}");
        assert!(check(code, false), "control: {code}");
    }
    assert!(check("import os\nimport numpy as np\nx = 1", true));
    // Modules that earlier code has imported.
    assert!(!check("os.system('id')", true));
}

/// The programs of a task of the benchmark.
#[derive(serde::Deserialize)]
struct Task {
    code: Vec<String>,
}

/// Fenced blocks and files of this repository that strict mode must run.
#[test]
fn programs_of_the_project_run() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let mut programs = Vec::new();
    files(&root.join("examples"), &mut |path, text| match path.extension().and_then(|ending| ending.to_str()) {
        Some("py") if !path.ends_with("server.py") => programs.push((path.to_owned(), Language::Python, text)),
        Some("ts") => programs.push((path.to_owned(), Language::TypeScript, text)),
        _ => {}
    });
    for folder in ["docs", "examples"] {
        files(&root.join(folder), &mut |path, text| {
            // These chapters are about the machine: their commands are for its terminal, not for a sandbox.
            let is_for_terminals = path.ends_with("install.md") || path.ends_with("troubleshooting.md");
            if path.extension().is_some_and(|ending| ending == "md") && !is_for_terminals {
                programs.extend(fenced(&text).into_iter().map(|(language, code)| (path.to_owned(), language, code)));
            }
        });
    }
    files(&root.join("bench/tasks"), &mut |path, text| {
        if path.extension().is_some_and(|ending| ending == "yaml") {
            let task: Task = serde_saphyr::from_str(&text).unwrap();
            programs.extend(task.code.into_iter().map(|code| (path.to_owned(), Language::Python, code)));
        }
    });
    assert!(programs.len() > 10, "only {}", programs.len());
    let mut wrong = Vec::new();
    for (path, language, code) in &programs {
        let report = check(*language, code);
        if !report.is_harmless() {
            wrong.push(format!("{}:\n{code}\n{:#?}", path.display(), report.findings));
        }
    }
    assert!(wrong.is_empty(), "{} of {}:\n{}", wrong.len(), programs.len(), wrong.join("\n"));
}

fn files(folder: &Path, found: &mut dyn FnMut(&Path, String)) {
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            files(&path, found);
        } else if let Ok(text) = fs::read_to_string(&path) {
            found(&path, text);
        }
    }
}

/// The programs in fenced blocks of a document.
fn fenced(text: &str) -> Vec<(Language, String)> {
    let mut programs = Vec::new();
    let mut open: Option<(Option<Language>, String)> = None;
    for line in text.lines() {
        match (&mut open, line.trim_start().strip_prefix("```")) {
            (None, Some(info)) => {
                let language = match info.trim() {
                    "python" | "py" => Some(Language::Python),
                    "typescript" | "ts" => Some(Language::TypeScript),
                    "bash" | "sh" => Some(Language::Bash),
                    _ => None,
                };
                open = Some((language, String::new()));
            }
            (Some(_), Some(_)) => {
                if let Some((Some(language), code)) = open.take() {
                    programs.push((language, code));
                }
            }
            (Some((_, code)), None) => {
                code.push_str(line);
                code.push('\n');
            }
            (None, None) => {}
        }
    }
    programs
}
