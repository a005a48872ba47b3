//! Runs a program at a terminal, as a person does.

use std::process::Command;

/// Waits for each text after the last one and types the answer, in which `\x03` is Ctrl-C. Prints the exit status, whether
/// the terminal echoes input at the end, and the output.
const AT_A_TERMINAL: &str = "
import json, os, pty, sys, termios
answers = json.loads(sys.argv[1])
pid, terminal = pty.fork()
if pid == 0:
    os.execv(sys.argv[2], sys.argv[2:])
shown, seen = b'', 0
def read():
    global shown
    try:
        more = os.read(terminal, 4096)
    except OSError:
        more = b''
    shown += more
    return more
for question, answer in answers:
    while question.encode() not in shown[seen:] and read():
        pass
    seen = shown.find(question.encode(), seen) + len(question.encode())
    os.write(terminal, answer.encode())
while read():
    pass
code = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
echo = bool(termios.tcgetattr(terminal)[3] & termios.ECHO)
print(json.dumps([code, echo, shown.decode(errors='replace')]))
";

/// Runs a command at a terminal, and types an answer after each text. Returns the exit status, whether the terminal echoes
/// input again, and the output.
pub fn at_a_terminal(own: &Command, answers: &[(&str, &str)]) -> (i64, bool, String) {
    let mut command = Command::new("/usr/bin/python3");
    command.args(["-c", AT_A_TERMINAL, &serde_json::to_string(answers).unwrap()]);
    command.arg(own.get_program()).args(own.get_args());
    if let Some(folder) = own.get_current_dir() {
        command.current_dir(folder);
    }
    for (name, value) in own.get_envs() {
        match value {
            Some(value) => command.env(name, value),
            None => command.env_remove(name),
        };
    }
    let output = command.output().unwrap();
    serde_json::from_slice(&output.stdout).unwrap_or_else(|error| panic!("{error}: {output:?}"))
}
