//! The tarball, for machines without a package manager that we serve.

use anyhow::Result;

use super::Contents;
use super::archive::{Effort, Tree, gzip};
use super::contents::{DESCRIPTION, LOCAL};

pub(super) fn make(contents: &Contents, effort: Effort) -> Result<(String, Vec<u8>)> {
    let name = format!("coracle-{}-{}-linux", contents.version, contents.needs.processor.name());
    let mut tree = Tree::default();
    tree.program("bin/coracle", &contents.program);
    tree.file("LICENSE", &contents.licence);
    tree.file("README.md", format!("{DESCRIPTION}\n{INSTALL}"));
    contents.add_documentation(&mut tree, "", &LOCAL);
    let archive = tree.tar(&format!("{name}/"), contents.stamp)?;
    Ok((format!("{name}.tar.gz"), gzip(&archive, effort)?))
}

/// The folders are those below `/usr/local`, so that one copy installs everything.
const INSTALL: &str = "\
To install Coracle for all users, with man pages and completions for bash, zsh and fish:

    sudo cp -r bin share /usr/local/

The program in `bin` needs none of the other files: it can be copied anywhere.
";
