//! The keys that a user presses.

/// What a key asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Key {
    Quit,
    NextSort,
    PreviousSort,
    Reverse,
    NextCell,
    AllCells,
    Faster,
    Slower,
    Up,
    Down,
    PageUp,
    PageDown,
    Home,
}

/// The keys in the bytes that a terminal sent at once. Bytes of keys without a meaning here are passed over.
pub(super) fn parse(mut bytes: &[u8]) -> Vec<Key> {
    let mut keys = Vec::new();
    while let Some((first, rest)) = bytes.split_first() {
        let (key, rest) = match first {
            0x1b => escape(rest),
            _ => (letter(*first), rest),
        };
        keys.extend(key);
        bytes = rest;
    }
    keys
}

fn letter(letter: u8) -> Option<Key> {
    Some(match letter {
        // Ctrl-C and Ctrl-D, where they make no signal.
        b'q' | b'Q' | 0x03 | 0x04 => Key::Quit,
        b's' => Key::NextSort,
        b'S' => Key::PreviousSort,
        b'r' => Key::Reverse,
        b'c' => Key::NextCell,
        b'C' => Key::AllCells,
        // They change the interval: a longer one is slower.
        b'+' => Key::Slower,
        b'-' => Key::Faster,
        b'k' => Key::Up,
        b'j' => Key::Down,
        b' ' => Key::PageDown,
        b'g' => Key::Home,
        _ => return None,
    })
}

/// The key of an escape sequence, given the bytes after its escape character, and the bytes that follow the sequence.
fn escape(bytes: &[u8]) -> (Option<Key>, &[u8]) {
    let [b'[' | b'O', rest @ ..] = bytes else {
        return (None, bytes);
    };
    let end = rest.iter().position(|byte| (0x40..=0x7e).contains(byte));
    let Some(end) = end else {
        return (None, &[]);
    };
    let key = match &rest[..=end] {
        b"A" => Some(Key::Up),
        b"B" => Some(Key::Down),
        b"H" | b"1~" => Some(Key::Home),
        b"5~" => Some(Key::PageUp),
        b"6~" => Some(Key::PageDown),
        _ => None,
    };
    (key, &rest[end + 1..])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn letters_and_sequences_are_keys() {
        let keys = parse(b"s\x1b[Bx\x1b[6~\x1b[1;5D\x1bOAq");
        let expected = [Key::NextSort, Key::Down, Key::PageDown, Key::Up, Key::Quit];
        assert_eq!(keys, expected);
        assert_eq!(parse(b"\x1b"), []);
        assert_eq!(parse(b"\x1b[12"), []);
    }
}
