//! Data that clients carry without code: between themselves, servers, the files of the workspace and skills.

use super::Frontend;
use coracle_store::{Place, StoreError};
use rmcp::ErrorData;

/// Tools that write what the client sends into the workspace.
const WRITING: [&str; 3] = ["write_workspace_file", "write_file", "save_state"];
/// Tools that return what is in the workspace.
const READING: [&str; 5] = ["read_workspace_file", "read_file", "get_state", "list_workspace_files", "read_docstring"];
/// Tools that read skills.
const READING_SKILLS: [&str; 4] = ["load_skill", "get_skill", "list_skills", "search_skills"];

impl Frontend {
    /// Notes what data one of Coracle's own tools carries, before it does.
    pub(super) async fn carries(&self, tool: &str) -> Result<(), ErrorData> {
        let (client, files) =
            (self.client_place.clone(), || self.engine.workspace_place(&self.user(), self.workspace()));
        let carried = if WRITING.contains(&tool) {
            self.engine.carry(&self.user(), &client, &files()).await
        } else if READING.contains(&tool) {
            self.engine.carry(&self.user(), &files(), &client).await
        } else if READING_SKILLS.contains(&tool) {
            self.engine.carry(&self.user(), &Place::skills(), &client).await
        } else if tool == "save_skill" {
            self.engine.carry(&self.user(), &client, &Place::skills()).await
        } else {
            Ok(())
        };
        carried.map_err(|error| unknown(&error))
    }

    /// Notes that a resource of Coracle's own is read: a file of the workspace, an artifact or a skill.
    pub(super) async fn reads_own_resource(&self) -> Result<(), ErrorData> {
        self.carries(READING[0]).await?;
        self.carries(READING_SKILLS[0]).await?;
        let carried = self.engine.carry(&self.user(), &Place::artifacts(), &self.client_place).await;
        carried.map_err(|error| unknown(&error))
    }
}

fn unknown(error: &StoreError) -> ErrorData {
    ErrorData::internal_error(format!("flow rules depend on where data came from: {error}"), None)
}
