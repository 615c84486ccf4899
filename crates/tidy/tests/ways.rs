//! The ways through the code that ARCHITECTURE.md draws: their files exist, and none is entered again
//! after it was left, unless the page says why.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;

use placewright_tidy::manifests;
use placewright_tidy::source::workspace;

const HEADING: &str = "\n## Three ways through the code, file by file\n";

/// A file on a way.
#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Entered {
    krate: String,
    /// Its path in the crate's sources.
    path: String,
    /// Whether the page marks it as entered more than once.
    is_marked: bool,
}

/// The drawing and the text below it.
fn section() -> (String, String) {
    let page = fs::read_to_string(workspace().join("ARCHITECTURE.md")).expect("it can be read");
    let (_, section) = page.split_once(HEADING).expect("the page has the section");
    let section = section.split("\n## ").next().unwrap_or(section);
    let mut parts = section.splitn(3, "```");
    let (_, drawing, text) = (parts.next(), parts.next(), parts.next());
    let drawing = drawing.expect("it has a drawing");
    (
        drawing.trim_start_matches("text").to_owned(),
        text.expect("it has a text below the drawing").to_owned(),
    )
}

/// The ways by their headings: the files of each, in order. A line goes on in the crate of the line
/// before it, unless it begins with the name of another.
fn ways(drawing: &str) -> BTreeMap<String, Vec<Entered>> {
    let crates = manifests::crates(&workspace()).expect("the manifests can be read");
    let mut ways: BTreeMap<String, Vec<Entered>> = BTreeMap::new();
    let (mut way, mut krate) = (String::new(), String::new());
    for line in drawing.lines().filter(|line| !line.trim().is_empty()) {
        if !line.starts_with(' ') {
            line.clone_into(&mut way);
            continue;
        }
        let words: Vec<&str> = line.split([' ', ',', ';']).collect();
        let first = words.iter().find(|word| !word.is_empty());
        if let Some(first) = first.filter(|first| crates.contains_key(**first)) {
            (*first).clone_into(&mut krate);
        }
        let files = words.iter().filter_map(|word| {
            let path = word.trim_end_matches('*');
            path.ends_with(".rs").then(|| Entered {
                krate: krate.clone(),
                path: path.to_owned(),
                is_marked: path.len() < word.len(),
            })
        });
        ways.entry(way.clone()).or_default().extend(files);
    }
    assert_eq!(ways.len(), 3, "{:?}", ways.keys());
    for (way, files) in &ways {
        assert!(files.len() > 15, "{way} has {} files", files.len());
    }
    ways
}

#[test]
fn every_file_of_a_way_exists() {
    let (drawing, _) = section();
    let mut gone = BTreeSet::new();
    for entered in ways(&drawing).into_values().flatten() {
        let file = format!("crates/{}/src/{}", entered.krate, entered.path);
        if !workspace().join(&file).is_file() {
            gone.insert(file);
        }
    }
    assert!(
        gone.is_empty(),
        "ARCHITECTURE.md draws ways through {gone:#?}"
    );
}

#[test]
fn no_file_is_entered_again_without_a_reason() {
    let (drawing, text) = section();
    let mut wrong = Vec::new();
    for (way, files) in ways(&drawing) {
        let mut visits: BTreeMap<(&str, &str), (usize, usize)> = BTreeMap::new();
        for entered in &files {
            let (times, marked) = visits.entry((&entered.krate, &entered.path)).or_default();
            *times += 1;
            *marked += usize::from(entered.is_marked);
        }
        for ((krate, path), (times, marked)) in visits {
            match (times, marked) {
                (1, 0) => {}
                (2.., _) if times == marked => {
                    if !text.contains(&format!("`{path}`")) {
                        wrong.push(format!("{way}: no reason for {krate} {path}"));
                    }
                }
                (1, _) => wrong.push(format!("{way}: {krate} {path} is entered once")),
                _ => wrong.push(format!(
                    "{way}: {krate} {path} comes {times} times, {marked} with *"
                )),
            }
        }
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
}
