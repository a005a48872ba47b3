//! Invalid and revoked access tokens, signed by a scripted provider.

use crate::lab::Lab;
use axum::extract::State;
use axum::routing::get;
use axum::{Json, Router};
use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use ring::rand::SystemRandom;
use ring::signature::{ECDSA_P256_SHA256_FIXED_SIGNING, EcdsaKeyPair, KeyPair};
use serde_json::{Value, json};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};
use tokio::net::TcpListener;

fn key() -> EcdsaKeyPair {
    let random = SystemRandom::new();
    let pkcs8 = EcdsaKeyPair::generate_pkcs8(&ECDSA_P256_SHA256_FIXED_SIGNING, &random).unwrap();
    EcdsaKeyPair::from_pkcs8(&ECDSA_P256_SHA256_FIXED_SIGNING, pkcs8.as_ref(), &random).unwrap()
}

fn signed(key: &EcdsaKeyPair, header: &Value, claims: &Value) -> String {
    let part = |value: &Value| URL_SAFE_NO_PAD.encode(value.to_string());
    let message = format!("{}.{}", part(header), part(claims));
    let signature = key.sign(&SystemRandom::new(), message.as_bytes()).unwrap();
    format!("{message}.{}", URL_SAFE_NO_PAD.encode(signature))
}

/// Metadata and keys of the issuer, with the number of requests for the keys.
type Said = Arc<(Value, Mutex<Value>, AtomicUsize)>;

fn published(key: &EcdsaKeyPair, id: &str) -> Value {
    let point = key.public_key().as_ref();
    let (x, y) = (URL_SAFE_NO_PAD.encode(&point[1..33]), URL_SAFE_NO_PAD.encode(&point[33..]));
    json!({ "keys": [
        { "kty": "new kind", "kid": "unknown to anybody" },
        { "kty": "EC", "crv": "P-256", "x": x, "y": y, "kid": id, "alg": "ES256", "use": "sig" },
    ] })
}

async fn issuer(key: &EcdsaKeyPair) -> (String, Said) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let base = format!("http://{}", listener.local_addr().unwrap());
    let about = json!({ "issuer": base, "authorization_endpoint": format!("{base}/auth"),
        "token_endpoint": format!("{base}/token"), "jwks_uri": format!("{base}/jwks") });
    let said: Said = Arc::new((about, Mutex::new(published(key, "k1")), AtomicUsize::new(0)));
    let router = Router::new()
        .route("/.well-known/openid-configuration", get(async |State(said): State<Said>| Json(said.0.clone())))
        .route(
            "/jwks",
            get(async |State(said): State<Said>| {
                said.2.fetch_add(1, Ordering::SeqCst);
                Json(said.1.lock().unwrap().clone())
            }),
        )
        .with_state(Arc::clone(&said));
    tokio::spawn(async move { axum::serve(listener, router).await });
    (base, said)
}

#[tokio::test]
async fn only_valid_tokens_are_accepted() {
    let (own, other) = (key(), key());
    let (issuer, said) = issuer(&own).await;
    let lab = Lab::start(|auth| {
        auth.oidc.issuer = Some(issuer.clone());
        auth.oidc.auto_create = true;
        auth.oidc.audience = Some("an-audience-by-name".to_owned());
    })
    .await;
    let by = async |token: String| lab.user_by_mcp(|request| request.bearer_auth(token)).await;
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_secs();
    let header = json!({ "alg": "ES256", "typ": "at+jwt", "kid": "k1" });
    let claims =
        json!({ "iss": issuer, "sub": "zoe", "aud": format!("{}/mcp", lab.base), "exp": now + 600, "nbf": now - 5 });
    let with = |name: &str, value: Value| {
        let mut claims = claims.clone();
        claims[name] = value;
        claims
    };
    let without = |name: &str| {
        let mut claims = claims.clone();
        claims.as_object_mut().unwrap().remove(name);
        claims
    };
    for good in [
        claims.clone(),
        with("aud", json!(["https://other.example", format!("{}/mcp", lab.base)])),
        with("aud", json!("an-audience-by-name")),
    ] {
        assert_eq!(by(signed(&own, &header, &good)).await, Ok("zoe".to_owned()), "{good}");
    }
    for (bad, why) in [
        (with("exp", json!(now - 3600)), "it has expired"),
        (with("nbf", json!(now + 3600)), "it is not valid yet"),
        (with("iss", json!("https://evil.example")), "another issuer"),
        (with("aud", json!("https://other.example/mcp")), "another audience"),
        (with("aud", json!(format!("{}/mcp/", lab.base))), "almost the audience"),
        (with("aud", json!([])), "no audience"),
        (without("aud"), "no audience at all"),
        (without("exp"), "no end"),
        (without("iss"), "no issuer"),
        (without("sub"), "no subject"),
    ] {
        assert_eq!(by(signed(&own, &header, &bad)).await, Err(401), "{why}");
    }
    for (signer, header, why) in [
        (&other, header.clone(), "signed with another key"),
        (&own, json!({ "alg": "ES256", "kid": "k2" }), "unknown key"),
        (&own, json!({ "alg": "RS256", "kid": "k1" }), "another algorithm than the key's"),
        (&own, json!({ "alg": "HS256", "kid": "k1" }), "symmetric key"),
        (&own, json!({ "alg": "none" }), "by nobody"),
    ] {
        assert_eq!(by(signed(signer, &header, &claims)).await, Err(401), "{why}");
    }
    // Unknown keys do not cause repeated requests.
    assert_eq!(said.2.load(Ordering::SeqCst), 1);
    assert_eq!(by(signed(&own, &json!({ "alg": "ES256" }), &claims)).await, Ok("zoe".to_owned()));
}

/// A provider that changes its keys is asked again after a while, and withdrawn keys are then rejected.
#[tokio::test]
async fn new_keys_of_the_provider_are_found_and_old_ones_rejected() {
    let (old, new) = (key(), key());
    let (issuer, said) = issuer(&old).await;
    let lab = Lab::start(|auth| {
        auth.oidc.issuer = Some(issuer.clone());
        auth.oidc.auto_create = true;
    })
    .await;
    let by = async |key: &EcdsaKeyPair, id: &str| {
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_secs();
        let claims = json!({ "iss": issuer, "sub": "zoe", "aud": format!("{}/mcp", lab.base), "exp": now + 600 });
        let token = signed(key, &json!({ "alg": "ES256", "kid": id }), &claims);
        lab.user_by_mcp(|request| request.bearer_auth(token)).await
    };
    assert_eq!(by(&old, "k1").await, Ok("zoe".to_owned()));
    assert_eq!(by(&new, "k2").await, Err(401), "not published yet");
    *said.1.lock().unwrap() = published(&new, "k2");
    let begun = Instant::now();
    while by(&new, "k2").await != Ok("zoe".to_owned()) {
        assert!(begun.elapsed() < Duration::from_mins(1), "the new key is never found");
        tokio::time::sleep(Duration::from_millis(500)).await;
    }
    assert_eq!(by(&old, "k1").await, Err(401), "taken back");
    assert_eq!(said.2.load(Ordering::SeqCst), 2, "requested once more, not for each token");
}
