use crate::custom::{Custom, PATTERNS_MOST};
use crate::evidence::Evidence;
use crate::finding::Finding;
use crate::kinds::{Kind, Kinds};
use crate::names::NameFinder;
use crate::resolve::Resolver;
use crate::scan::{Scan, State, Topic, View};
use crate::settings::{DetectorError, DetectorSettings};
use crate::windows::{self, WindowFinder};
use std::sync::Arc;

/// Finds personal data in text.
#[derive(Clone, Debug)]
pub struct Detector {
    kinds: Kinds,
    min_confidence: u8,
    /// What looks at windows of the text: names, and patterns of the operator.
    finders: Arc<[Box<dyn WindowFinder>]>,
}

impl Default for Detector {
    fn default() -> Self {
        let settings = DetectorSettings::default();
        Self::with(settings.kinds(), settings.min_confidence, settings.names, Vec::new())
    }
}

impl Detector {
    /// Makes a detector from settings.
    pub fn new(settings: DetectorSettings) -> Result<Self, DetectorError> {
        let count = settings.custom.len();
        if count > PATTERNS_MOST {
            return Err(DetectorError::TooMany { count, most: PATTERNS_MOST });
        }
        let (kinds, min_confidence, names) = (settings.kinds(), settings.min_confidence, settings.names);
        let custom = settings.custom.into_iter().map(Custom::new).collect::<Result<Vec<_>, _>>()?;
        Ok(Self::with(kinds, min_confidence, names, custom))
    }

    fn with(kinds: Kinds, min_confidence: u8, names: bool, custom: Vec<Custom>) -> Self {
        let mut finders: Vec<Box<dyn WindowFinder>> =
            custom.into_iter().map(|custom| Box::new(custom) as Box<dyn WindowFinder>).collect();
        if names && (kinds.contains(&Kind::Person) || kinds.contains(&Kind::Address)) {
            finders.push(Box::new(NameFinder::new()));
        }
        Self { kinds, min_confidence, finders: finders.into() }
    }

    /// Returns what is found in a text, in order and without overlaps.
    pub fn find(&self, text: &str) -> Vec<Finding> {
        self.find_about(text, None, None)
    }

    /// Returns what is found in a text that is the value of a key of JSON. The key is evidence: the value of `name` is
    /// probably a name.
    pub fn find_in_value(&self, key: &str, text: &str) -> Vec<Finding> {
        let evidence = Evidence::of_key(key);
        let topic = evidence.as_ref().and_then(|evidence| evidence.topic);
        let whole = evidence.and_then(|evidence| evidence.whole_value(key, text));
        self.find_about(text, topic, whole)
    }

    fn find_about(&self, text: &str, topic: Option<Topic>, whole: Option<Finding>) -> Vec<Finding> {
        let view = View { text, is_whole: true };
        let mut found = Vec::new();
        self.scan(view, topic, &mut State::default(), &mut found);
        self.search_windows(&view, 0, &mut found);
        found.extend(whole.filter(|whole| self.keeps(whole)));
        let mut resolver = Resolver::default();
        for finding in found {
            resolver.add(finding);
        }
        let mut out = Vec::new();
        resolver.settle(usize::MAX, |span| view.str(span.start, span.end), &mut out);
        out
    }

    /// Passes over a text from where the state is, as far as it can.
    pub(crate) fn scan(&self, view: View<'_>, topic: Option<Topic>, state: &mut State, out: &mut Vec<Finding>) {
        Scan { view, kinds: self.kinds, topic, state, out }.run();
        out.retain(|finding| self.keeps(finding));
    }

    /// Searches the windows of a text from `start` on, and returns where the next one starts.
    pub(crate) fn search_windows(&self, view: &View<'_>, start: usize, out: &mut Vec<Finding>) -> usize {
        if self.finders.is_empty() {
            return view.len();
        }
        let first_new = out.len();
        let next = windows::search(&self.finders, view, start, out);
        let mut index = 0;
        out.retain(|finding| {
            index += 1;
            index <= first_new || self.keeps(finding)
        });
        next
    }

    fn keeps(&self, finding: &Finding) -> bool {
        finding.confidence.0 >= self.min_confidence && self.looks_for(&finding.kind)
    }

    /// Whether findings of a kind are reported.
    pub fn looks_for(&self, kind: &Kind) -> bool {
        self.kinds.contains(kind)
    }
}
