use coracle_types::{Limits, Secret};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::path::PathBuf;
use std::time::Duration;

/// How and where code runs.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Execution {
    /// What kind of sandbox code runs in.
    pub sandbox_type: SandboxType,
    /// The image for sandboxes that are made from one.
    pub sandbox_image: Option<String>,
    /// Where the workspaces of users are, instead of `workspaces` in the data folder.
    pub workspace_dir: Option<PathBuf>,
    /// Where generated modules for tools are kept, instead of the data folder. If there are Python modules in it already,
    /// code imports these as `servers.NAME`, and nothing is written there.
    pub servers_dir: Option<PathBuf>,
    /// A folder of skills (`SKILL.md`) that code sees as `/skills`. Python files in it are imported as `skills.NAME`.
    pub skills_dir: Option<PathBuf>,
    /// A folder of modules that code sees as `/tools`.
    pub tools_dir: Option<PathBuf>,
    /// Whether code may use the network.
    pub allow_network_access: bool,
    /// Refuse to run with less than full isolation.
    pub require_full_isolation: bool,
    /// The Python for sandboxes; without it the system's `python3`, else the first on `PATH`.
    pub python: Option<PathBuf>,
    /// A requirements file, as pip reads it: `coracle env sync` installs what it names instead of the usual packages.
    pub requirements: Option<PathBuf>,
    /// Modules that a server imports in advance, so that they cost an execution nothing.
    pub preload: Vec<String>,
    /// What one execution may use if it asks for nothing else.
    pub limits: ExecutionLimits,
    /// A server of microsandbox, if sandboxes are made there.
    pub microsandbox: Microsandbox,
}

/// What kind of sandbox code runs in.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum SandboxType {
    /// Namespaces, seccomp and Landlock of this Linux.
    #[default]
    Native,
    /// Containers of Docker or Podman.
    Docker,
    /// Small virtual machines.
    Microvm,
    /// Pods.
    Kubernetes,
}

/// A server of microsandbox.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Microsandbox {
    /// Its address.
    pub server_url: Option<String>,
    /// Its key; better in the environment than in the file.
    #[schemars(with = "Option<String>")]
    pub api_key: Option<Secret>,
}

/// What one execution may use if it asks for nothing else.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct ExecutionLimits {
    /// Wall-clock time, in seconds.
    #[schemars(range(min = 0.001, max = 86400))]
    pub time: f64,
    /// Memory of the whole process tree, in MB of 10^6 bytes.
    #[schemars(range(min = 32, max = 1_048_576))]
    pub memory_mb: u64,
    /// Processes and threads at once.
    #[schemars(range(min = 4, max = 32_768))]
    pub processes: u64,
    /// Open files of one process.
    #[schemars(range(min = 16, max = 65_536))]
    pub open_files: u64,
    /// Size of one file, in MB.
    #[schemars(range(min = 1, max = 1_048_576))]
    pub file_mb: u64,
    /// Size of the workspace, in MB.
    #[schemars(range(min = 1, max = 16_777_216))]
    pub workspace_mb: u64,
    /// Files and folders in the workspace, and as many in the artifacts.
    #[schemars(range(min = 16, max = 100_000_000))]
    pub workspace_files: u64,
    /// Size of the private `/tmp`, in MB.
    #[schemars(range(min = 1, max = 1_048_576))]
    pub tmp_mb: u64,
    /// Size of the artifacts of one sandbox, in MB.
    #[schemars(range(min = 1, max = 16_777_216))]
    pub artifacts_mb: u64,
    /// Bytes the code may print, both streams together; past that it is ended.
    #[schemars(range(min = 1024, max = 1_073_741_824))]
    pub output_bytes: u64,
    /// Tokens of output that a model gets to see; the rest is in a file.
    #[schemars(range(min = 16, max = 1_000_000))]
    pub output_tokens: u64,
    /// Tool calls.
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
    /// The same as the engine takes it.
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

/// Seconds that were checked to be sensible, in milliseconds.
pub(super) fn milliseconds(seconds: f64) -> u64 {
    ((seconds * 1e3).round() as u64).max(1)
}
