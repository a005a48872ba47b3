//! A program in a sandbox: it sees the folders that it was given and no others, and its streams are connected.

use crate::lab::place;
use coracle_testing::each_user;
use coracle_testing::harness::{As, Coracle};
use std::fs;
use std::io::Write as _;
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _};
use std::path::Path;
use std::process::{Command, Output, Stdio};
use tempfile::TempDir;

const CANARY: &str = "CANARY-OF-THE-HOST";

/// A folder of the user that only the user can read. Not in `/tmp`, of which every sandbox has its own.
fn folder(coracle: &Coracle) -> TempDir {
    let folder = tempfile::tempdir_in("/var/tmp").unwrap();
    fs::set_permissions(folder.path(), fs::Permissions::from_mode(0o700)).unwrap();
    fs::write(folder.path().join("canary"), CANARY).unwrap();
    fs::set_permissions(folder.path().join("canary"), fs::Permissions::from_mode(0o600)).unwrap();
    for path in [folder.path().to_owned(), folder.path().join("canary")] {
        coracle.own(&path);
    }
    folder
}

fn command(coracle: &Coracle, more: &[&str], words: &[&str]) -> Command {
    let mut command = coracle.command();
    command.args(more).arg(coracle.workspace()).arg("--").args(words);
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    command
}

fn text(output: &Output) -> (Option<i32>, String, String) {
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    (output.status.code(), text(&output.stdout), text(&output.stderr))
}

each_user!(a_program_sees_only_the_folders_that_it_was_given);
fn a_program_sees_only_the_folders_that_it_was_given(who: As) {
    for way in [&[][..], &["--zygote"]] {
        let coracle = place(who);
        let (shown, hidden) = (folder(&coracle), folder(&coracle));
        let canary = |folder: &TempDir| folder.path().join("canary").display().to_string();
        let with = |access: &str, words: &[&str]| {
            let more = [way, &[access, shown.path().to_str().unwrap()]].concat();
            text(&command(&coracle, &more, words).output().unwrap())
        };
        for access in ["--read", "--write"] {
            let (status, _, errors) = with(access, &["cat", &canary(&hidden)]);
            assert!(status == Some(1) && errors.contains("No such file"), "{who:?}, {access}: {status:?} {errors}");
            // The control: the same act succeeds where it is allowed.
            let seen = with(access, &["cat", &canary(&shown)]);
            assert_eq!(seen, (Some(0), CANARY.to_owned(), String::new()), "{who:?}, {access}");
        }
        let new = shown.path().join("new");
        let touch = ["touch", new.to_str().unwrap()];
        let (status, _, errors) = with("--read", &touch);
        assert!(status == Some(1) && !new.exists(), "{who:?}: {status:?} {errors}");
        let (status, _, errors) = with("--write", &touch);
        assert_eq!(status, Some(0), "{who:?}: {errors}");
        let owner = |path: &Path| fs::metadata(path).unwrap().uid();
        assert_eq!(owner(&new), owner(shown.path()), "{who:?}");
    }
}

each_user!(the_streams_and_the_status_of_a_program_are_passed_on);
fn the_streams_and_the_status_of_a_program_are_passed_on(who: As) {
    let coracle = place(who);
    let mut child = command(&coracle, &[], &["cat"]).stdin(Stdio::piped()).spawn().unwrap();
    let sent: Vec<u8> = (0..1_000_000_u32).map(|number| (number.wrapping_mul(2_654_435_761) >> 24) as u8).collect();
    let mut input = child.stdin.take().unwrap();
    let copy = sent.clone();
    let writing = std::thread::spawn(move || input.write_all(&copy).unwrap());
    let output = child.wait_with_output().unwrap();
    writing.join().unwrap();
    assert_eq!(output.status.code(), Some(0), "{who:?}: {:?}", text(&output).2);
    assert!(output.stdout == sent, "{who:?}: {} bytes came back", output.stdout.len());
    let script = "echo \"$OWN_VARIABLE $PWD\"; echo told >&2; exit 7";
    let ended = text(&command(&coracle, &[], &["sh", "-c", script]).output().unwrap());
    assert_eq!(ended, (Some(7), "own value /workspace\n".to_owned(), "told\n".to_owned()), "{who:?}");
    let (status, _, errors) = text(&command(&coracle, &[], &["no-such-program"]).output().unwrap());
    assert!(status == Some(127) && errors.contains("cannot find no-such-program"), "{who:?}: {status:?} {errors}");
}

#[test]
fn unusable_folders_are_explained() {
    let coracle = place(As::current());
    for (path, part) in [
        ("/", "would show all files"),
        ("/tmp/a", "sandboxes have a /tmp of their own"),
        ("/no/such/folder", "No such file"),
        ("/etc/passwd", "is not a folder"),
    ] {
        let (status, _, errors) = text(&command(&coracle, &["--read", path], &["true"]).output().unwrap());
        assert!(status == Some(1) && errors.contains(part), "{path}: {status:?} {errors}");
    }
    // The data folder, also as the parent of others.
    let own = folder(&coracle);
    let path = own.path().to_str().unwrap();
    for home in [own.path().to_owned(), own.path().join("deep")] {
        let mut command = command(&coracle, &["--read", path], &["true"]);
        let (status, _, errors) = text(&command.env("CORACLE_HOME", home).output().unwrap());
        assert!(status == Some(1) && errors.contains("Coracle's data folder"), "{status:?} {errors}");
    }
    let (status, _, errors) = text(&command(&coracle, &["--read", path], &["true"]).output().unwrap());
    assert_eq!((status, errors.as_str()), (Some(0), ""), "the control");
}
