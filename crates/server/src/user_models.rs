//! The models that single users can use.

use crate::agent::AgentOptions;
use crate::daily_tokens::within_daily_tokens;
use crate::personal_keys::{KeysError, OwnModels, PersonalKeys};
use crate::private_provider::without_personal_data;
use coracle_accounts::People;
use coracle_engine::Engine;
use coracle_models::{ChoiceError, ChosenModel};
use coracle_types::UserId;
use std::fmt;
use std::sync::Arc;

/// Models, keys and limits of users. Cheap to clone.
#[derive(Clone)]
pub(crate) struct UserModels {
    /// Models and limits of the operator.
    pub(crate) options: Arc<AgentOptions>,
    /// Access to the store.
    people: People,
    engine: Engine,
    /// The users' own keys.
    pub(crate) personal_keys: Arc<PersonalKeys>,
}

impl UserModels {
    pub(crate) fn new(options: AgentOptions, people: &People, engine: &Engine) -> Self {
        let engine = engine.clone();
        Self { options: Arc::new(options), people: people.clone(), engine, personal_keys: Arc::default() }
    }

    /// The models of a user.
    pub(crate) async fn of(&self, user: &UserId) -> Result<OwnModels, KeysError> {
        self.personal_keys.directory(&self.options, &self.people, user).await
    }

    /// Finds a model for a user: with the user's own key, or with the operator's within the daily limit of the user.
    pub(crate) async fn find(
        &self,
        user: &UserId,
        name: Option<&str>,
    ) -> Result<Result<ChosenModel, ChoiceError>, KeysError> {
        let own = self.of(user).await?;
        Ok(own.directory().find(name).map(|mut chosen| {
            if !own.has_key(&chosen.provider_name) {
                let limit = self.options.daily_tokens;
                chosen.provider = within_daily_tokens(chosen.provider, &self.people, user, limit);
            }
            chosen.provider = without_personal_data(chosen.provider, &self.engine, user);
            chosen
        }))
    }
}

impl fmt::Debug for UserModels {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("UserModels").field("options", &self.options).finish_non_exhaustive()
    }
}
