//! A file that is hashed while it is written.

use std::io::{self, Write as _};

use md5::{Digest as _, Md5};
use placewright_conductor::super_conductor::ImageContent;
use ring::digest::{Context, SHA512};
use tempfile::NamedTempFile;

/// A file that is being written, with the hashes of the bytes so far.
pub(crate) struct HashingWriter {
    file: NamedTempFile,
    size: u64,
    md5: Md5,
    sha512: Context,
}

impl HashingWriter {
    pub(crate) fn new(file: NamedTempFile) -> Self {
        Self {
            file,
            size: 0,
            md5: Md5::new(),
            sha512: Context::new(&SHA512),
        }
    }

    pub(crate) fn write(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.file.write_all(bytes)?;
        self.size = self.size.saturating_add(bytes.len() as u64);
        self.md5.update(bytes);
        self.sha512.update(bytes);
        Ok(())
    }

    /// The file, with the size and the hashes of its contents.
    pub(crate) fn finish(self) -> (NamedTempFile, ImageContent) {
        let content = ImageContent {
            size: self.size,
            md5: hexadecimal(&self.md5.finalize()),
            sha512: hexadecimal(self.sha512.finish().as_ref()),
        };
        (self.file, content)
    }
}

fn hexadecimal(bytes: &[u8]) -> String {
    use std::fmt::Write as _;
    let mut text = String::with_capacity(2 * bytes.len());
    for byte in bytes {
        // Writing to a text cannot fail.
        let _ = write!(text, "{byte:02x}");
    }
    text
}
