//! Positions in the user's source.

/// A line and a column, both from 1, the column in characters.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Place {
    pub(super) line: u32,
    pub(super) column: u32,
}

impl Place {
    /// The position of a byte offset.
    pub(super) fn of_offset(source: &str, offset: usize) -> Self {
        let before = source.get(..offset).unwrap_or(source);
        let start = before.rfind('\n').map_or(0, |at| at + 1);
        let line = before.bytes().filter(|byte| *byte == b'\n').count() as u32 + 1;
        let column = before.get(start..).unwrap_or_default().chars().count() as u32 + 1;
        Self { line, column }
    }
}

/// Maps positions in generated code to positions in its source.
#[derive(Debug, Default)]
pub(super) struct Positions {
    /// Pairs of generated and source positions, sorted by the first; both counted from zero.
    marks: Vec<((u32, u32), (u32, u32))>,
}

impl Positions {
    pub(super) fn new(mut marks: Vec<((u32, u32), (u32, u32))>) -> Self {
        marks.sort_unstable();
        Self { marks }
    }

    /// The position in the source. Without marks, the code is its own source.
    pub(super) fn source(&self, generated: Place) -> Place {
        if self.marks.is_empty() {
            return generated;
        }
        let at = (generated.line.saturating_sub(1), generated.column.saturating_sub(1));
        let after = self.marks.partition_point(|(place, _)| *place <= at);
        let known = self.marks.get(after.saturating_sub(1));
        known.map_or(generated, |(_, (line, column))| Place { line: line + 1, column: column + 1 })
    }
}
