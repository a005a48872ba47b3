//! Browser sessions: fixation, requests from other pages, one-time links, redirects.

use crate::lab::{Lab, PASSWORD, code, cookie, field, id, location};
use reqwest::header::{COOKIE, ORIGIN};
use reqwest::{RequestBuilder, StatusCode};
use serde_json::{Value, json};

fn form(pairs: &[(&str, &str)]) -> String {
    pairs.iter().map(|(name, value)| format!("{name}={}", encoded(value))).collect::<Vec<_>>().join("&")
}

fn encoded(text: &str) -> String {
    text.bytes()
        .map(|byte| if byte.is_ascii_alphanumeric() { char::from(byte).to_string() } else { format!("%{byte:02x}") })
        .collect()
}

fn with_form(request: RequestBuilder, pairs: &[(&str, &str)]) -> RequestBuilder {
    request.header("content-type", "application/x-www-form-urlencoded").body(form(pairs))
}

#[tokio::test]
async fn signing_in_always_starts_a_new_session() {
    let lab = Lab::with_people().await;
    let planted = "coracle_session=planted-by-somebody-else-0123456789";
    let response = lab
        .post("/api/auth/login")
        .header(COOKIE, planted)
        .json(&json!({ "user": "bob", "password": PASSWORD }))
        .send()
        .await
        .unwrap();
    let set = response.headers()["set-cookie"].to_str().unwrap().to_owned();
    assert!(set.contains("; HttpOnly; SameSite=Lax") && set.contains("Path=/;"), "{set}");
    let first = cookie(response.headers()).unwrap();
    assert_ne!(first, planted);
    let me = async |cookie: &str| lab.get("/api/auth/me").header(COOKIE, cookie).send().await.unwrap();
    assert_eq!(me(planted).await.status(), StatusCode::UNAUTHORIZED);
    assert_eq!(me(&first).await.json::<Value>().await.unwrap()["user"], "bob");
    // A second cookie could have been planted beside the right one.
    assert_eq!(me(&format!("{first}; {planted}")).await.status(), StatusCode::UNAUTHORIZED);

    // Signing in again, as any user, starts a new session and ends the previous one.
    let again = lab.post("/api/auth/login").header(COOKIE, &first);
    let again = again.json(&json!({ "user": "ann", "password": PASSWORD })).send().await.unwrap();
    let second = cookie(again.headers()).unwrap();
    assert_ne!(first, second);
    assert_eq!(me(&first).await.status(), StatusCode::UNAUTHORIZED);
    assert_eq!(me(&second).await.json::<Value>().await.unwrap()["user"], "ann");
}

#[tokio::test]
async fn sessions_end_on_sign_out_new_password_and_disabling() {
    let lab = Lab::with_people().await;
    let me = async |cookie: &str| lab.get("/api/auth/me").header(COOKIE, cookie).send().await.unwrap().status();
    let out = lab.browser("bob").await;
    let left = lab.post("/api/auth/logout").header(COOKIE, &out).header("x-coracle-csrf", "1").send().await.unwrap();
    assert_eq!(left.status(), StatusCode::NO_CONTENT);
    assert!(left.headers()["set-cookie"].to_str().unwrap().contains("Max-Age=0"));
    assert_eq!(me(&out).await, StatusCode::UNAUTHORIZED);

    let (one, other) = (lab.browser("bob").await, lab.browser("bob").await);
    let change = async |current: &str| {
        let request = lab.post("/api/auth/password").header(COOKIE, &one).header("x-coracle-csrf", "1");
        request.json(&json!({ "current": current, "new": "another good one" })).send().await.unwrap()
    };
    assert_eq!(code(change("wrong").await).await, (403, "wrong_password".to_owned()));
    let changed = change(PASSWORD).await;
    assert_eq!(changed.status(), StatusCode::NO_CONTENT);
    let fresh = cookie(changed.headers()).unwrap();
    assert_eq!([me(&one).await, me(&other).await, me(&fresh).await].map(|status| status.as_u16()), [401, 401, 200]);
    assert_eq!(lab.login("bob", "another good one").await.status(), StatusCode::OK);

    lab.people.set_disabled(&id("bob"), true).await.unwrap();
    assert_eq!(me(&fresh).await, StatusCode::UNAUTHORIZED);
    assert_eq!(me(&lab.browser("ann").await).await, StatusCode::OK);
}

#[tokio::test]
async fn expired_sessions_are_rejected() {
    let lab = Lab::start(|auth| auth.session = std::time::Duration::from_millis(1)).await;
    lab.add("bob", coracle_store::Role::User).await;
    let cookie = lab.browser("bob").await;
    tokio::time::sleep(std::time::Duration::from_millis(20)).await;
    let me = lab.get("/api/auth/me").header(COOKIE, cookie).send().await.unwrap();
    assert_eq!(code(me).await, (401, "not_signed_in".to_owned()));
}

#[tokio::test]
async fn pages_of_other_origins_cannot_change_anything() {
    let lab = Lab::with_people().await;
    let cookie = lab.browser("bob").await;
    let make = async |headers: &[(&str, &str)]| {
        let mut request = lab.post("/api/keys").header(COOKIE, &cookie).json(&json!({ "name": "x" }));
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        request.send().await.unwrap().status().as_u16()
    };
    let own = lab.base.as_str();
    let ours = [("x-coracle-csrf", "1"), ("origin", own), ("sec-fetch-site", "same-origin")];
    assert_eq!(make(&ours).await, 201);
    assert_eq!(make(&ours[..1]).await, 201);
    for (headers, why) in [
        (&[][..], "a form can send that"),
        (&[("origin", own)], "without the header that forms cannot send"),
        (&[("x-coracle-csrf", "1"), ("origin", "https://evil.example")], "another origin"),
        (&[("x-coracle-csrf", "1"), ("origin", "https://chat.example")], "an allowed origin, but not with our cookie"),
        (&[("x-coracle-csrf", "1"), ("origin", "null")], "a page that hides its origin"),
        (&[("x-coracle-csrf", "1"), ("sec-fetch-site", "cross-site")], "another site"),
        (&[("x-coracle-csrf", "1"), ("sec-fetch-site", "same-site")], "a neighbour"),
    ] {
        assert_eq!(make(headers).await, 403, "{why}");
    }
    let who = async |headers: &[(&'static str, &str)]| {
        lab.user_by_mcp(|mut request| {
            for (name, value) in headers {
                request = request.header(*name, *value);
            }
            request.header(COOKIE, &cookie)
        })
        .await
    };
    assert_eq!(who(&[]).await, Err(403));
    assert_eq!(who(&[("x-coracle-csrf", "1")]).await, Ok("bob".to_owned()));
    // Pages of other origins cannot sign anybody in either.
    for origin in ["https://evil.example", "https://chat.example"] {
        let login = lab.post("/api/auth/login").header(ORIGIN, origin);
        let login = login.json(&json!({ "user": "bob", "password": PASSWORD })).send().await.unwrap();
        assert_eq!(login.status(), StatusCode::FORBIDDEN);
        let page = with_form(lab.post("/sign-in").header(ORIGIN, origin), &[("user", "bob"), ("password", PASSWORD)]);
        assert_eq!(page.send().await.unwrap().status(), StatusCode::FORBIDDEN);
    }
}

#[tokio::test]
async fn users_sign_in_and_out_on_pages_without_scripts() {
    let lab = Lab::with_people().await;
    let page = lab.get("/sign-in?next=/a%3Fb").send().await.unwrap();
    let policy = page.headers()["content-security-policy"].to_str().unwrap().to_owned();
    assert!(policy.starts_with("default-src 'none'") && policy.contains("frame-ancestors 'none'"), "{policy}");
    let text = page.text().await.unwrap();
    assert!(!text.contains("<script") && text.contains("color-scheme:light dark"));
    assert_eq!(field(&text, "next"), "/a?b");

    let sign_in = async |password: &str| {
        let form = [("user", "bob"), ("password", password), ("next", "/a?b")];
        with_form(lab.post("/sign-in").header(ORIGIN, &lab.base), &form).send().await.unwrap()
    };
    let wrong = sign_in("wrong").await;
    assert_eq!(wrong.status(), StatusCode::UNAUTHORIZED);
    assert!(wrong.text().await.unwrap().contains("the name or the password is wrong"));
    let right = sign_in(PASSWORD).await;
    assert_eq!((right.status(), location(&right)), (StatusCode::SEE_OTHER, "/a?b"));
    let cookie = cookie(right.headers()).unwrap();

    let account = lab.get("/sign-in").header(COOKIE, &cookie).send().await.unwrap().text().await.unwrap();
    assert!(account.contains("signed in as <b>bob</b>"), "{account}");
    let out = async |csrf: &str| {
        with_form(lab.post("/sign-in/out").header(COOKIE, &cookie), &[("csrf", csrf)]).send().await.unwrap().status()
    };
    assert_eq!(out("0").await, StatusCode::FORBIDDEN);
    assert_eq!(out(&field(&account, "csrf")).await, StatusCode::SEE_OTHER);
    let me = lab.get("/api/auth/me").header(COOKIE, &cookie).send().await.unwrap();
    assert_eq!(me.status(), StatusCode::UNAUTHORIZED);
}

#[tokio::test]
async fn redirects_after_signing_in_are_local() {
    let lab = Lab::with_people().await;
    for next in [
        "https://evil.example/",
        "//evil.example",
        "/\\evil.example",
        "\\/evil.example",
        "/\t/evil.example",
        "evil.example",
        "javascript:alert(1)",
        "/\r\nset-cookie: a=b",
    ] {
        let form = [("user", "bob"), ("password", PASSWORD), ("next", next)];
        let response = with_form(lab.post("/sign-in"), &form).send().await.unwrap();
        assert_eq!((response.status(), location(&response)), (StatusCode::SEE_OTHER, "/sign-in"), "{next:?}");
        let page = lab.get(&format!("/sign-in?next={}", encoded(next))).send().await.unwrap().text().await.unwrap();
        assert_eq!(field(&page, "next"), "/sign-in", "{next:?}");
    }
    let quoted = lab.get("/sign-in?next=/%22%3E%3Cscript%3E").send().await.unwrap().text().await.unwrap();
    assert!(!quoted.contains("<script"), "{quoted}");
}

#[tokio::test]
async fn a_link_works_once_and_opening_it_does_not_use_it() {
    let lab = Lab::with_people().await;
    let token = lab.people.link(&id("bob")).await.unwrap();
    let path = format!("/sign-in/{}", token.expose());
    for _ in 0..3 {
        let shown = lab.get(&path).send().await.unwrap();
        assert_eq!(shown.status(), StatusCode::OK);
        // With `no-referrer`, browsers send `Origin: null` for its form.
        assert_eq!(shown.headers()["referrer-policy"], "same-origin");
        assert!(shown.headers().get("set-cookie").is_none());
    }
    let evil = lab.post(&path).header(ORIGIN, "https://evil.example").send().await.unwrap();
    assert_eq!(evil.status(), StatusCode::FORBIDDEN);
    let used = lab.post(&path).header(ORIGIN, &lab.base).send().await.unwrap();
    assert_eq!((used.status(), location(&used)), (StatusCode::SEE_OTHER, "/sign-in/password"));
    let cookie = cookie(used.headers()).unwrap();
    assert_eq!(lab.post(&path).send().await.unwrap().status(), StatusCode::UNAUTHORIZED);

    // After signing in with a link, the current password is not required.
    let page = lab.get("/sign-in/password").header(COOKIE, &cookie).send().await.unwrap().text().await.unwrap();
    assert!(!page.contains("name=current"), "{page}");
    let csrf = field(&page, "csrf");
    let set = async |csrf: &str, password: &str| {
        let form = [("csrf", csrf), ("password", password)];
        with_form(lab.post("/sign-in/password").header(COOKIE, &cookie), &form).send().await.unwrap().status().as_u16()
    };
    assert_eq!(set("0", "yet another one").await, 403);
    assert_eq!(set(&csrf, "short").await, 400);
    assert_eq!(set(&csrf, "yet another one").await, 303);
    assert_eq!(lab.login("bob", "yet another one").await.status(), StatusCode::OK);

    // After signing in with a password, it is.
    let cookie = crate::lab::cookie(lab.login("ann", PASSWORD).await.headers()).unwrap();
    let page = lab.get("/sign-in/password").header(COOKIE, &cookie).send().await.unwrap().text().await.unwrap();
    assert!(page.contains("name=current"), "{page}");
    let form = [("csrf", &*field(&page, "csrf")), ("password", "yet another one")];
    let set = with_form(lab.post("/sign-in/password").header(COOKIE, &cookie), &form).send().await.unwrap();
    assert_eq!(set.status(), StatusCode::FORBIDDEN);
}

#[tokio::test]
async fn behind_https_cookies_are_bound_to_the_host_and_https() {
    let lab = Lab::start(|auth| auth.public_url = Some("https://coracle.example".parse().unwrap())).await;
    lab.add("bob", coracle_store::Role::User).await;
    let response = lab.login("bob", PASSWORD).await;
    let set = response.headers()["set-cookie"].to_str().unwrap().to_owned();
    assert!(set.starts_with("__Host-coracle=") && set.ends_with("; Secure") && !set.contains("Domain"), "{set}");
    let cookie = cookie(response.headers()).unwrap();
    let make = async |origin: &str| {
        let request = lab.post("/api/keys").header(COOKIE, &cookie).header("x-coracle-csrf", "1");
        let request = request.header(ORIGIN, origin).header("host", "coracle.example");
        request.json(&json!({ "name": "x" })).send().await.unwrap().status().as_u16()
    };
    assert_eq!(make("https://coracle.example").await, 201);
    assert_eq!(make("https://chat.example").await, 403);
}
