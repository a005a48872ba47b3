//! Questions to groups: members see the calls of others that they may approve, and each of them counts once.
//!
//! An approval counts as long as its member has an account that can sign in, and so has the user whose call it is. The
//! last one is stored before it has an effect; if the server stops before, all are lost and the code asks again.

use super::NoAnswer;
use super::{
    AnswerError, Answered, Approved, Open, OpenQuestion, OpenQuestions, PersonsAnswer, Reply, Shared, Waiting, tell,
};
use async_trait::async_trait;
use coracle_audit::Event;
use coracle_policy::{GroupAnswer, GroupApprover, Question, Quorum};
use coracle_store::{ApprovalOutcome, ApprovalRecord, StoreError};
use coracle_types::UserId;
use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;

/// Maximum number of open questions to one group.
const MAX_OPEN_OF_GROUP: usize = 256;

/// Whether one of these groups has too many open questions.
pub(super) fn is_full(users: &HashMap<UserId, Waiting>, groups: &[String]) -> bool {
    let open = || users.values().flat_map(|waiting| &waiting.open);
    let is_to = |open: &&Open, group: &String| {
        open.question.question.quorum.as_ref().is_some_and(|quorum| quorum.groups.contains(group))
    };
    groups.iter().any(|group| open().filter(|open| is_to(open, group)).count() >= MAX_OPEN_OF_GROUP)
}

#[async_trait]
impl GroupApprover for OpenQuestions {
    async fn ask(&self, question: Question) -> GroupAnswer {
        let Some(quorum) = &question.quorum else { return GroupAnswer::Nobody };
        let known = async {
            let can_be_met = self.shared.can_be_met(quorum, &question.user).await?;
            Ok::<_, StoreError>((can_be_met, self.shared.people.store().user(&question.user).await?.is_some()))
        };
        let has_account = match known.await {
            Ok((true, has_account)) => has_account,
            Ok((false, _)) => return GroupAnswer::Nobody,
            Err(error) => {
                tracing::warn!(user = %question.user, %error, "cannot read the members of a group");
                return GroupAnswer::Nobody;
            }
        };
        match self.shared.ask(question, |sender| Reply::Group { sender, has_account }).await {
            Ok(answer) => answer,
            Err(NoAnswer::Gone) => GroupAnswer::Nobody,
            Err(NoAnswer::TimedOut) => GroupAnswer::TimedOut,
            Err(NoAnswer::TooMany) => GroupAnswer::TooMany,
        }
    }
}

/// Counts the answer of a person who can see the question.
pub(super) async fn answer(
    shared: &Shared,
    asked: &OpenQuestion,
    quorum: &Quorum,
    by: Approved,
    answer: PersonsAnswer,
) -> Result<Answered, AnswerError> {
    let (question, caller) = (&asked.question, &asked.question.user);
    let is_refusal = answer == PersonsAnswer::Refuse;
    // Whoever makes a call may always give it up.
    if !quorum.counts(&by.by, caller) && !is_refusal {
        return Err(AnswerError::NotAnApprover { who: quorum.to_string() });
    }
    if !matches!(answer, PersonsAnswer::Once | PersonsAnswer::Refuse) {
        return Err(AnswerError::OnlyOnce);
    }
    let given = Event::ApprovalGiven {
        caller: caller.clone(),
        execution: question.execution.clone(),
        question: question.id.to_string(),
        groups: quorum.groups.clone(),
        answer: answer.outcome().as_str(),
        credential: by.credential.clone(),
    };
    shared.people.by(&by.by).record(given).await.map_err(AnswerError::NotRecorded)?;
    if is_refusal {
        return shared.end(asked, ApprovalOutcome::Refuse, &[by], GroupAnswer::Refused).await.map(Answered::ended);
    }
    let approved = shared.approve(asked, by).ok_or(AnswerError::NotOpen)?;
    let open = shared.still_valid(asked, quorum, approved).await?;
    let people: BTreeSet<UserId> = open.approved.iter().map(|approved| approved.by.clone()).collect();
    if !quorum.is_met(&people, caller) {
        return Ok(Answered::Open(open));
    }
    let approved = GroupAnswer::Approved(people);
    shared.end(asked, ApprovalOutcome::Once, &open.approved, approved).await.map(Answered::ended)
}

impl Shared {
    /// Whether a user can sign in. Without users, that is the local user.
    async fn is_active(&self, user: &UserId) -> Result<bool, StoreError> {
        match self.people.store().user(user).await? {
            Some(account) => Ok(!account.disabled),
            None => Ok(*user == UserId::local() && !self.people.store().has_users().await?),
        }
    }

    /// Whether enough members can sign in.
    async fn can_be_met(&self, quorum: &Quorum, caller: &UserId) -> Result<bool, StoreError> {
        let mut people = BTreeSet::new();
        for member in &quorum.members {
            if quorum.counts(member, caller) && self.is_active(member).await? {
                people.insert(member.clone());
            }
        }
        Ok(quorum.is_met(&people, caller))
    }

    /// Adds the approval of a member to an open question. One member counts once.
    fn approve(&self, asked: &OpenQuestion, by: Approved) -> Option<Vec<Approved>> {
        self.change(asked, |approved| {
            if !approved.iter().any(|earlier| earlier.by == by.by) {
                approved.push(by);
            }
        })
        .map(|open| open.approved)
    }

    /// Changes the approvals of a question that is still open.
    fn change(&self, asked: &OpenQuestion, change: impl FnOnce(&mut Vec<Approved>)) -> Option<OpenQuestion> {
        let mut users = self.users();
        let waiting = users.get_mut(&asked.question.user)?;
        // A question that began anew is another one.
        let is_asked = |open: &&mut Open| Arc::ptr_eq(&open.question.question, &asked.question);
        let open = waiting.open.iter_mut().find(is_asked)?;
        change(&mut open.question.approved);
        let question = open.question.clone();
        tell(&mut users, &question);
        Some(question)
    }

    /// Whether the user of an open question had an account when it was asked. Users that a proxy names need none.
    fn has_account(&self, asked: &OpenQuestion) -> bool {
        let users = self.users();
        let mut open = users.get(&asked.question.user).into_iter().flat_map(|waiting| &waiting.open);
        let found = open.find(|open| Arc::ptr_eq(&open.question.question, &asked.question));
        found.is_some_and(|open| matches!(open.reply, Reply::Group { has_account: true, .. }))
    }

    /// Drops the approvals of people who cannot sign in any more, if there are enough without looking.
    async fn still_valid(
        &self,
        asked: &OpenQuestion,
        quorum: &Quorum,
        approved: Vec<Approved>,
    ) -> Result<OpenQuestion, AnswerError> {
        let mut gone = BTreeSet::new();
        if approved.len() >= usize::try_from(quorum.count).unwrap_or(usize::MAX) {
            // Who has another name now is still the caller, and would no longer be recognised.
            let caller = &asked.question.user;
            if self.has_account(asked) && !self.is_active(caller).await.map_err(AnswerError::Store)? {
                drop(self.take(&asked.question));
                return Err(AnswerError::Withdrawn);
            }
            for Approved { by, .. } in &approved {
                if !self.is_active(by).await.map_err(AnswerError::Store)? {
                    gone.insert(by.clone());
                }
            }
        }
        self.change(asked, |approved| approved.retain(|one| !gone.contains(&one.by))).ok_or(AnswerError::NotOpen)
    }

    /// Ends a question to a group: stores what came of it for its user and for those who answered, and replies.
    async fn end(
        &self,
        asked: &OpenQuestion,
        outcome: ApprovalOutcome,
        by: &[Approved],
        answer: GroupAnswer,
    ) -> Result<ApprovalRecord, AnswerError> {
        let caller = &asked.question.user;
        let open = self.take(&asked.question).ok_or(AnswerError::NotOpen)?;
        let people: Vec<String> = by.iter().map(|one| format!("{} ({})", one.by, one.credential)).collect();
        let record = open.question.ended(outcome, Some(&people.join(", ")));
        self.record(&record).await.map_err(AnswerError::Store)?;
        for one in by.iter().filter(|one| one.by != *caller) {
            let own = ApprovalRecord {
                user: one.by.clone(),
                caller: Some(caller.clone()),
                // The arguments are the caller's.
                arguments: String::new(),
                session: None,
                origin: None,
                answered_by: Some(one.credential.clone()),
                ..record.clone()
            };
            self.record(&own).await.map_err(AnswerError::Store)?;
        }
        match open.reply {
            Reply::Group { sender, .. } => sender.send(answer).map_err(|_| AnswerError::Withdrawn)?,
            Reply::Person(_) => return Err(AnswerError::Withdrawn),
        }
        Ok(record)
    }
}
