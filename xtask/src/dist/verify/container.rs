//! Runs the container image: its files in namespaces of bubblewrap, and the whole of it where a Docker engine answers.

use std::io::{BufRead as _, BufReader, Read as _};
use std::path::Path;
use std::process::{Command, Stdio};

use anyhow::{Context as _, Result, ensure};

use super::{PROGRAM, Place, answered};
use crate::dist::Contents;
use crate::dist::contents::printed;
use crate::dist::image;

/// What a container needs to make sandboxes, as `coracle doctor` says it.
const OPTIONS: [&str; 6] = [
    "--security-opt",
    "seccomp=unconfined",
    "--security-opt",
    "apparmor=unconfined",
    "--security-opt",
    "systempaths=unconfined",
];

pub(super) fn image(place: &Place<'_>, package: &Path, contents: &Contents) -> Result<()> {
    let root = place.folder.join("root");
    std::fs::create_dir_all(&root).context("cannot create a root")?;
    image::unpack(package, &root)?;
    let mut inside = place.command("bwrap");
    inside
        .args(["--unshare-user", "--unshare-pid", "--uid", "1000", "--gid", "1000"])
        .arg("--bind")
        .arg(&root)
        .arg("/");
    inside.args(["--dev", "/dev", "--proc", "/proc", "--tmpfs", "/tmp", "--tmpfs", "/data", "--clearenv"]);
    inside.args(["--setenv", "CORACLE_HOME", "/data", "--setenv", "PATH", "/usr/local/bin:/usr/bin:/bin"]);
    inside.args(["/usr/local/bin/coracle", "exec", "-c", PROGRAM]);
    answered("the image's files", &mut inside)?;
    if has_engine() { docker(package, contents) } else { Ok(()) }
}

fn has_engine() -> bool {
    let answers = Command::new("docker").arg("info").stdout(Stdio::null()).stderr(Stdio::null()).status();
    let has_engine = answers.is_ok_and(|status| status.success());
    if !has_engine {
        eprintln!("not tried: docker load, because no Docker engine answers");
    }
    has_engine
}

fn docker(package: &Path, contents: &Contents) -> Result<()> {
    let docker = || Command::new("docker");
    printed(docker().args(["load", "--input"]).arg(package))?;
    let name = format!("coracle:{}", contents.version);
    let run = |arguments: &[&str]| {
        let mut command = docker();
        command.args(["run", "--rm", "--network", "none"]).args(OPTIONS).arg(&name).args(arguments);
        command
    };
    answered("docker run", &mut run(&["exec", "-c", PROGRAM]))?;
    answered("docker run, bash", &mut run(&["exec", "--lang", "bash", "-c", "echo $((6*7))"]))?;
    let told = printed(docker().args(["image", "inspect", "--format", "{{.Config.User}} {{.Config.Cmd}}", &name]))?;
    let told = String::from_utf8_lossy(&told);
    ensure!(told == "1000:1000 [up --host 0.0.0.0]\n", "{told}");
    let name_of_server = format!("coracle-verify-{}", std::process::id());
    let served = serve(&name_of_server, &name);
    if served.is_err() {
        let _ = docker().args(["rm", "--force", &name_of_server]).output();
    }
    served
}

/// Starts the server as the image does without arguments, asks it, and stops it.
fn serve(container: &str, image: &str) -> Result<()> {
    // A server that hangs must not hang the verification.
    let mut server = Command::new("timeout")
        .args(["60", "docker", "run", "--rm", "--network", "none", "--name", container])
        .args(OPTIONS)
        .arg(image)
        .stderr(Stdio::piped())
        .spawn()
        .context("cannot start docker")?;
    let mut said = BufReader::new(server.stderr.take().context("the server has no standard error")?);
    let mut text = String::new();
    while !text.contains("http://0.0.0.0:8989/mcp") {
        ensure!(said.read_line(&mut text).context("cannot read from docker")? > 0, "the server did not start: {text}");
    }
    let ask = "import urllib.request as http; print(http.urlopen('http://127.0.0.1:8989/health').status)";
    let answer = printed(Command::new("docker").args(["exec", container, "python3", "-c", ask]))?;
    ensure!(answer == b"200\n", "/health should answer with 200: {}", String::from_utf8_lossy(&answer));
    printed(Command::new("docker").args(["stop", container]))?;
    said.read_to_string(&mut text).context("cannot read from docker")?;
    let status = server.wait().context("cannot wait for docker")?;
    ensure!(status.success(), "the server should end well when it is stopped: {status}: {text}");
    eprintln!("docker run without arguments: serves, and stops");
    Ok(())
}
