//! Runs the program at a terminal, as a person does.

use coracle_testing::place::Place;
use std::process::Command;

/// Waits for each text and types the answer; prints the exit status, whether echo is enabled again, and the output.
const AT_A_TERMINAL: &str = "
import json, os, pty, sys, termios
answers = json.loads(sys.argv[1])
pid, terminal = pty.fork()
if pid == 0:
    os.execv(sys.argv[2], sys.argv[2:])
shown = b''
def read():
    global shown
    try:
        more = os.read(terminal, 4096)
    except OSError:
        more = b''
    shown += more
    return more
for question, answer in answers:
    while question.encode() not in shown and read():
        pass
    os.write(terminal, answer.encode())
while read():
    pass
code = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
echo = bool(termios.tcgetattr(terminal)[3] & termios.ECHO)
print(json.dumps([code, echo, shown.decode()]))
";

/// Returns the exit status, whether the terminal echoes input again, and the output.
pub(crate) fn at_a_terminal(place: &Place, arguments: &[&str], answers: &[(&str, &str)]) -> (i64, bool, String) {
    let own = place.command();
    let mut command = Command::new("/usr/bin/python3");
    command.args(["-c", AT_A_TERMINAL, &serde_json::to_string(answers).unwrap()]);
    command.arg(own.get_program()).args(arguments).current_dir(own.get_current_dir().unwrap());
    for (name, value) in own.get_envs() {
        match value {
            Some(value) => command.env(name, value),
            None => command.env_remove(name),
        };
    }
    let output = command.output().unwrap();
    serde_json::from_slice(&output.stdout).unwrap_or_else(|error| panic!("{error}: {output:?}"))
}
