//! Occurrences of a path in code.

use proc_macro2::{TokenStream, TokenTree};

use crate::source::SourceFile;

/// How often a path, given by its names, occurs in a file. Comments and string literals do not count.
///
/// # Errors
///
/// If the file cannot be split into Rust tokens. The text names the file.
pub fn count_mentions(file: &SourceFile, path: &[&str]) -> Result<usize, String> {
    let stream: TokenStream = file
        .text
        .parse()
        .map_err(|error| format!("{}: {error}", file.path))?;
    Ok(count_path(stream, path))
}

fn count_path(stream: TokenStream, path: &[&str]) -> usize {
    // The names so far of the path that is being read, which `::` separates.
    let mut names: Vec<String> = Vec::new();
    let mut total = 0;
    for token in stream {
        match token {
            TokenTree::Ident(word) => {
                names.push(word.to_string());
                let last_names = &names[names.len().saturating_sub(path.len())..];
                total += usize::from(last_names.iter().eq(path));
            }
            TokenTree::Punct(punct) if punct.as_char() == ':' => {}
            TokenTree::Group(group) => {
                names.clear();
                total += count_path(group.stream(), path);
            }
            _ => names.clear(),
        }
    }
    total
}
