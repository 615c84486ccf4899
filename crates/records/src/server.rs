//! The bodies of specs.
//!
//! A body is a row of the growing layout in two parts. The common part has the request and all other fields that the
//! servers of one request share; the own part has the fields that differ between them. Earlier releases stored the body
//! as JSON. Such bodies are still read, and become rows when they are changed. Agents that are connected over a
//! network, and drivers, get JSON in either case.

use std::borrow::Cow;
use std::sync::Arc;

use placewright_conductor::{SharedRow, Spec, SpecBody};
use placewright_types::request::{RequestParseError, RequestSpec, read as read_json};
use placewright_types::server::{OwnFields, ServerBody, ServerFields};
use serde::Deserialize;
use serde_json::Deserializer;
use serde_json::value::RawValue;

use crate::form::{Form, FormError, Layout, Reader, Writer};

/// The body as specs store it.
#[must_use]
pub fn write(body: &ServerBody) -> SpecBody {
    SpecBody::Row(SharedRow::from_parts(common(body), own(&body.own)))
}

/// The common part of the bodies of all servers of a request.
#[must_use]
pub fn common(body: &ServerBody) -> Arc<[u8]> {
    let mut out = Writer::new(Vec::new(), Layout::Growing);
    out.row(|out| {
        body.request.write(out);
        body.min_count.write(out);
        body.server.write(out);
    });
    out.into_bytes().into()
}

/// The own part of the body of one server.
#[must_use]
pub fn own(fields: &OwnFields) -> Vec<u8> {
    let mut out = Writer::new(Vec::new(), Layout::Growing);
    fields.write(&mut out);
    out.into_bytes()
}

/// Reads a body of any release.
///
/// # Errors
///
/// The name of the invalid field, and the problem with it.
pub fn read(body: &SpecBody) -> Result<ServerBody, RequestParseError> {
    match body {
        SpecBody::Row(row) => read_row(row).map_err(unreadable),
        SpecBody::Json(text) => read_json(&mut Deserializer::from_str(&text.text())),
    }
}

fn read_row(row: &SharedRow) -> Result<ServerBody, FormError> {
    let own = OwnFields::read(&mut Reader::new(row.own(), Layout::Growing))?;
    Reader::new(row.common(), Layout::Growing).row(|from| {
        let request: RequestSpec = Form::read(from)?;
        let (min_count, server): (Option<u32>, ServerFields) = Form::read(from)?;
        Ok(ServerBody {
            request,
            min_count,
            server,
            own,
        })
    })
}

/// The span of the API request that created the server, if it is recorded and the body can be read. Of a row only the
/// fields of the server are read.
#[must_use]
pub fn traceparent(body: &SpecBody) -> Option<String> {
    #[derive(Deserialize)]
    struct Body {
        server: Server,
    }
    #[derive(Deserialize)]
    struct Server {
        traceparent: Option<String>,
    }
    match body {
        SpecBody::Row(row) => CommonParts::of(row).ok()?.server.traceparent,
        SpecBody::Json(text) => {
            let body: Body = serde_json::from_str(&text.text()).ok()?;
            body.server.traceparent
        }
    }
}

/// The secret fields of a server, in the clear.
#[derive(Default)]
pub struct OpenSecrets {
    /// The user data in base 64, as in the request.
    pub user_data: Option<String>,
    /// The password of the server's administrator.
    pub admin_pass: Option<String>,
}

/// Splits a body into the body without its secret fields, and the secret fields. `None` if it has no secret
/// fields, or cannot be read.
#[must_use]
pub fn take_secrets(row: &SharedRow) -> Option<(SharedRow, OpenSecrets)> {
    let parts = CommonParts::of(row).ok()?;
    // Nearly all bodies have no secret fields.
    if parts.server.user_data.is_none() && parts.server.admin_pass.is_none() {
        return None;
    }
    let mut open = OpenSecrets::default();
    let common = parts.with_server(|server| {
        open.user_data = server.user_data.take();
        open.admin_pass = server.admin_pass.take();
    })?;
    Some((SharedRow::from_parts(common.into(), row.own()), open))
}

/// A body with secret fields in the clear; `None` if the body cannot be read.
#[must_use]
pub fn put_secrets(row: &SharedRow, open: OpenSecrets) -> Option<SharedRow> {
    let common = CommonParts::of(row).ok()?.with_server(|server| {
        server.user_data = open.user_data;
        server.admin_pass = open.admin_pass;
    })?;
    Some(SharedRow::hidden(common.into(), row.own()))
}

/// The common part of a body, of which only the fields of the server are read.
struct CommonParts<'b> {
    request: &'b [u8],
    min_count: Option<u32>,
    server: ServerFields,
    /// The row from which `server` was read, without its length.
    row_of_server: &'b [u8],
    /// The bytes of fields that a later release added to the common part.
    later: &'b [u8],
}

impl<'b> CommonParts<'b> {
    fn of(row: &'b SharedRow) -> Result<Self, FormError> {
        Reader::new(row.common(), Layout::Growing).row(|from| {
            let request = from.bytes()?;
            let min_count = Form::read(from)?;
            // The row of the server is read twice: for its fields, and for its bytes.
            let from_server_on = from.raw(from.remaining())?;
            let server = Form::read(&mut Reader::new(from_server_on, Layout::Growing))?;
            let mut from_server_on = Reader::new(from_server_on, Layout::Growing);
            Ok(Self {
                request,
                min_count,
                server,
                row_of_server: from_server_on.bytes()?,
                later: from_server_on.raw(from_server_on.remaining())?,
            })
        })
    }

    /// The common part after `change` was applied to the fields of the server. All other bytes stay as they
    /// are, even those of fields that a later release added. `None` if the row of the server does not begin with the
    /// bytes that this release writes for the fields that it knows.
    fn with_server(mut self, change: impl FnOnce(&mut ServerFields)) -> Option<Vec<u8>> {
        // The row begins with the fields that this release knows; the bytes after these are of a later release.
        let later_of_server = self.row_of_server.strip_prefix(&*unframed(&self.server)?)?;
        change(&mut self.server);
        let server = unframed(&self.server)?;
        let mut out = Writer::new(Vec::new(), Layout::Growing);
        out.row(|out| {
            out.bytes(self.request);
            self.min_count.write(out);
            out.row(|out| {
                out.raw(&server);
                out.raw(later_of_server);
            });
            out.raw(self.later);
        });
        Some(out.into_bytes())
    }
}

/// The row of a server without its length, which [`Form::write`] puts before it.
fn unframed(fields: &ServerFields) -> Option<Vec<u8>> {
    let mut out = Writer::new(Vec::new(), Layout::Growing);
    fields.write(&mut out);
    let row = out.into_bytes();
    let bytes = Reader::new(&row, Layout::Growing).bytes().ok()?;
    Some(bytes.to_vec())
}

/// The request to the scheduler in a body, not decoded yet.
#[derive(Debug)]
pub struct RawRequest<'b> {
    /// How many instances of a reservation must find a host; `None` for all of them.
    pub min_count: Option<u32>,
    request: RawForm<'b>,
}

/// The bytes of a request.
#[derive(Debug)]
enum RawForm<'b> {
    Row(&'b [u8]),
    Json(Box<RawValue>),
}

impl<'b> RawRequest<'b> {
    /// Finds the request in a body of any release.
    ///
    /// # Errors
    ///
    /// The name of the invalid field, and the problem with it.
    pub fn find(body: &'b SpecBody) -> Result<Self, RequestParseError> {
        let row = match body {
            SpecBody::Row(row) => row,
            SpecBody::Json(text) => return Self::find_in_json(&text.text()),
        };
        let raw_request = Reader::new(row.common(), Layout::Growing).row(|from| {
            Ok(Self {
                request: RawForm::Row(from.bytes()?),
                min_count: Form::read(from)?,
            })
        });
        raw_request.map_err(unreadable)
    }

    fn find_in_json(text: &str) -> Result<Self, RequestParseError> {
        #[derive(Deserialize)]
        struct Body {
            request: Box<RawValue>,
            #[serde(default)]
            min_count: Option<u32>,
        }
        let body: Body = read_json(&mut Deserializer::from_str(text))?;
        Ok(Self {
            request: RawForm::Json(body.request),
            min_count: body.min_count,
        })
    }

    /// The encoded request. Equal bytes mean equal requests.
    #[must_use]
    pub fn bytes(&self) -> &[u8] {
        match &self.request {
            RawForm::Row(bytes) => bytes,
            RawForm::Json(text) => text.get().as_bytes(),
        }
    }

    /// Decodes the request.
    ///
    /// # Errors
    ///
    /// The name of the invalid field, and the problem with it.
    pub fn read(&self) -> Result<RequestSpec, RequestParseError> {
        match &self.request {
            RawForm::Row(bytes) => {
                // A row is read with its length before it, which `find` has removed.
                let mut out = Writer::new(Vec::with_capacity(bytes.len() + 2), Layout::Growing);
                out.bytes(bytes);
                let row = out.into_bytes();
                RequestSpec::read(&mut Reader::new(&row, Layout::Growing)).map_err(unreadable)
            }
            RawForm::Json(text) => {
                read_json(&mut Deserializer::from_str(text.get())).map_err(|error| {
                    RequestParseError {
                        field: format!("request.{}", error.field),
                        message: error.message,
                    }
                })
            }
        }
    }
}

/// A body as JSON; an empty text if it cannot be read.
#[must_use]
pub fn json(body: &SpecBody) -> Cow<'_, str> {
    let row = match body {
        SpecBody::Json(text) => return text.text(),
        SpecBody::Row(row) => row,
    };
    let body = read_row(row).ok();
    let text = body.and_then(|body| serde_json::to_string(&body).ok());
    Cow::Owned(text.unwrap_or_default())
}

/// Whether a digest that a cell reported is the digest of a spec. A cell that received the spec before
/// bodies were rows has the body as JSON, also after an upgrade, and computes the digest from that.
#[must_use]
pub fn has_digest(spec: &Spec, digest: u64) -> bool {
    spec.digest() == digest
        || (matches!(spec.body, SpecBody::Row(_))
            && spec.digest_with_json(&json(&spec.body)) == digest)
}

fn unreadable(error: FormError) -> RequestParseError {
    RequestParseError {
        field: "body".to_owned(),
        message: error.to_string(),
    }
}
