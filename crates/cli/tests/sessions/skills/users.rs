//! Skills of different users are isolated, whatever their names.

use super::code::{ada, draft, lab};
use coracle_testing::lab::{Lab, error_code};
use coracle_types::{ErrorCode, Execution, Language, UserId};
use serde_json::{Map, Value, json};

async fn python(lab: &Lab, user: &UserId, code: &str) -> Execution {
    let mut request = lab.request(Language::Python, code);
    request.user = user.clone();
    lab.execute(request).await
}

#[tokio::test(flavor = "multi_thread")]
async fn users_cannot_see_or_change_skills_of_others() {
    let (lab, bob) = (lab(), UserId::new("bob").unwrap());
    lab.engine.save_skill(&ada(), draft("secret", "x = 'of ada'")).await.unwrap();
    // Control: the owner sees it everywhere.
    assert_eq!(
        python(&lab, &ada(), "from skills.secret import x\n[x, load_skill('secret')]").await.result,
        Some(json!(["of ada", "x = 'of ada'"]))
    );
    let denied = python(&lab, &bob, "from skills.secret import x").await;
    assert_eq!(error_code(&denied), Some(ErrorCode::Exception), "{denied:?}");
    let seen = python(&lab, &bob, "import os\n[list_skills(), [s['name'] for s in search_skills('secret') if s['kind'] == 'code'], sorted(os.listdir('/coracle/skills'))]").await;
    assert_eq!(seen.result, Some(json!([[], [], ["__init__.py"]])), "{seen:?}");
    for act in ["load", "delete"] {
        let params = Map::from_iter([("name".to_owned(), Value::from("secret"))]);
        let error = lab.engine.skill_request(&bob, act, params).await.unwrap_err();
        assert_eq!(error.code(), "no_such_skill", "{act}: {error}");
    }
    // The same name is another skill.
    lab.engine.save_skill(&bob, draft("secret", "x = 'of bob'")).await.unwrap();
    for user in [ada(), bob.clone()] {
        let told = python(&lab, &user, "from skills.secret import x\nx").await.result;
        assert_eq!(told, Some(json!(format!("of {user}"))));
    }
    lab.engine.delete_skill(&bob, "secret").await.unwrap();
    assert_eq!(lab.engine.list_skills(&ada()).await.unwrap().len(), 1);
    assert_eq!(lab.engine.list_skills(&bob).await.unwrap().len(), 0);
    lab.close().await;
}

/// Names cannot lead to another user or out of the folder.
#[tokio::test(flavor = "multi_thread")]
async fn hostile_names_are_refused_everywhere() {
    let lab = lab();
    lab.engine.save_skill(&ada(), draft("good", "x = 1")).await.unwrap();
    let long = "a".repeat(5000);
    let names = [
        "",
        ".",
        "..",
        "../bob",
        "../../ada/skills/good",
        "/etc/passwd",
        "good/../good",
        "good\0",
        "good.py",
        "Good ",
        "gооd",
        "ＧＯＯＤ",
        "__init__",
        "class",
        ".lock",
        ".gone-good",
        "-x",
        "a b",
        "good\n",
        &long,
    ];
    for name in names {
        for act in ["save", "load", "delete"] {
            let mut params = Map::from_iter([("name".to_owned(), Value::from(name))]);
            if act == "save" {
                params.insert("code".to_owned(), Value::from("x = 'evil'"));
            }
            let error = lab.engine.skill_request(&ada(), act, params).await.unwrap_err();
            assert_eq!(error.code(), "invalid_skill", "{act} {name:?}: {error}");
            assert!(error.to_string().len() < 1000, "{act}: {error}");
        }
    }
    // A name that differs only in case is not the same skill.
    let params = Map::from_iter([("name".to_owned(), Value::from("GOOD"))]);
    assert_eq!(lab.engine.skill_request(&ada(), "load", params).await.unwrap_err().code(), "no_such_skill");
    assert!(lab.engine.save_skill(&ada(), draft("GOOD", "x = 2")).await.is_err());
    // Control.
    assert_eq!(lab.engine.load_skill(&ada(), "good", None).await.unwrap().code, "x = 1");
    let base = lab.home.path().join("workspaces");
    let mut there: Vec<_> = std::fs::read_dir(&base).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    there.sort();
    assert_eq!(there, ["ada"]);
    let mut there: Vec<_> =
        std::fs::read_dir(base.join("ada/skills")).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    there.sort();
    assert_eq!(there, ["__init__.py", "good.py"]);
    lab.close().await;
}
