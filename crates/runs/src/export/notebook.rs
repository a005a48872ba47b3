//! A conversation as a Jupyter notebook, format 4.5. Python can be run again; other languages are shown.

use super::markdown::{Heading, passage_text};
use crate::transcript::{CodeLanguage, CodeResult, Passage};
use coracle_models::Part;
use serde_json::{Value, json};

pub(super) fn of(title: Option<&str>, passages: &[Passage]) -> Value {
    let mut cells = Vec::new();
    if let Some(title) = title {
        cells
            .push(markdown_cell(cells.len(), &format!("# {}", title.split_whitespace().collect::<Vec<_>>().join(" "))));
    }
    let mut count = 0;
    for passage in passages {
        let number = cells.len();
        cells.push(match passage {
            Passage::Code { language: CodeLanguage::Python, code, result } => {
                count += 1;
                code_cell(number, count, code, result.as_ref())
            }
            // IPython runs the rest of such a cell in a shell.
            Passage::Code { language: CodeLanguage::Bash, code, result } => {
                count += 1;
                code_cell(number, count, &format!("%%bash\n{code}"), result.as_ref())
            }
            other => markdown_cell(number, &passage_text(other, Heading::Hidden)),
        });
    }
    json!({
        "cells": cells,
        "metadata": {
            "kernelspec": {"display_name": "Python 3", "language": "python", "name": "python3"},
            "language_info": {"name": "python"},
        },
        "nbformat": 4,
        "nbformat_minor": 5,
    })
}

fn id(number: usize) -> String {
    format!("cell-{number}")
}

fn markdown_cell(number: usize, text: &str) -> Value {
    json!({"cell_type": "markdown", "id": id(number), "metadata": {}, "source": lines(text.trim_end())})
}

fn code_cell(number: usize, count: usize, code: &str, result: Option<&CodeResult>) -> Value {
    let mut outputs = Vec::new();
    if let Some(result) = result {
        if !result.text.is_empty() {
            let stream = if result.is_error { "stderr" } else { "stdout" };
            outputs.push(json!({"output_type": "stream", "name": stream, "text": lines(&result.text)}));
        }
        for image in &result.images {
            if let Part::Image { mime, data } = image {
                outputs.push(json!({"output_type": "display_data", "data": {mime: data}, "metadata": {}}));
            }
        }
    }
    json!({
        "cell_type": "code", "id": id(number), "metadata": {}, "execution_count": count,
        "source": lines(code), "outputs": outputs,
    })
}

/// A text as the format has it: lines with their ends.
fn lines(text: &str) -> Vec<&str> {
    text.split_inclusive('\n').collect()
}
