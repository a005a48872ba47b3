//! The packages for npm: one with the program for each platform, and one that depends on all of them.
//!
//! npm installs of the optional dependencies only the one whose `os`, `cpu` and `libc` fit the machine.

use std::rc::Rc;

use anyhow::{Context as _, Result};
use serde_json::{Value, json};

use super::Contents;
use super::archive::{Effort, Tree, gzip};
use super::contents::{DESCRIPTION, LOCAL, PACKAGE, SUMMARY};

const LAUNCHER: &[u8] = include_bytes!("../../dist/npm/coracle.js");

/// The folder that every package for npm has its files in.
const FOLDER: &str = "package/";

pub(super) fn make(contents: &Contents, effort: Effort) -> Result<Vec<(String, Vec<u8>)>> {
    let platform = format!("{PACKAGE}-linux-{}", contents.needs.processor.npm());
    Ok(vec![root(contents, &platform, effort)?, program(contents, &platform, effort)?])
}

fn root(contents: &Contents, platform: &str, effort: Effort) -> Result<(String, Vec<u8>)> {
    let mut tree = Tree::default();
    tree.program("bin/coracle.js", &Rc::from(LAUNCHER));
    tree.file("LICENSE", &contents.licence);
    tree.file("README.md", DESCRIPTION);
    contents.add_documentation(&mut tree, "", &LOCAL);
    let pages: Vec<String> = contents.man_pages.keys().map(|name| format!("{}/{name}", LOCAL.man)).collect();
    let manifest = json!({
        "name": PACKAGE,
        "version": contents.version,
        "description": SUMMARY,
        "license": "Apache-2.0",
        "bin": { "coracle": "bin/coracle.js", PACKAGE: "bin/coracle.js" },
        "man": pages,
        "engines": { "node": ">=18" },
        "optionalDependencies": { platform: contents.version },
    });
    packed(&manifest, PACKAGE, tree, contents, effort)
}

fn program(contents: &Contents, name: &str, effort: Effort) -> Result<(String, Vec<u8>)> {
    let mut tree = Tree::default();
    tree.program("bin/coracle", &contents.program);
    tree.file("LICENSE", &contents.licence);
    tree.file("README.md", format!("The coracle program for one platform. Install `{PACKAGE}` instead.\n"));
    let manifest = json!({
        "name": name,
        "version": contents.version,
        "description": format!("The coracle program for Linux on {}", contents.needs.processor.name()),
        "license": "Apache-2.0",
        "os": ["linux"],
        "cpu": [contents.needs.processor.npm()],
        "libc": ["glibc"],
        // Tools that keep packages in one compressed file cannot start a program from it.
        "preferUnplugged": true,
    });
    packed(&manifest, name, tree, contents, effort)
}

fn packed(
    manifest: &Value,
    name: &str,
    mut tree: Tree,
    contents: &Contents,
    effort: Effort,
) -> Result<(String, Vec<u8>)> {
    let text = serde_json::to_string_pretty(manifest).context("cannot write package.json")?;
    tree.file("package.json", format!("{text}\n"));
    let archive = tree.tar(FOLDER, contents.stamp)?;
    Ok((format!("{name}-{}.tgz", contents.version), gzip(&archive, effort)?))
}
