//! Doc comments say what a reader cannot see from a name and its type, which takes more than three words.

use placewright_tidy::doc_comments::{DocComment, doc_comments};
use placewright_tidy::source::{SourceFile, rust_files, workspace};

/// A comment of at most this many words rarely says more than the name.
const SHORT_WORDS_MAX: usize = 3;

/// There have to be fewer short comments than this in the whole workspace.
const SHORT_COMMENTS_BELOW: usize = 100;

#[test]
fn few_doc_comments_only_repeat_a_name() {
    let mut all = 0usize;
    let mut places = Vec::new();
    for file in rust_files(&workspace()).expect("the sources can be read") {
        if file.path.contains("/generated/") {
            continue;
        }
        let comments = doc_comments(&file);
        all += comments.len();
        let is_short = |comment: &&DocComment| comment.word_count() <= SHORT_WORDS_MAX;
        let short = comments.iter().filter(is_short);
        places.extend(
            short.map(|comment| format!("{}:{}: {}", file.path, comment.line, comment.text)),
        );
    }
    // Without comments the test would pass.
    assert!(all > 10_000, "only {all} doc comments found");
    println!(
        "{} of {all} doc comments have at most {SHORT_WORDS_MAX} words",
        places.len()
    );
    assert!(
        places.len() < SHORT_COMMENTS_BELOW,
        "{} doc comments have at most {SHORT_WORDS_MAX} words; there may be {} of them. Say what the name does not \
         say (what for, the unit, who sets it, when it is none), or leave the comment of a private item out:\n{}",
        places.len(),
        SHORT_COMMENTS_BELOW - 1,
        places.join("\n")
    );
}

#[test]
fn doc_comments_are_found_with_their_lines() {
    let text = "\
//! Not of an item.
/// One comment
/// of two lines.
struct One {
    /// Another one in one line.
    field: u8, // And /// not this.
}
//// Nor this.
";
    let file = SourceFile {
        path: "text.rs".to_owned(),
        text: text.to_owned(),
    };
    let found = doc_comments(&file);
    let found: Vec<(usize, &str, usize)> = found
        .iter()
        .map(|comment| (comment.line, comment.text.as_str(), comment.word_count()))
        .collect();
    assert_eq!(
        found,
        [
            (2, "One comment of two lines.", 5),
            (5, "Another one in one line.", 5)
        ]
    );
}
