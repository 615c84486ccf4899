//! Where a path is named in the code.

use proc_macro2::{TokenStream, TokenTree};

use crate::source::SourceFile;

/// How often a file has these names in a row, with `::` between them. Comments and texts do not
/// count.
///
/// # Errors
///
/// If the file is not made of Rust's tokens. The text names the file.
pub fn mentions(file: &SourceFile, path: &[&str]) -> Result<usize, String> {
    let stream: TokenStream = file
        .text
        .parse()
        .map_err(|error| format!("{}: {error}", file.path))?;
    Ok(count(stream, path))
}

fn count(stream: TokenStream, path: &[&str]) -> usize {
    // Only words matter: what lies between two of a path is `::`.
    let mut row: Vec<String> = Vec::new();
    let mut found = 0;
    for token in stream {
        match token {
            TokenTree::Ident(word) => {
                row.push(word.to_string());
                let last = &row[row.len().saturating_sub(path.len())..];
                found += usize::from(last.iter().eq(path));
            }
            TokenTree::Punct(punct) if punct.as_char() == ':' => {}
            TokenTree::Group(group) => {
                row.clear();
                found += count(group.stream(), path);
            }
            _ => row.clear(),
        }
    }
    found
}
