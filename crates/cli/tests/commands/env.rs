//! `coracle env` with real installs of wheels that the tests build, so that nothing is downloaded.

use coracle_testing::each_user;
use coracle_testing::harness::{As, Coracle};
use coracle_testing::outcome::is_alive;
use rustix::process::{Pid, PidfdFlags, Signal, kill_process, pidfd_open, pidfd_send_signal};
use serde_json::{Value, json};
use std::fs;
use std::io::Write;
use std::os::fd::OwnedFd;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::time::{Duration, Instant};

/// Packages that are installed without a requirements file.
const USUAL: [&str; 8] = ["numpy", "pandas", "scipy", "matplotlib", "seaborn", "scikit-learn", "sympy", "plotly"];

const MAKE_WHEEL: &str = "
import sys, zipfile
name, version, code, folder = sys.argv[1:]
module = name.replace('-', '_')
info = f'{module}-{version}.dist-info'
with zipfile.ZipFile(f'{folder}/{module}-{version}-py3-none-any.whl', 'w') as wheel:
    wheel.writestr(f'{module}.py', code)
    wheel.writestr(f'{info}/METADATA', f'Metadata-Version: 2.1\\nName: {name}\\nVersion: {version}\\n')
    wheel.writestr(f'{info}/WHEEL', 'Wheel-Version: 1.0\\nGenerator: test\\nRoot-Is-Purelib: true\\nTag: py3-none-any\\n')
    wheel.writestr(f'{info}/entry_points.txt', f'[console_scripts]\\n{module}-run = {module}:word\\n')
    wheel.writestr(f'{info}/RECORD', '')
";

/// The program with a folder of wheels and settings.
struct Place {
    coracle: Coracle,
    wheels: PathBuf,
}

impl Place {
    fn new(who: As) -> Self {
        let coracle = Coracle::new(who);
        let wheels = coracle.workspace().parent().unwrap().join("wheels");
        fs::create_dir(&wheels).unwrap();
        fs::set_permissions(&wheels, fs::Permissions::from_mode(0o755)).unwrap();
        Self { coracle, wheels }
    }

    /// Builds a package with one module.
    fn wheel(&self, name: &str, version: &str, code: &str) {
        let made = Command::new("/usr/bin/python3")
            .args(["-c", MAKE_WHEEL, name, version, code])
            .arg(&self.wheels)
            .status()
            .unwrap();
        assert!(made.success());
    }

    fn settings(&self, settings: &Value) {
        let file = self.coracle.home().join("coracle.yaml");
        fs::write(&file, settings.to_string()).unwrap();
        self.coracle.own(&file);
    }

    /// Writes a requirements file and names it in the settings.
    fn requirements(&self, text: &str) {
        fs::write(self.wheels.join("requirements.txt"), text).unwrap();
        self.settings(&json!({ "execution": { "requirements": self.wheels.join("requirements.txt") } }));
    }

    fn command(&self, arguments: &[&str]) -> Command {
        let mut command = self.coracle.command();
        command.args(arguments).env("HOME", self.coracle.workspace()).env("PATH", "/usr/bin:/bin");
        command.env("PIP_NO_INDEX", "1").env("PIP_FIND_LINKS", &self.wheels).env("PIP_NO_CACHE_DIR", "1");
        command
    }

    fn env(&self, arguments: &[&str]) -> Output {
        self.command(&[&["env"], arguments].concat()).output().unwrap()
    }

    /// Runs a command that must succeed, and returns its output.
    fn done(&self, arguments: &[&str]) -> String {
        let output = self.env(arguments);
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(output.status.success(), "{arguments:?} as {:?}: {said}", self.coracle.who);
        said
    }

    fn list(&self) -> Value {
        let output = self.env(&["list", "--json"]);
        serde_json::from_slice(&output.stdout).unwrap_or_else(|error| panic!("{error}: {output:?}"))
    }

    /// Names and versions of the installed packages.
    fn installed(&self) -> Vec<String> {
        let list = self.list();
        let packages = list["current"]["packages"].as_array().unwrap();
        packages.iter().map(|one| format!("{} {}", one["name"], one["version"]).replace('"', "")).collect()
    }

    fn folder(&self) -> PathBuf {
        self.coracle.home().join("environments")
    }

    fn entries(&self) -> Vec<String> {
        let entries = fs::read_dir(self.folder()).unwrap().flatten();
        let mut names: Vec<String> = entries.map(|entry| entry.file_name().into_string().unwrap()).collect();
        names.sort();
        names
    }

    /// A `uv` that never ends, and neither does its child. Both write their PIDs to the file `begun`.
    fn stuck(&self) -> PathBuf {
        let bin = self.wheels.join("bin");
        fs::create_dir_all(&bin).unwrap();
        let begun = self.coracle.workspace().join("begun");
        let script = format!("#!/bin/sh\nsleep 600 &\necho $$ $! > {0}.new\nmv {0}.new {0}\nwait\n", begun.display());
        fs::write(bin.join("uv"), script).unwrap();
        for path in [&bin, &bin.join("uv")] {
            fs::set_permissions(path, fs::Permissions::from_mode(0o755)).unwrap();
        }
        bin
    }
}

/// The `uv` of [`Place::stuck`] and its child. A killed `coracle` cannot end them, so they end with the test.
struct Installer(Vec<(String, OwnedFd)>);

impl Installer {
    fn named_in(file: &Path) -> Self {
        let text = fs::read_to_string(file).unwrap();
        let handle = |pid: &str| {
            let process = Pid::from_raw(pid.parse().unwrap()).unwrap();
            (pid.to_owned(), pidfd_open(process, PidfdFlags::empty()).unwrap())
        };
        Self(text.split_whitespace().map(handle).collect())
    }

    fn is_running(&self) -> bool {
        assert_eq!(self.0.len(), 2);
        self.0.iter().any(|(pid, _)| is_alive(pid))
    }
}

impl Drop for Installer {
    fn drop(&mut self) {
        for (_, handle) in &self.0 {
            // Fails if it has ended.
            let _ = pidfd_send_signal(handle, Signal::KILL);
        }
    }
}

fn eventually(what: &str, mut is_so: impl FnMut() -> bool) {
    let begun = Instant::now();
    while !is_so() {
        assert!(begun.elapsed() < Duration::from_mins(1), "{what}: never");
        std::thread::sleep(Duration::from_millis(20));
    }
}

const TINY: &str = "word = 'first'\ndef fail():\n    raise ValueError('from tiny')\n";

each_user!(installed_packages_can_be_imported_but_not_changed);
fn installed_packages_can_be_imported_but_not_changed(who: As) {
    let place = Place::new(who);
    place.wheel("tiny-words", "1.2.3", TINY);
    let plain = place.coracle.run("python", "import tiny_words", &[]);
    assert_eq!(plain["error"], "ModuleNotFoundError: No module named 'tiny_words'", "{plain:#}");
    place.requirements("# ours\n./tiny_words-1.2.3-py3-none-any.whl\n");
    let said = place.done(&["sync"]);
    assert!(said.contains("environment 1: 1 package for Python 3."), "{said}");
    assert!(said.contains("restart running servers to use it"), "{said}");
    assert_eq!(place.installed(), ["tiny-words 1.2.3"]);
    assert_eq!(place.entries(), [".lock", "1", "current"]);
    let packages = place.folder().join("1/packages");
    assert!(!packages.join("bin").exists(), "scripts name an interpreter of the host");
    // A module with the same name in the workspace is not imported, and neither hides the standard library.
    fs::write(place.coracle.workspace().join("tiny_words.py"), "word = 'planted'").unwrap();
    let code = "import json, sys, tiny_words
def attempt(path):
    try:
        open(path, 'w').close()
        return 'done'
    except OSError:
        return 'refused'
[tiny_words.word, tiny_words.__file__, tiny_words.__cached__.endswith('.pyc'),
 [attempt(path) for path in ('/environment/new', '/environment/tiny_words.py', '/workspace/new')],
 sys.path.index('/coracle') < sys.path.index('/environment') < sys.path.index('/workspace')]";
    let seen = place.coracle.python(code);
    let expected = json!(["first", "/environment/tiny_words.py", true, ["refused", "refused", "done"], true]);
    assert_eq!(seen, expected, "as {who:?}");
    let failed = place.coracle.run("python", "import tiny_words\ntiny_words.fail()", &[]);
    assert!(
        failed["traceback"].as_str().unwrap().contains("File \"/environment/tiny_words.py\", line 3"),
        "{failed:#}"
    );
}

each_user!(uv_is_used_if_it_is_on_the_path);
/// With a real `uv`, which takes precedence over `pip`. Files are copied from its cache, not linked.
fn uv_is_used_if_it_is_on_the_path(who: As) {
    let place = Place::new(who);
    place.wheel("tiny-words", "1.2.3", TINY);
    let bin = place.wheels.join("bin");
    fs::create_dir(&bin).unwrap();
    fs::set_permissions(&bin, fs::Permissions::from_mode(0o755)).unwrap();
    fs::copy(coracle_testing::installed::path("venv-api/bin/uv"), bin.join("uv")).unwrap();
    let sync = || {
        let mut command = place.command(&["env", "sync"]);
        command.env("PATH", format!("{}:/usr/bin:/bin", bin.display())).env("UV_OFFLINE", "1");
        command.env("UV_NO_INDEX", "1").env("UV_FIND_LINKS", &place.wheels);
        let output = command.output().unwrap();
        (output.status.code(), String::from_utf8_lossy(&output.stderr).into_owned())
    };
    place.requirements("tiny-words >= 1.2\n");
    let (code, said) = sync();
    assert_eq!(code, Some(0), "as {who:?}: {said}");
    assert_eq!(place.list()["current"]["made_by"], "uv", "{:#}", place.list());
    assert_eq!(place.installed(), ["tiny-words 1.2.3"]);
    let seen = place.coracle.python("import tiny_words; [tiny_words.word, tiny_words.__file__]");
    assert_eq!(seen, json!(["first", "/environment/tiny_words.py"]), "as {who:?}");
    let file = fs::metadata(place.folder().join("1/packages/tiny_words.py")).unwrap();
    assert_eq!(std::os::unix::fs::MetadataExt::nlink(&file), 1, "changes in the cache would affect it");
    // Failures are reported in uv's words and change nothing.
    place.requirements("tiny-words >= 2\n");
    let (code, said) = sync();
    assert_eq!(code, Some(125), "as {who:?}: {said}");
    assert!(said.contains("tiny-words"), "{said}");
    assert_eq!(place.installed(), ["tiny-words 1.2.3"]);
    // Packages that must be built are not installed.
    let source = place.wheels.join("grown");
    fs::create_dir(&source).unwrap();
    fs::set_permissions(&source, fs::Permissions::from_mode(0o755)).unwrap();
    let trace = place.coracle.workspace().join("built");
    fs::write(source.join("setup.py"), format!("open('{}', 'w').close()", trace.display())).unwrap();
    place.requirements("./grown\n");
    let (code, said) = sync();
    assert_eq!((code, trace.exists()), (Some(125), false), "as {who:?}: {said}");
    assert_eq!(place.installed(), ["tiny-words 1.2.3"]);
}

each_user!(a_failed_sync_keeps_the_old_environment);
fn a_failed_sync_keeps_the_old_environment(who: As) {
    let place = Place::new(who);
    place.wheel("tiny-words", "1.0", TINY);
    place.requirements("tiny-words\n");
    place.done(&["sync"]);
    place.requirements("tiny-words\nno-such-package-here\n");
    let failed = place.env(&["sync"]);
    let said = String::from_utf8_lossy(&failed.stderr).into_owned();
    assert_eq!(failed.status.code(), Some(125), "{said}");
    assert!(said.contains("the environment is unchanged") && said.contains("no-such-package-here"), "{said}");
    assert!(said.contains("hint: "), "{said}");
    assert_eq!(place.installed(), ["tiny-words 1.0"]);
    assert_eq!(place.entries(), [".lock", "1", "current"], "as {who:?}");
    assert_eq!(place.coracle.python("import tiny_words\ntiny_words.word"), "first");
    // So does a missing file, and an invalid requirements file.
    place.settings(&json!({ "execution": { "requirements": place.wheels.join("missing.txt") } }));
    let failed = place.env(&["sync"]);
    assert_eq!(failed.status.code(), Some(2), "{failed:?}");
    assert!(String::from_utf8_lossy(&failed.stderr).contains("execution.requirements"), "{failed:?}");
    assert_eq!(place.installed(), ["tiny-words 1.0"]);
}

each_user!(an_interrupted_sync_keeps_the_old_environment);
fn an_interrupted_sync_keeps_the_old_environment(who: As) {
    let place = Place::new(who);
    place.wheel("tiny-words", "1.0", TINY);
    place.requirements("tiny-words\n");
    place.done(&["sync"]);
    let path = format!("{}:/usr/bin:/bin", place.stuck().display());
    for (signal, status) in [(Signal::INT, Some(130)), (Signal::KILL, None)] {
        let begun = place.coracle.workspace().join("begun");
        let _ = fs::remove_file(&begun);
        let mut command = place.command(&["env", "sync"]);
        let mut child = command.env("PATH", &path).stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
        eventually("the installer begins", || begun.exists());
        let installer = Installer::named_in(&begun);
        assert!(installer.is_running());
        // Meanwhile no other command can change the environment, but all can use it.
        let second = place.env(&["sync"]);
        assert_eq!(second.status.code(), Some(2), "{second:?}");
        assert!(String::from_utf8_lossy(&second.stderr).contains("changed by another process"), "{second:?}");
        assert_eq!(place.coracle.python("import tiny_words\ntiny_words.word"), "first");
        let pid = Pid::from_raw(i32::try_from(child.id()).unwrap()).unwrap();
        kill_process(pid, signal).unwrap();
        assert_eq!(child.wait().unwrap().code(), status, "as {who:?}");
        assert_eq!(place.installed(), ["tiny-words 1.0"]);
        assert_eq!(place.coracle.python("import tiny_words\ntiny_words.word"), "first");
        if signal == Signal::INT {
            assert_eq!(place.entries(), [".lock", "1", "current"], "as {who:?}");
            eventually("the installer and its child end", || !installer.is_running());
        }
    }
    assert!(place.entries().iter().any(|name| name.starts_with(".new-")), "a killed sync leaves its partial files");
    place.done(&["sync"]);
    assert_eq!(place.entries(), [".lock", "1", "2", "current"], "as {who:?}");
    assert_eq!(place.coracle.python("import tiny_words\ntiny_words.word"), "first");
}

#[test]
fn packages_are_added_and_removed() {
    let place = Place::new(As::current());
    for name in USUAL {
        place.wheel(name, "9.0", "");
    }
    for version in ["1.0", "2.0"] {
        place.wheel("tiny-words", version, TINY);
    }
    place.done(&["sync"]);
    let mut usual: Vec<String> = USUAL.iter().map(|name| format!("{name} 9.0")).collect();
    usual.sort();
    assert_eq!(place.installed(), usual);
    // Unavailable packages change nothing and are not remembered.
    assert!(!place.env(&["add", "no-such-package-here"]).status.success());
    assert_eq!(place.env(&["add", "--", "--index-url=http://127.0.0.1:1"]).status.code(), Some(2));
    place.done(&["add", "Tiny_Words<2"]);
    assert!(place.installed().contains(&"tiny-words 1.0".to_owned()));
    place.done(&["add", "tiny-words"]);
    assert!(place.installed().contains(&"tiny-words 2.0".to_owned()));
    place.done(&["remove", "tiny_words", "plotly"]);
    let without: Vec<String> = usual.iter().filter(|name| !name.starts_with("plotly")).cloned().collect();
    assert_eq!(place.installed(), without);
    place.done(&["sync"]);
    assert_eq!(place.installed(), without, "a later sync remembers");
    let nobody = place.env(&["remove", "tiny-words"]);
    assert_eq!(nobody.status.code(), Some(2), "{nobody:?}");
    // Installed versions are kept although there are newer ones: only requested packages are installed.
    place.wheel("numpy", "10.0", "word = 'newer'\n");
    place.wheel("sympy", "10.0", "word = 'newer'\n");
    place.done(&["add", "plotly"]);
    assert_eq!(place.installed(), usual);
    let nothing = place.done(&["add", "plotly"]);
    assert!(nothing.contains("everything is already installed"), "{nothing}");
    // The last two environments are kept, including the current one.
    let versions: Vec<u64> =
        place.list()["versions"].as_array().unwrap().iter().map(|one| one["version"].as_u64().unwrap()).collect();
    assert_eq!(versions, [6, 5]);
    assert_eq!(place.env(&["remove", "--environment", "6"]).status.code(), Some(2));
    place.done(&["remove", "--environment", "5"]);
    assert_eq!(place.list()["versions"].as_array().unwrap().len(), 1);
    assert_eq!(place.installed(), usual);
}

#[test]
fn an_environment_for_another_python_is_ignored_with_a_warning() {
    let place = Place::new(As::current());
    place.wheel("tiny-words", "1.0", TINY);
    place.requirements("tiny-words\n");
    place.done(&["sync"]);
    let file = place.folder().join("1/environment.json");
    let mut made: Value = serde_json::from_slice(&fs::read(&file).unwrap()).unwrap();
    let run = || place.command(&["exec", "-c", "import tiny_words; print(tiny_words.word)"]).output().unwrap();
    // As after an upgrade within a version: another file with the same ABI.
    made["python"]["modified"] = json!(1);
    fs::write(&file, made.to_string()).unwrap();
    let output = run();
    assert_eq!((output.stdout.as_slice(), output.stderr.as_slice()), (&b"first\n"[..], &b""[..]), "{output:?}");
    made["python"]["abi"] = json!(".cpython-37m-x86_64-linux-gnu.so");
    made["python"]["version"] = json!("3.7.1");
    fs::write(&file, made.to_string()).unwrap();
    let output = run();
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(1), "{said}");
    for words in ["is ignored", "made for Python 3.7.1", "coracle env sync", "No module named 'tiny_words'"] {
        assert!(said.contains(words), "{words}: {said}");
    }
    assert_eq!(place.list()["fits"], json!(false));
    fs::write(&file, "{").unwrap();
    let output = place.command(&["exec", "-c", "print(6*7)"]).output().unwrap();
    assert_eq!(output.stdout, b"42\n", "{output:?}");
    assert!(String::from_utf8_lossy(&output.stderr).contains("ignoring the Python environment"), "{output:?}");
}

#[test]
fn a_missing_module_has_a_hint() {
    let place = Place::new(As::current());
    let hint = |code: &str| {
        let output = place.command(&["exec", "--json", "-c", code]).output().unwrap();
        let execution: Value = serde_json::from_slice(&output.stdout).unwrap();
        assert_eq!(execution["success"], false, "{execution:#}");
        execution["hint"].as_str().unwrap_or_default().to_owned()
    };
    assert!(hint("import sympy").contains("`coracle env sync`"));
    assert!(hint("from polars import col").contains("`coracle env add polars`"));
    assert!(hint("import bs4").contains("`coracle env add beautifulsoup4`"));
    assert!(hint("import qwertyuiop").contains("`coracle env list`"));
    let plain = place.command(&["exec", "-c", "import json; print(json.dumps(1))"]).output().unwrap();
    assert_eq!((plain.stdout.as_slice(), plain.stderr.as_slice()), (&b"1\n"[..], &b""[..]));
}

each_user!(operator_modules_can_be_imported);
/// The operator's modules can be imported, and hide neither Python's own nor installed ones.
fn operator_modules_can_be_imported(who: As) {
    let place = Place::new(who);
    place.wheel("tiny-words", "1.0", TINY);
    let tools = place.wheels.join("tools");
    fs::create_dir(&tools).unwrap();
    fs::set_permissions(&tools, fs::Permissions::from_mode(0o755)).unwrap();
    for (name, text) in [("json", "planted = 1"), ("tiny_words", "word = 'planted'"), ("house", "rule = 'one'")] {
        fs::write(tools.join(format!("{name}.py")), text).unwrap();
    }
    fs::write(place.coracle.workspace().join("house.py"), "rule = 'planted'").unwrap();
    let code = "import sys, json, house\n[house.rule, hasattr(json, 'planted')]";
    assert_eq!(place.coracle.python(code), json!(["planted", false]), "without the setting, as {who:?}");
    fs::write(place.wheels.join("requirements.txt"), "tiny-words").unwrap();
    let requirements = place.wheels.join("requirements.txt");
    place.settings(&json!({ "execution": { "tools_dir": tools, "requirements": requirements } }));
    place.done(&["sync"]);
    let code = format!("{code} + [__import__('tiny_words').word]");
    assert_eq!(place.coracle.python(&code), json!(["one", false, "first"]), "as {who:?}");
}

each_user!(child_processes_use_the_same_python_and_packages);
/// Scripts that code writes and starts, from bash or Python, use the same Python.
fn child_processes_use_the_same_python_and_packages(who: As) {
    let place = Place::new(who);
    place.wheel("tiny-words", "1.0", TINY);
    fs::write(place.wheels.join("requirements.txt"), "tiny-words").unwrap();
    let requirements = place.wheels.join("requirements.txt");
    let script = "import sys, tiny_words\nprint(tiny_words.word, *sys.version_info[:3], sys.executable)\n";
    fs::write(place.coracle.workspace().join("script.py"), script).unwrap();
    let names = ["python", "python3", "/usr/bin/env python", "/usr/bin/env python3"];
    let bash = names.map(|name| format!("{name} script.py")).join("; ");
    let without = place.coracle.run("bash", &bash, &[]);
    assert!(without["stderr"].as_str().unwrap().contains("No module named 'tiny_words'"), "{without:#}");
    place.settings(&json!({ "execution": { "requirements": requirements } }));
    place.done(&["sync"]);
    let own = place.coracle.python("import sys\n'%d %d %d' % sys.version_info[:3]");
    let line = format!("first {} /coracle/bin/python", own.as_str().unwrap());
    let execution = place.coracle.run("bash", &bash, &[]);
    let lines: Vec<&str> = execution["stdout"].as_str().unwrap().lines().collect();
    assert_eq!(lines.len(), 4, "as {who:?}: {execution:#}");
    assert!(lines.iter().all(|said| said.starts_with(&line)), "as {who:?}: {execution:#}");
    let code = "import subprocess, sys\nfrom multiprocessing import get_context
def run(*command):
    return subprocess.run([*command, 'script.py'], capture_output=True, text=True, check=True).stdout.strip()
with get_context('spawn').Pool(1) as pool:
    spawned = pool.apply(eval, ('__import__(\"tiny_words\").word',))
[run(sys.executable), run('python'), spawned]";
    let execution = place.coracle.run("python", code, &[]);
    let ran = |name: &str| format!("first {} /coracle/bin/{name}", own.as_str().unwrap());
    assert_eq!(execution["result"], json!([ran("python"), ran("python"), "first"]), "as {who:?}: {execution:#}");
}

each_user!(a_server_preloads_configured_modules);
/// Preloaded modules are there before the code imports them, once in every sandbox.
fn a_server_preloads_configured_modules(who: As) {
    let place = Place::new(who);
    place.wheel("tiny-words", "1.0", TINY);
    place.wheel("broken-words", "1.0", "raise ValueError('no')");
    place.wheel(
        "busy-words",
        "1.0",
        "import threading\nthreading.Thread(target=threading.Event().wait, daemon=True).start()",
    );
    fs::write(place.wheels.join("requirements.txt"), "tiny-words\nbroken-words\nbusy-words\n").unwrap();
    let requirements = place.wheels.join("requirements.txt");
    let settings = |preload: &[&str]| {
        place.settings(&json!({ "execution": { "requirements": requirements, "preload": preload } }));
    };
    settings(&["tiny_words", "broken_words", "missing_words"]);
    place.done(&["sync"]);
    let look = "import sys; [name in sys.modules for name in ('tiny_words', 'broken_words', 'decimal')]";
    let (answer, said) = ask(&place, look);
    assert_eq!(answer, json!([true, false, true]), "as {who:?}: {said}");
    for module in ["broken_words", "missing_words"] {
        assert!(said.contains(&format!("execution.preload: cannot import {module} in advance")), "{said}");
    }
    assert!(!said.contains("import tiny_words"), "{said}");
    settings(&[]);
    // Without preloading, the first sandbox does not wait for a zygote.
    assert_eq!(ask(&place, look).0, json!([false, false, false]), "as {who:?}");
    settings(&["busy_words"]);
    let (_, said) = ask(&place, "1");
    assert!(said.contains("execution.preload: busy_words starts threads"), "as {who:?}: {said}");
    settings(&["os; import x"]);
    let output = place.command(&["mcp"]).output().unwrap();
    assert_eq!(output.status.code(), Some(2), "{output:?}");
}

/// Runs code on a server, and returns its result and all other output.
fn ask(place: &Place, code: &str) -> (Value, String) {
    let mut command = place.command(&["mcp"]);
    let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let mut stdin = child.stdin.take().unwrap();
    let client = json!({ "name": "test", "version": "1" });
    let start = json!({ "protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": client });
    let call = json!({ "name": "execute_code", "arguments": { "code": code } });
    for message in [
        json!({ "jsonrpc": "2.0", "id": 1, "method": "initialize", "params": start }),
        json!({ "jsonrpc": "2.0", "method": "notifications/initialized" }),
        json!({ "jsonrpc": "2.0", "id": 2, "method": "tools/call", "params": call }),
    ] {
        writeln!(stdin, "{message}").unwrap();
    }
    let reader = std::io::BufReader::new(child.stdout.take().unwrap());
    let mut whole = Value::Null;
    for line in std::io::BufRead::lines(reader) {
        let message: Value = serde_json::from_str(&line.unwrap()).unwrap();
        if message["id"] == 2 {
            whole = message;
            break;
        }
    }
    drop(stdin);
    let output = child.wait_with_output().unwrap();
    let said = format!("{whole} {}", String::from_utf8_lossy(&output.stderr));
    (whole["result"]["structuredContent"]["result"].clone(), said)
}
