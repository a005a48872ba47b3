use crate::setup::Setup;
use anyhow::Context;
use coracle_sandbox::{NativeBackend, NativeConfig, Packages};
use coracle_types::Limits;
use std::sync::Arc;

/// Creates the native backend, as in a server.
pub(crate) fn native(
    setup: &Setup,
    pool: usize,
    limits: Limits,
    packages: Packages,
) -> anyhow::Result<Arc<NativeBackend>> {
    let config = NativeConfig {
        home: setup.home.clone(),
        launcher: std::env::current_exe().context("cannot find this program")?,
        python: setup.python.clone(),
        pool,
        preload: true,
        require_full_isolation: false,
        folders: Vec::new(),
        limits,
    };
    Ok(Arc::new(NativeBackend::new(config).with_packages(packages)))
}
