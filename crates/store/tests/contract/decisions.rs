use crate::given::{decision, listed, owner, server, user};
use coracle_store::{Owner, Store, sign_in_secret};
use coracle_types::{Decision, Secret};
use serde_json::json;
use std::sync::Arc;

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
