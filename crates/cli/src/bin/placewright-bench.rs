//! The program `placewright-bench`, which is built beside `placewright`: see the crate of that name.

use std::process::ExitCode;

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> ExitCode {
    placewright_bench::main()
}
