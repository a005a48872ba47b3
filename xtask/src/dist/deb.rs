//! The package for Debian and Ubuntu: an `ar` archive of a version, a tar archive about the package, and one of files.

use std::fmt::Write as _;
use std::rc::Rc;

use anyhow::{Context as _, Result};

use super::Contents;
use super::archive::{Content, Effort, Tree, gzip};
use super::contents::{Places, SUMMARY};

/// The places of software from the distribution, below `/usr`.
const PLACES: Places = Places {
    bash: "share/bash-completion/completions/coracle",
    zsh: "share/zsh/vendor-completions/_coracle",
    fish: "share/fish/vendor_completions.d/coracle.fish",
    man: "share/man/man1",
};

/// Libraries of which each is a package of its own; `libm`, `libpthread` and the like belong to glibc.
const LIBRARIES: &[(&str, &str)] = &[("libgcc_s.so.1", "libgcc-s1"), ("libstdc++.so.6", "libstdc++6")];

/// What dpkg runs when the package is installed and removed.
const SCRIPTS: &[(&str, &str)] = &[
    ("postinst", include_str!("../../dist/deb/postinst")),
    ("postrm", include_str!("../../dist/deb/postrm")),
    ("prerm", include_str!("../../dist/deb/prerm")),
];
/// The AppArmor profile, which a script copies to where AppArmor looks for it.
pub(super) const PROFILE: (&str, &str) =
    ("usr/share/coracle/apparmor-profile", include_str!("../../dist/deb/apparmor-profile"));

pub(super) fn make(contents: &Contents, effort: Effort) -> Result<(String, Vec<u8>)> {
    let files = files(contents, effort)?;
    let data = gzip(&files.clone().with_folders().tar("", contents.stamp)?, effort)?;
    let mut control = Tree::default();
    control.file("control", control_text(contents, &files, &maintainer()));
    for (name, script) in SCRIPTS {
        control.program(*name, &Rc::from(script.as_bytes()));
    }
    let control = gzip(&control.tar("", contents.stamp)?, effort)?;

    let mut archive = ar::Builder::new(Vec::new());
    let members: [(&[u8], &[u8]); 3] =
        [(b"debian-binary", b"2.0\n"), (b"control.tar.gz", &control), (b"data.tar.gz", &data)];
    for (name, bytes) in members {
        let mut header = ar::Header::new(name.to_vec(), bytes.len() as u64);
        header.set_mode(0o100_644);
        header.set_mtime(contents.stamp);
        archive.append(&header, bytes).context("cannot write the package")?;
    }
    let name = format!("coracle_{}_{}.deb", contents.version, contents.needs.processor.debian());
    Ok((name, archive.into_inner().context("cannot finish the package")?))
}

fn files(contents: &Contents, effort: Effort) -> Result<Tree> {
    let mut tree = Tree::default();
    tree.program("usr/bin/coracle", &contents.program);
    let mut documentation = Tree::default();
    contents.add_documentation(&mut documentation, "usr/", &PLACES);
    for (path, content) in documentation.entries() {
        let Content::File(bytes) = content else { continue };
        // Debian's policy: man pages are compressed.
        if path.contains("/man1/") {
            tree.file(format!("{path}.gz"), gzip(bytes, effort)?);
        } else {
            tree.file(path, bytes);
        }
    }
    tree.file("usr/share/doc/coracle/copyright", COPYRIGHT);
    let (path, profile) = PROFILE;
    tree.file(path, profile);
    Ok(tree)
}

/// Who answers for the package. Debian's policy asks for a working address, which is that of whoever makes the package:
/// it comes from the variables that Debian's own tools read.
fn maintainer() -> String {
    let variable = |name| std::env::var(name).ok().filter(|value: &String| !value.trim().is_empty());
    maintained_by(variable("DEBFULLNAME"), variable("DEBEMAIL"))
}

fn maintained_by(name: Option<String>, address: Option<String>) -> String {
    // Nothing else may be on the line.
    let line = |text: String| text.split_whitespace().collect::<Vec<_>>().join(" ");
    let name = name.map_or_else(|| AUTHORS.to_owned(), line);
    address.map_or_else(|| name.clone(), |address| format!("{name} <{}>", line(address)))
}

const AUTHORS: &str = "The Coracle authors";

fn control_text(contents: &Contents, files: &Tree, maintainer: &str) -> String {
    let size: usize = files
        .entries()
        .map(|(_, content)| match content {
            Content::File(bytes) | Content::Program(bytes) => bytes.len(),
            Content::Folder { .. } | Content::Link(_) => 0,
        })
        .sum();
    let mut depends = format!("libc6 (>= {}), python3 (>= 3.10), bash", contents.needs.glibc);
    for (library, package) in LIBRARIES {
        if contents.needs.libraries.iter().any(|needed| needed == library) {
            // Writing to a `String` cannot fail.
            let _ = write!(depends, ", {package}");
        }
    }
    format!(
        "Package: coracle\nVersion: {}\nArchitecture: {}\nMaintainer: {maintainer}\n\
         Installed-Size: {}\nDepends: {depends}\nRecommends: ca-certificates\nSection: devel\nPriority: optional\n\
         Description: {SUMMARY}\n Coracle runs untrusted Python, TypeScript and bash on Linux without root, a daemon or\n \
         a container image. Code calls the tools of MCP servers as functions.\n",
        contents.version,
        contents.needs.processor.debian(),
        size.div_ceil(1024),
    )
}

/// The licence of the program, in Debian's format.
const COPYRIGHT: &str = "\
Format: https://www.debian.org/doc/packaging-manuals/copyright-format/1.0/
Upstream-Name: coracle

Files: *
Copyright: The Coracle authors
License: Apache-2.0
 On Debian systems, the text of the Apache License 2.0 is in /usr/share/common-licenses/Apache-2.0.
";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_maintainer_is_who_makes_the_package() {
        let maintainer = |name: &str, address: &str| {
            let given = |text: &str| (!text.is_empty()).then(|| text.to_owned());
            maintained_by(given(name), given(address))
        };
        assert_eq!(maintainer("", ""), "The Coracle authors");
        assert_eq!(maintainer("", "packages@example.org"), "The Coracle authors <packages@example.org>");
        assert_eq!(maintainer("Ada\nEssential: yes", "ada@example.org"), "Ada Essential: yes <ada@example.org>");
    }
}
