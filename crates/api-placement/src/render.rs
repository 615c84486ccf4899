//! The bodies of error responses of the Placement API, as JSON, HTML or text.

use std::borrow::Cow;

use placewright_http::json::Writer;
use placewright_http::{ApiError, reason_phrase};

use crate::accept::Accept;
use crate::microversion::Microversion;

/// Stable error codes, shown from microversion 1.23 on.
///
/// Source: Placement API reference, "Error Codes".
pub(crate) mod code {
    pub(crate) const UNDEFINED: &str = "placement.undefined_code";
    pub(crate) const INVENTORY_INUSE: &str = "placement.inventory.inuse";
    pub(crate) const CONCURRENT_UPDATE: &str = "placement.concurrent_update";
    pub(crate) const DUPLICATE_NAME: &str = "placement.duplicate_name";
    pub(crate) const PROVIDER_IN_USE: &str = "placement.resource_provider.inuse";
    pub(crate) const CANNOT_DELETE_PARENT: &str =
        "placement.resource_provider.cannot_delete_parent";
    pub(crate) const PROVIDER_NOT_FOUND: &str = "placement.resource_provider.not_found";
    pub(crate) const DUPLICATE_KEY: &str = "placement.query.duplicate_key";
    pub(crate) const BAD_VALUE: &str = "placement.query.bad_value";
    pub(crate) const MISSING_VALUE: &str = "placement.query.missing_value";
}

/// The parts of a request that its error response repeats, or depends on.
pub(crate) struct ErrorContext<'a> {
    pub(crate) method: &'a str,
    /// The `Accept` header, as `checks::accept_text` returns it.
    pub(crate) accept: &'a str,
    /// The content type of the request; the text `None` for a request without one, as in the reference.
    pub(crate) content_type: &'a str,
    /// The negotiated version; none for an error before the negotiation, and for Placewright's own pages.
    pub(crate) version: Option<Microversion>,
    pub(crate) request_id: &'a str,
}

/// The body of an error response and its content type.
pub(crate) fn render(error: &ApiError, context: &ErrorContext<'_>) -> (Vec<u8>, &'static str) {
    match Accept::parse(Some(context.accept)).best(&["text/html", "application/json"]) {
        Some("text/html") => (
            html(error, context).into_bytes(),
            "text/html; charset=UTF-8",
        ),
        Some(_) => (json(error, context), "application/json"),
        None => {
            let body = strip_tags(&template(error, context, &|text| text.into()));
            let text = format!(
                "{} {}\n\n{body}",
                error.status(),
                reason_phrase(error.status())
            );
            (text.into_bytes(), "text/plain; charset=UTF-8")
        }
    }
}

fn json(error: &ApiError, context: &ErrorContext<'_>) -> Vec<u8> {
    let body = template(error, context, &|text| text.into());
    let mut writer = Writer::with_capacity(body.len() + 256);
    writer.open_object();
    if error.status() == 401 {
        // The authentication layer of the reference does not use the error format of the API.
        writer.key("message");
        writer.text(&body);
        writer.key("code");
        writer.text("401 Unauthorized");
        writer.key("title");
        writer.text(reason_phrase(401));
        writer.close_object();
        return writer.finish();
    }
    writer.key("errors");
    writer.open_array();
    writer.open_object();
    writer.key("status");
    writer.integer(error.status());
    writer.key("title");
    writer.text(reason_phrase(error.status()));
    writer.key("detail");
    writer.text(&strip_tags(&body));
    if context.version.is_some_and(|version| version.since(23)) {
        writer.key("code");
        writer.text(error.code().unwrap_or(code::UNDEFINED));
    }
    writer.key("request_id");
    writer.text(context.request_id);
    // A 406 before the version is known is the response to a version that the API does not have.
    if error.status() == 406 && context.version.is_none() {
        writer.key("max_version");
        writer.text(&Microversion::MAX.to_string());
        writer.key("min_version");
        writer.text(&Microversion::MIN.to_string());
    }
    writer.close_object();
    writer.close_array();
    writer.close_object();
    writer.finish()
}

fn html(error: &ApiError, context: &ErrorContext<'_>) -> String {
    let status = format!("{} {}", error.status(), reason_phrase(error.status()));
    let body = template(error, context, &|text| escape_html(text).into());
    format!(
        "<html>\n <head>\n  <title>{status}</title>\n </head>\n <body>\n  <h1>{status}</h1>\n  \
         {body}\n </body>\n</html>"
    )
}

/// The text of an error, with HTML tags. `escape` is applied to the parts that are not HTML.
fn template(
    error: &ApiError,
    context: &ErrorContext<'_>,
    escape: &dyn for<'a> Fn(&'a str) -> Cow<'a, str>,
) -> String {
    let detail = escape(error.detail());
    match error.status() {
        405 => format!(
            "The method {} is not allowed for this resource. <br /><br />\n{detail}",
            escape(context.method)
        ),
        406 => format!(
            "The resource could not be generated that was acceptable to your browser\n(content of \
             type {}. <br /><br />\n{detail}",
            escape(context.accept)
        ),
        415 => format!(
            "The request media type {} is not supported by this server.\n<br /><br />\n{detail}",
            escape(context.content_type)
        ),
        status => format!("{}<br /><br />\n{detail}\n\n", escape(explanation(status))),
    }
}

/// The sentence with which the text of an error begins, as in the reference.
fn explanation(status: u16) -> &'static str {
    match status {
        400 => {
            "The server could not comply with the request since it is either malformed or \
             otherwise incorrect."
        }
        401 => {
            "This server could not verify that you are authorized to access the document you \
             requested. Either you supplied the wrong credentials (e.g., bad password), or your \
             browser does not understand how to supply the credentials required."
        }
        403 => "Access was denied to this resource.",
        404 => "The resource could not be found.",
        408 => "The server has waited too long for the request to be sent by the client.",
        409 => "There was a conflict when trying to complete your request.",
        410 => "This resource is no longer available. No forwarding address is given.",
        413 => "The body of your request was too large for this server.",
        414 => "The request URI was too long for this server.",
        429 => "The server has received too many requests from the client.",
        431 => "The line and the headers of your request were too large for this server.",
        503 => "The server is currently unavailable. Please try again at a later time.",
        _ => "The server has either erred or is incapable of performing the requested operation.",
    }
}

/// Converts HTML to text: `<br>` becomes a line end, other tags are removed, and a line end becomes a space.
fn strip_tags(text: &str) -> String {
    let one_line = text.replace('\n', " ").replace('\r', "");
    let lines = replace_tags(&one_line, |tag| {
        (tag.len() > 2 && tag[..3].eq_ignore_ascii_case("<br")).then_some("\n")
    });
    let plain = lines.replace("<!--", "").replace("-->", "");
    replace_tags(&plain, |_| Some(""))
}

/// Replaces each complete tag for which `replacement` returns a text; a tag for which it returns none stays.
fn replace_tags(text: &str, replacement: impl Fn(&str) -> Option<&'static str>) -> String {
    let mut output = String::with_capacity(text.len());
    let mut remaining = text;
    while let Some(start) = remaining.find('<') {
        let Some(length) = remaining[start..].find('>') else {
            break;
        };
        let end = start + length + 1;
        let tag = &remaining[start..end];
        // The callback takes the first three bytes, which would panic if they ended within a character.
        let replacement_text = if tag.is_char_boundary(3.min(tag.len())) {
            replacement(tag)
        } else {
            None
        };
        output.push_str(&remaining[..start]);
        match replacement_text {
            Some(replacement) => {
                output.push_str(replacement);
                remaining = &remaining[end..];
            }
            None => {
                output.push('<');
                remaining = &remaining[start + 1..];
            }
        }
    }
    output.push_str(remaining);
    output
}

fn escape_html(text: &str) -> String {
    let mut output = String::with_capacity(text.len());
    for character in text.chars() {
        match character {
            '&' => output.push_str("&amp;"),
            '<' => output.push_str("&lt;"),
            '>' => output.push_str("&gt;"),
            '"' => output.push_str("&quot;"),
            '\'' => output.push_str("&#x27;"),
            _ if character.is_ascii() => output.push(character),
            _ => output.push_str(&format!("&#{};", u32::from(character))),
        }
    }
    output
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rendered(error: &ApiError, accept: &str, version: Option<u8>) -> (String, &'static str) {
        let context = ErrorContext {
            method: "PUT",
            accept,
            content_type: "text/x",
            version: version.and_then(Microversion::from_minor),
            request_id: "req-1",
        };
        let (body, content_type) = render(error, &context);
        (String::from_utf8(body).unwrap(), content_type)
    }

    #[test]
    fn json_errors_have_codes_and_versions_when_the_reference_has_them() {
        let error = ApiError::conflict("no <b>bold</b>\nlines").with_code(code::CONCURRENT_UPDATE);
        assert_eq!(
            rendered(&error, "application/json", Some(22)),
            (
                "{\"errors\": [{\"status\": 409, \"title\": \"Conflict\", \"detail\": \"There was \
                 a conflict when trying to complete your request.\\n\\n no bold lines  \", \
                 \"request_id\": \"req-1\"}]}"
                    .to_owned(),
                "application/json"
            )
        );
        assert!(
            rendered(&error, "", Some(23))
                .0
                .contains("\"code\": \"placement.concurrent_update\"")
        );
        let error = ApiError::new(406, "x");
        assert!(
            rendered(&error, "", None)
                .0
                .contains("\"max_version\": \"1.39\"")
        );
        assert!(!rendered(&error, "", Some(39)).0.contains("max_version"));
    }

    #[test]
    fn html_and_text_are_rendered_for_clients_that_accept_them() {
        let error = ApiError::bad_request("<é>");
        let (body, content_type) = rendered(&error, "text/html", None);
        assert_eq!(content_type, "text/html; charset=UTF-8");
        assert!(body.contains("<h1>400 Bad Request</h1>") && body.contains("&lt;&#233;&gt;"));
        let (body, content_type) = rendered(&ApiError::new(415, "use y"), "text/plain", None);
        assert_eq!(content_type, "text/plain; charset=UTF-8");
        assert_eq!(
            body,
            "415 Unsupported Media Type\n\nThe request media type text/x is not supported by this \
             server. \n\n use y"
        );
    }

    #[test]
    fn complete_tags_are_removed() {
        for (text, expected) in [
            ("a<br/>b<BR >c", "a\nb\nc"),
            ("a < b", "a < b"),
            ("<é>x", "x"),
            ("a<!-- b -->c", "a b c"),
            ("x\r\ny", "x y"),
            ("<b", "<b"),
        ] {
            assert_eq!(strip_tags(text), expected, "{text}");
        }
    }

    #[test]
    fn an_authentication_error_has_a_form_of_its_own() {
        let (body, _) = rendered(&ApiError::new(401, ""), "", None);
        assert!(body.starts_with("{\"message\": \"This server"), "{body}");
        assert!(body.ends_with("<br /><br />\\n\\n\\n\", \"code\": \"401 Unauthorized\", \"title\": \"Unauthorized\"}"), "{body}");
    }
}
