use super::Levels;
use ruff_python_ast::token::TokenKind;
use ruff_python_parser::{Mode, lexer};

/// An upper bound of the depth of the syntax tree.
pub(crate) fn python(code: &str) -> usize {
    let mut levels = Levels::new();
    let mut lexer = lexer::lex(code, Mode::Module);
    loop {
        let token = lexer.next_token();
        match token {
            TokenKind::EndOfFile => break,
            TokenKind::Lpar
            | TokenKind::Lsqb
            | TokenKind::Lbrace
            | TokenKind::Indent
            | TokenKind::FStringStart
            | TokenKind::TStringStart => levels.opening(),
            TokenKind::Rpar
            | TokenKind::Rsqb
            | TokenKind::Rbrace
            | TokenKind::Dedent
            | TokenKind::FStringEnd
            | TokenKind::TStringEnd => levels.closing(),
            TokenKind::Newline | TokenKind::Semi => {
                levels.separator();
            }
            // A lambda has commas between its parameters.
            TokenKind::Lambda => levels.lasting(),
            TokenKind::Comma => levels.separator(),
            TokenKind::Name
            | TokenKind::Int
            | TokenKind::Float
            | TokenKind::Complex
            | TokenKind::String
            | TokenKind::FStringMiddle
            | TokenKind::TStringMiddle
            | TokenKind::Comment
            | TokenKind::NonLogicalNewline
            | TokenKind::True
            | TokenKind::False
            | TokenKind::None
            | TokenKind::Ellipsis => {}
            // Operators and keywords.
            _ => levels.token(),
        }
    }
    levels.most
}
