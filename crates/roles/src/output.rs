//! Standard output, whose reader (such as `head`) may stop early.

use std::io::Write as _;

/// `println!` for output whose reader may stop early.
#[macro_export]
macro_rules! outln {
    ($($argument:tt)*) => {
        $crate::output::out(&format!("{}\n", format_args!($($argument)*)))
    };
}

/// Prints a text. It is no error when the reader stopped early.
///
/// # Errors
///
/// Standard output cannot be written.
pub fn print(text: &str) -> anyhow::Result<()> {
    match std::io::stdout().write_all(text.as_bytes()) {
        Err(error) if error.kind() != std::io::ErrorKind::BrokenPipe => Err(error.into()),
        _ => Ok(()),
    }
}

/// Prints part of a longer output. An error ends the process: the rest could not be printed either.
pub fn out(text: &str) {
    if let Err(error) = print(text) {
        eprintln!("placewright: standard output: {error:#}");
        std::process::exit(1);
    }
}
