//! The escape tests: everything that sandboxed code could attempt, each with a control that shows that the attempt
//! itself is valid.

pub(crate) mod battery;
mod syscalls;

use crate::lab::{place, run};
use battery::{Outside, as_user, facts, inside, outside};
use coracle_testing::each_user;
use coracle_testing::harness::{As, Coracle};
use std::fmt::Write as _;
use std::fs;
use std::net::TcpListener;
use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};
use std::process::{Child, Stdio};
use std::time::{Duration, Instant};

/// Process of the same user outside the sandbox, which ends with the test.
struct Bystander(Child);

impl Bystander {
    fn start(coracle: &Coracle) -> Self {
        let mut command = as_user(coracle);
        // A separate process group, which probes may try to signal.
        let mut child = command.args(["setsid", "--wait", "sleep", "300"]).stdin(Stdio::null()).spawn().unwrap();
        let deadline = Instant::now() + Duration::from_secs(10);
        while fs::read(format!("/proc/{}/comm", child.id())).is_ok_and(|comm| comm != b"sleep\n") {
            assert!(Instant::now() < deadline && child.try_wait().unwrap().is_none(), "the bystander did not start");
            std::thread::sleep(Duration::from_millis(5));
        }
        Self(child)
    }

    fn is_alive(&mut self) -> bool {
        self.0.try_wait().unwrap().is_none()
    }
}

impl Drop for Bystander {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// What code printed, from the report of `sandboxed`.
fn printed(report: &[u8]) -> String {
    let report: serde_json::Value = serde_json::from_slice(report).unwrap();
    report["stdout"].as_str().unwrap_or_else(|| panic!("{report:#}")).to_owned()
}

fn both(who: As, probes: &str, at: Outside, at_least: usize) {
    let coracle = place(who);
    let memory = &run(&coracle, "python", "pass", &[])["enforced"]["memory"];
    let counted = if memory == "watch" { "COUNTED = False" } else { "COUNTED = True" };
    inside(&coracle, counted, probes).demand(at_least, &format!("{who:?} inside"));
    outside(&coracle, at, counted, probes).demand(0, &format!("{who:?} outside"));
}

each_user!(host_files_are_out_of_reach);
fn host_files_are_out_of_reach(who: As) {
    let probes = include_str!("escape/files.py");
    let coracle = place(who);
    let (folder, canary) = coracle.beside();
    symlink(&canary, coracle.workspace().join("planted")).unwrap();
    let told = facts(&[("CANARY", &canary), ("OUTSIDE", &folder)]);
    inside(&coracle, &told, probes).demand(80, &format!("{who:?} inside"));
    let left: Vec<_> = fs::read_dir(&folder).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    assert_eq!(left, ["canary"], "{who:?}: something came out");
    assert_eq!(fs::read_to_string(&canary).unwrap(), "CANARY-OF-THE-HOST");

    let control = place(who);
    symlink(&canary, control.workspace().join("planted")).unwrap();
    // The parent is writable for the same user only if it belongs to them.
    control.own(control.workspace().parent().unwrap());
    outside(&control, Outside::Host, &told, probes).demand(25, &format!("{who:?} outside"));
}

each_user!(host_processes_are_out_of_reach);
fn host_processes_are_out_of_reach(who: As) {
    let probes = include_str!("escape/proc.py");
    let own_nice = rustix::process::getpriority_process(None).unwrap();
    let coracle = place(who);
    let mut bystander = Bystander::start(&coracle);
    let told = format!("HOST_PID = {}", bystander.0.id());
    inside(&coracle, &told, probes).demand(60, &format!("{who:?} inside"));
    assert!(bystander.is_alive(), "{who:?}: a process of the host was ended");
    let nice = rustix::process::getpriority_process(Some(rustix::process::Pid::from_child(&bystander.0))).unwrap();
    assert_eq!(nice, own_nice, "{who:?}: a process of the host was slowed down");
    outside(&coracle, Outside::Host, &told, probes).demand(30, &format!("{who:?} outside"));
}

each_user!(namespaces_and_mounts_are_refused);
fn namespaces_and_mounts_are_refused(who: As) {
    both(who, include_str!("escape/namespaces.py"), Outside::Namespaces, 35);
}

each_user!(unneeded_kernel_interfaces_are_refused);
fn unneeded_kernel_interfaces_are_refused(who: As) {
    both(who, include_str!("escape/kernel.py"), Outside::Namespaces, 35);
}

each_user!(the_machine_and_its_limits_are_out_of_reach);
fn the_machine_and_its_limits_are_out_of_reach(who: As) {
    both(who, include_str!("escape/machine.py"), Outside::Host, 25);
}

each_user!(there_is_no_network);
fn there_is_no_network(who: As) {
    both(who, include_str!("escape/network.py"), Outside::Namespaces, 400);
}

each_user!(devices_and_changes_of_identity_are_refused);
fn devices_and_changes_of_identity_are_refused(who: As) {
    both(who, include_str!("escape/devices.py"), Outside::Host, 80);
}

each_user!(unlisted_system_calls_are_refused);
fn unlisted_system_calls_are_refused(who: As) {
    let list = serde_json::to_string(&syscalls::allowed()).unwrap();
    let told = format!("ALLOWED = {list}\nLAST = {}", syscalls::LAST);
    inside(&place(who), &told, include_str!("escape/sweep.py")).demand(460, &format!("{who:?} inside"));
}

#[test]
fn the_list_of_system_calls_matches_the_filter() {
    // Some calls return EPERM or ENOSYS themselves, so that calling them proves nothing.
    let source = include_str!("../../src/native/launcher/seccomp.rs");
    let named = |list: &str| -> Vec<String> {
        let body = source.split_once(&format!("const {list}: &[i64] = &[")).unwrap().1.split_once("];").unwrap().0;
        let words = body.split(|c: char| !c.is_ascii_alphanumeric() && c != '_');
        words.filter_map(|word| word.strip_prefix("SYS_")).map(str::to_lowercase).collect()
    };
    let mut filter = named("ALLOWED");
    if cfg!(target_arch = "x86_64") {
        filter.extend(named("ALLOWED_LEGACY"));
    }
    filter.sort();
    filter.dedup();
    assert_eq!(filter, syscalls::allowed().into_keys().collect::<Vec<_>>());
}

each_user!(descriptors_are_not_inherited);
fn descriptors_are_not_inherited(who: As) {
    let list = "import os\n\
        def inode(fd):\n    try:\n        return os.fstat(fd).st_ino\n    except OSError:\n        return 0\n\
        print(CANARY in [inode(fd) for fd in range(256)])";
    let coracle = place(who);
    let (_, canary) = coracle.beside();
    let code = list.replace("CANARY", &fs::metadata(&canary).unwrap().ino().to_string());
    let with_descriptor = |program: &std::process::Command, arguments: &[&str]| {
        let mut command = std::process::Command::new("bash");
        command.args(["-c", "exec 9<\"$0\" 63<\"$0\"; exec \"$@\""]).arg(&canary).arg(program.get_program());
        command.env("PATH", "/usr/local/bin:/usr/bin:/bin");
        let output =
            command.args(program.get_args()).args(arguments).env("CORACLE_HOME", coracle.home()).output().unwrap();
        assert!(output.status.success(), "{who:?}: {output:?}");
        String::from_utf8(output.stdout).unwrap()
    };
    let workspace = coracle.workspace();
    let inside = with_descriptor(&coracle.command(), &["-c", &code, workspace.to_str().unwrap()]);
    assert_eq!(printed(inside.as_bytes()), "False\n", "{who:?}");
    assert_eq!(with_descriptor(&as_user(&coracle), &["python3", "-I", "-c", &code]), "True\n", "{who:?}: the control");
}

each_user!(the_environment_is_not_inherited_and_planted_files_have_no_effect);
fn the_environment_is_not_inherited_and_planted_files_have_no_effect(who: As) {
    const PLANTED: [&str; 8] =
        ["json", "site", "sitecustomize", "usercustomize", "os", "encodings", "asyncio", "coracle_guest"];
    let missing_by_nature = ["sitecustomize", "usercustomize"];
    let coracle = place(who);
    let plant = |name: &str, text: &str| {
        let path = coracle.workspace().join(name);
        fs::write(&path, text).unwrap();
        coracle.own(&path);
    };
    for name in PLANTED {
        plant(&format!("{name}.py"), "open('/workspace/ran', 'w').close()\nplanted = True\n");
    }
    plant("planted_control.py", "planted = True\n");
    plant("pyvenv.cfg", "home = /workspace\n");
    plant("planted.pth", "import os; open('/workspace/ran', 'w').close()\n");
    let imported: Vec<_> = PLANTED.into_iter().filter(|name| !missing_by_nature.contains(name)).collect();
    let told = format!("PLANTED = {imported:?}");
    inside(&coracle, &told, include_str!("escape/identity.py")).demand(40, &format!("{who:?}"));
}

each_user!(a_shell_has_no_more_access_than_python);
fn a_shell_has_no_more_access_than_python(who: As) {
    let script = include_str!("escape/shell.sh");
    let coracle = place(who);
    let (_, canary) = coracle.beside();
    let mut bystander = Bystander::start(&coracle);
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    let code = format!("CANARY={}\nPORT={port}\nHOST_PID={}\n{script}", canary.display(), bystander.0.id());
    let execution = run(&coracle, "bash", &code, &[]);
    let output = execution["stdout"].as_str().unwrap();
    let count = output.strip_prefix("ran ").map(|rest| rest.trim().parse::<usize>().unwrap());
    assert!(count.is_some_and(|count| count > 40), "{who:?}: {output}\n{execution:#}");
    assert!(bystander.is_alive());

    // Control: the same lines on the host.
    for line in [
        format!("exec 9<>/dev/tcp/127.0.0.1/{port}"),
        format!("cat {}", canary.display()),
        format!("kill -0 {}", bystander.0.id()),
        "unshare --user --map-root-user --mount mount -t tmpfs none /tmp".to_owned(),
        format!("cd {} && cp /usr/bin/env own && chmod u+s own", coracle.workspace().display()),
    ] {
        let output = as_user(&coracle).args(["bash", "-c", &line]).output().unwrap();
        assert!(output.status.success(), "{who:?}: the control {line:?} failed: {output:?}");
    }
}

each_user!(code_is_unprivileged_on_the_host);
fn code_is_unprivileged_on_the_host(who: As) {
    let coracle = place(who);
    let mark = format!("coracle-probe-{}-{who:?}", std::process::id());
    let code = format!("touch made && mkdir folder && ln -s made link && exec -a {mark} sleep 20");
    let mut command = coracle.command();
    command.args(["--lang", "bash", "-c", &code]).arg(coracle.workspace());
    let mut running = command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
    let statuses = tree_of(&mark, Duration::from_secs(10));
    rustix::process::kill_process(rustix::process::Pid::from_child(&running), rustix::process::Signal::TERM).unwrap();
    running.wait().unwrap();
    assert!(statuses.len() >= 2, "{who:?}: the process and its parent: {statuses:?}");
    let owner = fs::metadata(coracle.workspace()).unwrap();
    for status in &statuses {
        let field =
            |name: &str| status.lines().find_map(|line| line.strip_prefix(name)).unwrap_or_default().trim().to_owned();
        let ids: Vec<u32> = [field("Uid:"), field("Gid:")]
            .iter()
            .flat_map(|ids| ids.split_whitespace().map(|id| id.parse().unwrap()).collect::<Vec<_>>())
            .collect();
        assert!(ids.len() == 8 && ids.iter().all(|id| *id != 0), "{who:?}: {ids:?}");
        match who {
            As::Root => assert!(ids.iter().all(|id| *id == ids[0] && *id > 1000), "{who:?}: {ids:?}"),
            As::Ordinary => assert!(ids.iter().all(|id| *id == owner.uid()), "{who:?}: {ids:?}"),
        }
        for set in ["CapInh:", "CapPrm:", "CapEff:", "CapBnd:", "CapAmb:"] {
            assert_eq!(field(set), "0000000000000000", "{who:?}: {set} of {status}");
        }
        assert_eq!((field("NoNewPrivs:").as_str(), field("Seccomp:").as_str()), ("1", "2"), "{who:?}: {status}");
    }
    // Created files belong to the owner of the workspace, without set-user-ID bits.
    for name in ["made", "folder", "link"] {
        let made = fs::symlink_metadata(coracle.workspace().join(name)).unwrap();
        assert_eq!((made.uid(), made.gid()), (owner.uid(), owner.gid()), "{who:?}: {name}");
        assert_eq!(made.permissions().mode() & 0o6000, 0, "{who:?}: {name}");
    }
}

/// `/proc/PID/status` of the process with this name as its first argument, and of its parent.
fn tree_of(mark: &str, within: Duration) -> Vec<String> {
    let deadline = Instant::now() + within;
    while Instant::now() < deadline {
        for entry in fs::read_dir("/proc").unwrap().flatten() {
            let command_line = fs::read(entry.path().join("cmdline")).unwrap_or_default();
            if !command_line.starts_with(mark.as_bytes()) {
                continue;
            }
            let Ok(status) = fs::read_to_string(entry.path().join("status")) else { continue };
            let parent =
                status.lines().find_map(|line| line.strip_prefix("PPid:")).unwrap_or_default().trim().to_owned();
            return [Ok(status), fs::read_to_string(format!("/proc/{parent}/status"))].into_iter().flatten().collect();
        }
        std::thread::sleep(Duration::from_millis(20));
    }
    panic!("no process called {mark}");
}

each_user!(the_environment_and_domain_name_of_the_host_are_hidden);
fn the_environment_and_domain_name_of_the_host_are_hidden(who: As) {
    let coracle = place(who);
    let mut code = String::from(
        "import ctypes, os\nname = ctypes.create_string_buffer(65)\nctypes.CDLL(None).getdomainname(name, 65)\n",
    );
    writeln!(
        code,
        "print([text for text in (*os.environ.values(), *os.environ, name.value.decode()) if 'CANARY' in text])"
    )
    .unwrap();
    let mut command = coracle.command();
    command
        .env("CANARY_VARIABLE", "CANARY")
        .env("LD_LIBRARY_PATH", "/CANARY")
        .env("PYTHONPATH", "/CANARY")
        .env("PYTHONSTARTUP", "/CANARY");
    let output = command.args(["-c", &code]).arg(coracle.workspace()).output().unwrap();
    assert_eq!(printed(&output.stdout), "[]\n", "{who:?}: {output:?}");

    // In a separate UTS namespace, so that the machine keeps its domain name.
    let inner = coracle.command();
    let mut command = std::process::Command::new("unshare");
    let setting = "echo CANARY-DOMAIN > /proc/sys/kernel/domainname && exec \"$@\"";
    if !rustix::process::geteuid().is_root() {
        coracle_testing::skip::skip("the domain name: only root can set it");
        return;
    }
    command
        .args(["--uts", "sh", "-c", setting, "sh"])
        .arg(inner.get_program())
        .args(inner.get_args())
        .args(["-c", &code])
        .arg(coracle.workspace());
    command.env("CORACLE_HOME", coracle.home());
    let output = command.output().unwrap();
    assert_eq!(printed(&output.stdout), "[]\n", "{who:?}: {output:?}");
    let control = std::process::Command::new("unshare")
        .args(["--uts", "sh", "-c", setting, "sh", "python3", "-I", "-c", &code])
        .output()
        .unwrap();
    assert_eq!(String::from_utf8_lossy(&control.stdout), "['CANARY-DOMAIN']\n", "{control:?}");
}
