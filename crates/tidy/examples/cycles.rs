//! Prints the cycles among the modules of all crates, or of the crate that the argument names with the
//! uses that form them: `cargo run -p placewright-tidy --example cycles [CRATE]`.

use std::io::{self, Write as _};

use placewright_tidy::modules::Modules;
use placewright_tidy::source::workspace;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let only_crate = std::env::args().nth(1);
    let mut output = io::stdout().lock();
    for entry in std::fs::read_dir(workspace().join("crates"))? {
        let directory = entry?;
        let name = directory.file_name().to_string_lossy().into_owned();
        if only_crate
            .as_ref()
            .is_some_and(|only_crate| *only_crate != name)
        {
            continue;
        }
        for root in ["src/lib.rs", "src/main.rs"].map(|root| directory.path().join(root)) {
            if !root.is_file() {
                continue;
            }
            let modules = Modules::read(&root)?;
            for cycle in modules.cycles() {
                let (member_count, files) = (cycle.members.len(), modules.file_count());
                writeln!(
                    output,
                    "{name}: {member_count} of {files} files: {}",
                    cycle.members.join(" ")
                )?;
                for (from, to, path) in cycle.uses.iter().filter(|_| only_crate.is_some()) {
                    writeln!(output, "    {from} -> {to}: {path}")?;
                }
            }
        }
    }
    Ok(())
}
