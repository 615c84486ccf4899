//! One HTTP/1.1 connection of the load generator. A connection does as little work as possible for a request,
//! because the load generator shares its cores with the server that it measures.
//!
//! A connection sends prepared bytes, and parses only the status, length and body of a response. It follows no
//! redirects and sends no pipelined requests.

use std::io::{self, BufRead as _};

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};

use super::endpoint::{Endpoint, Stream};

/// A connection that is opened on first use, and again whenever the server closed it.
#[derive(Debug)]
pub(crate) struct Connection {
    endpoint: Endpoint,
    stream: Option<Stream>,
    buffer: Vec<u8>,
}

/// A response whose body stays in the connection's buffer until the next request.
#[derive(Debug)]
pub(crate) struct Response<'a> {
    pub(crate) status: u16,
    pub(crate) body: &'a [u8],
}

/// The part of a body that is stored.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum BodyPart {
    All,
    Beginning,
}

/// The parsed head of a response.
#[derive(Debug, PartialEq, Eq)]
struct Head {
    status: u16,
    /// The length of the head in bytes, which is the offset of the body.
    length: usize,
    body: Body,
    /// Whether the server closes the connection after the response.
    closes_connection: bool,
}

/// How the end of a body is found.
#[derive(Debug, PartialEq, Eq)]
enum Body {
    /// The body has this length in bytes.
    Sized(usize),
    Chunked,
    UntilClose,
}

/// The initial size of the buffer: most responses fit into one read.
const BUFFER_BYTES: usize = 16 * 1024;
/// The bytes of a response that are stored when only the beginning of the body is needed.
const BEGINNING_BYTES: usize = 16 * 1024;
/// The size of reads whose bytes are discarded: large for few system calls, small enough to stay in a
/// core's cache.
const DISCARDED_READ_BYTES: usize = 240 * 1024;

impl Connection {
    /// Creates a connection to this server without opening it.
    pub(crate) fn new(endpoint: impl Into<Endpoint>) -> Self {
        Self {
            endpoint: endpoint.into(),
            stream: None,
            buffer: Vec::with_capacity(BUFFER_BYTES),
        }
    }

    /// Sends a request and reads the whole response.
    ///
    /// # Errors
    ///
    /// The connection could not be opened, broke, or carried something that is not HTTP. The next
    /// request opens a new connection.
    pub(crate) async fn exchange(&mut self, request: &[u8]) -> io::Result<Response<'_>> {
        self.exchange_with(request, BodyPart::All).await
    }

    /// Sends a request and reads the whole response, but stores only the beginning of a long body whose length is
    /// in the response's head. Other bodies are stored whole.
    ///
    /// # Errors
    ///
    /// As [`Connection::exchange`].
    pub(crate) async fn exchange_discarding(&mut self, request: &[u8]) -> io::Result<Response<'_>> {
        self.exchange_with(request, BodyPart::Beginning).await
    }

    async fn exchange_with(
        &mut self,
        request: &[u8],
        body_part: BodyPart,
    ) -> io::Result<Response<'_>> {
        let mut stream = match self.stream.take() {
            Some(stream) => stream,
            None => self.endpoint.connect().await?,
        };
        self.buffer.clear();
        stream.write_all(request).await?;
        stream.flush().await?;
        let head = loop {
            if let Some(head) = parse_head(&self.buffer)? {
                break head;
            }
            self.fill(&mut stream).await?;
        };
        let (start, end) = match head.body {
            Body::Sized(bytes) => {
                let end = head.length + bytes;
                let mut discarded = 0;
                while discarded + self.buffer.len() < end {
                    if body_part == BodyPart::Beginning {
                        let kept_len = BEGINNING_BYTES.max(head.length).min(self.buffer.len());
                        discarded += self.buffer.len() - kept_len;
                        self.buffer.truncate(kept_len);
                        self.buffer.reserve(DISCARDED_READ_BYTES);
                    }
                    self.fill(&mut stream).await?;
                }
                // If bytes were discarded, only the beginning is returned. The buffer has the bytes of the latest read
                // after it.
                let end = match discarded {
                    0 => end,
                    _ => BEGINNING_BYTES.max(head.length),
                };
                (head.length, end)
            }
            Body::Chunked => (
                head.length,
                self.read_chunks(&mut stream, head.length).await?,
            ),
            Body::UntilClose => {
                stream.read_to_end(&mut self.buffer).await?;
                (head.length, self.buffer.len())
            }
        };
        if !head.closes_connection {
            self.stream = Some(stream);
        }
        Ok(Response {
            status: head.status,
            body: &self.buffer[start..end],
        })
    }

    /// Reads the available bytes, at least one.
    async fn fill(&mut self, stream: &mut Stream) -> io::Result<()> {
        if self.buffer.capacity() - self.buffer.len() < BUFFER_BYTES / 2 {
            self.buffer
                .reserve(self.buffer.capacity().max(BUFFER_BYTES));
        }
        match stream.read_buf(&mut self.buffer).await? {
            0 => Err(io::ErrorKind::UnexpectedEof.into()),
            _ => Ok(()),
        }
    }

    /// Reads chunks until the last one and joins them; returns the end of the body.
    async fn read_chunks(&mut self, stream: &mut Stream, start: usize) -> io::Result<usize> {
        let mut end = start;
        let mut chunk_start = start;
        loop {
            let line = loop {
                match find(&self.buffer[chunk_start..], b"\r\n") {
                    Some(length) => break &self.buffer[chunk_start..chunk_start + length],
                    None => self.fill(stream).await?,
                }
            };
            let digits = line.split(|byte| *byte == b';').next().unwrap_or_default();
            let size = std::str::from_utf8(digits).ok();
            let size = size.and_then(|digits| usize::from_str_radix(digits.trim(), 16).ok());
            let size = size.ok_or_else(|| invalid_response("a chunk without a size"))?;
            let data = chunk_start + line.len() + 2;
            while self.buffer.len() < data + size + 2 {
                self.fill(stream).await?;
            }
            self.buffer.copy_within(data..data + size, end);
            end += size;
            chunk_start = data + size + 2;
            if size == 0 {
                return Ok(end);
            }
        }
    }
}

fn invalid_response(what: &str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, what)
}

/// The offset at which `needle` first occurs.
fn find(haystack: &[u8], needle: &[u8]) -> Option<usize> {
    haystack
        .windows(needle.len())
        .position(|window| window == needle)
}

/// Parses the head of a response; `None` if the head is not complete.
fn parse_head(buffer: &[u8]) -> io::Result<Option<Head>> {
    let mut lines = Lines { rest: buffer };
    let Some(status_line) = lines.next() else {
        return Ok(None);
    };
    let status = status_line.split(|byte| *byte == b' ').nth(1);
    let status = status
        .and_then(parse_number)
        .ok_or_else(|| invalid_response("no status line"))?;
    let mut head = Head {
        status,
        length: 0,
        body: Body::UntilClose,
        closes_connection: false,
    };
    if status == 204 || status == 304 {
        head.body = Body::Sized(0);
    }
    loop {
        let Some(line) = lines.next() else {
            return Ok(None);
        };
        if line.is_empty() {
            break;
        }
        let Some(colon) = line.iter().position(|byte| *byte == b':') else {
            return Err(invalid_response("a header without a colon"));
        };
        let (name, value) = (&line[..colon], line[colon + 1..].trim_ascii());
        // Comparing lengths first rules out most headers without comparing names.
        if name.len() == 14 && name.eq_ignore_ascii_case(b"content-length") {
            let bytes = parse_number(value)
                .ok_or_else(|| invalid_response("a length that is no number"))?;
            head.body = Body::Sized(bytes);
        } else if name.len() == 17 && name.eq_ignore_ascii_case(b"transfer-encoding") {
            head.body = Body::Chunked;
        } else if name.len() == 10 && name.eq_ignore_ascii_case(b"connection") {
            head.closes_connection = value.eq_ignore_ascii_case(b"close");
        }
    }
    head.length = buffer.len() - lines.rest.len();
    head.closes_connection |= head.body == Body::UntilClose || status_line.starts_with(b"HTTP/1.0");
    Ok(Some(head))
}

fn parse_number<T: std::str::FromStr>(digits: &[u8]) -> Option<T> {
    std::str::from_utf8(digits).ok()?.parse().ok()
}

/// The complete lines of a buffer, without their ends.
struct Lines<'a> {
    /// The bytes after the last line that was returned.
    rest: &'a [u8],
}

impl<'a> Iterator for Lines<'a> {
    type Item = &'a [u8];

    fn next(&mut self) -> Option<&'a [u8]> {
        let mut remaining = self.rest;
        // `skip_until` is fast, because it searches many bytes at a time. Reading from a slice never fails.
        let length = remaining.skip_until(b'\n').ok()?;
        let line = self.rest[..length].strip_suffix(b"\n")?;
        self.rest = remaining;
        Some(line.strip_suffix(b"\r").unwrap_or(line))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::{Read as _, Write as _};
    use std::net::SocketAddr;

    /// Starts a server that sends these responses, one for each request.
    fn start_server(responses: &'static [&'static str]) -> SocketAddr {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        std::thread::spawn(move || {
            let mut responses = responses.iter();
            while let Ok((mut stream, _)) = listener.accept() {
                let mut request = [0; 1024];
                while stream.read(&mut request).is_ok_and(|bytes| bytes > 0) {
                    let Some(response) = responses.next() else {
                        return;
                    };
                    // In pieces, so that the client needs several reads.
                    let piece_bytes = response.len() / 1000 + 7;
                    for piece in response.as_bytes().chunks(piece_bytes) {
                        stream.write_all(piece).unwrap();
                    }
                    if response.contains("close") {
                        break;
                    }
                }
            }
        });
        address
    }

    #[tokio::test]
    async fn responses_are_read_in_every_framing() {
        let address = start_server(&[
            "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello",
            "HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n3\r\nhel\r\n2;x\r\nlo\r\n0\r\n\r\n",
            "HTTP/1.1 204 No Content\r\n\r\n",
            "HTTP/1.1 409 Conflict\r\nContent-Length: 2\r\nConnection: close\r\n\r\nno",
            "HTTP/1.1 200 OK\r\nX: close\r\n\r\nto the end",
        ]);
        let mut connection = Connection::new(address);
        for (status, body) in [
            (200, "hello"),
            (200, "hello"),
            (204, ""),
            (409, "no"),
            (200, "to the end"),
        ] {
            let response = connection
                .exchange(b"GET / HTTP/1.1\r\n\r\n")
                .await
                .unwrap();
            assert_eq!((response.status, response.body), (status, body.as_bytes()));
        }
    }

    #[tokio::test]
    async fn of_a_long_response_only_the_beginning_is_stored() {
        let body = "0123456789".repeat(100_000);
        let long = format!(
            "HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n{body}",
            body.len()
        );
        let responses: &'static [&'static str] = vec![
            long.leak() as &str,
            "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok",
        ]
        .leak();
        let mut connection = Connection::new(start_server(responses));
        let request = b"GET / HTTP/1.1\r\n\r\n";
        let response = connection.exchange_discarding(request).await.unwrap();
        assert!(response.body.len() > 1000 && body.as_bytes().starts_with(response.body));
        let response = connection.exchange_discarding(request).await.unwrap();
        assert_eq!(response.body, b"ok");
    }
}
