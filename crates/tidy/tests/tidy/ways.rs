//! ARCHITECTURE.md has a drawing of three ways: the files that a request passes, in order. Each of these files exists,
//! and no way enters a file twice unless the page says why.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;

use placewright_tidy::manifests;
use placewright_tidy::source::workspace;

const HEADING: &str = "\n## Three ways through the code, file by file\n";

/// A file on a way.
#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
struct VisitedFile {
    crate_name: String,
    /// Its path in the crate's sources.
    path: String,
    /// Whether the page marks it as entered more than once.
    is_marked: bool,
}

/// The drawing, and the text below it.
fn section() -> (String, String) {
    let page = fs::read_to_string(workspace().join("ARCHITECTURE.md")).expect("it can be read");
    let (_, section) = page.split_once(HEADING).expect("the page has the section");
    let section = section.split("\n## ").next().unwrap_or(section);
    let mut parts = section.splitn(3, "```");
    let (_, drawing, text) = (parts.next(), parts.next(), parts.next());
    let drawing = drawing.expect("it has a drawing");
    (
        // The code block of the drawing begins with its language, `text`.
        drawing.trim_start_matches("text").to_owned(),
        text.expect("it has a text below the drawing").to_owned(),
    )
}

/// The files of each way in order, by the way's heading. A line that does not begin with the name of a
/// crate continues in the crate of the line before it.
fn files_by_way(drawing: &str) -> BTreeMap<String, Vec<VisitedFile>> {
    let crates = manifests::crates(&workspace()).expect("the manifests can be read");
    let mut files_by_way: BTreeMap<String, Vec<VisitedFile>> = BTreeMap::new();
    let (mut way, mut crate_name) = (String::new(), String::new());
    for line in drawing.lines().filter(|line| !line.trim().is_empty()) {
        if !line.starts_with(' ') {
            line.clone_into(&mut way);
            continue;
        }
        let words: Vec<&str> = line.split([' ', ',', ';']).collect();
        let first_word = words.iter().find(|word| !word.is_empty());
        if let Some(first_word) = first_word.filter(|first_word| crates.contains_key(**first_word))
        {
            (*first_word).clone_into(&mut crate_name);
        }
        let files = words.iter().filter_map(|word| {
            let path = word.trim_end_matches('*');
            path.ends_with(".rs").then(|| VisitedFile {
                crate_name: crate_name.clone(),
                path: path.to_owned(),
                is_marked: path.len() < word.len(),
            })
        });
        files_by_way.entry(way.clone()).or_default().extend(files);
    }
    assert_eq!(files_by_way.len(), 3, "{:?}", files_by_way.keys());
    for (way, files) in &files_by_way {
        assert!(files.len() > 15, "{way} has {} files", files.len());
    }
    files_by_way
}

#[test]
fn every_file_of_a_way_exists() {
    let (drawing, _) = section();
    let mut missing = BTreeSet::new();
    for visited in files_by_way(&drawing).into_values().flatten() {
        let file = format!("crates/{}/src/{}", visited.crate_name, visited.path);
        if !workspace().join(&file).is_file() {
            missing.insert(file);
        }
    }
    assert!(
        missing.is_empty(),
        "ARCHITECTURE.md draws ways through {missing:#?}"
    );
}

#[test]
fn no_file_is_entered_twice_without_a_reason() {
    let (drawing, text) = section();
    let mut violations = Vec::new();
    for (way, files) in files_by_way(&drawing) {
        let mut visits: BTreeMap<(&str, &str), (usize, usize)> = BTreeMap::new();
        for visited in &files {
            let (visit_count, marked_count) = visits
                .entry((&visited.crate_name, &visited.path))
                .or_default();
            *visit_count += 1;
            *marked_count += usize::from(visited.is_marked);
        }
        for ((crate_name, path), (visit_count, marked_count)) in visits {
            match (visit_count, marked_count) {
                (1, 0) => {}
                (2.., _) if visit_count == marked_count => {
                    if !text.contains(&format!("`{path}`")) {
                        violations.push(format!("{way}: no reason for {crate_name} {path}"));
                    }
                }
                (1, _) => violations.push(format!("{way}: {crate_name} {path} is entered once")),
                _ => violations.push(format!(
                    "{way}: {crate_name} {path} comes {visit_count} times, {marked_count} with *"
                )),
            }
        }
    }
    assert!(violations.is_empty(), "{violations:#?}");
}
