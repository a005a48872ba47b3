//! Requests about skills, from code and over MCP: JSON in, JSON out.
//!
//! Trust boundary: requests are hostile.

use super::{SkillDraft, Skills, split_tags};
use crate::host_calls::{HostCallError, HostCalls, SKILL_PREFIX};
use crate::request::Request;
use crate::skill_store::{SkillError, SkillFolder, SkillLanguage};
use async_trait::async_trait;
use coracle_types::UserId;
use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::{Map, Value, json};
use std::sync::Arc;

/// Maximum number of results of a search.
const MAX_LIMIT: usize = 100;
const DEFAULT_LIMIT: usize = 10;

/// Maximum length of a query.
const MAX_QUERY_BYTES: usize = 8 << 10;

/// Maximum length of the part of a request that an error repeats.
const MAX_TOLD_CHARS: usize = 300;

/// Tags as people write them.
#[derive(Deserialize)]
#[serde(untagged)]
enum Tags {
    Text(String),
    List(Vec<String>),
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Save {
    name: String,
    code: String,
    #[serde(default)]
    description: String,
    tags: Option<Tags>,
    language: Option<SkillLanguage>,
    tools: Option<Vec<String>>,
    example: Option<String>,
    author: Option<String>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Load {
    name: String,
    version: Option<u32>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Nothing {}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Search {
    #[serde(default)]
    query: String,
    limit: Option<usize>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Delete {
    name: String,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Get {
    #[serde(alias = "skill_name")]
    name: String,
    path: Option<String>,
}

impl Skills {
    /// Handles one request: `save`, `load`, `list`, `search`, `delete` or `get`.
    pub(crate) async fn request(
        self: &Arc<Self>,
        user: &UserId,
        act: &str,
        params: Map<String, Value>,
    ) -> Result<Value, SkillError> {
        match act {
            "save" => {
                let Save { name, code, description, tags, language, tools, example, author } = read(params)?;
                let tags = match tags {
                    None => Vec::new(),
                    Some(Tags::Text(text)) => split_tags(&text),
                    Some(Tags::List(tags)) => tags,
                };
                let language = language.unwrap_or_default();
                let draft = SkillDraft { name, code, language, description, tags, author, tools, example };
                let saved = self.save(user, draft).await?;
                let import = match saved.language {
                    SkillLanguage::Python => format!("from skills.{} import …", saved.name),
                    SkillLanguage::Typescript => format!("import {{ … }} from \"skills/{}\"", saved.name),
                };
                Ok(json!({
                    "success": true, "name": saved.name, "version": saved.version, "import": import,
                    "tested": saved.example.is_some(), "metadata": saved,
                }))
            }
            "load" => {
                let Load { name, version } = read(params)?;
                let loaded = self.load(user, &name, version).await?;
                Ok(json!({
                    "name": loaded.metadata.name, "code": loaded.code,
                    "metadata": loaded.metadata, "versions": loaded.versions,
                }))
            }
            "list" => {
                let Nothing {} = read(params)?;
                let skills = self.list(user).await?;
                let folders = self.library().read().await;
                let told = |folder: &SkillFolder| json!({ "name": folder.name, "description": folder.description, "location": folder.location() });
                let instructions: Vec<Value> = folders.skills.iter().map(told).collect();
                Ok(json!({ "count": skills.len(), "skills": skills, "instructions": instructions }))
            }
            "search" => {
                let Search { query, limit } = read(params)?;
                if query.len() > MAX_QUERY_BYTES {
                    return Err(SkillError::TooLong { what: "query", length: query.len(), most: MAX_QUERY_BYTES });
                }
                let limit = limit.unwrap_or(DEFAULT_LIMIT).clamp(1, MAX_LIMIT);
                let found = self.search(user, &query, limit).await?;
                Ok(json!({ "query": query, "count": found.len(), "skills": found }))
            }
            "delete" => {
                let Delete { name } = read(params)?;
                self.delete(user, &name).await?;
                Ok(json!({ "success": true, "name": name }))
            }
            "get" => {
                let Get { name, path } = read(params)?;
                let missing = match self.library().get(&name, path.as_deref()).await {
                    Ok(found) => return Ok(serde_json::to_value(found).unwrap_or_default()),
                    Err(error @ SkillError::Missing { .. }) if path.is_none() => error,
                    Err(error) => return Err(error),
                };
                // A code skill has no `SKILL.md`: its code is returned instead.
                let Ok(loaded) = self.load(user, &name, None).await else { return Err(missing) };
                Ok(json!({
                    "name": loaded.metadata.name, "description": loaded.metadata.description, "content": loaded.code,
                    "code": loaded.code, "metadata": loaded.metadata, "versions": loaded.versions,
                }))
            }
            _ => Err(SkillError::Arguments(format!("nothing called {:?} can be asked about skills", shortened(act)))),
        }
    }

    /// Answers the calls of a request's code about skills, and passes all others on to what the request has.
    pub(crate) fn answering(self: &Arc<Self>, request: &Request) -> Arc<dyn HostCalls> {
        Arc::new(SkillCalls {
            skills: Arc::clone(self),
            user: request.user.clone(),
            in_trial: request.trial.is_some(),
            others: Arc::clone(&request.calls),
        })
    }
}

/// Answers the calls of one execution about skills.
#[derive(Debug)]
struct SkillCalls {
    skills: Arc<Skills>,
    user: UserId,
    /// The code tries out a skill, and may not change any.
    in_trial: bool,
    others: Arc<dyn HostCalls>,
}

#[async_trait]
impl HostCalls for SkillCalls {
    async fn call(&self, method: String, params: Map<String, Value>) -> Result<Value, HostCallError> {
        let Some(act) = method.strip_prefix(SKILL_PREFIX) else { return self.others.call(method, params).await };
        if self.in_trial && matches!(act, "save" | "delete") {
            return Err(told(&SkillError::InExample));
        }
        self.skills.request(&self.user, act, params).await.map_err(|error| told(&error))
    }
}

fn told(error: &SkillError) -> HostCallError {
    let hint = error.hint().map(|hint| format!("; {hint}")).unwrap_or_default();
    HostCallError { code: error.code().to_owned(), message: format!("{error}{hint}"), retryable: false }
}

fn read<T: DeserializeOwned>(params: Map<String, Value>) -> Result<T, SkillError> {
    serde_json::from_value(Value::Object(params)).map_err(|error| SkillError::Arguments(shortened(&error.to_string())))
}

fn shortened(text: &str) -> String {
    text.chars().take(MAX_TOLD_CHARS).collect()
}
