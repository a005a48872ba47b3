//! Skills: code that agents have saved to import it later (`shelf.rs`), and folders with a `SKILL.md` that say how
//! something is done (`library.rs`, `folder.rs`).
//!
//! Start at [`Engine::save_skill`] and [`Library`]. Code skills belong to one user; folders are the operator's, and the same
//! for all.
//!
//! Invariants: nothing of a skill is ever run outside a sandbox; a skill is saved whole or not at all, and when saving
//! has been answered it is on the disk; users never see each other's.

mod builtin;
mod calls;
mod declared;
mod error;
mod finding;
mod folder;
mod library;
mod modules;
mod name;
mod packages;
mod shelf;
mod trial;

pub use error::SkillError;
pub use finding::{FoundSkill, SkillKind};
pub use folder::{MAX_BODY_BYTES, Origin, SkillFile, SkillFolder};
pub use library::{Library, Shelved, SkillSource};
pub use modules::{HelperModule, helper_modules};
pub use name::{InvalidSkillName, SkillName};

use crate::engine::Engine;
use crate::toolbox::{Inventory, Listing};
use coracle_policy::definition_digest;
use coracle_types::{Execution, Language, Limits, UserId};
use serde::{Deserialize, Serialize};
use shelf::{Kept, Shelf};
use std::collections::{HashMap, HashSet};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::time::SystemTime;

/// No code of a skill is longer.
pub const MAX_SKILL_BYTES: usize = 256 << 10;

/// No example is longer.
const MAX_EXAMPLE_BYTES: usize = 64 << 10;

/// No description is longer.
const MAX_DESCRIPTION_CHARS: usize = 1024;

/// So many tags, each no longer than this; an author's name neither.
const MAX_TAGS: usize = 20;
const MAX_WORD_CHARS: usize = 64;

/// So many tools can be declared.
const MAX_TOOLS: usize = 100;

/// What a code skill is written in.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum SkillLanguage {
    /// `from skills.NAME import f`.
    #[default]
    Python,
    /// `import { f } from "skills/NAME"`.
    Typescript,
}

impl SkillLanguage {
    fn ending(self) -> &'static str {
        match self {
            Self::Python => "py",
            Self::Typescript => "ts",
        }
    }

    fn other(self) -> Self {
        match self {
            Self::Python => Self::Typescript,
            Self::Typescript => Self::Python,
        }
    }

    /// What runs it.
    pub fn language(self) -> Language {
        match self {
            Self::Python => Language::Python,
            Self::Typescript => Language::TypeScript,
        }
    }
}

/// What is known of a code skill, beside its code.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct CodeSkill {
    /// What it is imported by.
    pub name: SkillName,
    /// What it is written in.
    #[serde(default)]
    pub language: SkillLanguage,
    /// What it does, in its author's words.
    #[serde(default)]
    pub description: String,
    /// For finding it.
    #[serde(default)]
    pub tags: Vec<String>,
    /// Who wrote it.
    #[serde(default)]
    pub author: String,
    /// The tools that it calls.
    #[serde(default)]
    pub tools: Vec<DeclaredTool>,
    /// A program that shows how it is used; it passed when the skill was saved.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub example: Option<String>,
    /// When its first version was saved.
    pub created_at: String,
    /// When this version was saved.
    pub saved_at: String,
    /// Counted from 1.
    pub version: u32,
}

/// A tool that a skill calls.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct DeclaredTool {
    /// `package.function`, as code imports it.
    pub tool: String,
    /// Digest of its definition when the skill was saved; none if there was no such tool.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub digest: Option<String>,
}

/// A skill that is to be saved.
#[derive(Clone, Debug, Default)]
pub struct SkillDraft {
    /// What it is to be imported by.
    pub name: String,
    /// The source.
    pub code: String,
    /// What it is written in.
    pub language: SkillLanguage,
    /// What it does.
    pub description: String,
    /// For finding it.
    pub tags: Vec<String>,
    /// Who wrote it; without one, the user.
    pub author: Option<String>,
    /// The tools that it calls, as `server.tool`; without them, those that its imports name.
    pub tools: Option<Vec<String>>,
    /// A program that uses it and fails if it does not work: run in a sandbox before anything is saved.
    pub example: Option<String>,
}

/// A skill with its code.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct LoadedSkill {
    /// What is known of it.
    pub metadata: CodeSkill,
    /// The source.
    pub code: String,
    /// The versions that are kept.
    pub versions: Vec<u32>,
}

/// A skill in a list.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct ListedSkill {
    /// What is known of it, without its example.
    #[serde(flatten)]
    pub skill: CodeSkill,
    /// It has an example, which passed when it was saved.
    pub tested: bool,
    /// What has become of its tools; nothing if they are as they were.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub drift: Vec<Drift>,
}

/// What has become of a tool since a skill was saved.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Drift {
    /// The tool.
    pub tool: String,
    /// What has become of it.
    pub change: Change,
}

/// What can become of a tool.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Change {
    /// There is no such tool, or no such server.
    Gone,
    /// Its definition is another.
    Changed,
    /// Its server is not there at the moment.
    Unavailable,
}

/// The code skills of all users.
#[derive(Debug)]
pub(crate) struct Skills {
    workspaces: PathBuf,
    /// Whose folders have been looked at.
    prepared: Mutex<HashSet<UserId>>,
    /// Trials of one user take turns.
    trials: Mutex<HashMap<UserId, Arc<tokio::sync::Mutex<()>>>>,
    /// What the Python of sandboxes has.
    installed: tokio::sync::OnceCell<packages::Installed>,
    library: OnceLock<Arc<Library>>,
    /// What a trial may use.
    limits: OnceLock<Limits>,
}

impl Skills {
    pub(crate) fn new(workspaces: &Path) -> Self {
        Self {
            workspaces: workspaces.to_owned(),
            prepared: Mutex::default(),
            trials: Mutex::default(),
            installed: tokio::sync::OnceCell::new(),
            library: OnceLock::new(),
            limits: OnceLock::new(),
        }
    }

    fn shelf(&self, user: &UserId) -> Shelf {
        Shelf::new(&self.workspaces.join(user.as_str()))
    }

    /// What the user's sandboxes see at `/coracle/skills`.
    pub(crate) async fn folder(&self, user: &UserId) -> Result<PathBuf, SkillError> {
        let shelf = self.shelf(user);
        let is_ready = self.prepared.lock().unwrap_or_else(PoisonError::into_inner).contains(user);
        if !is_ready || !shelf.importable().is_dir() {
            if !shelf.is_bare() {
                let made = shelf.clone();
                blocking(move || made.prepare()).await?;
            }
            self.prepared.lock().unwrap_or_else(PoisonError::into_inner).insert(user.clone());
        }
        Ok(shelf.importable().to_owned())
    }

    /// The same for a sandbox, which is better without skills than not there.
    pub(crate) async fn seen(&self, user: &UserId) -> Option<PathBuf> {
        let folder = self.folder(user).await;
        folder.map_err(|error| tracing::error!(%error, %user, "code cannot import skills")).ok()
    }

    fn turn(&self, user: &UserId) -> Arc<tokio::sync::Mutex<()>> {
        Arc::clone(self.trials.lock().unwrap_or_else(PoisonError::into_inner).entry(user.clone()).or_default())
    }
}

impl Engine {
    /// Saves a skill, or a further version of it, if its code compiles and its example runs to its end.
    ///
    /// What a further version says nothing of stays as it was: description, tags, example.
    pub async fn save_skill(&self, user: &UserId, draft: SkillDraft) -> Result<CodeSkill, SkillError> {
        let name = SkillName::new(&draft.name)?;
        check(&draft)?;
        self.skills().folder(user).await?;
        let turn = self.skills().turn(user);
        let _turn = turn.lock().await;
        let (shelf, wanted) = (self.skills().shelf(user), name.clone());
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
        // An empty one takes the earlier one away.
        skill.example = skill.example.filter(|example| !example.trim().is_empty());
        let kept = Kept { skill, code: draft.code };
        self.try_out(user, &kept).await?;
        let shelf = self.skills().shelf(user);
        blocking(move || shelf.save(kept)).await
    }

    /// A skill with its code: the newest version, or the one that is asked for.
    pub async fn load_skill(&self, user: &UserId, name: &str, version: Option<u32>) -> Result<LoadedSkill, SkillError> {
        let (name, shelf) = (SkillName::new(name)?, self.skills().shelf(user));
        let (kept, versions) =
            blocking(move || Ok((shelf.version(&name, version)?, shelf.versions_of(&name)?))).await?;
        Ok(LoadedSkill { metadata: kept.skill, code: kept.code, versions })
    }

    /// All code skills of a user, with what has become of their tools.
    pub async fn list_skills(&self, user: &UserId) -> Result<Vec<ListedSkill>, SkillError> {
        let shelf = self.skills().shelf(user);
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

    /// How many code skills a user has.
    pub async fn count_skills(&self, user: &UserId) -> usize {
        let shelf = self.skills().shelf(user);
        blocking(move || shelf.all()).await.map_or(0, |all| all.len())
    }

    /// Removes a skill with all its versions.
    pub async fn delete_skill(&self, user: &UserId, name: &str) -> Result<(), SkillError> {
        let (name, shelf) = (SkillName::new(name)?, self.skills().shelf(user));
        blocking(move || shelf.remove(&name)).await
    }

    /// Runs the example of a skill that is saved; `None` if it has none.
    pub async fn test_skill(&self, user: &UserId, name: &str) -> Result<Option<Execution>, SkillError> {
        let (name, shelf) = (SkillName::new(name)?, self.skills().shelf(user));
        let kept = blocking(move || shelf.version(&name, None)).await?;
        let turn = self.skills().turn(user);
        let _turn = turn.lock().await;
        self.run_example(user, &kept).await
    }

    /// With these folders that have a `SKILL.md`; an engine that was given some keeps them.
    #[must_use]
    pub fn with_library(self, library: Arc<Library>) -> Self {
        // Whoever comes second is too late.
        let _ = self.skills().library.set(library);
        self
    }

    /// With these limits for what is run to try out skills; without them the defaults hold.
    #[must_use]
    pub fn with_trial_limits(self, limits: Limits) -> Self {
        let _ = self.skills().limits.set(limits);
        self
    }

    /// The folders with a `SKILL.md`.
    pub fn library(&self) -> &Arc<Library> {
        self.skills().library.get_or_init(Arc::default)
    }

    async fn tools_of(&self, user: &UserId) -> Option<Arc<Inventory>> {
        Some(self.toolbox()?.inventory(user, Listing::Soon).await)
    }

    /// What a skill says of the tools that it calls, with what they are now.
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
        // It was not there when the skill was saved, and has come since.
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

/// The tags in a text: words with commas or spaces between them.
pub fn split_tags(text: &str) -> Vec<String> {
    let mut tags: Vec<String> =
        text.split([',', ';', ' ', '\n', '\t']).filter(|tag| !tag.is_empty()).map(str::to_owned).collect();
    let mut seen = HashSet::new();
    tags.retain(|tag| seen.insert(tag.clone()));
    tags
}

/// Work on files, which must not keep others waiting.
async fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> Result<T, SkillError> + Send + 'static,
) -> Result<T, SkillError> {
    match tokio::task::spawn_blocking(work).await {
        Ok(outcome) => outcome,
        Err(error) => Err(SkillError::Internal(error.to_string())),
    }
}
