//! The clients: backends with queries, and loaders with rows.

use std::io::Write;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};

use arrow_array::RecordBatch;
use arrow_array::cast::AsArray;
use arrow_array::types::{Decimal128Type, Int64Type};
use arrow_ipc::reader::StreamDecoder;
use plan::Plan;
use protocol::Snapshot;
use protocol::frame::{self, Kind};
use protocol::request::{
    Done, Failure, Hello, Limits, LoadRequest, QueryRequest, Ready, Refusal, Request, SentRows, Status, encode_sent,
};

use crate::accounts;
use crate::worker::PATIENCE;

pub struct Client {
    pub stream: UnixStream,
    socket: PathBuf,
}

#[derive(Debug)]
pub enum Answer {
    Rows(Rows),
    Refused(Refusal),
    Failed(Failure),
}

#[derive(Debug)]
pub struct Rows {
    pub ready: Ready,
    pub batches: Vec<RecordBatch>,
    pub done: Done,
    pub pieces: u64,
}

impl Client {
    pub fn connect(socket: &Path) -> Client {
        let mut client = Client::connect_raw(socket);
        client.send(Kind::Hello, &Hello { version: protocol::VERSION });
        client
    }

    /// Connects without a greeting.
    pub fn connect_raw(socket: &Path) -> Client {
        let stream = UnixStream::connect(socket).unwrap();
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        Client { stream, socket: socket.to_owned() }
    }

    pub fn send<T: serde::Serialize>(&mut self, kind: Kind, message: &T) {
        frame::write(&mut self.stream, kind, message).unwrap();
    }

    /// Sends a request. If the engine has closed the connection because it was idle, a new one is made.
    fn request(&mut self, request: &Request) {
        if frame::write(&mut self.stream, Kind::Request, request).is_err() {
            *self = Client::connect(&self.socket);
            self.send(Kind::Request, request);
        }
    }

    /// The next frame, except messages that only tell how the query is doing; `None` at the end of the connection.
    pub fn receive(&mut self, payload: &mut Vec<u8>) -> Option<Kind> {
        loop {
            match frame::read(&mut self.stream, payload).unwrap() {
                Some(Kind::Alive | Kind::Phase) => {}
                other => return other,
            }
        }
    }

    pub fn refusal(&mut self) -> Refusal {
        let mut payload = Vec::new();
        assert_eq!(self.receive(&mut payload), Some(Kind::Refused));
        frame::parse(&payload).unwrap()
    }

    pub fn status(&mut self) -> Status {
        self.request(&Request::Status);
        let mut payload = Vec::new();
        assert_eq!(self.receive(&mut payload), Some(Kind::Status));
        frame::parse(&payload).unwrap()
    }

    pub fn ask(&mut self, request: &QueryRequest) {
        self.request(&Request::Query(Box::new(request.clone())));
    }

    /// Sends a request with rows that are sent along.
    pub fn ask_with(&mut self, sent: &[SentRows], request: &QueryRequest) {
        self.stream.write_all(&encode_sent(sent)).unwrap();
        self.ask(request);
    }

    pub fn query(&mut self, request: &QueryRequest) -> Answer {
        self.ask(request);
        self.answer()
    }

    pub fn rows(&mut self, request: &QueryRequest) -> Rows {
        self.ask(request);
        self.whole()
    }

    /// The rows of the answer; panics if it is anything else.
    pub fn whole(&mut self) -> Rows {
        match self.answer() {
            Answer::Rows(rows) => rows,
            other => panic!("{other:?}"),
        }
    }

    pub fn answer(&mut self) -> Answer {
        let mut payload = Vec::new();
        match self.receive(&mut payload) {
            Some(Kind::Ready) => {}
            Some(Kind::Refused) => return Answer::Refused(frame::parse(&payload).unwrap()),
            Some(Kind::Failed) => return Answer::Failed(frame::parse(&payload).unwrap()),
            other => panic!("{other:?}"),
        }
        let ready = frame::parse(&payload).unwrap();
        let (mut decoder, mut batches, mut pieces) = (StreamDecoder::new(), Vec::new(), 0);
        loop {
            match self.receive(&mut payload) {
                Some(Kind::Arrow) => {
                    pieces += 1;
                    let mut piece = std::mem::take(&mut payload).into();
                    while let Some(batch) = decoder.decode(&mut piece).unwrap() {
                        batches.push(batch);
                    }
                }
                Some(Kind::Done) => {
                    decoder.finish().unwrap();
                    return Answer::Rows(Rows { ready, batches, done: frame::parse(&payload).unwrap(), pieces });
                }
                Some(Kind::Failed) => return Answer::Failed(frame::parse(&payload).unwrap()),
                Some(Kind::Refused) => return Answer::Refused(frame::parse(&payload).unwrap()),
                other => panic!("{other:?}"),
            }
        }
    }
}

impl Rows {
    pub fn count(&self) -> u64 {
        self.batches.iter().map(|b| b.num_rows() as u64).sum()
    }

    /// All values of an integer column.
    pub fn ints(&self, column: usize) -> Vec<i64> {
        self.batches.iter().flat_map(|b| b.column(column).as_primitive::<Int64Type>().values().to_vec()).collect()
    }

    /// The only value of a column of sums.
    pub fn sum(&self, column: usize) -> i128 {
        assert_eq!(self.count(), 1);
        self.batches[0].column(column).as_primitive::<Decimal128Type>().value(0)
    }
}

/// A query as a backend sends it, with the fingerprint of each table of accounts.
pub fn request(plan: Plan, (snapshot, lsn): (Snapshot, u64)) -> QueryRequest {
    let fingerprints = plan.tables().map(|_| accounts::FINGERPRINT).collect();
    QueryRequest {
        plan,
        backend: 0,
        query_id: 0,
        user: 10,
        params: Vec::new(),
        snapshot,
        lsn,
        fingerprints,
        max_wait_ms: 20_000,
        observed: false,
        random_joins: None,
        limits: Limits::default(),
        verifies: false,
    }
}

/// A loader.
pub struct Load {
    client: Client,
    buffer: Vec<u8>,
    rows: u64,
}

impl Load {
    pub fn begin(mut client: Client, relid: u32, generation: u64, snapshot: Snapshot) -> Result<Load, Refusal> {
        let request = LoadRequest { relid, generation, fingerprint: accounts::FINGERPRINT, snapshot, anchor: None };
        client.send(Kind::Request, &Request::Load(request));
        let mut payload = Vec::new();
        match client.receive(&mut payload) {
            Some(Kind::Go) => Ok(Load { client, buffer: Vec::new(), rows: 0 }),
            Some(Kind::Refused) => Err(frame::parse(&payload).unwrap()),
            other => panic!("{other:?}"),
        }
    }

    pub fn row(&mut self, row: &accounts::Account) {
        row.write(&mut self.buffer);
        self.rows += 1;
        if self.buffer.len() >= 128 << 10 {
            self.flush();
        }
    }

    pub fn flush(&mut self) {
        self.client.stream.write_all(&frame::encode_raw(Kind::Rows, &self.buffer)).unwrap();
        self.buffer.clear();
    }

    /// Sends bytes that cannot be decoded as rows.
    pub fn garbage(&mut self, bytes: &[u8]) {
        self.buffer.extend_from_slice(bytes);
        self.flush();
    }

    pub fn end(mut self) -> Result<(), Refusal> {
        if !self.buffer.is_empty() {
            self.flush();
        }
        let end = frame::encode_raw(Kind::LoadEnd, &self.rows.to_le_bytes());
        self.client.stream.write_all(&end).unwrap();
        let mut payload = Vec::new();
        match self.client.receive(&mut payload) {
            Some(Kind::Loaded) => Ok(()),
            Some(Kind::Refused) => Err(frame::parse(&payload).unwrap()),
            other => panic!("{other:?}"),
        }
    }
}
