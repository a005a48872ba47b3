//! Tools that code uses, and what is known about them.

/// A server or a tool that code names.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ToolUse {
    /// Byte offset in the code.
    pub(crate) at: usize,
    /// As the code names it: the package, or the name of the server.
    pub(crate) server: String,
    /// As the code names it: the function, or the name on the wire.
    pub(crate) tool: Option<String>,
    /// Whether the code handles the error if it does not exist.
    pub(crate) is_guarded: bool,
}

/// What is known about a server or a tool.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Known {
    /// Nothing: its server has never listed its tools.
    Nothing,
    /// There is no such server.
    NoServer {
        /// Names of all servers.
        all: Vec<String>,
    },
    /// The server has no such tool.
    NoTool {
        /// Names of all its tools.
        all: Vec<String>,
    },
    /// The server had no such tool when it listed its tools last, which may have changed.
    Unlisted {
        /// Names of the tools that it had.
        all: Vec<String>,
    },
    /// The server exists.
    Server,
    /// The tool exists.
    Tool {
        /// Whether it is marked as read-only.
        is_read_only: bool,
    },
}

/// The tools that exist. Names are those that code uses, or those on the wire.
pub trait Catalogue {
    /// Looks up a server, or a tool of it.
    fn look_up(&self, server: &str, tool: Option<&str>) -> Known;
}
