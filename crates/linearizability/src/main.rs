//! `placewright-linearizability FILE...`: checks histories that `tests/replicas` recorded.

#![allow(
    clippy::print_stdout,
    clippy::print_stderr,
    reason = "a program that reports"
)]

use std::fs::File;
use std::io::BufReader;
use std::process::ExitCode;
use std::time::Instant;

use placewright_linearizability::provider::ProviderModel;
use placewright_linearizability::{Verdict, check, history};

const HELP: &str = "\
usage: placewright-linearizability FILE...

Says whether recorded histories are linearizable: whether for each object there is an order
of all operations that explains every answer, each operation between its call and its return.
An operation without an answer may have taken effect at any time after its call, or never.

A file has a line of JSON for each operation, in any order:
  {\"object\": \"p1\", \"client\": 3, \"call\": 1200, \"answered\": 1900,
   \"input\": {\"do\": \"show_usage\"}, \"output\": {\"is\": \"usage\", \"generation\": 4, \"used\": 7}}
`answered` and `output` are null if the outcome is not known. Times are of one clock.

Exit code 0: all are linearizable; 1: one is not, or it cannot be told; 2: a file cannot be read.";

fn main() -> ExitCode {
    let paths: Vec<String> = std::env::args().skip(1).collect();
    if paths.is_empty() || paths.iter().any(|path| path == "--help" || path == "-h") {
        println!("{HELP}");
        return ExitCode::from(if paths.is_empty() { 2 } else { 0 });
    }
    let mut are_linearizable = true;
    for path in paths {
        match check_file(&path) {
            Ok(is_linearizable) => are_linearizable &= is_linearizable,
            Err(error) => {
                eprintln!("{path}: {error}");
                return ExitCode::from(2);
            }
        }
    }
    ExitCode::from(u8::from(!are_linearizable))
}

fn check_file(path: &str) -> Result<bool, history::HistoryError> {
    let objects = history::read(BufReader::new(File::open(path)?))?;
    let started = Instant::now();
    let (mut operations, mut unknown, mut wrong) = (0, 0, 0);
    for (object, history) in &objects {
        operations += history.len();
        unknown += history.iter().filter(|one| one.answer.is_none()).count();
        match check::<ProviderModel>(history) {
            Verdict::Linearizable => {}
            Verdict::NotLinearizable(text) => {
                wrong += 1;
                println!("{path}: {object} is not linearizable: {text}");
            }
            Verdict::Undecided => {
                wrong += 1;
                println!("{path}: {object}: too many orders are possible to try them all");
            }
        }
    }
    println!(
        "{path}: {operations} operations on {} objects, {unknown} without an answer, checked in {:.1} s: {}",
        objects.len(),
        started.elapsed().as_secs_f64(),
        match wrong {
            0 => "linearizable".to_owned(),
            count => format!("{count} objects are not linearizable"),
        }
    );
    Ok(wrong == 0)
}
