//! The address of a server, as users write it.

/// Checks that a text is the URL of an HTTP server, and returns it unchanged.
///
/// # Errors
///
/// The text is not the URL of an HTTP server; the error says how to write one.
pub fn server_url(text: &str) -> Result<String, String> {
    let example = "write it as http://127.0.0.1:8778";
    let url = reqwest::Url::parse(text).map_err(|error| format!("{error}; {example}"))?;
    match url.scheme() {
        "http" | "https" if url.has_host() => Ok(text.to_owned()),
        _ => Err(example.to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::server_url;

    #[test]
    fn takes_addresses_of_http_servers_only() {
        for good in ["http://127.0.0.1:8778", "https://cloud.example/placement/"] {
            assert_eq!(server_url(good).as_deref(), Ok(good));
        }
        for bad in ["", "ftp://x", "127.0.0.1:8778", "localhost:8778", "http://"] {
            assert!(server_url(bad).is_err(), "{bad}");
        }
    }
}
