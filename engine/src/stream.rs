//! Assembles the bytes of the ring into whole transactions.
//!
//! ```text
//!   ring -> input: messages, the last one perhaps cut
//!             | row changes go on as they come, cut or not
//!             v
//!           transaction.changes: changes of wanted tables, by table, until Commit -> Sink::transaction
//! ```
//!
//! The first bytes tell whether a message is a row change, and its table. So a change of an unwanted table is skipped
//! without being stored, and a change of a wanted table is copied once. If a transaction exceeds the memory limit, only
//! the tables that it changes are given up. Their changes so far are dropped; other tables are not affected.
//!
//! A message that cannot be decoded ends the engine: its content is lost, so no later answer would be exact.

use colstore::Sink;
use protocol::ProtocolError;
use protocol::change::{CHANGE_HEAD, StreamMessage, changed_table};
use protocol::ring::Consumer;

use crate::by_table::ByTable;
use crate::thresholds::Thresholds;

/// The number of bytes that are taken from the ring at once. Between two turns, the writer answers requests and loads
/// rows.
const TURN: usize = 1 << 20;
/// Changes up to this size are stored without asking the sink for memory. Beyond it, memory is requested in steps of
/// this size.
const ROOM_STEP: usize = 1 << 20;
/// The longest message that is no row change. Real messages are far shorter.
const LONGEST_MESSAGE: usize = 64 << 20;
const LENGTH: usize = 4;

#[derive(Debug, thiserror::Error)]
pub enum StreamError {
    #[error("change stream: {0}")]
    Message(#[from] ProtocolError),
    #[error("change stream: {0}")]
    Order(&'static str),
}

#[derive(Default)]
pub struct Stream {
    input: Vec<u8>,
    /// The number of bytes of `input` that were processed.
    at: usize,
    transaction: Option<OpenTransaction>,
    /// The row change that is being passed on. Some of its bytes may not have arrived yet.
    change: Option<RestOfChange>,
    position: u64,
    thresholds: Thresholds,
    /// The last checkpoint that the database names, if it was told.
    anchored: Option<u64>,
    /// Whether the last turn stopped before the end of `input`, so that more whole messages may follow there.
    paused: bool,
}

/// A transaction that has begun but not committed.
struct OpenTransaction {
    xid: u64,
    /// The changes of wanted tables, in the order in which they came.
    changes: ByTable,
    /// The size up to which memory for changes was granted.
    room: usize,
}

/// The part of a row change that is still to be passed on.
struct RestOfChange {
    remaining: usize,
    keep: bool,
}

impl Stream {
    /// The position: every transaction that committed below this LSN has been passed on.
    pub fn position(&self) -> u64 {
        self.position
    }

    /// The position up to which the tables' rows are complete, see [`Thresholds`].
    pub fn threshold(&self) -> u64 {
        self.thresholds.reached()
    }

    /// Returns the checkpoint that the stream has told to be anchored since the last call.
    pub fn take_anchored(&mut self) -> Option<u64> {
        self.anchored.take()
    }

    /// Whether the first `bytes` bytes ever written to the ring have been passed on.
    pub fn has_handled(&self, ring: &Consumer, bytes: u64) -> bool {
        ring.taken() - (self.input.len() - self.at) as u64 >= bytes
    }

    /// Passes on the content of the ring, up to [`TURN`] bytes. Stops early at the position `pause_at`, for which a
    /// query waits. Returns whether there was anything to pass on.
    pub fn turn(
        &mut self,
        ring: &mut Consumer,
        sink: &mut impl Sink,
        pause_at: Option<u64>,
    ) -> Result<bool, StreamError> {
        if !self.paused {
            self.input.drain(..self.at);
            self.at = 0;
            ring.read(&mut self.input, TURN);
        }
        let before = self.input.len() - self.at;
        self.paused = self.advance(sink, pause_at)?;
        Ok(self.input.len() - self.at < before)
    }

    /// Passes on the content of `input`; returns whether it paused before its end.
    fn advance(&mut self, sink: &mut impl Sink, pause_at: Option<u64>) -> Result<bool, StreamError> {
        loop {
            if let Some(change) = &mut self.change {
                let n = change.remaining.min(self.input.len() - self.at);
                if change.keep {
                    let transaction = self.transaction.as_mut().ok_or(StreamError::Order("a change without begin"))?;
                    transaction.changes.extend(&self.input[self.at..self.at + n]);
                }
                self.at += n;
                change.remaining -= n;
                if change.remaining > 0 {
                    return Ok(false);
                }
                self.change = None;
            }
            let rest = &self.input[self.at..];
            let Some((length, message)) = rest.split_first_chunk::<LENGTH>() else { return Ok(false) };
            let length = u32::from_le_bytes(*length) as usize;
            if length >= CHANGE_HEAD && message.len() < CHANGE_HEAD {
                return Ok(false);
            }
            // A message that is shorter than a change's head cannot be a change.
            let head = message.first_chunk().filter(|_| length >= CHANGE_HEAD);
            if let Some(relid) = head.and_then(|head| changed_table(*head)) {
                let transaction = self.transaction.as_mut().ok_or(StreamError::Order("a change without begin"))?;
                let bytes = LENGTH + length;
                let keep = sink.wants(relid) && transaction.make_room(sink, relid, bytes);
                self.change = Some(RestOfChange { remaining: bytes, keep });
                continue;
            }
            if length > LONGEST_MESSAGE {
                return Err(ProtocolError::TooLong(length).into());
            }
            let Some(message) = message.get(..length) else { return Ok(false) };
            let message = StreamMessage::decode(message)?;
            self.at += LENGTH + length;
            let Stream { transaction, position, thresholds, anchored, .. } = self;
            match message {
                StreamMessage::Gate { snapshot, around } if transaction.is_none() => {
                    let xmin = snapshot.xmin();
                    sink.gate(snapshot);
                    thresholds.gate_applied(xmin, *position, around);
                }
                StreamMessage::Anchored { id } if transaction.is_none() => *anchored = Some(id),
                message => Self::handle(message, transaction, position, sink)?,
            }
            if pause_at.is_some_and(|lsn| self.position >= lsn) {
                return Ok(true);
            }
        }
    }

    /// Handles messages about transactions, positions and tables, except row changes.
    fn handle(
        message: StreamMessage<'_>,
        transaction: &mut Option<OpenTransaction>,
        position: &mut u64,
        sink: &mut impl Sink,
    ) -> Result<(), StreamError> {
        if let StreamMessage::Commit { xid, lsn, time } = message {
            let Some(whole) = transaction.take_if(|t| t.xid == xid) else {
                return Err(StreamError::Order("a commit of another transaction"));
            };
            if whole.changes.bytes() > 0 {
                sink.transaction(xid, time, whole.changes.into_tables());
            }
            *position = lsn.max(*position);
            return Ok(());
        }
        if transaction.is_some() {
            return Err(StreamError::Order("a transaction was interrupted"));
        }
        match message {
            StreamMessage::Begin { xid } => {
                *transaction = Some(OpenTransaction { xid, changes: ByTable::default(), room: 0 });
            }
            StreamMessage::Position { lsn } => *position = lsn.max(*position),
            StreamMessage::Watch { generation, layout } => sink.watch(generation, layout),
            StreamMessage::Retire { relid } => sink.retire(relid),
            StreamMessage::Insert { .. }
            | StreamMessage::Update { .. }
            | StreamMessage::Delete { .. }
            | StreamMessage::Gate { .. }
            | StreamMessage::Anchored { .. }
            | StreamMessage::Commit { .. } => return Err(StreamError::Order("a change out of place")),
        }
        Ok(())
    }
}

impl OpenTransaction {
    /// Ensures that `bytes` more of the table `relid` can be stored. If they cannot, gives up all tables that the
    /// transaction has changed, and returns false.
    fn make_room(&mut self, sink: &mut impl Sink, relid: u32, bytes: usize) -> bool {
        let needed = self.changes.bytes() + bytes;
        let allocated = self.changes.turn_to(relid, bytes);
        if needed > self.room || allocated.is_err() {
            let room = needed + ROOM_STEP;
            if (needed > ROOM_STEP && !sink.has_room(self.changes.relids(), room)) || allocated.is_err() {
                // Each table with stored changes is given up.
                for table in std::mem::take(&mut self.changes).into_tables() {
                    sink.give_up(table.relid, needed);
                }
                self.room = 0;
                return false;
            }
            self.room = room;
        }
        true
    }
}

#[cfg(test)]
mod tests {
    use std::cell::RefCell;

    use colstore::TableChanges;
    use plan::{Identity, TableLayout};
    use protocol::Snapshot;
    use protocol::change::Around;
    use protocol::ring::Producer;

    use super::*;

    /// Records the calls of the sink.
    #[derive(Default)]
    struct Notes {
        wanted: Vec<u32>,
        room: usize,
        /// The tables for which memory was requested.
        asked: RefCell<Vec<Vec<u32>>>,
        told: Vec<String>,
    }

    impl Sink for Notes {
        fn wants(&self, relid: u32) -> bool {
            self.wanted.contains(&relid)
        }
        fn has_room(&self, relids: impl Iterator<Item = u32>, bytes: usize) -> bool {
            self.asked.borrow_mut().push(relids.collect());
            bytes <= self.room
        }
        fn give_up(&mut self, relid: u32, _: usize) {
            self.wanted.retain(|&w| w != relid);
            self.told.push(format!("give up {relid}"));
        }
        fn transaction(&mut self, xid: u64, _: i64, changes: Vec<TableChanges>) {
            let mut text = format!("{xid}:");
            for table in changes {
                let mut messages = &table.messages[..];
                while let Some((length, rest)) = messages.split_first_chunk::<4>() {
                    let (change, rest) = rest.split_at(u32::from_le_bytes(*length) as usize);
                    match StreamMessage::decode(change).unwrap() {
                        StreamMessage::Insert { relid, row } if relid == table.relid => {
                            text += &format!(" {relid}+{}", row.len());
                        }
                        other => text += &format!(" {other:?}"),
                    }
                    messages = rest;
                }
            }
            self.told.push(text);
        }
        fn gate(&mut self, snapshot: Snapshot) {
            self.told.push(format!("gate {}", snapshot.xmax));
        }
        fn watch(&mut self, generation: u64, layout: TableLayout) {
            self.told.push(format!("watch {} {generation}", layout.relid));
            self.wanted.push(layout.relid);
        }
        fn retire(&mut self, relid: u32) {
            self.told.push(format!("retire {relid}"));
        }
    }

    fn encode(messages: &[StreamMessage<'_>]) -> Vec<u8> {
        let mut bytes = Vec::new();
        messages.iter().for_each(|m| m.encode(&mut bytes));
        bytes
    }

    /// Sends the bytes through a ring in pieces of at most `piece` bytes.
    fn feed(notes: &mut Notes, stream: &mut Stream, bytes: &[u8], piece: usize) -> Result<(), StreamError> {
        let (mut producer, fd) = Producer::create(4096).unwrap();
        let mut ring = Consumer::open(fd).unwrap();
        for piece in bytes.chunks(piece) {
            assert_eq!(producer.write(piece), piece.len());
            stream.turn(&mut ring, notes, None)?;
        }
        Ok(())
    }

    fn layout(relid: u32) -> TableLayout {
        TableLayout { relid, fingerprint: 0, columns: Vec::new(), identity: Identity::Address }
    }

    #[test]
    fn messages_arrive_whole_however_they_are_cut() {
        let row = [7; 300];
        let bytes = encode(&[
            StreamMessage::Watch { generation: 4, layout: layout(1) },
            StreamMessage::Begin { xid: 10 },
            StreamMessage::Insert { relid: 1, row: &row },
            StreamMessage::Insert { relid: 2, row: &row },
            StreamMessage::Insert { relid: 1, row: &[] },
            StreamMessage::Commit { xid: 10, lsn: 500, time: 0 },
            StreamMessage::Begin { xid: 11 },
            StreamMessage::Delete { relid: 2, key: &row },
            StreamMessage::Commit { xid: 11, lsn: 600, time: 0 },
            StreamMessage::Gate { snapshot: Snapshot::new(12, vec![]), around: Around::default() },
            StreamMessage::Position { lsn: 550 },
            StreamMessage::Retire { relid: 1 },
        ]);
        for piece in (1..40).chain([299, 1000, 4096]) {
            let (mut notes, mut stream) = (Notes::default(), Stream::default());
            feed(&mut notes, &mut stream, &bytes, piece).unwrap();
            assert_eq!(notes.told, ["watch 1 4", "10: 1+300 1+0", "gate 12", "retire 1"]);
            assert_eq!(stream.position(), 600, "a position never goes back");
            assert_eq!(stream.input.len(), stream.at);
        }
    }

    #[test]
    fn it_pauses_where_somebody_waits() {
        let (mut producer, fd) = Producer::create(4096).unwrap();
        let mut ring = Consumer::open(fd).unwrap();
        let (mut notes, mut stream) = (Notes::default(), Stream::default());
        let positions: Vec<_> = (1..=10).map(|i| StreamMessage::Position { lsn: i * 10 }).collect();
        producer.write(&encode(&positions));
        let written = ring.written();
        assert!(stream.turn(&mut ring, &mut notes, Some(35)).unwrap());
        assert_eq!(stream.position(), 40);
        assert!(stream.has_handled(&ring, 4) && !stream.has_handled(&ring, written));
        assert!(stream.turn(&mut ring, &mut notes, None).unwrap());
        assert_eq!(stream.position(), 100);
        assert!(stream.has_handled(&ring, written));
        assert!(!stream.turn(&mut ring, &mut notes, None).unwrap());
    }

    #[test]
    fn a_message_may_be_longer_than_a_turn() {
        let snapshot = Snapshot::new(u64::MAX, (1 << 62..(1 << 62) + 400_000).collect());
        let bytes =
            encode(&[StreamMessage::Gate { snapshot, around: Around::default() }, StreamMessage::Position { lsn: 7 }]);
        assert!(bytes.len() > 2 * TURN);
        let (mut notes, mut stream) = (Notes::default(), Stream::default());
        feed(&mut notes, &mut stream, &bytes, 4096).unwrap();
        assert_eq!((notes.told.len(), stream.position()), (1, 7));
    }

    #[test]
    fn a_transaction_without_room_costs_its_tables_only() {
        let row = vec![0; 900_000];
        let mut messages = vec![StreamMessage::Begin { xid: 10 }];
        messages.extend([1, 2, 1, 2].map(|relid| StreamMessage::Insert { relid, row: &row }));
        messages.push(StreamMessage::Insert { relid: 3, row: &row });
        messages.push(StreamMessage::Commit { xid: 10, lsn: 500, time: 0 });
        let (mut notes, mut stream) =
            (Notes { wanted: vec![1, 2, 3], room: 3 << 20, ..Notes::default() }, Stream::default());
        feed(&mut notes, &mut stream, &encode(&messages), 4096).unwrap();
        assert_eq!(notes.told, ["give up 1", "give up 2", "10: 3+900000"]);
        assert_eq!(*notes.asked.borrow(), [[1, 2]]);
    }

    #[test]
    fn a_single_row_without_room_is_not_held() {
        let row = vec![0; 8 << 20];
        let bytes = encode(&[StreamMessage::Begin { xid: 10 }, StreamMessage::Insert { relid: 1, row: &row }]);
        let (mut notes, mut stream) = (Notes { wanted: vec![1], room: 3 << 20, ..Notes::default() }, Stream::default());
        feed(&mut notes, &mut stream, &bytes, 4096).unwrap();
        assert_eq!(notes.told, ["give up 1"]);
        assert!(stream.input.capacity() < 1 << 20);
    }

    #[test]
    fn the_changes_of_many_tables_are_handed_on_by_table() {
        let mut messages = vec![StreamMessage::Begin { xid: 10 }];
        messages.extend([2, 1, 2, 3, 1].map(|relid| StreamMessage::Insert { relid, row: &[0; 9][..relid as usize] }));
        messages.push(StreamMessage::Commit { xid: 10, lsn: 500, time: 0 });
        let (mut notes, mut stream) = (Notes { wanted: vec![1, 2], ..Notes::default() }, Stream::default());
        feed(&mut notes, &mut stream, &encode(&messages), 7).unwrap();
        assert_eq!(notes.told, ["10: 2+2 2+2 1+1 1+1"]);
    }

    #[test]
    fn what_is_out_of_order_or_not_understood_is_an_error() {
        let begin = StreamMessage::Begin { xid: 1 };
        let insert = StreamMessage::Insert { relid: 1, row: b"row" };
        let bad = [
            encode(&[insert]),
            encode(&[begin, StreamMessage::Begin { xid: 2 }]),
            encode(&[StreamMessage::Commit { xid: 1, lsn: 1, time: 0 }]),
            encode(&[StreamMessage::Begin { xid: 1 }, StreamMessage::Commit { xid: 2, lsn: 1, time: 0 }]),
            encode(&[StreamMessage::Begin { xid: 1 }, StreamMessage::Position { lsn: 1 }]),
            vec![1, 0, 0, 0, 99],
            vec![0, 0, 0, 0, 1, 1, 1, 1, 1],
            vec![255, 255, 255, 255, 7, 0, 0, 0, 0],
        ];
        for bytes in bad {
            let (mut notes, mut stream) = (Notes::default(), Stream::default());
            assert!(feed(&mut notes, &mut stream, &bytes, 4096).is_err(), "{bytes:?}");
        }
    }
}
