//! The functions of a source file, and how long they are.

use std::collections::BTreeMap;

use proc_macro2::{Delimiter, TokenStream, TokenTree};

use crate::source::SourceFile;

/// A function with a body.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Function {
    /// The name. Further functions with the same name in a file have a number: `new#2`.
    pub name: String,
    /// The number of lines from `fn` to the closing brace, with comments and blank lines.
    pub line_count: usize,
}

/// All functions of a file in order, with nested functions and methods.
///
/// # Errors
///
/// If the file cannot be split into Rust tokens. The text names the file.
pub fn functions(file: &SourceFile) -> Result<Vec<Function>, String> {
    let stream: TokenStream = file
        .text
        .parse()
        .map_err(|error| format!("{}: {error}", file.path))?;
    let mut functions = Vec::new();
    collect_functions(stream, &mut functions);
    number_repeated_names(&mut functions);
    Ok(functions)
}

fn collect_functions(stream: TokenStream, functions: &mut Vec<Function>) {
    let tokens: Vec<TokenTree> = stream.into_iter().collect();
    for (index, token) in tokens.iter().enumerate() {
        if let TokenTree::Group(group) = token {
            collect_functions(group.stream(), functions);
            continue;
        }
        // `fn` without a name is the type of a function pointer.
        let (TokenTree::Ident(keyword), Some(TokenTree::Ident(name))) =
            (token, tokens.get(index + 1))
        else {
            continue;
        };
        if *keyword != "fn" {
            continue;
        }
        if let Some(end) = end_of_body(&tokens[index..]) {
            let line_count = (end + 1).saturating_sub(keyword.span().start().line);
            functions.push(Function {
                name: name.to_string(),
                line_count,
            });
        }
    }
}

/// The line of the brace that closes the body of the function at the first token; none without a body.
fn end_of_body(tokens: &[TokenTree]) -> Option<usize> {
    for token in tokens {
        match token {
            TokenTree::Group(group) if group.delimiter() == Delimiter::Brace => {
                return Some(group.span_close().end().line);
            }
            TokenTree::Punct(punct) if punct.as_char() == ';' => return None,
            _ => {}
        }
    }
    None
}

fn number_repeated_names(functions: &mut [Function]) {
    let mut counts: BTreeMap<String, usize> = BTreeMap::new();
    for function in functions {
        let count = counts.entry(function.name.clone()).or_default();
        *count += 1;
        if *count > 1 {
            function.name = format!("{}#{count}", function.name);
        }
    }
}
