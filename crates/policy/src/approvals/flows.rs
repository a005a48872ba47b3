//! Questions about the flow of data, which are apart from those about tools.

use super::Approvals;
use crate::call::Call;
use crate::definition::{definition_digest, grant_digest};
use crate::grants::Reach;
use crate::{Answer, Approver, FlowDecision, FlowVerdict, Question, Reason, Refusal, Sink};
use coracle_store::FlowApproval;
use coracle_types::Decision;
use std::collections::HashSet;
use std::time::SystemTime;

impl Approvals {
    /// Decides whether the data of a call may go to its tool, and asks a person if necessary. The rules may change
    /// meanwhile. No one is asked about the data of a call that is refused whatever the answer.
    pub(super) async fn decide_flow(&self, call: &Call<'_>, approver: &dyn Approver) -> Result<(), Refusal> {
        if self.flows().decide(call.cargo, &sink(call)) == FlowDecision::Allow {
            return Ok(());
        }
        self.refused_anyway(call).await?;
        let definition = definition_digest(call.tool);
        // What was approved for this call.
        let mut once = HashSet::new();
        let mut answers = self.answers.subscribe();
        loop {
            let open = self.open_flows(call, &definition, &once).await?;
            let Some(first) = open.first().cloned() else { return Ok(()) };
            self.limited(call).await?;
            let mut question = Question::about_flow(call, open.clone());
            question.origin = approver.origin();
            let mut asked = approver.ask(question);
            let answer = loop {
                tokio::select! {
                    biased;
                    answer = &mut asked => break Some(answer),
                    Ok(()) = answers.changed() => {
                        if self.open_flows(call, &definition, &once).await? != open {
                            break None;
                        }
                    }
                }
            };
            drop(asked);
            let Some(answer) = answer else { continue };
            let (reason, allow_line) = (Reason::Flow(Box::new(first.clone())), first.hint.clone());
            match answer {
                // An answer for the same arguments is one about the tool.
                Answer::Once | Answer::SessionSameArguments | Answer::AlwaysSameArguments => {}
                Answer::Session => self.allow_flows_for_session(call, &definition, &open),
                Answer::Always => self.keep_flows(call, &definition, &open).await,
                Answer::Refuse => return Err(Refusal::Refused),
                Answer::Nobody => return Err(Refusal::NobodyToAsk { reason, allow_line }),
                Answer::TimedOut => return Err(Refusal::TimedOut { reason, allow_line }),
                Answer::TooMany => return Err(Refusal::TooManyQuestions),
            }
            once.extend(open.iter().map(|verdict| grant_digest(&definition, verdict)));
        }
    }

    /// The rules that a person still has to approve.
    async fn open_flows(
        &self,
        call: &Call<'_>,
        definition: &str,
        once: &HashSet<String>,
    ) -> Result<Vec<FlowVerdict>, Refusal> {
        let mut verdicts = match self.flows().decide(call.cargo, &sink(call)) {
            FlowDecision::Allow => return Ok(Vec::new()),
            FlowDecision::Deny(verdict) => return Err(Refusal::Flow { verdict: Box::new(verdict) }),
            FlowDecision::Ask(verdicts) => verdicts,
        };
        verdicts.retain(|verdict| {
            let digest = grant_digest(definition, verdict);
            !once.contains(&digest) && !self.grants.holds(call, &digest)
        });
        if verdicts.is_empty() {
            return Ok(verdicts);
        }
        match self.store.flow_approvals(call.user).await {
            Ok(approved) => {
                let approved: HashSet<String> = approved.into_iter().map(|approved| approved.digest).collect();
                verdicts.retain(|verdict| !approved.contains(&grant_digest(definition, verdict)));
            }
            // Asking once more is safe.
            Err(error) => tracing::warn!(user = %call.user, %error, "cannot read stored approvals of flows"),
        }
        Ok(verdicts)
    }

    fn allow_flows_for_session(&self, call: &Call<'_>, definition: &str, flows: &[FlowVerdict]) {
        for verdict in flows {
            self.grants.add(call, &grant_digest(definition, verdict), Reach::AllArguments);
        }
        self.tell_others();
    }

    /// Stores permanent approvals. If that fails, keeps them for the session, because the person did say yes.
    async fn keep_flows(&self, call: &Call<'_>, definition: &str, flows: &[FlowVerdict]) {
        for verdict in flows {
            let approval = FlowApproval {
                digest: grant_digest(definition, verdict),
                server: call.tool.server.clone(),
                tool: call.tool.name.clone(),
                rule: verdict.rule.clone(),
                sources: verdict.sources.iter().cloned().collect(),
                approved_at: SystemTime::now(),
            };
            if let Err(error) = self.store.approve_flow(call.user, &approval).await {
                tracing::warn!(user = %call.user, server = %call.tool.server, %error, "cannot store an approval");
                self.grants.add(call, &approval.digest, Reach::AllArguments);
            }
        }
        self.tell_others();
    }

    /// Refuses a call that is denied wherever its data came from. The refusal is final: a change of the policy between
    /// this and the decision about the tool must not let data pass.
    async fn refused_anyway(&self, call: &Call<'_>) -> Result<(), Refusal> {
        let verdict = self.verdict(call);
        if verdict.decision == Decision::Deny {
            return Err(Refusal::denied(verdict));
        }
        match self.restriction(call).await {
            Some(Decision::Deny) => Err(Refusal::Remembered),
            _ => Ok(()),
        }
    }
}

/// Where the data of a call goes.
fn sink<'a>(call: &Call<'a>) -> Sink<'a> {
    Sink::Tool { tool: call.tool, names: call.names }
}
