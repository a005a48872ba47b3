//! The clients whose settings can be changed.

use crate::settings::variables;
use crate::status::Mistake;
use coracle_config::install::Target;
use std::fmt;
use std::path::PathBuf;
use std::str::FromStr;

/// MCP client whose settings are changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Client(Target);

impl FromStr for Client {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let target = match text {
            "claude" | "claude-code" => Target::ClaudeCode,
            "claude-desktop" => Target::ClaudeDesktop,
            "cursor" => Target::Cursor,
            "vscode" => Target::VsCode,
            "codex" => Target::Codex,
            _ => return Err("use claude, claude-desktop, cursor, vscode or codex".to_owned()),
        };
        Ok(Self(target))
    }
}

impl fmt::Display for Client {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self.0 {
            Target::ClaudeCode => "Claude Code",
            Target::ClaudeDesktop => "Claude Desktop",
            Target::Cursor => "Cursor",
            Target::VsCode => "VS Code",
            Target::Codex => "Codex",
        })
    }
}

impl Client {
    /// The names on the command line.
    pub(super) const NAMES: [&'static str; 5] = ["claude", "claude-desktop", "cursor", "vscode", "codex"];

    pub(super) fn target(self) -> Target {
        self.0
    }

    /// Name on the command line.
    pub(super) fn name(self) -> &'static str {
        match self.0 {
            Target::ClaudeCode => "claude",
            Target::ClaudeDesktop => "claude-desktop",
            Target::Cursor => "cursor",
            Target::VsCode => "vscode",
            Target::Codex => "codex",
        }
    }

    pub(super) fn file(self) -> anyhow::Result<PathBuf> {
        let file = self.0.file(&variables());
        let hint = "set HOME to your home folder";
        Ok(file.ok_or_else(|| Mistake::new("cannot find the settings of the client", Some(hint)))?)
    }
}
