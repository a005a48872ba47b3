use crate::given::user;
use coracle_store::{Belongings, FlowApproval, Place, PlacedSource, Renamed, Store};
use coracle_types::{ExecutionId, ServerLabel, ServerName, SessionId};
use std::collections::BTreeSet;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, UNIX_EPOCH};

fn server(name: &str) -> ServerName {
    ServerName::new(name).unwrap()
}

fn session(name: &str) -> Place {
    Place::session(&SessionId::new(name).unwrap())
}

fn source(place: &Place, from: &str, labels: &[ServerLabel]) -> PlacedSource {
    PlacedSource {
        place: place.clone(),
        server: server(from),
        labels: labels.iter().copied().collect(),
        execution: None,
        seen_at: UNIX_EPOCH + Duration::from_hours(500_000),
    }
}

fn servers(sources: &[PlacedSource]) -> Vec<&str> {
    sources.iter().map(|source| source.server.as_str()).collect()
}

pub(crate) async fn sources_of_a_place_add_up(store: Arc<dyn Store>) {
    let (ann, bob) = (user("ann"), user("bob"));
    let (one, other) = (session("one"), session("other"));
    let first = [source(&one, "crm", &[ServerLabel::Private]), source(&other, "web", &[])];
    store.add_sources(&ann, &first).await.unwrap();
    store.add_sources(&ann, &[source(&one, "crm", &[ServerLabel::Exfil]), source(&one, "mail", &[])]).await.unwrap();
    let found = store.sources_in(&ann, std::slice::from_ref(&one)).await.unwrap();
    assert_eq!(servers(&found), ["crm", "mail"]);
    assert_eq!(found[0].labels, BTreeSet::from([ServerLabel::Private, ServerLabel::Exfil]));
    assert_eq!(found[0].seen_at, first[0].seen_at);
    assert_eq!(servers(&store.sources_in(&ann, &[one.clone(), other.clone()]).await.unwrap()), ["crm", "mail", "web"]);
    assert_eq!(store.sources(&ann).await.unwrap().len(), 3);
    assert!(store.sources_in(&bob, &[one.clone(), other.clone()]).await.unwrap().is_empty());

    store.copy_sources(&ann, &other, &one).await.unwrap();
    assert_eq!(servers(&store.sources_in(&ann, std::slice::from_ref(&one)).await.unwrap()), ["crm", "mail", "web"]);
    assert_eq!(store.forget_sources(&bob, None).await.unwrap(), 0);
    assert_eq!(store.forget_sources(&ann, Some(&one)).await.unwrap(), 3);
    assert_eq!(servers(&store.sources(&ann).await.unwrap()), ["web"]);
    assert_eq!(store.forget_sources(&ann, None).await.unwrap(), 1);
    assert!(store.sources(&ann).await.unwrap().is_empty());
}

pub(crate) async fn what_an_execution_may_bring_counts_until_it_is_settled(store: Arc<dyn Store>) {
    let ann = user("ann");
    let (own, folder) = (Place::workspace(None), Place::workspace(Some(Path::new("/srv/data"))));
    let (one, two) = (ExecutionId::new("exec-1").unwrap(), ExecutionId::new("exec-2").unwrap());
    let by =
        |execution: &ExecutionId, from| PlacedSource { execution: Some(execution.clone()), ..source(&own, from, &[]) };
    store.add_sources(&ann, &[by(&one, "crm"), by(&two, "web"), by(&two, "crm")]).await.unwrap();
    let here = || store.sources_in(&ann, std::slice::from_ref(&own));
    assert_eq!(servers(&here().await.unwrap()), ["crm", "crm", "web"]);
    store.settle_sources(&ann, &folder, &two, false).await.unwrap();
    store.settle_sources(&ann, &own, &one, false).await.unwrap();
    assert_eq!(servers(&here().await.unwrap()), ["crm", "web"]);
    store.settle_sources(&ann, &own, &two, true).await.unwrap();
    let kept = here().await.unwrap();
    assert_eq!(servers(&kept), ["crm", "web"]);
    assert!(kept.iter().all(|source| source.execution.is_none()));
}

pub(crate) async fn values_and_approvals_of_flows_belong_to_users(store: Arc<dyn Store>) {
    let (ann, bob, eve) = (user("ann"), user("bob"), user("eve"));
    let tokens = |names: &[&str]| -> BTreeSet<String> { names.iter().map(|name| (*name).to_owned()).collect() };
    store.add_value_sources(&ann, &tokens(&["[EMAIL_1]", "[EMAIL_2]"]), &server("crm")).await.unwrap();
    store.add_value_sources(&ann, &tokens(&["[EMAIL_2]"]), &server("web")).await.unwrap();
    let found = store.value_sources(&ann, &tokens(&["[EMAIL_2]", "[EMAIL_3]"])).await.unwrap();
    assert_eq!(
        found.into_iter().collect::<Vec<_>>(),
        [("[EMAIL_2]".to_owned(), [server("crm"), server("web")].into())]
    );
    assert!(store.value_sources(&bob, &tokens(&["[EMAIL_2]"])).await.unwrap().is_empty());

    let approval = |digest: &str, of: &str| FlowApproval {
        digest: digest.to_owned(),
        server: server(of),
        tool: "send".to_owned(),
        rule: "crm -> mail: ask".to_owned(),
        sources: vec![server("crm"), server("web")],
        approved_at: UNIX_EPOCH + Duration::from_secs(5),
    };
    for (digest, of) in [("a", "mail"), ("b", "mail"), ("c", "chat"), ("a", "mail")] {
        store.approve_flow(&ann, &approval(digest, of)).await.unwrap();
    }
    assert_eq!(store.flow_approvals(&ann).await.unwrap().len(), 3);
    assert!(!store.forget_flow_approvals(&bob, &server("mail"), "send").await.unwrap());
    assert!(!store.forget_flow_approvals(&ann, &server("mail"), "other").await.unwrap());
    assert!(store.forget_flow_approvals(&ann, &server("mail"), "send").await.unwrap());
    assert_eq!(store.flow_approvals(&ann).await.unwrap(), [approval("c", "chat")]);

    assert!(store.add_user(&crate::accounts::somebody("ann")).await.unwrap());
    store.add_sources(&ann, &[source(&session("s"), "crm", &[])]).await.unwrap();
    assert_eq!(store.rename_user(&ann, &eve, Belongings::All).await.unwrap(), Renamed::Done);
    assert_eq!((store.sources(&ann).await.unwrap().len(), store.sources(&eve).await.unwrap().len()), (0, 1));
    assert_eq!(store.value_sources(&eve, &tokens(&["[EMAIL_1]"])).await.unwrap().len(), 1);
    assert_eq!(store.flow_approvals(&eve).await.unwrap().len(), 1);
    store.forget_server(&server("chat")).await.unwrap();
    assert!(store.flow_approvals(&eve).await.unwrap().is_empty());
    store.delete_user_data(&eve).await.unwrap();
    assert!(store.sources(&eve).await.unwrap().is_empty());
    assert!(store.value_sources(&eve, &tokens(&["[EMAIL_1]"])).await.unwrap().is_empty());
}
