//! Calls that members of a group have to approve.

use crate::lab::{Lab, id};
use crate::plain::{alone_with_groups, answer, begin, decide, get, groups, notes, person, questions, wipe, wipe_of};
use coracle_store::KeyScope;
use coracle_types::PrivacyMode;
use serde_json::{Value, json};

/// Open for longer than any test takes.
const LONG: u64 = 600;

/// A wrong answer of the server, as status and code.
fn refused((status, body): &(u16, Value)) -> (u16, &str) {
    (*status, body["code"].as_str().unwrap_or_default())
}

async fn lab() -> Lab {
    groups(LONG, PrivacyMode::Off).await
}

/// Keys of ann, bob, kim and lee.
async fn everybody(lab: &Lab) -> [String; 4] {
    let mut keys = Vec::new();
    for name in ["ann", "bob", "kim", "lee"] {
        keys.push(person(lab, name).await);
    }
    keys.try_into().unwrap()
}

async fn shown(lab: &Lab, key: &str, question: &Value) -> (u16, Value) {
    let path = format!("/api/approvals/{}", question["id"].as_str().unwrap());
    answer(lab.get(&path).bearer_auth(key).send().await.unwrap()).await
}

fn by(question: &Value) -> Vec<&str> {
    question["approvers"]["approved_by"].as_array().unwrap().iter().map(|name| name.as_str().unwrap()).collect()
}

#[tokio::test]
async fn one_member_approves_the_call_of_somebody_else() {
    let lab = lab().await;
    let [ann, _, kim, lee] = everybody(&lab).await;
    let call = wipe_of(&lab, "common", &ann, "disk");
    let of_ann = questions(&lab, &ann, 1).await.remove(0);
    let of_kim = questions(&lab, &kim, 1).await.remove(0);
    assert_eq!(of_kim["user"], "ann");
    let approvers = |can| json!({"groups": ["finance"], "count": 1, "approved_by": [], "can_approve": can});
    assert_eq!((&of_ann["approvers"], &of_kim["approvers"]), (&approvers(false), &approvers(true)));
    assert!(of_kim["reason"].as_str().unwrap().ends_with("; a member of finance must approve it"), "{of_kim:#}");
    assert!(of_kim["arguments"].as_str().unwrap().contains("disk") && of_kim["allow_line"].is_null());
    assert_eq!(questions(&lab, &lee, 1).await, std::slice::from_ref(&of_kim));

    // The caller cannot approve, and is told why.
    let (status, error) = decide(&lab, &ann, &of_ann, "once").await;
    assert_eq!((status, &error["code"]), (403, &json!("not_an_approver")), "{error}");
    assert!(error["error"].as_str().unwrap().contains("a member of finance must approve this call"), "{error}");
    for decision in ["session", "always", "session_same_arguments", "always_same_arguments"] {
        assert_eq!(refused(&decide(&lab, &ann, &of_ann, decision).await), (403, "not_an_approver"));
        assert_eq!(refused(&decide(&lab, &kim, &of_kim, decision).await), (409, "only_once"));
    }
    assert_eq!(notes(&lab), Vec::<String>::new());

    let (status, ended) = decide(&lab, &kim, &of_kim, "once").await;
    assert_eq!((status, &ended["state"], &ended["user"]), (200, &json!("answered"), &json!("ann")), "{ended:#}");
    assert_eq!((call.await.unwrap().0, notes(&lab)), (200, vec!["wipe disk".to_owned()]));
    for key in [&ann, &kim, &lee] {
        assert_eq!(questions(&lab, key, 0).await, Vec::<Value>::new());
    }
    // The log of the caller names the member; that of the member has no arguments; others have nothing.
    let of_ann = shown(&lab, &ann, &of_ann).await.1;
    assert!(of_ann["answered_by"].as_str().unwrap().starts_with("kim (key "), "{of_ann:#}");
    assert!(of_ann["arguments"].as_str().unwrap().contains("disk"));
    let own = shown(&lab, &kim, &of_kim).await.1;
    assert_eq!(
        (&own["user"], &own["arguments"], &own["decision"]),
        (&json!("ann"), &json!(""), &json!("once")),
        "{own:#}"
    );
    assert_eq!(refused(&shown(&lab, &lee, &of_kim).await), (404, "not_found"));
    // The next call is asked about again.
    let again = wipe_of(&lab, "common", &ann, "disk");
    let question = questions(&lab, &kim, 1).await.remove(0);
    assert_eq!(decide(&lab, &kim, &question, "refuse").await.0, 200);
    assert_eq!(refused(&again.await.unwrap()), (403, "denied_by_person"));
    assert_eq!(get(&lab, &ann, "/api/decisions").await, json!({"decisions": []}));
}

#[tokio::test]
async fn people_outside_the_group_do_not_see_the_question() {
    let lab = lab().await;
    let [ann, _, kim, _] = everybody(&lab).await;
    lab.add("eve", coracle_store::Role::User).await;
    let eve = person(&lab, "eve").await;
    let call = wipe_of(&lab, "common", &eve, "disk");
    let question = questions(&lab, &kim, 1).await.remove(0);
    // Ann is an admin, and no member.
    assert_eq!(questions(&lab, &ann, 0).await, Vec::<Value>::new());
    assert_eq!(get(&lab, &ann, "/api/approvals").await, json!({"approvals": []}));
    assert_eq!(refused(&shown(&lab, &ann, &question).await), (404, "not_found"));
    for decision in ["once", "refuse"] {
        assert_eq!(refused(&decide(&lab, &ann, &question, decision).await), (404, "not_found"));
    }
    // Answering takes a person.
    let program = lab.key("kim", &[KeyScope::Api]).await;
    assert_eq!(refused(&decide(&lab, &program, &question, "once").await), (403, "insufficient_scope"));
    assert_eq!(notes(&lab), Vec::<String>::new());
    assert_eq!(decide(&lab, &kim, &question, "once").await.0, 200, "the control");
    assert_eq!(call.await.unwrap().0, 200);

    // A program's call can wait for the group, although the program could answer nothing itself.
    let program = lab.key("eve", &[KeyScope::Api]).await;
    let call = wipe_of(&lab, "common", &program, "disk 2");
    let question = questions(&lab, &kim, 1).await.remove(0);
    assert_eq!(decide(&lab, &kim, &question, "once").await.0, 200);
    assert_eq!(call.await.unwrap().0, 200);
}

#[tokio::test]
async fn two_different_members_have_to_approve() {
    let lab = lab().await;
    let [ann, _, kim, lee] = everybody(&lab).await;
    let call = wipe(&lab, &ann, "disk");
    let question = questions(&lab, &kim, 1).await.remove(0);
    // One person counts once, whatever the credential.
    let other_key = person(&lab, "kim").await;
    for key in [&kim, &other_key, &kim] {
        let (status, open) = decide(&lab, key, &question, "once").await;
        assert_eq!((status, &open["state"], by(&open)), (200, &json!("open"), vec!["kim"]), "{open:#}");
        assert_eq!(open["approvers"]["can_approve"], false);
    }
    assert_eq!(notes(&lab), Vec::<String>::new());
    // Everybody sees how far it is, also after a reload.
    for key in [&ann, &kim, &lee] {
        let (_, open) = shown(&lab, key, &question).await;
        assert_eq!((by(&open), &open["approvers"]["count"]), (vec!["kim"], &json!(2)), "{open:#}");
    }
    let (status, ended) = decide(&lab, &lee, &question, "once").await;
    assert_eq!((status, &ended["state"]), (200, &json!("answered")), "{ended:#}");
    assert_eq!((call.await.unwrap().0, notes(&lab)), (200, vec!["wipe disk".to_owned()]));
    let record = shown(&lab, &ann, &question).await.1;
    let answered = record["answered_by"].as_str().unwrap();
    assert!(answered.contains("kim (key ") && answered.contains(", lee (key "), "{answered}");

    // One no is enough, also after a yes.
    let call = wipe(&lab, &ann, "disk 2");
    let question = questions(&lab, &kim, 1).await.remove(0);
    decide(&lab, &kim, &question, "once").await;
    assert_eq!(decide(&lab, &lee, &question, "refuse").await.1["decision"], "refuse");
    assert_eq!(refused(&call.await.unwrap()), (403, "denied_by_person"));
    // The caller can give the call up.
    let call = wipe(&lab, &ann, "disk 3");
    let question = questions(&lab, &ann, 1).await.remove(0);
    assert_eq!(decide(&lab, &ann, &question, "refuse").await.0, 200);
    assert_eq!(refused(&call.await.unwrap()), (403, "denied_by_person"));
    assert_eq!(notes(&lab), ["wipe disk"]);
}

#[tokio::test]
async fn nobody_is_one_of_four_eyes_for_an_own_call() {
    let lab = lab().await;
    let [_, bob, kim, lee] = everybody(&lab).await;
    // Bob is a member.
    let call = wipe(&lab, &bob, "disk");
    let question = questions(&lab, &bob, 1).await.remove(0);
    assert_eq!(question["approvers"]["can_approve"], false);
    assert_eq!(refused(&decide(&lab, &bob, &question, "once").await), (403, "not_an_approver"));
    assert_eq!(decide(&lab, &kim, &question, "once").await.1["state"], "open");
    assert_eq!(refused(&decide(&lab, &bob, &question, "once").await), (403, "not_an_approver"));
    assert_eq!(notes(&lab), Vec::<String>::new());
    assert_eq!(decide(&lab, &lee, &question, "once").await.0, 200);
    assert_eq!(call.await.unwrap().0, 200);
    // Where one is enough, a member can approve an own call.
    let call = wipe_of(&lab, "common", &bob, "disk 2");
    let question = questions(&lab, &bob, 1).await.remove(0);
    assert_eq!(question["approvers"]["can_approve"], true);
    assert_eq!(decide(&lab, &bob, &question, "once").await.0, 200);
    assert_eq!((call.await.unwrap().0, notes(&lab).len()), (200, 2));
}

#[tokio::test]
async fn approvals_of_people_who_cannot_sign_in_do_not_count() {
    let lab = lab().await;
    let [ann, bob, kim, lee] = everybody(&lab).await;
    let call = wipe(&lab, &ann, "disk");
    let question = questions(&lab, &kim, 1).await.remove(0);
    assert_eq!(by(&decide(&lab, &kim, &question, "once").await.1), ["kim"]);
    lab.people.set_disabled(&id("kim"), true).await.unwrap();
    let (_, open) = decide(&lab, &lee, &question, "once").await;
    assert_eq!((&open["state"], by(&open)), (&json!("open"), vec!["lee"]), "{open:#}");
    assert_eq!(decide(&lab, &kim, &question, "once").await.0, 401, "kim cannot sign in");
    assert_eq!(notes(&lab), Vec::<String>::new());
    assert_eq!(decide(&lab, &bob, &question, "once").await.1["state"], "answered");
    assert_eq!((call.await.unwrap().0, notes(&lab)), (200, vec!["wipe disk".to_owned()]));

    // With too few who can sign in, nobody is asked.
    lab.people.set_disabled(&id("bob"), true).await.unwrap();
    let call = wipe(&lab, &ann, "disk 2").await.unwrap();
    assert_eq!(refused(&call), (403, "denied_unasked"));
    let error = call.1["error"].as_str().unwrap();
    assert!(error.contains("2 members of finance") && error.contains("cannot be asked here"), "{error}");
    lab.people.set_disabled(&id("kim"), false).await.unwrap();
    let call = wipe(&lab, &ann, "disk 3");
    questions(&lab, &lee, 1).await;
    call.abort();
}

#[tokio::test]
async fn a_new_name_is_neither_a_member_nor_somebody_else() {
    let lab = lab().await;
    let [ann, bob, kim, lee] = everybody(&lab).await;
    // Kim has approved, and is renamed.
    let call = wipe(&lab, &ann, "disk");
    let question = questions(&lab, &kim, 1).await.remove(0);
    decide(&lab, &kim, &question, "once").await;
    lab.people.rename(&id("kim"), &id("kimberly")).await.unwrap();
    assert_eq!(refused(&decide(&lab, &kim, &question, "once").await), (404, "not_found"), "kimberly is no member");
    let (_, open) = decide(&lab, &lee, &question, "once").await;
    assert_eq!((&open["state"], by(&open)), (&json!("open"), vec!["lee"]), "kim's approval does not count");
    assert_eq!(decide(&lab, &bob, &question, "once").await.1["state"], "answered", "the control");
    assert_eq!(call.await.unwrap().0, 200);
    assert_eq!(notes(&lab), ["wipe disk"]);
}

#[tokio::test]
async fn a_caller_with_the_name_of_a_member_is_still_the_caller() {
    let lab = lab().await;
    let [_, bob, _, lee] = everybody(&lab).await;
    let call = wipe(&lab, &bob, "disk");
    let question = questions(&lab, &lee, 1).await.remove(0);
    lab.people.rename(&id("kim"), &id("kimberly")).await.unwrap();
    lab.people.rename(&id("bob"), &id("kim")).await.unwrap();
    assert_eq!(by(&decide(&lab, &bob, &question, "once").await.1), ["kim"]);
    assert_eq!(refused(&decide(&lab, &lee, &question, "once").await), (409, "withdrawn"));
    assert_eq!(refused(&call.await.unwrap()), (403, "denied_unasked"));
    assert_eq!(notes(&lab), Vec::<String>::new());
}

#[tokio::test]
async fn other_people_see_tokens_where_models_do() {
    for (mode, is_hidden) in [(PrivacyMode::Off, false), (PrivacyMode::Model, true), (PrivacyMode::Strict, true)] {
        let lab = groups(LONG, mode).await;
        let [ann, _, kim, _] = everybody(&lab).await;
        let call = wipe_of(&lab, "common", &ann, "mails of mia@example.org");
        let of_kim = questions(&lab, &kim, 1).await.remove(0);
        let of_ann = questions(&lab, &ann, 1).await.remove(0);
        assert!(of_ann["arguments"].as_str().unwrap().contains("mia@example.org"), "{mode:?}: {of_ann:#}");
        let text = of_kim.to_string();
        assert_eq!(
            (text.contains("mia@"), text.contains("mails of [EMAIL_")),
            (!is_hidden, is_hidden),
            "{mode:?}: {text}"
        );
        assert_eq!(decide(&lab, &kim, &of_kim, "once").await.0, 200);
        assert_eq!((call.await.unwrap().0, notes(&lab)), (200, vec!["wipe mails of mia@example.org".to_owned()]));
    }
}

#[tokio::test]
async fn no_quorum_in_time_counts_as_no() {
    let lab = groups(1, PrivacyMode::Off).await;
    let [ann, ..] = everybody(&lab).await;
    let answered = wipe(&lab, &ann, "disk").await.unwrap();
    assert_eq!(refused(&answered), (403, "denied_unanswered"));
    assert!(answered.1["error"].as_str().unwrap().contains("too few of them have answered in time"), "{answered:?}");
    assert_eq!(notes(&lab), Vec::<String>::new());
}

#[tokio::test]
async fn a_server_without_users_asks_the_local_user_only() {
    let lab = alone_with_groups().await;
    let call = |path: &str, what: &str| begin(lab.post(path).json(&json!({ "arguments": { "what": what } })));
    for path in ["/api/tools/plain/wipe/call", "/api/tools/common/wipe/call"] {
        assert_eq!(refused(&call(path, "disk").await.unwrap()), (403, "denied_unasked"), "{path}");
    }
    let begun = begin(lab.post("/api/tools/plain/note/call").json(&json!({ "arguments": { "text": "x" } })));
    let question = questions(&lab, "none", 1).await.remove(0);
    assert_eq!(question["approvers"]["can_approve"], true);
    assert_eq!(decide(&lab, "none", &question, "once").await.0, 200);
    assert_eq!(begun.await.unwrap().0, 200);
}
