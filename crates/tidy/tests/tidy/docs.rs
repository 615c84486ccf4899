//! Every path, source file and identifier that the checked pages name exists. If a page says that an identifier is in a
//! file, it is in this file. Every crate and decision record is listed.

use std::collections::{BTreeSet, HashSet};
use std::fs;
use std::path::Path;

use placewright_tidy::manifests;
use placewright_tidy::source::workspace;

/// The checked pages. Decision records are not among them: they name what existed when they were made.
const PAGES: [&str; 7] = [
    "README.md",
    "ARCHITECTURE.md",
    "CONTRIBUTING.md",
    "SECURITY.md",
    "docs/ranking.md",
    "docs/security.md",
    "tests/README.md",
];

/// The pages that name source files without their folders.
const PAGES_WITH_FILE_NAMES: [&str; 3] = ["ARCHITECTURE.md", "CONTRIBUTING.md", "docs/ranking.md"];

/// The pages on which every identifier in code quotes is one of the project's.
const PAGES_WITH_IDENTIFIERS: [&str; 2] = ["ARCHITECTURE.md", "CONTRIBUTING.md"];

/// The prefixes of paths from the root of the workspace.
const FOLDERS: [&str; 5] = ["crates/", "tests/", "docs/", "packaging/", "examples/"];

fn read(page: &str) -> String {
    fs::read_to_string(workspace().join(page)).expect("it can be read")
}

/// The texts in code quotes on one line, and the targets of links.
fn code_and_links(page: &str) -> BTreeSet<String> {
    let code = page
        .lines()
        .flat_map(|line| line.split('`').skip(1).step_by(2));
    let links = page
        .split("](")
        .skip(1)
        .filter_map(|rest| rest.split([')', '#']).next());
    code.chain(links).map(str::to_owned).collect()
}

#[test]
fn every_path_in_a_page_exists() {
    let mut missing = Vec::new();
    for page in PAGES {
        for quoted in code_and_links(&read(page)) {
            // Arguments may follow a path, and a path with `*` stands for several files.
            let path = quoted.split_whitespace().next().unwrap_or_default();
            // A path of tests is relative to the crate that the page describes.
            let is_relative_to_crate = path.starts_with("tests/") && path.ends_with(".rs");
            let is_path =
                !is_relative_to_crate && FOLDERS.iter().any(|folder| path.starts_with(folder));
            let path = path.split('*').next().unwrap_or_default();
            if is_path && !workspace().join(path).exists() {
                missing.push(format!("{page} names {path}"));
            }
        }
    }
    assert!(
        missing.is_empty(),
        "not there any more:\n{}",
        missing.join("\n")
    );
}

/// Appends the paths of all files below a folder. Folders whose names begin with a dot have files of tools.
fn collect_files(folder: &Path, files: &mut Vec<String>) {
    for entry in fs::read_dir(folder).expect("it can be read") {
        let entry = entry.expect("it can be read");
        let path = entry.path();
        if entry.file_name().to_string_lossy().starts_with('.') {
            continue;
        }
        if path.is_dir() {
            collect_files(&path, files);
        } else {
            files.push(path.to_string_lossy().into_owned());
        }
    }
}

#[test]
fn every_source_file_in_a_page_exists() {
    let mut files = Vec::new();
    collect_files(&workspace().join("crates"), &mut files);
    let exists = |name: &str| files.iter().any(|file| file.ends_with(&format!("/{name}")));
    let missing_files_of = |page: &str| -> Vec<String> {
        code_and_links(&read(page))
            .into_iter()
            .filter(|quoted| quoted.ends_with(".rs") && !quoted.contains([' ', '*', '{']))
            .filter(|name| !exists(name.trim_start_matches("../")))
            .map(|name| format!("{page} names {name}"))
            .collect()
    };
    let missing: Vec<String> = PAGES_WITH_FILE_NAMES
        .into_iter()
        .flat_map(missing_files_of)
        .collect();
    assert!(missing.is_empty(), "not there any more: {missing:?}");
}

/// The names that a page says are in a source file, each with the file: "`one` and `two` of `folder/file.rs`".
fn names_in_files(page: &str) -> Vec<(String, String)> {
    let text = page.split_whitespace().collect::<Vec<_>>().join(" ");
    // Every other part is in code quotes.
    let parts: Vec<&str> = text.split('`').collect();
    let mut names = Vec::new();
    for (index, file) in parts.iter().enumerate().skip(3).step_by(2) {
        if !file.ends_with(".rs") || parts[index - 1] != " of " {
            continue;
        }
        let mut index = index - 2;
        loop {
            names.push((parts[index].to_owned(), (*file).to_owned()));
            if index < 3 || ![", ", " and "].contains(&parts[index - 1]) {
                break;
            }
            index -= 2;
        }
    }
    names
}

fn is_identifier(name: &str) -> bool {
    let is_allowed = |c: char| c.is_ascii_alphanumeric() || "_:".contains(c);
    !name.is_empty() && name.chars().all(is_allowed)
}

#[test]
fn every_identifier_in_a_page_is_somewhere_in_the_source() {
    let mut files = Vec::new();
    for folder in ["crates", "tests", "packaging"] {
        collect_files(&workspace().join(folder), &mut files);
    }
    let mut words = HashSet::new();
    for file in files {
        // Files that are no texts have no identifiers.
        let text = fs::read_to_string(file).unwrap_or_default();
        let found = text.split(|c: char| !c.is_ascii_alphanumeric() && c != '_');
        words.extend(found.map(str::to_owned));
    }
    let is_known = |name: &str| name.split("::").all(|part| words.contains(part));
    let missing_of = |page: &str| -> Vec<String> {
        let names = code_and_links(&read(page)).into_iter();
        let missing = names.filter(|name| is_identifier(name) && !is_known(name));
        missing.map(|name| format!("{page} names {name}")).collect()
    };
    let missing: Vec<String> = PAGES_WITH_IDENTIFIERS
        .into_iter()
        .flat_map(missing_of)
        .collect();
    assert!(missing.is_empty(), "not there any more: {missing:?}");
}

#[test]
fn every_identifier_that_a_page_places_in_a_source_file_is_there() {
    let mut files = Vec::new();
    collect_files(&workspace().join("crates"), &mut files);
    let mut checked = 0;
    let mut missing = Vec::new();
    for page in PAGES {
        for (name, file) in names_in_files(&read(page)) {
            if !is_identifier(&name) {
                continue;
            }
            // A page may name a file without its folders: then one file of that name has to have the identifier.
            let end = format!("/{file}");
            let candidates = files.iter().filter(|path| path.ends_with(&end));
            let has_name = |path: &String| {
                let content = fs::read_to_string(path).expect("it can be read");
                name.split("::").all(|part| content.contains(part))
            };
            checked += 1;
            if !candidates.clone().any(has_name) {
                missing.push(format!("{page} names {name} of {file}"));
            }
        }
    }
    // Without names the test would pass.
    assert!(checked > 20, "only {checked} names found");
    assert!(
        missing.is_empty(),
        "not there any more:\n{}",
        missing.join("\n")
    );
}

/// A table whose lines were joined, as by a tool that wraps paragraphs, is shown as text.
#[test]
fn the_rows_of_tables_are_lines_of_their_own() {
    let mut pages: Vec<String> = PAGES.map(str::to_owned).to_vec();
    for folder in ["docs", "docs/decisions"] {
        let entries = fs::read_dir(workspace().join(folder)).expect("it can be read");
        let names = entries.map(|entry| entry.expect("it can be read").file_name());
        let names = names.map(|name| format!("{folder}/{}", name.to_string_lossy()));
        pages.extend(names.filter(|name| name.ends_with(".md")));
    }
    let is_joined = |line: &str| {
        line.contains("| --- |") && !line.chars().all(|character| "|-: ".contains(character))
    };
    for page in pages {
        let joined = read(&page).lines().position(is_joined);
        assert_eq!(joined, None, "{page} has a table on one line");
    }
}

#[test]
fn every_crate_is_listed_for_contributors() {
    let page = read("CONTRIBUTING.md");
    let crates = manifests::crates(&workspace()).expect("the manifests can be read");
    let missing: Vec<_> = crates
        .keys()
        .filter(|name| !page.contains(&format!("| `crates/{name}` |")))
        .collect();
    assert!(
        missing.is_empty(),
        "CONTRIBUTING.md does not list the crates {missing:?}"
    );
}

#[test]
fn every_decision_is_listed_and_numbered() {
    let page = read("docs/decisions/README.md");
    let folder = fs::read_dir(workspace().join("docs/decisions")).expect("it can be read");
    let names = folder.map(|entry| entry.expect("it can be read").file_name());
    let mut names: Vec<String> = names
        .map(|name| name.to_string_lossy().into_owned())
        .collect();
    names.retain(|name| name != "README.md");
    names.sort();
    for (index, name) in names.iter().enumerate() {
        assert!(
            name.starts_with(&format!("{:04}-", index + 1)),
            "{name} has another number"
        );
        assert!(
            page.contains(&format!("({name})")),
            "docs/decisions/README.md lacks {name}"
        );
        let record = read(&format!("docs/decisions/{name}"));
        for part in [
            "## Context",
            "## Decision",
            "## Consequences",
            "## What else was weighed",
        ] {
            assert!(record.contains(part), "{name} has no part {part:?}");
        }
    }
}
