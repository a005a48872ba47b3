//! What the package formats share: files in order, with one owner and one time stamp.

use std::collections::BTreeMap;
use std::io::Write as _;
use std::rc::Rc;

use anyhow::{Context as _, Result};
use flate2::{Compression, GzBuilder};
use tar::{Builder, EntryType, Header};

/// How much work goes into compression.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Effort {
    /// For packages that are only tried out.
    Fast,
    /// For packages that people download.
    Best,
}

impl Effort {
    pub(super) fn level(self) -> u32 {
        match self {
            Self::Fast => 1,
            Self::Best => 9,
        }
    }
}

/// What is in an archive at some path.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Content {
    File(Rc<[u8]>),
    Program(Rc<[u8]>),
    Folder { owner: u64 },
    Link(String),
}

/// Files by their paths from the root of the archive, without a slash at the beginning.
#[derive(Clone, Debug, Default)]
pub(super) struct Tree(BTreeMap<String, Content>);

impl Tree {
    pub(super) fn file(&mut self, path: impl Into<String>, bytes: impl AsRef<[u8]>) {
        self.0.insert(path.into(), Content::File(bytes.as_ref().into()));
    }

    pub(super) fn program(&mut self, path: impl Into<String>, bytes: &Rc<[u8]>) {
        self.0.insert(path.into(), Content::Program(Rc::clone(bytes)));
    }

    pub(super) fn folder(&mut self, path: impl Into<String>, owner: u64) {
        self.0.insert(path.into(), Content::Folder { owner });
    }

    pub(super) fn link(&mut self, path: impl Into<String>, target: impl Into<String>) {
        self.0.insert(path.into(), Content::Link(target.into()));
    }

    pub(super) fn entries(&self) -> impl Iterator<Item = (&str, &Content)> {
        self.0.iter().map(|(path, content)| (path.as_str(), content))
    }

    /// Adds the folders that its files are in, as `dpkg` and container engines expect them.
    pub(super) fn with_folders(mut self) -> Self {
        let folders: Vec<String> = self
            .0
            .keys()
            .flat_map(|path| path.match_indices('/').map(|(end, _)| path[..end].to_owned()).collect::<Vec<_>>())
            .collect();
        for folder in folders {
            self.0.entry(folder).or_insert(Content::Folder { owner: 0 });
        }
        self
    }

    /// A tar archive in which every path has `prefix` before it.
    pub(super) fn tar(&self, prefix: &str, stamp: u64) -> Result<Vec<u8>> {
        let mut archive = Builder::new(Vec::new());
        for (path, content) in self.entries() {
            let mut header = Header::new_gnu();
            header.set_mtime(stamp);
            header.set_uid(0);
            header.set_gid(0);
            header.set_size(0);
            let path = format!("{prefix}{path}");
            let appended = match content {
                Content::File(bytes) | Content::Program(bytes) => {
                    header.set_mode(if matches!(content, Content::Program(_)) { 0o755 } else { 0o644 });
                    header.set_entry_type(EntryType::Regular);
                    header.set_size(bytes.len() as u64);
                    archive.append_data(&mut header, &path, &**bytes)
                }
                Content::Folder { owner } => {
                    header.set_mode(0o755);
                    header.set_uid(*owner);
                    header.set_gid(*owner);
                    header.set_entry_type(EntryType::Directory);
                    archive.append_data(&mut header, format!("{path}/"), std::io::empty())
                }
                Content::Link(target) => {
                    header.set_mode(0o777);
                    header.set_entry_type(EntryType::Symlink);
                    archive.append_link(&mut header, &path, target)
                }
            };
            appended.with_context(|| format!("cannot add {path} to the archive"))?;
        }
        archive.into_inner().context("cannot finish the archive")
    }
}

/// Compresses without a file name or the time of day in the header.
pub(super) fn gzip(bytes: &[u8], effort: Effort) -> Result<Vec<u8>> {
    let mut compressor = GzBuilder::new().mtime(0).write(Vec::new(), Compression::new(effort.level()));
    compressor.write_all(bytes).and_then(|()| compressor.finish()).context("cannot compress")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_order_of_additions_does_not_change_the_archive() {
        let program: Rc<[u8]> = b"program".as_slice().into();
        let mut one = Tree::default();
        one.file("usr/share/text", "text");
        one.program("usr/bin/program", &program);
        let mut other = Tree::default();
        other.program("usr/bin/program", &program);
        other.file("usr/share/text", "text");
        let (one, other) =
            (one.with_folders().tar("package/", 7).unwrap(), other.with_folders().tar("package/", 7).unwrap());
        assert_eq!(gzip(&one, Effort::Best).unwrap(), gzip(&other, Effort::Best).unwrap());

        let mut archive = tar::Archive::new(&one[..]);
        let found: Vec<_> = archive
            .entries()
            .unwrap()
            .map(|entry| {
                let entry = entry.unwrap();
                let header = entry.header();
                let path = String::from_utf8(entry.path_bytes().into_owned()).unwrap();
                (path, header.mode().unwrap(), header.uid().unwrap(), header.mtime().unwrap())
            })
            .collect();
        let expected = [
            ("package/usr/", 0o755),
            ("package/usr/bin/", 0o755),
            ("package/usr/bin/program", 0o755),
            ("package/usr/share/", 0o755),
            ("package/usr/share/text", 0o644),
        ];
        assert_eq!(found, expected.map(|(path, mode)| (path.to_owned(), mode, 0, 7)));
    }
}
