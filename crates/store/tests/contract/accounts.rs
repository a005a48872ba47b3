use crate::given::{at, user};
use coracle_store::{
    ApiKey, BrowserSession, ForeignIdentity, KeyScope, MAX_ACCOUNT_TEXT_BYTES, Role, SignInLink, Store, TokenDigest,
    User,
};
use coracle_types::Secret;
use std::sync::Arc;

fn somebody(name: &str) -> User {
    User::new(user(name), Role::User, at(1_790_000_000_123))
}

fn key(id: &str, whose: &str) -> ApiKey {
    ApiKey {
        id: id.to_owned(),
        digest: TokenDigest::of(id),
        user: user(whose),
        name: format!("key {id}"),
        scopes: [KeyScope::Mcp, KeyScope::Api].into(),
        created_at: at(1000),
        expires_at: Some(at(5000)),
        last_used: None,
        revoked_at: None,
    }
}

fn session(token: &str, whose: &str) -> BrowserSession {
    BrowserSession {
        digest: TokenDigest::of(token),
        user: user(whose),
        created_at: at(1000),
        expires_at: at(5000),
        last_seen: at(1000),
        by_link: false,
    }
}

fn link(token: &str, whose: &str) -> SignInLink {
    SignInLink { digest: TokenDigest::of(token), user: user(whose), expires_at: at(5000) }
}

pub(crate) async fn people_come_back_as_they_were_added(store: Arc<dyn Store>) {
    assert!(!store.has_users().await.unwrap());
    let ann = User {
        display_name: Some("Ann Ünger".to_owned()),
        password: Some(Secret::new("$argon2id$…")),
        foreign: Some(ForeignIdentity { issuer: "https://id.example".to_owned(), subject: "17".to_owned() }),
        last_seen: Some(at(7)),
        role: Role::Admin,
        ..somebody("ann")
    };
    assert!(store.add_user(&ann).await.unwrap());
    assert!(store.add_user(&somebody("bob")).await.unwrap());
    assert!(store.has_users().await.unwrap());
    assert_eq!(store.user(&user("ann")).await.unwrap(), Some(ann.clone()));
    assert_eq!(store.user(&user("Ann")).await.unwrap(), None);
    assert_eq!(store.users().await.unwrap(), [ann.clone(), somebody("bob")]);
    assert_eq!(store.user_of(ann.foreign.as_ref().unwrap()).await.unwrap(), Some(ann.clone()));
    let other = ForeignIdentity { issuer: "https://evil.example".to_owned(), subject: "17".to_owned() };
    assert_eq!(store.user_of(&other).await.unwrap(), None);

    assert!(store.set_role(&user("bob"), Role::Admin).await.unwrap());
    store.user_seen(&user("bob"), at(99)).await.unwrap();
    let bob = store.user(&user("bob")).await.unwrap().unwrap();
    assert_eq!((bob.role, bob.last_seen), (Role::Admin, Some(at(99))));
    assert!(!store.set_role(&user("carl"), Role::Admin).await.unwrap());
}

pub(crate) async fn nobody_takes_the_place_of_another(store: Arc<dyn Store>) {
    let foreign = ForeignIdentity { issuer: "https://id.example".to_owned(), subject: "17".to_owned() };
    let ann = User { password: Some(Secret::new("first")), foreign: Some(foreign), ..somebody("ann") };
    assert!(store.add_user(&ann).await.unwrap());
    assert!(!store.add_user(&User { password: None, ..somebody("ann") }).await.unwrap());
    assert!(!store.add_user(&User { id: user("eve"), ..ann.clone() }).await.unwrap());
    assert_eq!(store.users().await.unwrap(), [ann]);
    let long = User { display_name: Some("x".repeat(MAX_ACCOUNT_TEXT_BYTES + 1)), ..somebody("bob") };
    assert_eq!(store.add_user(&long).await.unwrap_err().code(), "store_too_large");
    assert!(store.add_user(&somebody("bob")).await.unwrap());
}

pub(crate) async fn keys_are_their_owners_and_are_revoked_for_good(store: Arc<dyn Store>) {
    assert!(!store.add_key(&key("k1", "ann")).await.unwrap());
    for name in ["ann", "bob"] {
        store.add_user(&somebody(name)).await.unwrap();
    }
    for added in [key("k1", "ann"), key("k2", "bob"), key("k3", "ann")] {
        assert!(store.add_key(&added).await.unwrap());
        assert!(!store.add_key(&added).await.unwrap());
    }
    assert_eq!(store.keys(&user("ann")).await.unwrap(), [key("k1", "ann"), key("k3", "ann")]);
    assert_eq!(store.key(&TokenDigest::of("k2")).await.unwrap(), Some(key("k2", "bob")));
    assert_eq!(store.key(&TokenDigest::of("k4")).await.unwrap(), None);
    store.key_used(&TokenDigest::of("k2"), at(2000)).await.unwrap();

    assert!(!store.revoke_key(Some(&user("ann")), "k2", at(3000)).await.unwrap());
    assert!(store.revoke_key(Some(&user("bob")), "k2", at(3000)).await.unwrap());
    assert!(!store.revoke_key(None, "k2", at(4000)).await.unwrap());
    assert!(store.revoke_key(None, "k1", at(4000)).await.unwrap());
    let bobs = store.key(&TokenDigest::of("k2")).await.unwrap().unwrap();
    assert_eq!((bobs.last_used, bobs.revoked_at), (Some(at(2000)), Some(at(3000))));
}

pub(crate) async fn sessions_begin_and_end(store: Arc<dyn Store>) {
    assert!(!store.add_browser_session(&session("a", "ann")).await.unwrap());
    store.add_user(&somebody("ann")).await.unwrap();
    assert!(store.add_browser_session(&session("a", "ann")).await.unwrap());
    let digest = TokenDigest::of("a");
    assert_eq!(store.browser_session(&digest).await.unwrap(), Some(session("a", "ann")));
    store.browser_session_seen(&digest, at(2000)).await.unwrap();
    assert_eq!(store.browser_session(&digest).await.unwrap().unwrap().last_seen, at(2000));
    store.forget_expired(at(4999)).await.unwrap();
    assert!(store.browser_session(&digest).await.unwrap().is_some());
    store.forget_expired(at(5000)).await.unwrap();
    assert!(store.browser_session(&digest).await.unwrap().is_none());
    assert!(store.add_browser_session(&session("b", "ann")).await.unwrap());
    assert!(store.end_browser_session(&TokenDigest::of("b")).await.unwrap());
    assert!(!store.end_browser_session(&TokenDigest::of("b")).await.unwrap());
}

pub(crate) async fn a_link_signs_in_once_whoever_comes_at_the_same_time(store: Arc<dyn Store>) {
    assert!(!store.add_link(&link("x", "ann")).await.unwrap());
    store.add_user(&somebody("ann")).await.unwrap();
    for token in ["x", "late"] {
        assert!(store.add_link(&link(token, "ann")).await.unwrap());
    }
    let users: Vec<_> = (0..16)
        .map(|_| {
            let store = Arc::clone(&store);
            tokio::spawn(async move { store.use_link(&TokenDigest::of("x"), at(4999)).await.unwrap() })
        })
        .collect();
    let mut signed_in = Vec::new();
    for task in users {
        signed_in.extend(task.await.unwrap());
    }
    assert_eq!(signed_in, [user("ann")]);
    assert_eq!(store.use_link(&TokenDigest::of("late"), at(5000)).await.unwrap(), None);
}

pub(crate) async fn whoever_is_shut_out_has_no_way_in(store: Arc<dyn Store>) {
    for name in ["ann", "bob"] {
        store.add_user(&somebody(name)).await.unwrap();
    }
    let sign_in = async || {
        for name in ["ann", "bob"] {
            assert!(store.add_browser_session(&session(&format!("s-{name}"), name)).await.unwrap());
            assert!(store.add_link(&link(&format!("l-{name}"), name)).await.unwrap());
        }
    };
    let left = async |name: &str| {
        let session = store.browser_session(&TokenDigest::of(&format!("s-{name}"))).await.unwrap();
        let link = store.use_link(&TokenDigest::of(&format!("l-{name}")), at(2000)).await.unwrap();
        store.end_browser_session(&TokenDigest::of(&format!("s-{name}"))).await.unwrap();
        (session.is_some(), link.is_some())
    };
    sign_in().await;
    assert!(store.set_password(&user("ann"), Some(&Secret::new("hash"))).await.unwrap());
    assert_eq!((left("ann").await, left("bob").await), ((false, false), (true, true)));
    sign_in().await;
    assert!(store.set_disabled(&user("ann"), true).await.unwrap());
    assert_eq!((left("ann").await, left("bob").await), ((false, false), (true, true)));
    assert!(!store.add_browser_session(&session("again", "ann")).await.unwrap());
    assert!(!store.add_link(&link("again", "ann")).await.unwrap());
    assert!(store.set_disabled(&user("ann"), false).await.unwrap());
    assert!(store.add_browser_session(&session("again", "ann")).await.unwrap());
    assert_eq!(store.user(&user("ann")).await.unwrap().unwrap().password, Some(Secret::new("hash")));
    assert!(!store.set_disabled(&user("carl"), true).await.unwrap());
    assert!(!store.set_password(&user("carl"), None).await.unwrap());
}
