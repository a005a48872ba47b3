use crate::given::{owner, owners, server};
use coracle_store::{MAX_NAME_BYTES, MAX_SHAPE_BYTES, Owner, Shape, Store, StoreError};
use serde_json::{Value, json};
use std::sync::Arc;
use tokio::task::JoinSet;

const WRITERS: u64 = 16;

pub(crate) async fn a_shape_is_written_only_at_the_version_that_was_read(store: Arc<dyn Store>) {
    let (owner, git) = (owner("ann"), server("git"));
    assert_eq!(store.shape(&owner, &git, "log").await.unwrap(), None);
    for wrong in [1, 7, u64::MAX] {
        let refused = store.put_shape(&owner, &git, "log", &json!({}), wrong).await.unwrap_err();
        assert_eq!(refused.code(), "store_conflict", "there is no version {wrong}");
    }
    assert_eq!(store.shape(&owner, &git, "log").await.unwrap(), None);

    assert_eq!(store.put_shape(&owner, &git, "log", &json!({"type": "string"}), 0).await.unwrap(), 1);
    assert_eq!(store.put_shape(&owner, &git, "log", &json!({"type": "array"}), 1).await.unwrap(), 2);
    for wrong in [0, 1, 3, u64::MAX] {
        let refused = store.put_shape(&owner, &git, "log", &json!("lost"), wrong).await.unwrap_err();
        assert!(matches!(refused, StoreError::Conflict { expected, .. } if expected == wrong), "{refused}");
    }
    let expected = Shape { value: json!({"type": "array"}), version: 2 };
    assert_eq!(store.shape(&owner, &git, "log").await.unwrap(), Some(expected));
}

pub(crate) async fn exactly_one_of_many_writers_succeeds(store: Arc<dyn Store>) {
    for round in 0..20 {
        let mut writers = JoinSet::new();
        for writer in 0..WRITERS {
            let store = Arc::clone(&store);
            writers.spawn(async move {
                let written = store.put_shape(&Owner::Shared, &server("git"), "log", &json!(writer), round).await;
                match written {
                    Ok(version) => Some((writer, version)),
                    Err(StoreError::Conflict { .. }) => None,
                    Err(other) => panic!("{other}"),
                }
            });
        }
        let winners: Vec<_> = writers.join_all().await.into_iter().flatten().collect();
        let [(winner, version)] = winners[..] else { panic!("{winners:?}") };
        let kept = store.shape(&Owner::Shared, &server("git"), "log").await.unwrap().unwrap();
        assert_eq!(kept, Shape { value: json!(winner), version });
    }
}

pub(crate) async fn no_increment_is_lost(store: Arc<dyn Store>) {
    const EACH: u64 = 10;
    let mut writers = JoinSet::new();
    for _ in 0..WRITERS {
        let store = Arc::clone(&store);
        writers.spawn(async move {
            for _ in 0..EACH {
                increment(store.as_ref()).await;
            }
        });
    }
    writers.join_all().await;
    let kept = store.shape(&Owner::Shared, &server("git"), "count").await.unwrap().unwrap();
    assert_eq!(kept, Shape { value: json!(WRITERS * EACH), version: WRITERS * EACH });
}

async fn increment(store: &dyn Store) {
    loop {
        let (count, version) = match store.shape(&Owner::Shared, &server("git"), "count").await.unwrap() {
            Some(shape) => (shape.value.as_u64().unwrap(), shape.version),
            None => (0, 0),
        };
        match store.put_shape(&Owner::Shared, &server("git"), "count", &json!(count + 1), version).await {
            Ok(_) => return,
            Err(StoreError::Conflict { .. }) => tokio::task::yield_now().await,
            Err(other) => panic!("{other}"),
        }
    }
}

pub(crate) async fn shapes_of_owners_and_tools_are_separate(store: Arc<dyn Store>) {
    let git = server("git");
    for (number, owner) in owners().iter().enumerate() {
        for tool in ["log", "Log", "log "] {
            store.put_shape(owner, &git, tool, &json!([number, tool]), 0).await.unwrap();
        }
        store.put_shape(owner, &server("other"), "log", &json!("other"), 0).await.unwrap();
    }
    for (number, owner) in owners().iter().enumerate() {
        let shape = |tool: &str| (tool.to_owned(), Shape { value: json!([number, tool]), version: 1 });
        assert_eq!(store.shapes(owner, &git).await.unwrap(), [shape("Log"), shape("log"), shape("log ")]);
    }
    assert_eq!(store.shapes(&owner("bob"), &git).await.unwrap(), []);
}

pub(crate) async fn a_shape_that_is_too_large_changes_nothing(store: Arc<dyn Store>) {
    let git = server("git");
    let text = |length: usize| Value::from("x".repeat(length - 2));
    let refused = store.put_shape(&Owner::Shared, &git, "log", &text(MAX_SHAPE_BYTES + 1), 0).await.unwrap_err();
    assert!(matches!(refused, StoreError::TooLarge { max: MAX_SHAPE_BYTES, .. }), "{refused}");
    assert_eq!(store.shape(&Owner::Shared, &git, "log").await.unwrap(), None);
    assert_eq!(store.put_shape(&Owner::Shared, &git, "log", &text(MAX_SHAPE_BYTES), 0).await.unwrap(), 1);
}

pub(crate) async fn names_are_any_text(store: Arc<dyn Store>) {
    let git = server("git");
    let names = [
        "a.b".to_owned(),
        "../../x".to_owned(),
        "'; DROP TABLE shapes; --".to_owned(),
        "%".to_owned(),
        "\u{202e}\n\u{1f600}".to_owned(),
        "é".to_owned(),
        "e\u{301}".to_owned(),
        "x".repeat(MAX_NAME_BYTES),
    ];
    for (number, name) in names.iter().enumerate() {
        store.put_shape(&Owner::Shared, &git, name, &json!(number), 0).await.unwrap();
    }
    for (number, name) in names.iter().enumerate() {
        let found = store.shape(&Owner::Shared, &git, name).await.unwrap().unwrap();
        assert_eq!(found.value, json!(number), "{name:?}");
    }
    assert_eq!(store.shapes(&Owner::Shared, &git).await.unwrap().len(), names.len());
}

pub(crate) async fn names_that_cannot_be_keys_are_rejected(store: Arc<dyn Store>) {
    let git = server("git");
    let long = "x".repeat(MAX_NAME_BYTES + 1);
    for (name, code) in [("", "store_invalid_name"), ("a\0b", "store_invalid_name"), (&long, "store_too_large")] {
        let refused = store.put_shape(&Owner::Shared, &git, name, &json!({}), 0).await.unwrap_err();
        assert_eq!(refused.code(), code);
        assert_eq!(store.shape(&Owner::Shared, &git, name).await.unwrap(), None);
    }
    store.put_shape(&Owner::Shared, &git, "a", &json!({}), 0).await.unwrap();
}
