//! Shows the circles among the modules of all crates, or of the crate that the argument names, and
//! what closes them: `cargo run -p placewright-tidy --example circles [CRATE]`.

use std::io::{self, Write as _};

use placewright_tidy::modules::Modules;
use placewright_tidy::source::workspace;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let only = std::env::args().nth(1);
    let mut out = io::stdout().lock();
    for entry in std::fs::read_dir(workspace().join("crates"))? {
        let directory = entry?;
        let name = directory.file_name().to_string_lossy().into_owned();
        if only.as_ref().is_some_and(|only| *only != name) {
            continue;
        }
        for root in ["src/lib.rs", "src/main.rs"].map(|root| directory.path().join(root)) {
            if !root.is_file() {
                continue;
            }
            let modules = Modules::read(&root)?;
            for circle in modules.circles() {
                let (circled, files) = (circle.members.len(), modules.files());
                writeln!(
                    out,
                    "{name}: {circled} of {files} files: {}",
                    circle.members.join(" ")
                )?;
                for (from, to, path) in circle.uses.iter().filter(|_| only.is_some()) {
                    writeln!(out, "    {from} -> {to}: {path}")?;
                }
            }
        }
    }
    Ok(())
}
