use coracle_types::{Limits, Secret};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::path::PathBuf;
use std::time::Duration;

/// Code execution: sandbox, interpreter, folders and limits.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Execution {
    /// Sandbox type. This version supports only `native`.
    pub sandbox_type: SandboxType,
    /// Container image for sandboxes. Has no effect in this version.
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
    /// Default limits of one execution.
    pub limits: ExecutionLimits,
    /// Microsandbox server. Has no effect in this version.
    pub microsandbox: Microsandbox,
}

/// Sandbox type. This version supports only `native`.
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

/// Default limits of one execution.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct ExecutionLimits {
    /// Maximum wall-clock time, in seconds.
    #[schemars(range(min = 0.001, max = 86400))]
    pub time: f64,
    /// Maximum memory of the whole process tree, in MB (10^6 bytes).
    #[schemars(range(min = 32, max = 1_048_576))]
    pub memory_mb: u64,
    /// Maximum number of concurrent processes and threads.
    #[schemars(range(min = 4, max = 32_768))]
    pub processes: u64,
    /// Maximum number of open files per process.
    #[schemars(range(min = 16, max = 65_536))]
    pub open_files: u64,
    /// Maximum size of one file, in MB (10^6 bytes).
    #[schemars(range(min = 1, max = 1_048_576))]
    pub file_mb: u64,
    /// Maximum size of the workspace, in MB (10^6 bytes).
    #[schemars(range(min = 1, max = 16_777_216))]
    pub workspace_mb: u64,
    /// Maximum number of files and folders in the workspace, and as many in the artifacts.
    #[schemars(range(min = 16, max = 100_000_000))]
    pub workspace_files: u64,
    /// Maximum size of the private `/tmp`, in MB (10^6 bytes).
    #[schemars(range(min = 1, max = 1_048_576))]
    pub tmp_mb: u64,
    /// Maximum size of the artifacts of one sandbox, in MB (10^6 bytes).
    #[schemars(range(min = 1, max = 16_777_216))]
    pub artifacts_mb: u64,
    /// Maximum output on stdout and stderr together, in bytes. Code that prints more is terminated.
    #[schemars(range(min = 1024, max = 1_073_741_824))]
    pub output_bytes: u64,
    /// Maximum number of output tokens returned to a model; the rest is saved to a file.
    #[schemars(range(min = 16, max = 1_000_000))]
    pub output_tokens: u64,
    /// Maximum number of tool calls.
    #[schemars(range(min = 0, max = 1_000_000))]
    pub calls: u64,
}

impl Default for ExecutionLimits {
    fn default() -> Self {
        let limits = Limits::default();
        Self {
            time: Duration::from_millis(limits.wall_ms).as_secs_f64(),
            memory_mb: limits.memory_mb,
            processes: limits.processes,
            open_files: limits.open_files,
            file_mb: limits.file_mb,
            workspace_mb: limits.workspace_mb,
            workspace_files: limits.workspace_files,
            tmp_mb: limits.tmp_mb,
            artifacts_mb: limits.artifacts_mb,
            output_bytes: limits.output_bytes,
            output_tokens: limits.output_tokens,
            calls: limits.calls,
        }
    }
}

impl ExecutionLimits {
    /// Converts the limits to those of the engine.
    pub fn to_limits(&self) -> Limits {
        Limits {
            wall_ms: milliseconds(self.time),
            memory_mb: self.memory_mb,
            processes: self.processes,
            open_files: self.open_files,
            file_mb: self.file_mb,
            workspace_mb: self.workspace_mb,
            workspace_files: self.workspace_files,
            tmp_mb: self.tmp_mb,
            artifacts_mb: self.artifacts_mb,
            output_bytes: self.output_bytes,
            output_tokens: self.output_tokens,
            calls: self.calls,
        }
    }
}

/// Converts seconds, whose range was checked, to milliseconds.
pub(super) fn milliseconds(seconds: f64) -> u64 {
    ((seconds * 1e3).round() as u64).max(1)
}
