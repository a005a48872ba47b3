mod flows;
mod limits;

use crate::call::Call;
use crate::definition::{arguments_digest, definition_digest};
use crate::grants::{Grants, Reach, Span};
use crate::restrictions::Restrictions;
use crate::{
    Answer, Approver, Doubt, Flows, GroupAnswer, GroupApprover, NoQuorum, NobodyToAsk, Policy, Question, QuestionId,
    Reason, Refusal, Verdict,
};
use coracle_store::{Store, StoreError, ToolDecision};
use coracle_types::{Decision, ExecutionId, ServerName, SessionId, Tool, UserId};
use std::collections::BTreeSet;
use std::pin::pin;
use std::sync::{Arc, OnceLock, PoisonError, RwLock};
use std::time::SystemTime;
use tokio::sync::watch;

/// The purpose of the key under which arguments are stored as digests.
const ARGUMENTS_KEY: &str = "coracle decisions about arguments 1";
/// The number of bytes of such a digest.
const STORED_BYTES: usize = 16;

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
    /// These members of a group allowed this call.
    Group(BTreeSet<UserId>),
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
    /// The way to ask groups, if there is one.
    groups: OnceLock<Arc<dyn GroupApprover>>,
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
            groups: OnceLock::new(),
        }
    }

    /// Sets the way to ask groups. Only the first call has an effect.
    pub fn ask_groups_through(&self, groups: Arc<dyn GroupApprover>) {
        let _ = self.groups.set(groups);
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

    /// Replaces all rules, so that no decision has new rules about tools and old ones about the flow of data. Open
    /// questions that the new rules answer are withdrawn.
    pub fn replace(&self, policy: Policy, flows: Flows) {
        {
            let mut in_force = self.policy.write().unwrap_or_else(PoisonError::into_inner);
            *self.flows.write().unwrap_or_else(PoisonError::into_inner) = Arc::new(flows);
            *in_force = Arc::new(policy);
        }
        self.tell_others();
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
    ///
    /// Where a group has to approve, its members are asked instead. If it is another group after a change of the rules,
    /// the question begins anew with the same ID.
    async fn decide_tool(&self, call: Call<'_>, approver: &dyn Approver) -> Result<Grant, Refusal> {
        let mut id = None;
        loop {
            if let Some(decided) = self.decide_under_these_rules(&call, approver, &mut id).await {
                return decided;
            }
        }
    }

    /// Decides about a call, unless other people have to approve it meanwhile.
    async fn decide_under_these_rules(
        &self,
        call: &Call<'_>,
        approver: &dyn Approver,
        id: &mut Option<QuestionId>,
    ) -> Option<Result<Grant, Refusal>> {
        let mut verdict = self.verdict(call);
        match self.restriction(call).await {
            Some(Decision::Deny) if verdict.decision != Decision::Deny => return Some(Err(Refusal::Remembered)),
            Some(Decision::Ask) if verdict.decision == Decision::Allow => {
                verdict = Verdict { decision: Decision::Ask, reason: Reason::Wish, ..verdict };
            }
            _ => {}
        }
        let is_wanted = approver.wants_each_call(call.tool);
        let is_about_this_call = verdict.decision == Decision::Ask && verdict.is_about_this_call;
        let must_ask = call.doubt.is_some() || is_wanted || verdict.quorum.is_some() || is_about_this_call;
        match verdict.decision {
            Decision::Allow if !must_ask => return Some(Ok(Grant::Policy(verdict.reason))),
            Decision::Deny => return Some(Err(Refusal::denied(verdict))),
            Decision::Allow | Decision::Ask => {}
        }
        // No one is asked about a call that a limit refuses anyway.
        if let Err(refusal) = self.limited(call).await {
            return Some(Err(refusal));
        }
        let definition = definition_digest(call.tool);
        // Subscribed before the first check, so that no later answer is missed.
        let mut answers = self.answers.subscribe();
        if let Some(settled) = self.settled(call, &definition, must_ask).await {
            return Some(settled);
        }
        let mut question = Question::about(call, &verdict, is_wanted);
        question.id = id.get_or_insert(question.id).clone();
        question.origin = approver.origin();
        let groups = self.groups.get().map_or(&NobodyToAsk as &dyn GroupApprover, |groups| &**groups);
        let mut asked = pin!(ask(approver, groups, question));
        loop {
            tokio::select! {
                biased;
                said = &mut asked => {
                    let now = self.verdict(call);
                    if now.decision == Decision::Deny {
                        return Some(Err(Refusal::denied(now)));
                    }
                    if now.quorum != verdict.quorum {
                        return None;
                    }
                    return Some(match (said, call.doubt) {
                        (Said::Group(answer), doubt) => approved(answer, call, &verdict, doubt),
                        (Said::Person(answer), Some(doubt)) => without_doubt(answer, doubt),
                        (Said::Person(answer), None) => self.answered(answer, call, definition, verdict).await,
                    });
                }
                Ok(()) = answers.changed() => {
                    let now = self.verdict(call);
                    match now.decision {
                        Decision::Deny => return Some(Err(Refusal::denied(now))),
                        _ if now.quorum != verdict.quorum => return None,
                        Decision::Allow if !must_ask && verdict.reason != Reason::Wish => {
                            return Some(Ok(Grant::Policy(now.reason)));
                        }
                        Decision::Allow | Decision::Ask => {}
                    }
                    if let Some(settled) = self.settled(call, &definition, must_ask).await {
                        return Some(settled);
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
            arguments: None,
            decision,
            decided_at: SystemTime::now(),
        };
        self.store.remember(user, &decided).await?;
        self.restrictions.forget(user);
        self.grants.revoke(user, &tool.server, &tool.name);
        self.tell_others();
        Ok(decided)
    }

    /// Forgets what a user has decided about a tool, or only about the arguments with this digest. Returns whether there
    /// was a decision.
    pub async fn forget(
        &self,
        user: &UserId,
        server: &ServerName,
        tool: &str,
        arguments: Option<&str>,
    ) -> Result<bool, StoreError> {
        let is_forgotten = match arguments {
            None => {
                let are_flows_forgotten = self.store.forget_flow_approvals(user, server, tool).await?;
                self.store.forget(user, server, tool).await? || are_flows_forgotten
            }
            Some(arguments) => self.store.forget_arguments(user, server, tool, arguments).await?,
        };
        self.restrictions.forget(user);
        Ok(is_forgotten)
    }

    /// What the policy decides about a call.
    fn verdict(&self, call: &Call<'_>) -> Verdict {
        let policy = self.policy();
        policy.decide_call(&policy.facts(call))
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
        if must_ask {
            return None;
        }
        match self.is_remembered(call, definition).await {
            Ok(is_remembered) => is_remembered.then_some(Ok(Grant::Always)),
            // Asking once more is safe.
            Err(error) => {
                tracing::warn!(user = %call.user, server = %call.tool.server, %error, "cannot read stored decisions");
                None
            }
        }
    }

    /// Whether the user has permanently allowed this tool as it is defined, with these arguments.
    async fn is_remembered(&self, call: &Call<'_>, definition: &str) -> Result<bool, StoreError> {
        let mut remembered = self.store.decisions_about(call.user, &call.tool.server, &call.tool.name).await?;
        remembered.retain(|decided| decided.decision == Decision::Allow && decided.definition == definition);
        if remembered.iter().any(|decided| decided.arguments.is_none()) {
            return Ok(true);
        }
        if remembered.is_empty() {
            return Ok(false);
        }
        let arguments = Some(self.stored_arguments(call, definition).await?);
        Ok(remembered.iter().any(|decided| decided.arguments == arguments))
    }

    /// The arguments of a call as they are stored: without the key, nobody can find out whether a guess is right.
    async fn stored_arguments(&self, call: &Call<'_>, definition: &str) -> Result<String, StoreError> {
        let key = self.store.derived_key(ARGUMENTS_KEY).await?;
        let digest = arguments_digest(definition, call.arguments);
        let mac = key.mac(&[call.user.as_str().as_bytes(), b"\0", &digest]);
        Ok(hex::encode(&mac[..STORED_BYTES]))
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
            Answer::Session | Answer::SessionSameArguments => {
                self.grants.add(call, &definition, reach(answer));
                self.tell_others();
                Ok(Grant::Session)
            }
            Answer::Always | Answer::AlwaysSameArguments => {
                let grant = self.keep(call, definition, reach(answer)).await;
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
    async fn keep(&self, call: &Call<'_>, definition: String, reach: Reach) -> Grant {
        let stored = async {
            let arguments = match reach {
                Reach::AllArguments => None,
                Reach::SameArguments => Some(self.stored_arguments(call, &definition).await?),
            };
            let decision = ToolDecision {
                server: call.tool.server.clone(),
                tool: call.tool.name.clone(),
                definition: definition.clone(),
                arguments,
                decision: Decision::Allow,
                decided_at: SystemTime::now(),
            };
            self.store.remember(call.user, &decision).await
        };
        match stored.await {
            Ok(()) => {
                self.restrictions.forget(call.user);
                Grant::Always
            }
            Err(error) => {
                tracing::warn!(user = %call.user, server = %call.tool.server, %error, "cannot store a decision");
                self.grants.add(call, &definition, reach);
                Grant::Session
            }
        }
    }

    fn tell_others(&self) {
        self.answers.send_modify(|count| *count = count.wrapping_add(1));
    }
}

/// An answer, and who gave it.
enum Said {
    Person(Answer),
    Group(GroupAnswer),
}

/// Asks the people of a question.
async fn ask(approver: &dyn Approver, groups: &dyn GroupApprover, question: Question) -> Said {
    let Some(quorum) = &question.quorum else { return Said::Person(approver.ask(question).await) };
    if !quorum.is_possible(&question.user) {
        return Said::Group(GroupAnswer::Nobody);
    }
    let caller = question.user.clone();
    // A member who may approve alone can also be asked in a way that reaches nobody else.
    let is_enough = quorum.is_met(&BTreeSet::from([caller.clone()]), &caller);
    match approver.ask_group(question.clone(), groups).await {
        GroupAnswer::Nobody if is_enough => Said::Group(match approver.ask(question).await {
            Answer::Refuse => GroupAnswer::Refused,
            Answer::Nobody => GroupAnswer::Nobody,
            Answer::TimedOut => GroupAnswer::TimedOut,
            Answer::TooMany => GroupAnswer::TooMany,
            Answer::Once
            | Answer::Session
            | Answer::SessionSameArguments
            | Answer::Always
            | Answer::AlwaysSameArguments => GroupAnswer::Approved(BTreeSet::from([caller])),
        }),
        answer => Said::Group(answer),
    }
}

/// The decision of a group about a call.
#[expect(clippy::result_large_err, reason = "refusals are rare")]
fn approved(answer: GroupAnswer, call: &Call<'_>, verdict: &Verdict, doubt: Option<Doubt>) -> Result<Grant, Refusal> {
    let Some(quorum) = &verdict.quorum else { return Err(Refusal::Refused) };
    let refusal = match answer {
        // The approver is not trusted with the count.
        GroupAnswer::Approved(people) if quorum.is_met(&people, call.user) => return Ok(Grant::Group(people)),
        GroupAnswer::Refused => Refusal::Refused,
        GroupAnswer::Approved(_) | GroupAnswer::Nobody if !quorum.is_possible(call.user) => {
            Refusal::no_quorum(quorum, NoQuorum::TooFew { members: quorum.eligible(call.user) })
        }
        GroupAnswer::Approved(_) | GroupAnswer::Nobody => Refusal::no_quorum(quorum, NoQuorum::Unasked),
        GroupAnswer::TimedOut => Refusal::no_quorum(quorum, NoQuorum::TimedOut),
        GroupAnswer::TooMany => Refusal::TooManyQuestions,
    };
    Err(match doubt {
        Some(doubt) => Refusal::InDoubt { doubt, was_refused: refusal == Refusal::Refused },
        None => refusal,
    })
}

/// The calls that an answer for longer applies to.
fn reach(answer: Answer) -> Reach {
    match answer {
        Answer::SessionSameArguments | Answer::AlwaysSameArguments => Reach::SameArguments,
        _ => Reach::AllArguments,
    }
}

/// The decision about a call in doubt.
#[expect(clippy::result_large_err, reason = "refusals are rare")]
fn without_doubt(answer: Answer, doubt: Doubt) -> Result<Grant, Refusal> {
    let is_for_all = matches!(answer, Answer::Session | Answer::Always);
    let is_for_same = matches!(answer, Answer::SessionSameArguments | Answer::AlwaysSameArguments);
    if is_for_all && doubt == Doubt::Differs {
        Ok(Grant::Session)
    } else if is_for_all || is_for_same || answer == Answer::Once {
        Ok(Grant::Once)
    } else {
        Err(Refusal::InDoubt { doubt, was_refused: answer == Answer::Refuse })
    }
}
