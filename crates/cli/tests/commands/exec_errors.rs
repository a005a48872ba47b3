//! Bad input to `coracle exec`: a clear error and the right exit status, without losing or starting anything.

use coracle_testing::each_user;
use coracle_testing::harness::{As, Coracle};
use coracle_testing::outcome::{Ran, finish, left_in_run};
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

fn exec(coracle: &Coracle, arguments: &[&str], input: &[u8]) -> Ran {
    finish(coracle, coracle.command().arg("exec").args(arguments), input)
}

fn assert_refused(coracle: &Coracle, ran: &Ran, status: i32, words: &str) {
    assert_eq!(ran.code(), Some(status), "as {:?}: {ran:?}", coracle.who);
    assert!(ran.stderr.contains(words), "as {:?}: {words:?} is not in {:?}", coracle.who, ran.stderr);
    assert!(ran.stdout.is_empty(), "{ran:?}");
    assert_eq!(left_in_run(&coracle.home()), Vec::<String>::new());
}

each_user!(wrong_arguments);
fn wrong_arguments(who: As) {
    let cases: [(&[&str], &str); 20] = [
        (&["--lang", "ruby", "-c", "1"], "unknown language \"ruby\": use one of python, bash"),
        (&["--timeout", "0", "-c", "1"], "must be greater than 0 and at most 86400"),
        (&["--timeout=-1", "-c", "1"], "must be greater than 0"),
        (&["--timeout", "nan", "-c", "1"], "must be greater than 0"),
        (&["--timeout", "inf", "-c", "1"], "must be greater than 0"),
        (&["--timeout", "1e300", "-c", "1"], "must be greater than 0"),
        (&["--timeout", "soon", "-c", "1"], "\"soon\" is not a number of seconds"),
        (&["--memory", "0", "-c", "1"], "--memory is 0: it must be between 32 and 1048576"),
        (&["--memory", "31", "-c", "1"], "--memory is 31"),
        (&["--memory=-5", "-c", "1"], "invalid value '-5' for '--memory <MB>'"),
        (&["--memory", "NaN", "-c", "1"], "invalid value 'NaN' for '--memory <MB>'"),
        (&["--memory", "99999999999999999999", "-c", "1"], "too large"),
        (&["--memory", "1048577", "-c", "1"], "--memory is 1048577"),
        (&["--session", "../x", "-c", "1"], "session \"../x\" is not valid"),
        (&["--session", "", "-c", "1"], "session"),
        (&["--session", "a b", "-c", "1"], "session \"a b\" is not valid"),
        (&["-c", "1", "file.py"], "cannot be used with"),
        (&["/nonexistent/file.py"], "cannot open /nonexistent/file.py: No such file or directory"),
        (&["/usr"], "cannot read /usr: Is a directory"),
        (&["--workspace", "/nonexistent", "-c", "1"], "workspace \"/nonexistent\": No such file or directory"),
    ];
    let coracle = Coracle::new(who);
    for (arguments, words) in cases {
        assert_refused(&coracle, &exec(&coracle, arguments, b""), 2, words);
    }
    // Control: the same arguments with valid values.
    let arguments = ["--lang", "python", "--timeout", "20.5", "--memory", "32", "--session", "a.b-c_1", "-c", "6 * 7"];
    assert_eq!(exec(&coracle, &arguments, b"").stdout, b"42\n");
}

each_user!(code_that_is_not_text);
fn code_that_is_not_text(who: As) {
    let coracle = Coracle::new(who);
    assert_refused(&coracle, &exec(&coracle, &[], b"print(1)\0"), 2, "the code contains a NUL byte");
    assert_refused(&coracle, &exec(&coracle, &[], b"print('\xff')"), 2, "standard input is not UTF-8");
    let path = coracle.workspace().join("latin.py");
    fs::write(&path, b"print('\xe9')").unwrap();
    coracle.own(&path);
    assert_refused(&coracle, &exec(&coracle, &[path.to_str().unwrap()], b""), 2, "latin.py is not UTF-8");
    assert_eq!(exec(&coracle, &[], "print('é\u{1f6f6}')".as_bytes()).stdout, "é\u{1f6f6}\n".as_bytes());
    // Empty code is not an error.
    assert_eq!(exec(&coracle, &[], b"").code(), Some(0));
}

each_user!(unusable_workspaces);
fn unusable_workspaces(who: As) {
    let coracle = Coracle::new(who);
    let inside = |name: &str| coracle.workspace().join(name).to_str().unwrap().to_owned();
    fs::write(inside("file"), "").unwrap();
    let in_it = |name: &str| exec(&coracle, &["--workspace", &inside(name), "-c", "print(6 * 7)"], b"");
    let ran = in_it("file");
    assert_refused(&coracle, &ran, 2, "file\": is not a folder");
    assert!(ran.stderr.contains("hint: give a folder that exists"), "{ran:?}");
    std::os::unix::fs::symlink("nowhere", inside("dangling")).unwrap();
    assert_refused(&coracle, &in_it("dangling"), 2, "No such file or directory");
    if who == As::Ordinary {
        fs::create_dir(inside("locked")).unwrap();
        fs::set_permissions(inside("locked"), fs::Permissions::from_mode(0o555)).unwrap();
        coracle.own(Path::new(&inside("locked")));
        assert_refused(&coracle, &in_it("locked"), 2, "is not writable");
    }
    fs::create_dir(inside("good")).unwrap();
    coracle.own(Path::new(&inside("good")));
    assert_eq!(in_it("good").stdout, b"42\n");
}

each_user!(unusable_python_interpreters);
fn unusable_python_interpreters(who: As) {
    let coracle = Coracle::new(who);
    let script = |name: &str, content: &str| {
        let path = coracle.workspace().join(name);
        fs::write(&path, content).unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
        path.to_str().unwrap().to_owned()
    };
    let old = script("old-python", "#!/bin/sh\nprintf '3.9\\n/opt/old\\n/opt/old\\n/opt/old\\n'\n");
    let two = script("python2", "#!/bin/sh\nprintf '2.7\\n/opt/old\\n/opt/old\\n/opt/old\\n'\n");
    let failing = script("failing-python", "#!/bin/sh\necho 'no libpython' >&2\nexit 127\n");
    let mute = script("mute-python", "#!/bin/sh\nexit 0\n");
    let plain = script("plain-file", "");
    fs::set_permissions(&plain, fs::Permissions::from_mode(0o644)).unwrap();
    let cases = [
        ("/nonexistent/python3", "no python3 was found: looked for /nonexistent/python3".to_owned()),
        ("no-such-python", "no python3 was found: looked for no-such-python".to_owned()),
        (&old, format!("{old} is Python 3.9: 3.10 or later is needed")),
        (&two, format!("{two} is Python 2.7: 3.10 or later is needed")),
        (&failing, format!("{failing} does not start: no libpython")),
        (&mute, format!("{mute} does not start: it does not print its version")),
        (&plain, format!("{plain} does not start: Permission denied")),
    ];
    for (python, words) in cases {
        let ran = finish(&coracle, coracle.command().args(["exec", "-c", "1"]).env("CORACLE_PYTHON", python), b"");
        assert_refused(&coracle, &ran, 125, &words);
        assert!(ran.stderr.contains("hint: install Python 3.10 or later, or name one with CORACLE_PYTHON"), "{ran:?}");
    }
    // An empty variable is ignored.
    let ran = finish(&coracle, coracle.command().args(["exec", "-c", "6 * 7"]).env("CORACLE_PYTHON", ""), b"");
    assert_eq!(ran.stdout, b"42\n", "{ran:?}");
}

each_user!(a_python_in_a_folder_that_sandboxes_replace_is_refused);
fn a_python_in_a_folder_that_sandboxes_replace_is_refused(who: As) {
    let coracle = Coracle::new(who);
    let run = |folder: &Path| {
        fs::set_permissions(folder, fs::Permissions::from_mode(0o755)).unwrap();
        fs::create_dir(folder.join("bin")).unwrap();
        fs::write(folder.join("pyvenv.cfg"), "home = /usr/bin\n").unwrap();
        let python = folder.join("bin/python");
        std::os::unix::fs::symlink("/usr/bin/python3", &python).unwrap();
        let mut command = coracle.command();
        command.args(["exec", "-c", "import sys; print(sys.prefix)"]).env("CORACLE_PYTHON", &python);
        finish(&coracle, &mut command, b"")
    };
    let hidden = tempfile::tempdir_in("/tmp").unwrap();
    let (ran, shown) = (run(hidden.path()), hidden.path().display());
    let words =
        format!("{shown}/bin/python cannot run in a sandbox: {shown} is below /tmp, and sandboxes have their own /tmp");
    assert_refused(&coracle, &ran, 125, &words);
    assert!(ran.stderr.contains("in another folder, such as your home folder"), "{ran:?}");
    // Control: the same environment elsewhere.
    let visible = tempfile::tempdir_in("/var/tmp").unwrap();
    let ran = run(visible.path());
    assert_eq!(String::from_utf8_lossy(&ran.stdout).trim(), visible.path().to_str().unwrap(), "{ran:?}");
}

each_user!(unusable_data_folders);
fn unusable_data_folders(who: As) {
    let coracle = Coracle::new(who);
    let file = coracle.workspace().join("file");
    fs::write(&file, "").unwrap();
    let mut homes = vec![file.to_str().unwrap().to_owned(), "/proc/nothing".to_owned()];
    if who == As::Ordinary {
        homes.push("/usr/lib/not-ours".to_owned());
    }
    for home in homes {
        for more in [None, Some(coracle.workspace())] {
            let mut command = coracle.command();
            command.args(["exec", "-c", "1"]).env("CORACLE_HOME", &home);
            if let Some(workspace) = more {
                command.arg("--workspace").arg(workspace);
            }
            let ran = finish(&coracle, &mut command, b"");
            assert_refused(&coracle, &ran, 125, home.as_str());
        }
    }
    assert_eq!(exec(&coracle, &["-c", "6 * 7"], b"").stdout, b"42\n");
}

each_user!(missing_files_of_the_current_folder_have_a_hint);
fn missing_files_of_the_current_folder_have_a_hint(who: As) {
    let coracle = Coracle::new(who);
    fs::write(coracle.workspace().join("data"), "42").unwrap();
    let workspace = coracle.workspace().display().to_string();
    let code = "print(open('data').read())";
    let missing = exec(&coracle, &["-c", code], b"");
    assert_eq!(missing.code(), Some(1), "{missing:?}");
    assert!(missing.stderr.contains("hint: the code runs in its own workspace"), "{missing:?}");
    let found = exec(&coracle, &["--workspace", &workspace, "-c", code], b"");
    assert_eq!((found.code(), found.stdout.as_slice()), (Some(0), &b"42\n"[..]), "{found:?}");
}

each_user!(a_kernel_that_is_too_old_is_refused);
/// Programs can be given an older version of the running kernel.
fn a_kernel_that_is_too_old_is_refused(who: As) {
    let old = Coracle::behind(who, &["setarch", "--uname-2.6"]);
    let refused = old.run("python", "6 * 7", &[]);
    assert_eq!(refused["error_code"], "sandbox_unavailable", "as {who:?}: {refused:#}");
    let words = refused["error"].as_str().unwrap();
    let expected = "is too old: 5.14 or later is needed, since before that the limit on processes is shared";
    assert!(words.contains("Linux 2.6.") && words.contains(expected), "as {who:?}: {words}");
    let diagnosis = old.command().arg("doctor").output().unwrap();
    assert_eq!(diagnosis.status.code(), Some(1), "as {who:?}: {diagnosis:?}");
    assert!(String::from_utf8_lossy(&diagnosis.stdout).contains("is too old"), "as {who:?}: {diagnosis:?}");
    let as_it_is = Coracle::behind(who, &["setarch", "--addr-no-randomize"]);
    assert_eq!(as_it_is.python("6 * 7"), 42, "as {who:?}");
}
