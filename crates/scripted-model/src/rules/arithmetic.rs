//! Arithmetic in the text of a message.

const OPERATORS: [char; 6] = ['+', '-', '*', '/', '×', '÷'];

/// The first calculation of two numbers in a text with its result, such as `2 + 2 = 4`.
pub(super) fn solve(text: &str) -> Option<String> {
    text.char_indices().filter(|(_, c)| OPERATORS.contains(c)).find_map(|(position, operator)| {
        let left = number_before(text.get(..position)?)?;
        let right = number_after(text.get(position + operator.len_utf8()..)?)?;
        let (sign, result) = match operator {
            '+' => ('+', left + right),
            '-' => ('-', left - right),
            '*' | '×' => ('×', left * right),
            _ if right == 0.0 => return None,
            _ => ('÷', left / right),
        };
        result.is_finite().then(|| format!("{left} {sign} {right} = {result}"))
    })
}

fn is_digit(c: char) -> bool {
    c.is_ascii_digit() || c == '.'
}

fn number_before(text: &str) -> Option<f64> {
    let text = text.trim_end();
    let start = text.trim_end_matches(is_digit).len();
    text.get(start..)?.parse().ok()
}

fn number_after(text: &str) -> Option<f64> {
    let text = text.trim_start();
    let end = text.len() - text.trim_start_matches(is_digit).len();
    // A full stop after the number ends the sentence.
    text.get(..end)?.trim_end_matches('.').parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn calculations_are_found_in_sentences() {
        assert_eq!(solve("What is 2+2?").as_deref(), Some("2 + 2 = 4"));
        assert_eq!(solve("Well-known: 1.5 * 4.").as_deref(), Some("1.5 × 4 = 6"));
        assert_eq!(solve("7 ÷ 2").as_deref(), Some("7 ÷ 2 = 3.5"));
        assert_eq!(solve("1/0"), None);
        assert_eq!(solve("a+b"), None);
    }
}
