//! Sandboxes that are prepared for a user and limits are only used for the same user and limits.

use coracle_testing::lab::{Lab, error_code};
use coracle_types::{ErrorCode, Execution, Language, Limits, UserId};
use serde_json::json;
use std::time::Duration;

const POOL: usize = 2;

/// Runs code when the pool is full again, with one sandbox possibly bound.
async fn run(lab: &Lab, user: &str, code: &str, limits: &Limits) -> Execution {
    // The first run starts everything.
    lab.backend.report().await.unwrap();
    while lab.backend.prepared().await < POOL {
        tokio::time::sleep(Duration::from_millis(2)).await;
    }
    tokio::time::sleep(Duration::from_millis(20)).await;
    let mut request = lab.request(Language::Python, code);
    request.user = UserId::new(user).unwrap();
    request.limits = limits.clone();
    lab.execute(request).await
}

fn lab() -> Lab {
    Lab::new(Limits::default(), POOL, Duration::from_mins(10))
}

#[tokio::test(flavor = "multi_thread")]
async fn users_never_get_the_workspace_of_another() {
    let lab = lab();
    let mut seen = std::collections::BTreeSet::new();
    for user in ["ada", "ada", "ada", "bob", "ada", "bob", "bob", "bob", "ada", "bob", "ada", "ada", "ada", "bob"] {
        let code = format!(
            "import os\nnames = [name for name in os.listdir('.') if not os.path.islink(name)]\nopen('{user}', 'w').close()\nnames"
        );
        let execution = run(&lab, user, &code, &Limits::default()).await;
        let expected = if seen.insert(user) { json!([]) } else { json!([user]) };
        assert_eq!(execution.result, Some(expected), "{user}: {execution:?}");
    }
    lab.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn other_limits_are_respected() {
    let lab = lab();
    let write = "open('file', 'wb').write(b'x' * 2_000_000)";
    let small = Limits { file_mb: 1, ..Limits::default() };
    for limits in
        [&Limits::default(), &Limits::default(), &Limits::default(), &small, &small, &small, &Limits::default()]
    {
        let code = error_code(&run(&lab, "ada", write, limits).await);
        assert_eq!(code, (*limits == small).then_some(ErrorCode::Disk));
    }
    lab.close().await;
}

/// A sandbox that is bound to a removed folder is not used for a new one at the same path.
#[tokio::test(flavor = "multi_thread")]
async fn a_recreated_workspace_is_another_one() {
    let lab = lab();
    let write = "open('note', 'w').write('here')";
    for _ in 0..4 {
        for _ in 0..3 {
            assert_eq!(run(&lab, "ada", write, &Limits::default()).await.result, Some(json!(4)));
        }
        let note = lab.home.path().join("workspaces/ada/files/note");
        assert_eq!(std::fs::read_to_string(&note).unwrap(), "here");
        std::fs::remove_dir_all(note.parent().unwrap()).unwrap();
        assert_eq!(run(&lab, "ada", write, &Limits::default()).await.result, Some(json!(4)));
        assert_eq!(std::fs::read_to_string(&note).unwrap(), "here", "written to the new folder");
    }
    lab.close().await;
}

#[test]
fn all_of_it_as_an_ordinary_user() {
    coracle_testing::ordinary_user::run_tests_except(module_path!(), &["all_of_it_as_an_ordinary_user"]);
}
