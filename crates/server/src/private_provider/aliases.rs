//! Names of tools that have personal data. A token is no valid name, so the model sees an alias.

use coracle_models::{Item, ModelAnswer, ModelEvent, ModelRequest, ResponseFormat, ToolChoice};
use coracle_privacy::{Item as Searched, PrivacyError, UserVault};
use std::collections::{BTreeMap, BTreeSet};

/// Maximum length of a name, as providers limit it.
const MAX_NAME: usize = 64;

/// The names that are replaced in one request, and what stands for each.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Aliases {
    by_name: BTreeMap<String, String>,
}

impl Aliases {
    /// Aliases for the names in a request that have personal data. The same name always has the same alias.
    pub(super) async fn of(vault: &UserVault, request: &ModelRequest) -> Result<Self, PrivacyError> {
        let mut names: BTreeSet<String> = request.tools.iter().map(|tool| tool.name.clone()).collect();
        names.extend(request.items.iter().filter_map(|item| match item {
            Item::Call(call) => Some(call.name.clone()),
            _ => None,
        }));
        if let Some(ResponseFormat::JsonSchema { name, .. }) = &request.format {
            names.insert(name.clone());
        }
        if let ToolChoice::Tool(name) = &request.tool_choice {
            names.insert(name.clone());
        }
        let names: Vec<String> = names.into_iter().collect();
        let mut hidden = names.clone();
        let mut texts: Vec<Searched<'_>> = hidden.iter_mut().map(Searched::Text).collect();
        vault.tokenize(&mut texts).await?;
        Ok(Self::between(names, hidden))
    }

    fn between(names: Vec<String>, hidden: Vec<String>) -> Self {
        let mut taken: BTreeSet<String> = names.iter().cloned().collect();
        let mut by_name = BTreeMap::new();
        for (name, hidden) in names.into_iter().zip(hidden).filter(|(name, hidden)| name != hidden) {
            let valid = |c: char| if c.is_ascii_alphanumeric() || matches!(c, '_' | '-') { c } else { '_' };
            let plain: String = hidden.trim_matches(['[', ']']).chars().map(valid).take(MAX_NAME).collect();
            let numbered = (2..).map(|number| {
                let number = format!("_{number}");
                format!("{}{number}", &plain[..plain.len().min(MAX_NAME - number.len())])
            });
            let alias = std::iter::once(plain.clone()).chain(numbered).find(|alias| !taken.contains(alias));
            if let Some(alias) = alias {
                taken.insert(alias.clone());
                by_name.insert(name, alias);
            }
        }
        Self { by_name }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.by_name.is_empty()
    }

    /// Replaces the names in a request.
    pub(super) fn apply(&self, request: &mut ModelRequest) {
        let replace = |name: &mut String| {
            if let Some(alias) = self.by_name.get(name) {
                name.clone_from(alias);
            }
        };
        request.tools.iter_mut().for_each(|tool| replace(&mut tool.name));
        for item in &mut request.items {
            if let Item::Call(call) = item {
                // The provider's form may repeat the name.
                if self.by_name.contains_key(&call.name) {
                    call.native = None;
                }
                replace(&mut call.name);
            }
        }
        if let Some(ResponseFormat::JsonSchema { name, .. }) = &mut request.format {
            replace(name);
        }
        if let ToolChoice::Tool(name) = &mut request.tool_choice {
            replace(name);
        }
    }

    fn resolve(&self, alias: &mut String) {
        if let Some((name, _)) = self.by_name.iter().find(|(_, known)| *known == alias) {
            alias.clone_from(name);
        }
    }

    /// An event with the names that the client knows.
    pub(super) fn resolve_event(&self, mut event: ModelEvent) -> ModelEvent {
        if let ModelEvent::CallBegan { name, .. } = &mut event {
            self.resolve(name);
        }
        event
    }

    /// An answer with the names that the client knows.
    pub(super) fn resolve_answer(&self, mut answer: ModelAnswer) -> ModelAnswer {
        for item in &mut answer.items {
            if let Item::Call(call) = item {
                self.resolve(&mut call.name);
            }
        }
        answer
    }
}

#[cfg(test)]
mod tests {
    use super::Aliases;

    #[test]
    fn aliases_are_valid_names_that_no_tool_has() {
        let token = "[EMAIL_3f9a1c0d5e7b2a64]".to_owned();
        let names = ["ask ann@example.org", "EMAIL_3f9a1c0d5e7b2a64", "ann@example.org", "plain"].map(str::to_owned);
        let hidden = [format!("ask {token}"), names[1].clone(), token.repeat(4), names[3].clone()];
        let Aliases { by_name } = Aliases::between(names.to_vec(), hidden.to_vec());
        assert_eq!(by_name.len(), 2, "only names with data have aliases: {by_name:?}");
        assert_eq!(by_name["ask ann@example.org"], "ask__EMAIL_3f9a1c0d5e7b2a64");
        assert!(by_name["ann@example.org"].len() == 64 && by_name["ann@example.org"].starts_with("EMAIL_3f9a"));
        let taken =
            Aliases::between(vec!["a@b.org".to_owned(), "X_1".to_owned()], vec!["[X_1]".to_owned(), "X_1".to_owned()]);
        assert_eq!(taken.by_name["a@b.org"], "X_1_2");
    }

    #[test]
    fn aliases_lead_back_to_the_names() {
        let aliases = Aliases::between(vec!["a@b.org".to_owned()], vec!["[X_1]".to_owned()]);
        let (mut alias, mut other) = ("X_1".to_owned(), "draw".to_owned());
        aliases.resolve(&mut alias);
        aliases.resolve(&mut other);
        assert_eq!((alias.as_str(), other.as_str()), ("a@b.org", "draw"));
    }
}
