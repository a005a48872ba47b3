//! Passwords from the terminal, without echo, or from standard input.

use super::rule;
use crate::status::{Cancelled, Mistake};
use anyhow::Context;
use coracle_types::Secret;
use rustix::termios::{LocalModes, OptionalActions, Termios, tcgetattr, tcsetattr};
use std::fs::{File, OpenOptions};
use std::io::{BufRead, BufReader, Read, Write};

/// Maximum length of a password in bytes.
const MAX_LINE: u64 = 4096;

/// Reads the first line of standard input.
pub(super) fn from_stdin() -> anyhow::Result<Secret> {
    line(std::io::stdin().lock()).context("cannot read a password from standard input")
}

/// Prompts for a password twice at the terminal.
pub(super) fn asked() -> anyhow::Result<Secret> {
    let terminal = OpenOptions::new().read(true).write(true).open("/dev/tty").map_err(|error| {
        let hint = Some("pass it on standard input with --password-stdin");
        Mistake::new(format!("cannot prompt for a password: {error}"), hint)
    })?;
    let mut quiet = Quiet::new(terminal)?;
    let first = quiet.ask(&format!("New password ({}): ", rule()))?;
    let second = quiet.ask("Once more: ")?;
    if first != second {
        return Err(Mistake::new("the two passwords differ; nothing was changed", None::<&str>).into());
    }
    Ok(first)
}

fn line(from: impl Read) -> anyhow::Result<Secret> {
    let mut text = String::new();
    BufReader::new(from.take(MAX_LINE)).read_line(&mut text)?;
    Ok(Secret::new(text.trim_end_matches(['\n', '\r'])))
}

/// Bytes of control keys.
const CTRL_C: u8 = 0x03;
const CTRL_D: u8 = 0x04;
const CTRL_U: u8 = 0x15;
const BACKSPACE: [u8; 2] = [0x08, 0x7f];

/// Terminal without echo, restored when dropped. It delivers single keys: Ctrl-C also arrives as a key, so that it does
/// not end the program before the terminal is restored.
struct Quiet {
    terminal: BufReader<File>,
    before: Termios,
}

impl Quiet {
    fn new(terminal: File) -> anyhow::Result<Self> {
        let before = tcgetattr(&terminal).context("cannot ask the terminal")?;
        let mut quiet = before.clone();
        quiet.local_modes.remove(LocalModes::ECHO | LocalModes::ICANON | LocalModes::ISIG);
        tcsetattr(&terminal, OptionalActions::Flush, &quiet).context("cannot disable the echo of the terminal")?;
        Ok(Self { terminal: BufReader::new(terminal), before })
    }

    fn ask(&mut self, question: &str) -> anyhow::Result<Secret> {
        self.terminal.get_mut().write_all(question.as_bytes()).context("cannot ask at the terminal")?;
        let answer = typed(&mut self.terminal);
        self.terminal.get_mut().write_all(b"\n").context("cannot ask at the terminal")?;
        answer
    }
}

/// Reads a line key by key.
fn typed(keys: impl BufRead) -> anyhow::Result<Secret> {
    let mut line = Vec::new();
    for key in keys.bytes() {
        match key.context("cannot read from the terminal")? {
            b'\n' | b'\r' => {
                let text = String::from_utf8(line);
                return text
                    .map(Secret::new)
                    .map_err(|_| Mistake::new("the password is not valid UTF-8", None::<&str>).into());
            }
            CTRL_C => return Err(Cancelled.into()),
            CTRL_D if line.is_empty() => return Err(Cancelled.into()),
            CTRL_U => line.clear(),
            key if BACKSPACE.contains(&key) => {
                // Removes all bytes of the last character.
                while line.pop().is_some_and(|byte| byte & 0xc0 == 0x80) {}
            }
            key if (line.len() as u64) < MAX_LINE => line.push(key),
            _ => {}
        }
    }
    Err(Cancelled.into())
}

impl Drop for Quiet {
    fn drop(&mut self) {
        if let Err(error) = tcsetattr(self.terminal.get_ref(), OptionalActions::Flush, &self.before) {
            tracing::warn!(%error, "cannot restore the echo of the terminal; run `stty sane`");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::typed;
    use crate::status::Cancelled;

    #[test]
    fn control_keys_edit_the_line() {
        let line = |keys: &[u8]| typed(keys).unwrap().expose().to_owned();
        assert_eq!(line(b"plain\n"), "plain");
        assert_eq!(line("nö\u{7f}a\x08e\r".as_bytes()), "ne");
        assert_eq!(line(b"all wrong\x15right\nmore"), "right");
        assert_eq!(line(b"\x7f\x7fx\n"), "x");
        for gone in [&b"secret\x03"[..], b"\x04", b"no end"] {
            assert!(typed(gone).unwrap_err().is::<Cancelled>(), "{gone:?}");
        }
        assert!(!typed(&b"\xff\n"[..]).unwrap_err().is::<Cancelled>());
    }
}
