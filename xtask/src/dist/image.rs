//! The container image of the server, as an archive that `docker load`, `podman load` and `ctr image import` read.
//!
//! The archive is an OCI layout. Engines that know only Docker's own format find `manifest.json`, which names the same
//! files.

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::time::{Duration, UNIX_EPOCH};

use anyhow::{Context as _, Result};
use serde_json::{Value, json};

use super::archive::{Effort, Tree, gzip};
use super::checksums::sha256;
use super::contents::{LOCAL, SUMMARY};
use super::{Contents, rootfs};

/// User and group of the server; `rootfs.rs` gives them a name.
const USER: u64 = 1000;

/// The data folder, which a volume keeps.
const DATA: &str = "/data";

const PORT: u16 = 8989;

/// A layer of files: the digest of the archive as it is stored, and as it is unpacked.
struct Layer {
    stored: Value,
    unpacked: String,
}

/// The files of the image by their digests.
#[derive(Default)]
struct Blobs(Tree);

impl Blobs {
    /// Adds a file and returns its descriptor.
    fn add(&mut self, media_type: &str, bytes: &[u8]) -> Value {
        let digest = sha256(bytes);
        self.0.file(format!("blobs/sha256/{digest}"), bytes);
        json!({ "mediaType": media_type, "digest": format!("sha256:{digest}"), "size": bytes.len() })
    }

    fn add_layer(&mut self, archive: &[u8], effort: Effort) -> Result<Layer> {
        let stored = self.add("application/vnd.oci.image.layer.v1.tar+gzip", &gzip(archive, effort)?);
        Ok(Layer { stored, unpacked: format!("sha256:{}", sha256(archive)) })
    }
}

pub(super) fn make(contents: &Contents, effort: Effort, out: &Path) -> Result<PathBuf> {
    let folder = tempfile::tempdir().context("cannot create a temporary folder")?;
    let base = rootfs::make(contents.stamp, folder.path())?;
    let base = fs::read(&base).with_context(|| format!("cannot read {}", base.display()))?;
    let archive = assemble(contents, &base, effort)?;
    let path = out.join(format!("coracle-{}-{}-image.tar", contents.version, contents.needs.processor.name()));
    fs::write(&path, archive).with_context(|| format!("cannot write {}", path.display()))?;
    Ok(path)
}

fn assemble(contents: &Contents, base: &[u8], effort: Effort) -> Result<Vec<u8>> {
    let mut blobs = Blobs::default();
    let base = blobs.add_layer(base, effort)?;
    let own = blobs.add_layer(&own_files(contents)?, effort)?;
    let text = |value: &Value| serde_json::to_vec(value).context("cannot write the manifest");
    let settings = text(&settings(contents, [&base, &own]))?;
    let settings = blobs.add("application/vnd.oci.image.config.v1+json", &settings);
    let manifest = text(&json!({
        "schemaVersion": 2,
        "mediaType": MANIFEST,
        "config": settings,
        "layers": [base.stored, own.stored],
    }))?;
    let mut manifest = blobs.add(MANIFEST, &manifest);
    manifest["platform"] = json!({ "architecture": contents.needs.processor.debian(), "os": "linux" });
    manifest["annotations"] = json!({ "org.opencontainers.image.ref.name": contents.version });
    let mut tree = blobs.0;
    let index = json!({ "schemaVersion": 2, "mediaType": INDEX, "manifests": [manifest] });
    tree.file("index.json", text(&index)?);
    tree.file("oci-layout", text(&json!({ "imageLayoutVersion": "1.0.0" }))?);
    let docker = json!([{
        "Config": path(&settings),
        "RepoTags": [format!("coracle:{}", contents.version)],
        "Layers": [path(&base.stored), path(&own.stored)],
    }]);
    tree.file("manifest.json", text(&docker)?);
    tree.with_folders().tar("", contents.stamp)
}

const MANIFEST: &str = "application/vnd.oci.image.manifest.v1+json";
const INDEX: &str = "application/vnd.oci.image.index.v1+json";

fn path(descriptor: &Value) -> String {
    let digest = descriptor["digest"].as_str().unwrap_or_default();
    format!("blobs/{}", digest.replace(':', "/"))
}

fn own_files(contents: &Contents) -> Result<Vec<u8>> {
    let mut tree = Tree::default();
    tree.program("usr/local/bin/coracle", &contents.program);
    tree.link("usr/local/bin/coracle-mcp", "coracle");
    tree.file("usr/local/share/doc/coracle/LICENSE", &contents.licence);
    // `coracle self` tells by it that there is no package to remove.
    tree.file("usr/local/share/doc/coracle/IMAGE", format!("coracle:{}\n", contents.version));
    contents.add_documentation(&mut tree, "usr/local/", &LOCAL);
    // A new volume gets the owner of the folder that it covers.
    tree.folder(DATA.trim_start_matches('/'), USER);
    tree.with_folders().tar("", contents.stamp)
}

fn settings(contents: &Contents, layers: [&Layer; 2]) -> Value {
    let created = humantime::format_rfc3339_seconds(UNIX_EPOCH + Duration::from_secs(contents.stamp)).to_string();
    let mut labels = json!({
        "org.opencontainers.image.title": "coracle",
        "org.opencontainers.image.description": SUMMARY,
        "org.opencontainers.image.licenses": "Apache-2.0",
        "org.opencontainers.image.version": contents.version,
        "org.opencontainers.image.created": created,
    });
    if let Some(commit) = &contents.commit {
        labels["org.opencontainers.image.revision"] = json!(commit);
    }
    json!({
        "created": created,
        "architecture": contents.needs.processor.debian(),
        "os": "linux",
        "config": {
            "User": format!("{USER}:{USER}"),
            "Env": [
                "PATH=/usr/local/bin:/usr/bin:/bin",
                "LANG=C.UTF-8",
                format!("CORACLE_HOME={DATA}"),
                format!("HOME={DATA}"),
                // The port is open to others: without this, the server would refuse to start before there are users.
                "CORACLE_SERVER_AUTH=required",
            ],
            "Entrypoint": ["/usr/local/bin/coracle"],
            "Cmd": ["up", "--host", "0.0.0.0"],
            "ExposedPorts": { format!("{PORT}/tcp"): {} },
            "Volumes": { DATA: {} },
            "WorkingDir": DATA,
            "Labels": labels,
        },
        "rootfs": { "type": "layers", "diff_ids": layers.map(|layer| &layer.unpacked) },
        "history": [
            { "created": created, "comment": "Debian with Python and bash" },
            { "created": created, "comment": "Coracle" },
        ],
    })
}

/// Unpacks the layers of an image below `root`, as an engine does.
pub(super) fn unpack(image: &Path, root: &Path) -> Result<()> {
    let folder = tempfile::tempdir().context("cannot create a temporary folder")?;
    let file = File::open(image).with_context(|| format!("cannot open {}", image.display()))?;
    tar::Archive::new(file).unpack(folder.path()).context("cannot unpack the image")?;
    let read = |path: &str| -> Result<Value> {
        let bytes = fs::read(folder.path().join(path)).with_context(|| format!("cannot read {path} of the image"))?;
        serde_json::from_slice(&bytes).with_context(|| format!("{path} of the image is damaged"))
    };
    let manifest = read(&path(&read("index.json")?["manifests"][0]))?;
    for layer in manifest["layers"].as_array().context("the image has no layers")? {
        let file = File::open(folder.path().join(path(layer))).context("cannot open a layer")?;
        let mut archive = tar::Archive::new(flate2::read::GzDecoder::new(file));
        archive.set_preserve_permissions(true);
        archive.set_preserve_ownerships(crate::needs::is_root());
        archive.unpack(root).context("cannot unpack a layer")?;
    }
    Ok(())
}
