//! Where data may go: rules, the trifecta, and what people approve of it.

use crate::{Caller, approvals, destructive, with_store};
use coracle_policy::{
    Answer, Approvals, Approver, Cargo, CheckSpec, Checks, FlowLine, Flows, Grant, KnownServers, Labels, LimitSpec,
    Limits, NobodyToAsk, Placed, Policy, Question, Refusal, Rules, ServerLabels, Sources, Valuable,
};
use coracle_store::{MemoryStore, Provenance, Store};
use coracle_types::ServerLabel::{Exfil, Private, Untrusted};
use coracle_types::{Decision, ServerLabel, ServerName, Tool, ToolHints, UserId};
use serde_json::json;
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::{Arc, Mutex};

fn server(name: &str) -> ServerName {
    ServerName::new(name).unwrap()
}

fn sources(names: &[&str]) -> Sources {
    names.iter().map(|name| server(name)).collect()
}

fn reading(names: &[&str]) -> Cargo {
    Cargo { sources: sources(names), valuables: BTreeSet::new() }
}

fn with_values(mut cargo: Cargo, values: &[(&str, &[&str])]) -> Cargo {
    let valuable = |(kind, from): &(&str, &[&str])| Valuable { kind: (*kind).to_owned(), sources: sources(from) };
    cargo.valuables = values.iter().map(valuable).collect();
    cargo
}

/// Servers with configured labels, and `plain` without any.
fn known() -> KnownServers {
    let labels: [(&str, &[ServerLabel]); 6] = [
        ("crm", &[Private]),
        ("erp", &[Private]),
        ("web", &[Untrusted, Exfil]),
        ("mail", &[Exfil]),
        ("inbox", &[Private, Untrusted, Exfil]),
        ("files", &[]),
    ];
    let labels: BTreeMap<ServerName, Labels> = labels
        .into_iter()
        .map(|(name, labels)| (server(name), Labels::Configured(labels.iter().copied().collect())))
        .chain([(server("plain"), Labels::Guessed(Vec::new()))])
        .collect();
    KnownServers { labels: ServerLabels::new(labels, true), names: HashMap::new() }
}

fn flows(rules: &[&str], trifecta: Option<Decision>) -> Flows {
    let line = |(number, text): (usize, &&str)| FlowLine {
        text: (*text).to_owned(),
        origin: format!("coracle.yaml:{}", number + 1),
    };
    let kinds = ["EMAIL", "PERSON", "US_SSN"].map(str::to_owned).into();
    Flows::new(rules.iter().enumerate().map(line).collect(), trifecta, known(), &kinds).unwrap()
}

fn harmless(of: &str, name: &str) -> Tool {
    Tool { hints: ToolHints::default(), ..destructive(of, name) }
}

/// Decides about a call of `tool` of `to` with this data, when nobody can be asked: `allow`, `ask` or `deny`, and the rule.
async fn decided(rules: &[&str], trifecta: Option<Decision>, cargo: Cargo, to: &str) -> (&'static str, String) {
    let (approvals, _) = approvals(&[]);
    approvals.replace_flows(flows(rules, trifecta));
    let caller = Caller { cargo, ..Caller::new(&approvals, "ann", None, "exec") };
    match caller.calls(&harmless(to, "send"), &NobodyToAsk).await {
        Ok(_) => ("allow", String::new()),
        Err(Refusal::Flow { verdict }) => ("deny", verdict.rule),
        Err(Refusal::NobodyToAsk { reason: coracle_policy::Reason::Flow(verdict), .. }) => ("ask", verdict.rule),
        Err(other) => panic!("{other}"),
    }
}

async fn ruled(rules: &[&str], cargo: Cargo, to: &str) -> &'static str {
    decided(rules, None, cargo, to).await.0
}

#[tokio::test]
async fn data_of_a_source_may_go_where_no_rule_forbids_it() {
    let rules = ["crm -> web: deny", "erp -> label:exfil: ask"];
    for (read, to, expected) in [
        (&["crm"][..], "web", "deny"),
        (&["crm"], "mail", "allow"),
        (&["erp"], "mail", "ask"),
        (&["erp"], "files", "allow"),
        (&["files"], "web", "allow"),
        (&[], "web", "allow"),
        (&["files", "crm"], "web", "deny"),
        (&["erp", "crm"], "web", "deny"),
    ] {
        assert_eq!(ruled(&rules, reading(read), to).await, expected, "{read:?} -> {to}");
    }
}

#[tokio::test]
async fn data_that_goes_back_to_its_server_is_no_flow() {
    assert_eq!(ruled(&["* -> web: deny"], reading(&["web"]), "web").await, "allow");
    assert_eq!(ruled(&["* -> web: deny"], reading(&["web", "files"]), "web").await, "deny");
}

#[tokio::test]
async fn the_most_specific_rule_decides_and_then_the_strictest() {
    let rules = ["* -> *: deny", "label:private -> mail: ask", "crm -> mail: allow", "erp -> mail.se*: allow"];
    assert_eq!(ruled(&rules, reading(&["crm"]), "mail").await, "allow");
    assert_eq!(ruled(&rules, reading(&["erp"]), "mail").await, "allow");
    assert_eq!(ruled(&rules, reading(&["inbox"]), "mail").await, "ask");
    assert_eq!(ruled(&rules, reading(&["files"]), "mail").await, "deny");
    // Neither of these is more specific.
    let crossed = ["crm -> label:exfil: allow", "label:private -> mail: deny"];
    assert_eq!(ruled(&crossed, reading(&["crm"]), "mail").await, "deny");
    assert_eq!(ruled(&crossed, reading(&["crm"]), "web").await, "allow");
    // All of the data has to be allowed.
    assert_eq!(ruled(&rules, reading(&["crm", "files"]), "mail").await, "deny");
}

#[tokio::test]
async fn an_allowed_list_of_kinds_forbids_the_others() {
    let rules = ["crm -> mail: allow [EMAIL, PERSON]", "* -> web: deny"];
    let from_crm = |kind| with_values(reading(&["crm"]), &[(kind, &["crm"])]);
    assert_eq!(ruled(&rules, from_crm("EMAIL"), "mail").await, "allow");
    assert_eq!(ruled(&rules, reading(&["crm"]), "mail").await, "allow");
    assert_eq!(ruled(&rules, from_crm("US_SSN"), "mail").await, "deny");
    assert_eq!(ruled(&rules, from_crm("EMAIL"), "web").await, "deny");
    // What a person typed came from no server.
    assert_eq!(ruled(&rules, with_values(Cargo::default(), &[("EMAIL", &[])]), "web").await, "allow");
    // The code has read nothing, but the value came from there.
    assert_eq!(ruled(&rules, with_values(Cargo::default(), &[("EMAIL", &["crm"])]), "web").await, "deny");
    let also = ["crm -> mail: allow [EMAIL]", "crm -> mail: ask [US_SSN]"];
    assert_eq!(ruled(&also, from_crm("US_SSN"), "mail").await, "ask");
    assert_eq!(ruled(&also, from_crm("PERSON"), "mail").await, "deny");
    let exception = ["* -> mail: deny", "crm -> mail: allow [EMAIL]"];
    assert_eq!(ruled(&exception, from_crm("EMAIL"), "mail").await, "allow");
    assert_eq!(ruled(&exception, with_values(reading(&["erp"]), &[("EMAIL", &["erp"])]), "mail").await, "deny");
    let forbidden = ["crm -> mail: deny [US_SSN]"];
    assert_eq!(ruled(&forbidden, from_crm("US_SSN"), "mail").await, "deny");
    assert_eq!(ruled(&forbidden, from_crm("EMAIL"), "mail").await, "allow");
}

#[tokio::test]
async fn private_and_untrusted_data_together_do_not_leave() {
    let ask = Some(Decision::Ask);
    let trifecta = |rule: &str| ("ask", rule.to_owned());
    for (read, to, expected) in [
        (&["crm", "web"][..], "mail", "ask"),
        (&["crm", "web"], "web", "ask"),
        (&["crm"], "mail", "allow"),
        (&["web"], "mail", "allow"),
        (&["crm", "erp"], "mail", "allow"),
        (&["crm", "web"], "files", "allow"),
        (&["inbox"], "mail", "ask"),
        (&["inbox"], "inbox", "ask"),
    ] {
        assert_eq!(decided(&[], ask, reading(read), to).await.0, expected, "{read:?} -> {to}");
    }
    assert_eq!(decided(&[], ask, reading(&["crm", "web"]), "mail").await, trifecta("policy.trifecta"));
    assert_eq!(decided(&[], Some(Decision::Deny), reading(&["crm", "web"]), "mail").await.0, "deny");
    assert_eq!(decided(&[], None, reading(&["crm", "web"]), "mail").await.0, "allow");
    // Allowing one of the sources is not enough, and a rule about both is.
    assert_eq!(decided(&["crm -> mail: allow"], ask, reading(&["crm", "web"]), "mail").await.0, "ask");
    let both = ["crm & web -> mail: allow"];
    assert_eq!(decided(&both, ask, reading(&["crm", "web"]), "mail").await.0, "allow");
    assert_eq!(decided(&both, ask, reading(&["erp", "crm", "web"]), "mail").await.0, "ask");
    assert_eq!(decided(&["web & crm → mail: deny"], ask, reading(&["crm", "web"]), "mail").await.0, "deny");
}

#[tokio::test]
async fn hints_are_lines_that_allow_exactly_this() {
    let ask = Some(Decision::Ask);
    let cargo = with_values(reading(&["crm", "web"]), &[("EMAIL", &["crm"])]);
    let mut rules = vec!["label:private -> label:exfil: deny".to_owned()];
    // Each refusal says which line would allow the call, until it is allowed.
    for round in 0.. {
        assert!(round < 5, "{rules:?}");
        let (approvals, _) = approvals(&[]);
        let lines: Vec<&str> = rules.iter().map(String::as_str).collect();
        approvals.replace_flows(flows(&lines, ask));
        let caller = Caller { cargo: cargo.clone(), ..Caller::new(&approvals, "ann", None, "exec") };
        let Err(refusal) = caller.calls(&harmless("mail", "send"), &NobodyToAsk).await else { break };
        let hint = refusal.hint();
        let list = hint.split_once("flows: [").unwrap().1.strip_suffix("] }").unwrap().to_owned();
        rules.extend(list.split("\", \"").map(|rule| rule.trim_matches('"').to_owned()));
    }
    insta::assert_snapshot!(rules.join("\n"), @r"
    label:private -> label:exfil: deny
    crm -> mail.send: allow [EMAIL]
    crm & web -> mail.send: allow
    ");
}

/// Answers each question as the next item of a list says, and keeps it.
#[derive(Debug, Default)]
struct Scripted {
    answers: Mutex<Vec<Answer>>,
    asked: Mutex<Vec<Question>>,
}

impl Scripted {
    fn new(answers: &[Answer]) -> Self {
        Self { answers: Mutex::new(answers.iter().rev().copied().collect()), asked: Mutex::default() }
    }

    fn asked(&self) -> Vec<Question> {
        self.asked.lock().unwrap().clone()
    }
}

#[async_trait::async_trait]
impl Approver for Scripted {
    async fn ask(&self, question: Question) -> Answer {
        self.asked.lock().unwrap().push(question);
        self.answers.lock().unwrap().pop().unwrap_or(Answer::Nobody)
    }
}

fn asking(store: &Arc<MemoryStore>) -> Arc<Approvals> {
    let approvals = with_store(&[], Arc::clone(store) as Arc<dyn Store>);
    approvals.replace_flows(flows(&["crm -> mail: ask"], Some(Decision::Ask)));
    approvals
}

#[tokio::test]
async fn an_answer_about_a_tool_settles_no_flow_and_the_other_way_round() {
    let store = Arc::new(MemoryStore::new());
    let approvals = asking(&store);
    let tool = destructive("mail", "send");
    let mut caller = Caller::new(&approvals, "ann", Some("s"), "exec");
    // The tool is allowed for good, while there is no data.
    caller.calls(&tool, &Scripted::new(&[Answer::Always])).await.unwrap();
    caller.cargo = reading(&["crm"]);
    let person = Scripted::new(&[Answer::Session]);
    assert_eq!(caller.calls(&tool, &person).await, Ok(Grant::Always));
    let [question] = &person.asked()[..] else { panic!("{:?}", person.asked()) };
    assert_eq!(question.flow.len(), 1);
    assert_eq!(
        question.why,
        "the arguments may have data of crm, which the code has read from: flow rule \"crm -> mail: ask\" (coracle.yaml:1)"
    );
    // The session has settled this flow, and no other.
    assert!(caller.calls(&tool, &NobodyToAsk).await.is_ok());
    caller.cargo = reading(&["crm", "web"]);
    assert_eq!(caller.calls(&tool, &NobodyToAsk).await.unwrap_err().code(), "denied_unasked");
    caller.cargo = reading(&["crm"]);
    caller.session = None;
    assert_eq!(caller.calls(&tool, &NobodyToAsk).await.unwrap_err().code(), "denied_unasked");
    // A flow that is allowed for good leaves the question about the tool.
    let other = destructive("mail", "forward");
    let person = Scripted::new(&[Answer::Always, Answer::Refuse]);
    assert_eq!(caller.calls(&other, &person).await, Err(Refusal::Refused));
    let asked = person.asked();
    assert!(asked.len() == 2 && asked[1].flow.is_empty() && asked[0].digest != asked[1].digest, "{asked:?}");
}

#[tokio::test]
async fn permanent_approvals_are_of_the_rule_the_sources_and_the_definition() {
    let store = Arc::new(MemoryStore::new());
    let ann = UserId::new("ann").unwrap();
    let tool = harmless("mail", "send");
    let caller = |cargo: Cargo| Caller { cargo, ..Caller::new(&asking(&store), "ann", None, "exec") };
    caller(reading(&["crm"])).calls(&tool, &Scripted::new(&[Answer::Always])).await.unwrap();
    // In another process, too.
    assert!(caller(reading(&["crm"])).calls(&tool, &NobodyToAsk).await.is_ok());
    assert!(caller(reading(&["crm", "erp"])).calls(&tool, &NobodyToAsk).await.is_ok(), "the rule is about crm only");
    assert!(caller(reading(&["crm", "web"])).calls(&tool, &NobodyToAsk).await.is_err(), "the trifecta");
    let changed = Tool { description: "Something else".to_owned(), ..tool.clone() };
    assert!(caller(reading(&["crm"])).calls(&changed, &NobodyToAsk).await.is_err());
    let bob = Caller { cargo: reading(&["crm"]), ..Caller::new(&asking(&store), "bob", None, "exec") };
    assert!(bob.calls(&tool, &NobodyToAsk).await.is_err());
    let [approved] = &store.flow_approvals(&ann).await.unwrap()[..] else { panic!() };
    assert_eq!((approved.rule.as_str(), &approved.sources), ("crm -> mail: ask", &vec![server("crm")]));
    assert!(asking(&store).forget(&ann, &server("mail"), "send", None).await.unwrap());
    assert!(caller(reading(&["crm"])).calls(&tool, &NobodyToAsk).await.is_err());
}

/// Changes the rules while it is asked, and never answers.
#[derive(Debug)]
struct Changing(Arc<Approvals>, &'static str);
#[async_trait::async_trait]
impl Approver for Changing {
    async fn ask(&self, _: Question) -> Answer {
        self.0.replace_flows(flows(&[self.1], None));
        std::future::pending().await
    }
}

#[tokio::test]
async fn a_denied_tool_is_refused_without_a_question_and_rules_that_change_withdraw_one() {
    let store = Arc::new(MemoryStore::new());
    let denied = with_store(&[("mail.*", Decision::Deny)], Arc::clone(&store) as Arc<dyn Store>);
    denied.replace_flows(flows(&["crm -> mail: ask"], None));
    let person = Scripted::new(&[Answer::Once]);
    let caller = Caller { cargo: reading(&["crm"]), ..Caller::new(&denied, "ann", None, "exec") };
    assert_eq!(caller.calls(&harmless("mail", "send"), &person).await.unwrap_err().code(), "denied_by_policy");
    assert!(person.asked().is_empty());
    let changing = asking(&store);
    let caller = Caller { cargo: reading(&["crm"]), ..Caller::new(&changing, "ann", None, "exec") };
    let refused = caller.calls(&harmless("mail", "send"), &Changing(Arc::clone(&changing), "crm -> *: deny")).await;
    assert_eq!(refused.unwrap_err().code(), "denied_by_flow");
    changing.replace_flows(flows(&["crm -> mail: ask"], None));
    let allowed = caller.calls(&harmless("mail", "send"), &Changing(Arc::clone(&changing), "crm -> web: deny")).await;
    assert!(allowed.is_ok());
}

#[tokio::test]
async fn no_one_is_asked_about_the_data_of_a_call_that_a_condition_or_a_limit_refuses() {
    let placed = |text: &str| Placed { text: text.to_owned(), origin: "coracle.yaml:2".to_owned() };
    let condition = CheckSpec {
        name: "to-us".to_owned(),
        tools: Some(placed("mail.*")),
        require: placed("args.to == 'us'"),
        origin: "coracle.yaml:1".to_owned(),
        ..CheckSpec::default()
    };
    let limit = LimitSpec {
        name: "sizes".to_owned(),
        tools: Some(placed("mail.*")),
        window: placed("1h"),
        amount: Some(placed("args.size")),
        max: Some(5),
        origin: "coracle.yaml:3".to_owned(),
        ..LimitSpec::default()
    };
    let policy = Policy::new(Rules::default());
    let policy = policy.with_checks(Checks::new(vec![condition]).unwrap());
    let policy = policy.with_limits(Limits::new(vec![limit]).unwrap());
    let approvals = Arc::new(Approvals::new(policy, Arc::new(MemoryStore::new())));
    approvals.replace_flows(flows(&["crm -> mail: ask"], None));
    let caller = Caller { cargo: reading(&["crm"]), ..Caller::new(&approvals, "ann", None, "exec") };
    let tool = harmless("mail", "send");
    for (arguments, by) in [
        (json!({ "to": "them", "size": 1 }), "condition \"to-us\""),
        (json!({ "to": "us", "size": 6 }), "limit \"sizes\""),
    ] {
        let person = Scripted::new(&[Answer::Once]);
        let refusal = caller.calls_with(&tool, &arguments, &person).await.unwrap_err();
        assert!(refusal.code() == "denied_by_policy" && refusal.to_string().contains(by), "{refusal}");
        assert!(person.asked().is_empty(), "{arguments}");
    }
    // The control: what neither refuses is asked about.
    let person = Scripted::new(&[Answer::Once]);
    assert!(caller.calls_with(&tool, &json!({ "to": "us", "size": 5 }), &person).await.is_ok());
    assert_eq!(person.asked().len(), 1);
}

#[test]
fn mistakes_are_reported_with_their_place() {
    let mut told = Vec::new();
    for text in [
        "crm mail: deny",
        "crm -> mail",
        "crm -> mail: maybe",
        "crm -> mail: allow EMAIL",
        "crm -> mail: allow [EMIAL]",
        "crm -> mail: allow []",
        "crm.list -> mail: deny",
        "label:secret -> mail: deny",
        "crm & web & erp -> mail: deny",
        "crm & web -> mail: deny [EMAIL]",
        " -> mail: deny",
        "webhook:x -> mail: deny",
    ] {
        let line = FlowLine { text: text.to_owned(), origin: "coracle.yaml:7".to_owned() };
        let kinds = BTreeSet::from(["EMAIL".to_owned()]);
        let error = Flows::new(vec![line], None, known(), &kinds).unwrap_err();
        told.push(format!("{error}; {}", error.hint().unwrap()));
    }
    insta::assert_snapshot!(told.join("\n"));
}

#[test]
fn without_rules_and_private_data_nothing_is_active() {
    assert!(flows(&[], Some(Decision::Ask)).is_active() && flows(&["crm -> mail: ask"], None).is_active());
    assert!(!flows(&[], None).is_active());
    let unlabelled = KnownServers::default();
    assert!(!Flows::new(Vec::new(), Some(Decision::Ask), unlabelled, &BTreeSet::new()).unwrap().is_active());
}

#[test]
fn rules_for_servers_that_are_not_configured_are_reported() {
    let names = coracle_policy::Spellings::of_all(["crm", "mail"].map(|name| coracle_policy::Naming {
        wire: name,
        plain: name,
        identifier: name,
    }));
    let known = KnownServers { labels: ServerLabels::default(), names };
    let line = |text: &str| FlowLine { text: text.to_owned(), origin: "coracle.yaml:2".to_owned() };
    let lines = ["crm -> mail: deny", "cmr & crm -> mial.send: deny", "c* -> *: ask"].map(line);
    let flows = Flows::new(lines.to_vec(), None, known, &BTreeSet::new()).unwrap();
    let missing: Vec<String> = flows.without_server().into_iter().map(|(_, name)| name).collect();
    assert_eq!(missing, ["cmr", "mial.send"]);
}
