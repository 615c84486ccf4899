//! Finds the doc comments of items in source files.

use crate::source::SourceFile;

/// A doc comment: consecutive lines that begin with `///`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DocComment {
    /// The number of its first line in the file, from 1.
    pub line: usize,
    /// Its lines, joined with spaces, without `///`.
    pub text: String,
}

impl DocComment {
    /// The number of words, as separated by white space.
    #[must_use]
    pub fn word_count(&self) -> usize {
        self.text.split_whitespace().count()
    }
}

/// The doc comments of a file, in order. Those of modules, which begin with `//!`, are not among them.
#[must_use]
pub fn doc_comments(file: &SourceFile) -> Vec<DocComment> {
    let mut comments: Vec<DocComment> = Vec::new();
    let mut was_doc_line = false;
    for (index, line) in file.text.lines().enumerate() {
        // Four slashes begin a common comment.
        let doc_text = line.trim_start().strip_prefix("///");
        let doc_text = doc_text.filter(|text| !text.starts_with('/'));
        match (doc_text, comments.last_mut()) {
            (Some(text), Some(comment)) if was_doc_line => {
                comment.text.push(' ');
                comment.text.push_str(text.trim());
            }
            (Some(text), _) => comments.push(DocComment {
                line: index + 1,
                text: text.trim().to_owned(),
            }),
            (None, _) => {}
        }
        was_doc_line = doc_text.is_some();
    }
    comments
}
