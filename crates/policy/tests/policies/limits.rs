use crate::{Made, groups, names};
use coracle_policy::{
    Approvals, Call, Cargo, Circumstances, LimitSpec, Limits, NobodyToAsk, Per, Placed, Policy, Rules,
};
use coracle_store::{Home, KeySource, MemoryStore, SqliteStore, Store};
use coracle_types::{ExecutionId, UserId};
use serde_json::{Value, json};
use std::sync::Arc;

fn placed(text: &str) -> Placed {
    Placed { text: text.to_owned(), origin: "coracle.yaml:7".to_owned() }
}

fn spending() -> LimitSpec {
    LimitSpec {
        name: "spending".to_owned(),
        tools: Some(placed("bank.pay")),
        per: vec![Per::User],
        window: placed("24h"),
        calls: None,
        amount: Some(placed("args.amount")),
        max: Some(100),
        origin: "coracle.yaml:6".to_owned(),
    }
}

fn approvals(specs: Vec<LimitSpec>, store: Arc<dyn Store>) -> Approvals {
    let policy = Policy::new(Rules::default()).with_groups(groups()).with_limits(Limits::new(specs).unwrap());
    Approvals::new(policy, store)
}

/// Decides about a call and charges it. Returns the refusal as text.
async fn make(
    approvals: &Approvals,
    user: &str,
    tool: &'static str,
    arguments: Value,
) -> Result<coracle_policy::Charge, String> {
    let (of, user) = (Made { tool, ..Made::default() }.tool(), UserId::new(user).unwrap());
    let (execution, names) = (ExecutionId::new("e1").unwrap(), names("bank", &[tool], tool));
    let call = Call {
        user: &user,
        session: None,
        execution: &execution,
        tool: &of,
        names: &names,
        arguments: &arguments,
        cargo: Cargo::NONE,
        circumstances: Circumstances::default(),
        doubt: None,
    };
    approvals.decide(call, &NobodyToAsk).await.map_err(|refusal| refusal.to_string())?;
    approvals.charge(&call).await.map_err(|refusal| format!("{refusal}; {}", refusal.hint()))
}

#[tokio::test]
async fn spending_is_limited_by_user_and_survives_a_restart() {
    let folder = tempfile::tempdir().unwrap();
    let home = Home::new(folder.path());
    let store = Arc::new(SqliteStore::open(&home, KeySource::File).await.unwrap());
    let before = approvals(vec![spending()], Arc::clone(&store) as _);
    make(&before, "ann", "pay", json!({"amount": 60})).await.unwrap();
    let told = make(&before, "ann", "pay", json!({"amount": 40.01})).await.unwrap_err();
    assert_eq!(
        told,
        "this call is denied: limit \"spending\" (coracle.yaml:6): it is used up for now; call it later, or less often"
    );
    drop(before);
    store.close().await;
    drop(store);

    let store: Arc<dyn Store> = Arc::new(SqliteStore::open(&home, KeySource::File).await.unwrap());
    let after = approvals(vec![spending()], store);
    assert!(make(&after, "ann", "pay", json!({"amount": 40.01})).await.is_err());
    make(&after, "ann", "pay", json!({"amount": 40})).await.unwrap();
    assert!(make(&after, "ann", "pay", json!({"amount": 0.01})).await.is_err());
    // Others have limits of their own, and other tools have none.
    make(&after, "kim", "pay", json!({"amount": 100})).await.unwrap();
    make(&after, "ann", "list", json!({})).await.unwrap();
}

#[tokio::test]
async fn an_amount_that_is_no_amount_is_refused() {
    let approvals = approvals(vec![spending()], Arc::new(MemoryStore::new()));
    for arguments in
        [json!({}), json!({"amount": "5"}), json!({"amount": -5}), json!({"amount": -0.5}), json!({"amount": 1e300})]
    {
        let told = make(&approvals, "ann", "pay", arguments.clone()).await.unwrap_err();
        assert!(told.contains("limit \"spending\"") && told.contains("cannot be evaluated"), "{arguments}: {told}");
    }
    make(&approvals, "ann", "pay", json!({"amount": 0})).await.unwrap();
}

#[tokio::test]
async fn what_is_given_back_can_be_used_again() {
    let limit = LimitSpec { amount: None, max: None, calls: Some(1), ..spending() };
    let approvals = approvals(vec![limit], Arc::new(MemoryStore::new()));
    let charge = make(&approvals, "ann", "pay", json!({})).await.unwrap();
    assert!(make(&approvals, "ann", "pay", json!({})).await.is_err());
    charge.give_back().await;
    make(&approvals, "ann", "pay", json!({})).await.unwrap();
    assert!(make(&approvals, "ann", "pay", json!({})).await.is_err());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn concurrent_calls_do_not_exceed_a_limit() {
    let limit = LimitSpec { amount: None, max: None, calls: Some(10), per: vec![Per::Tool], ..spending() };
    let approvals = Arc::new(approvals(vec![limit], Arc::new(MemoryStore::new())));
    let calls = (0..8).map(|_| {
        let approvals = Arc::clone(&approvals);
        tokio::spawn(async move {
            let mut made = 0;
            for _ in 0..5 {
                made += usize::from(make(&approvals, "ann", "pay", json!({})).await.is_ok());
            }
            made
        })
    });
    let mut made = 0;
    for call in calls.collect::<Vec<_>>() {
        made += call.await.unwrap();
    }
    assert_eq!(made, 10);
}

#[test]
fn limits_that_cannot_work_are_rejected() {
    let told = |spec: LimitSpec| {
        Limits::new(vec![spec]).unwrap_err().iter().map(ToString::to_string).collect::<Vec<_>>().join("\n")
    };
    assert!(Limits::new(vec![spending()]).is_ok());
    assert!(
        told(LimitSpec { window: placed("soon"), ..spending() })
            .starts_with("coracle.yaml:7: \"soon\" is not a period")
    );
    assert!(
        told(LimitSpec { window: Placed::default(), ..spending() })
            .contains("coracle.yaml:6: the limit has no `window`")
    );
    assert!(told(LimitSpec { max: None, ..spending() }).contains("belong together"));
    assert!(told(LimitSpec { max: None, amount: None, ..spending() }).contains("neither `calls` nor `max`"));
    assert!(
        told(LimitSpec { amount: Some(placed("amount")), ..spending() })
            .contains("coracle.yaml:7: there is no variable amount")
    );
    assert!(told(LimitSpec { name: String::new(), ..spending() }).contains("no `name`"));
}
