use serde::{Deserialize, Serialize};

/// A day: the maximum of every time limit, in seconds.
pub const MAX_SECONDS: f64 = 86_400.0;
/// The same in milliseconds.
const DAY: u64 = 86_400_000;

/// Defines [`Limits`] and [`LIMITS`]: name, unit, default, minimum, maximum, description, and remarks if there are any.
macro_rules! limits {
    ($($name:ident: $unit:ident, $default:expr, $least:expr, $most:expr, $what:literal $(, $remarks:literal)?;)*) => {
        /// The limits of one execution. Every field has a hard maximum, see [`LIMITS`] and [`Limits::check`].
        #[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
        #[serde(default, deny_unknown_fields)]
        pub struct Limits {
            $(
                #[doc = concat!($what, ".", $(" ", $remarks)?)]
                pub $name: u64,
            )*
        }

        impl Default for Limits {
            fn default() -> Self {
                Self { $($name: $default),* }
            }
        }

        /// The limits of an execution. Settings, their schema and reference, and checks are made from this table.
        pub const LIMITS: &[Limit] = &[$(Limit {
            name: stringify!($name),
            unit: Unit::$unit,
            default: $default,
            least: $least,
            most: $most,
            what: $what,
            remarks: concat!($($remarks)?),
            get: |limits| limits.$name,
            set: |limits, value| limits.$name = value,
        }),*];
    };
}

limits! {
    wall_ms: Milliseconds, 30_000, 1, DAY, "Maximum wall-clock time";
    memory_mb: Megabytes, 500, 32, 1 << 20, "Maximum memory of the whole process tree";
    processes: Count, 64, 4, 32_768, "Maximum number of concurrent processes and threads";
    open_files: Count, 256, 16, 65_536, "Maximum number of open files per process";
    file_mb: Megabytes, 512, 1, 1 << 20, "Maximum size of one file";
    workspace_mb: Megabytes, 1_074, 1, 1 << 24, "Maximum size of the workspace";
    workspace_files: Count, 100_000, 16, 100_000_000,
        "Maximum number of files and folders in the workspace, and as many in the artifacts";
    tmp_mb: Megabytes, 100, 1, 1 << 20, "Maximum size of the private `/tmp`";
    artifacts_mb: Megabytes, 256, 1, 1 << 24, "Maximum size of the artifacts of one sandbox";
    output_bytes: Bytes, 16 << 20, 1024, 1 << 30, "Maximum output on stdout and stderr together",
        "Code that prints more is terminated.";
    output_tokens: Count, 10_000, 16, 1_000_000,
        "Maximum number of output tokens returned to a model; the rest is saved to a file";
    calls: Count, 1_000, 0, 1_000_000, "Maximum number of tool calls";
}

/// One row of [`LIMITS`].
#[derive(Clone, Copy, Debug)]
pub struct Limit {
    /// The name of the field in [`Limits`].
    pub name: &'static str,
    /// The unit of its value.
    pub unit: Unit,
    /// The default.
    pub default: u64,
    /// The minimum.
    pub least: u64,
    /// The maximum.
    pub most: u64,
    /// What is limited, without the unit and without a full stop.
    pub what: &'static str,
    /// Further sentences, or nothing.
    pub remarks: &'static str,
    /// Reads the field.
    pub get: fn(&Limits) -> u64,
    /// Writes the field.
    pub set: fn(&mut Limits, u64),
}

/// The unit of a limit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unit {
    /// Thousandths of a second.
    Milliseconds,
    /// 10^6 bytes.
    Megabytes,
    /// Bytes.
    Bytes,
    /// A number of what the description names.
    Count,
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
        for Limit { name, least, most, get, .. } in LIMITS {
            let value = get(self);
            if !(*least..=*most).contains(&value) {
                return Err(LimitError { name, value, least: *least, most: *most });
            }
        }
        Ok(())
    }

    /// Converts a time limit from seconds to milliseconds. `None` if it is not greater than 0 and at most
    /// [`MAX_SECONDS`].
    pub fn wall_ms_of(seconds: f64) -> Option<u64> {
        (seconds > 0.0 && seconds <= MAX_SECONDS).then(|| ((seconds * 1e3).round() as u64).max(1))
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

#[cfg(test)]
mod tests {
    use super::{LIMITS, Limits, MAX_SECONDS};
    use std::collections::BTreeSet;

    #[test]
    fn defaults_and_bounds_pass_the_check_and_what_is_beyond_does_not() {
        Limits::default().check().unwrap();
        for limit in LIMITS {
            let with = |value| {
                let mut limits = Limits::default();
                (limit.set)(&mut limits, value);
                assert_eq!((limit.get)(&limits), value, "{}", limit.name);
                limits.check()
            };
            assert_eq!((limit.get)(&Limits::default()), limit.default);
            assert_eq!((with(limit.least), with(limit.most)), (Ok(()), Ok(())), "{}", limit.name);
            assert_eq!(with(limit.most + 1).unwrap_err().name, limit.name);
            if let Some(less) = limit.least.checked_sub(1) {
                assert_eq!(with(less).unwrap_err().name, limit.name);
            }
        }
    }

    #[test]
    fn names_are_those_of_the_fields() {
        let fields = serde_json::to_value(Limits::default()).unwrap();
        let fields: BTreeSet<&str> = fields.as_object().unwrap().keys().map(String::as_str).collect();
        assert_eq!(fields, LIMITS.iter().map(|limit| limit.name).collect());
    }

    #[test]
    fn time_is_at_most_a_day() {
        let wall = LIMITS.iter().find(|limit| limit.name == "wall_ms").unwrap();
        assert_eq!(Limits::wall_ms_of(MAX_SECONDS), Some(wall.most));
        assert_eq!(Limits::wall_ms_of(0.000_1), Some(wall.least));
        for wrong in [0.0, -1.0, f64::NAN, f64::INFINITY, MAX_SECONDS + 0.1] {
            assert_eq!(Limits::wall_ms_of(wrong), None, "{wrong}");
        }
    }
}
