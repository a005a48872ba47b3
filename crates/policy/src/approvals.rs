mod flows;

use crate::call::Call;
use crate::definition::definition_digest;
use crate::grants::{Grants, Span};
use crate::restrictions::Restrictions;
use crate::{Answer, Approver, Doubt, Flows, Policy, Question, Reason, Refusal, Verdict};
use coracle_store::{Store, StoreError, ToolDecision};
use coracle_types::{Decision, ExecutionId, ServerName, SessionId, Tool, UserId};
use std::sync::{Arc, PoisonError, RwLock};
use std::time::SystemTime;
use tokio::sync::watch;

/// Why a tool may be called.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Grant {
    /// The policy allows it.
    Policy(Reason),
    /// A person allowed this call.
    Once,
    /// A person allowed the tool for this session, now or earlier.
    Session,
    /// A person allowed the tool permanently, now or earlier.
    Always,
}

/// Rules, people and their answers: every tool call passes [`Approvals::decide`].
#[derive(Debug)]
pub struct Approvals {
    /// Replaced as a whole.
    policy: RwLock<Arc<Policy>>,
    store: Arc<dyn Store>,
    /// Replaced as a whole.
    flows: RwLock<Arc<Flows>>,
    grants: Grants,
    restrictions: Restrictions,
    /// Counts answers that may settle other open questions.
    answers: watch::Sender<u64>,
}

impl Approvals {
    /// Creates approvals that keep permanent answers in `store`.
    pub fn new(policy: Policy, store: Arc<dyn Store>) -> Self {
        Self {
            policy: RwLock::new(Arc::new(policy)),
            store,
            flows: RwLock::default(),
            grants: Grants::default(),
            restrictions: Restrictions::default(),
            answers: watch::Sender::new(0),
        }
    }

    /// The part that decides without asking anyone.
    pub fn policy(&self) -> Arc<Policy> {
        Arc::clone(&self.policy.read().unwrap_or_else(PoisonError::into_inner))
    }

    /// Replaces the rules. Open questions that the new rules answer are withdrawn.
    pub fn replace_policy(&self, policy: Policy) {
        *self.policy.write().unwrap_or_else(PoisonError::into_inner) = Arc::new(policy);
        self.tell_others();
    }

    /// The rules about the flow of data.
    pub fn flows(&self) -> Arc<Flows> {
        Arc::clone(&self.flows.read().unwrap_or_else(PoisonError::into_inner))
    }

    /// Replaces the rules about the flow of data. Open questions that the new rules answer are withdrawn.
    pub fn replace_flows(&self, flows: Flows) {
        *self.flows.write().unwrap_or_else(PoisonError::into_inner) = Arc::new(flows);
        self.tell_others();
    }

    /// Decides whether the call may be made, and asks a person if necessary: whether this data may go there, and then
    /// whether the tool may be called. The answer to one of these questions never settles the other.
    pub async fn decide(&self, call: Call<'_>, approver: &dyn Approver) -> Result<Grant, Refusal> {
        self.decide_flow(&call, approver).await?;
        self.decide_tool(call, approver).await
    }

    /// Decides whether the tool may be called, and asks a person if necessary.
    ///
    /// Each call has its own question. The question is withdrawn if the tool is meanwhile allowed for the session or
    /// permanently, or if the future is dropped. A caller with a running clock can stop it in the approver.
    ///
    /// With a [`Doubt`] about the call, a person is asked unless the call is denied. The answer then counts for the
    /// call only: nothing is remembered.
    async fn decide_tool(&self, call: Call<'_>, approver: &dyn Approver) -> Result<Grant, Refusal> {
        let mut verdict = self.policy().decide(call.tool, call.names);
        match self.restriction(&call).await {
            Some(Decision::Deny) if verdict.decision != Decision::Deny => return Err(Refusal::Remembered),
            Some(Decision::Ask) if verdict.decision == Decision::Allow => {
                verdict = Verdict { decision: Decision::Ask, reason: Reason::Wish, ..verdict };
            }
            _ => {}
        }
        let is_wanted = approver.wants_each_call(call.tool);
        let must_ask = call.doubt.is_some() || is_wanted;
        match verdict.decision {
            Decision::Allow if !must_ask => return Ok(Grant::Policy(verdict.reason)),
            Decision::Deny => return Err(Refusal::denied(verdict)),
            Decision::Allow | Decision::Ask => {}
        }
        let definition = definition_digest(call.tool);
        // Subscribed before the first check, so that no later answer is missed.
        let mut answers = self.answers.subscribe();
        if let Some(settled) = self.settled(&call, &definition, must_ask).await {
            return settled;
        }
        let mut asked = approver.ask(Question::about(&call, &verdict, is_wanted));
        loop {
            tokio::select! {
                biased;
                answer = &mut asked => {
                    let now = self.policy().decide(call.tool, call.names);
                    return match call.doubt {
                        _ if now.decision == Decision::Deny => Err(Refusal::denied(now)),
                        Some(doubt) => without_doubt(answer, doubt),
                        None => self.answered(answer, &call, definition, verdict).await,
                    };
                }
                Ok(()) = answers.changed() => {
                    let now = self.policy().decide(call.tool, call.names);
                    match now.decision {
                        Decision::Deny => return Err(Refusal::denied(now)),
                        Decision::Allow if !must_ask && verdict.reason != Reason::Wish => {
                            return Ok(Grant::Policy(now.reason));
                        }
                        Decision::Allow | Decision::Ask => {}
                    }
                    if let Some(settled) = self.settled(&call, &definition, must_ask).await {
                        return settled;
                    }
                }
            }
        }
    }

    /// Stores what a user has decided about a tool as it is defined now. Only a person may do that.
    pub async fn decide_for_good(
        &self,
        user: &UserId,
        tool: &Tool,
        decision: Decision,
    ) -> Result<ToolDecision, StoreError> {
        let decided = ToolDecision {
            server: tool.server.clone(),
            tool: tool.name.clone(),
            definition: definition_digest(tool),
            decision,
            decided_at: SystemTime::now(),
        };
        self.store.remember(user, &decided).await?;
        self.restrictions.forget(user);
        self.grants.revoke(user, &tool.server, &tool.name);
        self.tell_others();
        Ok(decided)
    }

    /// Forgets what a user has decided about a tool. Returns whether there was a decision.
    pub async fn forget(&self, user: &UserId, server: &ServerName, tool: &str) -> Result<bool, StoreError> {
        let are_flows_forgotten = self.store.forget_flow_approvals(user, server, tool).await?;
        let is_forgotten = self.store.forget(user, server, tool).await? || are_flows_forgotten;
        self.restrictions.forget(user);
        Ok(is_forgotten)
    }

    /// What the user restricts about the tool of a call.
    async fn restriction(&self, call: &Call<'_>) -> Option<Decision> {
        let (user, tool) = (call.user, call.tool);
        match self.restrictions.on(&*self.store, user, &tool.server, &tool.name).await {
            Ok(restriction) => restriction,
            // Asking is safe.
            Err(error) => {
                tracing::warn!(%user, server = %tool.server, %error, "cannot read stored decisions");
                Some(Decision::Ask)
            }
        }
    }

    /// Forgets the grants of a session that has ended.
    pub fn end_session(&self, user: &UserId, session: &SessionId) {
        self.grants.end(&Span::Session(user.clone(), session.clone()));
    }

    /// Forgets the grants of an execution without a session that has ended.
    pub fn end_execution(&self, user: &UserId, execution: &ExecutionId) {
        self.grants.end(&Span::Execution(user.clone(), execution.clone()));
    }

    /// The earlier answer for this user, this tool and this definition of it. Of calls that must be asked about, only a no
    /// counts.
    async fn settled(&self, call: &Call<'_>, definition: &str, must_ask: bool) -> Option<Result<Grant, Refusal>> {
        // A decision that the user has made meanwhile also settles questions that are open.
        if self.restriction(call).await == Some(Decision::Deny) {
            return Some(Err(Refusal::Remembered));
        }
        if !must_ask && self.grants.holds(call, definition) {
            return Some(Ok(Grant::Session));
        }
        let remembered = match self.store.decision(call.user, &call.tool.server, &call.tool.name).await {
            Ok(remembered) => remembered?,
            // Asking once more is safe.
            Err(error) => {
                tracing::warn!(user = %call.user, server = %call.tool.server, %error, "cannot read stored decisions");
                return None;
            }
        };
        if remembered.definition != definition {
            return None;
        }
        (remembered.decision == Decision::Allow && !must_ask).then_some(Ok(Grant::Always))
    }

    async fn answered(
        &self,
        answer: Answer,
        call: &Call<'_>,
        definition: String,
        verdict: Verdict,
    ) -> Result<Grant, Refusal> {
        match answer {
            Answer::Once => Ok(Grant::Once),
            Answer::Session => {
                self.grants.add(call, &definition);
                self.tell_others();
                Ok(Grant::Session)
            }
            Answer::Always => {
                let grant = self.keep(call, definition).await;
                self.tell_others();
                Ok(grant)
            }
            Answer::Refuse => Err(Refusal::Refused),
            Answer::Nobody => Err(Refusal::nobody(verdict)),
            Answer::TimedOut => Err(Refusal::timed_out(verdict)),
            Answer::TooMany => Err(Refusal::TooManyQuestions),
        }
    }

    /// Stores a permanent yes. If that fails, keeps it for the session, because the person did say yes.
    async fn keep(&self, call: &Call<'_>, definition: String) -> Grant {
        let decision = ToolDecision {
            server: call.tool.server.clone(),
            tool: call.tool.name.clone(),
            definition,
            decision: Decision::Allow,
            decided_at: SystemTime::now(),
        };
        match self.store.remember(call.user, &decision).await {
            Ok(()) => {
                self.restrictions.forget(call.user);
                Grant::Always
            }
            Err(error) => {
                tracing::warn!(user = %call.user, server = %call.tool.server, %error, "cannot store a decision");
                self.grants.add(call, &decision.definition);
                Grant::Session
            }
        }
    }

    fn tell_others(&self) {
        self.answers.send_modify(|count| *count = count.wrapping_add(1));
    }
}

/// The decision about a call in doubt.
fn without_doubt(answer: Answer, doubt: Doubt) -> Result<Grant, Refusal> {
    let is_for_longer = matches!(answer, Answer::Session | Answer::Always);
    if is_for_longer && doubt == Doubt::Differs {
        Ok(Grant::Session)
    } else if is_for_longer || answer == Answer::Once {
        Ok(Grant::Once)
    } else {
        Err(Refusal::InDoubt { doubt, was_refused: answer == Answer::Refuse })
    }
}
