use crate::given::{at, user};
use coracle_store::{
    ArtifactRecord, ArtifactUsage, LEAST_CHARGE, MAX_PAGE, MAX_PATH_BYTES, NewArtifact, Store, StoreError,
};
use coracle_types::{ArtifactId, ExecutionId, Preview, SessionId};
use std::sync::Arc;

const ROOMY: u64 = 1 << 40;

fn id(name: &str) -> ArtifactId {
    ArtifactId::new(name).unwrap()
}

fn execution(name: &str) -> ExecutionId {
    ExecutionId::new(name).unwrap()
}

fn new(id_if_new: &str, name: &str, by: &str, when: u64) -> NewArtifact {
    NewArtifact {
        id: id(id_if_new),
        name: name.to_owned(),
        execution_id: execution(by),
        session: None,
        mime: "text/plain".to_owned(),
        bytes: 10_000,
        sha256: "00".repeat(32),
        created_at: at(when),
        preview: None,
    }
}

async fn add(store: &dyn Store, whose: &str, new: NewArtifact) -> (ArtifactId, u64) {
    store.add_artifacts(&user(whose), &[new], ROOMY).await.unwrap().remove(0).unwrap()
}

fn numbers(record: &ArtifactRecord) -> Vec<u64> {
    record.versions.iter().map(|version| version.version).collect()
}

pub(crate) async fn the_same_name_again_is_a_new_version(store: Arc<dyn Store>) {
    let mut first = new("a1", "plots/ü \"x\".png", "e1", 5);
    first.session = Some(SessionId::new("s").unwrap());
    first.preview = Some(Preview::Image { width: Some(3), height: None });
    assert_eq!(add(&*store, "ann", first.clone()).await, (id("a1"), 1));
    assert_eq!(add(&*store, "ann", new("a2", &first.name, "e2", 6)).await, (id("a1"), 2));
    assert_eq!(add(&*store, "ann", new("a3", "other", "e2", 6)).await, (id("a3"), 1));
    let found = store.artifact(&user("ann"), &id("a1")).await.unwrap().unwrap();
    assert_eq!((found.name.as_str(), found.count, numbers(&found)), (first.name.as_str(), 2, vec![2, 1]));
    let oldest = &found.versions[1];
    assert_eq!((&oldest.execution_id, &oldest.session), (&execution("e1"), &first.session));
    assert_eq!((oldest.created_at, oldest.bytes, &oldest.preview), (at(5), 10_000, &first.preview));
    let of_first = store.artifact_of(&user("ann"), &execution("e1"), &first.name).await.unwrap().unwrap();
    assert_eq!((of_first.id.clone(), numbers(&of_first), of_first.count), (id("a1"), vec![1], 2));
    assert_eq!(store.artifact_version(&user("ann"), &id("a1"), 1).await.unwrap(), Some(of_first));
    assert_eq!(store.artifact_version(&user("ann"), &id("a1"), 3).await.unwrap(), None);
    assert_eq!(store.artifact_of(&user("ann"), &execution("e1"), "other").await.unwrap(), None);
}

pub(crate) async fn artifacts_are_paged_from_the_last_changed(store: Arc<dyn Store>) {
    for (name, when) in [("b", 5), ("d", 9), ("a", 5), ("c", 5), ("e", 1)] {
        add(&*store, "ann", new(name, name, "x", when)).await;
    }
    let ids = async |limit: usize, before: Option<&str>| -> Vec<String> {
        let before = before.map(id);
        let page = store.artifacts(&user("ann"), limit, before.as_ref()).await.unwrap();
        assert!(page.iter().all(|record| record.versions.len() == 1));
        page.into_iter().map(|record| record.id.into()).collect()
    };
    assert_eq!(ids(MAX_PAGE, None).await, ["d", "c", "b", "a", "e"]);
    assert_eq!(ids(2, Some("c")).await, ["b", "a"]);
    assert_eq!(ids(2, Some("unknown")).await, [""; 0]);
    add(&*store, "ann", new("z", "e", "y", 10)).await;
    assert_eq!(ids(2, None).await, ["e", "d"]);
    assert_eq!(numbers(&store.artifacts(&user("ann"), 1, None).await.unwrap()[0]), [2]);
}

pub(crate) async fn artifacts_of_users_are_separate(store: Arc<dyn Store>) {
    add(&*store, "ann", new("anns", "same", "e1", 1)).await;
    assert_eq!(add(&*store, "bob", new("bobs", "same", "e1", 1)).await, (id("bobs"), 1));
    let bob = user("bob");
    assert_eq!(store.artifact(&bob, &id("anns")).await.unwrap(), None);
    assert_eq!(store.artifact_version(&bob, &id("anns"), 1).await.unwrap(), None);
    assert_eq!(store.delete_artifact(&bob, &id("anns"), None).await.unwrap(), None);
    assert_eq!(store.artifacts(&bob, 10, Some(&id("anns"))).await.unwrap(), []);
    assert_eq!(store.artifact_of(&bob, &execution("e1"), "same").await.unwrap().unwrap().id, id("bobs"));
    store.delete_artifacts(&bob).await.unwrap();
    assert_eq!(store.artifacts(&bob, 10, None).await.unwrap(), []);
    assert_eq!(store.artifact_usage(&bob).await.unwrap(), ArtifactUsage::default());
    assert_eq!(store.artifacts(&user("ann"), 10, None).await.unwrap().len(), 1, "the control");
    assert_eq!(store.artifact_usage(&user("ann")).await.unwrap(), ArtifactUsage { bytes: 10_000, versions: 1 });
}

pub(crate) async fn a_version_or_all_are_deleted_and_numbers_are_not_reused(store: Arc<dyn Store>) {
    for number in 1..=3 {
        add(&*store, "ann", new("a", "n", &format!("e{number}"), number)).await;
    }
    let deleted = store.delete_artifact(&user("ann"), &id("a"), Some(3)).await.unwrap().unwrap();
    assert_eq!((numbers(&deleted), deleted.name.as_str()), (vec![3], "n"));
    assert_eq!(store.delete_artifact(&user("ann"), &id("a"), Some(3)).await.unwrap(), None);
    assert_eq!(add(&*store, "ann", new("b", "n", "e4", 4)).await, (id("a"), 4));
    let deleted = store.delete_artifact(&user("ann"), &id("a"), None).await.unwrap().unwrap();
    assert_eq!(numbers(&deleted), [4, 2, 1]);
    assert_eq!(store.artifact(&user("ann"), &id("a")).await.unwrap(), None);
    add(&*store, "ann", new("c", "n", "e5", 5)).await;
    store.delete_artifact(&user("ann"), &id("c"), Some(1)).await.unwrap().unwrap();
    assert_eq!(store.artifacts(&user("ann"), 9, None).await.unwrap(), [], "deleting its last version deletes it");
}

pub(crate) async fn artifacts_beyond_the_cap_are_not_added(store: Arc<dyn Store>) {
    let user = user("ann");
    let mut tiny = new("t", "tiny", "e", 1);
    tiny.bytes = 1;
    let all = [new("a", "a", "e", 1), new("b", "b", "e", 1), tiny, new("c", "c", "e", 1)];
    let most = 20_000 + LEAST_CHARGE;
    let added = store.add_artifacts(&user, &all, most).await.unwrap();
    let fit: Vec<bool> = added.iter().map(Option::is_some).collect();
    assert_eq!(fit, [true, true, true, false]);
    assert_eq!(store.artifact_usage(&user).await.unwrap(), ArtifactUsage { bytes: most, versions: 3 });
    store.delete_artifact(&user, &id("a"), None).await.unwrap();
    assert!(store.add_artifacts(&user, &all[3..], most).await.unwrap()[0].is_some());
    let mut long = new("l", "l", "e", 1);
    long.name = "x".repeat(MAX_PATH_BYTES + 1);
    let refused = store.add_artifacts(&user, &[new("ok", "ok", "e", 1), long], ROOMY).await.unwrap_err();
    assert!(matches!(refused, StoreError::TooLarge { .. }), "{refused}");
    assert_eq!(store.artifact(&user, &id("ok")).await.unwrap(), None, "nothing of it was added");
}
