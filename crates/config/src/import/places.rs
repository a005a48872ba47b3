//! The locations of clients' files.

use super::{Client, ImportOptions};
use std::path::{Path, PathBuf};

/// The operating system, which determines the location of files.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum System {
    /// Linux and similar systems.
    Linux,
    /// macOS.
    MacOs,
    /// Windows.
    Windows,
}

impl System {
    /// The system that this program was built for.
    pub const fn current() -> Self {
        if cfg!(target_os = "macos") {
            Self::MacOs
        } else if cfg!(target_os = "windows") {
            Self::Windows
        } else {
            Self::Linux
        }
    }
}

/// A file that may exist.
#[derive(Clone, Debug)]
pub(super) struct Place {
    pub(super) client: Client,
    pub(super) path: PathBuf,
    /// Whether the file belongs to a project, and so may come from someone else.
    pub(super) in_folder: bool,
}

/// All files that may exist, those of the user before those of the project.
pub(super) fn all(options: &ImportOptions) -> Vec<Place> {
    let settings = settings_folder(options);
    let home = &options.home;
    let own = |client, path: PathBuf| Place { client, path, in_folder: false };
    let mut places = vec![
        own(Client::ClaudeDesktop, settings.join("Claude/claude_desktop_config.json")),
        own(Client::ClaudeCode, claude_code(options)),
        own(Client::Cursor, home.join(".cursor/mcp.json")),
        own(Client::VsCode, settings.join("Code/User/mcp.json")),
        own(Client::VsCode, settings.join("Code/User/settings.json")),
    ];
    // In the home folder, the file of the project is that of the user.
    if let Some(folder) = options.folder.as_deref().filter(|folder| folder != home) {
        let project = |client, name: &str| Place { client, path: folder.join(name), in_folder: true };
        places.push(project(Client::ClaudeCode, ".mcp.json"));
        places.push(project(Client::Cursor, ".cursor/mcp.json"));
        places.push(project(Client::VsCode, ".vscode/mcp.json"));
        places.push(project(Client::VsCode, ".vscode/settings.json"));
    }
    places
}

/// The folder for settings of programs.
fn settings_folder(options: &ImportOptions) -> PathBuf {
    let variable = |name: &str| options.env.get(name).map(PathBuf::from).filter(|path| path.is_absolute());
    match options.system {
        System::Linux => variable("XDG_CONFIG_HOME").unwrap_or_else(|| options.home.join(".config")),
        System::MacOs => options.home.join("Library/Application Support"),
        System::Windows => variable("APPDATA").unwrap_or_else(|| options.home.join("AppData/Roaming")),
    }
}

fn claude_code(options: &ImportOptions) -> PathBuf {
    let moved = options.env.get("CLAUDE_CONFIG_DIR").filter(|path| !path.is_empty());
    moved.map_or(options.home.as_path(), Path::new).join(".claude.json")
}
