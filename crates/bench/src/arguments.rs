//! Parsers of options that several commands have.

/// Parses a number above 0.
///
/// # Errors
///
/// The text is not a finite number above 0.
pub(crate) fn positive(text: &str) -> Result<f64, String> {
    match text.parse::<f64>() {
        Ok(number) if number.is_finite() && number > 0.0 => Ok(number),
        _ => Err("a number above 0".to_owned()),
    }
}
