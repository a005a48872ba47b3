//! The web page as files in the program.
//!
//! `build.rs` builds the page from `web/` with Node, in its own output folder. Where that is not possible, the program is
//! built without the page, and [`state`] says why. The names of all files but `index.html` contain a hash of their
//! content, so that browsers can keep them for ever.

/// A file of the page.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Asset {
    /// Path below `/`, such as `assets/index-….js`.
    pub path: &'static str,
    /// Media type.
    pub mime: &'static str,
    /// Entity tag with its quotes.
    pub etag: &'static str,
    /// Content.
    pub bytes: &'static [u8],
    /// Content, compressed by gzip.
    pub gzip: &'static [u8],
}

include!(concat!(env!("OUT_DIR"), "/assets.rs"));

/// Whether the program contains the page.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PageState {
    /// The page is complete.
    Built,
    /// There is no page, for this reason.
    Missing(&'static str),
}

/// Whether the program contains the page, or why it does not.
pub fn state() -> PageState {
    MISSING.map_or(PageState::Built, PageState::Missing)
}

/// The document of the page; `None` if the program does not contain it.
pub fn index() -> Option<&'static Asset> {
    asset("index.html")
}

/// Finds a file by its path below `/`.
pub fn asset(path: &str) -> Option<&'static Asset> {
    ASSETS.iter().find(|asset| asset.path == path)
}

#[cfg(test)]
mod tests {
    use super::{ASSETS, Asset, PageState, asset, index, state};

    /// The document and the files that it names, which browsers load at first.
    fn named_by(index: &'static Asset) -> Vec<&'static Asset> {
        let paths = std::str::from_utf8(index.bytes).unwrap().split('"').filter_map(|part| part.strip_prefix('/'));
        std::iter::once(index).chain(paths.map(|path| asset(path).unwrap())).collect()
    }

    #[test]
    fn the_page_is_complete_or_its_absence_is_explained() {
        match state() {
            PageState::Built => {
                let index = index().unwrap();
                assert!(named_by(index).len() >= 3, "{index:?}");
                let text = std::str::from_utf8(index.bytes).unwrap();
                // The policy of the page would block these.
                assert!(!text.contains("<style") && !text.contains("onload="), "{text}");
            }
            PageState::Missing(reason) => {
                assert!(ASSETS.is_empty() && !reason.is_empty());
                // Programs that are handed out have the page.
                assert!(std::env::var_os("CI").is_none_or(|value| value.is_empty()), "no page: {reason}");
            }
        }
    }

    #[test]
    fn the_sources_have_no_errors_of_types() {
        let web = std::path::Path::new(env!("OUT_DIR")).join("web");
        let checker = web.join("node_modules/svelte-check/bin/svelte-check");
        // A page that was built elsewhere has been checked there.
        if state() != PageState::Built || !checker.exists() {
            return;
        }
        let mut command = std::process::Command::new("node");
        let output = command.arg(checker).args(["--tsconfig", "tsconfig.json", "--fail-on-warnings"]);
        let output = output.current_dir(&web).output().unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stdout));
    }

    #[test]
    fn the_first_load_is_small() {
        let Some(index) = index() else { return };
        let compressed: usize = named_by(index).iter().map(|asset| asset.gzip.len()).sum();
        assert!((10_000..=150_000).contains(&compressed), "{compressed} bytes");
    }

    #[test]
    fn compressed_files_are_smaller_and_tags_differ() {
        for asset in ASSETS {
            assert!(
                asset.gzip.starts_with(&[0x1f, 0x8b]) && asset.gzip.len() <= asset.bytes.len() + 64,
                "{}",
                asset.path
            );
            assert!(asset.etag.starts_with('"') && asset.etag.ends_with('"'), "{}", asset.etag);
            assert_eq!(ASSETS.iter().filter(|other| other.etag == asset.etag).count(), 1, "{}", asset.path);
        }
    }
}
