//! How deeply code is nested, without a parser: parsers are recursive, and so are the checks and the disposal of trees.
//!
//! The result is an upper bound. Every level of a syntax tree needs a token that opens it (a bracket, an operator, a
//! keyword, more indentation), so that the number of such tokens since the last separator, summed over all open
//! brackets, is never smaller than the depth.

mod python;
mod typescript;

pub(crate) use python::python;
pub(crate) use typescript::typescript;

/// Counts tokens that open a level.
#[derive(Debug)]
struct Levels {
    /// For each open bracket: tokens since the last separator, and tokens that no separator ends.
    open: Vec<(usize, usize)>,
    depth: usize,
    most: usize,
}

impl Levels {
    fn new() -> Self {
        Self { open: vec![(0, 0)], depth: 0, most: 0 }
    }

    /// An operator or a keyword.
    fn token(&mut self) {
        if let Some((tokens, _)) = self.open.last_mut() {
            *tokens += 1;
        }
        self.deeper();
    }

    /// A keyword whose statement or expression goes on after separators.
    fn lasting(&mut self) {
        if let Some((_, lasting)) = self.open.last_mut() {
            *lasting += 1;
        }
        self.deeper();
    }

    fn deeper(&mut self) {
        self.depth += 1;
        self.most = self.most.max(self.depth);
    }

    fn separator(&mut self) {
        if let Some((tokens, _)) = self.open.last_mut() {
            self.depth -= std::mem::take(tokens);
        }
    }

    fn opening(&mut self) {
        self.token();
        self.open.push((0, 0));
    }

    fn closing(&mut self) {
        if self.open.len() > 1
            && let Some((tokens, lasting)) = self.open.pop()
        {
            self.depth -= tokens + lasting;
        }
    }
}
