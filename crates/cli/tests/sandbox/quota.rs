//! A workspace is filled in every possible way: the code is ended with a clear error, the excess is printed, and
//! existing files are intact. Writes from outside a sandbox are refused beforehand.

use coracle_engine::{Existing, FileError, Listed};
use coracle_sandbox::folder_usage;
use coracle_testing::lab::{Lab, error_code};
use coracle_types::{ErrorCode, Execution, Language, Limits, UserId};
use std::fs;
use std::path::PathBuf;
use std::time::Duration;

const LIMIT_MB: u64 = 40;
const LIMIT_FILES: u64 = 2_000;

/// Existing files, which must not change.
struct Before {
    folder: PathBuf,
}

impl Before {
    fn new(lab: &Lab) -> Self {
        let files = lab.engine.files(&user(), None, &lab.limits).unwrap();
        for number in 0..20_u8 {
            files.write(&format!("before/{number}"), &vec![number; 100_000], Existing::Keep).unwrap();
        }
        Self { folder: files.folder().to_owned() }
    }

    fn assert_whole(&self, name: &str) {
        for number in 0..20_u8 {
            let found = fs::read(self.folder.join(format!("before/{number}"))).unwrap();
            assert!(found == vec![number; 100_000], "{name}: before/{number} is damaged");
        }
    }
}

fn user() -> UserId {
    UserId::new("ada").unwrap()
}

fn lab() -> Lab {
    let limits = Limits {
        workspace_mb: LIMIT_MB,
        workspace_files: LIMIT_FILES,
        file_mb: 512,
        wall_ms: 60_000,
        ..Limits::default()
    };
    Lab::new(limits, 0, Duration::from_mins(10))
}

fn assert_stopped(execution: &Execution, name: &str) {
    let failure = execution.failure.as_ref().unwrap_or_else(|| panic!("{name}: not stopped: {execution:?}"));
    assert_eq!(failure.error_code, ErrorCode::Disk, "{name}: {failure:?}");
    assert!(failure.error.contains("the limit is"), "{name}: {failure:?}");
    assert!(failure.hint.is_some(), "{name}: {failure:?}");
}

/// Runs code that never stops by itself.
async fn fills(name: &str, code: &str) {
    let lab = lab();
    let before = Before::new(&lab);
    let execution = lab.python(code).await;
    assert_stopped(&execution, name);
    before.assert_whole(name);
    let held = folder_usage(&before.folder).unwrap();
    let over = (held.bytes / 1_000_000).saturating_sub(LIMIT_MB);
    let more = held.files.saturating_sub(LIMIT_FILES);
    println!(
        "soft tier, {name}: {} MB and {} files held at the end, {over} MB and {more} files beyond the limit, after {:.0} ms",
        held.bytes / 1_000_000,
        held.files,
        execution.execution_time_ms
    );
    // Existing files can be read, and deleting frees space.
    let files = lab.engine.files(&user(), None, &lab.limits).unwrap();
    // A listing is limited, even if there are more files.
    loop {
        let mut entries = files.list(".", Listed::Here).unwrap().files;
        entries.retain(|entry| entry.path != "before");
        if entries.is_empty() {
            break;
        }
        for entry in entries {
            files.delete(&entry.path, Listed::Below).unwrap();
        }
    }
    let next = lab.python("import os\nopen('/workspace/after', 'w').write('x')\nlen(os.listdir('before'))").await;
    assert_eq!((error_code(&next), next.result), (None, Some(20.into())), "{name}");
    before.assert_whole(name);
    lab.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn many_small_files() {
    let code = "
import os
number = 0
while True:
    with open(f'/workspace/{number}', 'wb') as file: file.write(b'x' * 100)
    number += 1";
    fills("many small files", code).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn one_big_file() {
    let code = "
with open('/workspace/big', 'wb', buffering=0) as file:
    for _ in range(500): file.write(b'x' * 1_000_000)
import time; time.sleep(30)";
    fills("one big file", code).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_sparse_file_that_is_filled_from_its_end() {
    let code = "
import os, time
size = 400_000_000
file = os.open('/workspace/sparse', os.O_CREAT | os.O_RDWR)
os.truncate(file, size)
for at in range(size - 1_000_000, 0, -1_000_000): os.pwrite(file, b'x' * 1_000_000, at)
time.sleep(30)";
    fills("sparse file, filled", code).await;
    let code = "
import os, time
file = os.open('/workspace/allocated', os.O_CREAT | os.O_RDWR)
os.posix_fallocate(file, 0, 300_000_000)
time.sleep(30)";
    fills("allocated at once", code).await;
}

/// Allocates 500 MB in each of many processes, in every way that does not write.
const ALLOCATE: &str = "
import ctypes, os, time
libc = ctypes.CDLL(None, use_errno=True)
def fallocate(file, size):
    if libc.fallocate(file, 0, ctypes.c_long(0), ctypes.c_long(size)): raise OSError(ctypes.get_errno(), 'fallocate')
def reserve(file, size):
    # FS_IOC_RESVSP64 of a struct space_resv: the same as an ioctl.
    wanted = (ctypes.c_uint64 * 6)(0, 0, size, 0, 0, 0)
    if libc.ioctl(file, 0x4030582a, wanted): raise OSError(ctypes.get_errno(), 'ioctl')
def allocate(path, size):
    file = os.open(path, os.O_CREAT | os.O_RDWR)
    for act in (fallocate, reserve, lambda file, size: os.posix_fallocate(file, 0, size)):
        try: return act(file, size)
        except OSError: pass
children = []
for number in range(24):
    child = os.fork()
    if not child:
        allocate(f'/workspace/{number}', SIZE)
        os._exit(0)
    children.append(child)
statuses = [os.waitpid(child, 0)[1] for child in children]
AFTERWARDS
[os.stat(f'/workspace/{number}').st_blocks * 512 for number in range(24)], statuses";

fn allocates(size: &str, afterwards: &str) -> String {
    ALLOCATE.replace("SIZE", size).replace("AFTERWARDS", afterwards)
}

/// With the default limits: a quota of 1 GiB, and 24 children that allocate 500 MB each.
#[tokio::test(flavor = "multi_thread")]
async fn allocated_space_counts_against_the_quota() {
    let limits = Limits { wall_ms: 80_000, ..Limits::default() };
    let lab = Lab::new(limits.clone(), 0, Duration::from_mins(10));
    let before = Before::new(&lab);
    let execution = lab.python(&allocates("500_000_000", "time.sleep(70)")).await;
    assert_stopped(&execution, "allocation");
    let held = folder_usage(&before.folder).unwrap();
    println!("24 children that allocate 500 MB each: {} MB held at the end", held.bytes / 1_000_000);
    assert!(held.bytes <= (limits.workspace_mb + limits.file_mb) * 1_000_000, "{held:?}");
    before.assert_whole("allocation");
    // Control: allocations within the quota succeed.
    let files = lab.engine.files(&user(), None, &lab.limits).unwrap();
    for number in 0..24 {
        // Not all children may have started.
        let _ = files.delete(&number.to_string(), Listed::Here);
    }
    let fits = lab.python(&allocates("1_000_000", "")).await;
    assert_eq!(error_code(&fits), None, "{fits:?}");
    let result = fits.result.unwrap();
    let (sizes, statuses) = (result[0].as_array().unwrap(), result[1].as_array().unwrap());
    assert!(sizes.iter().all(|bytes| bytes.as_u64() >= Some(1_000_000)), "{sizes:?}");
    assert!(statuses.iter().all(|status| status == 0), "{statuses:?}");
    lab.close().await;
}

/// Code that ends before the first check is checked at its end.
#[tokio::test(flavor = "multi_thread")]
async fn a_short_run_that_exceeds_the_quota_fails() {
    for (name, code) in [
        ("one file", "open('/workspace/a', 'wb').write(b'x' * (LIMIT + 2) * 1_000_000)\n'done'"),
        ("many", "for i in range(LIMIT + 2): open(f'/workspace/{i}', 'wb').write(b'x' * 1_000_000)\n'done'"),
        ("a little", "open('/workspace/a', 'wb').write(b'x' * (LIMIT - 1) * 1_000_000)\n'done'"),
        ("files", "import os\nfor i in range(FILES): os.close(os.open(f'/workspace/{i}', os.O_CREAT))\n'done'"),
    ] {
        let code = code.replace("LIMIT", &LIMIT_MB.to_string()).replace("FILES", &LIMIT_FILES.to_string());
        let lab = lab();
        let before = Before::new(&lab);
        assert_stopped(&lab.python(&code).await, name);
        before.assert_whole(name);
        lab.close().await;
    }
    // Control: the same within the limit.
    let lab = lab();
    let before = Before::new(&lab);
    let fits = lab.python("open('/workspace/a', 'wb').write(b'x' * 20_000_000)\n'done'").await;
    assert_eq!((error_code(&fits), fits.result), (None, Some("done".into())));
    before.assert_whole("within the limit");
    lab.close().await;
}

/// Descriptors in transit in a socket belong to no process that could be checked, so passing them is refused.
#[tokio::test(flavor = "multi_thread")]
async fn descriptors_in_sockets_cannot_hide_files() {
    let code = "
import os, socket
ours, theirs = socket.socketpair()
file = os.open('/workspace/a', os.O_CREAT | os.O_RDWR)
refused = []
for act in (lambda: socket.send_fds(ours, [b'x'], [file]), lambda: ours.sendmsg([b'x'])):
    try: refused.append(act())
    except OSError as error: refused.append(error.errno)
refused, ours.send(b'yz'), theirs.recv(9).decode()";
    let lab = lab();
    let execution = lab.python(code).await;
    assert_eq!(error_code(&execution), None, "{execution:?}");
    assert_eq!(execution.result, Some(serde_json::json!([[1, 1], 2, "yz"])));
    lab.close().await;
}

/// Control: holes use no space and do not count.
#[tokio::test(flavor = "multi_thread")]
async fn holes_are_free() {
    let lab = lab();
    let before = Before::new(&lab);
    let code = "
import os, time
for number in range(5):
    with open(f'/workspace/{number}', 'wb') as file: file.truncate(500_000_000)
time.sleep(7)
sum(os.stat(f'/workspace/{number}').st_size for number in range(5))";
    let execution = lab.python(code).await;
    assert_eq!((error_code(&execution), execution.result), (None, Some(2_500_000_000_u64.into())));
    before.assert_whole("holes");
    lab.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn constantly_renamed_files() {
    let code = "
import os, random
number = 0
while True:
    number += 1
    folder = f'/workspace/{number % 7}/{number % 3}'
    os.makedirs(folder, exist_ok=True)
    with open('/workspace/fresh', 'wb') as file: file.write(b'x' * 500_000)
    os.rename('/workspace/fresh', f'{folder}/{number}')
    os.rename(f'/workspace/{number % 7}', '/workspace/elsewhere')
    os.rename('/workspace/elsewhere', f'/workspace/{number % 7}')";
    fills("renames", code).await;
}

/// Deleted files are in no folder that could be listed.
#[tokio::test(flavor = "multi_thread")]
async fn deleted_files_that_are_still_open() {
    let code = "
import os, time
held = []
for number in range(30):
    file = open(f'/workspace/{number}', 'wb', buffering=0)
    os.unlink(f'/workspace/{number}')
    held.append(file)
    for _ in range(10): file.write(b'x' * 1_000_000)
time.sleep(40)";
    fills("deleted, still open", code).await;
    let code = "
import mmap, os, time
held = []
for number in range(30):
    file = os.open(f'/workspace/{number}', os.O_CREAT | os.O_RDWR)
    os.posix_fallocate(file, 0, 10_000_000)
    held.append(mmap.mmap(file, 10_000_000))
    os.unlink(f'/workspace/{number}')
    os.close(file)
time.sleep(40)";
    fills("deleted, still mapped", code).await;
}

/// Each run of a session is short, and keeps a little more open than the one before.
#[tokio::test(flavor = "multi_thread")]
async fn deleted_files_that_accumulate_over_runs() {
    let ways = [
        ("never named", "held.append(os.open('/workspace', os.O_TMPFILE | os.O_RDWR, 0o600))"),
        (
            "named once",
            "held.append(os.open('/workspace/named', os.O_CREAT | os.O_RDWR)); os.unlink('/workspace/named')",
        ),
    ];
    for (name, way) in ways {
        let lab = lab();
        let before = Before::new(&lab);
        let run = async |code: &str| lab.execute(lab.in_session("slowly", Language::Python, code)).await;
        let mut held = 0;
        let stopped = loop {
            let code =
                format!("import os\nheld = globals().get('held', [])\n{way}\nos.write(held[-1], b'x' * 700_000)");
            let execution = run(&code).await;
            if execution.failure.is_some() {
                break execution;
            }
            held += 700_000;
            assert!(held < 2 * LIMIT_MB * 1_000_000, "{name}: {held} bytes are held");
        };
        assert_stopped(&stopped, name);
        before.assert_whole(name);
        // Control: the space is free again, and the next run of the session holds nothing.
        let next = run("'held' in globals()").await;
        assert_eq!((error_code(&next), next.result), (None, Some(false.into())), "{name}");
        lab.close().await;
    }
}

/// Control: deleted and closed files are gone.
#[tokio::test(flavor = "multi_thread")]
async fn deleted_and_closed_files_do_not_count() {
    let lab = lab();
    let before = Before::new(&lab);
    let code = "
import os, time
for _ in range(20):
    with open('/workspace/scratch', 'wb') as file: file.write(b'x' * 20_000_000)
    os.unlink('/workspace/scratch')
    time.sleep(0.1)
'done'";
    let execution = lab.python(code).await;
    assert_eq!((error_code(&execution), execution.result), (None, Some("done".into())));
    before.assert_whole("deleted");
    lab.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn writes_from_outside_respect_the_quota() {
    let lab = lab();
    let before = Before::new(&lab);
    let files = lab.engine.files(&user(), None, &lab.limits).unwrap();
    let mut refused = None;
    for number in 0..200 {
        if let Err(error) = files.write(&format!("big/{number}"), &vec![1; 1_000_000], Existing::Keep) {
            refused = Some(error);
            break;
        }
    }
    assert!(matches!(refused, Some(FileError::Full { .. })), "{refused:?}");
    let held = folder_usage(&before.folder).unwrap();
    println!("from outside: {} bytes held, the limit is {}", held.bytes, LIMIT_MB * 1_000_000);
    assert!(held.bytes <= LIMIT_MB * 1_000_000, "{held:?}");
    files.delete("big", Listed::Below).unwrap();
    let mut written = 0;
    let refused = loop {
        match files.write(&format!("small-{written}"), b"", Existing::Keep) {
            Ok(_) => written += 1,
            Err(error) => break error,
        }
    };
    assert!(matches!(refused, FileError::Full { .. }), "{refused}");
    assert_eq!(folder_usage(&before.folder).unwrap().files, LIMIT_FILES);
    before.assert_whole("from outside");
    // Code and outside access see the same files.
    let seen = lab.python("import os\nopen('/workspace/small-0', 'w').write('changed')\nlen(os.listdir('.'))").await;
    assert_eq!(error_code(&seen), None, "{seen:?}");
    assert_eq!(files.read("small-0", 100).unwrap().1, b"changed");
    lab.close().await;
}

#[test]
fn all_of_it_as_an_ordinary_user() {
    coracle_testing::ordinary_user::run_tests_except(module_path!(), &["all_of_it_as_an_ordinary_user"]);
}
