//! A library with `test = false` in its manifest has no unit tests, and one with `doctest = false` has no examples in
//! its documentation. Each of these settings saves one more compilation of the library when there is nothing to run.
//! But tests and examples that somebody adds to such a library would silently never run, so this test finds them.

use placewright_tidy::manifests::read_toml;
use placewright_tidy::source::{SourceFile, rust_files, workspace};

/// The words of which one follows the fence of a code block if rustdoc compiles the block as an example.
const EXAMPLE_LANGUAGES: &[&str] = &[
    "",
    "rust",
    "no_run",
    "should_panic",
    "compile_fail",
    "ignore",
];

/// Whether the manifest has `key = false` for its library. The path is relative to the root of the workspace.
fn is_disabled(manifest: &str, key: &str) -> bool {
    let manifest = read_toml(&workspace().join(manifest)).expect("it can be read");
    let value = manifest.get("lib").and_then(|library| library.get(key));
    value.and_then(toml::Value::as_bool) == Some(false)
}

fn has_tests(file: &SourceFile) -> bool {
    file.text.lines().map(str::trim_start).any(|line| {
        line.starts_with("#[test]")
            || line.starts_with("#[tokio::test")
            || line.starts_with("proptest!")
            || line.starts_with("#[cfg(test)]")
    })
}

fn has_examples(file: &SourceFile) -> bool {
    let mut is_open = false;
    let mut found = false;
    for line in file.text.lines().map(str::trim_start) {
        let Some(text) = ["///", "//!"]
            .iter()
            .find_map(|mark| line.strip_prefix(mark))
        else {
            continue;
        };
        if let Some(kind) = text.trim_start().strip_prefix("```") {
            let first_word = kind.split(',').next().unwrap_or_default().trim();
            found |= !is_open && EXAMPLE_LANGUAGES.contains(&first_word);
            is_open = !is_open;
        }
    }
    found
}

/// The source files that have tests or examples although the manifest of their crate disables them with this key.
fn files_with_disabled(key: &str, has: fn(&SourceFile) -> bool) -> Vec<String> {
    let files = rust_files(&workspace()).expect("they can be read");
    let in_sources = files.into_iter().filter(|file| {
        let (directory, _) = file.path.split_once("/src/").unwrap_or_default();
        !directory.is_empty() && is_disabled(&format!("{directory}/Cargo.toml"), key) && has(file)
    });
    in_sources.map(|file| file.path).collect()
}

#[test]
fn a_library_with_disabled_tests_has_none() {
    let files = files_with_disabled("test", has_tests);
    assert!(
        files.is_empty(),
        "these have tests, which do not run because their manifest has `test = false`: {files:?}"
    );
}

#[test]
fn a_library_with_disabled_examples_has_none() {
    let files = files_with_disabled("doctest", has_examples);
    assert!(
        files.is_empty(),
        "these have examples, which do not run because their manifest has `doctest = false`: {files:?}"
    );
}

#[test]
fn tests_and_examples_are_found() {
    let file = |text: &str| SourceFile {
        path: "crates/x/src/lib.rs".to_owned(),
        text: text.to_owned(),
    };
    assert!(has_tests(&file(
        "mod tests {\n    #[test]\n    fn a() {}\n}"
    )));
    assert!(!has_tests(&file("fn a() {}")));
    assert!(has_examples(&file(
        "//! Use it:\n//! ```no_run\n//! a();\n//! ```"
    )));
    assert!(has_examples(&file(
        "/// ```text\n/// a\n/// ```\n///\n/// ```\n/// a();\n/// ```"
    )));
    assert!(!has_examples(&file("/// ```json\n/// {}\n/// ```")));
}
