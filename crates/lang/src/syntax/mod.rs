//! Text → [`ast::Ast`].

pub mod ast;
pub mod lexer;
pub mod preprocess;
pub mod parser;
pub mod print;
