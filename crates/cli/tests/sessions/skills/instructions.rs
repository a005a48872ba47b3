//! Folders with a `SKILL.md` as seen by code, and the examples of the built-in skills.

use super::code::ada;
use coracle_engine::{Library, Origin, SkillSource};
use coracle_testing::lab::{Lab, error_code};
use coracle_testing::place::Place;
use coracle_types::{Language, Limits};
use serde_json::json;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;
use tempfile::TempDir;

#[test]
fn all_skills_are_read_only_below_skills() {
    let place = Place::new();
    let head = |name: &str, text: &str| format!("---\nname: {name}\ndescription: d\n---\n{text}\n");
    place.put(".agents/skills/pdf/SKILL.md", &head("pdf", "of the project"));
    place.put_below(&place.user(), ".claude/skills/pdf/SKILL.md", &head("pdf", "of the user"));
    place.put_below(&place.user(), ".claude/skills/mail/SKILL.md", &head("mail", "mails"));
    place.put_below(&place.user(), ".claude/skills/mail/scripts/send.py", "print('sent')");
    place.put(".agents/skills/notes/README.md", "no skill");
    let code = "import os\nnames = sorted(os.listdir('/skills'))\ntry:\n    open('/skills/pdf/SKILL.md', 'a')\n    wrote = True\nexcept OSError:\n    wrote = False\n[names, open('/skills/pdf/SKILL.md').read().splitlines()[-1], os.path.exists('/skills/mail/scripts/send.py'), wrote, get_skill('pdf').strip(), get_skill('mail', 'scripts/send.py')]";
    let said = place.output(&["exec", "--json", "-c", code]);
    let execution: serde_json::Value = serde_json::from_str(&said).unwrap();
    let names = ["charts", "data-analysis", "mail", "pdf", "symbolic-math"];
    let expected = json!([names, "of the project", true, false, "of the project", "print('sent')"]);
    assert_eq!(execution["result"], expected, "{execution:#}");
}

/// Environment with the packages, readable for all users.
fn science() -> (Option<TempDir>, PathBuf) {
    let environment = PathBuf::from(coracle_testing::place::installed("venv-science"));
    let is_open = |folder: &Path| folder.metadata().unwrap().permissions().mode() & 0o001 != 0;
    if environment.ancestors().all(is_open) && !environment.starts_with("/tmp") {
        return (None, environment.join("bin/python3"));
    }
    let folder = TempDir::new_in("/var/tmp").unwrap();
    fs::set_permissions(folder.path(), fs::Permissions::from_mode(0o755)).unwrap();
    let copied = Command::new("cp").arg("-a").arg(&environment).arg(folder.path()).status().unwrap();
    assert!(copied.success(), "cp: {copied}");
    let python = folder.path().join("venv-science/bin/python3");
    (Some(folder), python)
}

/// Programs in a text, in order.
fn programs(text: &str) -> Vec<String> {
    text.split("```python\n").skip(1).filter_map(|rest| rest.split("\n```").next()).map(str::to_owned).collect()
}

/// Every program of each built-in skill works, one after another in one interpreter.
#[tokio::test(flavor = "multi_thread")]
async fn the_examples_of_built_in_skills_run() {
    let (_copy, python) = science();
    let limits = Limits { wall_ms: 60_000, memory_mb: 1_000, ..Limits::default() };
    let lab = Lab::with_python(Some(python), limits, 0, Duration::from_mins(10));
    let cache = lab.home.path().join("cache/skills");
    let engine = lab.engine.clone().with_library(Library::new(Vec::new(), Some(&cache)));
    let installed = lab
        .python("import importlib.util as i\n[m for m in ('pandas', 'sympy', 'matplotlib') if i.find_spec(m)]")
        .await;
    let installed: Vec<String> = serde_json::from_value(installed.result.unwrap()).unwrap();
    let shelved = engine.library().read().await;
    assert_eq!(shelved.warnings, Vec::<String>::new());
    let missing = engine.missing_packages().await.unwrap();
    for (skill, package) in [("data-analysis", "pandas"), ("symbolic-math", "sympy"), ("charts", "matplotlib")] {
        let is_there = installed.iter().any(|name| name == package);
        assert_eq!(is_there, !missing.contains_key(skill), "{missing:?}");
        if !is_there {
            coracle_testing::skip::skip(&format!("the skill {skill}: the environment of the tests has no {package}"));
            continue;
        }
        let body = engine.library().get(skill, None).await.unwrap();
        assert_eq!(body.warnings, Vec::<String>::new(), "{skill}");
        let programs = programs(&body.content);
        assert!(programs.len() >= 4, "{skill}");
        for program in programs {
            let execution = lab.execute(lab.in_session(skill, Language::Python, &program)).await;
            assert_eq!(error_code(&execution), None, "{skill}:\n{program}\n{execution:?}");
        }
    }
    let left: Vec<String> =
        engine.newest_artifacts(&ada()).await.iter().map(|artifact| artifact.name.clone()).collect();
    if installed.iter().any(|name| name == "matplotlib") {
        assert!(left.iter().any(|name| name.ends_with("sales.png")), "{left:?}");
    }
    lab.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn missing_packages_of_a_skill_are_reported() {
    let lab = super::code::lab();
    let skills = lab.home.path().join("skills");
    for (name, wanted) in [("fine", "pip-less-nothing"), ("none", "")] {
        fs::create_dir_all(skills.join(name)).unwrap();
        let line = if wanted.is_empty() { String::new() } else { format!("dependencies: {wanted}>=1.0\n") };
        fs::write(skills.join(name).join("SKILL.md"), format!("---\nname: {name}\ndescription: d\n{line}---\n"))
            .unwrap();
    }
    let source = SkillSource { path: skills, origin: Origin::Configured };
    let engine = lab.engine.clone().with_library(Library::new(vec![source], None));
    let missing = engine.missing_packages().await.unwrap();
    assert_eq!(missing.keys().collect::<Vec<_>>(), ["fine"], "{missing:?}");
    assert!(missing["fine"][0].contains("pip-less-nothing is not installed"), "{missing:?}");
    lab.close().await;
}
