//! The settings file, the environment, and who wins.
//!
//! Start at [`load`]: it finds `coracle.yaml`, reads `.env` and the environment, lets flags win over environment over
//! `.env` over file over defaults, and hands out plain [`Settings`], the [`ServerSpec`](coracle_types::ServerSpec)s of
//! the servers that can be used, and where each value came from. [`schema`] is what editors check the file against,
//! [`import`] reads what other clients have configured, [`edit`] changes the file and leaves the rest of its text alone.
//!
//! A `coracle.yaml` in the current folder can start programs: whoever runs Coracle in a folder trusts that folder, as
//! with a `Makefile`. So the loader always says which file it read and how it was found ([`SourceFile`]), and takes
//! nothing from the current folder that belongs to another user.
//!
//! Invariants: a problem names its place and never the value of a credential; one server that cannot be used never
//! breaks the others; the environment is handed in, never read here (but for `${VAR}` inside a `.env`, which the parser
//! of such files fills in itself).

mod dotenv;
mod earlier;
pub mod edit;
mod environment;
mod expand;
mod gather;
pub mod import;
pub mod install;
mod keys;
mod load;
mod mask;
mod origin;
mod problem;
mod reader;
mod schema;
mod servers;
mod settings;
mod show;
mod suggest;
mod value;
mod yaml;

pub use environment::{CONFIG_VARIABLE, HOME_VARIABLE};
pub use gather::Flag;
pub use load::{FILE_NAME, LoadOptions, Loaded, SourceFile, Way, load};
pub use origin::Origin;
pub use problem::{ConfigError, Problem, Reason, Warning};
pub use reader::is_foreign;
pub use schema::schema;
pub use servers::{ServerFault, ServerProblem};
pub use settings::{
    Agent, Artifacts, AzureOpenAi, Calls, CleanupMode, ConnectionType, Embedder, Execution, ExecutionLimits,
    Guardrails, History, Log, McpServer, Microsandbox, Oidc, Policy, SandboxType, Search, Server, Settings, Workspaces,
    WorkspacesCleanup,
};
pub use show::Shown;
