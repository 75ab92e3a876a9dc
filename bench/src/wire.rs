//! A client that returns the server's messages unchanged, as bytes.

use std::collections::HashMap;
use std::error::Error;
use std::fmt::{self, Display};
use std::io::{BufRead, BufReader, ErrorKind, Read, Write};
use std::net::TcpStream;
use std::os::unix::net::UnixStream;
use std::time::{Duration, Instant};

use postgres::Config;
use postgres::config::Host;
use postgres::error::SqlState;

use crate::Result;

pub struct Wire {
    server: BufReader<Box<dyn Stream>>,
    reported: HashMap<String, String>,
}

trait Stream: Read + Write + Send {}

impl<T: Read + Write + Send> Stream for T {}

/// A message from the server: its kind and its content.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Message {
    pub kind: u8,
    pub content: Vec<u8>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Form {
    /// One statement in the simple protocol, with values as text.
    Simple,
    /// A portal with all values in one format ([`TEXT`], [`BINARY`], or an invalid one), fetching `rows` rows at once
    /// (0: all).
    Portal { format: u16, rows: u32 },
}

pub const TEXT: u16 = 0;
pub const BINARY: u16 = 1;

const VERSION: u32 = 3 << 16;

/// An error that the server reports. The message has fields, each with a letter before and a zero byte after it.
#[derive(Debug)]
pub struct ServerError(String);

impl ServerError {
    fn new(content: &[u8]) -> ServerError {
        ServerError(String::from_utf8_lossy(content).into_owned())
    }

    pub fn is(&self, state: &SqlState) -> bool {
        self.0.split('\0').any(|field| field.strip_prefix('C') == Some(state.code()))
    }
}

impl Display for ServerError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0.replace('\0', " "))
    }
}

impl Error for ServerError {}

/// The error for a server to which this simple client cannot log in.
#[derive(Debug)]
pub struct Unsuited(String);

impl Display for Unsuited {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl Error for Unsuited {}

impl Wire {
    /// Connects. This client cannot send passwords, so the server must accept it without one.
    pub fn connect(config: &Config) -> Result<Wire> {
        let port = config.get_ports().first().copied().unwrap_or(5432);
        let stream: Box<dyn Stream> = match config.get_hosts().first() {
            Some(Host::Unix(directory)) => Box::new(UnixStream::connect(directory.join(format!(".s.PGSQL.{port}")))?),
            Some(Host::Tcp(name)) => {
                let stream = TcpStream::connect((name.as_str(), port))?;
                stream.set_nodelay(true)?;
                Box::new(stream)
            }
            None => return Err(Unsuited("the connection string has no host".into()).into()),
        };
        let mut wire = Wire { server: BufReader::with_capacity(1 << 16, stream), reported: HashMap::new() };
        let user = config.get_user().ok_or_else(|| Unsuited("the connection string has no user".into()))?;
        let database = config.get_dbname().unwrap_or(user);
        let mut hello = VERSION.to_be_bytes().to_vec();
        for text in ["user", user, "database", database, ""] {
            hello.extend(text.as_bytes());
            hello.push(0);
        }
        wire.send_content(&hello)?;
        loop {
            let message = wire.read()?;
            match message.kind {
                b'Z' => return Ok(wire),
                b'R' if message.content != [0; 4] => {
                    return Err(Unsuited(format!(
                        "{user} has to log in by trust or peer: times are taken by a client that knows no passwords"
                    ))
                    .into());
                }
                b'E' => return Err(ServerError::new(&message.content).into()),
                _ => {}
            }
        }
    }

    /// The server's answer to a query: the description of the rows, the rows, and the completion; or the error.
    pub fn ask(&mut self, sql: &str, form: Form) -> Result<Vec<Message>> {
        match form {
            Form::Simple => self.send(b'Q', &[sql.as_bytes(), b"\0"].concat())?,
            Form::Portal { format, rows } => {
                self.bind(sql, format)?;
                self.send(b'D', b"P\0")?;
                let execute = [b"\0", &rows.to_be_bytes()[..]].concat();
                self.send(b'E', &execute)?;
                // Flush: without it, the server would wait for more messages before it answers.
                self.send(b'H', b"")?;
                let mut all = Vec::new();
                loop {
                    let message = self.read()?;
                    let kind = message.kind;
                    all.push(message);
                    match kind {
                        // PortalSuspended: the portal has more rows.
                        b's' => {
                            self.send(b'E', &execute)?;
                            self.send(b'H', b"")?;
                        }
                        b'C' | b'E' => break,
                        _ => {}
                    }
                }
                self.send(b'S', b"")?;
                all.extend(self.read_until_ready()?);
                return Ok(all);
            }
        }
        self.read_until_ready()
    }

    /// The description of a statement's rows, without running it; or the error.
    pub fn describe(&mut self, sql: &str) -> Result<Message> {
        self.bind(sql, TEXT)?;
        self.send(b'D', b"P\0")?;
        self.send(b'S', b"")?;
        let answer = self.read_until_ready()?;
        let told = answer.into_iter().find(|message| matches!(message.kind, b'T' | b'n' | b'E'));
        told.ok_or_else(|| "the server has described nothing".into())
    }

    /// Runs a query. Returns the time until the last row has arrived, and the number of rows; `None` if the query was
    /// cancelled. Rows are sent in binary form, and are not decoded.
    pub fn timed(&mut self, sql: &str) -> Result<Option<(Duration, usize)>> {
        let start = Instant::now();
        self.bind(sql, BINARY)?;
        self.send(b'E', &[0; 5])?;
        self.send(b'S', b"")?;
        let (mut rows, mut error) = (0, None);
        loop {
            let (kind, length) = self.head()?;
            if kind == b'D' {
                // Decoding the rows would take more processor time here than backend and engine need for the query.
                self.skip(length)?;
                rows += 1;
                continue;
            }
            let content = self.content(length)?;
            match kind {
                b'E' => error = Some(ServerError::new(&content)),
                b'Z' => break,
                _ => {}
            }
        }
        match error {
            None => Ok(Some((start.elapsed(), rows))),
            Some(error) if error.is(&SqlState::QUERY_CANCELED) => Ok(None),
            Some(error) => Err(error.into()),
        }
    }

    /// Runs a statement that must not fail.
    pub fn run(&mut self, sql: &str) -> Result<()> {
        match self.ask(sql, Form::Simple)?.into_iter().find(|message| message.kind == b'E') {
            Some(error) => Err(format!("{sql}: {}", ServerError::new(&error.content)).into()),
            None => Ok(()),
        }
    }

    /// The process id of this connection's backend.
    pub fn backend(&mut self) -> Result<u32> {
        let answer = self.ask("SELECT pg_backend_pid()", Form::Simple)?;
        let row = answer.iter().find(|message| message.kind == b'D').ok_or("the server has no process")?;
        // The row has one value. Its message consists of the number of values (2 bytes), the value's length (4 bytes)
        // and the text.
        Ok(String::from_utf8_lossy(row.content.get(6..).unwrap_or_default()).parse()?)
    }

    /// Prepares a query and binds it to the unnamed portal.
    fn bind(&mut self, sql: &str, format: u16) -> Result<()> {
        self.send(b'P', &[b"\0", sql.as_bytes(), b"\0\0\0"].concat())?;
        let formats = [1u16.to_be_bytes(), format.to_be_bytes()].concat();
        self.send(b'B', &[b"\0\0\0\0\0\0", &formats[..]].concat())
    }

    fn send(&mut self, kind: u8, content: &[u8]) -> Result<()> {
        self.server.get_mut().write_all(&[kind])?;
        self.send_content(content)
    }

    fn send_content(&mut self, content: &[u8]) -> Result<()> {
        let length = content.len() as u32 + 4;
        let message = [&length.to_be_bytes()[..], content].concat();
        Ok(self.server.get_mut().write_all(&message)?)
    }

    /// The value of a setting that the server has reported last, if it reports this setting.
    pub fn reported(&self, setting: &str) -> Option<&str> {
        self.reported.get(setting).map(String::as_str)
    }

    fn read(&mut self) -> Result<Message> {
        let (kind, length) = self.head()?;
        let content = self.content(length)?;
        if kind == b'S' {
            let mut texts = content.split(|byte| *byte == 0).map(|text| String::from_utf8_lossy(text).into_owned());
            if let (Some(setting), Some(value)) = (texts.next(), texts.next()) {
                self.reported.insert(setting, value);
            }
        }
        Ok(Message { kind, content })
    }

    /// A message's kind, and the length of its content.
    #[inline]
    fn head(&mut self) -> Result<(u8, usize)> {
        let mut head = [0; 5];
        self.server.read_exact(&mut head)?;
        Ok((head[0], u32::from_be_bytes([head[1], head[2], head[3], head[4]]) as usize - 4))
    }

    fn content(&mut self, length: usize) -> Result<Vec<u8>> {
        let mut content = vec![0; length];
        self.server.read_exact(&mut content)?;
        Ok(content)
    }

    #[inline]
    fn skip(&mut self, mut length: usize) -> Result<()> {
        while length > 0 {
            let there = match self.server.fill_buf() {
                Ok(there) => there.len().min(length),
                Err(error) if error.kind() == ErrorKind::Interrupted => continue,
                Err(error) => return Err(error.into()),
            };
            if there == 0 {
                return Err("the server has closed the connection".into());
            }
            self.server.consume(there);
            length -= there;
        }
        Ok(())
    }

    fn read_until_ready(&mut self) -> Result<Vec<Message>> {
        let mut all = Vec::new();
        loop {
            let message = self.read()?;
            if message.kind == b'Z' {
                return Ok(all);
            }
            all.push(message);
        }
    }
}
