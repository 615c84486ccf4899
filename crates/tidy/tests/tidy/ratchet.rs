//! Files of more than 500 lines and functions of more than 70 lines are listed, and may only get shorter.

use std::collections::BTreeMap;

use placewright_tidy::functions::functions;
use placewright_tidy::known::{Sizes, check_list};
use placewright_tidy::source::{SourceFile, rust_files, workspace};

/// The most lines of a file without an exception.
const FILE_LINES_MAX: usize = 500;

/// The most lines of a function without an exception: as many as fit a screen.
const FUNCTION_LINES_MAX: usize = 70;

fn sources() -> Vec<SourceFile> {
    let sources = rust_files(&workspace()).expect("the sources can be read");
    // Without sources the tests would pass.
    assert!(sources.len() > 500, "only {} files found", sources.len());
    sources
}

#[test]
fn no_file_grows_past_its_limit() {
    let mut long = Sizes::new();
    for file in sources() {
        if file.line_count() > FILE_LINES_MAX {
            long.insert(file.path.clone(), file.line_count());
        }
    }
    if let Err(advice) = check_list("files.txt", &long) {
        panic!("{advice}");
    }
}

#[test]
fn no_function_grows_past_its_limit() {
    let mut long = Sizes::new();
    for file in sources() {
        for function in functions(&file).expect("the sources are Rust") {
            if function.line_count > FUNCTION_LINES_MAX {
                long.insert(
                    format!("{} {}", file.path, function.name),
                    function.line_count,
                );
            }
        }
    }
    if let Err(advice) = check_list("functions.txt", &long) {
        panic!("{advice}");
    }
}

#[test]
fn functions_are_found_with_their_lines() {
    let text = r##"
fn one() { "fn not_this() {" ; }
// fn nor_this() {
trait Shown { fn no_body(&self) -> u8; }
impl Shown for fn(u8) {
    fn two(
        &self,
    ) -> Vec<u8>
    where
        u8: Copy,
    {
        fn inner() {
        }
        r#"}"#.into()
    }
    fn one() {
    }
}
"##;
    let file = SourceFile {
        path: "text.rs".to_owned(),
        text: text.to_owned(),
    };
    let lines_by_name: BTreeMap<String, usize> = functions(&file)
        .expect("it is Rust")
        .into_iter()
        .map(|function| (function.name, function.line_count))
        .collect();
    let expected = [("one", 1), ("two", 10), ("inner", 2), ("one#2", 2)];
    assert_eq!(
        lines_by_name,
        expected
            .map(|(name, lines)| (name.to_owned(), lines))
            .into()
    );
}
