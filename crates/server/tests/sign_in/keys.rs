//! API keys: scopes, expiry and revocation.

use crate::lab::{Lab, code, id};
use coracle_accounts::KeyMaker;
use coracle_server::Timestamp;
use coracle_store::{ApiKey, KeyScope, Role, TokenDigest};
use reqwest::header::AUTHORIZATION;
use reqwest::{Method, StatusCode};
use serde_json::{Value, json};
use std::time::{Duration, SystemTime};

#[tokio::test]
async fn a_key_acts_for_its_owner_and_its_use_is_recorded() {
    let lab = Lab::with_people().await;
    let key = lab.key("bob", &[KeyScope::Mcp]).await;
    assert!(key.starts_with("crk_"));
    assert_eq!(lab.user_by_mcp(|request| request.bearer_auth(&key)).await, Ok("bob".to_owned()));
    assert_eq!(
        lab.user_by_mcp(|request| request.header(AUTHORIZATION, format!("bearer {key}"))).await,
        Ok("bob".to_owned())
    );
    let kept = lab.people.keys(&id("bob")).await.unwrap().remove(0);
    assert!(kept.last_used.is_some() && lab.people.find(&id("bob")).await.unwrap().last_seen.is_some());
    assert!(!format!("{kept:?}").contains(&key));
}

#[tokio::test]
async fn invalid_keys_are_rejected_with_a_challenge() {
    let lab = Lab::with_people().await;
    let good = lab.key("bob", &[KeyScope::Mcp]).await;
    let (revoked, secret) =
        lab.people.add_key(&id("bob"), "revoked", [KeyScope::Mcp].into(), None, KeyMaker::Person).await.unwrap();
    assert_eq!(lab.user_by_mcp(|request| request.bearer_auth(secret.expose())).await, Ok("bob".to_owned()));
    assert!(lab.people.revoke_key(None, &revoked.id).await.unwrap());
    let expired = "crk_expired";
    let past = SystemTime::now() - Duration::from_secs(10);
    let key = ApiKey {
        id: "old".to_owned(),
        digest: TokenDigest::of(expired),
        user: id("bob"),
        name: "old".to_owned(),
        scopes: [KeyScope::Mcp].into(),
        created_at: past,
        expires_at: Some(past + Duration::from_secs(1)),
        last_used: None,
        revoked_at: None,
        made_by: None,
    };
    assert!(lab.store.add_key(&key).await.unwrap());
    let changed = format!("{}x", &good[..good.len() - 1]);
    for bad in [secret.expose(), expired, "crk_", "", "x", &changed, "eyJhbGciOiJub25lIn0.e30.", &"x".repeat(20_000)] {
        let response = lab.post("/mcp").bearer_auth(bad).json(&json!({})).send().await.unwrap();
        let challenge = response.headers()["www-authenticate"].to_str().unwrap().to_owned();
        let expected = format!("resource_metadata=\"{}/.well-known/oauth-protected-resource/mcp\"", lab.base);
        assert!(
            challenge.starts_with("Bearer error=\"invalid_token\", ") && challenge.ends_with(&expected),
            "{challenge}"
        );
        assert_eq!(code(response).await, (401, "invalid_token".to_owned()), "{bad}");
    }
    // A valid credential of another kind does not make up for an invalid one.
    let cookie = lab.browser("bob").await;
    let both = lab
        .user_by_mcp(|request| request.bearer_auth("crk_wrong").header("cookie", cookie).header("x-coracle-csrf", "1"));
    assert_eq!(both.await, Err(401));
    for scheme in ["Basic Ym9iOng=", "Bearer", "crk_x"] {
        let response = lab.post("/mcp").header(AUTHORIZATION, scheme).send().await.unwrap();
        assert_eq!(response.status(), StatusCode::UNAUTHORIZED);
    }
    lab.people.set_disabled(&id("bob"), true).await.unwrap();
    assert_eq!(lab.user_by_mcp(|request| request.bearer_auth(&good)).await, Err(401));
    lab.people.set_disabled(&id("bob"), false).await.unwrap();
    assert_eq!(lab.user_by_mcp(|request| request.bearer_auth(&good)).await, Ok("bob".to_owned()));
}

#[tokio::test]
async fn requests_without_credentials_reach_only_public_routes() {
    let lab = Lab::with_people().await;
    for (method, path) in [
        (Method::POST, "/mcp"),
        (Method::GET, "/mcp"),
        (Method::DELETE, "/mcp"),
        (Method::GET, "/metrics"),
        (Method::GET, "/api/auth/me"),
        (Method::GET, "/api/keys"),
        (Method::GET, "/api/users"),
        (Method::POST, "/api/users"),
    ] {
        let response = lab.request(method, path).send().await.unwrap();
        assert!(response.headers().contains_key("www-authenticate"), "{path}");
        assert_eq!(code(response).await, (401, "not_signed_in".to_owned()), "{path}");
    }
    for path in ["/health", "/livez", "/readyz", "/sign-in", "/.well-known/oauth-protected-resource"] {
        assert_eq!(lab.get(path).send().await.unwrap().status(), StatusCode::OK, "{path}");
    }
    let resource: Value =
        lab.get("/.well-known/oauth-protected-resource/mcp").send().await.unwrap().json().await.unwrap();
    assert_eq!(resource["resource"], format!("{}/mcp", lab.base));
    assert_eq!(resource["bearer_methods_supported"], json!(["header"]));
    assert!(resource.get("authorization_servers").is_none());
}

#[tokio::test]
async fn a_key_is_limited_to_its_scopes() {
    let lab = Lab::with_people().await;
    let status = async |key: &str, path: &str| lab.get(path).bearer_auth(key).send().await.unwrap().status().as_u16();
    for (scope, expected) in [
        (KeyScope::Mcp, [406, 403, 403, 403]),
        (KeyScope::Api, [403, 200, 403, 403]),
        (KeyScope::Metrics, [403, 403, 403, 200]),
        (KeyScope::Admin, [403, 403, 403, 403]),
    ] {
        let key = lab.key("ann", &[scope]).await;
        let mut found = Vec::new();
        for path in ["/mcp", "/api/keys", "/api/users", "/metrics"] {
            found.push(status(&key, path).await);
        }
        // The response of /mcp to a plain GET does not matter, as long as it is reached.
        if scope == KeyScope::Mcp {
            assert_ne!(found[0], 403);
            found[0] = 406;
        }
        assert_eq!(found, expected, "{scope:?}");
    }
    let admin = lab.key("ann", &[KeyScope::Api, KeyScope::Admin]).await;
    assert_eq!(status(&admin, "/api/users").await, 200);
    // Keys of a former admin lose the scope admin.
    lab.people.set_role(&id("ann"), Role::User).await.unwrap();
    assert_eq!(status(&admin, "/api/users").await, 403);
    assert_eq!(status(&admin, "/api/keys").await, 200);
}

#[tokio::test]
async fn keys_are_created_and_revoked_over_the_api() {
    let lab = Lab::with_people().await;
    let key = lab.key("bob", &[KeyScope::Api]).await;
    let wanted = json!({ "name": "laptop", "scopes": ["api"], "expires_in_days": 30 });
    let made: Value = lab.post("/api/keys").bearer_auth(&key).json(&wanted).send().await.unwrap().json().await.unwrap();
    let secret = made["secret"].as_str().unwrap();
    let me: Value = lab.get("/api/auth/me").bearer_auth(secret).send().await.unwrap().json().await.unwrap();
    assert_eq!(me, json!({ "user": "bob", "display_name": null, "role": "user", "how": "key" }));
    let list = lab.get("/api/keys").bearer_auth(&key).send().await.unwrap().text().await.unwrap();
    assert!(list.contains("laptop") && !list.contains(secret));

    // A key cannot create keys with more scopes.
    for scopes in [json!(["mcp"]), json!(["admin"]), json!(["api", "metrics"])] {
        let more = lab.post("/api/keys").bearer_auth(&key).json(&json!({ "name": "more", "scopes": scopes }));
        assert_eq!(code(more.send().await.unwrap()).await, (403, "insufficient_scope".to_owned()));
    }
    for wrong in
        [json!({ "name": "" }), json!({ "name": "x", "scopes": ["all"] }), json!({ "name": "x", "expires_in_days": 0 })]
    {
        let response = lab.post("/api/keys").bearer_auth(&key).json(&wrong).send().await.unwrap();
        assert!([400, 403].contains(&response.status().as_u16()), "{wrong}");
    }

    // Keys of other users cannot be revoked.
    let anns = lab.key("ann", &[KeyScope::Api]).await;
    let path = format!("/api/keys/{}", made["id"].as_str().unwrap());
    let delete = async |key: &str| lab.request(Method::DELETE, &path).bearer_auth(key).send().await.unwrap();
    assert_eq!(code(delete(&anns).await).await, (404, "no_such_key".to_owned()));
    assert_eq!(delete(&key).await.status(), StatusCode::NO_CONTENT);
    assert_eq!(lab.get("/api/auth/me").bearer_auth(secret).send().await.unwrap().status(), StatusCode::UNAUTHORIZED);
    assert_eq!(code(delete(&key).await).await.0, 404);
}

#[tokio::test]
async fn an_mcp_session_belongs_to_the_user_who_started_it() {
    let lab = Lab::with_people().await;
    let [anns, bobs, other] = [
        lab.key("ann", &[KeyScope::Mcp]).await,
        lab.key("bob", &[KeyScope::Mcp]).await,
        lab.key("bob", &[KeyScope::Mcp]).await,
    ];
    let (status, session) = lab.initialize(&bobs).await;
    assert_eq!(status, StatusCode::OK);
    let session = session.unwrap();
    let ready = json!({ "jsonrpc": "2.0", "method": "notifications/initialized" });
    let list = json!({ "jsonrpc": "2.0", "id": 2, "method": "tools/list" });
    // Treated like an unknown session.
    let unknown = lab.mcp(&anns, Some("0f0f0f0f-0000-4000-8000-000000000000"), &list).await;
    let foreign = lab.mcp(&anns, Some(&session), &list).await;
    assert_eq!((foreign.status(), unknown.status()), (StatusCode::NOT_FOUND, StatusCode::NOT_FOUND));
    assert_eq!(foreign.text().await.unwrap(), unknown.text().await.unwrap());
    let end = lab.request(Method::DELETE, "/mcp").bearer_auth(&anns).header("mcp-session-id", &session);
    let end = end.send().await.unwrap().status();
    let stream = lab.get("/mcp").bearer_auth(&anns).header("mcp-session-id", &session);
    let stream = stream.header("accept", "text/event-stream").send().await.unwrap().status();
    assert!(!stream.is_success(), "{stream}");
    // The session is still there for its owner, with any key.
    assert_eq!(lab.mcp(&bobs, Some(&session), &ready).await.status(), StatusCode::ACCEPTED, "after {end}");
    for key in [&bobs, &other] {
        let answer = lab.mcp(key, Some(&session), &list).await.text().await.unwrap();
        assert!(answer.contains("\"execute_code\""), "{answer}");
    }
}

#[tokio::test]
async fn a_key_created_with_a_key_never_has_more_rights() {
    let lab = Lab::with_people().await;
    let make = async |key: &str, body: Value| -> Value {
        let response = lab.post("/api/keys").bearer_auth(key).json(&body).send().await.unwrap();
        assert_eq!(response.status(), StatusCode::CREATED, "{body}");
        response.json().await.unwrap()
    };
    let works = async |made: &Value| {
        let secret = made["secret"].as_str().unwrap();
        lab.get("/api/auth/me").bearer_auth(secret).send().await.unwrap().status() == StatusCode::OK
    };
    let hour = Some(Duration::from_hours(1));
    let scopes = || [KeyScope::Api].into();
    let (short, secret) = lab.people.add_key(&id("bob"), "short", scopes(), hour, KeyMaker::Person).await.unwrap();
    let end = json!(Timestamp::from(short.expires_at.unwrap()));
    for wanted in
        [json!({ "name": "a", "scopes": ["api"] }), json!({ "name": "b", "scopes": ["api"], "expires_in_days": 9 })]
    {
        let made = make(secret.expose(), wanted).await;
        assert_eq!(made["expires_at"], end);
        let again = make(made["secret"].as_str().unwrap(), json!({ "name": "c", "scopes": ["api"] })).await;
        assert_eq!(again["expires_at"], end);
    }
    // Revoking a key also revokes the keys created with it, at any depth.
    let child = make(secret.expose(), json!({ "name": "child", "scopes": ["api"] })).await;
    let grandchild = make(child["secret"].as_str().unwrap(), json!({ "name": "grandchild", "scopes": ["api"] })).await;
    assert!(works(&child).await && works(&grandchild).await);
    assert!(lab.people.revoke_key(None, &short.id).await.unwrap());
    assert!(!works(&child).await && !works(&grandchild).await);
    // A key without expiry can create keys with any expiry.
    let forever = lab.key("bob", &[KeyScope::Api]).await;
    assert_eq!(make(&forever, json!({ "name": "d", "scopes": ["api"] })).await["expires_at"], Value::Null);
    assert!(
        make(&forever, json!({ "name": "e", "scopes": ["api"], "expires_in_days": 1 })).await["expires_at"].is_string()
    );
}

#[tokio::test]
async fn a_key_created_in_a_browser_outlives_the_session_but_not_the_user() {
    let lab = Lab::with_people().await;
    let cookie = lab.browser("bob").await;
    let as_bob = |method, path| lab.request(method, path).header("cookie", &cookie).header("x-coracle-csrf", "1");
    let wanted = json!({ "name": "laptop" });
    let made: Value = as_bob(Method::POST, "/api/keys").json(&wanted).send().await.unwrap().json().await.unwrap();
    let secret = made["secret"].as_str().unwrap().to_owned();
    assert_eq!(made["expires_at"], Value::Null);
    as_bob(Method::POST, "/api/auth/logout").send().await.unwrap();
    let status = async || lab.get("/api/auth/me").bearer_auth(&secret).send().await.unwrap().status();
    assert_eq!(status().await, StatusCode::OK);
    lab.people.set_disabled(&id("bob"), true).await.unwrap();
    assert_eq!(status().await, StatusCode::UNAUTHORIZED);
}

#[tokio::test]
async fn metrics_require_an_admin_or_a_key_created_by_one() {
    let lab = Lab::with_people().await;
    let ask = async |user: &str, method: Method, path: &str| {
        let cookie = lab.browser(user).await;
        let request = lab.request(method, path).header("cookie", cookie).header("x-coracle-csrf", "1");
        request.json(&json!({ "name": "prometheus", "scopes": ["metrics"] })).send().await.unwrap()
    };
    assert_eq!(ask("bob", Method::POST, "/api/keys").await.status(), StatusCode::FORBIDDEN);
    assert_eq!(ask("bob", Method::GET, "/metrics").await.status(), StatusCode::FORBIDDEN);
    assert_eq!(ask("ann", Method::GET, "/metrics").await.status(), StatusCode::OK);
    let made: Value = ask("ann", Method::POST, "/api/keys").await.json().await.unwrap();
    let key = made["secret"].as_str().unwrap().to_owned();
    assert_eq!(lab.get("/metrics").bearer_auth(&key).send().await.unwrap().status(), StatusCode::OK);
    // The operator can give such a key to a user who is not an admin. It reads metrics but cannot create others.
    let bobs = lab.key("bob", &[KeyScope::Api, KeyScope::Metrics]).await;
    assert_eq!(lab.get("/metrics").bearer_auth(&bobs).send().await.unwrap().status(), StatusCode::OK);
    let more = lab.post("/api/keys").bearer_auth(&bobs).json(&json!({ "name": "x", "scopes": ["metrics"] }));
    assert_eq!(code(more.send().await.unwrap()).await, (403, "admins_only".to_owned()));
}

#[tokio::test]
async fn a_user_cannot_evict_sessions_of_another() {
    let lab = Lab::with_people().await;
    let [anns, bobs] = [lab.key("ann", &[KeyScope::Mcp]).await, lab.key("bob", &[KeyScope::Mcp]).await];
    let (_, session) = lab.initialize(&anns).await;
    let session = session.unwrap();
    let first = lab.initialize(&bobs).await.1.unwrap();
    for _ in 0..1_050 {
        let (status, _) = lab.initialize(&bobs).await;
        assert_eq!(status, StatusCode::OK);
    }
    let list = json!({ "jsonrpc": "2.0", "id": 2, "method": "tools/list" });
    let ready = json!({ "jsonrpc": "2.0", "method": "notifications/initialized" });
    assert_eq!(lab.mcp(&anns, Some(&session), &ready).await.status(), StatusCode::ACCEPTED);
    assert_eq!(lab.mcp(&anns, Some(&session), &list).await.status(), StatusCode::OK);
    // One of bob's own sessions was removed.
    assert_eq!(lab.mcp(&bobs, Some(&first), &list).await.status(), StatusCode::NOT_FOUND);
}
