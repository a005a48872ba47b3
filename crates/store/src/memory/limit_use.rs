use super::MemoryStore;
use crate::limit_use::Slices;
use crate::{Charged, LimitCharge, LimitUse, StoreError};
use async_trait::async_trait;
use coracle_types::UserId;
use std::collections::BTreeMap;
use std::time::SystemTime;

/// Calls and amounts by limit, user, subject and slice.
pub(super) type Used = BTreeMap<(String, Option<UserId>, String), BTreeMap<i64, (u64, u64)>>;

fn key(charge: &LimitCharge) -> (String, Option<UserId>, String) {
    (charge.limit.clone(), charge.user.clone(), charge.subject.clone())
}

fn allows(used: &Used, charges: &[LimitCharge], now: SystemTime) -> Charged {
    let exceeded = charges.iter().position(|charge| {
        let Slices { over, .. } = charge.slices(now);
        let slices = used.get(&key(charge)).into_iter().flatten().filter(|(slice, _)| **slice > over);
        let (calls, amount) = slices.fold((0, 0_u64), |sum, (_, of)| (sum.0 + of.0, sum.1.saturating_add(of.1)));
        !charge.fits(calls, amount)
    });
    exceeded.map_or(Charged::All, Charged::Exceeded)
}

#[async_trait]
impl LimitUse for MemoryStore {
    async fn charge(&self, charges: &[LimitCharge], now: SystemTime) -> Result<Charged, StoreError> {
        let used = &mut self.state().limits;
        let allowed = allows(used, charges, now);
        if allowed == Charged::All {
            for charge in charges {
                let Slices { current, over } = charge.slices(now);
                let slices = used.entry(key(charge)).or_default();
                slices.retain(|slice, _| *slice > over);
                let of = slices.entry(current).or_default();
                *of = (of.0 + 1, of.1.saturating_add(charge.amount.get()));
            }
        }
        Ok(allowed)
    }

    async fn allows(&self, charges: &[LimitCharge], now: SystemTime) -> Result<Charged, StoreError> {
        Ok(allows(&self.state().limits, charges, now))
    }

    async fn give_back(&self, charges: &[LimitCharge], at: SystemTime) -> Result<(), StoreError> {
        let used = &mut self.state().limits;
        for charge in charges {
            let slice = charge.slices(at).current;
            if let Some(of) = used.get_mut(&key(charge)).and_then(|slices| slices.get_mut(&slice)) {
                *of = (of.0.saturating_sub(1), of.1.saturating_sub(charge.amount.get()));
            }
        }
        Ok(())
    }
}
