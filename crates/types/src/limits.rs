use serde::{Deserialize, Serialize};

/// The limits of one execution. Every field has a hard maximum, see [`Limits::check`].
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Limits {
    /// Wall-clock time, in milliseconds.
    pub wall_ms: u64,
    /// Memory of the whole process tree, in MB of 10^6 bytes.
    pub memory_mb: u64,
    /// Number of processes and threads at the same time.
    pub processes: u64,
    /// Open files of one process.
    pub open_files: u64,
    /// Size of one file, in MB.
    pub file_mb: u64,
    /// Size of the workspace, in MB.
    pub workspace_mb: u64,
    /// Number of files and folders in the workspace, and separately in the artifacts.
    pub workspace_files: u64,
    /// Size of the private `/tmp`, in MB.
    pub tmp_mb: u64,
    /// Size of the artifacts of one sandbox, in MB.
    pub artifacts_mb: u64,
    /// Bytes that the code may print to both streams together. The code is killed when it prints more.
    pub output_bytes: u64,
    /// Tokens of output that a model sees. The complete output is in a file.
    pub output_tokens: u64,
    /// Number of tool calls.
    pub calls: u64,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            wall_ms: 30_000,
            memory_mb: 500,
            processes: 64,
            open_files: 256,
            file_mb: 512,
            workspace_mb: 1_074,
            workspace_files: 100_000,
            tmp_mb: 100,
            artifacts_mb: 256,
            output_bytes: 16 << 20,
            output_tokens: 10_000,
            calls: 1_000,
        }
    }
}

/// A limit that is out of range.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("limit {name} is {value}: it must be between {least} and {most}")]
pub struct LimitError {
    /// The name of the field in [`Limits`].
    pub name: &'static str,
    /// The requested value.
    pub value: u64,
    /// The minimum.
    pub least: u64,
    /// The maximum.
    pub most: u64,
}

impl Limits {
    /// Rejects values that cannot work or are unreasonably large.
    pub fn check(&self) -> Result<(), LimitError> {
        let day = 24 * 3600 * 1000;
        let table = [
            ("wall_ms", self.wall_ms, 1, day),
            ("memory_mb", self.memory_mb, 32, 1 << 20),
            ("processes", self.processes, 4, 32_768),
            ("open_files", self.open_files, 16, 65_536),
            ("file_mb", self.file_mb, 1, 1 << 20),
            ("workspace_mb", self.workspace_mb, 1, 1 << 24),
            ("workspace_files", self.workspace_files, 16, 100_000_000),
            ("tmp_mb", self.tmp_mb, 1, 1 << 20),
            ("artifacts_mb", self.artifacts_mb, 1, 1 << 24),
            ("output_bytes", self.output_bytes, 1024, 1 << 30),
            ("output_tokens", self.output_tokens, 16, 1_000_000),
            ("calls", self.calls, 0, 1_000_000),
        ];
        for (name, value, least, most) in table {
            if !(least..=most).contains(&value) {
                return Err(LimitError { name, value, least, most });
            }
        }
        Ok(())
    }

    /// Memory in bytes.
    pub fn memory_bytes(&self) -> u64 {
        self.memory_mb * 1_000_000
    }
}

/// The mechanism that enforces a limit.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Mechanism {
    /// A cgroup of version 1: enforced by the kernel for the whole process tree.
    Cgroup1,
    /// A cgroup of version 2: enforced by the kernel for the whole process tree.
    Cgroup2,
    /// A resource limit: enforced by the kernel for each process. The limit on processes applies to the whole tree.
    Rlimit,
    /// The size of a file system: enforced by the kernel.
    Mount,
    /// A quota of the file system: enforced by the kernel.
    Quota,
    /// A soft limit: usage is measured repeatedly, and the sandbox is killed when it is over.
    Watch,
    /// The host counts, and kills the sandbox at the limit.
    Host,
    /// The limit is not enforced.
    None,
}

/// How each limit is enforced in a sandbox, as found out by trying.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Enforced {
    /// Wall-clock time.
    pub wall: Mechanism,
    /// Memory of the process tree. `rlimit` limits each process, and a watch the tree.
    pub memory: Mechanism,
    /// Processes and threads.
    pub processes: Mechanism,
    /// Open files.
    pub open_files: Mechanism,
    /// Size of one file.
    pub file: Mechanism,
    /// Size of the workspace.
    pub workspace: Mechanism,
    /// Size of `/tmp`.
    pub tmp: Mechanism,
    /// Bytes printed.
    pub output: Mechanism,
}
