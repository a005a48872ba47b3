//! The tokens of a user and day, and the limit on them (`agent.daily_tokens`).

use async_trait::async_trait;
use coracle_accounts::People;
use coracle_models::{Item, ModelAnswer, ModelError, ModelEvent, ModelProvider, ModelRequest};
use coracle_store::Day;
use coracle_types::UserId;
use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};
use tokio::sync::mpsc;

const DAY: Duration = Duration::from_hours(24);

/// Returns a provider that counts the tokens of this user, and refuses requests once the limit of the day, if there is
/// one, is reached. Requests that are under way at that moment may exceed it.
pub fn within_daily_tokens(
    provider: Arc<dyn ModelProvider>,
    people: &People,
    user: &UserId,
    limit: Option<u64>,
) -> Arc<dyn ModelProvider> {
    Arc::new(Counted { provider, people: people.clone(), user: user.clone(), limit })
}

struct Counted {
    provider: Arc<dyn ModelProvider>,
    people: People,
    user: UserId,
    limit: Option<u64>,
}

impl std::fmt::Debug for Counted {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Counted").field("provider", &self.provider).field("limit", &self.limit).finish_non_exhaustive()
    }
}

impl Counted {
    /// Fails if the limit is reached, or if the count cannot be read.
    async fn check(&self, now: SystemTime) -> Result<(), ModelError> {
        let Some(limit) = self.limit else { return Ok(()) };
        let used = self.people.store().tokens_used(&self.user, Day::of(now)).await.map_err(|error| {
            tracing::error!(user = %self.user, %error, "cannot read how many tokens a user has used");
            ModelError::Failed {
                provider: "this server".to_owned(),
                message: "it cannot read how many tokens were used today: see the server's log".to_owned(),
            }
        })?;
        if used < limit {
            return Ok(());
        }
        let message = format!(
            "{used} tokens were used today, and {limit} are allowed per user and day (agent.daily_tokens); a new day \
             begins at 00:00 UTC"
        );
        Err(ModelError::RateLimited {
            provider: "this server".to_owned(),
            message,
            retry_after: Some(rest_of_day(now)),
        })
    }
}

/// About how many tokens items have, by their length as JSON.
fn estimate(items: &[Item]) -> u64 {
    serde_json::to_vec(items).map_or(0, |text| text.len() as u64 / 4)
}

/// The time until the next day in UTC.
fn rest_of_day(now: SystemTime) -> Duration {
    let since = now.duration_since(UNIX_EPOCH).unwrap_or_default();
    DAY.saturating_sub(Duration::from_secs(since.as_secs() % DAY.as_secs()))
}

#[async_trait]
impl ModelProvider for Counted {
    fn identity(&self) -> &str {
        self.provider.identity()
    }

    async fn ask(&self, request: &ModelRequest, events: &mpsc::Sender<ModelEvent>) -> Result<ModelAnswer, ModelError> {
        self.check(SystemTime::now()).await?;
        let answer = self.provider.ask(request, events).await?;
        let tokens = match answer.usage.input_tokens.saturating_add(answer.usage.output_tokens) {
            // A provider that does not say how many there were must not make the limit void.
            0 => estimate(&request.items) + estimate(&answer.items) + request.instructions.len() as u64 / 4,
            counted => counted,
        };
        if let Err(error) = self.people.store().add_tokens(&self.user, Day::of(SystemTime::now()), tokens).await {
            tracing::error!(user = %self.user, tokens, %error, "cannot count the tokens of a user");
        }
        Ok(answer)
    }

    async fn models(&self) -> Result<Vec<String>, ModelError> {
        self.provider.models().await
    }
}

#[cfg(test)]
mod tests {
    use super::{rest_of_day, within_daily_tokens};
    use async_trait::async_trait;
    use coracle_accounts::People;
    use coracle_models::{ModelAnswer, ModelError, ModelEvent, ModelProvider, ModelRequest, StopReason, Usage};
    use coracle_store::MemoryStore;
    use coracle_types::UserId;
    use std::sync::Arc;
    use std::time::{Duration, UNIX_EPOCH};
    use tokio::sync::mpsc;

    /// A provider that reports this number of tokens for each answer, or none if it is 0.
    #[derive(Debug)]
    struct Talker(u64);

    #[async_trait]
    impl ModelProvider for Talker {
        fn identity(&self) -> &'static str {
            "talker"
        }

        async fn ask(&self, _: &ModelRequest, _: &mpsc::Sender<ModelEvent>) -> Result<ModelAnswer, ModelError> {
            let usage = Usage { input_tokens: self.0, ..Usage::default() };
            Ok(ModelAnswer { items: Vec::new(), stop: StopReason::End, usage })
        }

        async fn models(&self) -> Result<Vec<String>, ModelError> {
            Ok(Vec::new())
        }
    }

    #[tokio::test]
    async fn requests_beyond_the_limit_of_the_day_are_refused() {
        let people = People::new(Arc::new(MemoryStore::new()));
        let of =
            |name: &str, limit| within_daily_tokens(Arc::new(Talker(600)), &people, &UserId::new(name).unwrap(), limit);
        let (events, _) = mpsc::channel(1);
        let request = ModelRequest::default();
        let ann = of("ann", Some(1_000));
        // The second request begins below the limit.
        ann.ask(&request, &events).await.unwrap();
        ann.ask(&request, &events).await.unwrap();
        let error = of("ann", Some(1_000)).ask(&request, &events).await.unwrap_err();
        assert!(matches!(error, ModelError::RateLimited { retry_after: Some(_), .. }), "{error:?}");
        let said = error.to_string();
        assert!(said.contains("1200 tokens") && said.contains("agent.daily_tokens"), "{said}");
        for other in [of("bob", Some(1_000)), of("ann", Some(1_201)), of("ann", None)] {
            other.ask(&request, &events).await.unwrap();
        }
    }

    #[tokio::test]
    async fn tokens_that_the_provider_does_not_count_are_estimated() {
        let people = People::new(Arc::new(MemoryStore::new()));
        let ann = within_daily_tokens(Arc::new(Talker(0)), &people, &UserId::new("ann").unwrap(), Some(1_000));
        let (events, _) = mpsc::channel(1);
        let request = ModelRequest { instructions: "x".repeat(4_000), ..ModelRequest::default() };
        ann.ask(&request, &events).await.unwrap();
        let error = ann.ask(&request, &events).await.unwrap_err();
        assert!(matches!(error, ModelError::RateLimited { .. }), "{error:?}");
    }

    #[test]
    fn a_day_ends_at_midnight_in_utc() {
        let at = |seconds| rest_of_day(UNIX_EPOCH + Duration::from_secs(seconds));
        assert_eq!([at(0), at(86_399), at(86_400)].map(|rest| rest.as_secs()), [86_400, 1, 86_400]);
    }
}
