//! Golden files: the bytes that a release wrote, which every later release has to read, and to write in the same form.

use std::path::Path;

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

fn bytes_of(hex: &str) -> Vec<u8> {
    let hex = hex.trim().as_bytes();
    hex.chunks(2)
        .map(|pair| u8::from_str_radix(std::str::from_utf8(pair).unwrap(), 16).unwrap())
        .collect()
}

/// The bytes of a golden file, which has to exist.
pub(crate) fn golden(name: &str) -> Vec<u8> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden");
    bytes_of(&std::fs::read_to_string(folder.join(format!("{name}.hex"))).unwrap())
}

/// Asserts that this release writes the bytes of a golden file. A file that is missing is written first, and the
/// test fails.
pub(crate) fn assert_writes(name: &str, bytes: &[u8]) {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden");
    let file = folder.join(format!("{name}.hex"));
    if !file.exists() {
        std::fs::write(&file, hex(bytes) + "\n").unwrap();
        panic!("{} was written: commit it", file.display());
    }
    assert_eq!(hex(bytes), hex(&golden(name)), "{name}");
}
