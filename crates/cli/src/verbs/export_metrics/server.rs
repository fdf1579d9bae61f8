//! Serves the metrics by HTTP.
//!
//! It answers `GET` and `HEAD` of `/metrics`, one request for each connection (RFC 9112). Time, size
//! of a request and number of connections are bounded, so a client that is slow or hostile costs
//! little and cannot keep others out for long.

use std::io::{self, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::Context;

use super::text::CONTENT_TYPE;

/// Longest head of a request. Prometheus sends less than 1 KiB.
const LONGEST_HEAD: usize = 8 << 10;
/// Most connections at a time; each has a thread.
const MOST_CONNECTIONS: usize = 16;
/// Time for a whole request and for its response.
const LIMIT: Duration = Duration::from_secs(5);
/// Wait after the system could not accept a connection, such as without a free descriptor.
const PAUSE: Duration = Duration::from_millis(100);

/// A listening server.
pub struct Server {
    listener: TcpListener,
    address: SocketAddr,
}

/// The metrics that are served.
#[derive(Clone, Default)]
pub struct Published(Arc<Mutex<Arc<str>>>);

impl Published {
    /// Replaces them.
    pub fn replace(&self, text: &str) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = text.into();
    }

    fn get(&self) -> Arc<str> {
        Arc::clone(&self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

impl Server {
    /// Listens, and does not answer yet.
    ///
    /// # Errors
    /// The address is in use or is not one of this machine.
    pub fn listen(address: SocketAddr) -> anyhow::Result<Self> {
        let remedy = |error: &io::Error| match error.kind() {
            io::ErrorKind::AddrInUse => "; give another port, or end its user (ss -ltnp)",
            io::ErrorKind::AddrNotAvailable => "; give an address of this machine (ip address)",
            io::ErrorKind::PermissionDenied => "; give a port from 1024 on, or run it as root",
            _ => "",
        };
        let listener = TcpListener::bind(address)
            .map_err(|error| anyhow::anyhow!("{error}{}", remedy(&error)))
            .with_context(|| format!("cannot listen on {address}"))?;
        let address = listener.local_addr().context("cannot read the address of the server")?;
        Ok(Self { listener, address })
    }

    /// The address, with the port that was chosen.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Answers in threads of its own until the process ends.
    ///
    /// # Errors
    /// No thread can be started.
    pub fn answer(self, published: Published) -> anyhow::Result<()> {
        let accept = move || accept(&self.listener, &published);
        let thread = thread::Builder::new().name("server".to_owned()).spawn(accept);
        thread.map(drop).context("cannot start a thread for the server")
    }
}

/// A connection that counts while it is open.
struct Slot(Arc<AtomicUsize>);

impl Slot {
    fn take(open: &Arc<AtomicUsize>) -> Option<Self> {
        let slot = Self(Arc::clone(open));
        (open.fetch_add(1, Ordering::Relaxed) < MOST_CONNECTIONS).then_some(slot)
    }
}

impl Drop for Slot {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

fn accept(listener: &TcpListener, published: &Published) -> ! {
    let open = Arc::new(AtomicUsize::new(0));
    loop {
        let Ok((stream, _)) = listener.accept() else {
            thread::sleep(PAUSE);
            continue;
        };
        // One connection too many is closed, and its client sees that.
        let Some(slot) = Slot::take(&open) else { continue };
        let published = published.clone();
        let serve = move || {
            let _slot = slot;
            // The client is gone or too slow, and it can be told nothing.
            let _ = serve(stream, &published);
        };
        // Without a thread, the connection is closed.
        let _ = thread::Builder::new().name("connection".to_owned()).spawn(serve);
    }
}

fn serve(mut stream: TcpStream, published: &Published) -> io::Result<()> {
    let deadline = Instant::now() + LIMIT;
    let head = read_head(&mut stream, deadline)?;
    let response = response(head.as_deref(), published);
    let mut left = response.as_slice();
    while !left.is_empty() {
        stream.set_write_timeout(Some(rest(deadline)?))?;
        let written = stream.write(left)?;
        left = &left[written..];
    }
    // What the client still sends is read: closing over it would discard the response.
    stream.shutdown(Shutdown::Write)?;
    let mut unread = [0; 1 << 10];
    loop {
        stream.set_read_timeout(Some(rest(deadline)?))?;
        if stream.read(&mut unread)? == 0 {
            return Ok(());
        }
    }
}

/// The time that is left.
fn rest(deadline: Instant) -> io::Result<Duration> {
    let rest = deadline.saturating_duration_since(Instant::now());
    if rest.is_zero() { Err(io::ErrorKind::TimedOut.into()) } else { Ok(rest) }
}

/// Reads up to the empty line. `None` if the head is too long.
fn read_head(stream: &mut TcpStream, deadline: Instant) -> io::Result<Option<Vec<u8>>> {
    let mut head = Vec::new();
    let mut part = [0; 1 << 10];
    while !head.windows(4).any(|end| end == b"\r\n\r\n") {
        if head.len() > LONGEST_HEAD {
            return Ok(None);
        }
        stream.set_read_timeout(Some(rest(deadline)?))?;
        match stream.read(&mut part)? {
            0 => return Err(io::ErrorKind::UnexpectedEof.into()),
            read => head.extend_from_slice(&part[..read]),
        }
    }
    Ok(Some(head))
}

/// The response to a head, or to one that is too long.
fn response(head: Option<&[u8]>, published: &Published) -> Vec<u8> {
    let Some(head) = head else { return status("431 Request Header Fields Too Large", true) };
    let line = head.split(|byte| *byte == b'\r').next().unwrap_or_default();
    let mut words = line.split(|byte| *byte == b' ');
    let (Some(method), Some(path), Some(version), None) =
        (words.next(), words.next(), words.next(), words.next())
    else {
        return status("400 Bad Request", true);
    };
    if !version.starts_with(b"HTTP/1.") {
        return status("400 Bad Request", true);
    }
    let with_body = match method {
        b"GET" => true,
        b"HEAD" => false,
        _ => return status("405 Method Not Allowed", true),
    };
    match path.split(|byte| *byte == b'?').next() {
        Some(b"/metrics") => whole("200 OK", CONTENT_TYPE, &published.get(), with_body),
        _ => status("404 Not Found", with_body),
    }
}

/// A response that has nothing but its status.
fn status(status: &str, with_body: bool) -> Vec<u8> {
    let text = format!("{status}\nGET /metrics returns the metrics.\n");
    whole(status, "text/plain; charset=utf-8", &text, with_body)
}

fn whole(status: &str, content_type: &str, body: &str, with_body: bool) -> Vec<u8> {
    let allow = if status.starts_with("405") { "Allow: GET, HEAD\r\n" } else { "" };
    let head = format!(
        "HTTP/1.1 {status}\r\nContent-Type: {content_type}\r\nContent-Length: {}\r\n{allow}\
         X-Content-Type-Options: nosniff\r\nConnection: close\r\n\r\n",
        body.len()
    );
    [head.as_bytes(), if with_body { body.as_bytes() } else { b"" }].concat()
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc;

    use numapilot_test_kit::damaged_bytes;
    use proptest::prelude::*;

    use super::*;

    fn answer(head: &[u8]) -> String {
        let published = Published::default();
        published.replace("a 1\n");
        String::from_utf8(response(Some(head), &published)).unwrap()
    }

    #[test]
    fn metrics_are_served_and_nothing_else() {
        let got = answer(b"GET /metrics HTTP/1.1\r\nHost: x\r\n\r\n");
        assert!(got.starts_with("HTTP/1.1 200 OK\r\n") && got.ends_with("\r\n\r\na 1\n"), "{got}");
        assert!(got.contains("Content-Length: 4\r\n") && got.contains(CONTENT_TYPE), "{got}");
        let head = answer(b"HEAD /metrics?x=1 HTTP/1.0\r\n\r\n");
        assert!(head.contains("Content-Length: 4\r\n") && head.ends_with("\r\n\r\n"), "{head}");
        for (request, status) in [
            ("GET / HTTP/1.1\r\n\r\n", "404"),
            ("GET /metrics/../etc/passwd HTTP/1.1\r\n\r\n", "404"),
            ("POST /metrics HTTP/1.1\r\n\r\n", "405"),
            ("GET /metrics\r\n\r\n", "400"),
            ("GET /metrics HTTP/2\r\n\r\n", "400"),
            ("\r\n\r\n", "400"),
        ] {
            let got = answer(request.as_bytes());
            assert!(got.starts_with(&format!("HTTP/1.1 {status} ")), "{request}: {got}");
        }
        let too_long = String::from_utf8(response(None, &Published::default())).unwrap();
        assert!(too_long.starts_with("HTTP/1.1 431 "), "{too_long}");
    }

    #[test]
    fn connections_are_bounded_and_come_back() {
        let open = Arc::new(AtomicUsize::new(0));
        let mut slots: Vec<Slot> =
            std::iter::from_fn(|| Slot::take(&open)).take(MOST_CONNECTIONS + 1).collect();
        assert_eq!(slots.len(), MOST_CONNECTIONS);
        slots.pop();
        assert!(Slot::take(&open).is_some());
    }

    #[test]
    fn a_request_that_never_ends_is_refused_and_others_are_served() {
        let server = Server::listen(([127, 0, 0, 1], 0).into()).unwrap();
        let address = server.address();
        let published = Published::default();
        published.replace("a 1\n");
        server.answer(published).unwrap();
        let (give, take) = mpsc::channel();
        thread::spawn(move || {
            let mut silent = TcpStream::connect(address).unwrap();
            let mut long = TcpStream::connect(address).unwrap();
            // The server may close the connection before it has read everything.
            let _ = long.write_all(&vec![b'x'; 2 * LONGEST_HEAD]);
            let mut refused = String::new();
            long.read_to_string(&mut refused).unwrap();
            let mut other = TcpStream::connect(address).unwrap();
            other.write_all(b"GET /metrics HTTP/1.1\r\n").unwrap();
            other.write_all(b"Host: x\r\n\r\n").unwrap();
            let mut served = String::new();
            other.read_to_string(&mut served).unwrap();
            // The silent one is closed when its time is over.
            let ended = silent.read(&mut [0; 1]).unwrap_or(0);
            give.send((refused, served, ended)).unwrap();
        });
        let (refused, served, ended) = take.recv_timeout(Duration::from_secs(60)).unwrap();
        assert!(refused.starts_with("HTTP/1.1 431 "), "{refused}");
        assert!(served.ends_with("a 1\n"), "{served}");
        assert_eq!(ended, 0);
    }

    proptest! {
        #[test]
        fn a_damaged_request_gets_a_response(head in damaged_bytes(
            b"GET /metrics HTTP/1.1\r\nHost: localhost:9899\r\nAccept: text/plain\r\n\r\n",
        )) {
            let published = Published::default();
            prop_assert!(response(Some(&head), &published).starts_with(b"HTTP/1.1 "));
        }
    }
}
