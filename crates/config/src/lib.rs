//! Settings: the settings file, the environment, and their precedence.
//!
//! Start at [`load`]: it finds `coracle.yaml`, reads `.env` and the environment, and returns plain [`Settings`], the
//! [`ServerSpec`](coracle_types::ServerSpec)s of the usable servers, the usable model [`Provider`]s, and the origin of
//! each value. Flags take precedence over the environment, then `.env`, then the file, then defaults. [`schema`] is the
//! JSON Schema for editors, [`import`] reads the configuration of other clients, and [`edit`] changes the file and
//! preserves the rest of its text.
//!
//! A `coracle.yaml` in the current folder can start programs: running Coracle in a folder means to trust that folder,
//! as with a `Makefile`. So the loader always reports which file it read and how it was found ([`SourceFile`]), and
//! reads no file in the current folder that belongs to another user.
//!
//! Invariants: a problem names its location and never the value of a credential. One unusable server or provider never
//! breaks the others. The environment is passed in and never read here (except for `${VAR}` inside a `.env`, which the
//! parser of such files expands itself).

mod dotenv;
mod earlier;
pub mod edit;
mod effect;
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
mod provider_names;
mod providers;
mod reader;
mod schema;
mod servers;
mod settings;
mod show;
mod suggest;
mod value;
mod yaml;

pub use effect::WITHOUT_EFFECT;
pub use environment::{
    BENCH_IMAGE_VARIABLE, CONFIG_VARIABLE, HOME_VARIABLE, KEY_COMMAND_VARIABLE, KEY_VARIABLE, TEST_SERVERS_VARIABLE,
    is_setting,
};
pub use gather::Flag;
pub use keys::{LOG_VARIABLE, PYTHON_VARIABLE};
pub use load::{FILE_NAME, LoadOptions, Loaded, SourceFile, Way, load};
pub use origin::Origin;
pub use problem::{ConfigError, Problem, Reason, Warning};
pub use reader::is_foreign;
pub use schema::schema;
pub use servers::{ServerFault, ServerProblem};
pub use settings::{
    Agent, Api, Approvers, Artifacts, Audit, AuditSync, AzureOpenAi, Calls, CleanupMode, CodeFences, ConnectionType,
    Docker, Embedder, Execution, ExecutionLimits, Guardrails, History, Log, McpServer, Microsandbox, Oidc, PlanMode,
    Policy, Privacy, PrivacyKinds, Provider, SandboxType, Search, Server, Settings, Trifecta, Workspaces,
    WorkspacesCleanup,
};
pub use show::SettingRow;
