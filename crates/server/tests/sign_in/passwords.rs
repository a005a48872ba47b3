//! Password guessing.

use crate::lab::{Lab, PASSWORD};
use reqwest::StatusCode;
use serde_json::Value;

#[tokio::test]
async fn the_error_does_not_reveal_which_part_was_wrong() {
    let lab = Lab::with_people().await;
    lab.add("carl", coracle_store::Role::User).await;
    lab.people.set_disabled(&crate::lab::id("carl"), true).await.unwrap();
    let mut answers = Vec::new();
    for (user, password) in [
        ("bob", "wrong"),
        ("nobody", PASSWORD),
        ("carl", PASSWORD),
        ("../bob", PASSWORD),
        ("", ""),
        ("bob", &"x".repeat(5000)),
    ] {
        let response = lab.login(user, password).await;
        let status = response.status();
        assert!(response.headers().get("set-cookie").is_none());
        answers.push((status, response.json::<Value>().await.unwrap()));
    }
    let wrong = serde_json::json!({ "error": "the name or the password is wrong", "code": "sign_in_failed" });
    for answer in answers {
        assert_eq!(answer, (StatusCode::UNAUTHORIZED, wrong.clone()));
    }
    assert_eq!(lab.login(" Bob ", PASSWORD).await.status(), StatusCode::OK);
}

#[tokio::test]
async fn parallel_guesses_are_slowed_down() {
    let lab = Lab::with_people().await;
    let guesses = (0..40).map(|number| {
        let request = lab.post("/api/auth/login");
        let guess = serde_json::json!({ "user": "bob", "password": format!("guess number {number}") });
        tokio::spawn(async move { request.json(&guess).send().await.unwrap() })
    });
    let (mut wrong, mut slowed) = (0, 0);
    for guess in guesses.collect::<Vec<_>>() {
        let response = guess.await.unwrap();
        match response.status() {
            StatusCode::UNAUTHORIZED => wrong += 1,
            StatusCode::TOO_MANY_REQUESTS => {
                let wait: u64 = response.headers()["retry-after"].to_str().unwrap().parse().unwrap();
                assert!((1..=60).contains(&wait), "{wait}");
                slowed += 1;
            }
            other => panic!("{other}"),
        }
    }
    assert!(wrong <= 6 && wrong + slowed == 40, "{wrong} guesses were checked, {slowed} were not");
    // The right password is rejected as well during that time; otherwise the response would reveal a correct guess.
    assert_eq!(lab.login("bob", PASSWORD).await.status(), StatusCode::TOO_MANY_REQUESTS);
    // Other users are not affected.
    assert_eq!(lab.login("ann", PASSWORD).await.status(), StatusCode::OK);
}

#[tokio::test]
async fn guesses_for_many_names_are_slowed_down_by_address() {
    let lab = Lab::with_people().await;
    let mut slowed = false;
    for number in 0..25 {
        slowed |= lab.login(&format!("user{number}"), "wrong").await.status() == StatusCode::TOO_MANY_REQUESTS;
    }
    assert!(slowed);
}

#[tokio::test]
async fn invalid_bodies_are_reported_as_problems() {
    let lab = Lab::with_people().await;
    for (kind, body, status) in [("application/json", "{", 400), ("application/json", "{}", 400)] {
        let response = lab.post("/api/auth/login").header("content-type", kind).body(body).send().await.unwrap();
        assert_eq!(crate::lab::code(response).await, (status, "invalid_request".to_owned()), "{kind} {body}");
    }
    for kind in ["text/plain", "application/x-www-form-urlencoded"] {
        let response = lab.post("/api/auth/login").header("content-type", kind).body("user=bob&password=x");
        assert_eq!(crate::lab::code(response.send().await.unwrap()).await, (415, "unsupported".to_owned()), "{kind}");
    }
    let long = lab.post("/api/auth/login").header("content-type", "application/json").body("x".repeat(100_000));
    assert_eq!(long.send().await.unwrap().status(), StatusCode::PAYLOAD_TOO_LARGE);
}
