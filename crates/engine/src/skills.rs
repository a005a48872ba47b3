//! Skills: code that agents save to import it later, and folders with a `SKILL.md` that describe how something is done.
//! `skill_store.rs` keeps both.
//!
//! Start at [`Skills::save`] and [`Library`]. Code skills belong to one user; folders are the operator's, and the same for
//! all.
//!
//! Invariants: nothing of a skill is ever run outside a sandbox; a skill is saved whole or not at all, and once the answer
//! is given it is on disk; users never see each other's skills.

mod calls;
mod declared;
mod finding;
mod packages;
mod trial;

pub use finding::{FoundSkill, SkillKind};

use crate::execution::Executor;
use crate::request::Request;
use crate::skill_store::{
    CodeSkill, DeclaredTool, Kept, Library, Shelves, SkillError, SkillLanguage, SkillName, blocking,
};
use crate::toolbox::{Inventory, Listing};
use coracle_policy::definition_digest;
use coracle_types::{Execution, Limits, UserId};
use serde::Serialize;
use std::collections::{HashMap, HashSet};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::time::SystemTime;

/// Maximum length of the code of a skill.
pub const MAX_SKILL_BYTES: usize = 256 << 10;

/// Maximum length of an example.
const MAX_EXAMPLE_BYTES: usize = 64 << 10;

/// Maximum length of a description.
const MAX_DESCRIPTION_CHARS: usize = 1024;

/// Maximum number of tags, and maximum length of a tag or an author's name.
const MAX_TAGS: usize = 20;
const MAX_WORD_CHARS: usize = 64;

/// Maximum number of declared tools.
const MAX_TOOLS: usize = 100;

/// A skill to be saved.
#[derive(Clone, Debug, Default)]
pub struct SkillDraft {
    /// Name by which it will be imported.
    pub name: String,
    /// Source code.
    pub code: String,
    /// Programming language.
    pub language: SkillLanguage,
    /// What the skill does.
    pub description: String,
    /// Tags for searches.
    pub tags: Vec<String>,
    /// Author; by default the user.
    pub author: Option<String>,
    /// Tools that the skill calls, as `server.tool`; by default those that it imports.
    pub tools: Option<Vec<String>>,
    /// Program that uses the skill and fails if it does not work. It is run in a sandbox before the skill is saved.
    pub example: Option<String>,
}

/// A skill with its code.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct LoadedSkill {
    /// Metadata.
    pub metadata: CodeSkill,
    /// Source code.
    pub code: String,
    /// Versions that are kept.
    pub versions: Vec<u32>,
}

/// A skill in a list.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct ListedSkill {
    /// Metadata, without the example.
    #[serde(flatten)]
    pub skill: CodeSkill,
    /// Whether the skill has an example, which succeeded when it was saved.
    pub tested: bool,
    /// Changes of its tools since it was saved.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub drift: Vec<Drift>,
}

/// A change of a tool since a skill was saved.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Drift {
    /// Name of the tool.
    pub tool: String,
    /// Kind of change.
    pub change: Change,
}

/// Kinds of changes of a tool.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Change {
    /// The tool or its server no longer exists.
    Gone,
    /// The definition has changed.
    Changed,
    /// The server is not available at the moment.
    Unavailable,
}

/// The skills of all users.
#[derive(Debug)]
pub(crate) struct Skills {
    executor: Arc<Executor>,
    shelves: Arc<Shelves>,
    /// Trials of one user run one after the other.
    trials: Mutex<HashMap<UserId, Arc<tokio::sync::Mutex<()>>>>,
    /// The packages that the Python of sandboxes has.
    installed: tokio::sync::OnceCell<packages::Installed>,
    library: OnceLock<Arc<Library>>,
    /// Limits of a trial.
    limits: OnceLock<Limits>,
}

impl Skills {
    pub(crate) fn new(executor: Arc<Executor>, shelves: Arc<Shelves>) -> Arc<Self> {
        Arc::new(Self {
            executor,
            shelves,
            trials: Mutex::default(),
            installed: tokio::sync::OnceCell::new(),
            library: OnceLock::new(),
            limits: OnceLock::new(),
        })
    }

    /// Saves a skill, or a further version of it, if its example succeeds, or without one, if Python code compiles.
    ///
    /// A further version keeps the description, the tags and the example of the version before, unless it has its own.
    pub(crate) async fn save(self: &Arc<Self>, user: &UserId, draft: SkillDraft) -> Result<CodeSkill, SkillError> {
        let name = SkillName::new(&draft.name)?;
        check(&draft)?;
        self.shelves.folder(user).await?;
        let turn = self.turn(user);
        let _turn = turn.lock().await;
        let (shelf, wanted) = (self.shelves.of(user), name.clone());
        let earlier = blocking(move || match shelf.version(&wanted, None) {
            Ok(kept) => Ok(Some(kept.skill)),
            Err(SkillError::Missing { .. }) => Ok(None),
            Err(error) => Err(error),
        });
        let earlier = earlier.await?.filter(|earlier| earlier.language == draft.language);
        let now = humantime::format_rfc3339_seconds(SystemTime::now()).to_string();
        let mut skill = CodeSkill {
            name,
            language: draft.language,
            description: draft.description.trim().to_owned(),
            tags: draft.tags,
            author: draft.author.unwrap_or_else(|| user.as_str().to_owned()),
            tools: self.declare(user, draft.tools, &draft.code, draft.language).await,
            example: draft.example,
            created_at: now.clone(),
            saved_at: now,
            version: 0,
        };
        if let Some(earlier) = earlier {
            if skill.description.is_empty() {
                skill.description = earlier.description;
            }
            if skill.tags.is_empty() {
                skill.tags = earlier.tags;
            }
            skill.example = skill.example.or(earlier.example);
        }
        // An empty example removes the earlier one.
        skill.example = skill.example.filter(|example| !example.trim().is_empty());
        let kept = Kept { skill, code: draft.code };
        self.try_out(user, &kept).await?;
        let shelf = self.shelves.of(user);
        blocking(move || shelf.save(kept)).await
    }

    /// A skill with its code: by default the newest version.
    pub(crate) async fn load(
        &self,
        user: &UserId,
        name: &str,
        version: Option<u32>,
    ) -> Result<LoadedSkill, SkillError> {
        let (name, shelf) = (SkillName::new(name)?, self.shelves.of(user));
        let (kept, versions) =
            blocking(move || Ok((shelf.version(&name, version)?, shelf.versions_of(&name)?))).await?;
        Ok(LoadedSkill { metadata: kept.skill, code: kept.code, versions })
    }

    /// All code skills of a user, with the changes of their tools.
    pub(crate) async fn list(&self, user: &UserId) -> Result<Vec<ListedSkill>, SkillError> {
        let shelf = self.shelves.of(user);
        let all = blocking(move || shelf.all()).await?;
        let calls_tools = all.iter().any(|kept| !kept.skill.tools.is_empty());
        let inventory = if calls_tools { self.tools_of(user).await } else { None };
        let listed = all.into_iter().map(|kept| ListedSkill {
            drift: kept.skill.tools.iter().filter_map(|tool| drift(tool, inventory.as_deref())).collect(),
            tested: kept.skill.example.is_some(),
            skill: CodeSkill { example: None, ..kept.skill },
        });
        Ok(listed.collect())
    }

    /// Number of code skills of a user.
    pub(crate) async fn count(&self, user: &UserId) -> usize {
        let shelf = self.shelves.of(user);
        blocking(move || shelf.all()).await.map_or(0, |all| all.len())
    }

    /// Removes a skill with all its versions.
    pub(crate) async fn delete(&self, user: &UserId, name: &str) -> Result<(), SkillError> {
        let (name, shelf) = (SkillName::new(name)?, self.shelves.of(user));
        blocking(move || shelf.remove(&name)).await
    }

    /// Runs the example of a saved skill; `None` if it has none.
    pub(crate) async fn test(self: &Arc<Self>, user: &UserId, name: &str) -> Result<Option<Execution>, SkillError> {
        let (name, shelf) = (SkillName::new(name)?, self.shelves.of(user));
        let kept = blocking(move || shelf.version(&name, None)).await?;
        let turn = self.turn(user);
        let _turn = turn.lock().await;
        self.run_example(user, &kept).await
    }

    /// Sets the folders with a `SKILL.md`. Only the first call has an effect.
    pub(crate) fn set_library(&self, library: Arc<Library>) {
        let _ = self.library.set(library);
    }

    /// Sets the limits of the code that is run to try out skills. Only the first call has an effect.
    pub(crate) fn set_trial_limits(&self, limits: Limits) {
        let _ = self.limits.set(limits);
    }

    /// The folders with a `SKILL.md`.
    pub(crate) fn library(&self) -> &Arc<Library> {
        self.library.get_or_init(Arc::default)
    }

    /// Runs code that can call skills.
    async fn execute(self: &Arc<Self>, mut request: Request) -> Execution {
        request.calls = self.answering(&request);
        self.executor.execute(request).await.0
    }

    fn turn(&self, user: &UserId) -> Arc<tokio::sync::Mutex<()>> {
        Arc::clone(self.trials.lock().unwrap_or_else(PoisonError::into_inner).entry(user.clone()).or_default())
    }

    async fn tools_of(&self, user: &UserId) -> Option<Arc<Inventory>> {
        self.executor.parts().tools.inventory(user, Listing::Soon).await
    }

    /// The tools that a skill calls, with the digests of their definitions.
    async fn declare(
        &self,
        user: &UserId,
        tools: Option<Vec<String>>,
        code: &str,
        language: SkillLanguage,
    ) -> Vec<DeclaredTool> {
        let mut names = tools.unwrap_or_else(|| declared::tools(code, language));
        names.truncate(MAX_TOOLS);
        if names.is_empty() {
            return Vec::new();
        }
        let inventory = self.tools_of(user).await;
        let declared = names.into_iter().map(|name| {
            let found = inventory.as_deref().and_then(|inventory| find(inventory, &name));
            match found {
                Some((path, digest)) => DeclaredTool { tool: path, digest: Some(digest) },
                None => DeclaredTool { tool: name, digest: None },
            }
        });
        let mut declared: Vec<DeclaredTool> = declared.collect();
        declared.sort_by(|one, other| one.tool.cmp(&other.tool));
        declared.dedup();
        declared
    }
}

/// A tool as code imports it, and the digest of its definition.
fn find(inventory: &Inventory, name: &str) -> Option<(String, String)> {
    let (server, tool) = name.strip_prefix("servers.").unwrap_or(name).split_once(['.', '/'])?;
    let (entry, tool) = inventory.catalog.find(server, tool)?;
    Some((entry.path(), definition_digest(tool)))
}

fn drift(declared: &DeclaredTool, inventory: Option<&Inventory>) -> Option<Drift> {
    let now = inventory.and_then(|inventory| find(inventory, &declared.tool));
    let change = match (now, &declared.digest) {
        (Some((_, now)), Some(then)) if now == *then => return None,
        (Some(_), Some(_)) => Change::Changed,
        // It did not exist when the skill was saved, and does now.
        (Some(_), None) => return None,
        (None, _) => {
            let server = declared.tool.split(['.', '/']).next().unwrap_or_default();
            let is_away = |(missing, _): &(coracle_types::ServerName, String)| {
                missing.as_str() == server || coracle_catalog::package_name(missing.as_str()) == server
            };
            if inventory.is_some_and(|inventory| inventory.missing.iter().any(is_away)) {
                Change::Unavailable
            } else {
                Change::Gone
            }
        }
    };
    Some(Drift { tool: declared.tool.clone(), change })
}

fn check(draft: &SkillDraft) -> Result<(), SkillError> {
    let too_long = |what, length, most| Err(SkillError::TooLong { what, length, most });
    if draft.code.trim().is_empty() {
        return Err(SkillError::Empty);
    }
    if draft.code.len() > MAX_SKILL_BYTES {
        return too_long("code", draft.code.len(), MAX_SKILL_BYTES);
    }
    if draft.code.contains('\0') {
        return Err(SkillError::Nul);
    }
    let example = draft.example.as_deref().unwrap_or_default();
    if example.len() > MAX_EXAMPLE_BYTES {
        return too_long("example", example.len(), MAX_EXAMPLE_BYTES);
    }
    let words = draft.description.chars().count();
    if words > MAX_DESCRIPTION_CHARS {
        return too_long("description", words, MAX_DESCRIPTION_CHARS);
    }
    if draft.tags.len() > MAX_TAGS {
        return too_long("list of tags", draft.tags.len(), MAX_TAGS);
    }
    let tools = draft.tools.as_deref().unwrap_or_default();
    if tools.len() > MAX_TOOLS {
        return too_long("list of tools", tools.len(), MAX_TOOLS);
    }
    let short = draft.tags.iter().map(|tag| ("tag", tag)).chain(draft.author.iter().map(|author| ("author", author)));
    for (what, text) in short {
        if text.chars().count() > MAX_WORD_CHARS {
            return too_long(what, text.chars().count(), MAX_WORD_CHARS);
        }
    }
    match tools.iter().find(|tool| tool.len() > coracle_catalog::MAX_TOOL_NAME) {
        Some(tool) => too_long("name of a tool", tool.len(), coracle_catalog::MAX_TOOL_NAME),
        None => Ok(()),
    }
}

/// Splits a text into tags, at commas, semicolons and spaces.
pub fn split_tags(text: &str) -> Vec<String> {
    let mut tags: Vec<String> =
        text.split([',', ';', ' ', '\n', '\t']).filter(|tag| !tag.is_empty()).map(str::to_owned).collect();
    let mut seen = HashSet::new();
    tags.retain(|tag| seen.insert(tag.clone()));
    tags
}
