//! Stores skills: code that was saved, in a folder per user (`shelf.rs`), and folders with a `SKILL.md` (`library.rs`,
//! `folder.rs`). No skill is run here.

mod builtin;
mod error;
mod folder;
mod library;
mod modules;
mod name;
mod shelf;

pub use error::SkillError;
pub use folder::{MAX_BODY_BYTES, Origin, SkillFile, SkillFolder};
pub use library::{Library, Shelved, SkillSource};
pub use modules::{HelperModule, helper_modules};
pub use name::{InvalidSkillName, SkillName};
pub(crate) use shelf::{Kept, Shelf};

use coracle_types::{Language, UserId};
use serde::{Deserialize, Serialize};
use std::collections::HashSet;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

/// Programming language of a code skill.
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
    /// File extension.
    pub(crate) fn ending(self) -> &'static str {
        match self {
            Self::Python => "py",
            Self::Typescript => "ts",
        }
    }

    pub(crate) fn other(self) -> Self {
        match self {
            Self::Python => Self::Typescript,
            Self::Typescript => Self::Python,
        }
    }

    /// The language of executions that run the skill.
    pub fn language(self) -> Language {
        match self {
            Self::Python => Language::Python,
            Self::Typescript => Language::TypeScript,
        }
    }
}

/// Metadata of a code skill.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct CodeSkill {
    /// Name by which the skill is imported.
    pub name: SkillName,
    /// Programming language.
    #[serde(default)]
    pub language: SkillLanguage,
    /// What the skill does.
    #[serde(default)]
    pub description: String,
    /// Tags for searches.
    #[serde(default)]
    pub tags: Vec<String>,
    /// Author.
    #[serde(default)]
    pub author: String,
    /// Tools that the skill calls.
    #[serde(default)]
    pub tools: Vec<DeclaredTool>,
    /// Program that shows how to use the skill. It succeeded when the skill was saved.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub example: Option<String>,
    /// When the first version was saved.
    pub created_at: String,
    /// When this version was saved.
    pub saved_at: String,
    /// Version number, counted from 1.
    pub version: u32,
}

/// A tool that a skill calls.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct DeclaredTool {
    /// Name as code imports it: `package.function`.
    pub tool: String,
    /// Digest of the definition when the skill was saved; none if the tool did not exist.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub digest: Option<String>,
}

/// The shelves of all users.
#[derive(Debug)]
pub(crate) struct Shelves {
    workspaces: PathBuf,
    /// The users whose shelf has been prepared.
    prepared: Mutex<HashSet<UserId>>,
}

impl Shelves {
    /// Creates the shelves. `workspaces` contains the folders of the users.
    pub(crate) fn new(workspaces: &Path) -> Self {
        Self { workspaces: workspaces.to_owned(), prepared: Mutex::default() }
    }

    pub(crate) fn of(&self, user: &UserId) -> Shelf {
        Shelf::new(&self.workspaces.join(user.as_str()))
    }

    /// The folder in which a user's skills are tried out before they are saved.
    pub(crate) fn trials(&self, user: &UserId) -> PathBuf {
        self.workspaces.join(user.as_str()).join("trials")
    }

    /// The folder that the user's sandboxes see as `/coracle/skills`.
    pub(crate) async fn folder(&self, user: &UserId) -> Result<PathBuf, SkillError> {
        let shelf = self.of(user);
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

    /// Like [`Shelves::folder`], but logs errors: a sandbox without skills is better than none.
    pub(crate) async fn seen(&self, user: &UserId) -> Option<PathBuf> {
        let folder = self.folder(user).await;
        folder.map_err(|error| tracing::error!(%error, %user, "code cannot import skills")).ok()
    }
}

/// Runs file operations on a thread that may block.
pub(crate) async fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> Result<T, SkillError> + Send + 'static,
) -> Result<T, SkillError> {
    match tokio::task::spawn_blocking(work).await {
        Ok(outcome) => outcome,
        Err(error) => Err(SkillError::Internal(error.to_string())),
    }
}
