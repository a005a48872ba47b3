//! Shows a run at the terminal: the answer on standard output, everything else on standard error.

use crate::output::{plain, quoted};
use crate::spinner::Spinner;
use coracle_agent::{CallUpdate, RunEvent, ToolOutput};
use coracle_models::{Call, Item, ModelEvent, Part};
use coracle_types::{Artifact, ToolCall};
use serde_json::Value;
use std::io::Write as _;

/// Maximum length of arguments and results that are shown, in characters.
const MAX_SHOWN: usize = 300;
/// Maximum number of lines of output, and of lines about calls of tools, that are shown for one call.
const MAX_LINES: usize = 40;

/// What is shown of a run.
pub(crate) struct Progress {
    /// Print the answer while it is written.
    shows_text: bool,
    /// Show code, output and calls.
    shows_work: bool,
    /// Text was printed that does not end with a line break.
    is_in_line: bool,
    /// Output of the current call that does not end with a line break, and its number of lines.
    output: String,
    lines: usize,
    /// Number of lines about calls that the code of the current call makes.
    nested: usize,
    spinner: Spinner,
}

impl Progress {
    pub(crate) fn new(shows_text: bool, shows_work: bool) -> Self {
        let spinner = Spinner::default();
        Self { shows_text, shows_work, is_in_line: false, output: String::new(), lines: 0, nested: 0, spinner }
    }

    pub(super) fn show(&mut self, event: RunEvent) -> anyhow::Result<()> {
        match event {
            RunEvent::Model(ModelEvent::Text(text)) if self.shows_text => self.text(&text)?,
            RunEvent::StepEnded { items, .. } => {
                self.break_line()?;
                for item in items {
                    if let Item::Call(call) = item {
                        self.work(&call_text(&call));
                    }
                }
            }
            RunEvent::Repeated { reason } => {
                self.break_line()?;
                eprintln!("warning: the answer broke off ({}) and is asked for again", plain(&reason, MAX_SHOWN));
            }
            RunEvent::CallUpdate { update, .. } => self.update(update),
            RunEvent::CallEnded { output, .. } => self.call_ended(&output),
            RunEvent::Compacted => self.work("the conversation was shortened\n"),
            RunEvent::Model(_)
            | RunEvent::StepBegan { .. }
            | RunEvent::CallStarted { .. }
            | RunEvent::Steered { .. } => {}
        }
        Ok(())
    }

    /// Something that happens while code runs.
    fn update(&mut self, update: CallUpdate) {
        match update {
            CallUpdate::Output { bytes, .. } => self.output(&bytes),
            CallUpdate::Waiting { servers } => self.spinner.waits_for(&servers),
            CallUpdate::CallBegan { server, tool, arguments, .. } => {
                self.nested(&format!("→ {} {}", named(&server, &tool), plain(&arguments, MAX_SHOWN)));
            }
            CallUpdate::CallEnded { call: ToolCall { server, tool, code, ms, .. }, .. } => {
                let outcome = code.map(|code| format!("failed: {}, ", plain(&code, MAX_SHOWN))).unwrap_or_default();
                self.nested(&format!("← {} {outcome}{ms} ms", named(&server, &tool)));
            }
            // The question has the terminal for itself.
            CallUpdate::Asked { .. } => self.spinner.stop(),
            CallUpdate::Sandbox(_) | CallUpdate::Answered { .. } => {}
            CallUpdate::Artifact(Artifact { path, mime, bytes, .. }) => {
                self.work(&format!("  {} ({}, {bytes} bytes)\n", plain(&path, MAX_SHOWN), plain(&mime, MAX_SHOWN)));
            }
        }
    }

    pub(super) fn end(mut self) -> anyhow::Result<()> {
        self.break_line()
    }

    /// Text of the model. It is hostile, but may have several lines.
    fn text(&mut self, text: &str) -> anyhow::Result<()> {
        let mut shown = String::with_capacity(text.len());
        for c in text.chars() {
            match c {
                '\n' | '\t' => shown.push(c),
                c if coracle_types::is_hidden(c) => shown.extend(c.escape_unicode()),
                c => shown.push(c),
            }
        }
        self.is_in_line = !shown.ends_with('\n');
        let mut out = std::io::stdout().lock();
        out.write_all(shown.as_bytes())?;
        out.flush()?;
        Ok(())
    }

    fn break_line(&mut self) -> anyhow::Result<()> {
        if std::mem::take(&mut self.is_in_line) {
            writeln!(std::io::stdout())?;
        }
        Ok(())
    }

    fn work(&self, text: &str) {
        if self.shows_work {
            eprint!("{}", quoted(text));
        }
    }

    /// Output of code, line by line.
    fn output(&mut self, bytes: &[u8]) {
        self.output.push_str(&String::from_utf8_lossy(bytes));
        while let Some(end) = self.output.find('\n') {
            let line: String = self.output.drain(..=end).collect();
            self.line(&line);
        }
    }

    fn line(&mut self, line: &str) {
        self.lines += 1;
        if self.lines <= MAX_LINES {
            self.work(&format!("  {}", plain_line(line)));
        }
    }

    /// A call that code makes.
    fn nested(&mut self, text: &str) {
        self.nested += 1;
        if self.nested <= MAX_LINES {
            self.work(&format!("  {text}\n"));
        }
    }

    fn call_ended(&mut self, output: &ToolOutput) {
        self.spinner.stop();
        let rest = std::mem::take(&mut self.output);
        if !rest.is_empty() {
            self.line(&rest);
        }
        let more = std::mem::take(&mut self.lines).saturating_sub(MAX_LINES);
        if more > 0 {
            self.work(&format!("  … {more} more lines\n"));
        }
        let more = std::mem::take(&mut self.nested).saturating_sub(MAX_LINES);
        if more > 0 {
            self.work(&format!("  … {more} more lines about tool calls\n"));
        }
        let text = output.parts.iter().find_map(|part| if let Part::Text { text } = part { Some(text) } else { None });
        let text = text.map(|text| plain(text, MAX_SHOWN)).unwrap_or_default();
        self.work(&format!("{} {text}\n", if output.is_error { "✗" } else { "✓" }));
    }
}

fn named(server: &str, tool: &str) -> String {
    format!("{}.{}", plain(server, MAX_SHOWN), plain(tool, MAX_SHOWN))
}

fn plain_line(line: &str) -> String {
    format!("{}\n", line.trim_end_matches('\n'))
}

/// A call as a person reads it: code as it is, and other arguments on one line.
fn call_text(call: &Call) -> String {
    let arguments: Value = serde_json::from_str(&call.arguments).unwrap_or_default();
    match arguments.get("code").and_then(Value::as_str) {
        Some(code) => {
            let language = arguments.get("language").and_then(Value::as_str).unwrap_or("python");
            let code = code.trim_end().replace('\n', "\n  ");
            format!("▶ {} ({})\n  {code}\n", plain(&call.name, MAX_SHOWN), plain(language, MAX_SHOWN))
        }
        None => format!("▶ {} {}\n", plain(&call.name, MAX_SHOWN), plain(&call.arguments, MAX_SHOWN)),
    }
}
