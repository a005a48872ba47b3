use crate::given::{owner, owners};
use coracle_store::{MAX_SECRET_BYTES, Owner, Store, StoreError};
use coracle_types::Secret;
use std::sync::Arc;

pub(crate) async fn a_secret_is_returned_and_deleted(store: Arc<dyn Store>) {
    let ann = owner("ann");
    assert_eq!(store.secret(&ann, "oauth/git").await.unwrap(), None);
    for text in ["first", "", "zwei\u{0}\u{1f511}"] {
        store.put_secret(&ann, "oauth/git", &Secret::new(text)).await.unwrap();
        assert_eq!(store.secret(&ann, "oauth/git").await.unwrap(), Some(Secret::new(text)));
    }
    assert!(store.delete_secret(&ann, "oauth/git").await.unwrap());
    assert!(!store.delete_secret(&ann, "oauth/git").await.unwrap());
    assert_eq!(store.secret(&ann, "oauth/git").await.unwrap(), None);
}

pub(crate) async fn secrets_of_owners_are_separate(store: Arc<dyn Store>) {
    for (number, owner) in owners().iter().enumerate() {
        store.put_secret(owner, "token", &Secret::new(format!("secret {number}"))).await.unwrap();
    }
    assert_eq!(store.secret(&owner("bob"), "token").await.unwrap(), None);
    assert!(!store.delete_secret(&owner("bob"), "token").await.unwrap());
    assert!(store.delete_secret(&Owner::Shared, "token").await.unwrap());
    for (number, owner) in owners().iter().enumerate() {
        let expected = (number > 0).then(|| Secret::new(format!("secret {number}")));
        assert_eq!(store.secret(owner, "token").await.unwrap(), expected);
    }
}

pub(crate) async fn a_secret_that_is_too_long_changes_nothing(store: Arc<dyn Store>) {
    let most = Secret::new("x".repeat(MAX_SECRET_BYTES));
    store.put_secret(&Owner::Shared, "token", &most).await.unwrap();
    let refused = store.put_secret(&Owner::Shared, "token", &Secret::new("x".repeat(MAX_SECRET_BYTES + 1))).await;
    assert!(matches!(refused, Err(StoreError::TooLarge { max: MAX_SECRET_BYTES, .. })));
    assert_eq!(store.secret(&Owner::Shared, "token").await.unwrap(), Some(most));
    let unnamed = store.put_secret(&Owner::Shared, "", &Secret::new("x")).await.unwrap_err();
    assert_eq!(unnamed.code(), "store_invalid_name");
}

pub(crate) async fn derived_keys_stay_the_same_and_differ_by_purpose(store: Arc<dyn Store>) {
    let first = store.derived_key("one").await.unwrap();
    store.put_secret(&Owner::Shared, "token", &Secret::new("x")).await.unwrap();
    assert_eq!(store.derived_key("one").await.unwrap().bytes(), first.bytes());
    let other = store.derived_key("two").await.unwrap();
    assert_ne!(other.bytes(), first.bytes());
    assert_ne!(first.derive("two").bytes(), other.bytes());
}
