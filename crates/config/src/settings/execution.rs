use super::limits::ExecutionLimits;
use coracle_types::Secret;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::path::PathBuf;

/// Code execution: sandbox, interpreter, folders and limits.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Execution {
    /// Sandbox type. This version supports `native` and `docker`.
    pub sandbox_type: SandboxType,
    /// Container image for sandboxes of type `docker`, which must contain Python 3.10 or later. Defaults to the image
    /// that `coracle image build` makes. Images are never pulled.
    pub sandbox_image: Option<String>,
    /// Folder for user workspaces. Defaults to `workspaces` in the data folder.
    pub workspace_dir: Option<PathBuf>,
    /// Folder for generated tool modules. Defaults to `cache/servers` in the data folder. If the folder already
    /// contains Python modules, code imports them as `servers.NAME`, and nothing is written to it.
    pub servers_dir: Option<PathBuf>,
    /// Folder with skills (`SKILL.md`), which code sees in `/skills`. Python files in it can be imported as
    /// `skills.NAME`.
    pub skills_dir: Option<PathBuf>,
    /// Folder with modules, which code sees as `/tools`.
    pub tools_dir: Option<PathBuf>,
    /// Allow code to use the network. Not supported in this version: no code runs if this is `true`.
    pub allow_network_access: bool,
    /// Refuse to run code unless Landlock, a memory cgroup and a private `/proc` are available.
    pub require_full_isolation: bool,
    /// Python interpreter for sandboxes. Defaults to the system's `python3`, or the first one on `PATH`.
    pub python: Option<PathBuf>,
    /// Requirements file in pip's format. `coracle env sync` installs its packages instead of the default ones.
    pub requirements: Option<PathBuf>,
    /// Python modules that a server imports in advance, so that executions do not wait for them.
    pub preload: Vec<String>,
    /// Containers, for sandboxes of type `docker`.
    pub docker: Docker,
    /// Default limits of one execution.
    pub limits: ExecutionLimits,
    /// Microsandbox server. Has no effect in this version.
    pub microsandbox: Microsandbox,
}

/// Sandbox type. This version supports `native` and `docker`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum SandboxType {
    /// Linux namespaces, seccomp and Landlock.
    #[default]
    Native,
    /// Docker or Podman containers.
    Docker,
    /// Lightweight virtual machines.
    Microvm,
    /// Kubernetes pods.
    Kubernetes,
}

/// Containers, for sandboxes of type `docker`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Docker {
    /// Socket of the Docker or Podman engine, such as `unix:///var/run/docker.sock`. Defaults to the first of the usual
    /// sockets that answers. The engine must run on this machine.
    pub host: Option<String>,
    /// Runtime of the containers, one that the engine knows, such as `runsc` for gVisor. Defaults to the engine's.
    pub runtime: Option<String>,
    /// Time without a call after which a user's container is removed, in seconds.
    pub idle_seconds: u64,
}

impl Default for Docker {
    fn default() -> Self {
        Self { host: None, runtime: None, idle_seconds: 900 }
    }
}

/// Microsandbox server.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Microsandbox {
    /// URL of the microsandbox server. Has no effect in this version.
    pub server_url: Option<String>,
    /// API key. Has no effect in this version. Prefer an environment variable to the settings file.
    #[schemars(with = "Option<String>")]
    pub api_key: Option<Secret>,
}
