//! Asks at the terminal whether a tool may be called.

use async_trait::async_trait;
use coracle_policy::{Answer, Approver, Doubt, Question};
use rustix::event::{PollFd, PollFlags, poll};
use rustix::termios::{QueueSelector, tcflush};
use std::fmt::Write as _;
use std::fs::{File, OpenOptions};
use std::io::{IsTerminal, Read, Write};
use std::os::unix::net::UnixStream;
use tokio::sync::Mutex;

/// Maximum length of an answer in bytes.
const MAX_ANSWER_BYTES: usize = 4096;

/// The answers that a question offers.
fn choices(doubt: Option<Doubt>) -> &'static str {
    match doubt {
        None => {
            "  [y] yes, once   [s] yes, for this session   [a] yes, always\n  [s=] [a=] the same, only for calls with these \
             arguments   [n] no: "
        }
        Some(Doubt::Differs) => "  [y] yes, once   [s] yes, for all calls of this execution   [n] no: ",
        Some(Doubt::Unanswered | Doubt::AnswerNotKept) => "  [y] yes, call it again   [n] no: ",
    }
}

/// Controlling terminal of this program. Questions are asked one after another.
#[derive(Debug, Default)]
pub(crate) struct Terminal {
    turn: Mutex<()>,
}

#[async_trait]
impl Approver for Terminal {
    async fn ask(&self, question: Question) -> Answer {
        // If standard error is redirected, the question would not be seen.
        if !std::io::stderr().is_terminal() {
            return Answer::Nobody;
        }
        let _turn = self.turn.lock().await;
        match put(&question).await {
            Ok(answer) => answer,
            Err(error) => {
                tracing::warn!(%error, "cannot ask at the terminal");
                Answer::Nobody
            }
        }
    }
}

/// Asks on a blocking thread, which ends when the answer is no longer needed.
async fn put(question: &Question) -> std::io::Result<Answer> {
    let (text, doubt) = (render(question), question.doubt);
    let (waiting, asker) = UnixStream::pair()?;
    let answered = tokio::task::spawn_blocking(move || {
        let mut terminal = OpenOptions::new().read(true).write(true).open("/dev/tty")?;
        // Input from before the question is not an answer to it.
        tcflush(&terminal, QueueSelector::IFlush)?;
        terminal.write_all(text.as_bytes())?;
        loop {
            terminal.write_all(choices(doubt).as_bytes())?;
            let Some(line) = read_line(&mut terminal, &asker)? else { return Ok(Answer::Refuse) };
            match line.trim().to_lowercase().as_str() {
                "y" | "yes" | "once" => return Ok(Answer::Once),
                "s" | "session" if matches!(doubt, None | Some(Doubt::Differs)) => return Ok(Answer::Session),
                "s=" | "session_same_arguments" if doubt.is_none() => return Ok(Answer::SessionSameArguments),
                "a" | "always" if doubt.is_none() => return Ok(Answer::Always),
                "a=" | "always_same_arguments" if doubt.is_none() => return Ok(Answer::AlwaysSameArguments),
                "n" | "no" => return Ok(Answer::Refuse),
                _ => terminal.write_all(b"  please answer with one of the letters in brackets\n")?,
            }
        }
    });
    let answer = answered.await.map_err(std::io::Error::other)?;
    drop(waiting);
    answer
}

fn render(question: &Question) -> String {
    let Question { server, tool, description, arguments_preview, why, doubt, .. } = question;
    let again = if matches!(doubt, Some(Doubt::Unanswered | Doubt::AnswerNotKept)) { " again" } else { "" };
    let mut text = format!("\ncoracle: may the code call {server}.{tool}{again}?\n  with: {arguments_preview}\n");
    if !description.is_empty() {
        let _ = writeln!(text, "  description of the server: {description}");
    }
    let _ = writeln!(text, "  you are asked because {why}");
    text
}

/// Reads a line; `None` at the end of the input, or if the answer is no longer needed.
fn read_line(terminal: &mut File, asker: &UnixStream) -> std::io::Result<Option<String>> {
    let mut fds = [PollFd::new(terminal, PollFlags::IN), PollFd::new(asker, PollFlags::IN)];
    loop {
        match poll(&mut fds, None) {
            Err(rustix::io::Errno::INTR) => {}
            Err(errno) => return Err(errno.into()),
            Ok(_) => break,
        }
    }
    if !fds[1].revents().is_empty() {
        return Ok(None);
    }
    let mut bytes = vec![0; MAX_ANSWER_BYTES];
    // A terminal returns whole lines.
    let length = terminal.read(&mut bytes)?;
    let line = bytes.get(..length).filter(|line| !line.is_empty());
    Ok(line.map(|line| String::from_utf8_lossy(line).into_owned()))
}
