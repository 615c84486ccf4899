//! Names of custom resource classes and traits.

/// Converts any text to the name of a custom resource class or trait, as Nova does.
#[must_use]
pub(crate) fn custom_name(name: &str) -> String {
    let mut custom = String::from(placewright_placement::names::CUSTOM_PREFIX);
    let mut in_gap = false;
    for letter in name.chars() {
        if letter.is_ascii_alphanumeric() {
            custom.push(letter.to_ascii_uppercase());
        } else if !in_gap {
            custom.push('_');
        }
        in_gap = !letter.is_ascii_alphanumeric();
    }
    custom
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn custom_names_are_upper_case_with_one_underscore_for_each_gap() {
        assert_eq!(custom_name("my-gpu  x"), "CUSTOM_MY_GPU_X");
        assert_eq!(custom_name("a__b"), "CUSTOM_A_B");
    }
}
