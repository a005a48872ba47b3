//! The link that signs one browser in on a server without users.

use crate::lab::{Lab, cookie, location};
use coracle_models::{Directory, ProviderSettings};
use coracle_server::AgentOptions;
use coracle_store::Role;
use coracle_types::Secret;
use reqwest::header::{COOKIE, ORIGIN};
use reqwest::{RequestBuilder, StatusCode};
use serde_json::json;
use std::collections::BTreeMap;
use std::sync::Arc;
use tokio::net::TcpListener;

const LINK: &str = "link-0123456789";
const KEY: &str = "coracle_local_0123456789";

/// A server without users, with a model that nobody serves.
async fn lab() -> Lab {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let settings = ProviderSettings { url: Some("http://127.0.0.1:9/v1".to_owned()), ..ProviderSettings::default() };
    let models = Directory::new(&BTreeMap::from([("lab".to_owned(), settings)]), None).unwrap();
    let agent = AgentOptions { models: Arc::new(models), local_key: Some(Secret::new(KEY)), ..AgentOptions::default() };
    Lab::start_on_all(
        vec![listener],
        |auth| {
            auth.required = false;
            auth.local_link = Some(Secret::new(LINK));
        },
        |options| options.agent = agent,
    )
}

async fn status(request: RequestBuilder) -> StatusCode {
    request.send().await.unwrap().status()
}

/// Opens the link and presses its button; returns the cookie.
async fn sign_in(lab: &Lab, link: &str) -> Result<String, StatusCode> {
    let path = format!("/sign-in/{link}");
    let page = lab.get(&path).send().await.unwrap().text().await.unwrap();
    assert!(page.contains("This link works once"), "{page}");
    let answer = lab.post(&path).header(ORIGIN, &lab.base).send().await.unwrap();
    match cookie(answer.headers()) {
        Some(cookie) => {
            assert_eq!(location(&answer), "/");
            Ok(cookie)
        }
        None => Err(answer.status()),
    }
}

#[tokio::test]
async fn the_link_works_once_and_the_cookie_counts_as_the_key() {
    let lab = lab().await;
    assert_eq!(sign_in(&lab, "other").await, Err(StatusCode::UNAUTHORIZED));
    let browser = sign_in(&lab, LINK).await.unwrap();
    assert_eq!(sign_in(&lab, LINK).await, Err(StatusCode::UNAUTHORIZED));
    let models = || lab.get("/v1/models");
    assert_eq!(status(models()).await, StatusCode::UNAUTHORIZED);
    assert_eq!(status(models().bearer_auth(KEY)).await, StatusCode::OK);
    assert_eq!(status(models().header(COOKIE, &browser)).await, StatusCode::OK);
    assert_eq!(status(models().header(COOKIE, "coracle_session=other")).await, StatusCode::UNAUTHORIZED);
    // Writes need the header that only pages of this server send. The body is wrong on purpose.
    let ask = || lab.post("/v1/chat/completions").header(COOKIE, &browser).json(&json!({ "messages": [] }));
    assert_eq!(status(ask()).await, StatusCode::UNAUTHORIZED);
    assert_eq!(status(ask().header("x-coracle-csrf", "1")).await, StatusCode::BAD_REQUEST);
    let elsewhere = ask().header("x-coracle-csrf", "1").header(ORIGIN, "https://chat.example");
    assert_eq!(status(elsewhere).await, StatusCode::UNAUTHORIZED);
    // The cookie ends with signing out.
    assert_eq!(status(lab.post("/sign-in/out").header(COOKIE, &browser)).await, StatusCode::SEE_OTHER);
    assert_eq!(status(models().header(COOKIE, &browser)).await, StatusCode::UNAUTHORIZED);
}

#[tokio::test]
async fn with_users_the_link_and_the_cookie_end() {
    let lab = lab().await;
    let browser = sign_in(&lab, LINK).await.unwrap();
    lab.add("ann", Role::Admin).await;
    // The server checks once per second whether there are users.
    let me = async || status(lab.get("/api/auth/me").header(COOKIE, &browser)).await;
    while me().await == StatusCode::OK {
        tokio::time::sleep(std::time::Duration::from_millis(20)).await;
    }
    assert_eq!(me().await, StatusCode::UNAUTHORIZED);
    assert_eq!(status(lab.get("/v1/models").header(COOKIE, &browser)).await, StatusCode::UNAUTHORIZED);
    assert_eq!(sign_in(&lab, LINK).await, Err(StatusCode::UNAUTHORIZED));
}
