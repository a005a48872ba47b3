//! Random JSON comes back exactly, whatever is in it, and what was found is not in what is between.

use coracle_privacy::{Detector, DetectorSettings, Vaults};
use coracle_store::MemoryStore;
use coracle_types::UserId;
use fastrand::Rng;
use serde_json::{Map, Value, json};
use std::sync::Arc;

const CASES: usize = 3_000;

fn word(rng: &mut Rng) -> String {
    (0..rng.usize(4..9)).map(|_| rng.lowercase()).collect()
}

/// A value with an address or a number in it, which is returned, too.
fn planted(rng: &mut Rng) -> (Value, String) {
    let mail = format!("{}.{}@{}.org", word(rng), word(rng), word(rng));
    let digits = rng.u64(2_010_000_000..9_990_000_000);
    match rng.u8(..7) {
        0 => (json!(mail), mail),
        1 => (json!(format!("ask \"{mail}\",\n\t\\ and {}", word(rng))), mail),
        2 => (json!({ &mail: rng.bool() }), mail),
        3 => (json!({ "phone": digits }), digits.to_string()),
        4 => (json!({ "phone": -digits.cast_signed() }), digits.to_string()),
        5 => (json!(json!({ "to": [mail], "n": 1 }).to_string()), mail),
        // It is found once as it is, and therefore also in the address.
        _ => (json!([mail, format!("https://a.org/?q={}", mail.replace('@', "%40"))]), mail),
    }
}

fn any(rng: &mut Rng, depth: usize, values: &mut Vec<String>) -> Value {
    match rng.u8(..12) {
        0 => json!(rng.f64() * 10_f64.powi(rng.i32(-300..300))),
        1 => json!(rng.u64(..)),
        2 => json!(rng.i64(..)),
        3 => json!(null),
        4 => json!(rng.bool()),
        5 => (0..rng.usize(..20)).map(|_| rng.char(..)).collect::<String>().into(),
        6 | 7 if depth < 4 => (0..rng.usize(..4)).map(|_| any(rng, depth + 1, values)).collect(),
        8 | 9 if depth < 4 => {
            let entries = (0..rng.usize(..4)).map(|_| (word(rng), any(rng, depth + 1, values)));
            Value::Object(entries.collect::<Map<String, Value>>())
        }
        _ => {
            let (value, text) = planted(rng);
            values.push(text);
            value
        }
    }
}

#[tokio::test]
async fn random_json_comes_back_exactly() {
    let seed = fastrand::u64(..);
    println!("seed {seed}");
    let mut rng = Rng::with_seed(seed);
    let mut settings = DetectorSettings::default();
    // The network takes most of the time, and the way back does not depend on the kind.
    settings.names = false;
    let vaults = Vaults::new(Arc::new(MemoryStore::new()), Detector::new(settings).unwrap(), None);
    let vault = vaults.of(&UserId::local()).await.unwrap();
    let mut hidden = 0;
    for case in 0..CASES {
        let mut values = Vec::new();
        let original = any(&mut rng, 0, &mut values);
        let mut value = original.clone();
        vault.tokenize_json(&mut value).await.unwrap();
        let between = value.to_string();
        for planted in &values {
            assert!(!between.contains(planted.as_str()), "seed {seed}, case {case}: {planted} in {between}");
            assert!(
                !between.contains(&planted.replace('@', "%40")),
                "seed {seed}, case {case}: {planted} in {between}"
            );
        }
        hidden += values.len();
        // As it is sent to a tool.
        let mut back: Value = serde_json::from_str(&between).unwrap();
        vault.restore_json(&mut back).await.unwrap();
        assert_eq!(back, original, "seed {seed}, case {case}: {between}");
        let mut text = original.to_string();
        vault.tokenize_text(&mut text).await.unwrap();
        vault.restore_text(&mut text).await.unwrap();
        assert_eq!(text, original.to_string(), "seed {seed}, case {case}");
    }
    assert!(hidden > CASES / 10, "only {hidden} values in {CASES} cases");
}
