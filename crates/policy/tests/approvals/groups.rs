//! Calls that a group has to approve.

use crate::approvers::{ManualApprover, Says, Unasked};
use crate::{Caller, destructive};
use async_trait::async_trait;
use coracle_policy::{
    Answer, Approvals, ApproverLine, ApproverRule, ApproverRules, ApproversError, Doubt, Grant, GroupAnswer,
    GroupApprover, Groups, MAX_APPROVALS, NobodyToAsk, Policy, Question, Reason, Rule, Rules, ToolNames,
};
use coracle_store::MemoryStore;
use coracle_types::{Decision, Tool, UserId};
use std::collections::BTreeSet;
use std::sync::{Arc, Mutex};
use tokio::sync::{mpsc, oneshot};
use tokio::task::JoinHandle;

fn people(names: &[&str]) -> BTreeSet<UserId> {
    names.iter().map(|name| UserId::new(*name).unwrap()).collect()
}

fn groups() -> Groups {
    with_finance(&["ann", "kim", "lee"])
}

fn with_finance(members: &[&str]) -> Groups {
    let groups = [("finance", members), ("ops", &["bob"]), ("locals", &["local"]), ("empty", &[])];
    let list = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect();
    Groups::new(&groups.map(|(name, members)| (name.to_owned(), list(members))).into()).unwrap()
}

/// A line such as `bank.*: 2 finance`, or `none` for no group.
fn line(pattern: &str, count: u32, group: &str) -> ApproverLine {
    let groups = group.split(' ').filter(|group| *group != "none").map(str::to_owned).collect();
    ApproverLine {
        pattern: pattern.to_owned(),
        rule: ApproverRule { groups, count },
        origin: "coracle.yaml:7".to_owned(),
    }
}

fn policy(rules: &[(&str, Decision)], lines: Vec<ApproverLine>, groups: Groups) -> Policy {
    let rules = rules.iter().map(|(pattern, decision)| Rule {
        pattern: (*pattern).to_owned(),
        decision: *decision,
        origin: "coracle.yaml:3".to_owned(),
    });
    let approvers = ApproverRules::new(lines, groups).unwrap();
    Policy::new(Rules::new(rules.collect()).unwrap().with_approvers(approvers))
}

fn approvals(policy: Policy) -> Arc<Approvals> {
    Arc::new(Approvals::new(policy, Arc::new(MemoryStore::new())))
}

/// A group that always gives the same answer, and keeps the questions.
#[derive(Debug)]
struct GroupSays(GroupAnswer, Mutex<Vec<Question>>);

impl GroupSays {
    fn new(answer: GroupAnswer) -> Arc<Self> {
        Arc::new(Self(answer, Mutex::default()))
    }
}

#[async_trait]
impl GroupApprover for GroupSays {
    async fn ask(&self, question: Question) -> GroupAnswer {
        self.1.lock().unwrap().push(question);
        self.0.clone()
    }
}

/// Approvals of a policy with `bank.*: COUNT finance`, whose group answers like this.
fn with_answer(count: u32, answer: GroupAnswer) -> (Arc<Approvals>, Arc<GroupSays>) {
    let approvals = approvals(policy(&[], vec![line("bank.*", count, "finance")], groups()));
    let group = GroupSays::new(answer);
    approvals.ask_groups_through(Arc::clone(&group) as Arc<dyn GroupApprover>);
    (approvals, group)
}

fn transfer() -> Tool {
    destructive("bank", "transfer")
}

#[tokio::test]
async fn a_group_approves_in_place_of_the_caller() {
    let (approvals, group) = with_answer(1, GroupAnswer::Approved(people(&["kim"])));
    let eve = Caller::new(&approvals, "eve", Some("s1"), "e1");
    // The caller is not asked, and could not say yes.
    for _ in 0..2 {
        assert_eq!(
            eve.calls(&transfer(), &Unasked).await,
            Ok(Grant::Group(people(&["kim"]))),
            "each call is asked about"
        );
    }
    let questions = group.1.lock().unwrap().clone();
    assert_eq!(questions.len(), 2);
    let quorum = questions[0].quorum.as_ref().unwrap();
    assert_eq!(
        (quorum.names().as_str(), quorum.count, &quorum.members),
        ("finance", 1, &people(&["ann", "kim", "lee"]))
    );
    assert!(questions[0].why.ends_with("; a member of finance must approve it"), "{}", questions[0].why);
    // Tools that no line names are the caller's, as before.
    let other = destructive("git", "reset");
    assert_eq!(eve.calls(&other, &Says(Answer::Once)).await, Ok(Grant::Once));
    assert_eq!(group.1.lock().unwrap().len(), 2);
}

#[tokio::test]
async fn answers_of_the_caller_do_not_satisfy_a_group() {
    for (count, approved) in [
        (1, &[][..]),
        (1, &["eve"]),
        (1, &["bob"]),
        (2, &["kim"]),
        (2, &["kim", "eve"]),
        (2, &["kim", "bob"]),
        (3, &["ann", "kim"]),
    ] {
        let (approvals, _) = with_answer(count, GroupAnswer::Approved(people(approved)));
        let eve = Caller::new(&approvals, "eve", Some("s1"), "e1");
        let refusal = eve.calls(&transfer(), &Unasked).await.unwrap_err();
        assert_eq!(refusal.code(), "denied_unasked", "{count} {approved:?}");
    }
    let (approvals, _) = with_answer(2, GroupAnswer::Approved(people(&["kim", "lee"])));
    let eve = Caller::new(&approvals, "eve", Some("s1"), "e1");
    assert_eq!(eve.calls(&transfer(), &Unasked).await, Ok(Grant::Group(people(&["kim", "lee"]))), "the control");
}

#[tokio::test]
async fn where_several_must_approve_the_caller_is_none_of_them() {
    let (approvals, _) = with_answer(2, GroupAnswer::Approved(people(&["ann", "kim"])));
    let ann = Caller::new(&approvals, "ann", Some("s1"), "e1");
    assert_eq!(ann.calls(&transfer(), &Unasked).await.unwrap_err().code(), "denied_unasked");
    let eve = Caller::new(&approvals, "eve", Some("s1"), "e1");
    assert!(
        eve.calls(&transfer(), &Unasked).await.is_ok(),
        "the control: the same people, for the call of somebody else"
    );
    // One is enough: then a member counts for an own call.
    let (approvals, _) = with_answer(1, GroupAnswer::Approved(people(&["ann"])));
    let ann = Caller::new(&approvals, "ann", Some("s1"), "e1");
    assert_eq!(ann.calls(&transfer(), &Unasked).await, Ok(Grant::Group(people(&["ann"]))));
}

#[tokio::test]
async fn what_the_caller_allowed_before_does_not_count() {
    let before = approvals(policy(&[], Vec::new(), groups()));
    let eve = Caller::new(&before, "eve", Some("s1"), "e1");
    for answer in [Answer::Session, Answer::Always, Answer::AlwaysSameArguments] {
        eve.calls(&transfer(), &Says(answer)).await.unwrap();
    }
    assert_eq!(eve.calls(&transfer(), &Unasked).await.map(drop), Ok(()), "the control");
    before.replace_policy(policy(&[], vec![line("bank.*", 1, "finance")], groups()));
    assert_eq!(eve.calls(&transfer(), &Unasked).await.unwrap_err().code(), "denied_unasked");
    // A decision against the tool counts.
    before.decide_for_good(&eve.user, &transfer(), Decision::Deny).await.unwrap();
    before.ask_groups_through(GroupSays::new(GroupAnswer::Approved(people(&["kim"]))));
    assert_eq!(eve.calls(&transfer(), &Unasked).await.unwrap_err().code(), "denied_for_good");
    before.forget(&eve.user, &transfer().server, "transfer", None).await.unwrap();
    assert_eq!(eve.calls(&transfer(), &Unasked).await, Ok(Grant::Group(people(&["kim"]))), "the control");
}

#[tokio::test]
async fn a_member_alone_is_asked_where_the_group_cannot_be() {
    let lines = vec![line("bank.*", 1, "locals"), line("bank.close", 1, "finance")];
    let approvals = approvals(policy(&[], lines, groups()));
    let local = Caller::new(&approvals, "local", None, "e1");
    for answer in [Answer::Once, Answer::Session, Answer::Always, Answer::AlwaysSameArguments] {
        // Nothing is remembered.
        assert_eq!(local.calls(&transfer(), &NobodyToAsk).await.unwrap_err().code(), "denied_unasked");
        assert_eq!(local.calls(&transfer(), &Says(answer)).await, Ok(Grant::Group(people(&["local"]))));
    }
    assert_eq!(local.calls(&transfer(), &Says(Answer::Refuse)).await.unwrap_err().code(), "denied_by_person");
    // Others are not asked at their terminal.
    let refusal = local.calls(&destructive("bank", "close"), &Unasked).await.unwrap_err();
    assert_eq!(refusal.code(), "denied_unasked");
    assert_eq!(refusal.to_string(), "this call must be approved by a member of finance, and they cannot be asked here");
    assert!(refusal.hint().contains("coracle up"), "{}", refusal.hint());
}

#[tokio::test]
async fn a_group_that_is_too_small_for_the_caller_is_named() {
    let (approvals, group) = with_answer(3, GroupAnswer::Approved(people(&["ann", "kim", "lee"])));
    let ann = Caller::new(&approvals, "ann", None, "e1");
    let refusal = ann.calls(&transfer(), &Unasked).await.unwrap_err();
    assert_eq!(refusal.to_string(), "this call must be approved by 3 members of finance, and only 2 could do that");
    assert!(refusal.hint().contains("finance in policy.groups"), "{}", refusal.hint());
    assert!(group.1.lock().unwrap().is_empty(), "nobody is asked in vain");
    let eve = Caller::new(&approvals, "eve", None, "e1");
    assert!(eve.calls(&transfer(), &Unasked).await.is_ok(), "the control");
}

#[tokio::test]
async fn a_no_and_no_answer_refuse_the_call() {
    for (answer, code) in [
        (GroupAnswer::Refused, "denied_by_person"),
        (GroupAnswer::TimedOut, "denied_unanswered"),
        (GroupAnswer::TooMany, "denied_too_many"),
        (GroupAnswer::Nobody, "denied_unasked"),
    ] {
        let (approvals, _) = with_answer(1, answer.clone());
        let eve = Caller::new(&approvals, "eve", None, "e1");
        assert_eq!(eve.calls(&transfer(), &Unasked).await.unwrap_err().code(), code);
        let doubtful = Caller { doubt: Some(Doubt::Unanswered), ..eve };
        assert_eq!(doubtful.calls(&transfer(), &Unasked).await.unwrap_err().code(), "may_have_happened", "{answer:?}");
    }
}

#[test]
fn the_narrowest_line_decides_and_a_group_is_asked_whatever_rules_allow() {
    let lines = || {
        vec![
            line("bank.*", 1, "finance"),
            line("bank.get_*", 1, "none"),
            line("bank.wire", 2, "finance"),
            line("*.wire", 3, "finance"),
            line("git.*", 1, "ops finance"),
        ]
    };
    let all = [("*", Decision::Allow), ("git.reset", Decision::Deny)];
    let policy = policy(&all, lines(), groups());
    let decide = |server: &str, tool: &str| {
        let tool = destructive(server, tool);
        let verdict = policy.decide(&tool, &ToolNames::of_wire(&tool));
        let quorum = verdict.quorum.map(|quorum| (quorum.names(), quorum.count));
        (verdict.decision, quorum, verdict.reason)
    };
    let quorum = |group: &str, count| Some((group.to_owned(), count));
    let rule =
        |pattern: &str, line: u8| Reason::Rule { pattern: pattern.to_owned(), origin: format!("coracle.yaml:{line}") };
    assert_eq!(decide("bank", "transfer"), (Decision::Ask, quorum("finance", 1), rule("bank.*", 7)));
    assert_eq!(decide("bank", "get_balance"), (Decision::Allow, None, rule("*", 3)));
    assert_eq!(decide("bank", "wire"), (Decision::Ask, quorum("finance", 2), rule("bank.wire", 7)));
    assert_eq!(decide("git", "push"), (Decision::Ask, quorum("ops or finance", 1), rule("git.*", 7)));
    assert_eq!(decide("git", "reset"), (Decision::Deny, None, rule("git.reset", 3)), "a rule that denies stays");
    assert_eq!(decide("git", "wire"), (Decision::Ask, quorum("finance", 3), rule("*.wire", 7)), "equally narrow");
    assert_eq!(decide("mail", "send"), (Decision::Allow, None, rule("*", 3)));
    // Other spellings of a name do not escape.
    assert_eq!(decide("bank", "Transfer\u{200b}").1, quorum("finance", 1));
}

#[test]
fn lines_that_cannot_be_met_are_rejected() {
    let new = |pattern: &str, count, group: &str| ApproverRules::new(vec![line(pattern, count, group)], groups());
    for (pattern, count, group, says) in [
        ("bank.*", 1, "sales", "there is no group \"sales\""),
        ("bank.*", 4, "finance", "4 approvals are required, and finance has 3 members"),
        ("bank.*", 1, "empty", "has 0 members"),
        ("bank.*", 2, "none", "2 approvals are required, and no group has 0 members"),
        ("bank.*", 0, "finance", "0 approvals cannot be required"),
        ("bank.*", MAX_APPROVALS + 1, "finance", "the number is from 1 to 5"),
        ("bank", 1, "finance", "does not name a tool"),
    ] {
        let error = new(pattern, count, group).unwrap_err();
        assert!(error.to_string().starts_with("coracle.yaml:7: ") && error.to_string().contains(says), "{error}");
    }
    assert!(new("bank.*", 3, "finance").is_ok() && new("bank.*", 4, "finance ops").is_ok(), "the control");
    assert!(matches!(new("bank.*", 1, "sales"), Err(ApproversError::NoGroup { .. })));
    // A group that a policy names elsewhere and that does not exist lets nobody through.
    let nobody = ApproverRules::new(Vec::new(), groups()).unwrap();
    let quorum = nobody.quorum(&ApproverRule { groups: vec!["sales".to_owned()], count: 0 });
    assert_eq!((quorum.count, quorum.members.len()), (1, 0));
    assert!(!quorum.is_met(&people(&["ann", "kim", "lee"]), &UserId::local()));
}

/// A group whose members answer when the test wants them to.
#[derive(Debug)]
struct ManualGroup(mpsc::UnboundedSender<(Question, oneshot::Sender<GroupAnswer>)>);

#[async_trait]
impl GroupApprover for ManualGroup {
    async fn ask(&self, question: Question) -> GroupAnswer {
        let (sender, answer) = oneshot::channel();
        self.0.send((question, sender)).unwrap();
        answer.await.unwrap_or(GroupAnswer::Nobody)
    }
}

fn start(caller: &Caller, approver: &Arc<ManualApprover>) -> JoinHandle<Result<Grant, coracle_policy::Refusal>> {
    let (caller, approver) = (caller.clone(), Arc::clone(approver));
    tokio::spawn(async move { caller.calls(&transfer(), approver.as_ref()).await })
}

#[tokio::test]
async fn open_questions_follow_the_rules() {
    let with = |count| policy(&[], vec![line("bank.*", count, "finance")], groups());
    let approvals = approvals(policy(&[], Vec::new(), groups()));
    let (sender, mut asked) = mpsc::unbounded_channel();
    approvals.ask_groups_through(Arc::new(ManualGroup(sender)));
    let eve = Caller::new(&approvals, "eve", Some("s1"), "e1");
    let approver = Arc::new(ManualApprover::default());
    let call = start(&eve, &approver);
    let to_eve = approver.questions(1).await.remove(0);
    assert_eq!(to_eve.quorum, None);

    // The caller is not asked any more.
    approvals.replace_policy(with(1));
    let (one, answer) = asked.recv().await.unwrap();
    assert!(approver.questions(0).await.is_empty());
    assert_eq!((&one.id, one.quorum.as_ref().unwrap().count), (&to_eve.id, 1), "it is the same question");
    // Rules that change nothing for it leave it open.
    approvals.replace_policy(with(1));
    // Others put it anew: an answer to the earlier one comes too late.
    approvals.replace_policy(with(2));
    let (two, second) = asked.recv().await.unwrap();
    assert_eq!((&two.id, two.quorum.as_ref().unwrap().count), (&to_eve.id, 2));
    assert!(answer.send(GroupAnswer::Approved(people(&["kim"]))).is_err());
    // So do other members.
    approvals.replace_policy(policy(&[], vec![line("bank.*", 2, "finance")], with_finance(&["ann", "lee"])));
    let (three, third) = asked.recv().await.unwrap();
    assert_eq!(three.quorum.unwrap().members, people(&["ann", "lee"]));
    assert!(second.send(GroupAnswer::Approved(people(&["kim", "lee"]))).is_err());
    third.send(GroupAnswer::Approved(people(&["ann", "lee"]))).unwrap();
    assert_eq!(call.await.unwrap(), Ok(Grant::Group(people(&["ann", "lee"]))));

    // Back to the caller, and to a rule that denies.
    let call = start(&eve, &approver);
    asked.recv().await.unwrap();
    approvals.replace_policy(policy(&[], Vec::new(), groups()));
    assert_eq!(approver.questions(1).await[0].quorum, None);
    approvals.replace_policy(policy(&[("bank.*", Decision::Deny)], vec![line("bank.*", 1, "finance")], groups()));
    assert_eq!(call.await.unwrap().unwrap_err().code(), "denied_by_policy");
}
