//! Surveys of a table's columns. The writer takes a snapshot, and the connection's own thread reads it.

use colstore::{OutOfMemory, Survey};
use protocol::Result;
use protocol::frame::Kind;
use protocol::request::Refusal;
use protocol::survey::{ColumnSurvey, SurveyRequest, TableSurvey};
use tokio::sync::oneshot;

use crate::peer::{Peer, Work};
use crate::shared::Shared;
use crate::writer::Command;

/// Answers a request for a survey. An error means that the connection can no longer be used.
pub fn answer(peer: &mut Peer, shared: &Shared, request: SurveyRequest) -> Result<()> {
    let by_chunk = request.by_chunk;
    let (reply, survey) = oneshot::channel();
    shared.writer.command(Command::Survey { request, reply });
    let survey = match peer.verdict(survey)? {
        Ok(survey) => survey,
        Err(refusal) => return Ok(peer.refuse(&refusal)?),
    };
    let found = if by_chunk { chunks(peer, &survey)? } else { columns(peer, &survey)? };
    // The snapshot must not be held while the client reads the answer.
    drop(survey);
    match found {
        Ok(found) => peer.send(Kind::Survey, &found)?,
        Err(refused) => peer.refuse(&Refusal::OutOfMemory { what: refused.to_string() })?,
    }
    Ok(())
}

fn columns(peer: &mut Peer, survey: &Survey) -> Result<std::result::Result<TableSurvey, OutOfMemory>> {
    let mut work = Work::new();
    let mut columns = Vec::new();
    for column in 0..survey.column_count() {
        match survey.column(column, || work.goes_on(peer))? {
            Ok(found) => columns.push(found),
            Err(refused) => return Ok(Err(refused)),
        }
    }
    Ok(Ok(TableSurvey { columns, chunks: Vec::new() }))
}

fn chunks(peer: &mut Peer, survey: &Survey) -> Result<std::result::Result<TableSurvey, OutOfMemory>> {
    let mut work = Work::new();
    let mut found = TableSurvey::default();
    for column in 0..survey.column_count() {
        let (attnum, ty) = survey.described(column);
        let mut chunks = Vec::new();
        for chunk in 0..survey.chunk_count() {
            work.goes_on(peer)?;
            match survey.chunk(column, chunk) {
                Ok(chunk) => chunks.push(chunk),
                Err(refused) => return Ok(Err(refused)),
            }
        }
        found.columns.push(ColumnSurvey::of(attnum, ty));
        found.chunks.push(chunks);
    }
    Ok(Ok(found))
}
