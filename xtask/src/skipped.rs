//! Parts of tests that were skipped, for the summary.

use std::collections::BTreeMap;
use std::fs::Permissions;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;

use anyhow::{Context as _, Result};
use tempfile::NamedTempFile;

/// Variable that names the file for `skip` in `crates/testing/src/skip.rs`.
pub(crate) const VARIABLE: &str = "CORACLE_TEST_SKIPPED";

/// Maximum number of tests that are named with one reason.
const MAX_NAMED: usize = 3;

/// File to which tests append what they skip: the reason, a tab and the name of the test.
pub(crate) struct Skipped(NamedTempFile);

impl Skipped {
    /// Creates an empty file, to which every user can append.
    pub(crate) fn new() -> Result<Self> {
        let file = NamedTempFile::new().context("cannot create a file for skipped tests")?;
        file.as_file().set_permissions(Permissions::from_mode(0o666))?;
        Ok(Self(file))
    }

    pub(crate) fn path(&self) -> &Path {
        self.0.path()
    }

    /// One line for each reason, with the tests.
    pub(crate) fn lines(&self) -> Result<Vec<String>> {
        let text = std::fs::read_to_string(self.path()).context("cannot read what was skipped")?;
        Ok(by_reason(&text))
    }
}

fn by_reason(text: &str) -> Vec<String> {
    let mut reasons: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
    for line in text.lines() {
        let (reason, test) = line.split_once('\t').unwrap_or((line, "unnamed"));
        reasons.entry(reason).or_default().push(test);
    }
    reasons
        .into_iter()
        .map(|(reason, mut tests)| {
            tests.sort_unstable();
            tests.dedup();
            let named = tests[..tests.len().min(MAX_NAMED)].join(", ");
            match tests.len().saturating_sub(MAX_NAMED) {
                0 => format!("{reason} ({named})"),
                more => format!("{reason} ({named} and {more} more)"),
            }
        })
        .collect()
}

#[cfg(test)]
#[expect(dead_code, unreachable_pub, reason = "only the name of the variable is compared")]
#[path = "../../crates/testing/src/skip.rs"]
mod skip;

#[cfg(test)]
mod tests {
    use super::*;
    use std::process::Command;

    #[test]
    fn each_reason_has_one_line_with_its_tests() {
        let text = "no root\tb::as_root\nno tmux\tterminal\nno root\ta::as_root\nno root\tb::as_root\n";
        assert_eq!(by_reason(text), ["no root (a::as_root, b::as_root)", "no tmux (terminal)"]);
        let many = ["0", "1", "2", "3", "4"].map(|number| format!("no root\ttest_{number}\n")).concat();
        assert_eq!(by_reason(&many), ["no root (test_0, test_1, test_2 and 2 more)"]);
        assert_eq!(by_reason(""), Vec::<String>::new());
    }

    #[test]
    fn tests_append_to_the_file() {
        assert_eq!(VARIABLE, skip::SKIPPED);
        let skipped = Skipped::new().unwrap();
        let script = format!("printf 'no tmux\\tterminal\\n' >> \"${VARIABLE}\"");
        let status = Command::new("sh").args(["-c", &script]).env(VARIABLE, skipped.path()).status().unwrap();
        assert!(status.success());
        assert_eq!(skipped.lines().unwrap(), ["no tmux (terminal)"]);
        assert_eq!(skipped.path().metadata().unwrap().permissions().mode() & 0o777, 0o666);
    }
}
