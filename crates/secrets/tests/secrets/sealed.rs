//! Sealing and opening: only with the same key, for the same record, and unchanged.

use placewright_secrets::{Binding, Key, Keyring, OpenError, Sealed};
use proptest::prelude::*;
use uuid::Uuid;

fn keyring() -> Keyring {
    Keyring::random().expect("random numbers")
}

/// The names of the secrets that bindings of these tests have.
const FIELDS: [&str; 2] = ["build", "server"];

fn binding() -> impl Strategy<Value = Binding> {
    (any::<u128>(), 0..FIELDS.len()).prop_map(|(server, field)| Binding {
        server: Uuid::from_u128(server),
        field: FIELDS[field],
    })
}

fn secret() -> impl Strategy<Value = Vec<u8>> {
    proptest::collection::vec(any::<u8>(), 0..300)
}

proptest! {
    #[test]
    fn what_was_sealed_opens(secret in secret(), binding in binding()) {
        let keys = keyring();
        let sealed = Sealed::seal(&keys, &binding, &secret).unwrap();
        prop_assert_eq!(sealed.key_id(), keys.current().id());
        let read = Sealed::parse(&sealed.to_string()).unwrap();
        prop_assert_eq!(&read, &sealed);
        let opened = read.open(&keys, &binding).unwrap();
        prop_assert_eq!(&opened[..], &secret[..]);
    }

    #[test]
    fn older_keys_open_until_they_are_removed(secret in secret(), binding in binding()) {
        let old_keys = keyring();
        let old = old_keys.current().id();
        let sealed = Sealed::seal(&old_keys, &binding, &secret).unwrap();
        let keys = old_keys.rotated(Key::random().unwrap());
        prop_assert_eq!(&sealed.open(&keys, &binding).unwrap()[..], &secret[..]);
        let again = Sealed::seal(&keys, &binding, &secret).unwrap();
        prop_assert_ne!(again.key_id(), old);
        let keys = keys.without(old).unwrap();
        prop_assert_eq!(sealed.open(&keys, &binding), Err(OpenError::UnknownKey(old)));
        prop_assert_eq!(&again.open(&keys, &binding).unwrap()[..], &secret[..]);
    }

    #[test]
    fn a_secret_of_another_record_is_not_opened(
        secret in secret(),
        binding in binding(),
        other in binding(),
    ) {
        prop_assume!(binding != other);
        let keys = keyring();
        let sealed = Sealed::seal(&keys, &binding, &secret).unwrap();
        prop_assert_eq!(sealed.open(&keys, &other), Err(OpenError::NotAuthentic));
    }

    #[test]
    fn a_secret_under_another_key_is_not_opened(secret in secret(), binding in binding()) {
        let (keys, others) = (keyring(), keyring());
        let sealed = Sealed::seal(&keys, &binding, &secret).unwrap();
        let unknown = Err(OpenError::UnknownKey(keys.current().id()));
        prop_assert_eq!(sealed.open(&others, &binding), unknown);
        // The key is not used either if the text of the secret names it in place of the right one.
        let text = sealed.to_string();
        let rest = text.split_once('.').unwrap().1;
        let renamed = Sealed::parse(&format!("{}.{rest}", others.current().id())).unwrap();
        prop_assert_eq!(renamed.open(&others, &binding), Err(OpenError::NotAuthentic));
    }

    #[test]
    fn a_secret_with_a_flipped_bit_is_not_opened(
        secret in secret(),
        binding in binding(),
        position in any::<prop::sample::Index>(),
        // Not the highest bit, which would make the text invalid UTF-8.
        bit in 0..7u8,
    ) {
        let keys = keyring();
        let sealed = Sealed::seal(&keys, &binding, &secret).unwrap();
        let mut text = sealed.to_string().into_bytes();
        let position = position.index(text.len());
        text[position] ^= 1u8 << bit;
        let Ok(text) = String::from_utf8(text) else { return Ok(()) };
        if let Ok(read) = Sealed::parse(&text) {
            prop_assume!(read != sealed);
            prop_assert!(read.open(&keys, &binding).is_err());
        }
    }

    #[test]
    fn no_text_causes_a_panic(text in ".{0,200}") {
        if let Ok(read) = Sealed::parse(&text) {
            let binding = Binding { server: Uuid::nil(), field: FIELDS[0] };
            let opened = read.open(&keyring(), &binding);
            prop_assert!(opened.is_err());
        }
        let _ = Keyring::parse("a test", &text);
    }
}

#[test]
fn nothing_is_sealed_to_the_same_text_twice() {
    let keys = keyring();
    let binding = Binding {
        server: Uuid::nil(),
        field: FIELDS[0],
    };
    let seal = || Sealed::seal(&keys, &binding, b"x").unwrap().to_string();
    assert_ne!(seal(), seal());
}
