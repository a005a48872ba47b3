//! Error messages of programs that the code started.
//!
//! A shell learns of an exceeded limit only from the exit status of some program, and without a cgroup the host learns
//! no more. The error message on standard error is then the only evidence. It only selects the reason for a failure
//! that has happened anyway, so code that fakes a message misleads only its own author.

use coracle_types::ErrorCode;

/// Number of bytes at the end of standard error that are searched.
pub(crate) const LOOKED_AT: usize = 4 << 10;

/// Messages about limits, from the C library in the locale of the sandbox and from common programs.
const WORDS: [(&str, ErrorCode); 11] = [
    ("Cannot allocate memory", ErrorCode::Memory),
    ("memory exhausted", ErrorCode::Memory),
    ("MemoryError", ErrorCode::Memory),
    ("fork: Resource temporarily unavailable", ErrorCode::Processes),
    (FORK_RETRY, ErrorCode::Processes),
    ("can't start new thread", ErrorCode::Processes),
    ("Too many open files", ErrorCode::Files),
    ("No space left on device", ErrorCode::Disk),
    ("Disk quota exceeded", ErrorCode::Disk),
    ("File too large", ErrorCode::Disk),
    ("File size limit exceeded", ErrorCode::Disk),
];

/// Message of bash when it cannot start a process. It waits and tries again, for up to 15 seconds.
const FORK_RETRY: &str = "fork: retry: Resource temporarily unavailable";

/// The limit that was reported last.
pub(crate) fn limit(stderr: &str) -> Option<ErrorCode> {
    WORDS
        .iter()
        .filter_map(|(words, code)| Some((stderr.rfind(words)?, *code)))
        .max_by_key(|(at, _)| *at)
        .map(|(_, code)| code)
}

/// Messages of programs that need the network or install packages, with hints.
const HINTS: [(&str, &str); 22] = [
    ("Could not resolve host", NO_NETWORK),
    ("Couldn't resolve host", NO_NETWORK),
    ("could not resolve host", NO_NETWORK),
    ("unable to resolve host address", NO_NETWORK),
    ("Temporary failure in name resolution", NO_NETWORK),
    ("Temporary failure resolving", NO_NETWORK),
    ("Name or service not known", NO_NETWORK),
    ("Network is unreachable", NO_NETWORK),
    ("Could not connect to server", NO_NETWORK),
    ("Couldn't connect to server", NO_NETWORK),
    ("Failed to connect to ", NO_NETWORK),
    ("/dev/tcp/", NO_NETWORK),
    ("/dev/udp/", NO_NETWORK),
    ("urlopen error", NO_NETWORK),
    ("pip: command not found", NO_PIP),
    ("pip3: command not found", NO_PIP),
    ("uv: command not found", NO_PIP),
    ("No module named pip", NO_PIP),
    ("externally-managed-environment", NO_PIP),
    ("Could not find a version that satisfies the requirement", NO_PIP),
    ("No matching distribution found for", NO_PIP),
    ("ModuleNotFoundError: No module named", NO_MODULE),
];

const NO_NETWORK: &str =
    "network is off in this sandbox; programs reach other systems by calling tools: `tool search WORDS`";
const NO_PIP: &str =
    "packages cannot be installed from inside: on the host, `coracle env add NAME` installs one for all sandboxes";
const NO_MODULE: &str =
    "on the host, `coracle env list` shows the installed packages, and `coracle env add NAME` installs one";

const ONLY_PROXY: &str = "the network of this sandbox is the proxy in $http_proxy and $https_proxy: use it, name hosts instead of \
                          addresses, and see the warnings for what was refused";

/// The hint for the last message about something that sandboxes do not have.
pub(crate) fn hint(stderr: &str, has_network: bool) -> Option<&'static str> {
    let said = HINTS.iter().filter_map(|(words, hint)| Some((stderr.rfind(words)?, *hint)));
    let hint = said.max_by_key(|(at, _)| *at).map(|(_, hint)| hint);
    if has_network && hint == Some(NO_NETWORK) { Some(ONLY_PROXY) } else { hint }
}

/// Whether a shell is still waiting for room to start a process.
pub(crate) fn waits_to_fork(stderr: &str) -> bool {
    stderr.lines().last().is_some_and(|line| line.ends_with(FORK_RETRY))
}

#[cfg(test)]
mod tests {
    use super::{NO_NETWORK, NO_PIP, ONLY_PROXY, hint, limit, waits_to_fork};
    use coracle_types::ErrorCode;

    #[test]
    fn what_is_missing_has_a_hint() {
        let hint = |stderr: &str| hint(stderr, false);
        let curl = "curl: (6) Could not resolve host: example.com\n";
        assert_eq!(hint(curl), Some(NO_NETWORK));
        assert_eq!(super::hint(curl, true), Some(ONLY_PROXY));
        assert_eq!(hint("bash: line 1: pip: command not found\n"), Some(NO_PIP));
        let pip = "WARNING: Temporary failure in name resolution\nERROR: No matching distribution found for x\n";
        assert_eq!(hint(pip), Some(NO_PIP));
        assert_eq!(hint("cat: x: No such file or directory\n"), None);
    }

    #[test]
    fn the_last_complaint_counts() {
        assert_eq!(limit("cat: x: No such file or directory\n"), None);
        let stderr =
            "bash: fork: retry: Resource temporarily unavailable\ndd: error writing 'a': No space left on device\n";
        assert_eq!(limit(stderr), Some(ErrorCode::Disk));
        assert!(!waits_to_fork(stderr));
        assert!(waits_to_fork("a\nbash: fork: retry: Resource temporarily unavailable\n"));
    }
}
