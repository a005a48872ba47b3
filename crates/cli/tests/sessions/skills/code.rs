//! Saved code, and programs that import it.

use coracle_engine::{SkillDraft, SkillError, SkillLanguage};
use coracle_testing::lab::{Lab, error_code};
use coracle_types::Language::{Bash, Python, TypeScript};
use coracle_types::{ErrorCode, Limits, UserId};
use serde_json::{Value, json};
use std::time::Duration;

pub(crate) fn lab() -> Lab {
    Lab::new(Limits { wall_ms: 20_000, ..Limits::default() }, 2, Duration::from_mins(10))
}

pub(crate) fn ada() -> UserId {
    UserId::new("ada").unwrap()
}

pub(crate) fn draft(name: &str, code: &str) -> SkillDraft {
    SkillDraft { name: name.to_owned(), code: code.to_owned(), ..SkillDraft::default() }
}

/// Returns the result of Python code that must succeed.
async fn value(lab: &Lab, code: &str) -> Value {
    let execution = lab.python(code).await;
    assert_eq!(error_code(&execution), None, "{code}: {execution:?}");
    execution.result.unwrap_or_default()
}

#[tokio::test(flavor = "multi_thread")]
async fn saved_code_can_be_imported_in_its_newest_version() {
    let lab = lab();
    let first = lab.engine.save_skill(&ada(), draft("add", "def f(a, b):\n    return a + b\n")).await.unwrap();
    assert_eq!((first.version, first.author.as_str()), (1, "ada"));
    assert_eq!(value(&lab, "from skills.add import f\nf(40, 2)").await, json!(42));
    let second = lab.engine.save_skill(&ada(), draft("add", "def f(a, b):\n    return [a, b]\n")).await.unwrap();
    assert_eq!((second.version, &second.created_at), (2, &first.created_at));
    assert_eq!(value(&lab, "import skills.add\nskills.add.f(40, 2)").await, json!([40, 2]));
    // Fields that a new version omits are kept.
    let words = SkillDraft { description: "Adds".to_owned(), tags: vec!["t".to_owned()], ..draft("said", "x = 1") };
    lab.engine.save_skill(&ada(), words).await.unwrap();
    let said = lab.engine.save_skill(&ada(), draft("said", "x = 2")).await.unwrap();
    assert_eq!((said.version, said.description.as_str(), said.tags.len()), (2, "Adds", 1));
    lab.engine.delete_skill(&ada(), "said").await.unwrap();
    let old = lab.engine.load_skill(&ada(), "add", Some(1)).await.unwrap();
    assert!(old.code.contains("a + b") && old.versions == [1, 2], "{old:?}");
    // The link in the workspace shows the same, and is read-only.
    let looked = lab.execute(lab.request(Bash, "ls /coracle/skills skills/; echo x > /coracle/skills/evil.py")).await;
    assert!(looked.stdout.contains("add.py") && !looked.success, "{looked:?}");
    assert_eq!(lab.engine.list_skills(&ada()).await.unwrap().len(), 1);
    lab.engine.delete_skill(&ada(), "add").await.unwrap();
    let gone = lab.python("from skills.add import f").await;
    assert_eq!(error_code(&gone), Some(ErrorCode::Exception), "{gone:?}");
    assert!(gone.failure.unwrap().hint.unwrap().contains("none are saved"));
    lab.engine.save_skill(&ada(), draft("adder", "x = 1")).await.unwrap();
    let near = lab.python("from skills.add import f").await;
    assert!(near.failure.unwrap().hint.unwrap().contains("did you mean adder?"));
    lab.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn code_can_save_find_and_import_skills() {
    let lab = lab();
    let code = r#"
before = list_skills()
saved = save_skill("greet", "def hello(name):\n    return f'hello {name}'\n", "Greets somebody by name", "words, people")
from skills.greet import hello
first = hello("ada")
save_skill("greet", "def hello(name):\n    return name.upper()\n")
from skills.greet import hello
found = search_skills("say hello to a person")
[before, saved["version"], first, hello("ada"), load_skill("greet", 1)[:9], [s["name"] for s in list_skills()], found[0]["name"]]
"#;
    let told = value(&lab, code).await;
    assert_eq!(told, json!([[], 1, "hello ada", "ADA", "def hello", ["greet"], "greet"]));
    let told = value(&lab, "exec(load_skill('greet')); [hello('x'), delete_skill('greet'), list_skills()]").await;
    assert_eq!(told, json!(["X", "Deleted greet", []]));
    // A live interpreter sees what was saved meanwhile.
    let asked = lab.execute(lab.in_session("s", Python, "import sys")).await;
    assert!(asked.success);
    lab.engine.save_skill(&ada(), draft("later", "x = 7")).await.unwrap();
    let asked = lab.execute(lab.in_session("s", Python, "from skills.later import x\nx")).await;
    assert_eq!(asked.result, Some(json!(7)), "{asked:?}");
    lab.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn skill_calls_are_counted_and_errors_are_readable() {
    let lab = lab();
    let mut request = lab.request(Python, "for _ in range(100): list_skills()");
    request.limits.calls = 5;
    assert_eq!(error_code(&lab.execute(request).await), Some(ErrorCode::Calls));
    for (code, words) in [
        ("save_skill('../x', 'x = 1')", "is not a valid skill name"),
        ("save_skill('a', '')", "is empty"),
        ("save_skill('a', 'x' * 300_000)", "at most 262144"),
        ("save_skill('a', 'def f(:')", "does not compile"),
        ("save_skill('a', 'x', tags=7)", "wrong arguments"),
        ("load_skill('nope')", "there is no skill \"nope\""),
        ("delete_skill('nope')", "there is no skill \"nope\""),
        ("load_skill('/etc/passwd')", "is not a valid skill name"),
        ("get_skill('nope')", "there is no skill \"nope\""),
    ] {
        let execution = lab.python(code).await;
        let failure = execution.failure.as_ref().unwrap_or_else(|| panic!("{code}: {execution:?}"));
        assert!(failure.error.contains("ToolError") && failure.error.contains(words), "{code}: {failure:?}");
    }
    assert_eq!(value(&lab, "list_skills()").await, json!([]));
    lab.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_skill_with_a_failing_example_is_refused() {
    let lab = lab();
    let code = "def half(n):\n    return n // 2\n";
    let with = |code: &str, example: &str| SkillDraft { example: Some(example.to_owned()), ..draft("half", code) };
    let good = "from skills.half import half\nassert half(9) == 4\nopen('left', 'w').write('x')\nopen('/artifacts/left', 'w').write('x')";
    assert_eq!(lab.engine.save_skill(&ada(), with(code, good)).await.unwrap().version, 1);
    // The example left nothing behind.
    assert_eq!(value(&lab, "import os\nos.path.exists('left')").await, json!(false));
    assert_eq!(lab.engine.newest_artifacts(&ada()).await, []);
    let bad = lab.engine.save_skill(&ada(), with("def half(n):\n    return n / 0\n", good)).await.unwrap_err();
    assert!(matches!(&bad, SkillError::Example(_)), "{bad:?}");
    let told = bad.to_string();
    assert!(told.contains("ZeroDivisionError") && told.contains("/coracle/skills/half.py\", line 2"), "{told}");
    // The old version is unchanged.
    let kept = lab.engine.load_skill(&ada(), "half", None).await.unwrap();
    assert_eq!((kept.metadata.version, kept.code.as_str(), kept.versions.as_slice()), (1, code, [1].as_slice()));
    assert_eq!(value(&lab, "from skills.half import half\nhalf(9)").await, json!(4));
    let tested = lab.engine.test_skill(&ada(), "half").await.unwrap().unwrap();
    assert!(tested.success, "{tested:?}");
    // The same from code. An example that hangs ends by its own limit.
    let refused =
        lab.python("save_skill('broken', 'x = 1', example='import skills.broken\\nassert skills.broken.x == 2')").await;
    assert!(refused.failure.unwrap().error.contains("AssertionError"));
    // An example cannot save skills, which could have examples that save skills.
    let example = "save_skill('inner', 'x = 1', example='1')";
    let refused = lab
        .engine
        .save_skill(&ada(), SkillDraft { example: Some(example.to_owned()), ..draft("outer", "x = 1") })
        .await;
    assert!(refused.unwrap_err().to_string().contains("cannot save or delete skills"));
    let names: Vec<String> =
        lab.engine.list_skills(&ada()).await.unwrap().iter().map(|listed| listed.skill.name.to_string()).collect();
    assert_eq!(names, ["half"]);
    let trials = lab.home.path().join("workspaces/ada/trials");
    assert_eq!(std::fs::read_dir(trials).unwrap().count(), 0);
    lab.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn skills_in_typescript_can_be_imported() {
    let lab = lab();
    let code = "export const add = (a: number, b: number): number => a + b;";
    let example = "import { add } from \"skills/add\"; if (add(1, 2) !== 3) throw new Error('wrong')";
    let typed = |code: &str| SkillDraft {
        language: SkillLanguage::Typescript,
        example: Some(example.to_owned()),
        ..draft("add", code)
    };
    lab.engine.save_skill(&ada(), typed(code)).await.unwrap();
    let imported = "import { add } from \"skills/add\"; add(40, 2)";
    assert_eq!(lab.execute(lab.request(TypeScript, imported)).await.result, Some(json!(42)));
    let bad = lab.engine.save_skill(&ada(), typed("export const add = (a, b) => a - b;")).await.unwrap_err();
    assert!(matches!(&bad, SkillError::Example(told) if told.contains("wrong")), "{bad:?}");
    let all = r#"
import { save_skill, load_skill, list_skills, search_skills, delete_skill } from "coracle";
await save_skill("twice", "export const twice = (n) => 2 * n", { description: "Doubles a number" });
const { twice } = await import("skills/twice");
const names = (await list_skills()).map((skill) => skill.name);
const found = (await search_skills("double"))[0].name;
const source = await load_skill("twice");
await delete_skill("twice");
[twice(21), names, found, source, (await list_skills()).length]"#;
    let execution = lab.execute(lab.request(TypeScript, all)).await;
    let source = "export const twice = (n) => 2 * n";
    assert_eq!(execution.result, Some(json!([42, ["add", "twice"], "twice", source, 1])), "{execution:?}");
    let refused = "import { load_skill } from \"coracle\"; try { await load_skill('nope') } catch (e) { result = [e.name, e.code] }";
    let execution = lab.execute(lab.request(TypeScript, refused)).await;
    assert_eq!(execution.result, Some(json!(["ToolError", "no_such_skill"])), "{execution:?}");
    lab.close().await;
}

/// Packages in the workspace never take precedence over saved code.
#[tokio::test(flavor = "multi_thread")]
async fn a_planted_package_has_no_effect() {
    let lab = lab();
    lab.engine.save_skill(&ada(), draft("real", "x = 'real'")).await.unwrap();
    let planted = "import os\nos.remove('skills') if os.path.islink('skills') else None\nos.makedirs('skills', exist_ok=True)\nfor name in ('__init__', 'real', 'own'): open(f'skills/{name}.py', 'w').write('x = \"planted\"')";
    assert_eq!(value(&lab, planted).await, json!(null));
    assert_eq!(value(&lab, "from skills.real import x\nx").await, json!("real"));
    assert_eq!(error_code(&lab.python("import skills.own").await), Some(ErrorCode::Exception));
    lab.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_example_has_its_own_limits() {
    let lab = lab();
    let engine = lab.engine.clone().with_trial_limits(Limits { wall_ms: 500, ..Limits::default() });
    let with = |example: &str| SkillDraft { example: Some(example.to_owned()), ..draft("bounded", "x = 1") };
    let refused = engine.save_skill(&ada(), with("while True: pass")).await.unwrap_err();
    assert!(matches!(&refused, SkillError::Example(told) if told.contains("ran longer than")), "{refused:?}");
    assert_eq!(engine.save_skill(&ada(), with("1")).await.unwrap().version, 1);
    lab.close().await;
}
