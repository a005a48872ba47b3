//! Which test programs take how long, from what `cargo test` prints.

use std::fmt::Write as _;
use std::io::{BufRead as _, BufReader, PipeReader, pipe};
use std::process::{Command, ExitStatus};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::time::Duration;

use anyhow::{Context as _, Result};

/// Number of programs to list.
const LISTED: usize = 10;
/// How often to look whether the command has ended while it prints nothing.
const PAUSE: Duration = Duration::from_millis(100);

/// What is known of the test programs so far.
#[derive(Debug, Default, PartialEq)]
pub(crate) struct TestTimes {
    current: Option<String>,
    programs: Vec<Program>,
    /// Tests that ran for over a minute, each with its program.
    slow: Vec<String>,
}

#[derive(Debug, PartialEq)]
struct Program {
    name: String,
    seconds: f64,
}

impl TestTimes {
    /// Runs a command, prints its output as it comes, and reads the times from it.
    pub(crate) fn watch(&mut self, command: &mut Command) -> Result<ExitStatus> {
        let (reader, writer) = pipe().context("cannot create a pipe")?;
        let stderr = writer.try_clone().context("cannot create a pipe")?;
        let mut child = command.stdout(writer).stderr(stderr).spawn().context("cannot start the tests")?;
        // The command keeps the writing ends until it is dropped or gets others.
        command.stdout(std::process::Stdio::null()).stderr(std::process::Stdio::null());
        let lines = read(reader);
        loop {
            // A process that a test left behind may hold the pipe, so the end of the output is not waited for.
            let ended = child.try_wait().context("cannot wait for the tests")?;
            loop {
                match lines.recv_timeout(PAUSE) {
                    Ok(line) => self.pass_on(&line),
                    Err(RecvTimeoutError::Timeout) => break,
                    Err(RecvTimeoutError::Disconnected) => return child.wait().context("cannot wait for the tests"),
                }
            }
            if let Some(status) = ended {
                return Ok(status);
            }
        }
    }

    fn pass_on(&mut self, line: &[u8]) {
        let line = String::from_utf8_lossy(line);
        eprint!("{line}");
        self.line(&line);
    }

    fn line(&mut self, line: &str) {
        let line = line.trim();
        if let Some(program) = program(line) {
            self.current = Some(program);
        } else if let Some((_, time)) = line.split_once("; finished in ")
            && line.starts_with("test result: ")
            && let Ok(seconds) = time.trim_end_matches('s').parse()
            && let Some(name) = self.current.take()
        {
            self.programs.push(Program { name, seconds });
        } else if let Some((test, _)) = line.split_once(" has been running for over ")
            && let (Some(test), Some(program)) = (test.strip_prefix("test "), &self.current)
        {
            self.slow.push(format!("{program} {test}"));
        }
    }

    /// The slowest programs, and the tests that ran for over a minute.
    pub(crate) fn summary(mut self) -> String {
        self.programs.sort_by(|one, other| other.seconds.total_cmp(&one.seconds));
        let mut text = format!("{:<36} {:>9}\n", "slowest test programs", "seconds");
        for Program { name, seconds } in self.programs.iter().take(LISTED) {
            // Writing to a `String` cannot fail.
            let _ = writeln!(text, "{name:<36} {seconds:>9.1}");
        }
        if let Some(others) = self.programs.get(LISTED..).filter(|others| !others.is_empty()) {
            let seconds: f64 = others.iter().map(|program| program.seconds).sum();
            let _ = writeln!(text, "{:<36} {seconds:>9.1}", format!("{} others", others.len()));
        }
        if !self.slow.is_empty() {
            let _ = write!(text, "\ntests of over a minute:\n  {}\n", self.slow.join("\n  "));
        }
        text
    }
}

/// Reads lines, in bytes because tests may print anything.
fn read(reader: PipeReader) -> Receiver<Vec<u8>> {
    let (sender, receiver) = channel();
    std::thread::spawn(move || {
        let mut reader = BufReader::new(reader);
        loop {
            let mut line = Vec::new();
            match reader.read_until(b'\n', &mut line) {
                Ok(0) | Err(_) => return,
                Ok(_) if sender.send(line).is_err() => return,
                Ok(_) => {}
            }
        }
    });
    receiver
}

/// The program that a line of cargo announces: `Running tests/log.rs (target/debug/deps/log-0123456789abcdef)`.
fn program(line: &str) -> Option<String> {
    if let Some(name) = line.strip_prefix("Doc-tests ") {
        return Some(format!("{name} (examples in comments)"));
    }
    let (source, file) = line.strip_prefix("Running ")?.strip_suffix(')')?.split_once(" (")?;
    let file = file.rsplit('/').next()?;
    let name = file.rsplit_once('-').map_or(file, |(name, _)| name);
    Some(if source.starts_with("unittests ") { format!("{name} (unit tests)") } else { name.to_owned() })
}

#[cfg(test)]
mod tests {
    use super::*;

    const OUTPUT: &str = "
   Compiling xtask v0.1.0
     Running unittests src/lib.rs (target/debug/deps/coracle_engine-bd9867a71e894550)

running 2 tests
test a ... ok

test result: ok. 2 passed; 0 failed; 0 ignored; 0 measured; 0 filtered out; finished in 0.25s

     Running tests/commands/main.rs (target/debug/deps/commands-0123456789abcdef)
test env::slow has been running for over 60 seconds
test result: FAILED. 1 passed; 1 failed; 0 ignored; 0 measured; 0 filtered out; finished in 75.50s
   Doc-tests coracle_engine
test result: ok. 1 passed; 0 failed; 0 ignored; 0 measured; 0 filtered out; finished in 1.00s
";

    #[test]
    fn the_slowest_programs_come_first() {
        let mut times = TestTimes::default();
        OUTPUT.lines().for_each(|line| times.line(line));
        let expected = "\
slowest test programs                  seconds
commands                                  75.5
coracle_engine (examples in comments)       1.0
coracle_engine (unit tests)                0.2

tests of over a minute:
  commands env::slow
";
        assert_eq!(times.summary(), expected);
    }

    #[test]
    fn only_the_slowest_programs_are_listed() {
        let mut times = TestTimes::default();
        for number in 1..=LISTED + 2 {
            times.line(&format!("     Running tests/t{number}.rs (deps/t{number}-0)"));
            times.line(&format!("test result: ok. 1 passed; finished in {number}.00s"));
        }
        let summary = times.summary();
        assert_eq!(summary.lines().count(), LISTED + 2);
        assert!(summary.ends_with(&format!("{:<36} {:>9.1}\n", "2 others", 3.0)), "{summary}");
    }

    #[test]
    fn output_and_status_are_passed_on_even_if_a_process_is_left_behind() {
        let mut times = TestTimes::default();
        let script = "echo '     Running tests/x.rs (deps/x-1)'; echo 'test result: ok. 1; finished in 2.00s' >&2
            sleep 60 & echo $! > \"$0\"; exit 3";
        let file = tempfile::NamedTempFile::new().unwrap();
        let status = times.watch(Command::new("sh").args(["-c", script]).arg(file.path())).unwrap();
        let left = std::fs::read_to_string(file.path()).unwrap();
        Command::new("kill").arg(left.trim()).status().unwrap();
        assert_eq!(status.code(), Some(3));
        assert_eq!(times.programs, [Program { name: "x".to_owned(), seconds: 2.0 }]);
    }
}
