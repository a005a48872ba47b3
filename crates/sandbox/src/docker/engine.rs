//! The connection to the engine, and what it can do.

use super::labels::{SERVER, Server};
use crate::SandboxError;
use bollard::Docker;
use bollard::query_parameters::{ListContainersOptions, RemoveContainerOptions};
use rustix::process::geteuid;
use std::collections::HashMap;
use std::path::{Path, PathBuf};

/// Maximum time of a request to the engine, in seconds.
const PATIENCE: u64 = 60;

/// An engine that answers.
#[derive(Clone, Debug)]
pub(super) struct Engine {
    pub(super) docker: Docker,
    /// `docker 20.10.24`.
    pub(super) name: String,
    /// Whether it runs without root, so that the root of a container is the engine's user.
    pub(super) is_rootless: bool,
    pub(super) is_podman: bool,
    pub(super) processors: i64,
    /// What the engine cannot limit.
    pub(super) lacks: Vec<&'static str>,
    runtimes: Vec<String>,
    default_runtime: String,
}

fn unavailable(reason: String) -> SandboxError {
    SandboxError::Unavailable(reason)
}

/// Where an engine of this machine may listen, the usual places first.
fn usual_sockets() -> Vec<PathBuf> {
    let own = PathBuf::from(format!("/run/user/{}", geteuid().as_raw()));
    let mut sockets = vec![PathBuf::from("/var/run/docker.sock"), own.join("docker.sock")];
    sockets.extend([PathBuf::from("/run/podman/podman.sock"), own.join("podman/podman.sock")]);
    sockets
}

/// The socket that an address names. An engine elsewhere is refused.
pub(super) fn socket_of(host: &str) -> Result<PathBuf, SandboxError> {
    if let Some(path) = host.strip_prefix("unix://").or_else(|| host.starts_with('/').then_some(host)) {
        return Ok(PathBuf::from(path));
    }
    Err(unavailable(format!(
        "the engine at {host} is not used: workspaces are folders of this machine, which an engine reached over a network \
         cannot mount; set DOCKER_HOST to the socket of an engine on this machine, such as unix:///var/run/docker.sock, \
         or run Coracle where the engine runs"
    )))
}

impl Engine {
    /// Connects to the engine at this address, or else to the first one that answers in a usual place.
    pub(super) async fn connect(host: Option<&str>) -> Result<Self, SandboxError> {
        if let Some(host) = host {
            return Self::at(&socket_of(host)?).await;
        }
        let mut reasons = Vec::new();
        for socket in usual_sockets() {
            if !socket.exists() {
                continue;
            }
            match Self::at(&socket).await {
                Ok(engine) => return Ok(engine),
                Err(error) => reasons.push(error.to_string()),
            }
        }
        let looked: Vec<_> = usual_sockets().iter().map(|socket| socket.display().to_string()).collect();
        Err(unavailable(if reasons.is_empty() {
            format!(
                "no Docker or Podman engine was found: there is no socket at {}; start one, or set DOCKER_HOST to its \
                 socket",
                looked.join(", ")
            )
        } else {
            reasons.join("; ")
        }))
    }

    async fn at(socket: &Path) -> Result<Self, SandboxError> {
        let shown = socket.display();
        let failed = |error: bollard::errors::Error| {
            unavailable(format!(
                "no engine answers at {shown}: {}; start it (`systemctl start docker`), and make sure that this user may \
                 write to the socket",
                told(&error)
            ))
        };
        let address = format!("unix://{shown}");
        let docker = Docker::connect_with_unix(&address, PATIENCE, bollard::API_DEFAULT_VERSION).map_err(failed)?;
        let docker = docker.negotiate_version().await.map_err(failed)?;
        let (version, info) = (docker.version().await.map_err(failed)?, docker.info().await.map_err(failed)?);
        let components = version.components.unwrap_or_default();
        let is_podman = components.iter().any(|component| component.name.starts_with("Podman"));
        let security = info.security_options.unwrap_or_default();
        if security.iter().any(|option| option == "name=userns") {
            return Err(unavailable(format!(
                "the engine at {shown} maps users (userns-remap), so that no container can own a workspace; use an \
                 engine without it, or a rootless one"
            )));
        }
        let limits = [
            (info.memory_limit, "a limit on the memory of containers"),
            (info.pids_limit, "a limit on the processes of containers"),
        ];
        let name = if is_podman { "podman" } else { "docker" };
        Ok(Self {
            docker,
            name: format!("{name} {}", info.server_version.unwrap_or_default()),
            is_rootless: security.iter().any(|option| option == "name=rootless"),
            is_podman,
            lacks: limits.iter().filter(|(known, _)| *known != Some(true)).map(|(_, what)| *what).collect(),
            processors: info.ncpu.unwrap_or(1).max(1),
            runtimes: info.runtimes.unwrap_or_default().into_keys().collect(),
            default_runtime: info.default_runtime.unwrap_or_default(),
        })
    }

    /// Checks that the engine knows a runtime.
    pub(super) fn check_runtime(&self, wanted: Option<&str>) -> Result<(), SandboxError> {
        let Some(wanted) = wanted else { return Ok(()) };
        if self.runtimes.is_empty() || self.runtimes.iter().any(|runtime| runtime == wanted) {
            return Ok(());
        }
        let mut known = self.runtimes.clone();
        known.sort();
        Err(unavailable(format!(
            "the engine has no runtime {wanted:?}: it has {}; add it to `runtimes` in /etc/docker/daemon.json and restart \
             the engine, or change execution.docker.runtime",
            known.join(", ")
        )))
    }

    /// The runtime that containers get.
    pub(super) fn runtime(&self, wanted: Option<&str>) -> String {
        wanted.map_or_else(|| self.default_runtime.clone(), str::to_owned)
    }

    /// Removes the containers of servers that are gone. Returns how many there were.
    pub(super) async fn sweep(&self, server: &Server) -> usize {
        let filters = HashMap::from([("label".to_owned(), vec![SERVER.to_owned()])]);
        let options = ListContainersOptions { all: true, filters: Some(filters), ..ListContainersOptions::default() };
        let containers = match self.docker.list_containers(Some(options)).await {
            Ok(containers) => containers,
            Err(error) => {
                tracing::warn!(error = %told(&error), "cannot look for containers of earlier servers");
                return 0;
            }
        };
        let mut swept = 0;
        for container in containers {
            let (Some(id), Some(labels)) = (container.id, container.labels) else { continue };
            if labels.get(SERVER).is_some_and(|label| server.knows_as_dead(label)) {
                tracing::info!(container = %id, "removing the container of a server that is gone");
                self.remove(&id).await;
                swept += 1;
            }
        }
        swept
    }

    /// Kills and removes a container. One that is gone, or being removed, is fine.
    pub(super) async fn remove(&self, id: &str) {
        let options = RemoveContainerOptions { v: true, force: true, link: false };
        match self.docker.remove_container(id, Some(options)).await {
            Ok(()) => {}
            Err(bollard::errors::Error::DockerResponseServerError { status_code: 404 | 409, .. }) => {}
            Err(error) => tracing::warn!(container = id, error = %told(&error), "cannot remove a container"),
        }
    }
}

/// An error of the engine, without the client's words around it.
pub(super) fn told(error: &bollard::errors::Error) -> String {
    match error {
        bollard::errors::Error::DockerResponseServerError { message, .. } => message.trim().to_owned(),
        other => {
            let mut text = other.to_string();
            let mut source = std::error::Error::source(other);
            while let Some(inner) = source {
                text = format!("{text}: {inner}");
                source = inner.source();
            }
            text
        }
    }
}

#[cfg(test)]
mod tests {
    use super::socket_of;
    use std::path::Path;

    #[test]
    fn only_sockets_of_this_machine_are_used() {
        for host in ["unix:///run/docker.sock", "/run/docker.sock"] {
            assert_eq!(socket_of(host).unwrap(), Path::new("/run/docker.sock"));
        }
        for host in ["tcp://10.0.0.1:2375", "ssh://ada@far", "http://far", "https://far", "npipe:////./pipe/engine"] {
            let reason = socket_of(host).unwrap_err().to_string();
            assert!(reason.contains(host) && reason.contains("folders of this machine"), "{reason}");
        }
    }
}
