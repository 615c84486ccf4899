//! What the page on security names is there: options, and where its links lead. That its paths exist is
//! tested with those of other pages (`docs.rs`).

use std::collections::BTreeSet;
use std::fs;

use placewright_tidy::source::workspace;

fn read(page: &str) -> String {
    fs::read_to_string(workspace().join(page)).expect("it can be read")
}

/// What is written as code on one line.
fn quoted(page: &str) -> impl Iterator<Item = &str> {
    page.lines()
        .flat_map(|line| line.split('`').skip(1).step_by(2))
}

/// The options, as docs/configuration.md lists them; a test of the program compares it with the table.
fn options() -> BTreeSet<String> {
    let page = read("docs/configuration.md");
    let headings = page.lines().filter_map(|line| line.strip_prefix("### "));
    headings.map(str::to_owned).collect()
}

#[test]
fn every_option_that_the_page_on_security_names_exists() {
    let options = options();
    let section = |name: &str| name.split_once('.').map(|(section, _)| section.to_owned());
    let sections: BTreeSet<String> = options.iter().filter_map(|name| section(name)).collect();
    let is_key = |key: &str| {
        key.bytes()
            .all(|byte| byte.is_ascii_lowercase() || byte == b'_')
    };
    let mut named = BTreeSet::new();
    let page = read("docs/security.md");
    for quoted in quoted(&page) {
        // `section.key`, perhaps with a value behind it.
        let name = quoted.split_whitespace().next().unwrap_or_default();
        if let Some((section, key)) = name.split_once('.')
            && sections.contains(section)
            && is_key(key)
        {
            named.insert(name.to_owned());
        }
    }
    let gone: Vec<_> = named.difference(&options).collect();
    assert!(
        gone.is_empty(),
        "docs/security.md names {gone:?}, which are no options"
    );
    assert!(named.len() > 40, "few options are found: {named:?}");
}

/// What a link to a heading says behind `#`.
fn anchor(heading: &str) -> String {
    let kept = |letter: &char| letter.is_alphanumeric() || matches!(letter, ' ' | '-' | '_');
    let text: String = heading.chars().filter(kept).collect();
    text.trim().to_lowercase().replace(' ', "-")
}

#[test]
fn the_links_of_the_page_on_security_lead_somewhere() {
    let page = read("docs/security.md");
    let mut broken = Vec::new();
    for link in page
        .split("](")
        .skip(1)
        .filter_map(|rest| rest.split(')').next())
    {
        let (file, wanted) = link.split_once('#').unwrap_or((link, ""));
        let path = match file {
            "" => "docs/security.md".to_owned(),
            file => format!("docs/{file}"),
        };
        if !workspace().join(&path).exists() {
            broken.push(link);
            continue;
        }
        let target = read(&path);
        let mut headings = target.lines().filter(|line| line.starts_with('#'));
        let is_there = headings.any(|line| anchor(line.trim_start_matches('#')) == wanted);
        if !wanted.is_empty() && !is_there {
            broken.push(link);
        }
    }
    assert!(broken.is_empty(), "docs/security.md links to {broken:?}");
}
