use crate::given::{decision, listed, owner, server, user};
use coracle_store::{MAX_ARGUMENT_DECISIONS, Owner, Store, ToolDecision, sign_in_secret};
use coracle_types::{Decision, Secret};
use serde_json::json;
use std::sync::Arc;
use std::time::Duration;

pub(crate) async fn a_decision_is_remembered_and_forgotten(store: Arc<dyn Store>) {
    let (ann, git) = (user("ann"), server("git"));
    assert_eq!(store.decision(&ann, &git, "reset").await.unwrap(), None);
    assert_eq!(store.decisions(&ann).await.unwrap(), []);

    let allow = decision("git", "reset", "d1");
    store.remember(&ann, &allow).await.unwrap();
    assert_eq!(store.decision(&ann, &git, "reset").await.unwrap(), Some(allow));

    let mut deny = decision("git", "reset", "d2");
    deny.decision = Decision::Deny;
    store.remember(&ann, &deny).await.unwrap();
    let other = decision("files", "delete", "d3");
    store.remember(&ann, &other).await.unwrap();
    assert_eq!(store.decisions(&ann).await.unwrap(), [other.clone(), deny], "the last decision counts");

    assert!(store.forget(&ann, &git, "reset").await.unwrap());
    assert!(!store.forget(&ann, &git, "reset").await.unwrap());
    assert_eq!(store.decision(&ann, &git, "reset").await.unwrap(), None);
    assert_eq!(store.decisions(&ann).await.unwrap(), [other]);
}

pub(crate) async fn decisions_of_users_are_separate(store: Arc<dyn Store>) {
    let (ann, bob, git) = (user("ann"), user("bob"), server("git"));
    store.remember(&ann, &decision("git", "reset", "d1")).await.unwrap();
    assert_eq!(store.decision(&bob, &git, "reset").await.unwrap(), None);
    assert_eq!(store.decisions(&bob).await.unwrap(), []);
    assert!(!store.forget(&bob, &git, "reset").await.unwrap());
    assert_eq!(store.decisions(&ann).await.unwrap(), [decision("git", "reset", "d1")]);
    assert_eq!(store.decision(&ann, &server("Git"), "reset").await.unwrap(), None);
    assert_eq!(store.decision(&ann, &git, "Reset").await.unwrap(), None);
}

/// A decision that is bound to arguments. Its age is in seconds.
fn bound(tool: &str, arguments: &str, age: u64) -> ToolDecision {
    let of_tool = decision("git", tool, "d");
    let decided_at = of_tool.decided_at - Duration::from_secs(age);
    ToolDecision { arguments: Some(arguments.to_owned()), decided_at, ..of_tool }
}

pub(crate) async fn a_decision_can_be_bound_to_arguments(store: Arc<dyn Store>) {
    let (ann, bob, git) = (user("ann"), user("bob"), server("git"));
    let (one, two, other) = (bound("reset", "a1", 9), bound("reset", "b2", 0), bound("push", "a1", 0));
    for decided in [&two, &one, &other] {
        store.remember(&ann, decided).await.unwrap();
    }
    assert_eq!(store.decision(&ann, &git, "reset").await.unwrap(), None, "it is not about all calls");
    assert_eq!(store.decisions_about(&ann, &git, "reset").await.unwrap(), [one.clone(), two.clone()]);
    assert_eq!(store.decisions(&ann).await.unwrap(), [other.clone(), one.clone(), two.clone()]);
    assert_eq!(store.decisions_about(&bob, &git, "reset").await.unwrap(), []);

    // The same arguments replace, and nothing else does.
    let newer = ToolDecision { definition: "d2".to_owned(), ..bound("reset", "a1", 1) };
    store.remember(&ann, &newer).await.unwrap();
    assert_eq!(store.decisions_about(&ann, &git, "reset").await.unwrap(), [newer.clone(), two.clone()]);
    assert!(!store.forget_arguments(&bob, &git, "reset", "a1").await.unwrap());
    assert!(!store.forget_arguments(&ann, &git, "reset", "").await.unwrap());
    assert!(store.forget_arguments(&ann, &git, "reset", "a1").await.unwrap());
    assert!(!store.forget_arguments(&ann, &git, "reset", "a1").await.unwrap());
    assert_eq!(store.decisions_about(&ann, &git, "reset").await.unwrap(), [two]);

    // One about all calls replaces all, and those that follow are beside it.
    let all = decision("git", "reset", "d");
    store.remember(&ann, &all).await.unwrap();
    assert_eq!(store.decisions(&ann).await.unwrap(), [other.clone(), all.clone()]);
    store.remember(&ann, &one).await.unwrap();
    assert_eq!(store.decision(&ann, &git, "reset").await.unwrap(), Some(all.clone()));
    assert_eq!(store.decisions_about(&ann, &git, "reset").await.unwrap(), [all, one]);
    assert!(store.forget(&ann, &git, "reset").await.unwrap());
    assert_eq!(store.decisions(&ann).await.unwrap(), [other]);
}

pub(crate) async fn the_oldest_decision_about_arguments_is_forgotten(store: Arc<dyn Store>) {
    let (ann, git) = (user("ann"), server("git"));
    let all = decision("git", "reset", "d");
    store.remember(&ann, &all).await.unwrap();
    store.remember(&ann, &bound("push", "old", 1_000_000)).await.unwrap();
    for number in 0..=MAX_ARGUMENT_DECISIONS {
        // Those that come later are older.
        store.remember(&ann, &bound("reset", &format!("{number:04}"), 1_000 + number as u64)).await.unwrap();
    }
    let kept = store.decisions_about(&ann, &git, "reset").await.unwrap();
    assert_eq!(kept.len(), MAX_ARGUMENT_DECISIONS + 1);
    assert_eq!(kept.first(), Some(&all));
    let last = format!("{:04}", MAX_ARGUMENT_DECISIONS - 1);
    assert_eq!(kept.last().unwrap().arguments, Some(last));
    assert_eq!(store.decisions_about(&ann, &git, "push").await.unwrap().len(), 1, "of another tool");
}

pub(crate) async fn a_removed_server_is_forgotten_for_all_users(store: Arc<dyn Store>) {
    let secret = Secret::new("token");
    for name in ["git", "git-2"] {
        for owner in [Owner::Shared, owner("ann"), owner("bob")] {
            store.put_tools(&owner, &server(name), &listed("f", &["a"])).await.unwrap();
            store.put_shape(&owner, &server(name), "a", &json!({}), 0).await.unwrap();
            store.put_secret(&owner, name, &secret).await.unwrap();
            store.put_secret(&owner, &sign_in_secret(&server(name)), &secret).await.unwrap();
        }
        for name_of_user in ["ann", "bob"] {
            store.remember(&user(name_of_user), &decision(name, "reset", "d")).await.unwrap();
        }
    }
    store.forget_server(&server("git")).await.unwrap();
    store.forget_server(&server("unknown")).await.unwrap();
    for owner in [Owner::Shared, owner("ann"), owner("bob")] {
        assert_eq!(store.tools(&owner, &server("git")).await.unwrap(), None);
        assert_eq!(store.shapes(&owner, &server("git")).await.unwrap(), []);
        assert_eq!(store.secret(&owner, "git").await.unwrap(), Some(secret.clone()));
        assert_eq!(store.secret(&owner, &sign_in_secret(&server("git"))).await.unwrap(), None);
        assert!(store.secret(&owner, &sign_in_secret(&server("git-2"))).await.unwrap().is_some());
        assert!(store.tools(&owner, &server("git-2")).await.unwrap().is_some());
        assert_eq!(store.shapes(&owner, &server("git-2")).await.unwrap().len(), 1);
    }
    for name in ["ann", "bob"] {
        assert_eq!(store.decisions(&user(name)).await.unwrap(), [decision("git-2", "reset", "d")]);
    }
}
