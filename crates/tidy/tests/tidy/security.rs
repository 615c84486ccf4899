//! The options that the page on security names, and the targets of its links, exist. Its paths are
//! tested with those of other pages (`docs.rs`).

use std::collections::BTreeSet;
use std::fs;

use placewright_tidy::source::workspace;

fn read(page: &str) -> String {
    fs::read_to_string(workspace().join(page)).expect("it can be read")
}

/// The texts in code quotes on one line.
fn code_texts(page: &str) -> impl Iterator<Item = &str> {
    page.lines()
        .flat_map(|line| line.split('`').skip(1).step_by(2))
}

/// The options in docs/configuration.md, which a test of the program compares with the table of options.
fn options() -> BTreeSet<String> {
    let page = read("docs/configuration.md");
    let headings = page.lines().filter_map(|line| line.strip_prefix("### "));
    headings.map(str::to_owned).collect()
}

#[test]
fn every_option_in_the_page_on_security_exists() {
    let options = options();
    let section = |name: &str| name.split_once('.').map(|(section, _)| section.to_owned());
    let sections: BTreeSet<String> = options.iter().filter_map(|name| section(name)).collect();
    // `identity.pem` is the file with a role's certificate, and not an option of the section `identity`.
    let is_key = |key: &str| {
        let mut bytes = key.bytes();
        key != "pem" && bytes.all(|byte| byte.is_ascii_lowercase() || byte == b'_')
    };
    let mut named_options = BTreeSet::new();
    let page = read("docs/security.md");
    for quoted in code_texts(&page) {
        // `section.key`, perhaps followed by a value.
        let name = quoted.split_whitespace().next().unwrap_or_default();
        if let Some((section, key)) = name.split_once('.')
            && sections.contains(section)
            && is_key(key)
        {
            named_options.insert(name.to_owned());
        }
    }
    let missing: Vec<_> = named_options.difference(&options).collect();
    assert!(
        missing.is_empty(),
        "docs/security.md names {missing:?}, which are no options"
    );
    assert!(
        named_options.len() > 40,
        "few options are found: {named_options:?}"
    );
}

/// The part after `#` in a link to a heading.
fn anchor(heading: &str) -> String {
    let is_in_anchor =
        |letter: &char| letter.is_alphanumeric() || matches!(letter, ' ' | '-' | '_');
    let text: String = heading.chars().filter(is_in_anchor).collect();
    text.trim().to_lowercase().replace(' ', "-")
}

#[test]
fn the_links_of_the_page_on_security_have_targets() {
    let page = read("docs/security.md");
    let mut broken = Vec::new();
    for link in page
        .split("](")
        .skip(1)
        .filter_map(|rest| rest.split(')').next())
    {
        let (file, heading_anchor) = link.split_once('#').unwrap_or((link, ""));
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
        let has_heading =
            headings.any(|line| anchor(line.trim_start_matches('#')) == heading_anchor);
        if !heading_anchor.is_empty() && !has_heading {
            broken.push(link);
        }
    }
    assert!(broken.is_empty(), "docs/security.md links to {broken:?}");
}
