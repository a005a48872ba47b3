//! Windows over a text, for what needs more context than the pass over single candidates: names, and patterns of the
//! operator.
//!
//! A window ends at the first white space after a fixed length, so that its place depends on the text alone. It is shown
//! with some text around it, and what starts in it belongs to it.

use crate::finding::Finding;
use crate::names::NameFinder;
use crate::scan::{BEHIND, View};

/// The length of a window, without its last word.
const WINDOW: usize = 4_096;
/// The longest word at the end of a window.
const LAST_WORD: usize = 256;
/// How far a finding may reach beyond its window, and at least as long as a finding may be.
pub(crate) const BEYOND: usize = 1_024;

/// A part of a text.
pub(crate) struct Window<'a> {
    /// The window, and what is around it.
    pub(crate) text: &'a str,
    /// Where the window starts in `text`.
    pub(crate) from: usize,
    /// Where the window ends in `text`.
    pub(crate) to: usize,
}

/// Finds what starts in a window.
pub(crate) trait WindowFinder: std::fmt::Debug + Send + Sync {
    /// Adds findings with spans in `window.text`. Those that start outside the window are ignored.
    fn find(&self, window: &Window<'_>, found: &mut Vec<Finding>);
}

impl WindowFinder for NameFinder {
    fn find(&self, window: &Window<'_>, found: &mut Vec<Finding>) {
        found.extend(Self::find(self, window.text));
    }
}

/// Searches all windows that are complete from `start` on, and returns where the first one starts that is not.
pub(crate) fn search(
    finders: &[Box<dyn WindowFinder>],
    view: &View<'_>,
    mut start: usize,
    out: &mut Vec<Finding>,
) -> usize {
    let mut found = Vec::new();
    while start < view.len() {
        let Some(end) = end_of(view, start) else { break };
        let text_start = char_boundary(view, start.saturating_sub(BEHIND));
        let text_end = char_boundary(view, (end + BEYOND).min(view.len()));
        let window = Window { text: view.str(text_start, text_end), from: start - text_start, to: end - text_start };
        for finder in finders {
            finder.find(&window, &mut found);
            let own = found.drain(..).filter(|finding| (window.from..window.to).contains(&finding.span.start));
            out.extend(own.map(|finding| finding.moved(text_start)));
        }
        start = end;
    }
    start
}

/// The end of the window that starts at `start`, or nothing if more text is needed.
fn end_of(view: &View<'_>, start: usize) -> Option<usize> {
    let end = start + WINDOW;
    if view.len() < end + LAST_WORD + BEYOND {
        if !view.is_whole {
            return None;
        }
        if view.len() <= end {
            return Some(view.len());
        }
    }
    let word_end = view.run(end, LAST_WORD, |byte| !byte.is_ascii_whitespace());
    let is_word = word_end < end + LAST_WORD;
    Some(char_boundary(view, if is_word { word_end } else { end }))
}

/// The last boundary of characters up to a position.
fn char_boundary(view: &View<'_>, position: usize) -> usize {
    view.text.floor_char_boundary(position)
}
