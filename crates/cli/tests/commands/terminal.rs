//! Runs commands at a terminal, as a person does.

use coracle_testing::place::Place;
use coracle_testing::terminal;

/// Returns the exit status, whether the terminal echoes input again, and the output.
pub(crate) fn at_a_terminal(place: &Place, arguments: &[&str], answers: &[(&str, &str)]) -> (i64, bool, String) {
    let mut command = place.command();
    command.args(arguments);
    terminal::at_a_terminal(&command, answers)
}
