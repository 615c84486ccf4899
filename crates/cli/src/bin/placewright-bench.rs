//! The program `placewright-bench`, which is built beside `placewright`. Its code is in the crate `placewright-bench`.

use std::process::ExitCode;

#[global_allocator]
static ALLOCATOR: placewright_allocator::Allocator = placewright_allocator::Allocator;

fn main() -> ExitCode {
    placewright_bench::main()
}
