use super::MemoryStore;
use crate::{Day, MAX_DAY_TOKENS, StoreError, TokenUse};
use async_trait::async_trait;
use coracle_types::UserId;

#[async_trait]
impl TokenUse for MemoryStore {
    async fn add_tokens(&self, user: &UserId, day: Day, tokens: u64) -> Result<(), StoreError> {
        let mut state = self.state();
        let days = state.tokens.entry(user.clone()).or_default();
        let count = days.entry(day).or_default();
        *count = count.saturating_add(tokens).min(MAX_DAY_TOKENS);
        days.retain(|kept, _| day.forgotten().is_none_or(|last| kept.number() > last));
        Ok(())
    }

    async fn tokens_used(&self, user: &UserId, day: Day) -> Result<u64, StoreError> {
        Ok(self.state().tokens.get(user).and_then(|days| days.get(&day)).copied().unwrap_or_default())
    }

    async fn token_days(&self, user: &UserId) -> Result<Vec<(Day, u64)>, StoreError> {
        let state = self.state();
        Ok(state.tokens.get(user).into_iter().flatten().map(|(day, tokens)| (*day, *tokens)).collect())
    }
}
