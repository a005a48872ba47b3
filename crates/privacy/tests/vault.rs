//! Tokens, the vault, and the way there and back, with a real store.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on fails")]

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use coracle_privacy::{CustomPattern, Detector, DetectorSettings, Item, Matcher, UserVault, Vaults};
use coracle_store::{Home, KeySource, MemoryStore, SqliteStore, Store};
use coracle_types::UserId;
use serde_json::{Value, json};
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

fn user(name: &str) -> UserId {
    UserId::new(name).unwrap()
}

fn vaults(store: &Arc<dyn Store>) -> Vaults {
    Vaults::new(Arc::clone(store), Detector::default(), None)
}

async fn of(vaults: &Vaults, name: &str) -> Arc<UserVault> {
    vaults.of(&user(name)).await.unwrap()
}

fn memory() -> Arc<dyn Store> {
    Arc::new(MemoryStore::new())
}

async fn sqlite(folder: &Path) -> Arc<dyn Store> {
    Arc::new(SqliteStore::open(&Home::new(folder), KeySource::File).await.unwrap())
}

async fn tokenized(vault: &UserVault, text: &str) -> String {
    let mut text = text.to_owned();
    vault.tokenize_text(&mut text).await.unwrap();
    text
}

async fn restored(vault: &UserVault, text: &str) -> String {
    let mut text = text.to_owned();
    vault.restore_text(&mut text).await.unwrap();
    text
}

#[tokio::test]
async fn a_value_has_one_token_per_user() {
    let store = memory();
    let vaults = vaults(&store);
    let (ann, bob) = (of(&vaults, "ann").await, of(&vaults, "bob").await);
    let text = "write to kim@example.org, and to lou@example.net";
    let token = tokenized(&ann, "kim@example.org").await;
    let replaced = tokenized(&ann, text).await;
    assert!(replaced.starts_with(&format!("write to {token}, and to [EMAIL_")), "{replaced}");
    assert_eq!(tokenized(&ann, text).await, replaced);
    assert_ne!(tokenized(&bob, text).await, replaced);
    assert_eq!(restored(&ann, &replaced).await, text);
    assert_eq!(restored(&bob, &replaced).await, replaced, "a token of another user stays as it is");
    let unknown = "[EMAIL_0123456789abcdef]";
    assert_eq!(restored(&ann, unknown).await, unknown);
    assert_eq!(tokenized(&ann, &replaced).await, replaced, "tokens are no personal data");
    let report = ann.tokenize_text(&mut text.to_owned()).await.unwrap();
    assert_eq!((report.count, report.labels.into_iter().collect::<Vec<_>>()), (2, vec!["EMAIL".to_owned()]));
}

#[tokio::test]
async fn json_comes_back_exactly() {
    let store = memory();
    let vaults = vaults(&store);
    let vault = of(&vaults, "ann").await;
    let original = json!({
        "customers": [
            {"first_name": "Kimberley", "mail": "kim@example.org", "phone": 4_155_550_123_u64, "phones": ["4155550123"]},
            {"first_name": "Louis", "mail": ["lou@example.net", "kim@example.org"], "phone": -4_155_550_199_i64},
        ],
        "by": {"kim@example.org": {"lou@example.net": 1}},
        "count": 2, "share": 0.1, "none": null, "empty": "",
    });
    let mut value = original.clone();
    vault.tokenize_json(&mut value).await.unwrap();
    let text = value.to_string();
    for raw in ["Kim", "kim@", "4155550123", "Louis", "lou@", "4155550199"] {
        assert!(!text.contains(raw), "{raw}: {text}");
        assert!(original.to_string().contains(raw), "the control");
    }
    assert_eq!(value["count"], 2);
    assert_ne!(value["customers"][0]["phone"], value["customers"][0]["phones"][0], "a number has another token");
    vault.restore_json(&mut value).await.unwrap();
    assert_eq!(value, original);
}

#[tokio::test]
async fn what_was_found_once_is_found_in_every_form() {
    let mut settings = DetectorSettings::default();
    settings.names = false;
    let vaults = Vaults::new(memory(), Detector::new(settings).unwrap(), None);
    let vault = of(&vaults, "ann").await;
    let print = "Kim Quinn, KIM QUINN, S2ltIFF1aW5u, 4b696d205175696e6e, Kim%20Quinn, ann.Kim Quinn9";
    assert_eq!(tokenized(&vault, print).await, print, "the control: nothing tells that it is a name");
    vault.learn(&json!({"name": "Kim Quinn"})).unwrap();
    let safe = tokenized(&vault, print).await;
    let encoded = STANDARD.encode("Kim Quinn");
    for raw in ["Kim", "KIM", &encoded[2..10], "4b696d", "Quinn"] {
        assert!(!safe.contains(raw), "{raw}: {safe}");
    }
    assert_eq!(restored(&vault, &safe).await, print);
}

#[tokio::test]
async fn a_name_in_one_text_is_replaced_in_all() {
    let store = memory();
    let vaults = vaults(&store);
    let vault = of(&vaults, "ann").await;
    let mut first = "hello Kim Quinn".to_owned();
    let mut second = r#"[{"name": "Kim Quinn"}]"#.to_owned();
    vault.tokenize(&mut [Item::Text(&mut first), Item::Text(&mut second)]).await.unwrap();
    assert!(first.starts_with("hello [PERSON_") && !second.contains("Kim"), "{first} {second}");
    assert_eq!(restored(&vault, &second).await, r#"[{"name": "Kim Quinn"}]"#);
}

#[tokio::test]
async fn a_restored_value_keeps_json_and_urls_valid() {
    let mut settings = DetectorSettings::default();
    settings.custom.push(CustomPattern {
        label: "NAME".to_owned(),
        matcher: Matcher::Regex("Kim \"K\" Quinn\n?".to_owned()),
        context: Vec::new(),
        confidence: 100,
    });
    let vaults = Vaults::new(memory(), Detector::new(settings).unwrap(), None);
    let vault = of(&vaults, "ann").await;
    let mut value = json!({"name": "Kim \"K\" Quinn\n"});
    vault.tokenize_json(&mut value).await.unwrap();
    let token = value["name"].as_str().unwrap().to_owned();
    let body = restored(&vault, &format!("{{\"to\": \"{token}\"}}")).await;
    assert_eq!(serde_json::from_str::<Value>(&body).unwrap(), json!({"to": "Kim \"K\" Quinn\n"}));
    let url =
        restored(&vault, &format!("https://x.example/?q={}", token.replace('[', "%5B").replace(']', "%5D"))).await;
    assert_eq!(url, "https://x.example/?q=Kim%20%22K%22%20Quinn%0A");
    assert_eq!(restored(&vault, &format!("to {token}!")).await, "to Kim \"K\" Quinn\n!");
}

#[tokio::test]
async fn tokens_outlive_the_process() {
    let folder = tempfile::tempdir().unwrap();
    let text = "kim@example.org or +1 415 555 0123";
    let first = {
        let store = sqlite(folder.path()).await;
        let vaults = vaults(&store);
        tokenized(&*of(&vaults, "ann").await, text).await
    };
    let store = sqlite(folder.path()).await;
    let vaults = vaults(&store);
    let vault = of(&vaults, "ann").await;
    assert_eq!(restored(&vault, &first).await, text);
    assert_eq!(tokenized(&vault, text).await, first);
    assert_eq!(vaults.rotate(&user("ann")).await.unwrap(), 2);
    vaults.forget(&user("ann"));
    assert_eq!(restored(&*of(&vaults, "ann").await, &first).await, text, "the key was rotated");
    for entry in std::fs::read_dir(folder.path().join("store")).unwrap() {
        let bytes = std::fs::read(entry.unwrap().path()).unwrap();
        assert!(!bytes.windows(15).any(|part| part == b"kim@example.org"), "values are sealed");
    }
}

#[tokio::test]
async fn a_deleted_vault_restores_nothing() {
    let store = memory();
    let vaults = vaults(&store);
    let token = tokenized(&*of(&vaults, "ann").await, "kim@example.org").await;
    assert!(vaults.delete(&user("ann")).await.unwrap());
    assert_eq!(restored(&*of(&vaults, "ann").await, &token).await, token);
    let new = tokenized(&*of(&vaults, "ann").await, "kim@example.org").await;
    assert_ne!(new, token, "the key is another one");
    assert_eq!(restored(&*of(&vaults, "ann").await, &new).await, "kim@example.org", "the control");
}

#[tokio::test]
async fn old_values_expire() {
    let store = memory();
    let vaults = Vaults::new(Arc::clone(&store), Detector::default(), Some(Duration::from_hours(24) * 10));
    let vault = of(&vaults, "ann").await;
    let token = tokenized(&vault, "kim@example.org").await;
    assert_eq!(restored(&vault, &token).await, "kim@example.org", "the control");
    let found = store.values(&user("ann"), std::slice::from_ref(&token)).await.unwrap();
    assert!(found[0].last_used > SystemTime::now() - Duration::from_hours(1));
    store.forget_values(SystemTime::now() + Duration::from_hours(1)).await.unwrap();
    vaults.forget(&user("ann"));
    let old = SystemTime::now() - Duration::from_hours(24) * 20;
    store.put_values(&user("ann"), &[coracle_store::VaultValue { last_used: old, ..found[0].clone() }]).await.unwrap();
    assert_eq!(restored(&*of(&vaults, "ann").await, &token).await, token);
}

/// Random JSON with values that are found, in strings, keys and numbers.
fn random(random: &mut fastrand::Rng, depth: usize, raw: &mut Vec<String>) -> Value {
    let personal = |random: &mut fastrand::Rng, raw: &mut Vec<String>| {
        let value = match random.u8(..3) {
            0 => format!("user{}@example{}.org", random.u32(..), random.u8(..9)),
            _ => format!("+1 415 555 {:04}", random.u32(..10_000)),
        };
        raw.push(value.clone());
        value
    };
    match random.u8(..if depth == 0 { 6 } else { 8 }) {
        0 => Value::Null,
        1 => json!(random.i32(..1_000_000)),
        2 => json!(random.f64()),
        3 => Value::from(personal(random, raw)),
        4 => {
            let number = random.u64(4_155_550_000..4_155_560_000);
            raw.push(number.to_string());
            json!({"phone": number})
        }
        5 => Value::from(format!("é {} \"x\" {}\n", personal(random, raw), personal(random, raw))),
        6 => (0..random.usize(..4)).map(|_| self::random(random, depth - 1, raw)).collect(),
        _ => {
            let keys: Vec<String> = (0..random.usize(..4)).map(|_| personal(random, raw)).collect();
            keys.into_iter().map(|key| (key, self::random(random, depth - 1, raw))).collect()
        }
    }
}

#[tokio::test]
async fn random_json_comes_back_exactly_and_leaks_nothing() {
    let store = memory();
    let vaults = vaults(&store);
    let vault = of(&vaults, "ann").await;
    let mut rng = fastrand::Rng::with_seed(7);
    let mut seen = 0;
    for _ in 0..2_000 {
        let mut raw = Vec::new();
        let original = random(&mut rng, 4, &mut raw);
        let mut value = original.clone();
        vault.tokenize_json(&mut value).await.unwrap();
        let text = value.to_string();
        for value in raw.iter().filter(|value| original.to_string().contains(value.as_str())) {
            assert!(!text.contains(value.as_str()), "{value} in {text} from {original}");
            seen += 1;
        }
        vault.restore_json(&mut value).await.unwrap();
        assert_eq!(value, original);
    }
    assert!(seen > 1_000, "{seen}");
}

#[tokio::test]
async fn hostile_text_costs_no_more_than_other_text() {
    let store = memory();
    let vaults = vaults(&store);
    let vault = of(&vaults, "ann").await;
    for part in
        ["[", "[EMAIL_0123456789abcde", "%5b", "[EMAIL_0123456789abcdef]", "a@b.c ", "\u{0}é", "{[", "%", "QUJD"]
    {
        let text = part.repeat(20_000);
        let safe = tokenized(&vault, &text).await;
        assert_eq!(restored(&vault, &safe).await, text);
    }
}

#[tokio::test]
async fn tokens_in_attachments_and_numbers_in_json_come_back_exactly() {
    let store = memory();
    let vaults = vaults(&store);
    let vault = of(&vaults, "ann").await;
    let original = json!({"mail": "kim@example.org", "phone": 4_155_550_123_u64, "float": 4_155_550_123.0});
    let mut value = original.clone();
    vault.tokenize_json(&mut value).await.unwrap();
    let safe = value.to_string();
    assert!(safe.contains("[PHONE_") && !safe.contains("4155550123"), "{safe}");
    let text = restored(&vault, &safe).await;
    assert_eq!(serde_json::from_str::<Value>(&text).unwrap(), original, "{text}");
    for encoded in [STANDARD.encode(&safe), format!("data:text/csv;base64,{}", STANDARD.encode(&safe))] {
        let sent = restored(&vault, &encoded).await;
        let plain = STANDARD.decode(sent.rsplit(',').next().unwrap()).unwrap();
        assert_eq!(serde_json::from_slice::<Value>(&plain).unwrap(), original, "{sent}");
        assert_eq!(sent.contains("data:text/csv;base64,"), encoded.contains("data:"), "{sent}");
    }
    let other = STANDARD.encode("a list: [EMAIL_0123456789abcdef]");
    assert_eq!(restored(&vault, &other).await, other, "a token of nobody stays as it is");
}
