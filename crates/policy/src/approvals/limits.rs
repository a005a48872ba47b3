//! Limits, which are charged when nothing else is left to decide.

use super::Approvals;
use crate::call::Call;
use crate::charge::Charge;
use crate::facts::Facts;
use crate::limits::LimitVerdict;
use crate::{Policy, Refusal};
use coracle_store::{Charged, LimitCharge, StoreError};
use std::sync::Arc;

impl Approvals {
    /// Charges a call to all limits that are about its tool, or refuses it. To be called once, as the last step before the
    /// call is made.
    pub async fn charge(&self, call: &Call<'_>) -> Result<Charge, Refusal> {
        let policy = self.policy();
        let facts = policy.facts(call);
        let charges = charges(&policy, &facts)?;
        if charges.is_empty() {
            return Ok(Charge::nothing());
        }
        match self.store.charge(&charges, facts.at).await {
            Ok(Charged::All) => Ok(Charge::new(Arc::clone(&self.store), charges, facts.at)),
            Ok(Charged::Exceeded(number)) => Err(Refusal::limited(policy.limits().used_up(&charges[number]))),
            Err(error) => Err(not_counted(&error)),
        }
    }

    /// Refuses a call that a limit does not allow now. Charges nothing.
    pub(super) async fn limited(&self, call: &Call<'_>) -> Result<(), Refusal> {
        if call.circumstances.are_arguments_open {
            return Ok(());
        }
        let policy = self.policy();
        let facts = policy.facts(call);
        let charges = charges(&policy, &facts)?;
        if charges.is_empty() {
            return Ok(());
        }
        match self.store.allows(&charges, facts.at).await {
            Ok(Charged::All) => Ok(()),
            Ok(Charged::Exceeded(number)) => Err(Refusal::limited(policy.limits().used_up(&charges[number]))),
            Err(error) => Err(not_counted(&error)),
        }
    }
}

/// What a call is charged.
#[expect(clippy::result_large_err, reason = "refusals are rare")]
fn charges(policy: &Policy, facts: &Facts<'_>) -> Result<Vec<LimitCharge>, Refusal> {
    policy.limits().charges(policy.groups(), facts).map_err(Refusal::limited)
}

/// A call that cannot be counted is refused.
fn not_counted(error: &StoreError) -> Refusal {
    let error = Some(format!("the store does not count calls: {error}"));
    Refusal::limited(LimitVerdict { name: "policy.limits".to_owned(), origin: String::new(), error })
}
