//! The mode `plan`: what is made, what is listed, and what is run after approval.

use crate::fake::{FakeBackend, done, script};
use crate::lab::{Lab, Ran, rule, to_bank};
use coracle_engine::{PlanApproval, PlanError, PlanSettings, ToolEffect};
use coracle_protocol::ToGuest;
use coracle_types::{Decision, EffectState, Mode, Plan, PlanId, PlanState, PlannedAction, UserId};
use serde_json::{Value, json};
use std::collections::BTreeSet;
use std::fs;
use std::path::PathBuf;
use tokio_util::sync::CancellationToken;

async fn plan(lab: &Lab, calls: Vec<Value>) -> Ran {
    lab.run(calls, |request| request.mode = Mode::Plan).await
}

fn approval(plan: &PlanId, only: Option<&[u64]>) -> PlanApproval {
    PlanApproval {
        user: UserId::local(),
        plan: plan.clone(),
        effects: only.map(|only| only.iter().copied().collect::<BTreeSet<u64>>()),
        cancel: CancellationToken::new(),
    }
}

async fn approve(lab: &Lab, plan: &PlanId, only: Option<&[u64]>) -> Result<Plan, PlanError> {
    lab.engine(FakeBackend::new(Vec::new())).run_plan(approval(plan, only)).await
}

/// Number, tool and text of the calls of a plan.
fn calls(plan: &Plan) -> Vec<(u64, String, Value)> {
    let call = |effect: &coracle_types::PlannedEffect| match &effect.action {
        PlannedAction::Call { tool, arguments, .. } => Some((effect.number, tool.clone(), arguments["text"].clone())),
        PlannedAction::File { .. } => None,
    };
    plan.effects.iter().filter_map(call).collect()
}

fn states(plan: &Plan) -> Vec<EffectState> {
    plan.effects.iter().map(|effect| effect.state).collect()
}

#[tokio::test]
async fn reads_are_made_and_effects_are_listed_and_made_once_after_approval() {
    let lab = Lab::new();
    let ran = plan(&lab, vec![to_bank("look", "a"), to_bank("pay", "x"), to_bank("erase", "y")]).await;
    assert_eq!((ran.codes(), lab.done()), (vec!["ok"; 3], vec!["look a".to_owned()]));
    let made: Vec<&str> = ran.execution.calls.iter().map(|call| call.tool.as_str()).collect();
    assert_eq!(made, ["look"], "the ledger has calls that were really made");
    let planned = ran.execution.plan.unwrap();
    assert_eq!((planned.state, planned.reads.len()), (PlanState::Open, 1));
    let expected = [(2, "pay".to_owned(), json!("x")), (3, "erase".to_owned(), json!("y"))];
    assert_eq!(calls(&planned), expected);
    let asked: Vec<bool> = planned
        .effects
        .iter()
        .map(|effect| matches!(&effect.action, PlannedAction::Call { decision: Decision::Ask, .. }))
        .collect();
    assert_eq!(asked, [false, true], "a person sees which calls need approval");

    let engine = lab.engine(FakeBackend::new(Vec::new()));
    let stranger = PlanApproval { user: UserId::new("eve").unwrap(), ..approval(&planned.id, None) };
    assert!(matches!(engine.run_plan(stranger).await, Err(PlanError::Missing)));
    assert!(matches!(engine.plan(&UserId::new("eve").unwrap(), &planned.id).await, Err(PlanError::Missing)));
    assert_eq!(lab.done().len(), 1, "nothing was done for a stranger");

    let ended = approve(&lab, &planned.id, None).await.unwrap();
    assert_eq!((ended.state, states(&ended)), (PlanState::Done, vec![EffectState::Done; 2]));
    assert_eq!(lab.done(), ["look a", "look a", "pay x", "erase y"], "the read is repeated before");
    let again = approve(&lab, &planned.id, None).await.unwrap_err();
    assert_eq!((again.code(), lab.done().len()), ("plan_not_open", 4));
}

#[tokio::test]
async fn of_several_approvals_one_runs_the_plan() {
    let lab = Lab::new();
    let planned = plan(&lab, vec![to_bank("pay", "x")]).await.execution.plan.unwrap();
    let engine = lab.engine(FakeBackend::new(Vec::new()));
    let runs = (0..8).map(|_| engine.run_plan(approval(&planned.id, None)));
    let outcomes = futures::future::join_all(runs).await;
    assert_eq!(outcomes.iter().filter(|outcome| outcome.is_ok()).count(), 1, "{outcomes:?}");
    assert_eq!(lab.done(), ["pay x"]);
}

#[tokio::test]
async fn only_the_chosen_effects_take_place() {
    let lab = Lab::new();
    let planned = plan(&lab, vec![to_bank("pay", "x"), to_bank("pay", "y"), to_bank("pay", "z")]).await;
    let planned = planned.execution.plan.unwrap();
    for wrong in [&[][..], &[1, 9]] {
        let refused = approve(&lab, &planned.id, Some(wrong)).await.unwrap_err();
        assert_eq!(refused.code(), "plan_selection", "{wrong:?}");
    }
    let ended = approve(&lab, &planned.id, Some(&[1, 3])).await.unwrap();
    assert_eq!(states(&ended), [EffectState::Done, EffectState::LeftOut, EffectState::Done]);
    assert_eq!(lab.done(), ["pay x", "pay z"]);
}

#[tokio::test]
async fn a_rule_that_denies_holds_while_planning_and_when_the_plan_runs() {
    let denied = Lab::with_rules(vec![rule("bank.pay", Decision::Deny)]);
    let ran = plan(&denied, vec![to_bank("pay", "x")]).await;
    assert_eq!(ran.codes(), ["denied_by_policy"]);
    assert_eq!(ran.execution.plan.unwrap().state, PlanState::Empty);

    let mut lab = Lab::new();
    let first = plan(&lab, vec![to_bank("pay", "x"), to_bank("put", "y")]).await.execution.plan.unwrap();
    let second = plan(&lab, vec![to_bank("pay", "x")]).await.execution.plan.unwrap();
    lab.rules = vec![rule("bank.pay", Decision::Deny)];
    let ended = approve(&lab, &first.id, None).await.unwrap();
    assert_eq!((ended.state, states(&ended)), (PlanState::Failed, vec![EffectState::Failed, EffectState::Planned]));
    assert_eq!(ended.effects[0].error_code.as_deref(), Some("denied_by_policy"));
    assert!(lab.done().is_empty(), "nothing after it took place either");
    lab.rules = Vec::new();
    approve(&lab, &second.id, None).await.unwrap();
    assert_eq!(lab.done(), ["pay x"], "the control");
}

#[tokio::test]
async fn a_changed_definition_is_noticed() {
    let mut lab = Lab::new();
    let first = plan(&lab, vec![to_bank("pay", "x")]).await.execution.plan.unwrap();
    let second = plan(&lab, vec![to_bank("pay", "x")]).await.execution.plan.unwrap();
    lab.described = "Pays twice.".to_owned();
    let refused = approve(&lab, &first.id, None).await.unwrap_err();
    assert_eq!(refused.code(), "plan_changed");
    assert!(refused.to_string().contains("definition of bank.pay"), "{refused}");
    assert!(lab.done().is_empty());
    let shown = lab.engine(FakeBackend::new(Vec::new())).plan(&UserId::local(), &first.id).await.unwrap();
    assert_eq!((shown.state, shown.changes.len()), (PlanState::Changed, 1));
    lab.described = String::new();
    let again = approve(&lab, &first.id, None).await.unwrap_err();
    assert_eq!(again.code(), "plan_not_open", "a refused plan stays refused");
    approve(&lab, &second.id, None).await.unwrap();
    assert_eq!(lab.done(), ["pay x"], "the control");
}

/// `late` answers otherwise the second time.
#[tokio::test]
async fn a_changed_answer_is_noticed_unless_it_varies_anyway() {
    for (effect, code) in [(ToolEffect::Reads, Some("plan_changed")), (ToolEffect::Varies, None)] {
        let tools = [("bank.late".to_owned(), effect, "a test".to_owned())];
        let lab = Lab { plans: PlanSettings::new(tools, [], None).unwrap(), ..Lab::new() };
        let ran = plan(&lab, vec![to_bank("late", "a"), to_bank("pay", "x")]).await;
        assert_eq!(ran.codes(), ["tool_error", "ok"]);
        let outcome = approve(&lab, &ran.execution.plan.unwrap().id, None).await;
        assert_eq!(outcome.as_ref().err().map(PlanError::code), code, "{outcome:?}");
        let paid = lab.done().contains(&"pay x".to_owned());
        assert_eq!(paid, code.is_none(), "{:?}", lab.done());
    }
}

#[tokio::test]
async fn the_operator_says_which_tools_read() {
    let tools = [
        ("bank.*".to_owned(), ToolEffect::Reads, "a test".to_owned()),
        ("bank.look".to_owned(), ToolEffect::Writes, "a test".to_owned()),
    ];
    let lab = Lab { plans: PlanSettings::new(tools, [], None).unwrap(), ..Lab::new() };
    let ran = plan(&lab, vec![to_bank("pay", "x"), to_bank("look", "y")]).await;
    assert_eq!(lab.done(), ["pay x"]);
    assert_eq!(calls(&ran.execution.plan.unwrap()), [(2, "look".to_owned(), json!("y"))]);
}

/// A guest that pays, and passes on the placeholder of the result as `change` says.
async fn linked(lab: &Lab, change: fn(&str) -> String) -> Plan {
    let backend = FakeBackend::new(vec![script(move |mut guest| async move {
        let run = guest.run().await;
        guest.say(json!({ "type": "call", "id": 1, "method": "tool", "params": to_bank("pay", "first") })).await;
        let ToGuest::Reply(reply) = guest.hear().await else { panic!("no reply") };
        let text = change(reply.value["value"].as_str().unwrap());
        for (id, tool) in [(2, "pay"), (3, "look")] {
            guest.say(json!({ "type": "call", "id": id, "method": "tool", "params": to_bank(tool, &text) })).await;
            let ToGuest::Reply(_) = guest.hear().await else { panic!("no reply") };
        }
        guest.say(done(run)).await;
        guest.live_on().await
    })]);
    let (execution, _) = lab.play(backend, |request| request.mode = Mode::Plan).await;
    execution.plan.unwrap()
}

#[tokio::test]
async fn results_are_filled_in_when_the_plan_runs() {
    let lab = Lab::new();
    let planned = linked(&lab, |placeholder| format!("about {placeholder}!")).await;
    assert!(lab.done().is_empty(), "a read of a result that does not exist yet waits, too");
    let uses: Vec<&[u64]> = planned.effects.iter().map(|effect| effect.uses.as_slice()).collect();
    assert_eq!(uses, [&[][..], &[1], &[1]]);
    assert_eq!(calls(&planned)[1].2, json!("about ⟨result of 1: ⟩!"));
    let refused = approve(&lab, &planned.id, Some(&[2])).await.unwrap_err();
    assert_eq!(refused.code(), "plan_selection", "it needs effect 1: {refused}");
    let ended = approve(&lab, &planned.id, None).await.unwrap();
    assert_eq!(ended.state, PlanState::Done);
    assert_eq!(lab.done(), ["pay first", "pay about first!", "look about first!"]);
    assert_eq!(ended.effects[2].result, Some(json!("about first!")));
}

#[tokio::test]
async fn a_call_that_changes_a_placeholder_cannot_be_run() {
    let lab = Lab::new();
    let planned = linked(&lab, str::to_uppercase).await;
    let blocked: Vec<bool> = planned.effects.iter().map(|effect| effect.blocked.is_some()).collect();
    assert_eq!(blocked, [false, true, true]);
    assert_eq!(approve(&lab, &planned.id, None).await.unwrap_err().code(), "plan_selection");
    approve(&lab, &planned.id, Some(&[1])).await.unwrap();
    assert_eq!(lab.done(), ["pay first"]);
}

#[tokio::test]
async fn a_plan_of_code_that_fails_is_not_kept() {
    let lab = Lab::new();
    let backend = FakeBackend::new(vec![script(|mut guest| async move {
        let run = guest.run().await;
        guest.say(json!({ "type": "call", "id": 1, "method": "tool", "params": to_bank("pay", "x") })).await;
        guest.hear().await;
        let error = json!({ "code": "exception", "message": "KeyError: 'id'", "traceback": "", "hint": null });
        guest
            .say(json!({ "type": "done", "id": run, "ok": false, "exit_code": 1, "result": null, "error": error }))
            .await;
        guest.live_on().await
    })]);
    let (execution, _) = lab.play(backend, |request| request.mode = Mode::Plan).await;
    let planned = execution.plan.unwrap();
    assert_eq!((planned.state, planned.effects.len()), (PlanState::Incomplete, 1));
    assert!(execution.failure.unwrap().hint.unwrap().contains("placeholders"));
    assert_eq!(approve(&lab, &planned.id, None).await.unwrap_err().code(), "plan_missing");
}

#[tokio::test]
async fn skills_are_not_saved_while_planning() {
    let lab = Lab::new();
    let backend = || {
        FakeBackend::new(vec![script(|mut guest| async move {
            let run = guest.run().await;
            let params = json!({ "name": "x", "code": "x = 1", "language": "typescript" });
            guest.say(json!({ "type": "call", "id": 1, "method": "skill.save", "params": params })).await;
            let ToGuest::Reply(reply) = guest.hear().await else { panic!("no reply") };
            let code = reply.error.map_or("ok".to_owned(), |error| error.code);
            guest.say(json!({ "type": "done", "id": run, "ok": true, "result": code, "exit_code": 0 })).await;
            guest.live_on().await
        })])
    };
    let (planned, _) = lab.play(backend(), |request| request.mode = Mode::Plan).await;
    assert_eq!(planned.result, Some(json!("not_in_plan")));
    let (control, _) = lab.play(backend(), |_| {}).await;
    assert_ne!(control.result, Some(json!("not_in_plan")), "the control");
}

/// The workspace of the user, and the copy that code works on while a plan is made.
fn workspace(lab: &Lab) -> PathBuf {
    lab.file("workspaces/local/files")
}

fn copy(lab: &Lab) -> PathBuf {
    let plans = lab.file("workspaces/local/plans");
    fs::read_dir(plans).unwrap().next().unwrap().unwrap().path().join("workspace")
}

/// A plan that creates, changes and deletes files.
async fn plan_files(lab: &Lab) -> Plan {
    fs::create_dir_all(workspace(lab)).unwrap();
    for (name, text) in [("kept", "same"), ("changed", "old"), ("deleted", "gone")] {
        fs::write(workspace(lab).join(name), text).unwrap();
    }
    let plans = lab.file("workspaces/local/plans");
    let backend = FakeBackend::new(vec![script(move |mut guest| async move {
        let run = guest.run().await;
        let copy = fs::read_dir(plans).unwrap().next().unwrap().unwrap().path().join("workspace");
        assert_eq!(fs::read_to_string(copy.join("changed")).unwrap(), "old");
        fs::create_dir(copy.join("folder")).unwrap();
        fs::write(copy.join("folder/new"), "new").unwrap();
        fs::write(copy.join("changed"), "other").unwrap();
        fs::write(copy.join("kept"), "same").unwrap();
        fs::remove_file(copy.join("deleted")).unwrap();
        std::os::unix::fs::symlink("/etc/passwd", copy.join("link")).unwrap();
        guest.say(done(run)).await;
        guest.live_on().await
    })]);
    let (execution, _) = lab.play(backend, |request| request.mode = Mode::Plan).await;
    execution.plan.unwrap()
}

#[tokio::test]
async fn changes_of_files_are_part_of_the_plan() {
    let lab = Lab::new();
    let planned = plan_files(&lab).await;
    let files: Vec<(String, &str)> = planned
        .effects
        .iter()
        .map(|effect| match &effect.action {
            PlannedAction::File { path, change, .. } => (path.clone(), change.as_str()),
            other @ PlannedAction::Call { .. } => panic!("{other:?}"),
        })
        .collect();
    let expected = [("changed", "changed"), ("folder/new", "created"), ("link", "created"), ("deleted", "deleted")];
    assert_eq!(files, expected.map(|(path, change)| (path.to_owned(), change)));
    let text = |name: &str| fs::read_to_string(workspace(&lab).join(name)).ok();
    assert_eq!((text("changed"), text("deleted")), (Some("old".to_owned()), Some("gone".to_owned())));
    assert!(!workspace(&lab).join("folder").exists(), "nothing has happened yet");
    assert!(!copy(&lab).exists(), "the copy is gone");

    assert_eq!(approve(&lab, &planned.id, None).await.unwrap_err().code(), "plan_selection", "the link is blocked");
    let ended = approve(&lab, &planned.id, Some(&[1, 2, 4])).await.unwrap();
    assert_eq!(ended.state, PlanState::Done, "{ended:?}");
    assert_eq!((text("changed"), text("folder/new")), (Some("other".to_owned()), Some("new".to_owned())));
    assert!(text("deleted").is_none() && !workspace(&lab).join("link").exists());
    assert!(!lab.file("workspaces/local/plans").join(planned.id.as_str()).exists(), "what was kept is gone");
}

#[tokio::test]
async fn a_changed_file_is_noticed() {
    for change in ["changed", "created", "deleted", "none"] {
        let lab = Lab::new();
        fs::create_dir_all(workspace(&lab)).unwrap();
        fs::write(workspace(&lab).join("file"), "before").unwrap();
        let planned = plan(&lab, vec![to_bank("pay", "x")]).await.execution.plan.unwrap();
        match change {
            "changed" => fs::write(workspace(&lab).join("file"), "afterwards").unwrap(),
            "created" => fs::write(workspace(&lab).join("other"), "").unwrap(),
            "deleted" => fs::remove_file(workspace(&lab).join("file")).unwrap(),
            _ => {}
        }
        let outcome = approve(&lab, &planned.id, None).await;
        if change == "none" {
            assert_eq!((outcome.unwrap().state, lab.done()), (PlanState::Done, vec!["pay x".to_owned()]));
            continue;
        }
        let refused = outcome.unwrap_err();
        let name = if change == "created" { "other" } else { "file" };
        assert_eq!((refused.code(), lab.done().len()), ("plan_changed", 0), "{change}");
        assert!(refused.to_string().contains(&format!("{name:?}")), "{refused}");
    }
}
