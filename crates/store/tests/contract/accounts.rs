use crate::given::{at, decision, listed, owner, record, server, user};
use coracle_store::{
    ApiKey, Belongings, BrowserSession, ForeignIdentity, KeyScope, MAX_ACCOUNT_TEXT_BYTES, Renamed, Role, SignInLink,
    Store, TokenDigest, User,
};
use coracle_types::Secret;
use serde_json::json;
use std::sync::Arc;

pub(crate) fn somebody(name: &str) -> User {
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
        made_by: None,
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

pub(crate) async fn users_are_returned_as_they_were_added(store: Arc<dyn Store>) {
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

pub(crate) async fn a_name_or_identity_cannot_be_taken_twice(store: Arc<dyn Store>) {
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

pub(crate) async fn keys_belong_to_their_owner_and_are_revoked_permanently(store: Arc<dyn Store>) {
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

pub(crate) async fn a_link_signs_in_once_even_if_used_concurrently(store: Arc<dyn Store>) {
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

pub(crate) async fn a_disabled_user_cannot_sign_in(store: Arc<dyn Store>) {
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

pub(crate) async fn a_key_is_revoked_with_the_one_that_created_it(store: Arc<dyn Store>) {
    for name in ["ann", "bob"] {
        store.add_user(&somebody(name)).await.unwrap();
    }
    let made = |id: &str, by: &str| ApiKey { made_by: Some(by.to_owned()), ..key(id, "ann") };
    assert!(!store.add_key(&made("child", "parent")).await.unwrap());
    assert!(store.add_key(&key("parent", "ann")).await.unwrap());
    assert!(store.add_key(&key("other", "ann")).await.unwrap());
    assert!(!store.add_key(&ApiKey { user: user("bob"), ..made("foreign", "parent") }).await.unwrap());
    for added in [made("child", "parent"), made("grandchild", "child"), made("cousin", "other")] {
        assert!(store.add_key(&added).await.unwrap());
        assert_eq!(store.key(&added.digest).await.unwrap(), Some(added));
    }
    assert!(store.revoke_key(None, "grandchild", at(2000)).await.unwrap());
    assert!(store.revoke_key(Some(&user("ann")), "parent", at(3000)).await.unwrap());
    let mut revoked = Vec::new();
    for id in ["parent", "child", "grandchild", "other", "cousin"] {
        revoked.push(store.key(&TokenDigest::of(id)).await.unwrap().unwrap().revoked_at);
    }
    assert_eq!(revoked, [Some(at(3000)), Some(at(3000)), Some(at(2000)), None, None]);
    // A revoked key cannot create keys.
    assert!(!store.add_key(&made("late", "child")).await.unwrap());
    assert!(store.add_key(&made("late", "cousin")).await.unwrap());
}

/// Adds a user with one of everything.
async fn furnish(store: &dyn Store, name: &str) {
    store.put_tools(&owner(name), &server("git"), &listed("f", &["log"])).await.unwrap();
    store.put_shape(&owner(name), &server("git"), "log", &json!({"a": 1}), 0).await.unwrap();
    store.remember(&user(name), &decision("git", "log", "d")).await.unwrap();
    store.put_secret(&owner(name), "token", &Secret::new(format!("of {name}"))).await.unwrap();
    store.record(&record(name, "e1", 5)).await.unwrap();
}

async fn things(store: &dyn Store, name: &str) -> (bool, bool, usize, Option<String>, usize) {
    (
        store.tools(&owner(name), &server("git")).await.unwrap().is_some(),
        store.shape(&owner(name), &server("git"), "log").await.unwrap().is_some(),
        store.decisions(&user(name)).await.unwrap().len(),
        store.secret(&owner(name), "token").await.unwrap().map(|secret| secret.expose().to_owned()),
        store.executions(&user(name), 10, None).await.unwrap().iter().filter(|one| one.user == user(name)).count(),
    )
}

pub(crate) async fn a_renamed_user_keeps_all_data(store: Arc<dyn Store>) {
    let foreign = ForeignIdentity { issuer: "https://id.example".to_owned(), subject: "17".to_owned() };
    let ann = User { foreign: Some(foreign.clone()), ..somebody("ann") };
    store.add_user(&ann).await.unwrap();
    store.add_user(&somebody("bob")).await.unwrap();
    for name in ["ann", "bob", "local"] {
        furnish(&*store, name).await;
    }
    store.add_key(&key("k", "ann")).await.unwrap();
    store.add_browser_session(&session("s", "ann")).await.unwrap();
    crate::runs::run_in_conversation(&*store, "ann").await;
    assert_eq!(store.rename_user(&user("ann"), &user("eve"), Belongings::All).await.unwrap(), Renamed::Done);

    let all = |name: &str| (true, true, 1, Some(format!("of {name}")), 1);
    let nothing = (false, false, 0, None, 0);
    assert_eq!((things(&*store, "ann").await, things(&*store, "eve").await), (nothing.clone(), all("ann")));
    assert_eq!(things(&*store, "bob").await, all("bob"));
    assert_eq!(store.user(&user("ann")).await.unwrap(), None);
    assert_eq!(store.user_of(&foreign).await.unwrap().unwrap().id, user("eve"));
    assert_eq!(store.key(&TokenDigest::of("k")).await.unwrap().unwrap().user, user("eve"));
    assert_eq!(store.browser_session(&TokenDigest::of("s")).await.unwrap(), None);
    assert_eq!(crate::runs::items_of(&*store, "eve").await, ["in", "out"]);
    assert_eq!(crate::runs::items_of(&*store, "ann").await, [""; 0]);

    // Without an account: into one without data, and secrets can stay.
    store.add_user(&somebody("lou")).await.unwrap();
    let renamed = store.rename_user(&user("local"), &user("lou"), Belongings::WithoutSecrets).await.unwrap();
    assert_eq!(renamed, Renamed::Done);
    assert_eq!(things(&*store, "lou").await, (true, true, 1, None, 1));
    assert_eq!(things(&*store, "local").await, (false, false, 0, Some("of local".to_owned()), 0));
    assert!(store.user(&user("lou")).await.unwrap().is_some());
}

pub(crate) async fn a_user_cannot_be_renamed_to_a_taken_name(store: Arc<dyn Store>) {
    for name in ["ann", "bob"] {
        store.add_user(&somebody(name)).await.unwrap();
    }
    furnish(&*store, "ghost").await;
    assert!(store.has_data(&user("ghost")).await.unwrap() && !store.has_data(&user("ann")).await.unwrap());
    let rename = async |from: &str, to: &str| store.rename_user(&user(from), &user(to), Belongings::All).await.unwrap();
    assert_eq!(rename("ann", "bob").await, Renamed::Taken);
    assert_eq!(rename("ann", "ghost").await, Renamed::Taken);
    assert_eq!(rename("nobody", "carl").await, Renamed::Unknown);
    assert_eq!(rename("ghost", "bob").await, Renamed::Done);
    assert_eq!(rename("ann", "carl").await, Renamed::Done);
    assert_eq!(store.users().await.unwrap().iter().map(|user| user.id.as_str()).collect::<Vec<_>>(), ["bob", "carl"]);
}

pub(crate) async fn nothing_is_left_of_a_deleted_user(store: Arc<dyn Store>) {
    for name in ["ann", "bob"] {
        assert!(store.add_user(&somebody(name)).await.unwrap());
        assert!(store.add_key(&key(&format!("{name}-key"), name)).await.unwrap());
        assert!(store.add_browser_session(&session(&format!("{name}-cookie"), name)).await.unwrap());
        assert!(store.add_link(&link(&format!("{name}-link"), name)).await.unwrap());
        store.put_tools(&owner(name), &server("git"), &listed("f", &["log"])).await.unwrap();
        store.put_secret(&owner(name), "token", &Secret::new("s")).await.unwrap();
        store.remember(&user(name), &decision("git", "log", "d")).await.unwrap();
        let id = coracle_types::SessionId::from_random(u128::from(name.as_bytes()[0]));
        store.open_session(&user(name), &id, Some("work"), at(1)).await.unwrap();
        crate::runs::run_in_conversation(&*store, name).await;
    }
    // Without the account first, which keeps its credentials.
    store.add_tokens(&user("ann"), coracle_store::Day::of(at(1)), 5).await.unwrap();
    assert_eq!(store.token_days(&user("ann")).await.unwrap(), [(coracle_store::Day::of(at(1)), 5)]);
    assert_eq!(store.secret_names(&owner("ann")).await.unwrap(), ["token"]);
    store.delete_user_data(&user("ann")).await.unwrap();
    store.erase_deleted().await.unwrap();
    assert!(!store.has_data(&user("ann")).await.unwrap() && store.has_data(&user("bob")).await.unwrap());
    assert_eq!(store.token_days(&user("ann")).await.unwrap(), []);
    assert_eq!(store.secret_names(&owner("ann")).await.unwrap(), [""; 0]);
    assert_eq!(store.secret_names(&owner("bob")).await.unwrap(), ["token"]);
    assert!(store.key(&TokenDigest::of("ann-key")).await.unwrap().is_some());
    assert!(store.browser_session(&TokenDigest::of("ann-cookie")).await.unwrap().is_some());
    assert!(store.delete_user(&user("ann")).await.unwrap());
    assert!(!store.delete_user(&user("ann")).await.unwrap());
    let left = async |name: &str| {
        let account = store.user(&user(name)).await.unwrap().is_some();
        let key = store.key(&TokenDigest::of(&format!("{name}-key"))).await.unwrap().is_some();
        let cookie = store.browser_session(&TokenDigest::of(&format!("{name}-cookie"))).await.unwrap().is_some();
        let link = store.use_link(&TokenDigest::of(&format!("{name}-link")), at(2)).await.unwrap().is_some();
        let tools = store.tools(&owner(name), &server("git")).await.unwrap().is_some();
        let secret = store.secret(&owner(name), "token").await.unwrap().is_some();
        let decided = !store.decisions(&user(name)).await.unwrap().is_empty();
        let sessions = !store.sessions(&user(name), 10, None).await.unwrap().is_empty();
        let conversations = !store.conversations(&user(name), 10, None).await.unwrap().is_empty();
        let runs = !store.runs(&user(name), 10, None).await.unwrap().is_empty();
        [account, key, cookie, link, tools, secret, decided, sessions, conversations, runs]
    };
    assert_eq!(left("ann").await, [false; 10]);
    assert_eq!(left("bob").await, [true; 10], "other users keep their data");
    assert!(store.add_user(&somebody("ann")).await.unwrap(), "the name is free");
}
