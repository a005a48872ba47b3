//! Pages of other origins: they need a key, and cookies never count for them.

use crate::lab::{Lab, PASSWORD, cookie};
use coracle_server::{AuthOptions, CorsOrigins};
use coracle_store::{KeyScope, Role};
use coracle_types::Secret;
use reqwest::header::{COOKIE, HeaderMap, ORIGIN};
use reqwest::{Method, RequestBuilder, Response, StatusCode};
use serde_json::json;
use tokio::net::TcpListener;

const APP: &str = "https://app.example";
const OTHER: &str = "https://other.example";
const ALLOWED: &str = "access-control-allow-origin";
const LOCAL_KEY: &str = "coracle_local_0123456789";

async fn lab(origins: &[&str], change: impl FnOnce(&mut AuthOptions)) -> Lab {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let origins: Vec<String> = origins.iter().map(|origin| (*origin).to_owned()).collect();
    let origins = CorsOrigins::parse(&origins).unwrap();
    Lab::start_on_all(vec![listener], change, |options| options.cors_origins = origins)
}

fn allowed(headers: &HeaderMap) -> Option<&str> {
    assert!(!headers.contains_key("access-control-allow-credentials"), "{headers:?}");
    headers.get(ALLOWED).map(|origin| origin.to_str().unwrap())
}

async fn sent(request: RequestBuilder, origin: &str) -> Response {
    request.header(ORIGIN, origin).send().await.unwrap()
}

fn preflight(lab: &Lab, path: &str) -> RequestBuilder {
    let request = lab.request(Method::OPTIONS, path).header("access-control-request-method", "POST");
    request.header("access-control-request-headers", "authorization,content-type,x-stainless-lang")
}

#[tokio::test]
async fn pages_of_listed_origins_use_a_key() {
    let lab = lab(&[APP], |_| {}).await;
    lab.add("ann", Role::Admin).await;
    let key = lab.key("ann", &[KeyScope::Api, KeyScope::Mcp]).await;
    for path in ["/api/executions", "/mcp", "/v1/chat/completions"] {
        let answer = sent(preflight(&lab, path), APP).await;
        assert_eq!((answer.status(), allowed(answer.headers())), (StatusCode::OK, Some(APP)), "{path}");
        let headers = answer.headers()["access-control-allow-headers"].to_str().unwrap();
        assert_eq!(headers, "authorization,content-type,x-stainless-lang");
        assert!(answer.headers()["access-control-allow-methods"].to_str().unwrap().contains("POST"));
        let refused = sent(preflight(&lab, path), OTHER).await;
        assert_eq!((refused.status(), allowed(refused.headers())), (StatusCode::FORBIDDEN, None), "{path}");
    }
    let me = || lab.get("/api/auth/me").bearer_auth(&key);
    let answer = sent(me(), APP).await;
    assert_eq!((answer.status(), allowed(answer.headers())), (StatusCode::OK, Some(APP)));
    let refused = sent(me(), OTHER).await;
    assert_eq!((refused.status(), allowed(refused.headers())), (StatusCode::FORBIDDEN, None));
    // A page can read why its key does not work.
    let wrong = sent(lab.get("/api/auth/me").bearer_auth("crk_wrong"), APP).await;
    assert_eq!((wrong.status(), allowed(wrong.headers())), (StatusCode::UNAUTHORIZED, Some(APP)));
    assert_eq!(lab.user_by_mcp(|request| request.bearer_auth(&key).header(ORIGIN, APP)).await, Ok("ann".to_owned()));
    assert_eq!(lab.user_by_mcp(|request| request.bearer_auth(&key).header(ORIGIN, OTHER)).await, Err(403));
    // Pages for people are not for pages of others.
    let page = sent(lab.get("/sign-in"), APP).await;
    assert_eq!(allowed(page.headers()), None);
}

#[tokio::test]
async fn without_the_setting_no_other_origin_is_allowed() {
    let lab = lab(&[], |_| {}).await;
    lab.add("ann", Role::Admin).await;
    let key = lab.key("ann", &[KeyScope::Api]).await;
    for request in [preflight(&lab, "/api/executions"), lab.get("/api/auth/me").bearer_auth(&key)] {
        let refused = sent(request, APP).await;
        assert_eq!((refused.status(), allowed(refused.headers())), (StatusCode::FORBIDDEN, None));
    }
    assert_eq!(lab.get("/api/auth/me").bearer_auth(&key).send().await.unwrap().status(), StatusCode::OK);
}

#[tokio::test]
async fn cookies_never_count_across_origins() {
    for origins in [APP, "*"] {
        let lab = lab(&[origins], |_| {}).await;
        lab.add("ann", Role::Admin).await;
        let browser = lab.browser("ann").await;
        let key = lab.key("ann", &[KeyScope::Api]).await;
        let me = || lab.get("/api/auth/me").header(COOKIE, &browser);
        let own = lab.base.clone();
        assert_eq!(me().send().await.unwrap().status(), StatusCode::OK);
        assert_eq!(sent(me(), &own).await.status(), StatusCode::OK);
        let cross = sent(me(), APP).await;
        assert_eq!(cross.status(), StatusCode::UNAUTHORIZED, "{origins}");
        assert!(allowed(cross.headers()).is_some(), "{origins}");
        assert_eq!(sent(me().bearer_auth(&key), APP).await.status(), StatusCode::OK, "{origins}");
        // Not even with the header that pages of this server send.
        let write = || lab.post("/api/auth/logout").header(COOKIE, &browser).header("x-coracle-csrf", "1");
        assert_eq!(sent(write(), APP).await.status(), StatusCode::UNAUTHORIZED, "{origins}");
        let page =
            async |origin: &str| sent(lab.get("/sign-in").header(COOKIE, &browser), origin).await.text().await.unwrap();
        assert!(!page(APP).await.contains("ann") && page(&own).await.contains("ann"), "{origins}");
        // Nor can such a page sign a browser in.
        let body = json!({ "user": "ann", "password": PASSWORD });
        let login = sent(lab.post("/api/auth/login").json(&body), APP).await;
        assert_eq!((login.status(), cookie(login.headers())), (StatusCode::FORBIDDEN, None), "{origins}");
        assert_eq!(sent(write(), &own).await.status(), StatusCode::NO_CONTENT, "{origins}");
    }
}

#[tokio::test]
async fn every_origin_is_an_explicit_choice() {
    let lab = lab(&["*"], |_| {}).await;
    lab.add("ann", Role::Admin).await;
    let key = lab.key("ann", &[KeyScope::Api]).await;
    for origin in [APP, OTHER, "null"] {
        let answer = sent(lab.get("/api/auth/me").bearer_auth(&key), origin).await;
        assert_eq!((answer.status(), allowed(answer.headers())), (StatusCode::OK, Some("*")), "{origin}");
    }
}

#[tokio::test]
async fn without_users_a_page_needs_the_key_of_the_server() {
    let lab = lab(&[APP], |auth| {
        auth.required = false;
        auth.local_key = Some(Secret::new(LOCAL_KEY));
    })
    .await;
    let me = || lab.get("/api/auth/me");
    assert_eq!(me().send().await.unwrap().status(), StatusCode::OK);
    assert_eq!(sent(me(), &lab.base).await.status(), StatusCode::OK);
    assert_eq!(sent(me(), APP).await.status(), StatusCode::UNAUTHORIZED);
    assert_eq!(sent(me().bearer_auth("coracle_local_wrong"), APP).await.status(), StatusCode::UNAUTHORIZED);
    assert_eq!(sent(me().bearer_auth(LOCAL_KEY), APP).await.status(), StatusCode::OK);
    assert_eq!(lab.user_by_mcp(|request| request).await, Ok("local".to_owned()));
    assert_eq!(lab.user_by_mcp(|request| request.header(ORIGIN, APP)).await, Err(401));
    let with_key = lab.user_by_mcp(|request| request.header(ORIGIN, APP).bearer_auth(LOCAL_KEY)).await;
    assert_eq!(with_key, Ok("local".to_owned()));
}

#[tokio::test]
async fn a_proxy_does_not_vouch_for_pages_of_other_origins() {
    let lab = lab(&[APP], |auth| auth.user_id_proxies = vec!["127.0.0.0/8".parse().unwrap()]).await;
    lab.add("ann", Role::Admin).await;
    let named = |request: RequestBuilder| request.header("x-user-id", "ann");
    assert_eq!(lab.user_by_mcp(named).await, Ok("ann".to_owned()));
    assert_eq!(lab.user_by_mcp(|request| named(request).header(ORIGIN, APP)).await, Err(401));
}
