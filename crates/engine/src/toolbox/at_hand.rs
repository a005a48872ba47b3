//! Reuse of modules written by an earlier run. Code that does not mention tools can start with them at once, without
//! waiting until the tools of all servers are loaded.

use super::mentions::Mentions;
use super::{Toolbox, digest, fingerprint};
use coracle_catalog::ROOT;
use coracle_types::UserId;
use serde::{Deserialize, Serialize};
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::PoisonError;
use std::time::SystemTime;

/// Prefix of the file names of notes.
const PREFIX: &str = "at-hand-";

/// File that records the folder with the modules of one user.
#[derive(Clone, Debug)]
pub(super) struct AtHand {
    note: PathBuf,
    servers: String,
}

#[derive(Debug, Serialize, Deserialize)]
struct Note {
    /// Digest of the program version and the settings of all servers, on which the modules depend.
    servers: String,
    /// Name of the folder next to this note.
    folder: String,
}

impl AtHand {
    /// Records that all modules are in `folder`. A failure is only logged; the next run then loads all tools first.
    pub(super) fn put(&self, folder: &Path) {
        let Some(folder) = folder.file_name().and_then(|name| name.to_str()).map(str::to_owned) else { return };
        if self.read().is_some_and(|note| note.servers == self.servers && note.folder == folder) {
            return;
        }
        let note = Note { servers: self.servers.clone(), folder };
        let parent = self.note.parent().unwrap_or(Path::new("."));
        let written = serde_json::to_vec(&note).map_err(std::io::Error::from).and_then(|text| {
            let file = tempfile::NamedTempFile::new_in(parent)?;
            fs::write(file.path(), text)?;
            file.persist(&self.note).map_err(|error| error.error)
        });
        if let Err(error) = written {
            tracing::debug!(%error, "which modules are at hand is not written down");
        }
    }

    fn read(&self) -> Option<Note> {
        serde_json::from_slice(&fs::read(&self.note).ok()?).ok()
    }

    /// Returns the recorded folder with all modules, if it matches the current settings of the servers.
    fn folder(&self) -> Option<PathBuf> {
        let note = self.read().filter(|note| note.servers == self.servers)?;
        // Only the last component is used, so that a note cannot point to another directory.
        let folder = self.note.with_file_name(Path::new(&note.folder).file_name()?);
        // The modification time marks the folder as used.
        fs::File::open(&folder).and_then(|folder| folder.set_modified(SystemTime::now())).ok()?;
        let modules = folder.join(ROOT);
        modules.is_dir().then_some(modules)
    }
}

impl Toolbox {
    /// Returns the modules of an earlier run for code that does not mention tools; `None` if there are none, or if this
    /// process has already loaded the tools of the user.
    pub(crate) async fn modules_at_hand(&self, user: &UserId, code: &str) -> Option<PathBuf> {
        if self.inventories.lock().unwrap_or_else(PoisonError::into_inner).contains_key(user)
            || Mentions::new(code).any()
        {
            return None;
        }
        let at_hand = self.at_hand(user);
        tokio::task::spawn_blocking(move || at_hand.folder()).await.ok().flatten()
    }

    pub(super) fn at_hand(&self, user: &UserId) -> AtHand {
        let specs = self.upstream.servers();
        let servers: Vec<_> = specs
            .iter()
            .map(|spec| (spec.name.as_str(), fingerprint(spec), &spec.description, &spec.category))
            .collect();
        let note = self.config.cache.join(format!("{PREFIX}{}", digest(&user.as_str())));
        AtHand { note, servers: digest(&(env!("CARGO_PKG_VERSION"), servers)) }
    }
}

#[cfg(test)]
mod tests {
    use super::{AtHand, Note};
    use crate::in_process::{Handler, InProcess};
    use crate::toolbox::{Listing, Toolbox, ToolboxConfig, named};
    use coracle_policy::Rules;
    use coracle_store::MemoryStore;
    use coracle_types::{ServerName, ToolResult, UserId};
    use std::fs;
    use std::path::Path;
    use std::sync::Arc;

    fn toolbox(cache: &Path, server: &str) -> Arc<Toolbox> {
        let server = ServerName::new(server).unwrap();
        let nothing: Handler = Box::new(|_| ToolResult::default());
        let tools = InProcess::new(server.clone(), [(named(&server, "look"), nothing)]);
        let config = ToolboxConfig {
            cache: cache.to_owned(),
            registry: None,
            embedder: None,
            caps: crate::CallCaps::default(),
            unusable: Vec::new(),
        };
        Toolbox::new(config, tools, Arc::new(MemoryStore::new()), Rules::new(Vec::new()).unwrap())
    }

    #[tokio::test]
    async fn code_that_speaks_of_no_tools_gets_the_modules_of_an_earlier_run() {
        let cache = tempfile::tempdir().unwrap();
        let user = UserId::local();
        let first = toolbox(cache.path(), "demo");
        assert_eq!(first.modules_at_hand(&user, "pass").await, None, "nothing was written yet");
        let inventory = first.inventory(&user, Listing::For("from servers.demo import look")).await;
        let written = inventory.modules().unwrap();
        assert_eq!(first.modules_at_hand(&user, "pass").await, None, "it has all of it by now");
        // Another run, whose store contains no tools.
        let second = toolbox(cache.path(), "demo");
        assert_eq!(second.modules_at_hand(&user, "import servers").await, None);
        let found = second.modules_at_hand(&user, "pass").await.unwrap();
        assert_eq!(found, written);
        assert!(found.join("demo/look.py").is_file());
        let another = UserId::new("ann").unwrap();
        assert_eq!(second.modules_at_hand(&another, "pass").await, None, "they are another user's");
        let other = toolbox(cache.path(), "other");
        assert_eq!(other.modules_at_hand(&user, "pass").await, None, "the settings are others");
        fs::remove_dir_all(found.parent().unwrap()).unwrap();
        assert_eq!(second.modules_at_hand(&user, "pass").await, None, "they are gone");
    }

    #[test]
    fn digests_do_not_depend_on_the_order_of_keys() {
        let of = |text: &str| crate::toolbox::digest(&serde_json::from_str::<serde_json::Value>(text).unwrap());
        assert_eq!(of(r#"{"b":{"d":1,"c":2},"a":3}"#), of(r#"{"a":3,"b":{"c":2,"d":1}}"#));
        assert_ne!(of(r#"{"b":{"d":1,"c":2},"a":3}"#), of(r#"{"a":3,"b":{"c":1,"d":2}}"#));
    }

    #[test]
    fn a_note_leads_nowhere_else() {
        let cache = tempfile::tempdir().unwrap();
        let elsewhere = cache.path().join("elsewhere");
        let at_hand = AtHand { note: cache.path().join("notes/at-hand-x"), servers: "s".to_owned() };
        for root in [&elsewhere, &cache.path().join("notes/mine")] {
            fs::create_dir_all(root.join(super::ROOT)).unwrap();
        }
        let note = |folder: &str| {
            let note = Note { servers: "s".to_owned(), folder: folder.to_owned() };
            fs::write(&at_hand.note, serde_json::to_vec(&note).unwrap()).unwrap();
            at_hand.folder()
        };
        assert_eq!(note("../elsewhere"), None);
        assert_eq!(note(elsewhere.to_str().unwrap()), None);
        assert_eq!(note(".."), None);
        assert!(note("mine").is_some());
    }
}
