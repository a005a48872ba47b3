use crate::given::{at, listed, owner, owners, server};
use coracle_store::{MAX_TOOLS_BYTES, Owner, Store, StoreError};
use std::sync::Arc;
use std::time::Duration;

pub(crate) async fn tools_are_returned_as_they_were_stored(store: Arc<dyn Store>) {
    let (owner, git) = (owner("ann"), server("git"));
    assert_eq!(store.tools(&owner, &git).await.unwrap(), None);
    let first = listed("one", &["z", "a", "\u{202e}../../x", ""]);
    store.put_tools(&owner, &git, &first).await.unwrap();
    assert_eq!(store.tools(&owner, &git).await.unwrap(), Some(first));

    let mut second = listed("two", &[]);
    second.listed_at = at(5) + Duration::from_nanos(999_999);
    store.put_tools(&owner, &git, &second).await.unwrap();
    second.listed_at = at(5);
    assert_eq!(store.tools(&owner, &git).await.unwrap(), Some(second), "times are kept to the millisecond");
}

pub(crate) async fn tools_of_owners_and_servers_are_separate(store: Arc<dyn Store>) {
    for (number, owner) in owners().iter().enumerate() {
        for name in ["git", "Git", "git-2"] {
            store.put_tools(owner, &server(name), &listed(&format!("{name}{number}"), &["a"])).await.unwrap();
        }
    }
    for (number, owner) in owners().iter().enumerate() {
        for name in ["git", "Git", "git-2"] {
            let found = store.tools(owner, &server(name)).await.unwrap().unwrap();
            assert_eq!(found.fingerprint, format!("{name}{number}"));
        }
    }
    assert_eq!(store.tools(&owner("bob"), &server("git")).await.unwrap(), None);
}

pub(crate) async fn a_list_that_is_too_long_changes_nothing(store: Arc<dyn Store>) {
    let git = server("git");
    let mut long = listed("long", &["a"]);
    store.put_tools(&Owner::Shared, &git, &long).await.unwrap();
    let before = long.clone();
    Arc::make_mut(&mut long.tools[0]).description = "x".repeat(MAX_TOOLS_BYTES);
    let refused = store.put_tools(&Owner::Shared, &git, &long).await.unwrap_err();
    assert!(matches!(refused, StoreError::TooLarge { max: MAX_TOOLS_BYTES, .. }), "{refused}");
    assert_eq!(store.tools(&Owner::Shared, &git).await.unwrap(), Some(before));

    Arc::make_mut(&mut long.tools[0]).description.truncate(MAX_TOOLS_BYTES / 2);
    store.put_tools(&Owner::Shared, &git, &long).await.unwrap();
    assert_eq!(store.tools(&Owner::Shared, &git).await.unwrap(), Some(long), "half the length is accepted");
}
