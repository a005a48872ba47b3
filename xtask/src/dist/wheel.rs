//! The wheel for pip, pipx and uv.
//!
//! The program is a script of the wheel, so that installers put it on the path as it is. `coracle-mcp`, the command that
//! `uvx coracle-mcp` looks for, is a few lines of Python that become the program: a second copy would double the size.

use std::io::{Cursor, Write as _};

use anyhow::{Context as _, Result};
use base64::Engine as _;
use base64::prelude::BASE64_URL_SAFE_NO_PAD;
use sha2::{Digest as _, Sha256};
use zip::write::SimpleFileOptions;
use zip::{CompressionMethod, DateTime, ZipWriter};

use super::Contents;
use super::archive::{Content, Effort, Tree};
use super::contents::{DESCRIPTION, LOCAL, PACKAGE, SUMMARY};

/// The oldest glibc that has a tag of the form `manylinux_X_Y` in every installer.
const OLDEST_MINOR: u32 = 17;

pub(super) fn make(contents: &Contents, effort: Effort) -> Result<(String, Vec<u8>)> {
    let version = &contents.version;
    let glibc = contents.needs.glibc;
    let minor = if glibc.major == 2 { glibc.minor.max(OLDEST_MINOR) } else { glibc.minor };
    let tag = format!("py3-none-manylinux_{}_{minor}_{}", glibc.major, contents.needs.processor.name());
    let module = PACKAGE.replace('-', "_");
    let stem = format!("{module}-{version}");

    let mut tree = Tree::default();
    tree.program(format!("{stem}.data/scripts/coracle"), &contents.program);
    contents.add_documentation(&mut tree, &format!("{stem}.data/data/"), &LOCAL);
    tree.file(format!("{module}/__init__.py"), include_bytes!("../../dist/wheel/__init__.py"));
    tree.file(format!("{module}/__main__.py"), include_bytes!("../../dist/wheel/__main__.py"));
    let information = format!("{stem}.dist-info");
    tree.file(format!("{information}/licenses/LICENSE"), &contents.licence);
    tree.file(
        format!("{information}/METADATA"),
        format!(
            "Metadata-Version: 2.4\nName: {PACKAGE}\nVersion: {version}\nSummary: {SUMMARY}\n\
             License-Expression: Apache-2.0\nLicense-File: LICENSE\nRequires-Python: >=3.10\n\
             Classifier: Operating System :: POSIX :: Linux\nDescription-Content-Type: text/markdown\n\n{DESCRIPTION}"
        ),
    );
    tree.file(
        format!("{information}/WHEEL"),
        format!("Wheel-Version: 1.0\nGenerator: coracle xtask\nRoot-Is-Purelib: false\nTag: {tag}\n"),
    );
    tree.file(format!("{information}/entry_points.txt"), format!("[console_scripts]\n{PACKAGE} = {module}:main\n"));
    let record = format!("{information}/RECORD");
    let lines: Vec<String> = files(&tree).map(|(path, bytes, _)| line_of_record(path, bytes)).collect();
    tree.file(record.clone(), format!("{}{record},,\n", lines.concat()));
    Ok((format!("{stem}-{tag}.whl"), zipped(&tree, effort)?))
}

fn files(tree: &Tree) -> impl Iterator<Item = (&str, &[u8], u32)> {
    tree.entries().filter_map(|(path, content)| match content {
        Content::File(bytes) => Some((path, &**bytes, 0o644)),
        Content::Program(bytes) => Some((path, &**bytes, 0o755)),
        Content::Folder { .. } | Content::Link(_) => None,
    })
}

fn line_of_record(path: &str, bytes: &[u8]) -> String {
    format!("{path},sha256={},{}\n", BASE64_URL_SAFE_NO_PAD.encode(Sha256::digest(bytes)), bytes.len())
}

fn zipped(tree: &Tree, effort: Effort) -> Result<Vec<u8>> {
    let mut archive = ZipWriter::new(Cursor::new(Vec::new()));
    for (path, bytes, mode) in files(tree) {
        let options = SimpleFileOptions::default()
            .compression_method(CompressionMethod::Deflated)
            .compression_level(Some(i64::from(effort.level())))
            // Installers set times of their own; the first that the format has is as good as any.
            .last_modified_time(DateTime::default())
            .unix_permissions(mode);
        archive
            .start_file(path, options)
            .map_err(std::io::Error::other)
            .and_then(|()| archive.write_all(bytes))
            .with_context(|| format!("cannot add {path} to the wheel"))?;
    }
    Ok(archive.finish().context("cannot finish the wheel")?.into_inner())
}
