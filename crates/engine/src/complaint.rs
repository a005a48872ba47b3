//! What programs that the code started said before they failed.
//!
//! A shell hears of a limit only as the exit status of some program, and where no cgroup counts, neither does the host.
//! The kernel's words on standard error are then all there is. They only choose among the ways in which the code has
//! failed anyway: code that fakes them deceives nobody but its own author.

use coracle_types::ErrorCode;

/// How much of the end of standard error is looked at.
pub(crate) const LOOKED_AT: usize = 4 << 10;

/// As the C library says it in the sandbox's locale, and as common programs do.
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

/// Bash waits and tries again, for up to 15 seconds.
const FORK_RETRY: &str = "fork: retry: Resource temporarily unavailable";

/// The limit that was complained of last.
pub(crate) fn limit(stderr: &str) -> Option<ErrorCode> {
    WORDS
        .iter()
        .filter_map(|(words, code)| Some((stderr.rfind(words)?, *code)))
        .max_by_key(|(at, _)| *at)
        .map(|(_, code)| code)
}

/// Whether a shell is still waiting for room to start a process.
pub(crate) fn waits_to_fork(stderr: &str) -> bool {
    stderr.lines().last().is_some_and(|line| line.ends_with(FORK_RETRY))
}

#[cfg(test)]
mod tests {
    use super::{limit, waits_to_fork};
    use coracle_types::ErrorCode;

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
