//! The functions of a source file, and how long they are.

use std::collections::BTreeMap;

use proc_macro2::{Delimiter, TokenStream, TokenTree};

use crate::source::SourceFile;

/// A function that has a body.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Function {
    /// Its name. Further functions of one name in one file are numbered: `new#2`.
    pub name: String,
    /// The lines from `fn` to the closing brace, comments and blank lines included.
    pub lines: usize,
}

/// All functions of a file, nested ones and methods included, in their order.
///
/// # Errors
///
/// If the file is not made of Rust's tokens. The text names the file.
pub fn functions(file: &SourceFile) -> Result<Vec<Function>, String> {
    let stream: TokenStream = file
        .text
        .parse()
        .map_err(|error| format!("{}: {error}", file.path))?;
    let mut found = Vec::new();
    gather(stream, &mut found);
    number(&mut found);
    Ok(found)
}

fn gather(stream: TokenStream, found: &mut Vec<Function>) {
    let tokens: Vec<TokenTree> = stream.into_iter().collect();
    for (at, token) in tokens.iter().enumerate() {
        if let TokenTree::Group(group) = token {
            gather(group.stream(), found);
            continue;
        }
        // `fn` without a name is the type of a pointer.
        let (TokenTree::Ident(keyword), Some(TokenTree::Ident(name))) = (token, tokens.get(at + 1))
        else {
            continue;
        };
        if *keyword != "fn" {
            continue;
        }
        if let Some(end) = end_of_body(&tokens[at..]) {
            let lines = (end + 1).saturating_sub(keyword.span().start().line);
            found.push(Function {
                name: name.to_string(),
                lines,
            });
        }
    }
}

/// The line of the brace that closes the body of the function at the first token, if it has one.
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

fn number(found: &mut [Function]) {
    let mut seen: BTreeMap<String, usize> = BTreeMap::new();
    for function in found {
        let count = seen.entry(function.name.clone()).or_default();
        *count += 1;
        if *count > 1 {
            function.name = format!("{}#{count}", function.name);
        }
    }
}
