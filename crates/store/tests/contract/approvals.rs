use crate::given::{at, server, user};
use coracle_store::{
    ApprovalOutcome, ApprovalRecord, Belongings, KEPT_APPROVALS, MAX_APPROVAL_TEXT_BYTES, MAX_PAGE, Renamed, Store,
};
use coracle_types::{ExecutionId, SessionId};
use std::sync::Arc;

fn approval(whose: &str, id: &str, ended: u64) -> ApprovalRecord {
    ApprovalRecord {
        id: id.to_owned(),
        user: user(whose),
        caller: None,
        server: server("git"),
        tool: "reset".to_owned(),
        arguments: r#"{"hard": true}"#.to_owned(),
        reason: "the tool is marked as destructive".to_owned(),
        session: None,
        execution_id: ExecutionId::new("exec-1").unwrap(),
        origin: None,
        asked_at: at(ended - 1),
        ended_at: at(ended),
        outcome: ApprovalOutcome::Once,
        answered_by: Some("session".to_owned()),
    }
}

fn ids(approvals: &[ApprovalRecord]) -> Vec<&str> {
    approvals.iter().map(|record| record.id.as_str()).collect()
}

pub(crate) async fn approvals_are_returned_as_they_were_added(store: Arc<dyn Store>) {
    let ann = user("ann");
    assert_eq!(store.approvals(&ann, 10).await.unwrap(), []);
    let mut all = Vec::new();
    for (number, outcome) in (2..).zip(ApprovalOutcome::ALL) {
        let record = ApprovalRecord {
            outcome,
            session: Some(SessionId::from_random(number)),
            origin: Some("run-1".to_owned()),
            answered_by: (outcome != ApprovalOutcome::TimedOut).then(|| "key k1".to_owned()),
            ..approval("ann", &format!("ask-{number}"), u64::try_from(number).unwrap())
        };
        store.add_approval(&record).await.unwrap();
        assert_eq!(store.approval(&ann, &record.id).await.unwrap().as_ref(), Some(&record));
        all.insert(0, record);
    }
    assert_eq!(store.approvals(&ann, 10).await.unwrap(), all, "the newest first");
    assert_eq!(store.approvals(&ann, 2).await.unwrap(), all[..2]);
    assert_eq!(store.approval(&ann, "ask-9").await.unwrap(), None);
}

pub(crate) async fn approvals_of_users_are_separate(store: Arc<dyn Store>) {
    let (ann, bob, eve) = (user("ann"), user("bob"), user("eve"));
    store.add_approval(&approval("ann", "ask-1", 5)).await.unwrap();
    assert_eq!(store.approvals(&bob, 10).await.unwrap(), []);
    assert_eq!(store.approval(&bob, "ask-1").await.unwrap(), None);
    store.add_approval(&approval("bob", "ask-1", 7)).await.unwrap();
    assert_eq!(store.approvals(&ann, 10).await.unwrap(), [approval("ann", "ask-1", 5)]);
    assert!(store.has_data(&ann).await.unwrap());

    assert_eq!(store.rename_user(&ann, &eve, Belongings::All).await.unwrap(), Renamed::Done);
    assert_eq!(store.approvals(&ann, 10).await.unwrap(), []);
    assert_eq!(store.approvals(&eve, 10).await.unwrap(), [approval("eve", "ask-1", 5)]);
    store.delete_user(&eve).await.unwrap();
    assert_eq!(store.approvals(&eve, 10).await.unwrap(), []);
    assert_eq!(store.approvals(&bob, 10).await.unwrap(), [approval("bob", "ask-1", 7)]);
}

pub(crate) async fn approvals_name_the_user_whose_call_it_was(store: Arc<dyn Store>) {
    let (ann, kim) = (user("ann"), user("kim"));
    let of = |caller: &str| ApprovalRecord { caller: Some(user(caller)), ..approval("kim", "ask-1", 5) };
    store.add_approval(&of("ann")).await.unwrap();
    let own = approval("kim", "ask-2", 7);
    store.add_approval(&own).await.unwrap();
    assert_eq!(store.approvals(&kim, 10).await.unwrap(), [own.clone(), of("ann")]);
    assert_eq!(store.approvals(&ann, 10).await.unwrap(), []);
    store.add_user(&coracle_store::User::new(ann.clone(), coracle_store::Role::User, at(1))).await.unwrap();
    assert_eq!(store.rename_user(&ann, &user("eve"), Belongings::All).await.unwrap(), Renamed::Done);
    assert_eq!(store.approvals(&kim, 10).await.unwrap(), [own.clone(), of("eve")]);
    store.delete_user_data(&ann).await.unwrap();
    assert_eq!(store.approvals(&kim, 10).await.unwrap().len(), 2, "the control");
    store.delete_user_data(&user("eve")).await.unwrap();
    assert_eq!(store.approvals(&kim, 10).await.unwrap(), [own]);
}

pub(crate) async fn only_the_newest_approvals_are_kept(store: Arc<dyn Store>) {
    let ann = user("ann");
    let more = 3;
    for number in 1..=KEPT_APPROVALS + more {
        store.add_approval(&approval("ann", &format!("ask-{number}"), number as u64)).await.unwrap();
    }
    let newest = store.approvals(&ann, usize::MAX).await.unwrap();
    assert_eq!((newest.len(), ids(&newest)[0]), (MAX_PAGE, format!("ask-{}", KEPT_APPROVALS + more).as_str()));
    assert_eq!(store.approval(&ann, &format!("ask-{more}")).await.unwrap(), None);
    assert!(store.approval(&ann, &format!("ask-{}", more + 1)).await.unwrap().is_some(), "the control");
}

pub(crate) async fn an_approval_that_is_too_large_changes_nothing(store: Arc<dyn Store>) {
    let long = "x".repeat(MAX_APPROVAL_TEXT_BYTES + 1);
    let fits = approval("ann", "ask-1", 5);
    for record in [
        ApprovalRecord { arguments: long.clone(), ..fits.clone() },
        ApprovalRecord { origin: Some(long.clone()), ..fits.clone() },
        ApprovalRecord { id: String::new(), ..fits.clone() },
    ] {
        store.add_approval(&record).await.unwrap_err();
    }
    assert_eq!(store.approvals(&user("ann"), 10).await.unwrap(), []);
    let longest = ApprovalRecord { arguments: long[1..].to_owned(), ..fits };
    store.add_approval(&longest).await.unwrap();
    assert_eq!(store.approvals(&user("ann"), 10).await.unwrap(), [longest], "the control");
}
