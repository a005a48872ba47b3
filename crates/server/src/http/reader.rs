//! Readers of answers: people see personal data, and programs, which may show it to a model, see tokens.

use super::App;
use super::local_browser::FromLocalBrowser;
use super::problem::ApiError;
use crate::identity::{How, Identity};
use axum::extract::FromRequestParts;
use axum::http::StatusCode;
use axum::http::request::Parts;
use coracle_engine::tokenize_message;
use coracle_policy::arguments_preview;
use coracle_privacy::{Item, PrivacyError, UserVault};
use coracle_store::KeyScope;
use coracle_types::UserId;
use serde_json::Value;
use std::sync::Arc;

/// Stands for what was left out of arguments.
const LEFT_OUT: char = '…';

/// Who reads the answer to a request.
#[derive(Clone, Debug)]
pub(crate) struct Reader {
    /// User on whose behalf the request runs.
    pub(crate) user: UserId,
    /// Whether a person reads the answer: in a browser, or with a key that stands for one.
    is_person: bool,
}

impl Reader {
    fn of(caller: &Identity, is_local_browser: bool) -> Self {
        let is_person = match caller.how {
            // On a server without users, agents send requests like everybody else.
            How::Local => is_local_browser,
            How::Session { .. } | How::Key { .. } | How::Bearer { .. } | How::Proxy => caller.may(KeyScope::Approve),
        };
        Self { user: caller.user.clone(), is_person }
    }

    /// The vault of the user, if this reader must not see the data itself.
    pub(crate) async fn vault(&self, app: &App) -> Result<Option<Arc<UserVault>>, ApiError> {
        if self.is_person {
            return Ok(None);
        }
        app.frontend.engine.vault_for_model(&self.user).await.map_err(|error| withheld(&error))
    }

    /// Replaces personal data in texts and JSON by tokens, unless a person reads them.
    pub(crate) async fn protect(&self, app: &App, items: &mut [Item<'_>]) -> Result<(), ApiError> {
        match self.vault(app).await? {
            Some(vault) => vault.tokenize(items).await.map(drop).map_err(|error| withheld(&error)),
            None => Ok(()),
        }
    }

    /// The same for JSON with content in base64.
    pub(crate) async fn protect_message(&self, app: &App, message: &mut Value) -> Result<(), ApiError> {
        match self.vault(app).await? {
            Some(vault) => tokenize_message(&vault, message).await.map_err(|error| withheld(&error)),
            None => Ok(()),
        }
    }

    /// The same for arguments as people are shown them. Those that were shortened are left out: a part of a value would not be
    /// found.
    pub(crate) async fn protect_arguments(&self, app: &App, arguments: &mut String) -> Result<(), ApiError> {
        let Some(vault) = self.vault(app).await? else { return Ok(()) };
        match serde_json::from_str(arguments) {
            Ok(mut whole @ Value::Object(_)) if !arguments.contains(LEFT_OUT) => {
                vault.tokenize(&mut [Item::Json(&mut whole)]).await.map_err(|error| withheld(&error))?;
                *arguments = whole.as_object().map(arguments_preview).unwrap_or_default();
            }
            _ => arguments.clear(),
        }
        Ok(())
    }
}

impl FromRequestParts<App> for Reader {
    type Rejection = ApiError;

    async fn from_request_parts(parts: &mut Parts, _app: &App) -> Result<Self, ApiError> {
        let caller = parts.extensions.get::<Identity>().ok_or_else(ApiError::not_signed_in)?;
        Ok(Self::of(caller, parts.extensions.get::<FromLocalBrowser>().is_some()))
    }
}

/// The error if an answer cannot be searched.
pub(crate) fn withheld(error: &PrivacyError) -> ApiError {
    let hint = error.hint().map(|hint| format!("; {hint}")).unwrap_or_default();
    let message =
        format!("the answer is withheld, because personal data in it could not be replaced by tokens: {error}{hint}");
    ApiError::new(StatusCode::SERVICE_UNAVAILABLE, "withheld", message)
}

#[cfg(test)]
mod tests {
    use super::Reader;
    use crate::identity::{How, Identity};
    use coracle_store::{KeyScope, Role};
    use coracle_types::{Secret, UserId};
    use std::time::SystemTime;

    fn is_person(how: How, scopes: &[KeyScope]) -> bool {
        let scopes = scopes.iter().copied().collect();
        Reader::of(&Identity { user: UserId::local(), role: Role::User, scopes, how }, false).is_person
    }

    #[test]
    fn only_people_and_keys_with_the_scope_approve_see_the_data() {
        let key = || How::Key { id: "k".to_owned(), expires_at: None };
        let browser = || How::Session { token: Secret::new("t"), since: SystemTime::UNIX_EPOCH, by_link: false };
        let all = Identity::scopes_of(Role::User).into_iter().collect::<Vec<_>>();
        assert!(is_person(browser(), &all) && is_person(How::Proxy, &all));
        assert!(is_person(key(), &[KeyScope::Api, KeyScope::Approve]));
        assert!(!is_person(key(), &[KeyScope::Api, KeyScope::Mcp]));
        assert!(!is_person(key(), &[KeyScope::Api, KeyScope::Admin]));
        assert!(!is_person(How::Bearer { expires_at: SystemTime::UNIX_EPOCH }, &[KeyScope::Mcp, KeyScope::Api]));
    }

    #[test]
    fn without_users_only_the_browser_sees_the_data() {
        assert!(!Reader::of(&Identity::local(), false).is_person);
        assert!(Reader::of(&Identity::local(), true).is_person);
    }
}
