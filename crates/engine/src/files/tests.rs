use super::{Existing, FileError, FileKind, FileVersion, Listed, MAX_ENTRIES, Quota, Usages, WorkspaceFiles};
use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};
use std::path::Path;

const ROOMY: Quota = Quota { bytes: 100_000_000, files: 10_000 };

fn files(folder: &Path, quota: Quota) -> WorkspaceFiles {
    WorkspaceFiles::open(folder.to_owned(), quota, Usages::default()).unwrap()
}

/// Workspaces of two users side by side, and a secret beside both.
struct Ground {
    home: tempfile::TempDir,
    ada: WorkspaceFiles,
}

impl Ground {
    fn new() -> Self {
        let home = tempfile::tempdir().unwrap();
        for user in ["ada", "bob"] {
            fs::create_dir(home.path().join(user)).unwrap();
        }
        fs::write(home.path().join("bob/secret.txt"), "bob's").unwrap();
        fs::write(home.path().join("outside.txt"), "outside").unwrap();
        let ada = files(&home.path().join("ada"), ROOMY);
        Self { home, ada }
    }

    fn own(&self, name: &str) -> std::path::PathBuf {
        self.home.path().join("ada").join(name)
    }

    /// Asserts that no file outside of the workspace was changed.
    fn assert_others_are_whole(&self) {
        assert_eq!(fs::read_to_string(self.home.path().join("bob/secret.txt")).unwrap(), "bob's");
        assert_eq!(fs::read_to_string(self.home.path().join("outside.txt")).unwrap(), "outside");
        let names = fs::read_dir(self.home.path().join("bob")).unwrap().count();
        assert_eq!(names, 1);
    }
}

fn code<T: std::fmt::Debug>(outcome: Result<T, FileError>) -> &'static str {
    outcome.unwrap_err().code()
}

/// Asserts that every operation refuses the path.
fn refused_everywhere(ground: &Ground, path: &str) {
    let ada = &ground.ada;
    let before = fs::read_dir(ada.folder()).unwrap().count();
    assert!(ada.read(path, 1_000).is_err(), "{path:?} was read");
    assert!(ada.write(path, b"x", Existing::Replace).is_err(), "{path:?} was written");
    assert!(ada.rename("mine.txt", path, Existing::Replace).is_err(), "moved to {path:?}");
    assert!(ada.rename(path, "taken.txt", Existing::Replace).is_err(), "{path:?} was moved");
    assert_eq!(fs::read_dir(ada.folder()).unwrap().count(), before);
    ground.assert_others_are_whole();
}

#[test]
fn a_file_is_written_read_listed_moved_and_deleted() {
    let ground = Ground::new();
    let ada = &ground.ada;
    let info = ada.write("a/b/c.txt", b"hello", Existing::Replace).unwrap();
    assert_eq!((info.path.as_str(), info.kind, info.bytes), ("a/b/c.txt", FileKind::File, 5));
    assert_eq!(ada.read("/workspace/a/b/c.txt", 5).unwrap().1, b"hello");
    assert_eq!(ada.read_part("a/b/c.txt", 1, 3).unwrap().1, b"ell");
    assert_eq!(ada.read_part("a/b/c.txt", 9, 3).unwrap().1, b"");
    assert_eq!(code(ada.read("a/b/c.txt", 4)), "too_large");
    assert_eq!(code(ada.write("a/b/c.txt", b"no", Existing::Keep)), "exists");
    ada.write("a/b/c.txt", b"again", Existing::Replace).unwrap();
    assert_eq!(ada.stat("a/b").unwrap().kind, FileKind::Folder);
    let names = |path: &str, listed| -> Vec<String> {
        ada.list(path, listed).unwrap().files.into_iter().map(|file| file.path).collect()
    };
    assert_eq!(names(".", Listed::Here), ["a"]);
    assert_eq!(names("", Listed::Below), ["a", "a/b", "a/b/c.txt"]);
    assert_eq!(names("a/b", Listed::Here), ["a/b/c.txt"]);
    assert_eq!(ada.rename("a/b/c.txt", "new/d.txt", Existing::Keep).unwrap().path, "new/d.txt");
    assert_eq!(code(ada.stat("a/b/c.txt")), "not_found");
    ada.write("e.txt", b"e", Existing::Keep).unwrap();
    assert_eq!(code(ada.rename("e.txt", "new/d.txt", Existing::Keep)), "exists");
    ada.rename("e.txt", "new/d.txt", Existing::Replace).unwrap();
    assert_eq!(code(ada.rename("new", "new/below", Existing::Keep)), "wrong_kind");
    assert_eq!(code(ada.delete("new", Listed::Here)), "wrong_kind");
    ada.delete("new", Listed::Below).unwrap();
    ada.delete("a/b", Listed::Here).unwrap();
    assert_eq!(names("", Listed::Below), ["a"]);
    assert_eq!(code(ada.delete("gone", Listed::Here)), "not_found");
    for root in [".", "", "/workspace"] {
        assert_eq!(code(ada.delete(root, Listed::Below)), "invalid_path");
        assert_eq!(code(ada.write(root, b"x", Existing::Replace)), "invalid_path");
    }
    ground.assert_others_are_whole();
}

#[test]
fn no_path_leads_out() {
    let ground = Ground::new();
    ground.ada.write("mine.txt", b"mine", Existing::Keep).unwrap();
    let bob = ground.home.path().join("bob/secret.txt");
    let long = format!("{}/x", "x".repeat(300));
    for path in
        ["../bob/secret.txt", "..", "a/../../bob/secret.txt", bob.to_str().unwrap(), "/etc/passwd", "x\0y", &long]
    {
        refused_everywhere(&ground, path);
        assert!(ground.ada.list(path, Listed::Below).is_err(), "{path:?} was listed");
        assert!(ground.ada.stat(path).is_err(), "{path:?} was looked at");
        assert!(ground.ada.delete(path, Listed::Below).is_err(), "{path:?} was deleted");
    }
    // Control: the same operations succeed inside the workspace.
    assert_eq!(ground.ada.read("mine.txt", 10).unwrap().1, b"mine");
    assert_eq!(ground.ada.rename("mine.txt", "b.txt", Existing::Keep).unwrap().bytes, 4);
}

#[test]
fn links_are_seen_and_never_followed() {
    let ground = Ground::new();
    let ada = &ground.ada;
    ada.write("mine.txt", b"mine", Existing::Keep).unwrap();
    symlink("../bob/secret.txt", ground.own("file-link")).unwrap();
    symlink("../bob", ground.own("folder-link")).unwrap();
    symlink("mine.txt", ground.own("own-link")).unwrap();
    symlink("/proc/self/root/etc/passwd", ground.own("magic")).unwrap();
    for path in ["file-link", "folder-link/secret.txt", "folder-link/new.txt", "own-link", "magic"] {
        assert!(ada.read(path, 1_000).is_err(), "{path:?} was read");
        assert!(ada.write(path, b"x", Existing::Replace).is_err(), "{path:?} was written");
    }
    assert!(ada.list("folder-link", Listed::Below).is_err());
    assert!(ada.delete("folder-link/secret.txt", Listed::Here).is_err());
    assert_eq!(ada.stat("file-link").unwrap().kind, FileKind::Link);
    let listed = ada.list(".", Listed::Below).unwrap();
    assert_eq!(listed.files.iter().filter(|file| file.kind == FileKind::Link).count(), 4);
    assert!(listed.files.iter().all(|file| !file.path.contains("secret")), "{listed:?}");
    // The link itself may be moved and deleted.
    ada.rename("folder-link", "moved", Existing::Keep).unwrap();
    ada.delete("moved", Listed::Below).unwrap();
    ada.delete("file-link", Listed::Here).unwrap();
    ground.assert_others_are_whole();
    assert_eq!(ada.read("mine.txt", 10).unwrap().1, b"mine");
}

#[test]
fn what_is_no_file_is_not_read_and_not_waited_for() {
    let ground = Ground::new();
    let fifo = ground.own("pipe");
    rustix::fs::mknodat(rustix::fs::CWD, &fifo, rustix::fs::FileType::Fifo, rustix::fs::Mode::RWXU, 0).unwrap();
    let _socket = std::os::unix::net::UnixListener::bind(ground.own("socket")).unwrap();
    for path in ["pipe", "socket", "."] {
        assert_eq!(code(ground.ada.read(path, 10)), "wrong_kind", "{path}");
    }
    assert_eq!(code(ground.ada.write("pipe", b"x", Existing::Replace)), "wrong_kind");
    assert_eq!(code(ground.ada.write("pipe/x", b"x", Existing::Replace)), "wrong_kind");
    assert_eq!(ground.ada.stat("pipe").unwrap().kind, FileKind::Other);
    ground.ada.delete("pipe", Listed::Here).unwrap();
    ground.ada.write("pipe", b"x", Existing::Replace).unwrap();
}

#[test]
fn another_name_of_a_file_keeps_its_content() {
    let ground = Ground::new();
    ground.ada.write("one", b"old", Existing::Keep).unwrap();
    fs::hard_link(ground.own("one"), ground.own("two")).unwrap();
    ground.ada.write("one", b"new", Existing::Replace).unwrap();
    assert_eq!(ground.ada.read("one", 9).unwrap().1, b"new");
    assert_eq!(ground.ada.read("two", 9).unwrap().1, b"old");
}

#[test]
fn an_unfinished_file_was_never_there() {
    let ground = Ground::new();
    ground.ada.write("kept", b"old", Existing::Keep).unwrap();
    for path in ["kept", "fresh"] {
        let mut unfinished = ground.ada.begin(path, None, Existing::Replace).unwrap();
        unfinished.push(b"half").unwrap();
        drop(unfinished);
    }
    assert_eq!(ground.ada.read("kept", 9).unwrap().1, b"old");
    let names: Vec<_> = fs::read_dir(ground.ada.folder()).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    assert_eq!(names, ["kept"]);
}

#[test]
fn a_file_keeps_its_rights_and_belongs_to_the_owner_of_the_workspace() {
    let ground = Ground::new();
    let is_root = rustix::process::geteuid().is_root();
    if is_root {
        std::os::unix::fs::chown(ground.ada.folder(), Some(4_242), Some(4_243)).unwrap();
    }
    let ada = files(ground.ada.folder(), ROOMY);
    ada.write("sub/run.sh", b"1", Existing::Keep).unwrap();
    fs::set_permissions(ground.own("sub/run.sh"), fs::Permissions::from_mode(0o700)).unwrap();
    ada.write("sub/run.sh", b"2", Existing::Replace).unwrap();
    let (folder, made) = (fs::metadata(ada.folder()).unwrap(), fs::metadata(ground.own("sub/run.sh")).unwrap());
    assert_eq!((made.uid(), made.gid(), made.mode() & 0o777), (folder.uid(), folder.gid(), 0o700));
    assert_eq!(fs::metadata(ground.own("sub")).unwrap().uid(), folder.uid());
    if is_root {
        assert_eq!(made.uid(), 4_242);
    } else {
        coracle_testing::skip::skip("a workspace of another user: only root can change the owner of a folder");
    }
}

#[test]
fn the_quota_is_checked_before_anything_is_written() {
    let ground = Ground::new();
    let small = files(ground.ada.folder(), Quota { bytes: 1_000_000, files: 6 });
    small.write("old", &vec![1; 600_000], Existing::Keep).unwrap();
    let refused = small.write("more", &vec![2; 500_000], Existing::Keep).unwrap_err();
    assert_eq!(refused.code(), "quota");
    assert!(refused.to_string().contains("the limit is 1000000"), "{refused}");
    assert_eq!(code(small.write("deep/er/file", &vec![2; 500_000], Existing::Keep)), "quota");
    assert!(!ground.own("deep").exists() && !ground.own("more").exists());
    // The quota also applies to a file of unknown length, with every write.
    let mut unfinished = small.begin("streamed", None, Existing::Keep).unwrap();
    for _ in 0..3 {
        unfinished.push(&vec![3; 100_000]).unwrap();
    }
    assert_eq!(code(unfinished.push(&vec![3; 100_000])), "quota");
    drop(unfinished);
    // Replaced files free their space, and unused reservations are released.
    small.write("old", &vec![4; 900_000], Existing::Replace).unwrap();
    assert_eq!(code(small.write("old", &vec![5; 1_100_000], Existing::Replace)), "quota");
    assert_eq!(fs::read(ground.own("old")).unwrap(), vec![4; 900_000], "what was there is whole");
    for number in 0..5 {
        small.write(&format!("{number}"), b"", Existing::Keep).unwrap();
    }
    let refused = small.write("one-too-many", b"", Existing::Keep).unwrap_err();
    assert!(refused.to_string().contains("6 files and folders, and the limit is 6"), "{refused}");
    assert_eq!(code(small.rename("0", "a/new/folder", Existing::Keep)), "quota");
    small.write("0", b"", Existing::Replace).unwrap();
    small.delete("0", Listed::Here).unwrap();
    small.write("now-it-fits", b"", Existing::Keep).unwrap();
}

#[test]
fn writers_at_the_same_time_do_not_pass_the_quota_together() {
    let ground = Ground::new();
    let small = files(ground.ada.folder(), Quota { bytes: 1_000_000, files: 100 });
    let done: usize = std::thread::scope(|scope| {
        let writers: Vec<_> = (0..20)
            .map(|number| {
                let small = &small;
                scope.spawn(move || small.write(&format!("{number}"), &vec![1; 98_000], Existing::Keep).is_ok())
            })
            .collect();
        writers.into_iter().map(|writer| usize::from(writer.join().unwrap())).sum()
    });
    let held: u64 = fs::read_dir(small.folder()).unwrap().map(|entry| entry.unwrap().metadata().unwrap().len()).sum();
    assert!(held <= 1_000_000, "{held}");
    assert!((5..=10).contains(&done), "{done}");
}

#[test]
fn long_lists_are_cut_and_say_so() {
    let ground = Ground::new();
    for number in 0..MAX_ENTRIES + 5 {
        fs::write(ground.own(&format!("{number:05}")), "").unwrap();
    }
    let list = ground.ada.list(".", Listed::Here).unwrap();
    assert_eq!((list.files.len(), list.truncated), (MAX_ENTRIES, true));
    assert_eq!(list.files[0].path, "00000");
    fs::create_dir(ground.own("few")).unwrap();
    fs::write(ground.own("few/one"), "").unwrap();
    let list = ground.ada.list("few", Listed::Here).unwrap();
    assert_eq!((list.files.len(), list.truncated), (1, false));
}

/// No operation can see or change a hidden data folder inside a workspace.
#[test]
fn what_is_hidden_is_not_there() {
    let home = tempfile::tempdir().unwrap();
    let data = home.path().join("deep/.coracle");
    fs::create_dir_all(&data).unwrap();
    fs::write(data.join(".env"), "TOKEN=hidden").unwrap();
    fs::write(home.path().join("deep/mine.txt"), "mine").unwrap();
    let hidden = || files(home.path(), ROOMY).without(Some(&data.canonicalize().unwrap()));
    for path in ["deep/.coracle", "deep/.coracle/.env", "/workspace/deep//.coracle/./.env"] {
        assert_eq!(code(hidden().stat(path)), "not_found", "{path}");
        assert_eq!(code(hidden().write(path, b"x", Existing::Replace)), "not_found", "{path}");
        assert_eq!(code(hidden().rename("deep/mine.txt", path, Existing::Replace)), "not_found", "{path}");
        assert_eq!(code(hidden().delete(path, Listed::Below)), "not_found", "{path}");
    }
    assert_eq!(code(hidden().read("deep/.coracle/.env", 100)), "not_found");
    assert_eq!(code(hidden().list("deep/.coracle", Listed::Here)), "not_found");
    // A folder that contains the hidden one can be neither moved nor deleted.
    assert!(hidden().rename("deep", "elsewhere", Existing::Keep).is_err());
    assert!(hidden().delete("deep", Listed::Below).is_err());
    let listed = |files: &WorkspaceFiles| -> Vec<String> {
        files.list(".", Listed::Below).unwrap().files.into_iter().map(|file| file.path).collect()
    };
    assert_eq!(listed(&hidden()), ["deep", "deep/mine.txt"]);
    assert_eq!(hidden().read("deep/mine.txt", 100).unwrap().1, b"mine");
    assert_eq!(fs::read_to_string(data.join(".env")).unwrap(), "TOKEN=hidden");
    // Control: without a hidden folder, everything is listed.
    let all = files(home.path(), ROOMY);
    assert_eq!(listed(&all), ["deep", "deep/.coracle", "deep/.coracle/.env", "deep/mine.txt"]);
    assert_eq!(all.read("deep/.coracle/.env", 100).unwrap().1, b"TOKEN=hidden");
}

#[test]
fn a_file_is_replaced_only_if_it_is_the_version_that_was_read() {
    let ground = Ground::new();
    let ada = &ground.ada;
    let first = ada.write("plan.txt", b"one", Existing::Keep).unwrap();
    let read: FileVersion = first.version().to_string().parse().unwrap();
    assert_eq!(read, ada.stat("plan.txt").unwrap().version());
    let second = ada.write("plan.txt", b"two", Existing::Unchanged(read)).unwrap();
    assert_eq!(code(ada.write("plan.txt", b"old", Existing::Unchanged(read))), "changed");
    assert_eq!(code(ada.write("missing.txt", b"x", Existing::Unchanged(read))), "changed");
    // A change while the new content arrives is noticed as well.
    let mut unfinished = ada.begin("plan.txt", None, Existing::Unchanged(second.version())).unwrap();
    unfinished.push(b"three").unwrap();
    ada.write("plan.txt", b"TWO", Existing::Replace).unwrap();
    assert_eq!(code(unfinished.finish()), "changed");
    assert_eq!(ada.read("plan.txt", 100).unwrap().1, b"TWO");
    assert!("1-x".parse::<FileVersion>().is_err());
}

#[test]
fn folders_are_made_once() {
    let ground = Ground::new();
    let made = ground.ada.make_folder("a/b").unwrap();
    assert_eq!((made.path.as_str(), made.kind), ("a/b", FileKind::Folder));
    ground.ada.write("file", b"", Existing::Keep).unwrap();
    for path in ["a/b", "a", "file"] {
        assert_eq!(code(ground.ada.make_folder(path)), "exists", "{path}");
    }
    assert_eq!(code(ground.ada.make_folder("file/below")), "wrong_kind");
    for path in ["../x", "/etc/x", ""] {
        assert!(ground.ada.make_folder(path).is_err(), "{path:?}");
    }
}
