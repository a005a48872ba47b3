//! Arrows between words in a drawing made of box-drawing characters.

use std::collections::BTreeSet;

#[derive(Clone, Copy, PartialEq, Eq)]
enum Side {
    Up,
    Down,
    Left,
    Right,
}

impl Side {
    fn opposite(self) -> Self {
        match self {
            Self::Up => Self::Down,
            Self::Down => Self::Up,
            Self::Left => Self::Right,
            Self::Right => Self::Left,
        }
    }
}

/// Row and column.
type Cell = (usize, usize);

struct Grid(Vec<Vec<char>>);

/// All arrows of a drawing, as pairs of words. Lines that meet are one: each word that such a line leaves has an arrow to
/// each word that it points to. Of a text of several words, the first one counts.
pub(super) fn edges(drawing: &str) -> Vec<(String, String)> {
    let grid = Grid(drawing.lines().map(|line| line.chars().collect()).collect());
    let mut edges = BTreeSet::new();
    for (row, line) in grid.0.iter().enumerate() {
        for (column, character) in line.iter().enumerate() {
            let Some(towards) = head(*character) else { continue };
            let Some(target) = grid.word_beside((row, column), towards) else { continue };
            edges.extend(grid.sources((row, column), towards).into_iter().map(|source| (source, target.clone())));
        }
    }
    edges.into_iter().collect()
}

/// Where an arrowhead points.
fn head(character: char) -> Option<Side> {
    match character {
        '▲' => Some(Side::Up),
        '▼' => Some(Side::Down),
        '◀' => Some(Side::Left),
        '▶' => Some(Side::Right),
        _ => None,
    }
}

/// The sides on which a piece of a line goes on.
fn ends(character: char) -> &'static [Side] {
    use Side::{Down, Left, Right, Up};
    match character {
        '│' => &[Up, Down],
        '─' => &[Left, Right],
        '┌' => &[Right, Down],
        '┐' => &[Left, Down],
        '└' => &[Right, Up],
        '┘' => &[Left, Up],
        '├' => &[Up, Down, Right],
        '┤' => &[Up, Down, Left],
        '┬' => &[Left, Right, Down],
        '┴' => &[Left, Right, Up],
        '┼' => &[Up, Down, Left, Right],
        _ => &[],
    }
}

impl Grid {
    fn get(&self, (row, column): Cell) -> char {
        self.0.get(row).and_then(|line| line.get(column)).copied().unwrap_or(' ')
    }

    /// The words at the other ends of the lines that lead to an arrowhead.
    fn sources(&self, arrowhead: Cell, towards: Side) -> BTreeSet<String> {
        let mut sources = BTreeSet::new();
        let mut seen = BTreeSet::from([arrowhead]);
        let mut next = vec![(arrowhead, towards.opposite())];
        while let Some((cell, side)) = next.pop() {
            let beside = neighbour(cell, side).filter(|beside| ends(self.get(*beside)).contains(&side.opposite()));
            match beside {
                Some(beside) if seen.insert(beside) => {
                    let is_further = |other: &Side| *other != side.opposite();
                    next.extend(
                        ends(self.get(beside)).iter().copied().filter(is_further).map(|further| (beside, further)),
                    );
                }
                Some(_) => {}
                None => sources.extend(self.word_beside(cell, side)),
            }
        }
        sources
    }

    /// The word above or below a cell, or to the left or right of it with at most one space in between.
    fn word_beside(&self, cell: Cell, side: Side) -> Option<String> {
        let beside = neighbour(cell, side)?;
        let is_horizontal = matches!(side, Side::Left | Side::Right);
        let at = if is_horizontal && self.get(beside) == ' ' { neighbour(beside, side)? } else { beside };
        self.first_word(at)
    }

    /// The first word of the text that covers a cell. A text ends where there are two spaces or a line.
    fn first_word(&self, (row, column): Cell) -> Option<String> {
        let is_text = |column: usize| {
            let character = self.get((row, column));
            let before = column.checked_sub(1).map_or(' ', |before| self.get((row, before)));
            is_word(character) || (character == ' ' && is_word(before) && is_word(self.get((row, column + 1))))
        };
        let mut start = Some(column).filter(|column| is_text(*column))?;
        while start.checked_sub(1).is_some_and(is_text) {
            start -= 1;
        }
        Some((start..).map(|column| self.get((row, column))).take_while(|one| is_word(*one)).collect())
    }
}

fn is_word(character: char) -> bool {
    character != ' ' && ends(character).is_empty() && head(character).is_none()
}

fn neighbour((row, column): Cell, side: Side) -> Option<Cell> {
    match side {
        Side::Up => Some((row.checked_sub(1)?, column)),
        Side::Down => Some((row + 1, column)),
        Side::Left => Some((row, column.checked_sub(1)?)),
        Side::Right => Some((row, column + 1)),
    }
}
