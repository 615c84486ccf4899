//! `placewright-bench seeds` writes the page of the experiments, and the page in the documents is one that it has written.

#![allow(clippy::unwrap_used, reason = "a test may fail")]

use std::fs;
use std::path::Path;

use placewright_bench::{is_as_written, run};

/// The sections of the page, each with words of the heading of its last table.
const SECTIONS: [(&str, &str); 5] = [
    ("Shared state", "| visible retries |"),
    ("The old ways, step by step", "| failed of 31 |"),
    ("Filtering where the data is", "| share of HTTP |"),
    ("Builds that fail", "| scheduled requests a server |"),
    ("Cells, and cells that are down", "| servers a second |"),
];

#[test]
fn the_command_writes_the_page_with_its_plots() {
    // It stays, so that the page can be looked at.
    let directory = Path::new(env!("CARGO_TARGET_TMPDIR")).join("seeds");
    let _ = fs::remove_dir_all(&directory);
    fs::create_dir_all(&directory).unwrap();
    let folder = directory.to_str().unwrap();
    run([
        "placewright-bench",
        "seeds",
        "--short",
        "--output",
        folder,
        "--directory",
        folder,
    ])
    .unwrap();
    let page = fs::read_to_string(directory.join("experiments.md")).unwrap();
    assert!(is_as_written(&page));
    assert!(!is_as_written(&page.replace("Machine", "machine")));
    for word in ["- Date: ", "- Commit: ", "- Machine: ", "seeds --short`"] {
        assert!(page.contains(word), "{word}");
    }
    for (title, heading) in SECTIONS {
        let (_, section) = page.split_once(&format!("\n## {title}\n")).unwrap();
        let section = section.split("\n## ").next().unwrap();
        assert!(section.contains(heading), "{title}: {section}");
    }
    check_tables(&page);
    let plots = links(&page);
    assert!(plots.len() > SECTIONS.len(), "{plots:?}");
    for plot in plots {
        let plot = fs::read_to_string(directory.join(plot)).unwrap();
        assert!(
            plot.starts_with("<svg ") && plot.contains("<circle"),
            "{plot}"
        );
        assert!(!plot.contains("NaN") && !plot.contains("inf"), "{plot}");
    }
}

#[test]
fn the_page_in_the_documents_is_as_it_was_written() {
    let documents = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs");
    // Until the first full run there is none.
    let Ok(page) = fs::read_to_string(documents.join("experiments.md")) else {
        return;
    };
    assert!(
        is_as_written(&page),
        "docs/experiments.md was edited: run `placewright-bench seeds` instead"
    );
    for plot in links(&page) {
        assert!(documents.join(&plot).exists(), "{plot}");
    }
}

/// Each row of a table has as many cells as the heading, and none is empty.
fn check_tables(page: &str) {
    let mut columns = None;
    let mut rows = 0;
    for line in page.lines() {
        if !line.starts_with('|') {
            columns = None;
            continue;
        }
        let cells: Vec<_> = line.trim_matches('|').split('|').map(str::trim).collect();
        assert_eq!(*columns.get_or_insert(cells.len()), cells.len(), "{line}");
        assert!(cells.iter().all(|cell| !cell.is_empty()), "{line}");
        assert!(!line.contains("NaN") && !line.contains("inf "), "{line}");
        rows += 1;
    }
    assert!(rows > 20, "{rows} rows");
}

fn links(page: &str) -> Vec<String> {
    let links = page.split("](").skip(1);
    let targets = links.filter_map(|rest| rest.split(')').next());
    targets.map(str::to_owned).collect()
}
