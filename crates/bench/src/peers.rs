//! Other ways to isolate Python on this machine: found, tried once, and measured if they work.

use crate::program::{Program, find};
use anyhow::{Context, bail};
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::Stdio;

/// Interpreter of the sandboxes, so that peers can use the same one.
#[derive(Clone, Debug)]
pub(crate) struct Interpreter {
    pub(crate) path: PathBuf,
    /// Folders that the interpreter needs.
    pub(crate) prefixes: Vec<PathBuf>,
    /// Modules of the standard library that a one-shot sandbox has imported.
    pub(crate) imports: Vec<String>,
}

/// Peer that works on this machine.
#[derive(Debug)]
pub(crate) struct Peer {
    pub(crate) program: Program,
    /// Description for the table.
    pub(crate) how: String,
    /// Removed when dropped.
    _container: Option<Container>,
}

/// Maximum number of images that are tried.
const IMAGES_TRIED: usize = 10;

/// Time after which an abandoned container ends, in seconds.
const CONTAINER_SECONDS: u32 = 1_800;

/// Finds a peer, or the reason why it is skipped. Containers run `image` if one is named.
pub(crate) async fn probe(name: &str, interpreter: &Interpreter, image: Option<&str>) -> anyhow::Result<Peer> {
    let peer = match name {
        "bwrap" => bwrap(interpreter)?,
        "docker_run" => run("docker", image).await?,
        "docker_exec" => exec("docker", image).await?,
        "podman_run" => run("podman", image).await?,
        "runsc" => runsc(interpreter)?,
        other => bail!("unknown peer {other}"),
    };
    peer.program.output().await?;
    Ok(peer)
}

fn installed(name: &str) -> anyhow::Result<OsString> {
    find(name).map(OsString::from).with_context(|| format!("{name} is not on PATH"))
}

/// bubblewrap with its usual options, and with the interpreter and imports of a one-shot sandbox.
fn bwrap(interpreter: &Interpreter) -> anyhow::Result<Peer> {
    let mut line = vec![installed("bwrap")?];
    line.extend(["--unshare-all", "--die-with-parent", "--new-session", "--clearenv"].map(OsString::from));
    let system = ["/usr", "/bin", "/lib", "/lib64", "/etc"].map(Path::new);
    let own = interpreter.prefixes.iter().map(PathBuf::as_path).filter(|prefix| !prefix.starts_with("/usr"));
    for folder in system.into_iter().chain(own) {
        line.extend([OsString::from("--ro-bind-try"), folder.into(), folder.into()]);
    }
    line.extend(["--proc", "/proc", "--dev", "/dev", "--tmpfs", "/tmp", "--chdir", "/tmp"].map(OsString::from));
    let code = format!("import {}", interpreter.imports.join(", "));
    line.extend([interpreter.path.clone().into(), "-I".into(), "-c".into(), code.into()]);
    let how =
        format!("bwrap --unshare-all … python3 -I, with the {} modules of a cold sandbox", interpreter.imports.len());
    Ok(Peer { program: Program::new(line), how, _container: None })
}

fn runsc(interpreter: &Interpreter) -> anyhow::Result<Peer> {
    let mut line = vec![installed("runsc")?];
    if !rustix::process::geteuid().is_root() {
        line.push("--rootless".into());
    }
    line.extend(["--network=none", "do"].map(OsString::from));
    line.extend([interpreter.path.clone().into(), "-I".into(), "-c".into(), "pass".into()]);
    Ok(Peer { program: Program::new(line), how: "runsc do python3 -I -c pass".to_owned(), _container: None })
}

async fn run(engine: &str, image: Option<&str>) -> anyhow::Result<Peer> {
    let image = image_with_python(engine, image).await?;
    let how = format!("{engine} run --rm {image} python3 -I -c pass");
    Ok(Peer { program: run_in(engine, &image)?, how, _container: None })
}

fn run_in(engine: &str, image: &str) -> anyhow::Result<Program> {
    let mut line = vec![installed(engine)?];
    line.extend(
        ["run", "--rm", "--pull=never", "--network=none", "--entrypoint=python3", image, "-I", "-c", "pass"]
            .map(OsString::from),
    );
    Ok(Program::new(line))
}

async fn exec(engine: &str, image: Option<&str>) -> anyhow::Result<Peer> {
    let image = image_with_python(engine, image).await?;
    exec_into(engine, &image).await
}

/// Starts a container per user, for `docker exec`.
pub(crate) async fn containers(people: u32, image: Option<&str>) -> anyhow::Result<Vec<Peer>> {
    let image = image_with_python("docker", image).await?;
    let mut peers = Vec::new();
    for _ in 0..people {
        peers.push(exec_into("docker", &image).await?);
    }
    Ok(peers)
}

async fn exec_into(engine: &str, image: &str) -> anyhow::Result<Peer> {
    let wait = format!("import time; time.sleep({CONTAINER_SECONDS})");
    let program = installed(engine)?;
    let mut line = vec![program.clone()];
    let arguments = [
        "run",
        "--detach",
        "--rm",
        "--init",
        "--pull=never",
        "--network=none",
        "--entrypoint=python3",
        image,
        "-c",
        &wait,
    ];
    line.extend(arguments.map(OsString::from));
    let started = Program::new(line).output().await?;
    let id = String::from_utf8_lossy(&started.stdout).trim().to_owned();
    let container = Container { engine: program.clone(), id: id.clone() };
    let mut line = vec![program];
    line.extend(["exec", &id, "python3", "-I", "-c", "pass"].map(OsString::from));
    let how = format!("{engine} exec into a running {image}");
    Ok(Peer { program: Program::new(line), how, _container: Some(container) })
}

/// Finds a local image with `python3`: the named one, or the first that works. Nothing is pulled.
async fn image_with_python(engine: &str, named: Option<&str>) -> anyhow::Result<String> {
    let program = installed(engine)?;
    if let Some(image) = named {
        let tried = run_in(engine, image)?.output().await;
        return tried.map(|_| image.to_owned()).with_context(|| format!("the image {image} of --image"));
    }
    let list =
        Program::new([program, "images".into(), "--format".into(), "{{.Repository}}:{{.Tag}}".into()]).output().await?;
    let list = String::from_utf8_lossy(&list.stdout).into_owned();
    let mut images: Vec<&str> = list.lines().filter(|image| !image.contains("<none>")).collect();
    images.sort_by_key(|image| !image.contains("python"));
    let mut reason = "there are no images".to_owned();
    for image in images.iter().take(IMAGES_TRIED) {
        match run_in(engine, image)?.output().await {
            Ok(_) => return Ok((*image).to_owned()),
            Err(error) => reason = format!("{image}: {error:#}"),
        }
    }
    bail!(
        "{engine} has no local image whose python3 starts ({reason}); choose one with --image, or create one from a folder: \
         tar -c -C FOLDER . | {engine} import - python"
    )
}

#[derive(Debug)]
struct Container {
    engine: OsString,
    id: String,
}

impl Drop for Container {
    fn drop(&mut self) {
        let mut command = std::process::Command::new(&self.engine);
        command.args(["rm", "--force", &self.id]).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        if !command.status().is_ok_and(|status| status.success()) {
            tracing::warn!(container = self.id, "cannot remove the container; it ends within {CONTAINER_SECONDS} s");
        }
    }
}
