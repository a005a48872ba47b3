use crate::given::{at, user};
use coracle_store::{Belongings, MAX_VAULT_VALUE_BYTES, Owner, Renamed, Store, VaultValue};
use coracle_types::Secret;
use std::sync::Arc;

fn value(token: &str, text: &str, used: u64) -> VaultValue {
    VaultValue { token: token.to_owned(), value: Secret::new(text), is_number: false, last_used: at(used) }
}

async fn tokens(store: &dyn Store, whose: &str) -> Vec<String> {
    let values = store.recent_values(&user(whose), 100).await.unwrap();
    values.into_iter().map(|value| value.token).collect()
}

pub(crate) async fn values_are_returned_as_they_were_put(store: Arc<dyn Store>) {
    let ann = user("ann");
    let key = store.token_key(&ann).await.unwrap();
    assert_eq!(*store.token_key(&ann).await.unwrap(), *key, "it never changes");
    let number = VaultValue { is_number: true, ..value("[PHONE_02]", "4155550123", 2) };
    let all = [value("[EMAIL_01]", "ann@example.org", 1), number, value("[PERSON_03]", "\u{0}é\n\"", 3)];
    assert!(store.put_values(&ann, &all).await.unwrap());
    let named: Vec<String> = ["[PERSON_03]", "[NONE_00]", "[PHONE_02]"].map(str::to_owned).into();
    let mut found = store.values(&ann, &named).await.unwrap();
    found.sort_by(|one, other| one.token.cmp(&other.token));
    assert_eq!(found, [all[2].clone(), all[1].clone()]);
    assert_eq!(store.recent_values(&ann, 2).await.unwrap(), [all[2].clone(), all[1].clone()]);
    assert!(store.put_values(&ann, &[value("[EMAIL_01]", "another", 9)]).await.unwrap());
    assert_eq!(store.recent_values(&ann, 1).await.unwrap(), [value("[EMAIL_01]", "ann@example.org", 9)]);
    let many: Vec<_> = (0..1_200).map(|number| value(&format!("[N_{number:04}]"), &number.to_string(), 5)).collect();
    assert!(store.put_values(&ann, &many).await.unwrap());
    let named: Vec<String> = many.iter().map(|value| value.token.clone()).collect();
    assert_eq!(store.values(&ann, &named).await.unwrap().len(), 1_200);
}

pub(crate) async fn vaults_of_users_are_separate(store: Arc<dyn Store>) {
    let (ann, bob) = (user("ann"), user("bob"));
    assert_ne!(*store.token_key(&ann).await.unwrap(), *store.token_key(&bob).await.unwrap());
    store.put_values(&ann, &[value("[EMAIL_01]", "of ann", 1)]).await.unwrap();
    store.put_values(&bob, &[value("[EMAIL_01]", "of bob", 1), value("[EMAIL_02]", "more", 1)]).await.unwrap();
    let named = ["[EMAIL_01]".to_owned(), "[EMAIL_02]".to_owned()];
    assert_eq!(store.values(&ann, &named).await.unwrap(), [value("[EMAIL_01]", "of ann", 1)]);
    assert!(store.delete_vault(&bob).await.unwrap() && !store.delete_vault(&bob).await.unwrap());
    assert_eq!((tokens(&*store, "ann").await.len(), tokens(&*store, "bob").await.len()), (1, 0));
}

pub(crate) async fn nothing_is_left_of_a_deleted_vault(store: Arc<dyn Store>) {
    let ann = user("ann");
    assert!(!store.put_values(&ann, &[value("[EMAIL_01]", "a", 1)]).await.unwrap(), "there is no vault");
    let first = store.token_key(&ann).await.unwrap();
    assert!(store.put_values(&ann, &[value("[EMAIL_01]", "a", 1)]).await.unwrap(), "the control");
    assert!(store.delete_vault(&ann).await.unwrap());
    assert!(!store.put_values(&ann, &[value("[EMAIL_01]", "a", 1)]).await.unwrap());
    assert_eq!(tokens(&*store, "ann").await, [""; 0]);
    assert_ne!(*store.token_key(&ann).await.unwrap(), *first);
    for deletes_account in [true, false] {
        store.token_key(&ann).await.unwrap();
        assert!(store.put_values(&ann, &[value("[EMAIL_01]", "a", 1)]).await.unwrap());
        assert!(store.has_data(&ann).await.unwrap());
        if deletes_account {
            store.delete_user(&ann).await.unwrap();
        } else {
            store.delete_user_data(&ann).await.unwrap();
        }
        assert_eq!(tokens(&*store, "ann").await, [""; 0]);
        assert!(!store.has_data(&ann).await.unwrap());
        assert_eq!(store.secret_names(&Owner::User(ann.clone())).await.unwrap(), [""; 0]);
    }
}

pub(crate) async fn a_rotated_vault_has_the_same_values(store: Arc<dyn Store>) {
    let ann = user("ann");
    assert_eq!(store.rotate_vault(&ann).await.unwrap(), 0);
    let key = store.token_key(&ann).await.unwrap();
    let all = [value("[EMAIL_01]", "a", 2), value("[EMAIL_02]", "b", 1)];
    store.put_values(&ann, &all).await.unwrap();
    assert_eq!(store.rotate_vault(&ann).await.unwrap(), 2);
    assert_eq!(store.recent_values(&ann, 9).await.unwrap(), all);
    assert_eq!(*store.token_key(&ann).await.unwrap(), *key);
    store.put_values(&ann, &[value("[EMAIL_03]", "c", 3)]).await.unwrap();
    assert_eq!(tokens(&*store, "ann").await, ["[EMAIL_03]", "[EMAIL_01]", "[EMAIL_02]"]);
}

pub(crate) async fn old_values_are_deleted(store: Arc<dyn Store>) {
    for name in ["ann", "bob"] {
        store.token_key(&user(name)).await.unwrap();
        store.put_values(&user(name), &[value("[EMAIL_01]", "a", 10), value("[EMAIL_02]", "b", 20)]).await.unwrap();
    }
    store.put_values(&user("bob"), &[value("[EMAIL_01]", "a", 30)]).await.unwrap();
    assert_eq!(store.forget_values(at(20)).await.unwrap(), 1);
    assert_eq!(tokens(&*store, "ann").await, ["[EMAIL_02]"]);
    assert_eq!(tokens(&*store, "bob").await, ["[EMAIL_01]", "[EMAIL_02]"]);
}

pub(crate) async fn a_renamed_user_keeps_the_vault(store: Arc<dyn Store>) {
    let (ann, eve, joe) = (user("ann"), user("eve"), user("joe"));
    let key = store.token_key(&ann).await.unwrap();
    store.put_values(&ann, &[value("[EMAIL_01]", "a", 1)]).await.unwrap();
    assert_eq!(store.rename_user(&ann, &eve, Belongings::All).await.unwrap(), Renamed::Done);
    assert_eq!(store.recent_values(&eve, 9).await.unwrap(), [value("[EMAIL_01]", "a", 1)]);
    assert_eq!(*store.token_key(&eve).await.unwrap(), *key);
    assert_eq!(tokens(&*store, "ann").await, [""; 0]);
    // The keys are a secret.
    assert_eq!(store.rename_user(&eve, &joe, Belongings::WithoutSecrets).await.unwrap(), Renamed::Done);
    assert_eq!((tokens(&*store, "eve").await.len(), tokens(&*store, "joe").await.len()), (1, 0));
}

pub(crate) async fn a_value_that_is_too_large_changes_nothing(store: Arc<dyn Store>) {
    let ann = user("ann");
    store.token_key(&ann).await.unwrap();
    let most = value("[KEY_01]", &"x".repeat(MAX_VAULT_VALUE_BYTES), 1);
    let more = value("[KEY_02]", &"x".repeat(MAX_VAULT_VALUE_BYTES + 1), 1);
    let refused = store.put_values(&ann, &[value("[KEY_03]", "x", 1), more]).await.unwrap_err();
    assert_eq!(refused.code(), "store_too_large");
    assert_eq!(store.put_values(&ann, &[value("", "x", 1)]).await.unwrap_err().code(), "store_invalid_name");
    assert_eq!(tokens(&*store, "ann").await, [""; 0]);
    assert!(store.put_values(&ann, std::slice::from_ref(&most)).await.unwrap(), "the control");
    assert_eq!(store.recent_values(&ann, 9).await.unwrap(), [most]);
}
