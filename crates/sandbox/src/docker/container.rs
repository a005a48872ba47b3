//! One container: how it is made, and the agent in it.

use super::DockerConfig;
use super::engine::{Engine, told};
use super::labels::{SERVER, Server};
use super::mux::{Hello, Mux, START};
use super::streams::Streams;
use crate::native::instance::random_id;
use crate::{SandboxError, Spec};
use base64::Engine as _;
use bollard::container::{AttachContainerResults, LogOutput};
use bollard::models::{ContainerCreateBody, HostConfig, HostConfigLogConfig, Mount, MountType};
use bollard::query_parameters::{AttachContainerOptions, CreateContainerOptions};
use bytes::BytesMut;
use coracle_types::Limits;
use futures::StreamExt as _;
use serde_json::json;
use std::collections::HashMap;
use std::fs::{self, DirBuilder, Permissions};
use std::os::unix::fs::{DirBuilderExt as _, MetadataExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;
use tokio::io::AsyncWriteExt as _;

/// Maximum time for the agent to be ready. A virtual machine may be below it.
const READY_WITHIN: Duration = Duration::from_secs(60);

/// How many calls at their limits a container has room for, and what the agent needs besides.
const CALLS: u64 = 4;
const AGENT_BYTES: u64 = 256_000_000;
const AGENT_PROCESSES: u64 = 32;
const SHARED_MEMORY: i64 = 64 * 1024;
const CORACLE_TMPFS: &str = "rw,nosuid,nodev,exec,mode=755,size=16m";

/// The files of the guest in the container.
const GUEST: &str = "/guest";
const BOOT: &str = "import sys; sys.path.append('/guest'); from coracle_guest import container; \
                    container.prepare_files(); sys.path[-1] = '/coracle'; container.main()";

/// The agent's capabilities: to start code as another user, and to kill it. Code has none.
const CAPABILITIES: [&str; 3] = ["SETUID", "SETGID", "KILL"];

/// What the containers of all users have in common.
#[derive(Debug)]
pub(super) struct Common {
    pub(super) engine: Engine,
    pub(super) server: Server,
    /// The folder of this instance.
    pub(super) dir: PathBuf,
    /// The guest's files.
    pub(super) guest: PathBuf,
    /// The programs that seal a sandbox, for the agent.
    pub(super) filters: Vec<Vec<u8>>,
    pub(super) config: DockerConfig,
}

/// What a container is for. Another call of the same user gets the same container if this is equal.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct Purpose {
    pub(super) workspace: PathBuf,
    pub(super) servers: Option<PathBuf>,
    pub(super) skills: Option<PathBuf>,
    /// The limits that apply to a container.
    pub(super) tmp_mb: u64,
    pub(super) memory_mb: u64,
    pub(super) processes: u64,
    pub(super) ids: (u32, u32),
    /// A folder of the workspace that code must not see.
    pub(super) hidden: Option<PathBuf>,
}

impl Purpose {
    pub(super) fn new(
        spec: &Spec,
        workspace: PathBuf,
        hidden: Option<PathBuf>,
        ids: (u32, u32),
        usual: &Limits,
    ) -> Self {
        Self {
            workspace,
            hidden,
            servers: spec.servers.clone(),
            skills: spec.skills.clone(),
            tmp_mb: spec.limits.tmp_mb,
            memory_mb: spec.limits.memory_mb.max(usual.memory_mb),
            processes: spec.limits.processes.max(usual.processes),
            ids,
        }
    }
}

/// A running container.
#[derive(Debug)]
pub(super) struct Container {
    pub(super) id: String,
    pub(super) mux: Arc<Mux>,
    pub(super) hello: Hello,
    dir: PathBuf,
    common: Arc<Common>,
}

/// A container that is being made. It is removed on drop, unless it is complete.
struct Draft {
    id: Option<String>,
    dir: PathBuf,
    common: Arc<Common>,
}

impl Drop for Draft {
    fn drop(&mut self) {
        if let Some(id) = self.id.take() {
            remove_soon(&self.common.engine, id, std::mem::take(&mut self.dir));
        } else if !self.dir.as_os_str().is_empty() {
            remove_folder(&self.dir);
        }
    }
}

fn remove_folder(dir: &Path) {
    if let Err(errno) = crate::native::disk::remove(dir) {
        tracing::warn!(dir = %dir.display(), %errno, "cannot remove a container's folder");
    }
}

fn remove_soon(engine: &Engine, id: String, dir: PathBuf) {
    let engine = engine.clone();
    let removal = async move {
        engine.remove(&id).await;
        let _ = tokio::task::spawn_blocking(move || remove_folder(&dir)).await;
    };
    // Without a runtime, the agent ends with its connection, and the engine removes the container.
    if let Ok(runtime) = tokio::runtime::Handle::try_current() {
        runtime.spawn(removal);
    }
}

fn unavailable(what: &str, error: impl std::fmt::Display) -> SandboxError {
    SandboxError::Unavailable(format!("{what}: {error}"))
}

impl Container {
    /// Makes and starts a container, and waits for its agent.
    pub(super) async fn start(common: &Arc<Common>, purpose: &Purpose) -> Result<Self, SandboxError> {
        let in_dir = |error: std::io::Error| unavailable(&format!("data folder {}", common.dir.display()), error);
        let name = random_id().map_err(in_dir)?;
        let dir = common.dir.join("containers").join(&name);
        let calls = dir.join("calls");
        DirBuilder::new().recursive(true).mode(0o700).create(&dir).map_err(in_dir)?;
        let mut draft = Draft { id: None, dir: dir.clone(), common: Arc::clone(common) };
        fs::create_dir(&calls).map_err(in_dir)?;
        fs::set_permissions(&calls, Permissions::from_mode(0o755)).map_err(in_dir)?;
        make_artifacts(&calls.join("1"), purpose.ids).map_err(in_dir)?;
        for (file, text) in [("passwd", PASSWD), ("group", GROUP)] {
            fs::write(dir.join(file), text).map_err(in_dir)?;
            fs::set_permissions(dir.join(file), Permissions::from_mode(0o644)).map_err(in_dir)?;
        }
        let docker = &common.engine.docker;
        let options = CreateContainerOptions { name: Some(format!("coracle-{name}")), platform: String::new() };
        let created = docker.create_container(Some(options), body(common, purpose, &dir)).await;
        let id = created.map_err(|error| cannot_create(&common.config.image, &error))?.id;
        draft.id = Some(id.clone());
        let options =
            AttachContainerOptions { stream: true, stdin: true, stdout: true, stderr: true, ..Default::default() };
        let attached = docker
            .attach_container(&id, Some(options))
            .await
            .map_err(|error| unavailable("cannot attach to a container", told(&error)))?;
        let mux = connect(attached);
        docker
            .start_container(&id, None::<bollard::query_parameters::StartContainerOptions>)
            .await
            .map_err(|error| unavailable("cannot start a container", told(&error)))?;
        let encode = |bytes: &Vec<u8>| base64::engine::general_purpose::STANDARD.encode(bytes);
        let start = json!({
            "preload": common.config.preload,
            "uid": purpose.ids.0,
            "gid": purpose.ids.1,
            "filters": common.filters.iter().map(encode).collect::<Vec<_>>(),
            "tmp_bytes": purpose.tmp_mb * 1_000_000,
        });
        mux.tell(0, START, &start).map_err(|error| unavailable("cannot talk to a container", error))?;
        let hello = match tokio::time::timeout(READY_WITHIN, mux.hello()).await {
            Ok(Ok(hello)) => hello,
            Ok(Err(reason)) => return Err(unavailable("the agent of a container failed", reason)),
            Err(_) => return Err(unavailable("the agent of a container is not ready", format!("{READY_WITHIN:?}"))),
        };
        let inode = fs::metadata(&purpose.workspace).map_err(in_dir)?.ino();
        if hello.apart && hello.workspace != inode {
            return Err(SandboxError::Workspace {
                path: purpose.workspace.clone(),
                reason: "is another folder where the engine runs: Coracle and the engine must see the same files"
                    .into(),
            });
        }
        for (bit, module) in common.config.preload.iter().enumerate().take(u64::BITS as usize) {
            if hello.failed >> bit & 1 == 1 {
                tracing::warn!("execution.preload: cannot import {module} in advance: the image does not have it");
            }
        }
        tracing::debug!(container = id, version = ?hello.version, "a container is ready");
        draft.id = None;
        draft.dir = PathBuf::new();
        Ok(Self { id, mux, hello, dir, common: Arc::clone(common) })
    }

    /// Asks the agent for a sandbox. Returns its streams and the folder of its artifacts.
    pub(super) fn open(
        &self,
        ids: (u32, u32),
        limits: &Limits,
        file_bytes: u64,
    ) -> Result<(Streams, PathBuf), SandboxError> {
        let number = self.mux.number();
        let artifacts = self.dir.join("calls").join(number.to_string());
        if number > 1 {
            make_artifacts(&artifacts, ids)
                .map_err(|error| unavailable("cannot make a folder for artifacts", error))?;
        }
        let memory = limits.memory_bytes();
        let wanted = json!({
            "memory": memory,
            "processes": limits.processes,
            "open_files": limits.open_files,
            "file": file_bytes,
            "data": memory.saturating_mul(ADDRESSES_TIMES).max(memory.saturating_add(LEAST_ADDRESSES)),
        });
        let streams =
            self.mux.open(number, &wanted).map_err(|error| unavailable("cannot talk to a container", error))?;
        Ok((streams, artifacts))
    }

    /// Removes the container, and returns when it is gone.
    pub(super) async fn remove(&self) {
        self.mux.lose("the container was removed");
        self.common.engine.remove(&self.id).await;
        let dir = self.dir.clone();
        let _ = tokio::task::spawn_blocking(move || remove_folder(&dir)).await;
    }
}

impl Drop for Container {
    fn drop(&mut self) {
        if self.dir.exists() {
            self.mux.lose("the container was removed");
            remove_soon(&self.common.engine, self.id.clone(), self.dir.clone());
        }
    }
}

/// The maximum address space of a process, as in the native backend without a cgroup.
const ADDRESSES_TIMES: u64 = 4;
const LEAST_ADDRESSES: u64 = 1 << 30;

const PASSWD: &str = "root:x:0:0:root:/:/bin/bash\ncoderunner:x:1000:1000::/tmp:/bin/bash\n";
const GROUP: &str = "root:x:0:\ncoderunner:x:1000:\n";

/// The environment of the agent and of code, as in the native backend.
fn environment() -> Vec<String> {
    crate::native::ENVIRONMENT_OF_CODE.iter().map(|(name, value)| format!("{name}={value}")).collect()
}

fn cannot_create(image: &str, error: &bollard::errors::Error) -> SandboxError {
    let is_missing = matches!(error, bollard::errors::Error::DockerResponseServerError { status_code: 404, .. });
    SandboxError::Unavailable(if is_missing {
        format!(
            "the engine has no image {image:?}: run `coracle image build`, or set execution.sandbox_image to an image \
             with python3 that the engine has ({})",
            told(error)
        )
    } else {
        format!("cannot create a container of the image {image:?}: {}", told(error))
    })
}

fn make_artifacts(folder: &Path, (uid, gid): (u32, u32)) -> std::io::Result<()> {
    fs::create_dir(folder)?;
    fs::set_permissions(folder, Permissions::from_mode(0o755))?;
    if rustix::process::geteuid().is_root() {
        std::os::unix::fs::chown(folder, Some(uid), Some(gid))?;
    }
    Ok(())
}

fn bind(source: &Path, target: &str, read_only: bool) -> Mount {
    Mount {
        source: Some(source.display().to_string()),
        target: Some(target.to_owned()),
        typ: Some(MountType::BIND),
        read_only: Some(read_only),
        ..Mount::default()
    }
}

fn body(common: &Common, purpose: &Purpose, dir: &Path) -> ContainerCreateBody {
    let config = &common.config;
    let calls = dir.join("calls");
    let program = format!("/coracle/{}", coracle_guest::PROGRAM);
    let mut mounts = vec![
        bind(&purpose.workspace, "/workspace", false),
        bind(&calls, "/calls", false),
        bind(&calls.join("1"), "/artifacts", false),
        bind(&common.guest, GUEST, true),
        bind(&config.program, &program, true),
        bind(&dir.join("passwd"), "/etc/passwd", true),
        bind(&dir.join("group"), "/etc/group", true),
    ];
    let empty = common.dir.join(crate::native::instance::EMPTY);
    let inside = |folder: &PathBuf| Path::new("/workspace").join(folder).display().to_string();
    mounts.extend(purpose.hidden.iter().map(|folder| bind(&empty, &inside(folder), true)));
    mounts.extend(purpose.servers.iter().map(|folder| bind(folder, "/coracle/servers", true)));
    mounts.extend(purpose.skills.iter().map(|folder| bind(folder, "/coracle/skills", true)));
    mounts.extend(config.folders.iter().map(|(folder, seen_at)| bind(folder, &seen_at.display().to_string(), true)));
    let memory = purpose.memory_mb.saturating_mul(1_000_000 * CALLS).saturating_add(AGENT_BYTES);
    let memory = i64::try_from(memory).unwrap_or(i64::MAX);
    let processes = purpose.processes.saturating_mul(CALLS).saturating_add(AGENT_PROCESSES);
    // All but one of the processors, so that one user cannot stop the others.
    let processors = (common.engine.processors - 1).max(1);
    let mut security = vec!["no-new-privileges", "seccomp=unconfined", "apparmor=unconfined", "label=disable"];
    if common.engine.is_podman {
        security.push("unmask=ALL");
    }
    let owned = |words: &[&str]| words.iter().map(|&word| word.to_owned()).collect::<Vec<_>>();
    let tmp = format!("rw,nosuid,nodev,exec,mode=1777,size={}", purpose.tmp_mb * 1_000_000);
    let host = HostConfig {
        auto_remove: Some(true),
        network_mode: Some("none".to_owned()),
        readonly_rootfs: Some(true),
        cap_drop: Some(owned(&["ALL"])),
        cap_add: Some(owned(&CAPABILITIES)),
        // The agent makes namespaces, mounts a private `/proc` in them, and installs the filter of the native backend,
        // which is stricter than the engine's, before it runs any code.
        security_opt: Some(owned(&security)),
        masked_paths: Some(Vec::new()),
        readonly_paths: Some(Vec::new()),
        tmpfs: Some(HashMap::from([("/tmp".to_owned(), tmp), ("/coracle".to_owned(), CORACLE_TMPFS.to_owned())])),
        memory: Some(memory),
        memory_swap: Some(memory),
        pids_limit: Some(i64::try_from(processes).unwrap_or(i64::MAX)),
        nano_cpus: Some(processors.saturating_mul(1_000_000_000)),
        // Code has no use for shared memory, which a sandbox that is alone in its container sees.
        shm_size: Some(SHARED_MEMORY),
        runtime: config.runtime.clone(),
        mounts: Some(mounts),
        // The output is ours, and not for a log file of the engine.
        log_config: Some(HostConfigLogConfig { typ: Some("none".to_owned()), config: None }),
        ..HostConfig::default()
    };
    ContainerCreateBody {
        image: Some(config.image.clone()),
        hostname: Some("coracle".to_owned()),
        user: Some("0:0".to_owned()),
        env: Some(environment()),
        entrypoint: Some(owned(&["python3", "-I", "-S", "-B", "-c", BOOT])),
        cmd: Some(Vec::new()),
        working_dir: Some("/".to_owned()),
        attach_stdin: Some(true),
        attach_stdout: Some(true),
        attach_stderr: Some(true),
        open_stdin: Some(true),
        // The agent ends when this server is gone, whatever has happened to it.
        stdin_once: Some(true),
        tty: Some(false),
        network_disabled: Some(true),
        labels: Some(HashMap::from([(SERVER.to_owned(), common.server.label())])),
        host_config: Some(host),
        ..ContainerCreateBody::default()
    }
}

/// Connects the streams of a container with a [`Mux`].
fn connect(attached: AttachContainerResults) -> Arc<Mux> {
    let AttachContainerResults { mut output, mut input } = attached;
    let (mux, mut sent) = Mux::new();
    tokio::spawn(async move {
        while let Some(bytes) = sent.recv().await {
            if input.write_all(&bytes).await.is_err() {
                break;
            }
            if sent.is_empty() && input.flush().await.is_err() {
                break;
            }
        }
        // The agent ends with its standard input.
        let _ = input.shutdown().await;
    });
    let heard = Arc::downgrade(&mux);
    tokio::spawn(async move {
        let mut buffer = BytesMut::new();
        loop {
            let piece = output.next().await;
            let Some(mux) = heard.upgrade() else { return };
            match piece {
                Some(Ok(LogOutput::StdOut { message } | LogOutput::Console { message })) => {
                    mux.hear(&mut buffer, &message);
                }
                Some(Ok(LogOutput::StdErr { message })) => mux.complain(&message),
                Some(Ok(LogOutput::StdIn { .. })) => {}
                Some(Err(error)) => mux.lose(&format!("the connection to the container failed: {}", told(&error))),
                None => mux.lose("the container ended"),
            }
            if mux.is_lost() {
                return;
            }
        }
    });
    mux
}
