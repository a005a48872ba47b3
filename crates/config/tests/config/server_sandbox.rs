//! Servers in sandboxes: their entries become commands of the program.

use crate::case::Case;
use coracle_types::{Secret, Transport};
use std::path::PathBuf;

fn command_of(case: &Case) -> (String, Vec<String>) {
    let loaded = case.load().unwrap();
    assert_eq!(loaded.server_problems, []);
    let [server] = loaded.servers.as_slice() else { panic!("{:?}", loaded.servers) };
    let Transport::Stdio { command, args, cwd: None, .. } = &server.transport else { panic!("{server:?}") };
    (command.clone(), args.iter().map(Secret::expose).map(str::to_owned).collect())
}

#[test]
fn a_server_in_a_sandbox_is_started_by_this_program() {
    let mut case = Case::new()
        .file(
            "mcpServers:\n  files:\n    command: files-server\n    args: ['${PLACE}', --fast]\n    env: { TOKEN: secret }\n    \
             cwd: sub\n    sandbox: native\n    sandbox_read: [sub, '${PLACE}']\n    sandbox_write: ['~/notes']\n",
        )
        .env("PLACE", "/data")
        .env("HOME", "/home/u");
    case.options.program = Some(PathBuf::from("/opt/coracle"));
    let (command, arguments) = command_of(&case);
    assert_eq!(command, "/opt/coracle");
    let (home, sub) = (case.home().display().to_string(), case.folder().join("sub").display().to_string());
    let expected = [
        &["server-in-sandbox", "--name", "files", "--home", &home, "--directory", &sub][..],
        &["--read", &sub, "--read", "/data", "--write", "/home/u/notes"],
        // Only the name of the variable: arguments are visible to everybody.
        &["--variable", "TOKEN", "--", "files-server", "/data", "--fast"],
    ];
    assert_eq!(arguments, expected.concat());
    let plain = Case::new().file("mcpServers: { files: { command: files-server } }\n");
    assert_eq!(command_of(&plain), ("files-server".to_owned(), Vec::new()), "the control");
}

#[test]
fn contradictions_are_explained() {
    let case = Case::new().file(
        "mcpServers:\n  remote: { url: 'https://x', sandbox: native }\n  open: { command: x, sandbox_write: [/data] }\n",
    );
    let loaded = case.load().unwrap();
    let mut codes: Vec<_> =
        loaded.server_problems.iter().map(|problem| (problem.name.as_str(), problem.fault.code())).collect();
    codes.sort_unstable();
    assert_eq!(codes, [("open", "no_sandbox"), ("remote", "sandbox_of_url")]);
    // A misspelt key must not start the server without a sandbox.
    let misspelt = Case::new().file("mcpServers: { files: { command: x, sandbx: native } }\n");
    assert!(misspelt.load().is_err_and(|error| error.to_string().contains("sandbx")));
    let unknown = Case::new().file("mcpServers: { files: { command: x, sandbox: jail } }\n");
    assert!(unknown.load().unwrap_err().to_string().contains("native"), "{:?}", unknown.load());
}
