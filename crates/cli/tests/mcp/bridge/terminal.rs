//! A real terminal: the program in a tmux window.

use crate::lab::Bridge;
use coracle_testing::wait::eventually;
use serde_json::Value;
use std::fs;
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicUsize, Ordering};

/// Number of windows.
static WINDOWS: AtomicUsize = AtomicUsize::new(0);

/// Window in a separate tmux server.
pub(crate) struct Window<'a> {
    bridge: &'a Bridge,
    socket: String,
}

impl<'a> Window<'a> {
    /// Runs Python code with `coracle exec --json` and writes the result to a file.
    pub(crate) fn exec(bridge: &'a Bridge, code: &str, more: &[&str]) -> Self {
        bridge.write("program.py", code);
        for name in ["result.json", "status"] {
            let _ = fs::remove_file(bridge.path("data").join(name));
        }
        let mut command = bridge.coracle.command();
        command.args(["exec", "--json", "--workspace"]).arg(bridge.coracle.workspace()).args(more);
        command.arg(bridge.path("program.py"));
        let words = std::iter::once(command.get_program()).chain(command.get_args());
        let words: Vec<String> = words.map(|word| format!("'{}'", word.to_str().unwrap())).collect();
        // tmux sets `SHELL`, which servers inherit, whether or not this process has it.
        let shell = std::env::var("SHELL").map_or_else(|_| "-u SHELL".to_owned(), |shell| format!("SHELL='{shell}'"));
        // The shell survives Ctrl-C, to report the exit status.
        let line = format!(
            "trap : INT; env {shell} CORACLE_HOME='{}' {} >'{}'; echo $? >'{}'",
            bridge.coracle.home().display(),
            words.join(" "),
            bridge.text("data/result.json"),
            bridge.text("data/status"),
        );
        // Keeps the contents of the screen.
        bridge.write("tmux.conf", "set-option -g remain-on-exit on\n");
        // A tmux server that is ending cannot be used for the next window.
        let socket = bridge.text(&format!("tmux{}", WINDOWS.fetch_add(1, Ordering::Relaxed)));
        let window = Self { bridge, socket };
        window.tmux(&["new-session", "-d", "-s", "t", "-x", "180", "-y", "50", "sh", "-c", &line]);
        window
    }

    fn tmux(&self, words: &[&str]) -> String {
        let output = Command::new("tmux")
            .args(["-f", &self.bridge.text("tmux.conf"), "-S", &self.socket])
            .args(words)
            .env("TERM", "xterm")
            .env_remove("TMUX")
            .current_dir("/")
            .stdin(Stdio::null())
            .output()
            .unwrap();
        assert!(output.status.success(), "tmux {words:?}: {output:?}");
        String::from_utf8_lossy(&output.stdout).into_owned()
    }

    /// Contents of the screen, with wrapped lines joined.
    pub(crate) fn screen(&self) -> String {
        self.tmux(&["capture-pane", "-p", "-J", "-t", "t"])
    }

    /// Waits for this number of questions, and returns the last one.
    pub(crate) fn question(&self, number: usize) -> String {
        let mut seen = String::new();
        eventually(&format!("question {number}"), || {
            seen = self.screen();
            assert!(!self.has_ended(), "it ended without a question: {seen}\n{:?}", self.result());
            seen.matches("[n] no:").count() >= number
        });
        seen.rsplit("coracle: may the code call").next().unwrap_or_default().to_owned()
    }

    /// Types a word and Enter.
    pub(crate) fn answer(&self, word: &str) {
        self.tmux(&["send-keys", "-t", "t", word, "Enter"]);
    }

    /// Presses a key.
    pub(crate) fn press(&self, key: &str) {
        self.tmux(&["send-keys", "-t", "t", key]);
    }

    fn has_ended(&self) -> bool {
        fs::read_to_string(self.bridge.path("data/status")).is_ok_and(|status| status.ends_with('\n'))
    }

    fn result(&self) -> String {
        fs::read_to_string(self.bridge.path("data/result.json")).unwrap_or_default()
    }

    /// Waits for the end of the program, which leaves no server, and returns its output.
    pub(crate) fn finish(self) -> Value {
        let outcome = self.outcome();
        self.bridge.assert_no_servers();
        outcome
    }

    /// Waits for the end of a program that shares servers.
    pub(crate) fn outcome(&self) -> Value {
        eventually("the program ends", || self.has_ended());
        let text = self.result();
        serde_json::from_str(&text).unwrap_or_else(|error| panic!("{error}: {text}\n{}", self.screen()))
    }
}

impl Drop for Window<'_> {
    fn drop(&mut self) {
        let _ = Command::new("tmux").args(["-S", &self.socket, "kill-server"]).output();
    }
}
