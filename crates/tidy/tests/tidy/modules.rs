//! The uses between modules, and the cycles among them.

use std::fs;

use placewright_tidy::modules::{Cycle, Modules};
use tempfile::TempDir;

/// Writes files, of which the first is the root of a crate, and returns the cycles of the crate.
fn cycles(files: &[(&str, &str)]) -> Vec<Cycle> {
    let folder = TempDir::new().expect("there is room");
    for (path, text) in files {
        let path = folder.path().join(path);
        fs::create_dir_all(path.parent().expect("it has one")).expect("it can be made");
        fs::write(path, text).expect("it can be written");
    }
    let modules = Modules::read(&folder.path().join(files[0].0)).expect("it can be read");
    assert_eq!(modules.file_count(), files.len());
    modules.cycles()
}

/// What [`members`] returns for no cycles.
const NO_CYCLES: [&str; 0] = [];

/// The members of each cycle, with blanks between them.
fn members(cycles: &[Cycle]) -> Vec<String> {
    cycles.iter().map(|cycle| cycle.members.join(" ")).collect()
}

#[test]
fn two_modules_that_use_each_other_are_a_cycle() {
    let cycles_found = cycles(&[
        ("lib.rs", "mod a; mod b; mod c; pub use a::A;"),
        (
            "a.rs",
            "use crate::b::B; use crate::c; pub struct A(B, c::C);",
        ),
        ("b.rs", "pub struct B; fn f(_: &super::a::A) {}"),
        ("c.rs", "pub struct C;"),
    ]);
    assert_eq!(members(&cycles_found), ["a b"]);
    assert_eq!(
        cycles_found[0].uses,
        [
            ("a".to_owned(), "b".to_owned(), "crate::b::B".to_owned()),
            ("b".to_owned(), "a".to_owned(), "super::a::A".to_owned()),
        ],
    );
}

#[test]
fn a_re_export_is_no_use_and_leads_to_the_definition() {
    let cycles_found = cycles(&[
        (
            "lib.rs",
            "mod a; mod b; pub use a::{A as First, Other}; pub use b::*; pub struct Root;",
        ),
        (
            "a.rs",
            "use crate::Root; pub struct A(Root); pub struct Other;",
        ),
        (
            "b.rs",
            "use crate::{First, Other}; pub struct B(First, Other); type R = super::Root;",
        ),
    ]);
    assert_eq!(members(&cycles_found), NO_CYCLES);
}

#[test]
fn a_re_export_that_is_also_used_is_a_use() {
    let cycles_found = cycles(&[
        ("lib.rs", "mod a; mod b; mod c;"),
        ("a.rs", "pub struct A(Option<Box<crate::b::B>>);"),
        ("b.rs", "pub use crate::a::A; pub struct B(A);"),
        ("c.rs", "pub use crate::b::A;"),
    ]);
    assert_eq!(members(&cycles_found), ["a b"]);
}

#[test]
fn a_module_and_its_child_may_use_each_other() {
    let cycles_found = cycles(&[
        ("main.rs", "mod a; mod b; fn main() { a::run() }"),
        (
            "a.rs",
            "mod inner; pub fn run() { inner::go() } pub fn help() {}",
        ),
        (
            "a/inner.rs",
            "use super::*; pub fn go() { help(); crate::b::go() }",
        ),
        ("b.rs", "pub fn go() { crate::main() }"),
    ]);
    assert_eq!(members(&cycles_found), NO_CYCLES);
}

#[test]
fn a_child_can_close_a_cycle() {
    let cycles_found = cycles(&[
        ("lib.rs", "mod a; mod b;"),
        ("a.rs", "mod inner; pub fn help() {}"),
        ("a/inner.rs", "pub fn go() { crate::b::go() }"),
        ("b.rs", "pub fn go() { crate::a::inner::go() }"),
    ]);
    assert_eq!(members(&cycles_found), ["a::inner b"]);
}

#[test]
fn tests_and_other_crates_are_ignored() {
    let cycles_found = cycles(&[
        ("lib.rs", "mod a; mod b; use std::fmt;"),
        (
            "a.rs",
            "pub struct A; #[cfg(test)] mod tests { use crate::b::B; } \
             #[cfg(test)] use crate::b::B; /* crate::b::B */ const T: &str = \"crate::b::B\";",
        ),
        (
            "b.rs",
            "use super::fmt; pub struct B(crate::a::A); impl fmt::Debug for B {}",
        ),
    ]);
    assert_eq!(members(&cycles_found), NO_CYCLES);
}

#[test]
fn modules_inside_a_file_belong_to_it() {
    let cycles_found = cycles(&[
        ("lib.rs", "mod a; mod c;"),
        ("a.rs", "pub mod b { pub fn f() { super::super::c::f() } }"),
        ("c.rs", "pub fn f() { if false { crate::a::b::f() } }"),
    ]);
    assert_eq!(members(&cycles_found), ["a c"]);
}
