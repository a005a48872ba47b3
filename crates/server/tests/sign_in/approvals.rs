//! Questions whether a tool may be called: who may answer them, and what happens if no one does.

use crate::lab::{Lab, code};
use crate::plain::{answer, begin, decide, get, lab, notes, person, questions, wipe};
use coracle_store::KeyScope;
use reqwest::header::COOKIE;
use serde_json::{Value, json};

/// Open for longer than any test takes.
const LONG: u64 = 600;
/// Maximum number of open questions of one user.
const MAX_OPEN: usize = 64;

/// A wrong answer of the server, as status and code.
fn refused((status, body): &(u16, Value)) -> (u16, &str) {
    (*status, body["code"].as_str().unwrap_or_default())
}

#[tokio::test]
async fn a_call_waits_for_the_answer_of_its_user() {
    let lab = lab(LONG).await;
    let bob = person(&lab, "bob").await;
    let call = wipe(&lab, &bob, "disk 1");
    let open = questions(&lab, &bob, 1).await;
    let question = &open[0];
    assert_eq!(
        (&question["state"], &question["server"], &question["tool"], &question["destructive"]),
        (&json!("open"), &json!("plain"), &json!("wipe"), &json!(true)),
        "{question:#}"
    );
    assert!(question["arguments"].as_str().unwrap().contains("disk 1"), "{question:#}");
    assert!(question["reason"].as_str().unwrap().contains("destructive") && question["decision"].is_null());
    assert!(question["expires_at"].as_str() > question["asked_at"].as_str(), "{question:#}");
    assert_eq!(notes(&lab), Vec::<String>::new(), "the call did not wait");
    let id = question["id"].as_str().unwrap();
    assert_eq!(get(&lab, &bob, &format!("/api/approvals/{id}")).await, *question);

    // A browser answers.
    let cookie = lab.browser("bob").await;
    let request = lab.post(&format!("/api/approvals/{id}")).header(COOKIE, &cookie).header("x-coracle-csrf", "1");
    let (status, answered) = answer(request.json(&json!({ "decision": "once" })).send().await.unwrap()).await;
    assert_eq!((status, &answered["decision"]), (200, &json!("once")), "{answered:#}");
    let (status, result) = call.await.unwrap();
    assert_eq!((status, &result["content"][0]["text"]), (200, &json!("done")), "{result:#}");
    assert_eq!(notes(&lab), ["wipe disk 1"]);

    let call = wipe(&lab, &bob, "disk 2");
    let open = questions(&lab, &bob, 1).await;
    assert_eq!(decide(&lab, &bob, &open[0], "refuse").await.0, 200);
    assert_eq!(refused(&call.await.unwrap()), (403, "denied_by_person"));
    assert_eq!(notes(&lab), ["wipe disk 1"]);

    // Both answers are kept, the newest first.
    let ended = get(&lab, &bob, "/api/approvals?state=ended").await;
    let told = |number: usize| {
        let one = &ended["approvals"][number];
        let by = one["answered_by"].as_str().unwrap().split(' ').next().unwrap();
        (one["state"].as_str().unwrap(), one["decision"].as_str().unwrap(), by)
    };
    assert_eq!((told(0), told(1)), (("answered", "refuse", "key"), ("answered", "once", "session")), "{ended:#}");
    assert_eq!(get(&lab, &bob, "/api/approvals?limit=1").await["approvals"].as_array().unwrap().len(), 1);
    assert_eq!(get(&lab, &bob, &format!("/api/approvals/{id}")).await, answered);
    assert_eq!(refused(&decide(&lab, &bob, question, "always").await), (409, "already_answered"));
}

#[tokio::test]
async fn answering_is_the_act_of_a_person() {
    let lab = lab(LONG).await;
    let bob = person(&lab, "bob").await;
    let call = wipe(&lab, &bob, "disk");
    let open = questions(&lab, &bob, 1).await;
    let path = format!("/api/approvals/{}", open[0]["id"].as_str().unwrap());
    let body = json!({ "decision": "always" });
    for scopes in [&[KeyScope::Api][..], &[KeyScope::Approve], &[KeyScope::Mcp, KeyScope::Metrics]] {
        let key = lab.key("bob", scopes).await;
        let refused = lab.post(&path).bearer_auth(&key).json(&body).send().await.unwrap();
        assert_eq!(code(refused).await, (403, "insufficient_scope".to_owned()), "{scopes:?}");
    }
    let cookie = lab.browser("bob").await;
    let forged = lab.post(&path).header(COOKIE, &cookie).json(&body).send().await.unwrap();
    assert_eq!(code(forged).await, (403, "csrf".to_owned()));
    assert_eq!(code(lab.post(&path).json(&body).send().await.unwrap()).await, (401, "not_signed_in".to_owned()));
    for wrong in [json!({ "decision": "yes" }), json!({}), json!({ "decision": "once", "more": 1 })] {
        let refused = lab.post(&path).bearer_auth(&bob).json(&wrong).send().await.unwrap();
        assert_eq!(code(refused).await, (400, "invalid_request".to_owned()), "{wrong}");
    }
    assert_eq!(notes(&lab), Vec::<String>::new());

    // A key without the scope cannot give it to another key, and its own calls do not wait for anyone.
    let program = lab.key("bob", &[KeyScope::Api]).await;
    let more = lab.post("/api/keys").bearer_auth(&program).json(&json!({ "name": "x", "scopes": ["approve"] }));
    assert_eq!(code(more.send().await.unwrap()).await, (403, "insufficient_scope".to_owned()));
    assert_eq!(refused(&wipe(&lab, &program, "other").await.unwrap()), (403, "denied_unasked"));

    assert_eq!(decide(&lab, &bob, &open[0], "once").await.0, 200, "the control");
    assert_eq!(call.await.unwrap().0, 200);
    assert_eq!(notes(&lab), ["wipe disk"]);
}

#[tokio::test]
async fn questions_of_other_users_do_not_exist() {
    let lab = lab(LONG).await;
    let (ann, bob) = (lab.key("ann", &KeyScope::ALL).await, person(&lab, "bob").await);
    let call = wipe(&lab, &bob, "disk");
    let open = questions(&lab, &bob, 1).await;
    let path = format!("/api/approvals/{}", open[0]["id"].as_str().unwrap());
    let nothing = json!({ "approvals": [] });
    assert_eq!(get(&lab, &ann, "/api/approvals").await, nothing);
    assert_eq!(questions(&lab, &ann, 0).await, Vec::<Value>::new());
    assert_eq!(code(lab.get(&path).bearer_auth(&ann).send().await.unwrap()).await, (404, "not_found".to_owned()));
    assert_eq!(refused(&decide(&lab, &ann, &open[0], "always").await), (404, "not_found"));
    assert_eq!(notes(&lab), Vec::<String>::new());

    assert_eq!(decide(&lab, &bob, &open[0], "always").await.0, 200, "the control");
    assert_eq!(call.await.unwrap().0, 200);
    assert_eq!(get(&lab, &ann, "/api/approvals").await, nothing);
    assert_eq!(code(lab.get(&path).bearer_auth(&ann).send().await.unwrap()).await, (404, "not_found".to_owned()));

    // The permanent answer is bob's alone.
    let decisions = get(&lab, &bob, "/api/decisions").await;
    assert_eq!(decisions["decisions"][0]["tool"], "wipe", "{decisions:#}");
    assert_eq!(get(&lab, &ann, "/api/decisions").await, json!({ "decisions": [] }));
    let forget = async |key: &str| {
        let request = lab.request(reqwest::Method::DELETE, "/api/decisions/plain/wipe");
        request.bearer_auth(key).send().await.unwrap().status().as_u16()
    };
    assert_eq!(forget(&ann).await, 404);
    assert_eq!(wipe(&lab, &bob, "disk 2").await.unwrap().0, 200, "no question");
    let anns = wipe(&lab, &ann, "disk 3");
    let question = questions(&lab, &ann, 1).await;
    assert_eq!(decide(&lab, &ann, &question[0], "refuse").await.0, 200);
    assert_eq!(refused(&anns.await.unwrap()), (403, "denied_by_person"));
    assert_eq!(forget(&bob).await, 204);
    let asked_again = wipe(&lab, &bob, "disk 4");
    let question = questions(&lab, &bob, 1).await;
    assert_eq!(decide(&lab, &bob, &question[0], "refuse").await.0, 200);
    assert_eq!(refused(&asked_again.await.unwrap()), (403, "denied_by_person"));
    assert_eq!(notes(&lab), ["wipe disk", "wipe disk 2"]);
}

#[tokio::test]
async fn parallel_questions_wait_independently() {
    let lab = lab(LONG).await;
    let bob = person(&lab, "bob").await;
    let mut calls = Vec::new();
    for number in 0..3 {
        calls.push(wipe(&lab, &bob, &format!("disk {number}")));
        questions(&lab, &bob, number + 1).await;
    }
    let open = questions(&lab, &bob, 3).await;
    assert_eq!(decide(&lab, &bob, &open[1], "refuse").await.0, 200);
    assert_eq!(refused(&calls.remove(1).await.unwrap()), (403, "denied_by_person"));
    assert_eq!(decide(&lab, &bob, &open[2], "once").await.0, 200);
    assert_eq!(calls.remove(1).await.unwrap().0, 200);
    assert_eq!((questions(&lab, &bob, 1).await, notes(&lab)), (vec![open[0].clone()], vec!["wipe disk 2".to_owned()]));

    // A permanent answer settles the other questions about the tool.
    let last = wipe(&lab, &bob, "disk 3");
    questions(&lab, &bob, 2).await;
    assert_eq!(decide(&lab, &bob, &open[0], "always").await.0, 200);
    assert_eq!((calls.remove(0).await.unwrap().0, last.await.unwrap().0), (200, 200));
    assert_eq!(questions(&lab, &bob, 0).await, Vec::<Value>::new());
}

#[tokio::test]
async fn no_answer_in_time_counts_as_no() {
    let lab = lab(1).await;
    let bob = person(&lab, "bob").await;
    let answered = wipe(&lab, &bob, "disk").await.unwrap();
    assert_eq!(refused(&answered), (403, "denied_unanswered"));
    assert!(answered.1["error"].as_str().unwrap().contains("no one answered in time"), "{answered:?}");
    let ended = get(&lab, &bob, "/api/approvals").await;
    let one = &ended["approvals"][0];
    assert_eq!(
        (&one["state"], &one["decision"], &one["answered_by"]),
        (&json!("timed_out"), &Value::Null, &Value::Null)
    );
    assert_eq!(refused(&decide(&lab, &bob, one, "once").await), (409, "already_answered"));
    assert_eq!(notes(&lab), Vec::<String>::new());
}

#[tokio::test]
async fn a_question_goes_with_the_call_that_asked_it() {
    let lab = lab(LONG).await;
    let bob = person(&lab, "bob").await;
    let (gone, stays) = (wipe(&lab, &bob, "disk 1"), questions(&lab, &bob, 1));
    let first = stays.await;
    let stays = wipe(&lab, &bob, "disk 2");
    let open = questions(&lab, &bob, 2).await;
    gone.abort();
    assert!(gone.await.unwrap_err().is_cancelled());
    assert_eq!(questions(&lab, &bob, 1).await, open[1..]);
    assert_eq!(refused(&decide(&lab, &bob, &first[0], "once").await), (404, "not_found"));
    assert_eq!(decide(&lab, &bob, &open[1], "once").await.0, 200, "the control");
    assert_eq!((stays.await.unwrap().0, notes(&lab)), (200, vec!["wipe disk 2".to_owned()]));

    // So do all questions of a server that stops.
    let waiting = wipe(&lab, &bob, "disk 3");
    questions(&lab, &bob, 1).await;
    lab.stop();
    assert_eq!(refused(&waiting.await.unwrap()), (403, "denied_unasked"));
    assert_eq!(notes(&lab), ["wipe disk 2"]);
}

#[tokio::test]
async fn a_user_has_a_limited_number_of_open_questions() {
    let lab = lab(LONG).await;
    let (ann, bob) = (person(&lab, "ann").await, person(&lab, "bob").await);
    let calls: Vec<_> = (0..MAX_OPEN).map(|number| wipe(&lab, &bob, &format!("disk {number}"))).collect();
    let open = questions(&lab, &bob, MAX_OPEN).await;
    assert_eq!(refused(&wipe(&lab, &bob, "one more").await.unwrap()), (403, "denied_too_many"));
    let anns = wipe(&lab, &ann, "hers");
    let question = questions(&lab, &ann, 1).await;
    assert_eq!(decide(&lab, &ann, &question[0], "once").await.0, 200, "the control");
    assert_eq!(anns.await.unwrap().0, 200);
    assert_eq!(decide(&lab, &bob, &open[0], "refuse").await.0, 200);
    let fits = wipe(&lab, &bob, "one more");
    questions(&lab, &bob, MAX_OPEN).await;
    for call in calls.into_iter().chain([fits]) {
        call.abort();
    }
    assert_eq!(questions(&lab, &bob, 0).await, Vec::<Value>::new());
}

#[tokio::test]
async fn the_local_user_of_a_server_without_users_answers() {
    let lab: Lab = lab(LONG).await;
    let request = lab.get("/api/approvals").send().await.unwrap();
    assert_eq!(code(request).await, (401, "not_signed_in".to_owned()), "there are users");
    let alone = crate::plain::alone().await;
    let call = begin(alone.post("/api/tools/plain/wipe/call").json(&json!({ "arguments": { "what": "disk" } })));
    // Credentials are ignored.
    let open = questions(&alone, "none", 1).await;
    assert_eq!(decide(&alone, "none", &open[0], "once").await.1["answered_by"], "local");
    assert_eq!((call.await.unwrap().0, notes(&alone)), (200, vec!["wipe disk".to_owned()]));
}
