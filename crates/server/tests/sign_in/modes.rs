//! When authentication is required, and which users a proxy may name.

use crate::lab::{Lab, PASSWORD, code, id};
use coracle_store::{KeyScope, Owner, Role};
use coracle_types::Secret;
use reqwest::StatusCode;
use serde_json::Value;

#[tokio::test]
async fn without_users_everything_is_the_local_user_until_one_is_added() {
    let lab = Lab::start(|auth| auth.required = false).await;
    assert_eq!(lab.user_by_mcp(|request| request).await, Ok("local".to_owned()));
    // Credentials of clients are ignored.
    assert_eq!(lab.user_by_mcp(|request| request.bearer_auth("x")).await, Ok("local".to_owned()));
    assert_eq!(lab.user_by_mcp(|request| request.header("x-user-id", "ann")).await, Ok("local".to_owned()));
    let me: Value = lab.get("/api/auth/me").send().await.unwrap().json().await.unwrap();
    assert_eq!((me["user"].as_str(), me["how"].as_str()), (Some("local"), Some("local")));
    lab.add("ann", Role::Admin).await;
    // The server checks once per second.
    tokio::time::sleep(std::time::Duration::from_millis(1_100)).await;
    assert_eq!(lab.user_by_mcp(|request| request).await, Err(401));
    let key = lab.key("ann", &[KeyScope::Mcp]).await;
    assert_eq!(lab.user_by_mcp(|request| request.bearer_auth(key)).await, Ok("ann".to_owned()));
}

#[tokio::test]
async fn an_unknown_proxy_cannot_name_users() {
    let lab = Lab::start(|auth| auth.user_id_proxies = vec!["10.0.0.0/8".parse().unwrap()]).await;
    lab.add("ann", Role::Admin).await;
    assert_eq!(lab.user_by_mcp(|request| request.header("x-user-id", "ann")).await, Err(401));
    let key = lab.key("ann", &[KeyScope::Mcp]).await;
    let both = lab.user_by_mcp(|request| request.bearer_auth(key).header("x-user-id", "bob"));
    assert_eq!(both.await, Ok("ann".to_owned()));
}

#[tokio::test]
async fn a_configured_proxy_names_the_user() {
    let lab = Lab::start(|auth| auth.user_id_proxies = vec!["127.0.0.0/8".parse().unwrap()]).await;
    lab.add("ann", Role::Admin).await;
    let as_user = async |name: &str| lab.user_by_mcp(|request| request.header("x-user-id", name)).await;
    assert_eq!(as_user("ann").await, Ok("ann".to_owned()));
    assert_eq!(as_user("customer-17").await, Ok("customer-17".to_owned()));
    for bad in ["", "../ann", "a/b", "a b", &"x".repeat(65), "-rf"] {
        assert_eq!(as_user(bad).await, Err(400), "{bad:?}");
    }
    let two = lab.user_by_mcp(|request| request.header("x-user-id", "ann").header("x-user-id", "bob"));
    assert_eq!(two.await, Err(400));
    // Requests without a name are rejected, and disabled users stay disabled.
    assert_eq!(lab.user_by_mcp(|request| request).await, Err(401));
    lab.people.set_disabled(&id("ann"), true).await.unwrap();
    assert_eq!(as_user("ann").await, Err(403));
    // The proxy may also name the address of an attempt.
    for number in 0..25 {
        let guess = serde_json::json!({ "user": format!("user{number}"), "password": "wrong" });
        let request = lab.post("/api/auth/login").header("x-forwarded-for", "6.6.6.6, 203.0.113.9").json(&guess);
        request.send().await.unwrap();
    }
    let guess = serde_json::json!({ "user": "another", "password": "wrong" });
    let from = async |address: &str| {
        lab.post("/api/auth/login").header("x-forwarded-for", address).json(&guess).send().await.unwrap()
    };
    assert_eq!(from("203.0.113.9").await.status(), StatusCode::TOO_MANY_REQUESTS);
    assert_eq!(code(from("203.0.113.9, 198.51.100.7").await).await, (401, "sign_in_failed".to_owned()));
}

#[tokio::test]
async fn a_proxy_trusted_for_addresses_cannot_name_users() {
    let lab = Lab::start(|auth| auth.trusted_proxies = vec!["127.0.0.0/8".parse().unwrap()]).await;
    lab.add("ann", Role::Admin).await;
    assert_eq!(lab.user_by_mcp(|request| request.header("x-user-id", "ann")).await, Err(401));
    let key = lab.key("ann", &[KeyScope::Mcp]).await;
    let both = lab.user_by_mcp(|request| request.bearer_auth(key).header("x-user-id", "bob"));
    assert_eq!(both.await, Ok("ann".to_owned()));
    // Only the named address is slowed down, not all clients of the proxy.
    let guess = async |number: usize, address: &str| {
        let guess = serde_json::json!({ "user": format!("user{number}"), "password": "wrong" });
        let request = lab.post("/api/auth/login").header("x-forwarded-for", address).json(&guess);
        request.send().await.unwrap().status()
    };
    for number in 0..25 {
        guess(number, "203.0.113.9").await;
    }
    assert_eq!(guess(100, "203.0.113.9").await, StatusCode::TOO_MANY_REQUESTS);
    assert_eq!(guess(101, "198.51.100.7").await, StatusCode::UNAUTHORIZED);
}

#[tokio::test]
async fn names_from_a_proxy_are_normalized() {
    let lab = Lab::start(|auth| auth.user_id_proxies = vec!["127.0.0.0/8".parse().unwrap()]).await;
    lab.add("bob", Role::User).await;
    let as_user = async |name: &str| lab.user_by_mcp(|request| request.header("x-user-id", name)).await;
    for written in ["bob", "BOB", "Bob", " bob "] {
        assert_eq!(as_user(written).await, Ok("bob".to_owned()), "{written:?}");
    }
    lab.people.set_disabled(&id("bob"), true).await.unwrap();
    for written in ["bob", "BOB", "Bob", " bob "] {
        assert_eq!(as_user(written).await, Err(403), "{written:?}");
    }
}

#[tokio::test]
async fn reserved_names_from_a_proxy_are_rejected() {
    let lab = Lab::start(|auth| auth.user_id_proxies = vec!["127.0.0.0/8".parse().unwrap()]).await;
    lab.add("ann", Role::Admin).await;
    let as_user = async |name: &str| lab.user_by_mcp(|request| request.header("x-user-id", name)).await;
    for name in ["local", "LOCAL", " Local", "shared", "admin", "root"] {
        assert_eq!(as_user(name).await, Err(403), "{name:?}");
    }
    assert_eq!(as_user("localhost").await, Ok("localhost".to_owned()));
    // A user that the operator added with such a name is accepted.
    lab.add("admin", Role::Admin).await;
    assert_eq!(as_user("admin").await, Ok("admin".to_owned()));
    let admin = lab.key("ann", &[KeyScope::Api, KeyScope::Admin]).await;
    let add = async |name: &str| {
        let body = serde_json::json!({ "name": name });
        lab.post("/api/users").bearer_auth(&admin).json(&body).send().await.unwrap()
    };
    for name in ["local", "Local", "shared"] {
        assert_eq!(code(add(name).await).await, (400, "reserved_name".to_owned()), "{name}");
    }
    assert_eq!(add("Carl").await.status(), StatusCode::CREATED);
}

#[tokio::test]
async fn a_user_with_a_reserved_name_can_be_renamed_and_keeps_everything() {
    let lab = Lab::with_people().await;
    // As added by an earlier version.
    lab.add("local", Role::User).await;
    let key = lab.key("local", &[KeyScope::Mcp]).await;
    lab.store.put_secret(&Owner::User(id("local")), "oauth", &Secret::new("the operator's")).await.unwrap();
    assert_eq!(lab.user_by_mcp(|request| request.bearer_auth(&key)).await, Err(401));
    assert_eq!(lab.login("local", PASSWORD).await.status(), StatusCode::UNAUTHORIZED);
    lab.people.rename(&id("local"), &id("lou")).await.unwrap();
    assert_eq!(lab.user_by_mcp(|request| request.bearer_auth(&key)).await, Ok("lou".to_owned()));
    assert_eq!(lab.login("lou", PASSWORD).await.status(), StatusCode::OK);
    // The operator's sign-ins are not moved.
    assert!(lab.store.secret(&Owner::User(id("local")), "oauth").await.unwrap().is_some());
    assert!(lab.store.secret(&Owner::User(id("lou")), "oauth").await.unwrap().is_none());
}
