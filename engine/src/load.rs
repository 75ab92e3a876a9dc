//! Loads of tables. Passes the rows of a loader on to the writer as fast as the writer takes them.

use std::io;
use std::sync::Arc;
use std::sync::mpsc::{Sender, channel};

use checkpoint::Error;
use protocol::frame::{self, Kind};
use protocol::request::{Changed, Go, KeptStatus, LoadRequest, Refusal};
use protocol::{ProtocolError, Result};
use tokio::sync::oneshot;

use crate::checkpoints::{Checkpoints, Dropped, Kept};
use crate::peer::Peer;
use crate::shared::Shared;
use crate::writer::{LoadStep, WriterHandle};

/// Answers a request to load. An error means that the connection can no longer be used.
pub fn answer(peer: &mut Peer, shared: &Shared, request: LoadRequest) -> Result<()> {
    let (relid, generation) = (request.relid, request.generation);
    let kept = shared.checkpoints.offer(&request);
    let (reply, begun) = oneshot::channel();
    shared.writer.load(LoadStep::Begin { request, reply });
    // From here on, the load must be ended even if the loader leaves before the answer, because the writer has been
    // told to begin the load.
    let mut load = Load { relid, generation, writer: &shared.writer, over: false };
    if let Err(refusal) = peer.verdict(begun)? {
        load.over = true;
        return Ok(peer.refuse(&refusal)?);
    }
    peer.send(Kind::Go, &Go { kept_from: kept.as_ref().map(|kept| kept.threshold) })?;
    let index = kept.as_ref().map(|kept| kept.index);
    match load.receive(peer, kept, &shared.checkpoints)? {
        Ok(from_checkpoint) => {
            if let Some(index) = index.filter(|_| from_checkpoint.blocks > 0) {
                shared.checkpoints.loaded(relid, generation, index, from_checkpoint);
            }
            Ok(peer.send_raw(Kind::Loaded, &[], || ())?)
        }
        Err((refusal, sent_all)) => {
            peer.refuse(&refusal)?;
            if sent_all { Ok(()) } else { discard(peer) }
        }
    }
}

/// A load in progress. If it is dropped before its end, the writer is told to abort it.
struct Load<'a> {
    relid: u32,
    generation: u64,
    writer: &'a WriterHandle,
    over: bool,
}

impl Load<'_> {
    /// Passes on all rows. Returns the part that has come from the checkpoint. The error is a refusal, with a flag that
    /// says whether the loader has sent its last frame.
    fn receive(
        mut self,
        peer: &mut Peer,
        kept: Option<Kept>,
        checkpoints: &Checkpoints,
    ) -> Result<std::result::Result<KeptStatus, (Refusal, bool)>> {
        let (relid, generation) = (self.relid, self.generation);
        let (refused, refusal) = channel();
        let mut payload = Vec::new();
        let mut from_checkpoint = KeptStatus::default();
        if let Some(kept) = kept {
            let dropped = receive_changed(peer)?;
            (from_checkpoint.blocks, from_checkpoint.changed_blocks) = dropped.blocks();
            if from_checkpoint.blocks > 0
                && let Err(error) = self.pass_on(peer, kept, dropped, &refused)
            {
                checkpoints.damaged(relid, &error);
                return Ok(Err((Refusal::Protocol { what: "the checkpoint is damaged".into() }, false)));
            }
        }
        loop {
            match peer.read(&mut payload)? {
                Some(Kind::Rows) => {
                    if let Ok(refusal) = refusal.try_recv() {
                        return Ok(Err((refusal, false)));
                    }
                    let rows = std::mem::take(&mut payload);
                    self.writer.load(LoadStep::Rows { relid, generation, rows, refused: refused.clone() });
                }
                Some(Kind::LoadEnd) => break,
                Some(_) => return Err(unexpected()),
                None => return Err(ProtocolError::Truncated),
            }
        }
        let rows = payload.as_slice().try_into().map(u64::from_le_bytes).map_err(|_| ProtocolError::Truncated)?;
        let (reply, ended) = oneshot::channel();
        self.writer.load(LoadStep::End { relid, generation, rows, reply });
        let end = peer.verdict(ended)?;
        // The writer processes steps in order. So if the writer has refused any rows, that refusal has arrived by now.
        match refusal.try_recv().map_or(end, Err) {
            Ok(all) => {
                self.over = true;
                from_checkpoint.rows = all - rows;
                Ok(Ok(from_checkpoint))
            }
            Err(refusal) => Ok(Err((refusal, true))),
        }
    }
}

impl Load<'_> {
    /// Passes on the chunks of a checkpoint.
    fn pass_on(
        &self,
        peer: &Peer,
        mut kept: Kept,
        dropped: Dropped,
        refused: &Sender<Refusal>,
    ) -> std::result::Result<(), Error> {
        let (relid, generation, dropped) = (self.relid, self.generation, Arc::new(dropped));
        self.writer.load(LoadStep::Expect { relid, generation, rows: kept.rows() });
        // A loader that gives way to DDL leaves, and then the rest is in vain.
        while !peer.is_gone()
            && let Some(chunk) = kept.next_chunk()?
        {
            let (dropped, refused) = (dropped.clone(), refused.clone());
            self.writer.load(LoadStep::Chunk { relid, generation, chunk, dropped, refused });
        }
        Ok(())
    }
}

/// Receives the list of blocks that were changed since a checkpoint.
fn receive_changed(peer: &mut Peer) -> Result<Dropped> {
    let (mut dropped, mut payload) = (Dropped::default(), Vec::new());
    loop {
        match peer.read(&mut payload)? {
            Some(Kind::Changed) => {
                let part: Changed = frame::parse(&payload)?;
                dropped.add(&part);
                if part.last {
                    return Ok(dropped);
                }
            }
            Some(_) => return Err(unexpected()),
            None => return Err(ProtocolError::Truncated),
        }
    }
}

impl Drop for Load<'_> {
    fn drop(&mut self) {
        if !self.over {
            self.writer.load(LoadStep::Abort { relid: self.relid, generation: self.generation });
        }
    }
}

/// Reads and drops the loader's frames after a refusal, because a loader reads the answer only after it has sent
/// everything.
fn discard(peer: &mut Peer) -> Result<()> {
    let mut payload = Vec::new();
    loop {
        match peer.read(&mut payload)? {
            Some(Kind::Rows | Kind::Changed) => {}
            Some(Kind::LoadEnd) | None => return Ok(()),
            Some(_) => return Err(unexpected()),
        }
    }
}

fn unexpected() -> ProtocolError {
    io::Error::new(io::ErrorKind::InvalidData, "unexpected frame during a load").into()
}
