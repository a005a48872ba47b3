//! Sign-in with a real OpenID provider, and its access tokens.

use crate::lab::{Lab, client, code, id, location};
use coracle_server::AuthOptions;
use coracle_store::{ForeignIdentity, Owner, Role, User};
use reqwest::header::{COOKIE, SET_COOKIE};
use reqwest::{Client, Method, Response, StatusCode};
use serde_json::{Value, json};
use sha2::{Digest, Sha256};
use std::collections::BTreeMap;
use std::io::{BufRead, BufReader};
use std::path::PathBuf;
use std::process::{Child, ChildStdout, Command, Stdio};
use std::time::{Duration, SystemTime};
use tokio::net::TcpListener;
use url::Url;

/// Provider that stops when dropped.
struct Provider {
    child: Child,
    /// Keeps the pipe open, because the provider does not survive a closed one.
    _said: BufReader<ChildStdout>,
    issuer: String,
}

impl Provider {
    fn start(redirect: &str) -> Self {
        let folder = std::env::var_os("CORACLE_TEST_SERVERS").map(PathBuf::from);
        let target = || PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join("../test-servers");
        let module = folder.unwrap_or_else(target).join("npm-oidc/node_modules/oidc-provider");
        assert!(module.is_dir(), "{} is missing: run `cargo xtask needs`", module.display());
        let mut child = Command::new("node")
            .arg(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/sign_in/provider.mjs"))
            .arg(json!({ "redirect": redirect }).to_string())
            .env("PROVIDER", module)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let mut issuer = String::new();
        let mut said = BufReader::new(child.stdout.take().unwrap());
        said.read_line(&mut issuer).unwrap();
        Self { child, _said: said, issuer: issuer.trim().to_owned() }
    }
}

impl Drop for Provider {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Server whose users sign in with the provider.
async fn lab(change: impl FnOnce(&mut AuthOptions)) -> (Lab, Provider) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let provider = Provider::start(&format!("http://{}/auth/oidc/callback", listener.local_addr().unwrap()));
    let lab = Lab::start_on(listener, |auth| {
        auth.oidc.issuer = Some(provider.issuer.clone());
        auth.oidc.client_id = Some("coracle".to_owned());
        auth.oidc.client_secret = Some(coracle_types::Secret::new("canary-client-secret"));
        auth.oidc.auto_create = true;
        change(auth);
    });
    (lab, provider)
}

/// Minimal browser: cookies, and redirects followed by hand.
struct Browser {
    http: Client,
    cookies: BTreeMap<String, BTreeMap<String, String>>,
}

impl Browser {
    fn new() -> Self {
        Self { http: client(), cookies: BTreeMap::new() }
    }

    async fn go(&mut self, method: Method, url: &Url, form: Option<&str>) -> Response {
        let origin = url.origin().ascii_serialization();
        let jar = self.cookies.entry(origin).or_default();
        let cookies: Vec<String> = jar.iter().map(|(name, value)| format!("{name}={value}")).collect();
        let mut request = self.http.request(method, url.clone()).header(COOKIE, cookies.join("; "));
        if let Some(form) = form {
            request = request.header("content-type", "application/x-www-form-urlencoded").body(form.to_owned());
        }
        let response = request.send().await.unwrap();
        for set in response.headers().get_all(SET_COOKIE) {
            let (name, value) = set.to_str().unwrap().split(';').next().unwrap().split_once('=').unwrap();
            if value.is_empty() {
                jar.remove(name);
            } else {
                jar.insert(name.to_owned(), value.to_owned());
            }
        }
        response
    }

    /// Follows redirects to a page, or to an address with this prefix.
    async fn follow(&mut self, mut url: Url, until: &str) -> (Url, Option<Response>) {
        for _ in 0..20 {
            if url.as_str().starts_with(until) {
                return (url, None);
            }
            let response = self.go(Method::GET, &url, None).await;
            if !response.status().is_redirection() {
                return (url, Some(response));
            }
            url = url.join(location(&response)).unwrap();
        }
        panic!("no end of redirects: {url}");
    }

    /// Follows the provider from the first address to the address that it sends the browser back to.
    async fn through_the_provider(&mut self, begin: Url, name: &str, back: &str) -> Url {
        let (mut url, mut page) = self.follow(begin, back).await;
        for form in [format!("prompt=login&login={name}&password=x"), "prompt=consent".to_owned()] {
            let Some(shown) = page else { break };
            let status = shown.status();
            let text = shown.text().await.unwrap();
            let prompt = form.split('&').next().unwrap().trim_start_matches("prompt=");
            assert!(status.is_success() && url.path().starts_with("/interaction/"), "{url} {status}: {text}");
            if !text.contains(&format!("value=\"{prompt}\"")) {
                page = Some(self.go(Method::GET, &url, None).await);
                continue;
            }
            let sent = self.go(Method::POST, &url, Some(&form)).await;
            (url, page) = self.follow(url.join(location(&sent)).unwrap(), back).await;
        }
        assert!(url.as_str().starts_with(back), "{url}");
        url
    }

    /// Signs in to Coracle, and returns the response to the callback.
    async fn sign_in(&mut self, lab: &Lab, name: &str, next: &str) -> Response {
        let mut begin = Url::parse(&lab.url("/auth/oidc/login")).unwrap();
        begin.query_pairs_mut().append_pair("next", next);
        let back = self.through_the_provider(begin, name, &lab.url("/auth/oidc/callback")).await;
        self.go(Method::GET, &back, None).await
    }

    async fn me(&mut self, lab: &Lab) -> Value {
        let url = Url::parse(&lab.url("/api/auth/me")).unwrap();
        self.go(Method::GET, &url, None).await.json().await.unwrap()
    }
}

#[tokio::test]
async fn users_sign_in_with_the_provider_and_keep_their_account() {
    let (lab, provider) = lab(|_| {}).await;
    lab.add("bob", Role::Admin).await;
    let mut browser = Browser::new();
    let page = lab.get("/sign-in?next=/x").send().await.unwrap().text().await.unwrap();
    assert!(page.contains("/auth/oidc/login?next=%2Fx"), "{page}");

    let response = browser.sign_in(&lab, "zoe", "/a?b=c").await;
    assert_eq!((response.status(), location(&response)), (StatusCode::SEE_OTHER, "/a?b=c"));
    let me = browser.me(&lab).await;
    let expected = json!({ "user": "zoe", "display_name": "zoe of the provider", "role": "user", "how": "session" });
    assert_eq!(me, expected);
    // The same user again, in another browser. Redirects stay local.
    for next in ["https://evil.example", "//evil.example", "/\\evil.example"] {
        let response = Browser::new().sign_in(&lab, "zoe", next).await;
        assert_eq!((response.status(), location(&response)), (StatusCode::SEE_OTHER, "/sign-in"));
    }
    assert_eq!(lab.people.all().await.unwrap().len(), 2);

    // The provider's bob is not the local bob.
    let mut other = Browser::new();
    other.sign_in(&lab, "bob", "/").await;
    let me = other.me(&lab).await;
    assert!(me["user"].as_str().unwrap().starts_with("bob-") && me["role"] == "user", "{me}");

    lab.people.set_disabled(&id("zoe"), true).await.unwrap();
    assert_eq!(browser.me(&lab).await["code"], "not_signed_in");
    let refused = Browser::new().sign_in(&lab, "zoe", "/").await;
    assert_eq!(refused.status(), StatusCode::FORBIDDEN);
    assert!(refused.headers().get(SET_COOKIE).is_none());
    let known = lab.people.find(&id("zoe")).await.unwrap();
    assert_eq!(known.foreign, Some(ForeignIdentity { issuer: provider.issuer.clone(), subject: "zoe".to_owned() }));
}

#[tokio::test]
async fn unknown_users_are_rejected_without_auto_create() {
    let (lab, provider) = lab(|auth| auth.oidc.auto_create = false).await;
    let refused = Browser::new().sign_in(&lab, "zoe", "/").await;
    assert_eq!(refused.status(), StatusCode::FORBIDDEN);
    assert!(refused.headers().get(SET_COOKIE).is_none());
    let foreign = Some(ForeignIdentity { issuer: provider.issuer.clone(), subject: "zoe".to_owned() });
    let user = User { foreign, ..User::new(id("z"), Role::Admin, SystemTime::now()) };
    lab.people.add(user, None).await.unwrap();
    let mut browser = Browser::new();
    assert_eq!(browser.sign_in(&lab, "zoe", "/").await.status(), StatusCode::SEE_OTHER);
    assert_eq!(browser.me(&lab).await["user"], "z");
}

#[tokio::test]
async fn only_verified_addresses_of_allowed_domains_are_added() {
    let (lab, _provider) = lab(|auth| auth.oidc.allowed_domains = vec!["Example.com".to_owned()]).await;
    assert_eq!(Browser::new().sign_in(&lab, "unverified-zoe", "/").await.status(), StatusCode::FORBIDDEN);
    assert_eq!(Browser::new().sign_in(&lab, "zoe", "/").await.status(), StatusCode::SEE_OTHER);
    let (other, _provider) = self::lab(|auth| auth.oidc.allowed_domains = vec!["ample.com".to_owned()]).await;
    assert_eq!(Browser::new().sign_in(&other, "zoe", "/").await.status(), StatusCode::FORBIDDEN);
}

#[tokio::test]
async fn a_sign_in_completes_once_and_in_the_browser_that_started_it() {
    let (lab, _provider) = lab(|_| {}).await;
    let (mut browser, mut victim) = (Browser::new(), Browser::new());
    let begin = Url::parse(&lab.url("/auth/oidc/login")).unwrap();
    let back = browser.through_the_provider(begin.clone(), "mallory", &lab.url("/auth/oidc/callback")).await;
    // A victim is lured to the callback, with and without a sign-in of their own.
    assert_eq!(victim.go(Method::GET, &back, None).await.status(), StatusCode::BAD_REQUEST);
    victim.go(Method::GET, &begin, None).await;
    assert_eq!(victim.go(Method::GET, &back, None).await.status(), StatusCode::BAD_REQUEST);
    let change = |name: &str, value: Option<&str>| {
        let pairs: Vec<(String, String)> = back.query_pairs().into_owned().filter(|(its, _)| its != name).collect();
        let mut changed = back.clone();
        changed.query_pairs_mut().clear().extend_pairs(pairs).extend_pairs(value.map(|value| (name, value)));
        changed
    };
    for wrong in [change("state", None), change("state", Some("other"))] {
        assert_eq!(browser.go(Method::GET, &wrong, None).await.status(), StatusCode::BAD_REQUEST);
    }
    assert_eq!(browser.go(Method::GET, &back, None).await.status(), StatusCode::SEE_OTHER);
    assert_eq!(browser.go(Method::GET, &back, None).await.status(), StatusCode::BAD_REQUEST);
    assert_eq!(browser.me(&lab).await["user"], "mallory");

    // An invalid code or a response from another provider is rejected as well, and uses up the state.
    for (name, value) in [("code", "none"), ("iss", "https://evil.example")] {
        let mut browser = Browser::new();
        let back = browser.through_the_provider(begin.clone(), "mallory", &lab.url("/auth/oidc/callback")).await;
        let pairs: Vec<(String, String)> = back.query_pairs().into_owned().filter(|(its, _)| its != name).collect();
        let mut changed = back.clone();
        changed.query_pairs_mut().clear().extend_pairs(pairs).append_pair(name, value);
        assert_eq!(browser.go(Method::GET, &changed, None).await.status(), StatusCode::UNAUTHORIZED, "{name}");
        assert_eq!(browser.go(Method::GET, &back, None).await.status(), StatusCode::BAD_REQUEST);
    }
}

/// Tokens of the provider for a resource, as an MCP client gets them.
async fn tokens(provider: &Provider, name: &str, resource: &str) -> Value {
    use base64::Engine as _;
    let verifier = "a".repeat(64);
    let challenge = base64::engine::general_purpose::URL_SAFE_NO_PAD.encode(Sha256::digest(verifier.as_bytes()));
    let back = "http://127.0.0.1:1/back";
    let mut begin = Url::parse(&format!("{}/auth", provider.issuer)).unwrap();
    begin.query_pairs_mut().extend_pairs([
        ("client_id", "mcp-client"),
        ("response_type", "code"),
        ("redirect_uri", back),
        ("scope", "openid mcp"),
        ("resource", resource),
        ("code_challenge", &challenge),
        ("code_challenge_method", "S256"),
    ]);
    let url = Browser::new().through_the_provider(begin, name, back).await;
    let (_, code) = url.query_pairs().find(|(name, _)| name == "code").unwrap_or_else(|| panic!("{url}"));
    let pairs = [
        ("grant_type", "authorization_code"),
        ("client_id", "mcp-client"),
        ("code", &code),
        ("redirect_uri", back),
        ("code_verifier", &verifier),
        ("resource", resource),
    ];
    let body = url::form_urlencoded::Serializer::new(String::new()).extend_pairs(pairs).finish();
    let request = client().post(format!("{}/token", provider.issuer));
    let request = request.header("content-type", "application/x-www-form-urlencoded").body(body);
    request.send().await.unwrap().json().await.unwrap()
}

#[tokio::test]
async fn access_tokens_must_be_for_this_server() {
    let (lab, provider) = lab(|_| {}).await;
    let metadata = lab.get("/.well-known/oauth-protected-resource/mcp").send().await.unwrap();
    let metadata: Value = metadata.json().await.unwrap();
    assert_eq!(metadata["authorization_servers"], json!([provider.issuer]));
    let resource = metadata["resource"].as_str().unwrap();

    let good = tokens(&provider, "zoe", resource).await;
    let access = good["access_token"].as_str().unwrap_or_else(|| panic!("{good:#}"));
    let by = async |token: &str| lab.user_by_mcp(|request| request.bearer_auth(token)).await;
    assert_eq!(by(access).await, Ok("zoe".to_owned()));
    // Access tokens never grant admin rights, whoever has them.
    lab.people.set_role(&id("zoe"), Role::Admin).await.unwrap();
    let users = lab.get("/api/users").bearer_auth(access).send().await.unwrap();
    assert_eq!(code(users).await, (403, "admins_only".to_owned()));

    let elsewhere = tokens(&provider, "zoe", "https://other.example/mcp").await;
    let [head, body, signature] = access.split('.').collect::<Vec<_>>()[..] else { panic!("{access}") };
    let none = "eyJhbGciOiJub25lIiwidHlwIjoiYXQrand0In0";
    let hmac = "eyJhbGciOiJIUzI1NiIsInR5cCI6ImF0K2p3dCJ9";
    let changed = if signature.starts_with('A') { "B" } else { "A" };
    for (token, why) in [
        (elsewhere["access_token"].as_str().unwrap().to_owned(), "for another resource"),
        (good["id_token"].as_str().unwrap().to_owned(), "for signing in to a client"),
        (format!("{none}.{body}."), "unsigned"),
        (format!("{hmac}.{body}.{signature}"), "signed with a known key"),
        (format!("{head}.{body}.{changed}{}", &signature[1..]), "another signature"),
        (format!("{head}.{body}"), "incomplete"),
    ] {
        assert_eq!(by(&token).await, Err(401), "{why}");
    }
    lab.people.set_disabled(&id("zoe"), true).await.unwrap();
    assert_eq!(by(access).await, Err(403));
    lab.people.set_disabled(&id("zoe"), false).await.unwrap();
    assert_eq!(by(access).await, Ok("zoe".to_owned()));
}

#[tokio::test]
async fn names_from_the_provider_do_not_collide() {
    let (lab, _provider) = lab(|auth| auth.user_id_proxies = vec!["127.0.0.0/8".parse().unwrap()]).await;
    lab.add("ann", Role::Admin).await;
    // Reserved names.
    for name in ["local", "LOCAL", "admin"] {
        let mut browser = Browser::new();
        assert_eq!(browser.sign_in(&lab, name, "/").await.status(), StatusCode::SEE_OTHER);
        let me = browser.me(&lab).await;
        let plain = name.to_lowercase();
        assert!(me["user"].as_str().unwrap().starts_with(&format!("{plain}-")) && me["role"] == "user", "{me}");
    }
    // A name that a proxy has used and that has data.
    let as_user = async |name: &str| lab.user_by_mcp(|request| request.header("x-user-id", name)).await;
    assert_eq!(as_user("carl").await, Ok("carl".to_owned()));
    lab.store.put_secret(&Owner::User(id("carl")), "token", &coracle_types::Secret::new("carl's")).await.unwrap();
    let mut carl = Browser::new();
    carl.sign_in(&lab, "carl", "/").await;
    assert!(carl.me(&lab).await["user"].as_str().unwrap().starts_with("carl-"));
    assert_eq!(as_user("carl").await, Ok("carl".to_owned()));
    // And the other way round.
    let mut zoe = Browser::new();
    zoe.sign_in(&lab, "zoe", "/").await;
    assert_eq!(zoe.me(&lab).await["user"], "zoe");
    assert_eq!(as_user("zoe").await, Err(403));
    assert_eq!(as_user("ann").await, Ok("ann".to_owned()));
}

#[tokio::test]
async fn a_key_created_with_an_access_token_expires_with_it() {
    let (lab, provider) = lab(|_| {}).await;
    let tokens = tokens(&provider, "zoe", &lab.url("/mcp")).await;
    let (access, lifetime) = (tokens["access_token"].as_str().unwrap(), tokens["expires_in"].as_u64().unwrap());
    let now = SystemTime::now();
    for wanted in [json!({ "name": "forever" }), json!({ "name": "long", "expires_in_days": 3000 })] {
        let made = lab.post("/api/keys").bearer_auth(access).json(&wanted).send().await.unwrap();
        let made: Value = made.json().await.unwrap();
        let end = humantime::parse_rfc3339(made["expires_at"].as_str().unwrap_or_default()).unwrap();
        assert!(end > now && end <= now + Duration::from_secs(lifetime + 1), "{made:#} outlives {lifetime} s");
    }
}
