//! Text → [`ast::Ast`].

pub mod ast;
pub mod lexer;
pub mod parser;
pub mod preprocess;
pub mod print;
