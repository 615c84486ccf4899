//! The program `placewright-bench`, which is built beside `placewright`. Its code is in the crate `placewright-bench`.

use std::process::ExitCode;

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> ExitCode {
    placewright_bench::main()
}
