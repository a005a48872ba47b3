//! Environment for running tests that does not depend on how they are started: from a terminal, a background job or a
//! service.

use std::path::Path;
use std::process::{Command, Stdio};

use anyhow::{Result, bail};

use crate::test_times::TestTimes;

/// Resets all signals to their defaults, unblocks them, and executes the following program. Shells start background
/// jobs with SIGINT ignored, and `nohup` ignores SIGHUP; programs inherit that.
const USUAL: &str = "
import os, signal, sys
for number in range(1, signal.NSIG):
    try:
        signal.signal(number, signal.SIG_DFL)
    except (OSError, ValueError):
        pass
signal.pthread_sigmask(signal.SIG_SETMASK, ())
os.umask(0o022)
os.execvp(sys.argv[1], sys.argv[1:])
";

/// Runs a command in this environment; fails unless it succeeds.
pub(crate) fn run(command: &Command, home: &Path, times: &mut TestTimes) -> Result<()> {
    let status = times.watch(&mut usual(command, home))?;
    if !status.success() {
        bail!("{status}");
    }
    Ok(())
}

/// Wraps a command for this environment. Without `python3`, the command runs unchanged.
fn usual(command: &Command, home: &Path) -> Command {
    let has_python = Command::new("python3").args(["-I", "-c", ""]).status().is_ok_and(|status| status.success());
    let mut wrapped = if has_python {
        let mut python = Command::new("python3");
        python.args(["-I", "-c", USUAL]).arg(command.get_program());
        python
    } else {
        eprintln!("without python3, the tests inherit signals and umask");
        Command::new(command.get_program())
    };
    wrapped.args(command.get_args()).stdin(Stdio::null());
    for (name, value) in command.get_envs() {
        match value {
            Some(value) => wrapped.env(name, value),
            None => wrapped.env_remove(name),
        };
    }
    if let Some(folder) = command.get_current_dir() {
        wrapped.current_dir(folder);
    }
    for name in ["LANG", "LANGUAGE", "LC_CTYPE", "LC_MESSAGES", "LC_NUMERIC", "LC_TIME", "LC_COLLATE"] {
        wrapped.env_remove(name);
    }
    wrapped.env("LC_ALL", "C.UTF-8");
    // A service has neither variable.
    for (name, value) in [("HOME", home.as_os_str()), ("TERM", "dumb".as_ref())] {
        if std::env::var_os(name).is_none() {
            wrapped.env(name, value);
        }
    }
    wrapped
}

#[cfg(test)]
mod tests {
    use super::usual;
    use std::path::Path;
    use std::process::Command;

    /// Output of a program that is started from a shell with ignored signals and a strict umask.
    fn found(program: &mut Command) -> String {
        String::from_utf8(program.output().unwrap().stdout).unwrap()
    }

    #[test]
    fn tests_do_not_inherit_signals_umask_and_locale() {
        let look = "grep SigIgn /proc/self/status; umask; echo $LC_ALL $HOME; read line || echo no input";
        let ask = |program: &str| format!("trap '' INT HUP QUIT; umask 077; unset HOME; LC_ALL=C; {program}");
        let mut plain = Command::new("sh");
        plain.args(["-c", look]).env("SET", "by us");
        let wrapped = usual(&plain, Path::new("/somewhere"));
        let words: Vec<_> = std::iter::once(wrapped.get_program()).chain(wrapped.get_args()).collect();
        let envs: Vec<_> = wrapped.get_envs().filter_map(|(name, value)| Some((name, value?))).collect();
        let usual = found(Command::new("sh").args(["-c", &ask("exec \"$@\""), "sh"]).args(words).envs(envs));
        let mut lines = usual.lines();
        // Two signals belong to the C library and cannot be changed.
        let ignored = |text: &str| {
            let bits = text.lines().next().unwrap().split_whitespace().nth(1).unwrap();
            u64::from_str_radix(bits, 16).unwrap() & 0x7fff_ffff
        };
        assert_eq!(ignored(lines.next().unwrap()), 0, "{usual}");
        assert_eq!(lines.next(), Some("0022"), "{usual}");
        assert!(lines.next().unwrap().starts_with('C'), "{usual}");
        // Control: without the wrapper, the program inherits all of it.
        let as_it_is = found(Command::new("sh").args(["-c", &ask(look)]));
        assert!(ignored(&as_it_is) == 7 && as_it_is.contains("0077"), "{as_it_is}");
    }
}
