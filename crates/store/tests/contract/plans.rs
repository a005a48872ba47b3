use crate::given::{at, user};
use coracle_store::{Belongings, KEPT_PLANS, MAX_PLAN_BYTES, PlanRecord, Renamed, Store};
use coracle_types::{PlanId, PlanState};
use serde_json::json;
use std::sync::Arc;

fn plan(whose: &str, id: &str, made: u64) -> PlanRecord {
    PlanRecord {
        id: PlanId::new(id).unwrap(),
        user: user(whose),
        state: PlanState::Open,
        created_at: at(made),
        expires_at: at(made + 100),
        content: json!({ "effects": [id, "é\n"] }),
        progress: json!([]),
    }
}

pub(crate) async fn a_plan_is_run_once(store: Arc<dyn Store>) {
    let (ann, first) = (user("ann"), plan("ann", "plan_1", 1));
    store.add_plan(&first).await.unwrap();
    assert_eq!(store.plan(&ann, &first.id).await.unwrap(), Some(first.clone()));
    assert!(!store.advance_plan(&ann, &first.id, PlanState::Done, &json!(1)).await.unwrap(), "it is not running");
    let callers = (0..8).map(|_| {
        let (store, ann, id) = (Arc::clone(&store), ann.clone(), first.id.clone());
        tokio::spawn(async move { store.begin_plan(&ann, &id, &json!(["begun"])).await.unwrap() })
    });
    let mut begun = 0;
    for caller in callers.collect::<Vec<_>>() {
        begun += usize::from(caller.await.unwrap());
    }
    assert_eq!(begun, 1);
    assert!(!store.delete_plan(&ann, &first.id).await.unwrap(), "it is being run");
    assert!(store.advance_plan(&ann, &first.id, PlanState::Running, &json!([1])).await.unwrap());
    assert!(store.advance_plan(&ann, &first.id, PlanState::Done, &json!([2])).await.unwrap());
    let ended = PlanRecord { state: PlanState::Done, progress: json!([2]), ..first.clone() };
    assert_eq!(store.plan(&ann, &first.id).await.unwrap(), Some(ended));
    assert!(!store.begin_plan(&ann, &first.id, &json!([])).await.unwrap(), "it was run");
    assert!(store.delete_plan(&ann, &first.id).await.unwrap() && !store.delete_plan(&ann, &first.id).await.unwrap());
}

pub(crate) async fn plans_of_users_are_separate(store: Arc<dyn Store>) {
    let (ann, bob, first) = (user("ann"), user("bob"), plan("ann", "plan_1", 1));
    store.add_plan(&first).await.unwrap();
    assert_eq!(store.plan(&bob, &first.id).await.unwrap(), None);
    assert!(store.plans(&bob).await.unwrap().is_empty());
    assert!(!store.begin_plan(&bob, &first.id, &json!([])).await.unwrap());
    assert!(!store.delete_plan(&bob, &first.id).await.unwrap());
    store.delete_user_data(&bob).await.unwrap();
    assert_eq!(store.plans(&ann).await.unwrap(), std::slice::from_ref(&first), "the control");
    assert!(store.begin_plan(&ann, &first.id, &json!([])).await.unwrap());
    store.delete_user_data(&ann).await.unwrap();
    assert!(store.plans(&ann).await.unwrap().is_empty());
}

pub(crate) async fn a_renamed_user_keeps_plans(store: Arc<dyn Store>) {
    let (ann, eve, first) = (user("ann"), user("eve"), plan("ann", "plan_1", 1));
    store.add_plan(&first).await.unwrap();
    assert!(store.has_data(&ann).await.unwrap());
    assert_eq!(store.rename_user(&ann, &eve, Belongings::All).await.unwrap(), Renamed::Done);
    assert!(store.plans(&ann).await.unwrap().is_empty());
    assert_eq!(store.plans(&eve).await.unwrap(), [PlanRecord { user: eve.clone(), ..first }]);
}

pub(crate) async fn the_newest_plans_are_kept(store: Arc<dyn Store>) {
    let (ann, oldest) = (user("ann"), plan("ann", "plan_running", 0));
    store.add_plan(&oldest).await.unwrap();
    assert!(store.begin_plan(&ann, &oldest.id, &json!([])).await.unwrap());
    for number in 1..=KEPT_PLANS + 1 {
        store.add_plan(&plan("ann", &format!("plan_{number}"), number as u64)).await.unwrap();
    }
    let left: Vec<String> = store.plans(&ann).await.unwrap().iter().map(|plan| plan.id.to_string()).collect();
    assert_eq!(left.len(), KEPT_PLANS + 1, "and the one that is being run");
    assert_eq!(left.first().map(String::as_str), Some(format!("plan_{}", KEPT_PLANS + 1).as_str()));
    assert!(left.contains(&"plan_running".to_owned()) && !left.contains(&"plan_1".to_owned()));
    let large = PlanRecord { content: json!("x".repeat(MAX_PLAN_BYTES)), ..plan("ann", "plan_large", 1_000) };
    assert_eq!(store.add_plan(&large).await.unwrap_err().code(), "store_too_large");
    assert_eq!(store.plan(&ann, &large.id).await.unwrap(), None);
}
