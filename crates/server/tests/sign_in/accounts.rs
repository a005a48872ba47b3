//! Accounts over the API.

use crate::lab::{Lab, PASSWORD, code, cookie, location};
use coracle_store::{KeyScope, Role};
use reqwest::{Method, StatusCode};
use serde_json::{Value, json};

#[tokio::test]
async fn only_admins_manage_accounts() {
    let lab = Lab::with_people().await;
    let ann = lab.key("ann", &[KeyScope::Api, KeyScope::Admin]).await;
    let bob = lab.key("bob", &[KeyScope::Api]).await;
    for (method, path) in [
        (Method::GET, "/api/users"),
        (Method::GET, "/api/users/ann"),
        (Method::POST, "/api/users/bob/link"),
        (Method::GET, "/api/users/ann/keys"),
        (Method::DELETE, "/api/users/ann/keys/x"),
    ] {
        let response = lab.request(method, path).bearer_auth(&bob).send().await.unwrap();
        assert_eq!(code(response).await, (403, "admins_only".to_owned()), "{path}");
    }
    let wanted = json!({ "name": "Carl", "display_name": "Carl C.", "role": "user" });
    let add =
        async |key: &str, wanted: &Value| lab.post("/api/users").bearer_auth(key).json(wanted).send().await.unwrap();
    assert_eq!(code(add(&bob, &wanted).await).await.0, 403);
    let added = add(&ann, &wanted).await;
    assert_eq!(added.status(), StatusCode::CREATED);
    let added: Value = added.json().await.unwrap();
    assert_eq!((added["name"].as_str(), added["has_password"].as_bool()), (Some("carl"), Some(false)));
    assert_eq!(code(add(&ann, &wanted).await).await, (409, "user_exists".to_owned()));
    for (wrong, expected) in [
        (json!({ "name": "../x" }), (400, "invalid_name")),
        (json!({ "name": "x", "role": "root" }), (400, "invalid_request")),
        (json!({ "name": "x", "password": "short" }), (400, "invalid_password")),
        (json!({ "name": "x", "shell": "/bin/sh" }), (400, "invalid_request")),
    ] {
        let (status, word) = code(add(&ann, &wrong).await).await;
        assert_eq!((status, word.as_str()), expected, "{wrong}");
    }

    // The link in the response signs carl in.
    let link = added["sign_in_link"].as_str().unwrap();
    let used = lab.http.post(link).send().await.unwrap();
    assert_eq!(location(&used), "/sign-in/password");
    let browser = cookie(used.headers()).unwrap();
    let me: Value = lab.get("/api/auth/me").header("cookie", &browser).send().await.unwrap().json().await.unwrap();
    assert_eq!((me["user"].as_str(), me["display_name"].as_str()), (Some("carl"), Some("Carl C.")));

    let change = async |name: &str, change: &Value| {
        lab.request(Method::PATCH, &format!("/api/users/{name}")).bearer_auth(&ann).json(change).send().await.unwrap()
    };
    let disabled: Value = change("carl", &json!({ "disabled": true })).await.json().await.unwrap();
    assert_eq!(disabled["disabled"], true);
    let me = lab.get("/api/auth/me").header("cookie", &browser).send().await.unwrap();
    assert_eq!(me.status(), StatusCode::UNAUTHORIZED);
    let link = lab.post("/api/users/carl/link").bearer_auth(&ann).send().await.unwrap();
    assert_eq!(code(link).await, (409, "user_disabled".to_owned()));
    assert_eq!(code(change("ann", &json!({ "disabled": true })).await).await, (409, "own_account".to_owned()));
    assert_eq!(code(change("nobody", &json!({ "disabled": true })).await).await, (404, "no_such_user".to_owned()));
    let promoted: Value = change("bob", &json!({ "role": "admin" })).await.json().await.unwrap();
    assert_eq!(promoted["role"], "admin");

    let users: Value = lab.get("/api/users").bearer_auth(&ann).send().await.unwrap().json().await.unwrap();
    let names: Vec<&str> =
        users["users"].as_array().unwrap().iter().map(|user| user["name"].as_str().unwrap()).collect();
    assert_eq!(names, ["ann", "bob", "carl"]);
    assert!(!users.to_string().contains("argon2"));
    lab.add("dora", Role::User).await;
    assert_eq!(lab.login("dora", PASSWORD).await.status(), StatusCode::OK);
}
