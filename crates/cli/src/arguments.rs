//! How options of several commands are read.

/// A number above 0, as options take it.
///
/// # Errors
/// It is none, or not finite.
pub(crate) fn positive(text: &str) -> Result<f64, String> {
    match text.parse::<f64>() {
        Ok(number) if number.is_finite() && number > 0.0 => Ok(number),
        _ => Err("a number above 0".to_owned()),
    }
}
