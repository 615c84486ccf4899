//! A JSON writer in the form of the reference: a space behind commas and colons, and only ASCII.
//!
//! It writes into a byte buffer, without a tree of values.

/// Writes JSON into a byte buffer, and inserts the commas.
///
/// The caller pairs `open_*` and `close_*`, and writes a key before each value of an object.
#[derive(Debug, Default)]
pub struct Writer {
    out: Vec<u8>,
    /// Whether the next key or value needs a comma before it.
    needs_comma: bool,
}

impl Writer {
    /// Creates a writer with a buffer of this capacity in bytes.
    pub fn with_capacity(capacity: usize) -> Self {
        Self {
            out: Vec::with_capacity(capacity),
            needs_comma: false,
        }
    }

    /// Returns all that was written.
    pub fn finish(self) -> Vec<u8> {
        self.out
    }

    /// Takes the bytes that were written since the last call, as a piece of a response. The buffer for the next piece
    /// has room for as many bytes as this piece has.
    pub fn take(&mut self) -> Vec<u8> {
        let capacity = self.out.len();
        std::mem::replace(&mut self.out, Vec::with_capacity(capacity))
    }

    /// The bytes written so far.
    pub fn written(&self) -> &[u8] {
        &self.out
    }

    /// The offset of the next key or value, after the comma that it may need.
    pub fn next_offset(&self) -> usize {
        self.out.len() + if self.needs_comma { 2 } else { 0 }
    }

    fn separate(&mut self) {
        if self.needs_comma {
            self.out.extend_from_slice(b", ");
        }
    }

    /// Writes the opening brace of an object.
    pub fn open_object(&mut self) {
        self.separate();
        self.out.push(b'{');
        self.needs_comma = false;
    }

    /// Writes the closing brace of an object.
    pub fn close_object(&mut self) {
        self.out.push(b'}');
        self.needs_comma = true;
    }

    /// Writes the opening bracket of an array.
    pub fn open_array(&mut self) {
        self.separate();
        self.out.push(b'[');
        self.needs_comma = false;
    }

    /// Writes the closing bracket of an array.
    pub fn close_array(&mut self) {
        self.out.push(b']');
        self.needs_comma = true;
    }

    /// Writes a key of an object; its value has to follow.
    pub fn key(&mut self, key: &str) {
        self.separate();
        write_string(&mut self.out, key);
        self.out.extend_from_slice(b": ");
        self.needs_comma = false;
    }

    /// Writes a string, with escapes where needed.
    pub fn text(&mut self, text: &str) {
        self.separate();
        write_string(&mut self.out, text);
        self.needs_comma = true;
    }

    /// Writes a key that needs no escapes.
    pub fn plain_key(&mut self, key: &str) {
        self.separate();
        self.out.push(b'"');
        self.out.extend_from_slice(key.as_bytes());
        self.out.extend_from_slice(b"\": ");
        self.needs_comma = false;
    }

    /// Writes a string that needs no escapes.
    pub fn plain_text(&mut self, text: &str) {
        self.separate();
        self.out.push(b'"');
        self.out.extend_from_slice(text.as_bytes());
        self.out.push(b'"');
        self.needs_comma = true;
    }

    /// Writes a string or `null`.
    pub fn optional_text(&mut self, text: Option<&str>) {
        match text {
            Some(text) => self.text(text),
            None => self.raw(b"null"),
        }
    }

    /// Writes an integer in decimal.
    pub fn integer(&mut self, number: impl Into<i128>) {
        self.separate();
        write_integer(&mut self.out, number.into());
        self.needs_comma = true;
    }

    /// Writes a number that always has a dot or an exponent.
    pub fn float(&mut self, number: f64) {
        self.raw(repr_float(number).as_bytes());
    }

    /// Writes a value that is JSON already.
    pub fn raw(&mut self, json: &[u8]) {
        self.separate();
        self.out.extend_from_slice(json);
        self.needs_comma = true;
    }
}

fn write_integer(out: &mut Vec<u8>, number: i128) {
    let mut digits = itoa::Buffer::new();
    // Almost all numbers are small; 64-bit division is several times faster than 128-bit.
    let text = match i64::try_from(number) {
        Ok(small) => digits.format(small),
        Err(_) => digits.format(number),
    };
    out.extend_from_slice(text.as_bytes());
}

/// Appends a JSON string, with everything outside ASCII escaped as the reference does.
fn write_string(out: &mut Vec<u8>, text: &str) {
    out.push(b'"');
    if text
        .bytes()
        .all(|byte| (0x20..0x7f).contains(&byte) && byte != b'"' && byte != b'\\')
    {
        out.extend_from_slice(text.as_bytes());
    } else {
        for character in text.chars() {
            write_character(out, character);
        }
    }
    out.push(b'"');
}

fn write_character(out: &mut Vec<u8>, character: char) {
    match character {
        '"' => out.extend_from_slice(b"\\\""),
        '\\' => out.extend_from_slice(b"\\\\"),
        '\n' => out.extend_from_slice(b"\\n"),
        '\r' => out.extend_from_slice(b"\\r"),
        '\t' => out.extend_from_slice(b"\\t"),
        '\u{8}' => out.extend_from_slice(b"\\b"),
        '\u{c}' => out.extend_from_slice(b"\\f"),
        ' '..='~' => out.push(character as u8),
        _ => {
            let mut units = [0_u16; 2];
            for unit in character.encode_utf16(&mut units) {
                out.extend_from_slice(format!("\\u{unit:04x}").as_bytes());
            }
        }
    }
}

/// Python's `repr()` of a float: the shortest digits that read back, always with a dot or an exponent.
///
/// For finite numbers this is also how `json.dumps` writes them.
pub fn repr_float(number: f64) -> String {
    let magnitude = number.abs();
    if magnitude != 0.0 && !(1e-4..1e16).contains(&magnitude) {
        let text = format!("{number:e}");
        return match text.split_once('e') {
            Some((digits, exponent)) => {
                let (sign, exponent) = match exponent.strip_prefix('-') {
                    Some(digits) => ('-', digits),
                    None => ('+', exponent),
                };
                format!("{digits}e{sign}{exponent:0>2}")
            }
            None => text,
        };
    }
    format!("{number:?}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn floats_print_as_in_python() {
        for (number, expected) in [
            (1.0, "1.0"),
            (16.5, "16.5"),
            (1e16, "1e+16"),
            (1e15, "1000000000000000.0"),
            (1.5e-7, "1.5e-07"),
            (0.0001, "0.0001"),
            (0.0, "0.0"),
            (3.40282e38, "3.40282e+38"),
        ] {
            assert_eq!(repr_float(number), expected);
        }
    }

    #[test]
    fn the_writer_escapes_and_separates() {
        let mut writer = Writer::default();
        writer.open_object();
        writer.key("a\"☃");
        writer.open_array();
        writer.integer(0);
        writer.integer(-12_i64);
        writer.integer(i128::MAX);
        writer.text("x\ny\u{7f}\u{1F600}");
        writer.optional_text(None);
        writer.float(1.0);
        writer.open_object();
        writer.close_object();
        writer.close_array();
        writer.key("b");
        writer.raw(b"true");
        writer.close_object();
        assert_eq!(
            String::from_utf8(writer.finish()).unwrap(),
            "{\"a\\\"\\u2603\": [0, -12, 170141183460469231731687303715884105727, \
             \"x\\ny\\u007f\\ud83d\\ude00\", null, 1.0, {}], \"b\": true}"
        );
    }
}
