//! `placewright-bench seeds` writes the page of the experiments, and the page in the documents is one that it has
//! written.

#![allow(clippy::unwrap_used, reason = "a test may fail")]

use std::fs;
use std::path::Path;

use placewright_bench::{is_as_written, run};

/// The sections of the page, each with words of the heading of its last table.
const SECTIONS: [(&str, &str); 6] = [
    ("Shared state", "| visible retries |"),
    ("The old ways, step by step", "| failed of 31 |"),
    ("Nova's own scheduler", "| whole over whole |"),
    ("Filtering where the data is", "| share of HTTP |"),
    ("Builds that fail", "| scheduled requests a server |"),
    ("Cells, and cells that are down", "| servers a second |"),
];

/// Figures of Nova, in the form in which `tests/peers/nova/scheduler.py` prints them.
const NOVA: &str = r#"{
 "nova": "34.0.0",
 "python": "3.11.2",
 "date": "2026-11-28",
 "machine": "A processor, 2 cores",
 "figures": [
  {
   "hosts": 3, "fleet": "empty", "with_room": 3, "candidates_limit": 1000, "candidates": 3, "decisions": 310,
   "p50_ms": {
    "candidates": 0.1, "rows": 9.5, "host_states": 3.5, "filters": 0.3, "weighers": 0.4, "sorted_hosts": 0.7,
    "claim": 0.2, "consume": 0.2, "whole": 24.5
   }
  },
  {
   "hosts": 320, "fleet": "nearly full", "with_room": 32, "candidates_limit": 1000, "candidates": 32, "decisions": 62,
   "p50_ms": {
    "candidates": 0.7, "rows": 63.5, "host_states": 48.5, "filters": 3.9, "weighers": 5.4, "sorted_hosts": 9.4,
    "claim": 0.2, "consume": 0.2, "whole": 138.5
   }
  }
 ]
}"#;

#[test]
fn the_command_writes_the_page_with_its_plots() {
    // This directory is not deleted after the test, so that a developer can look at the page.
    let directory = Path::new(env!("CARGO_TARGET_TMPDIR")).join("seeds");
    let _ = fs::remove_dir_all(&directory);
    fs::create_dir_all(&directory).unwrap();
    let folder = directory.to_str().unwrap();
    let nova = directory.join("nova.json");
    fs::write(&nova, NOVA).unwrap();
    run([
        "placewright-bench",
        "seeds",
        "--short",
        "--nova",
        nova.to_str().unwrap(),
        "--output",
        folder,
        "--directory",
        folder,
    ])
    .unwrap();
    let page = fs::read_to_string(directory.join("experiments.md")).unwrap();
    assert!(is_as_written(&page));
    assert!(!is_as_written(&page.replace("Machine", "machine")));
    for word in [
        "- Date: ",
        "- Commit: ",
        "- Machine: ",
        "seeds --nova FILE --short`",
    ] {
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
fn impossible_figures_of_nova_are_refused() {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("nova.json");
    let refusal = |text: Option<&str>| {
        if let Some(text) = text {
            fs::write(&file, text).unwrap();
        }
        let folder = directory.path().to_str().unwrap();
        let mut arguments = vec!["placewright-bench", "seeds", "--short", "--only", "nova"];
        arguments.extend(["--output", folder, "--directory", folder]);
        if text.is_some() {
            arguments.extend(["--nova", file.to_str().unwrap()]);
        }
        let refusal = run(arguments).unwrap_err().to_string();
        assert!(!directory.path().join("experiments.md").exists());
        refusal
    };
    assert!(refusal(None).contains("needs --nova FILE"));
    let wrong = [
        ("", "", "not the output of"),
        ("\"nova\"", "\"glance\"", "not the output of"),
        ("\"hosts\": 3,", "\"hosts\": 0,", "figures[0].hosts"),
        ("\"hosts\": 3,", "\"hosts\": 2,", "figures[0].hosts"),
        ("\"hosts\": 320", "\"hosts\": 340", "figures[1].with_room"),
        ("24.5", "0.0", "figures[0].p50_ms.whole"),
        ("9.4", "-9.4", "figures[1].p50_ms.sorted_hosts"),
    ];
    for (from, to, problem) in wrong {
        let text = if from.is_empty() {
            String::new()
        } else {
            NOVA.replacen(from, to, 1)
        };
        let refusal = refusal(Some(&text));
        assert!(refusal.contains(problem), "{problem}: {refusal}");
    }
}

#[test]
fn the_page_in_the_documents_is_as_it_was_written() {
    let documents = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs");
    // There is no page before the first full run of the experiments.
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

/// Checks that each row of a table has as many cells as the heading, and that none is empty.
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
