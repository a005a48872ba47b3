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
    use super::{ASSETS, PageState, asset, index, state};

    #[test]
    fn the_page_is_complete_or_its_absence_is_explained() {
        match state() {
            PageState::Built => {
                let text = std::str::from_utf8(index().unwrap().bytes).unwrap();
                let named: Vec<&str> = text.split('"').filter_map(|part| part.strip_prefix('/')).collect();
                assert!(named.len() >= 2 && named.iter().all(|path| asset(path).is_some()), "{named:?}");
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
        let Some(document) = index() else { return };
        // Everything else is loaded when it is needed.
        let text = std::str::from_utf8(document.bytes).unwrap();
        let named = text.split('"').filter_map(|part| part.strip_prefix('/').and_then(asset));
        let compressed: usize = std::iter::once(document).chain(named).map(|asset| asset.gzip.len()).sum();
        assert!(compressed <= 150_000, "{compressed} bytes");
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
